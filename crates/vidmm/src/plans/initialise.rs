use crate::{
    adapter::Adapter,
    plans::{Plans, Windows, initialise_table},
};

impl Plans {
    /// The paging process's tables are written before anything else, by the same writer as all other tables: then a GPU sees
    /// one order of all updates (D1, GVA-33).
    pub(crate) fn initialise_paging_tables(&mut self, adapter: &Adapter) {
        for key in Windows::needed_tables(adapter) {
            let Windows { process, tables, .. } = &mut self.windows;
            initialise_table(adapter, *process, tables, key, &mut self.builder.steps);
        }
    }
}
