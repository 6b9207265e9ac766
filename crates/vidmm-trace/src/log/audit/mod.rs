//! The audit: do the events of a run hold together?
//!
//! It knows nothing of the manager but its events. There are two ledgers of places. The one of what is *decided*
//! (`Evicted`, `Placed`) runs ahead: by it no two places may overlap, and victims must not be required. The one of what
//! is *built* follows the paging operations in their order, which is the order in which the paging engine runs them: by
//! it entries of page tables and the aperture must be right, chunks complete, notifications and flushes in time. A
//! plan's decisions pass from the first to the second when its operations begin. The host's maps in the IOMMU are a
//! third: they happen when the log says so.

mod adapter;
mod adapter_reset;
mod asleep;
mod aspects;
mod allocation;
mod aperture;
mod budgets;
mod buffers;
mod calls;
mod cleaning;
mod cpu_views;
mod content;
mod decisions;
mod demands;
mod device;
mod dispatch;
mod ends;
mod engines;
mod errors;
mod fences;
mod finding;
mod homes;
mod intervals;
mod io_mmu;
mod large_pages;
mod links;
mod list_entry;
mod lists;
mod liveness;
mod look;
mod mappings;
mod monitored;
mod names;
mod notifications;
mod offers;
mod operations;
mod paging_va;
mod passes;
mod physical;
mod places;
mod plans;
mod portions;
mod power;
mod prefetching;
mod properties;
mod purge;
mod reasons;
mod requests;
mod residency_notices;
mod resubmission;
mod roots;
mod segment;
mod shadow;
mod shares;
mod sharing;
mod stream;
mod suspension;
mod table_views;
mod tables;
mod timeouts;
mod tlb;
mod trims;
mod victim_order;
mod work;
mod zeros;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vidmm::contract::{KmdAllocationHandle, KmdProcessHandle};
use vidmm::event::EvictReason;
use vidmm::{
    AllocationId, ContextId, DeviceErrorReason, DeviceId, Event, Extent, MemorySegmentGroup, NumberedEvent,
    PhysicalAddress, PlanNo, ProcessId, SegmentId, TrimIntervals, TrimNotificationId,
};

use adapter::Adapter;
use adapter_reset::{Reset, Resets};
use allocation::{Allocation, Mapping};
use aperture::Apertures;
use aspects::Pool;
use buffers::OpenBuffer;
use demands::{Demands, Weight};
use device::{Context, Device};
use engines::Consequence;
use fences::Fences;
use finding::Findings;
pub use finding::{AuditFinding, Invariant};
use io_mmu::IoMmu;
use liveness::Liveness;
use names::Names;
use offers::RefusedMemory;
use paging_va::PagingVa;
use passes::Unfinished;
use places::{Places, Pools};
use plans::{Plans, Steps};
use portions::Portions;
use resubmission::Resubmission;
use roots::Root;
use shadow::Shadow;
use table_views::TableViews;
use tables::Tables;
use trims::AskedToTrim;
use zeros::Zeros;

use super::EventsLevel;
use crate::Segments;

