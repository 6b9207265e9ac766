//! The knowledge of the rules, from the log and from what was answered.

use std::collections::BTreeMap;

use vidmm::contract::AddressingModel;
use vidmm::policy::PolicyChoice;
use vidmm::{DeviceId, MemorySegmentGroup, NumberedEvent, ProcessId};
use vidmm_trace::Audit;

use super::banks::Banks;
use super::knobs::Knobs;
use crate::digest::Digest;
use crate::features::Features;
use crate::scenario::{AdapterSettings, Fault, FaultKind, When};

/// The knowledge of a session that expects nothing.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The audit of the event log.
    pub audit: Audit,
    /// The state that follows from all events and answers, if a check asks for it.
    pub digest: Option<Digest>,
    /// How often each allocation is on the list of each device, by the answers.
    pub(super) lists: BTreeMap<(DeviceId, String), u32>,
    /// Kernels that use an allocation and have not ended.
    pub(super) users: BTreeMap<String, Vec<usize>>,
    /// Kernels of each submission.
    pub(super) kernels: BTreeMap<String, Vec<usize>>,
    /// The bytes that each process was granted as its reservation in a group.
    pub(in crate::explicit) reserved: BTreeMap<(ProcessId, MemorySegmentGroup), u64>,
    /// Engines find memory through an IOMMU, and cache what it translates: its driver must hear of all that is unmapped.
    pub(in crate::explicit) has_device_cache: bool,
    /// Page faults are made on purpose, or reported wrongly: a device may find anything that it has not made resident.
    pub(in crate::explicit) may_fault: bool,
    /// Completions are reported wrongly on purpose: work that faulted may be said to have ended.
    pub(in crate::explicit) may_misreport_ends: bool,
    /// A fault was reported that nobody understood, and the adapter was not reset since.
    pub(super) is_misreported: bool,
    /// Page faults are reported wrongly again and again, which the manager says only once of each kind.
    pub(super) misreports_again: bool,
    /// The steps are a person's. A violation that no step expects is a finding, even if a fault is made on purpose.
    pub(in crate::explicit) is_of_steps: bool,
    /// Anything is made on purpose that may put the adapter in error.
    pub(in crate::explicit) may_fail: bool,
    /// The driver is made to answer wrongly, and may describe an allocation wrongly.
    pub(in crate::explicit) may_misdescribe: bool,
    /// The manager puts off at random what it could do at once.
    pub(super) puts_off: bool,
    /// The banks of local memory.
    pub(in crate::explicit) banks: Banks,
    /// The knobs of the verifier.
    pub(in crate::explicit) knobs: Knobs,
    /// Steps of the machine when all books were looked at last.
    pub(super) audited_at: u64,
    /// Something went wrong, so that all books are looked at after the step.
    pub(super) is_trouble: bool,
}

impl Rules {
    /// The rules for an adapter with these mistakes, whose machine lacks these features. A driver that has no notifications has
    /// no cache that it must flush for them.
    pub fn new(adapter: &AdapterSettings, faults: &[Fault], lacks: Features) -> Self {
        let is_behind_io_mmu =
            matches!(adapter.addressing_model, AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal);
        let has_device_cache = is_behind_io_mmu && !lacks.contains(Features::NOTIFICATIONS);
        let forges = |fault: &Fault| {
            matches!(fault.kind, FaultKind::ForgePageFault | FaultKind::ForgePagingFault | FaultKind::Interrupt(_))
        };
        let (may_fault, may_fail) = (faults.iter().any(forges), !faults.is_empty());
        let misreports_ends = |fault: &Fault| matches!(fault.kind, FaultKind::Gpu(_) | FaultKind::LieAboutEngineReset);
        let is_report = |fault: &Fault| matches!(fault.kind, FaultKind::Interrupt(_));
        let misreports_again = faults.iter().any(|fault| is_report(fault) && !matches!(fault.when, When::Nth(_)));
        let may_misdescribe = faults.iter().any(|fault| matches!(fault.kind, FaultKind::Driver(_)));
        let mut rules = Self {
            has_device_cache,
            may_fault,
            may_fail,
            may_misreport_ends: may_fault || faults.iter().any(misreports_ends),
            may_misdescribe,
            misreports_again,
            puts_off: adapter.buggify.is_some(),
            banks: Banks::new(&adapter.banks),
            knobs: Knobs::new(adapter.verifier.into()),
            ..Self::default()
        };
        if adapter.policy == PolicyChoice::LRU {
            rules.audit.expect_order_of_use();
        }
        rules
    }

    pub fn observe(&mut self, event: &NumberedEvent) {
        self.audit.event(event);
        self.banks.observe(&self.audit, &event.event);
        if let Some(digest) = &mut self.digest {
            digest.add(event);
        }
    }
}
