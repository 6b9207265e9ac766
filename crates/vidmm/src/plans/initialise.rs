use crate::{
    adapter::Adapter,
    plans::{Plans, Windows, initialise_table},
};

impl Plans {
    /// The paging process's tables are written by the first paging buffer, not by the CPU as in GVA-33: then a GPU sees one
    /// order of all updates (D1).
    pub(crate) fn initialise_paging_tables(&mut self, adapter: &Adapter) {
        for key in Windows::needed_tables(adapter) {
            let Windows { process, tables, .. } = &mut self.windows;
            initialise_table(adapter, *process, tables, key, &mut self.builder.steps);
        }
    }
}
