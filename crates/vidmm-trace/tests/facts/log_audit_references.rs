//! The audit of adapters without GPU virtual addresses: DMA buffers name allocations until they are handed out to their
//! end.

use crate::log_support::{
    MAPPED_AT, NewAllocation, PAGING, RENDER, audit, context, device, extent, fence, process, say_built, story,
};
use vidmm::contract::*;
use vidmm::event::{ContentSource, Event, PortionBinding, PortionEnd, SuspendReason};
use vidmm::*;
use vidmm_trace::Invariant::{self, *};

const APERTURE: SegmentId = SegmentId(2);
/// The memory that engines reach.
const CAPACITY: u64 = 0x2_0000;
/// An allocation of every run, in the aperture from the beginning on.
const A_BYTES: u64 = 0x4000;
const DMA_BUFFER_BYTES: u32 = 64;

/// A run on an adapter without a memory segment: group LOCAL is system memory.
struct Run(Vec<Event>);

fn a() -> AllocationId {
    AllocationId::from_bits(0)
}

fn other_context() -> ContextId {
    ContextId::from_bits(1)
}

fn created_device(device: DeviceId) -> Event {
    Event::DeviceCreated { device, process: process(), residency: DeviceResidency::ReferenceLists }
}

/// `A` is not resident until a DMA buffer names it.
fn run() -> Run {
    let mut started = story().swap_remove(0);
    let Event::AdapterStarted {
        addressing_model,
        num_slots,
        system_group,
        memory,
        level_bits,
        table_bytes,
        paging_tables,
        paging_table_bytes,
        system_commit_limit,
        paging_va_size,
        ..
    } = &mut started
    else {
        panic!("a run begins with the start of its adapter")
    };
    (*addressing_model, *num_slots, *memory) = (AddressingModel::Physical, 4, vec![]);
    *system_group = vidmm::MemorySegmentGroup::Local;
    (*level_bits, *table_bytes, *paging_tables, *paging_table_bytes) = (vec![], vec![], vec![], 0);
    (*system_commit_limit, *paging_va_size) = (CAPACITY, 0);
    Run(vec![
        started,
        Event::ProcessCreated { process: process(), handle: KmdProcessHandle(101) },
        created_device(device()),
        Event::ContextCreated { context: context(), device: device(), engine: RENDER },
        Event::ContextCreated { context: other_context(), device: device(), engine: RENDER },
    ])
    .created(a(), device())
}

/// Slot 0 is bound to `A` at each of these split points.
fn bound_at(split_offsets: &[u32]) -> Vec<PatchLocation> {
    let bound = |&split_offset: &u32| PatchLocation {
        allocation_index: 0,
        slot_id: 0,
        driver_id: 0,
        allocation_offset: 0,
        patch_offset: split_offset,
        split_offset,
    };
    split_offsets.iter().map(bound).collect()
}

impl Run {
    fn and(mut self, event: Event) -> Self {
        self.0.push(event);
        self
    }

    fn created(self, allocation: AllocationId, device: DeviceId) -> Self {
        let index = allocation.to_bits();
        let created = NewAllocation {
            device,
            handle: KmdAllocationHandle(10 + index),
            size: A_BYTES,
            backing_store: MAPPED_AT + 0x10_0000 * index,
            segment: APERTURE,
            accessed_physically: true,
            ..NewAllocation::of(allocation)
        };
        self.and(created.event())
    }

    /// A DMA buffer that names an allocation is rendered, and cut at the second of its split points. `A` comes for the first that
    /// names it.
    fn rendered_on(self, context: ContextId, dma_buffer: u64, named: AllocationId, split_offsets: &[u32]) -> Self {
        let (device, bytes, allocations) = (device(), DMA_BUFFER_BYTES, vec![Some(named)]);
        let patch_locations = bound_at(split_offsets);
        let is_there = named != a() || self.0.iter().any(|event| matches!(event, Event::Placed { .. }));
        let (waits, signals) = (vec![], vec![]);
        let rendered =
            Event::Rendered { device, context, dma_buffer, bytes, allocations, patch_locations, waits, signals };
        let run = self.and(rendered);
        if is_there { run } else { run.with_a() }
    }

