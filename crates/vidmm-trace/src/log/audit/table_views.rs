//! Where the paging process sees the page tables that the paging engine writes by their virtual addresses (GVA-10, GVA-61).

use vidmm::GpuVirtualAddress;
use vidmm::contract::{FlushTlb, KmdProcessHandle, PteFlags, UpdatePageTable};
use vidmm::{PageSize, PlanNo};

use super::Audit;
use super::finding::{Findings, Invariant};
use super::shadow::{Shadow, leaf_range};

/// The entries of the paging process that show tables, and not what is moved.
#[derive(Debug, Default)]
pub(super) struct TableViews {
    shadow: Shadow,
    /// The views that the CPU set up, each from its start to its end: they stay.
    own: Vec<(u64, u64)>,
}

impl TableViews {
    pub fn new(paging_process: KmdProcessHandle, remembers_invalid: bool) -> Self {
        let mut views = Self::default();
        views.shadow.tlb.paging_process = Some(paging_process);
        views.shadow.tlb.remembers_invalid = remembers_invalid;
        views
    }

    /// Notes entries that show a table, or show it no longer. Whether they are such.
    pub fn write(&mut self, op: &UpdatePageTable, findings: &mut Findings) -> bool {
        let (start, end) = leaf_range(op);
        let is_valid = op.page_table_entries.first.flags.contains(PteFlags::VALID);
        let is_mapped = self.shadow.is_mapped(op.process, start, end);
        if is_valid && op.allocation.is_some() || !is_valid && !is_mapped {
            return false;
        }
        findings.check(!(is_valid && is_mapped), Invariant::I10, || {
            let address = op.first_pte_virtual_address;
            format!("a table is mapped at {address} of the paging process before the last one there is unmapped")
        });
        if is_valid && op.update_mode.is_by_cpu() {
            self.own.push((start, end));
        }
        self.shadow.write(op);
        true
    }

    pub fn flush(&mut self, op: &FlushTlb) {
        self.shadow.tlb.flush(op);
    }

    /// A table of another process is mapped as long as it is written.
    pub fn check_empty(&mut self, plan: PlanNo, findings: &mut Findings) {
        let Some(process) = self.shadow.tlb.paging_process else { return };
        let other = self.shadow.mapped_outside(process, &self.own);
        findings.check(other.is_none(), Invariant::I14, || {
            format!("plan {plan} ends with a table mapped at {:#x} of the paging process", other.unwrap_or_default())
        });
    }

    /// All entries are gone, and no TLB knows them.
    pub fn clear(&mut self) {
        self.shadow.clear();
        self.own.clear();
    }
}

impl Audit {
    /// Entries are written through addresses that show their table, and that no TLB knows otherwise.
    pub(super) fn check_table_view(&mut self, op: &UpdatePageTable, address: GpuVirtualAddress) {
        let Some(process) = self.adapter.paging_process else { return };
        let bytes = self.tables.bytes_of(op);
        let shown = self.views.shadow.translate(process, PageSize::Kib4, address.0, bytes);
        let right = [(op.page_table_address, bytes)];
        self.findings.check(shown.as_deref() == Some(&right[..]), Invariant::I14, || {
            format!(
                "a table is written at {address} of the paging process, which must show {right:?}, but shows {shown:?}"
            )
        });
        let stale = self.views.shadow.tlb.stale_window(address.0, address.0.saturating_add(bytes));
        self.findings.check(stale.is_none(), Invariant::I05, || {
            let stale = stale.unwrap_or_default();
            format!("a table is written at {address}, but a TLB may know {stale:#x} as it was before")
        });
    }
}