/// Rebuilds from a run's events alone who was where, and checks the invariants.
///
/// Give it every event of the run, in order. A log that ends early is judged as far as it goes.
#[derive(Debug, Default)]
pub struct Audit {
    findings: Findings,
    /// Whether the log has the operations, or decisions alone.
    level: EventsLevel,
    at: u64,
    /// The time of the last event by the GPU, which may be ahead of the calls.
    occurred_at: u64,
    adapter: Adapter,
    paging_va: PagingVa,
    places: Places,
    /// The groups of segments.
    groups: Segments,
    /// The pools that were taken from since the last grant.
    taken: Pools,
    /// The allocations that leave their places and come back by the same decision, and have not yet.
    coming_back: Vec<(AllocationId, EvictReason)>,
    homes: homes::Homes,
    /// The allocation that has just left a segment because it may not be there any more.
    forced_out: Option<(AllocationId, SegmentId)>,
    apertures: Apertures,
    /// The ranges that were emptied since the last grant.
    emptied: Vec<aperture::Emptied>,
    io_mmu: IoMmu,
    tables: Tables,
    shadow: Shadow,
    views: TableViews,
    fences: Fences,
    link: cleaning::Link,
    announcements: prefetching::Announcements,
    plans: Plans,
    portions: Portions,
    /// Work was handed out before all that was decided was carried out: it is not held until then, as ForceSynchronousEvict would
    /// (RES-25).
    is_work_free: bool,
    /// The adapter is in error: nothing more is done.
    has_failed: bool,
    /// The adapter runs again after a reset, and the manager has not looked at what is due since.
    has_restarted: bool,
    /// Operations of a plan were built, so that those of adapter start are over.
    started: bool,
    open_buffer: OpenBuffer,
    building: Building,
    /// The packet of the paging engine with the last notification in a window.
    notified_in: u64,
    /// The allocations that the operations of each packet of the paging engine name.
    paged: BTreeMap<u64, BTreeSet<KmdAllocationHandle>>,
    /// An operation that the driver has not ended.
    unfinished: Option<Unfinished>,
    names: Names,
    liveness: Liveness,
    /// The demands of all processes.
    demands: Demands,
    /// The bytes of all allocations so far that could be in each pool.
    possible_bytes: BTreeMap<Pool, u64>,
    offered: BTreeSet<AllocationId>,
    /// The devices that listen for trim notifications.
    listeners: BTreeMap<TrimNotificationId, DeviceId>,
    asked_to_trim: BTreeMap<(TrimNotificationId, Option<MemorySegmentGroup>), AskedToTrim>,
    /// Views of the CPU that are to be rotated: by which plan, and what they must show.
    rotations: Vec<(AllocationId, PlanNo, (SegmentId, Vec<Extent>))>,
    /// An allocation whose owner destroyed it, and to whom it must go.
    heir: Option<(AllocationId, DeviceId)>,
    /// Devices of processes that were destroyed: they must end.
    must_end: BTreeSet<DeviceId>,
    /// Devices whose work stopped an engine, or was aborted.
    blamed: BTreeSet<DeviceId>,
    /// Processes that have lost the GPU, and one that must.
    blocked: BTreeSet<ProcessId>,
    must_block: Option<ProcessId>,
    /// An engine that has yielded or was reset: what it had is about to end.
    settling: Option<u32>,
    /// The host has just refused a backing store: what is offered may be decommitted for it.
    refused_memory: Option<RefusedMemory>,
    /// The event that must come next.
    consequence: Option<Consequence>,
    /// Packets that are handed out again, at once.
    resubmission: Vec<Resubmission>,
    /// The device whose packet an engine was to be reset for, which failed.
    suspect: Option<(DeviceId, DeviceErrorReason)>,
    /// The reset of the adapter that is going on.
    reset: Option<Reset>,
    resets: Resets,
    /// The adapter has no power.
    powered_down: bool,
    /// Allocations of equal priority must go in the order of their last uses.
    keeps_order_of_use: bool,
    /// The intervals at which devices are asked to trim.
    trim_intervals: TrimIntervals,
    /// The groups in which a process may still be told the same budget for another weight or reservation.
    reweighted: BTreeSet<MemorySegmentGroup>,
    processes: BTreeMap<ProcessId, Process>,
    by_process_handle: BTreeMap<KmdProcessHandle, ProcessId>,
    devices: BTreeMap<DeviceId, Device>,
    contexts: BTreeMap<ContextId, Context>,
    allocations: BTreeMap<AllocationId, Allocation>,
    by_handle: BTreeMap<KmdAllocationHandle, AllocationId>,
    mappings: BTreeMap<(ProcessId, u64), Mapping>,
    /// Addresses that processes have reserved: where each range begins, and its bytes.
    reservations: BTreeMap<(ProcessId, u64), u64>,
    zeros: Zeros,
    /// The mappings that are left of pages which are being cut: tables for them are set aside and may not be placed yet.
    rests: BTreeSet<(ProcessId, u64)>,
}

/// The record of a process.
#[derive(Debug)]
struct Process {
    handle: KmdProcessHandle,
    /// Its owner has destroyed it.
    has_ended: bool,
    root: Option<Root>,
    /// The address after the last that was in use so far.
    reached: u64,
    /// Where its page tables lie.
    tables: Vec<(SegmentId, Extent)>,
    weight: Weight,
    /// When nothing of it is in flight.
    stillness: asleep::Stillness,
    reservations: BTreeMap<Pool, u64>,
    /// Of groups with several segments: how much of each the log does not say.
    group_reservations: BTreeMap<MemorySegmentGroup, u64>,
    /// The budgets that it was told last; none where the log does not say what for.
    told: BTreeMap<MemorySegmentGroup, Option<budgets::Told>>,
    /// Whether a call has suspended it; and whether a submission ends that.
    suspended: Option<bool>,
    /// When it hung an engine.
    timeouts: VecDeque<u64>,
    /// The last plan that cut a page of it.
    cut_by: PlanNo,
}

impl Process {
    fn new(handle: KmdProcessHandle, at: u64) -> Self {
        Self {
            handle,
            has_ended: false,
            root: None,
            reached: 0,
            tables: Vec::new(),
            weight: Weight::default(),
            stillness: asleep::Stillness::new(at),
            reservations: BTreeMap::new(),
            group_reservations: BTreeMap::new(),
            told: BTreeMap::new(),
            suspended: None,
            timeouts: VecDeque::new(),
            cut_by: 0,
        }
    }

