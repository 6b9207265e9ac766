//! The paging process's own tables, before anything else.

use crate::{
    adapter::Adapter,
    plans::{Plans, Windows, table},
};

impl Plans {
    /// The paging process's tables are written before anything else, by the same writer as all other tables: then a GPU sees
    /// one order of all updates (D1). Where tables are written through them the CPU sets them up, since nothing is mapped yet
    /// (GVA-33).
    pub(crate) fn initialise_paging_tables(&mut self, adapter: &Adapter) {
        let by_cpu = adapter.paging_tables_by_cpu || adapter.table_views.is_some();
        let steps = &mut self.builder.steps;
        for key in Windows::needed_tables(adapter) {
            let Windows { process, tables, .. } = &mut self.windows;
            table::initialise(adapter, *process, tables, key, by_cpu, steps);
        }
        self.windows.map_own_tables(adapter, steps);
    }
}