    /// `A` is mapped in the aperture, where it stays.
    fn with_a(self) -> Self {
        let map = MapApertureSegment {
            allocation: KmdAllocationHandle(10),
            segment_id: APERTURE,
            offset_in_pages: 0,
            number_of_pages: A_BYTES / PAGE_SIZE,
            mdl: PhysicalAddress { segment: SegmentId::SYSTEM, offset: MAPPED_AT },
            flags: MapApertureFlags::empty(),
        };
        let (operation, status) = (PagingOperation::MapApertureSegment(map), BuildStatus::Success);
        let extents = vec![extent(0, A_BYTES)];
        self.and(Event::Placed {
            plan: 1,
            allocation: a(),
            segment: APERTURE,
            extents,
            content: ContentSource::InPlace,
        })
        .and(Event::PlanDecided { plan: 1, waits: vec![], after: vec![] })
        .and(Event::PlanEntered { plan: 1 })
        .and(Event::PagingOperation { plan: 1, operation, status, offset: 0, bytes: 64, multipass_offset: 0 })
        .and(Event::PagingBufferSubmitted { signal: fence(PAGING, 1), bytes: 64 })
        .and(Event::Completed { signal: fence(PAGING, 1) })
        .and(Event::PlanRetired { plan: 1 })
    }

    fn rendered(self, dma_buffer: u64) -> Self {
        self.rendered_on(context(), dma_buffer, a(), &[0])
    }

    fn destroyed(self) -> Self {
        self.and(Event::AllocationDestroyed { allocation: a(), flags: DestroyFlags::empty() })
    }

    /// A portion with one patch location is handed to its engine.
    fn portion(self, dma_buffer: u64, portion: u32, (start_offset, end_offset): (u32, u32), submission: u64) -> Self {
        let is_last = end_offset == DMA_BUFFER_BYTES;
        let address = PhysicalAddress { segment: APERTURE, offset: 0 };
        let signal = fence(RENDER, submission);
        self.and(Event::Portion {
            device: device(),
            dma_buffer,
            portion,
            submission,
            start_offset,
            end_offset,
            is_last,
            patch_location_start: portion,
            patch_location_length: 1,
            bindings: vec![PortionBinding { slot_id: 0, allocation: Some(a()), address, fixed: false }],
            cut: if is_last { PortionEnd::EndOfDmaBuffer } else { PortionEnd::TakeSplitPoint },
            patched: true,
        })
        .and(Event::Dispatched { device: device(), submission, signal, waits: vec![] })
    }

    /// All of a DMA buffer is handed out.
    fn handed_out(self, dma_buffer: u64, submission: u64) -> Self {
        self.portion(dma_buffer, 0, (0, DMA_BUFFER_BYTES), submission)
    }

    fn told(self, budget: u64, requested: u64) -> Self {
        self.and(Event::BudgetChanged { process: process(), group: MemorySegmentGroup::Local, budget, requested })
    }

    fn yields(self) -> Self {
        let reason = SuspendReason::WaitsForRoom;
        self.and(Event::DeviceYielded { device: device(), reason, wanted_by: None })
    }

    fn findings(self) -> Vec<vidmm_trace::AuditFinding> {
        let numbered = (1..).zip(say_built(self.0)).map(|(number, event)| NumberedEvent {
            number,
            at: number * 1000,
            occurred_at: None,
            event,
        });
        audit(&Vec::from_iter(numbered))
    }

    #[track_caller]
    fn breaks_nothing(self) {
        assert_eq!(self.findings(), []);
    }

