//! Root page tables: where the contexts of a process find its tables (I15).

use vidmm::contract::{FlushTlb, RootPageTable};
use vidmm::{ContextId, DeviceId, PageSize, PhysicalAddress, PlanNo, ProcessId};

use super::Audit;
use super::device::Context;
use super::dispatch::Dispatch;
use super::finding::Invariant;

/// The root table of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    pub address: PhysicalAddress,
    /// The plan that makes its entries invalid.
    pub plan: PlanNo,
}

impl Audit {
    /// The driver is told where a context finds its tables.
    pub(super) fn root_set(&mut self, id: ContextId, told: RootPageTable) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let before = context.root.replace(told).map_or(0, |before| before.num_entries);
        let (device, address) = (context.device, told.address);
        let under_way = self.fences.work.iter().find(|(_, work)| work.context == id).map(|(&signal, _)| signal);
        self.findings.check(under_way.is_none(), Invariant::Gva17, || {
            format!("{id} is told of its root table while its packet with {under_way:?} is under way")
        });
        self.findings.check(before <= told.num_entries, Invariant::Gva17, || {
            format!("the root table of {id} has {} entries, but had {before}", told.num_entries)
        });
        let root = self.root_of(device).map(|root| root.address);
        self.findings.check(root == Some(address), Invariant::I15, || {
            format!("{id} is told that its root table is at {address:?}, but it is at {root:?}")
        });
    }

    /// Work runs in a context that knows its root table, and after that was initialised.
    pub(super) fn check_root(&mut self, dispatch: Dispatch, id: ContextId) {
        if !self.adapter.has_page_tables() {
            return;
        }
        let context = self.contexts.get(&id);
        // The driver does not know a self-scheduled context: its owner's queue finds the tables by itself.
        let is_told = context.is_none_or(|context| self.fences.is_scheduled(context.engine));
        let reaches = context.is_none_or(|context| self.reaches_all(context));
        let known = context.and_then(|context| context.root).map(|root| root.address);
        let root = self.root_of(dispatch.device);
        let address = root.map(|root| root.address);
        self.findings.check(!is_told || reaches, Invariant::Gva17, || {
            format!("work is dispatched in {id}, which is told of fewer entries of its root table than there are addresses in use")
        });
        self.findings.check(!is_told || known.is_some() && known == address, Invariant::I15, || {
            format!("work is dispatched in {id}, which knows root table {known:?}, but it is at {address:?}")
        });
        if let Some(root) = root {
            self.check_gate(dispatch, root.plan);
        }
    }

    /// Addresses of a process up to `end` are in use from now on.
    pub(super) fn reach(&mut self, id: ProcessId, end: u64) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.reached = process.reached.max(end);
        }
    }

    /// Whether the root table that a context was told of has an entry for each address of its process that is in use. A log of an earlier
    /// version does not say how many it has.
    pub(super) fn reaches_all(&self, context: &Context) -> bool {
        let process = self.process_of(context.device).and_then(|id| self.processes.get(&id));
        let entries = context.root.map_or(0, |root| root.num_entries);
        let reached =
            u64::from(entries).saturating_mul(self.tables.entry_bytes(self.tables.root_level(), PageSize::Kib4));
        entries == 0 || process.is_none_or(|process| process.reached <= reached)
    }

    /// A flush is of the tables of its process.
    pub(super) fn check_flush(&mut self, op: &FlushTlb) {
        let Some(process) = self.by_process_handle.get(&op.process).and_then(|id| self.processes.get(id)) else {
            return;
        };
        let root = process.root.map(|root| root.address);
        self.findings.check(root == Some(op.root_page_table_address), Invariant::I15, || {
            let named = op.root_page_table_address;
            format!("process {} is flushed with root table {named:?}, but it is at {root:?}", op.process.0)
        });
    }

    /// The GPU has started anew: the driver must be told every root table again before work runs.
    pub(super) fn forget_told_roots(&mut self) {
        self.contexts.values_mut().for_each(|context| context.root = None);
    }

    pub(super) fn root_of(&self, device: DeviceId) -> Option<Root> {
        self.processes.get(&self.process_of(device)?)?.root
    }
}