    /// Its weight and its reservation of a pool.
    fn part_of(&self, pool: Pool) -> (u64, u64) {
        (self.weight.value(), self.reservations.get(&pool).copied().unwrap_or(0))
    }

    fn tables_but_its_root(&self) -> impl Iterator<Item = &(SegmentId, Extent)> {
        let is_root =
            |segment, offset| self.root.is_some_and(|root| root.address == PhysicalAddress { segment, offset });
        self.tables.iter().filter(move |(segment, extent)| !is_root(*segment, extent.offset))
    }
}

/// The plan whose operations are being built; 0 if there is none.
#[derive(Debug, Default)]
struct Building {
    plan: PlanNo,
    steps: Steps,
    /// Its victims were found hidden, or reported, when memory was first used again.
    victims_checked: bool,
}

impl Audit {
    /// An audit that has seen nothing yet, and is to see every event.
    pub fn new() -> Self {
        Self::default()
    }

    /// The findings of the audit of a log that has decisions alone.
    pub const UNSEEN_IN_DECISIONS: &str = "entries of page tables and of the IOMMU, flushes, notifications, and the chunks of transfers and fills were not seen";

    /// An audit of a log that has the events of a level. Without operations it checks places, budgets, counts, fences and gates;
    /// it does not see entries of page tables and of the IOMMU, flushes, notifications, and the chunks of transfers and fills.
    pub fn of(level: EventsLevel) -> Self {
        Self { level, ..Self::default() }
    }

    /// Demands that allocations of equal priority go in the order of their last uses: what the log is of has no other policy
    /// (CRE-31a).
    pub fn expect_order_of_use(&mut self) {
        self.keeps_order_of_use = true;
    }

    /// Whether the log says how plans are carried out.
    fn sees_operations(&self) -> bool {
        self.level == EventsLevel::Full
    }

    /// Whether the adapter has power and runs, and is neither in error nor being reset.
    fn is_up(&self) -> bool {
        !(self.powered_down || self.has_failed || self.reset.is_some())
    }

    /// Looks at the next event.
    pub fn event(&mut self, event: &NumberedEvent) {
        let expected = self.findings.event.saturating_add(1);
        self.findings.event = event.number;
        let is_next = event.number == expected || event.number > expected && !self.sees_operations();
        self.findings
            .check(is_next, Invariant::Log, || format!("event {} follows event {}", event.number, expected - 1));
        self.findings
            .check(event.at >= self.at, Invariant::Log, || format!("time falls from {} to {} ns", self.at, event.at));
        if event.at > self.at {
            self.check_asked_to_trim();
            self.check_periods_end(event.at);
            self.check_blocked_devices(&event.event);
            self.check_suspended_are_out();
            self.check_is_home(event.at);
            // The checker tells what work reads while the manager is not called.
            let is_checkers = matches!(
                event.event,
                Event::ContentChecked { .. } | Event::AccessedOverBus { .. } | Event::Finding { .. }
            );
            if !is_checkers {
                self.check_has_gone();
            }
        }
        self.at = event.at;
        self.occurred_at = event.occurred_at.map_or(event.at, |occurred_at| occurred_at.max(event.at));
        self.check_before(&event.event);
        self.look(&event.event);
        self.fences.note_running(event.at);
    }

    /// The findings so far, in the order in which it was found.
    pub fn findings(&self) -> &[AuditFinding] {
        &self.findings.list
    }

    /// The findings, by event.
    pub fn finish(self) -> Vec<AuditFinding> {
        let mut findings = self.findings.list;
        findings.sort_by_key(|finding| finding.event);
        findings
    }

    /// The events that must come before an event have come.
    fn check_before(&mut self, event: &Event) {
        if !matches!(event, Event::MonitoredFenceSignaled { .. }) {
            self.fences.monitored.check_nothing_owed(&mut self.findings);
        }
        self.check_went_in_order(event);
        self.check_inherited(event);
        self.check_rotated(event);
        self.check_names(event);
        self.check_consequence(event);
        self.check_settled(event);
        self.check_resubmission(event);
        self.check_during_reset(event);
        self.check_caller(event);
        self.check_gone(event);
    }

    /// The allocation that an operation names by its driver's handle.
    fn named(&mut self, handle: KmdAllocationHandle) -> Option<AllocationId> {
        let id = self.by_handle.get(&handle).copied();
        self.findings
            .check(id.is_some(), Invariant::Log, || format!("the driver's allocation {} does not exist", handle.0));
        id
    }
}