    #[track_caller]
    fn breaks_only(self, invariant: Invariant) {
        let findings = self.findings();
        let all = findings.iter().all(|finding| finding.invariant == invariant);
        assert!(!findings.is_empty() && all, "not only {invariant}: {findings:#?}");
    }
}

#[test]
fn a_dma_buffer_is_handed_out_portion_by_portion() {
    run().rendered(1).handed_out(1, 1).breaks_nothing();
    let cut = run().rendered_on(context(), 1, a(), &[0, 32]);
    cut.portion(1, 0, (0, 32), 1).portion(1, 1, (32, 64), 2).breaks_nothing();
}

/// SPL-02: slots are counted from 0.
#[test]
fn i18_a_dma_buffer_names_the_slot_behind_the_last() {
    let naming = |slot: u32| {
        let mut run = run().rendered(1);
        let locations = run.0.iter_mut().filter_map(|event| match event {
            Event::Rendered { patch_locations, .. } => Some(patch_locations),
            _ => None,
        });
        locations.flatten().for_each(|location| location.slot_id = slot);
        run
    };
    naming(3).breaks_nothing();
    naming(4).breaks_only(I18);
}

/// RES-91: an allocation is not gone for work that was made before its destruction.
#[test]
fn an_allocation_that_was_destroyed_since_the_rendering_is_in_its_portion() {
    run().rendered(1).destroyed().handed_out(1, 1).breaks_nothing();
}

#[test]
fn i27_a_dma_buffer_names_a_destroyed_allocation() {
    let findings = run().destroyed().rendered(1).findings();
    assert_eq!(Vec::from_iter(findings.iter().map(|finding| finding.invariant)), [I27, I07]);
}

#[test]
fn i07_a_dma_buffer_names_an_allocation_that_another_device_created() {
    let (other, theirs) = (DeviceId::from_bits(1), AllocationId::from_bits(1));
    let two = run().and(created_device(other)).created(theirs, other);
    two.rendered_on(context(), 1, theirs, &[0]).breaks_only(I07);
}

/// I16: a portion that is decided and not handed out yet demands its allocations; the log does not say when that is.
#[test]
fn rendered_allocations_may_be_demanded_until_they_are_handed_out() {
    run().rendered(1).told(CAPACITY, 0).breaks_nothing();
    run().rendered(1).told(CAPACITY, A_BYTES).breaks_nothing();
    run().rendered(1).handed_out(1, 1).told(CAPACITY, 0).breaks_nothing();
}

#[test]
fn i16_more_is_demanded_than_is_rendered() {
    run().told(CAPACITY, A_BYTES).breaks_only(I16);
    run().rendered(1).told(CAPACITY, 2 * A_BYTES).breaks_only(I16);
    run().rendered(1).handed_out(1, 1).told(CAPACITY, A_BYTES).breaks_only(I16);
}

#[test]
fn i16_a_budget_does_not_follow_from_the_rendered_allocations() {
    run().rendered(1).told(CAPACITY / 2, 0).breaks_only(I16);
}

/// A device that yields ends the DMA buffers that it has begun, and begins no other.
#[test]
fn a_device_that_yielded_ends_its_dma_buffers() {
    run().rendered(1).yields().handed_out(1, 1).breaks_only(Res71);
    let cut = run().rendered_on(context(), 1, a(), &[0, 32]).portion(1, 0, (0, 32), 1);
    cut.yields().portion(1, 1, (32, 64), 2).breaks_nothing();
}

#[test]
fn res71_a_device_that_yielded_begins_another_dma_buffer() {
    let two = run().rendered(1).rendered_on(other_context(), 2, a(), &[0]);
    two.yields().handed_out(1, 1).handed_out(2, 2).breaks_only(Res71);
}

#[test]
fn res71_a_suspended_device_ends_a_dma_buffer() {
    let suspended = run().rendered(1).yields().and(Event::DeviceSuspended { device: device() });
    suspended.handed_out(1, 1).breaks_only(Res71);
}
