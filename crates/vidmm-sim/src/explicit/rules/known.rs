//! The knowledge of the rules, from the log and from what was answered.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use vidmm::contract::AddressingModel;
use vidmm::event::EvictReason;
use vidmm::policy::PolicyChoice;
use vidmm::{
    AllocationId, DeviceId, Event, Extent, MemorySegmentGroup, NumberedEvent, ProcessId, ReclaimResult, SegmentId,
};
use vidmm_trace::Audit;

use crate::digest::Digest;
use crate::explicit::objects::Allocation;
use crate::features::Features;
use crate::scenario::{AdapterSettings, Fault, FaultKind, When};

/// The first memory segment of all machines, whose banks a world says.
const LOCAL_MEMORY: SegmentId = SegmentId(1);

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
    /// The offered allocations, and those that a Reclaim could not commit again: their content may go at any time (RES-66).
    pub(super) offered: BTreeSet<AllocationId>,
    /// Those of them that a Reclaim could not commit again.
    pub(super) uncommitted: BTreeSet<AllocationId>,
    /// The bytes that each process was granted as its reservation in a group.
    pub(in crate::explicit) reserved: BTreeMap<(ProcessId, MemorySegmentGroup), u64>,
    /// Engines find memory through an IOMMU.
    pub(super) has_device_cache: bool,
    /// Addresses of which the device may have cached what was mapped there, and is not told again to forget it (NTF-04).
    pub(super) stale: Vec<(ProcessId, Range<u64>)>,
    /// Page faults are made on purpose, or reported wrongly.
    pub(super) forges_faults: bool,
    /// A fault was reported that nobody understood, and the adapter was not reset since.
    pub(super) is_misreported: bool,
    /// Page faults are reported wrongly again and again, which the manager says only once of each kind.
    pub(super) misreports_again: bool,
    /// Anything is made on purpose that may put the adapter in error.
    pub(super) has_faults: bool,
    /// The driver is made to answer wrongly.
    pub(super) has_driver_faults: bool,
    /// The manager puts off at random what it could do at once.
    pub(super) puts_off: bool,
    /// Where the banks of local memory end.
    bank_ends: Vec<u64>,
    /// Allocations that came to a place outside of a bank that their driver hints at, and a range there that was free.
    pub passed_over: Vec<(String, SegmentId, Extent)>,
    /// The allocations that are moving so that others have room: they go wherever they are out of the way.
    moving: BTreeSet<AllocationId>,
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
        let (forges_faults, has_faults) = (faults.iter().any(forges), !faults.is_empty());
        let is_report = |fault: &Fault| matches!(fault.kind, FaultKind::Interrupt(_));
        let misreports_again = faults.iter().any(|fault| is_report(fault) && !matches!(fault.when, When::Nth(_)));
        let has_driver_faults = faults.iter().any(|fault| matches!(fault.kind, FaultKind::Driver(_)));
        let mut rules = Self {
            has_device_cache,
            forges_faults,
            has_faults,
            has_driver_faults,
            misreports_again,
            puts_off: adapter.buggify.is_some(),
            bank_ends: adapter.banks.iter().map(|end| end.bytes()).collect(),
            ..Self::default()
        };
        if adapter.policy == PolicyChoice::Lru {
            rules.audit.expect_order_of_use();
        }
        rules
    }

    pub fn observe(&mut self, event: &NumberedEvent) {
        self.audit.event(event);
        match &event.event {
            Event::Evicted { allocation, reason: EvictReason::Moved, .. } => _ = self.moving.insert(*allocation),
            Event::Offered { allocations, .. } => self.offered.extend(allocations),
            Event::Reclaimed { allocations, results, .. } => {
                for (id, &result) in allocations.iter().zip(results) {
                    if result == ReclaimResult::NotCommitted {
                        self.uncommitted.insert(*id);
                    } else {
                        self.uncommitted.remove(id);
                        self.offered.remove(id);
                    }
                }
            }
            _ => {}
        }
        if let Some(digest) = &mut self.digest {
            digest.add(event);
        }
    }

    /// An allocation is in its new place.
    pub fn has_moved(&mut self, allocation: AllocationId) {
        self.moving.remove(&allocation);
    }

    /// A free range of a bank in which the driver of an allocation would rather have it than where it is placed (SEG-43).
    pub fn bank_passed_over(&self, of: &Allocation, segment: SegmentId, extents: &[Extent]) -> Option<Extent> {
        let [place] = extents else { return None };
        if segment != LOCAL_MEMORY || self.moving.contains(&of.id) {
            return None;
        }
        for &bank in &of.banks {
            let end = *self.bank_ends.get(usize::from(bank) - 1)?;
            let start = usize::from(bank).checked_sub(2).map_or(0, |before| self.bank_ends[before]);
            if start <= place.offset && place.end() <= end {
                return None;
            }
            let range = self.audit.free_range(segment, start..end, place.size, of.alignment);
            if range.is_some() {
                return range;
            }
        }
        None
    }

    /// Whether the driver must hear of all that is unmapped from the IOMMU: the model GPU caches what that translates.
    pub fn needs_unmap_notices(&self) -> bool {
        self.has_device_cache
    }

    /// Something went wrong.
    pub fn trouble(&mut self) {
        self.is_trouble = true;
    }

    /// Whether a device may find anything that it has not made resident.
    pub fn may_fault(&self) -> bool {
        self.forges_faults
    }

    /// Whether something is done on purpose that may put the adapter in error.
    pub fn may_fail(&self) -> bool {
        self.has_faults
    }

    /// Whether the driver may describe an allocation wrongly on purpose.
    pub fn may_misdescribe(&self) -> bool {
        self.has_driver_faults
    }
}
