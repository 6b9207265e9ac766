//! The paging process's own tables, before anything else.

use alloc::collections::VecDeque;

use crate::{
    adapter::Adapter,
    contract::PagingOperation,
    plans::{Plans, Step, Windows, initialise_table},
};

impl Plans {
    /// The paging process's tables are written before anything else, by the same writer as all other tables: then a GPU sees
    /// one order of all updates (D1). Where tables are written through them the CPU sets them up, since nothing is mapped yet
    /// (GVA-33).
    pub(crate) fn initialise_paging_tables(&mut self, adapter: &Adapter) {
        let mut steps = VecDeque::new();
        for key in Windows::needed_tables(adapter) {
            let Windows { process, tables, .. } = &mut self.windows;
            initialise_table(adapter, *process, tables, key, &mut steps);
        }
        self.windows.map_own_tables(adapter, &mut steps);
        self.builder.steps.extend(steps.into_iter().map(|step| match step {
            Step::UpdateInView(update) => Step::UpdateByCpu(update),
            Step::Operation(PagingOperation::UpdatePageTable(update)) if adapter.paging_tables_by_cpu => {
                Step::UpdateByCpu(update)
            }
            other => other,
        }));
    }
}
