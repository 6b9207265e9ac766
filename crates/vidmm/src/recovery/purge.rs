//! The cleanup after a reset of the adapter: nothing is resident, and content whose one right copy was in a memory segment
//! is lost (FLT-32, FLT-34).

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{
    adapter::Adapter,
    addresses::{self, IoMmuRange},
    contract::{
        BuildStatus, Host, IoMmuDomain, Kmd, KmdAllocationHandle, NotifyAllocFlags, PagingBuffer, PagingOperation,
        Transfer, TransferFlags,
    },
    event::{Event, error::Violation},
    id::{AllocationIx, PlanNo},
    moment::Moment,
    objects::{
        allocation::{Allocation, AllocationState},
        place::Place,
    },
    plans::{
        self, Abandoned, ApertureRange, Coming, InMemory, Leaving, Notice, Plans, Step,
        build::{self, Encoded, encode},
        views,
    },
    state::State,
    units::Extent,
};

/// The allocations whose content was under way.
struct Halfway {
    /// Allocations whose copy to the backing store was not complete.
    leaving: BTreeSet<KmdAllocationHandle>,
    /// Allocations whose eviction notification had not put their content right in place.
    notified: BTreeSet<KmdAllocationHandle>,
    /// Allocations that were being copied to the memory segment, or filled there, and that no work can have written
    /// since; and whether each was promoted as the GPU had left it.
    coming: BTreeMap<KmdAllocationHandle, bool>,
}

impl Halfway {
    /// Sorts the allocations of abandoned plans. Dispatched work may have run once the paging engine had reached
    /// `awaited`, whether reported or not.
    fn of(abandoned: &[Abandoned], being_built: PlanNo, awaited: u64) -> Self {
        let mut halfway = Self { leaving: BTreeSet::new(), notified: BTreeSet::new(), coming: BTreeMap::new() };
        for Abandoned { number, plan, fence_id, .. } in abandoned {
            halfway.leaving.extend(plan.out.iter().filter_map(Leaving::content).map(|out| out.from.store.handle));
            let may_be_used = fence_id.is_some_and(|fence_id| fence_id <= awaited);
            let coming = plan.page_in.iter().filter_map(Coming::content).filter(|_| !may_be_used);
            halfway.coming.extend(coming.map(|page_in| (page_in.to.store.handle, page_in.is_as_left)));
            // Without a notification the content is as earlier work has left it.
            let has_begun = fence_id.is_some() || *number == being_built;
            let evictions = plan.notify.iter().filter(|notice| notice.flags == NotifyAllocFlags::EVICTION);
            let is_unreadable = |notice: &&Notice| has_begun || notice.has_news;
            halfway.notified.extend(evictions.filter(is_unreadable).map(|notice| notice.store.handle));
        }
        halfway
    }
}

/// The addresses that plans which never entered the stream were to map, in their order. An allocation that came, left
/// and came again while they waited is there once for each time.
struct NeverMapped(Vec<(IoMmuDomain, Extent)>);

impl NeverMapped {
    /// Takes a range that is to be unmapped out of these, and returns whether it was here.
    ///
    /// A mapping of which a part is freed is unmapped by parts from then on: its rest here stays.
    fn take(&mut self, range: &IoMmuRange) -> bool {
        let (domain, part) = domain_addresses(range);
        let is_around =
            |&(of, whole): &(_, Extent)| of == domain && whole.offset <= part.offset && part.end() <= whole.end();
        let Some(at) = self.0.iter().position(is_around) else { return false };
        let (_, whole) = self.0[at];
        self.0.splice(at..=at, whole.without(part).map(|rest| (domain, rest)));
        true
    }
}

fn domain_addresses(range: &IoMmuRange) -> (IoMmuDomain, Extent) {
    (range.domain, Extent { offset: range.virtual_address.0, size: range.size })
}

/// Records that no plan is under way and nothing is resident.
pub(crate) fn clear(state: &mut State, plans: &mut Plans, host: &mut dyn Host) {
    let abandoned = plans.stream.abandon();
    let halfway = Halfway::of(&abandoned, plans.builder.plan, state.engines.recovery.awaited);
    purge_io_mmu(state, plans, host, &abandoned);
    for index in Vec::from_iter(state.objects.allocations.iter().map(|(index, _)| index)) {
        purge_allocation(state, host, index, &halfway);
    }
    // The promises of these plans are free.
    abandoned.iter().for_each(|abandoned| state.memory.entered(abandoned.number));
    state.memory.forget_plans();
    for Abandoned { number, plan, .. } in abandoned {
        state.moment.record(|| Event::PlanAbandoned { plan: number });
        plans.follow_plan(state, host, number, plan);
    }
    let locked = state.objects.allocations.iter().filter(|(_, allocation)| allocation.is(AllocationState::LOCKED));
    for index in Vec::from_iter(locked.map(|(index, _)| index)) {
        views::show_backing_store(state, host, index);
    }
    plans.builder.take_steps();
}

/// Each allocation in a memory segment gets a transfer of no bytes, each in an aperture is unmapped, and so are those that were about to
/// leave; the driver leaves the GPU alone (BPB-27). A transfer of which the driver has seen only a part ends with that (BPB-20), and what it
/// went through is unmapped (SEG-45).
pub(crate) fn purge_driver(state: &mut State, plans: &Plans, kmd: &mut dyn Kmd) {
    for (index, operation) in purge_operations(state, plans) {
        let status = encode_purge_operation(&state.adapter, &mut state.moment, plans, kmd, &operation);
        let allocation = state.objects.allocation_id(index);
        state.moment.record(|| Event::PurgeOperation { allocation, operation, status });
        if status != BuildStatus::Success {
            return state.moment.fail(Violation::PurgeRefused);
        }
    }
}

/// A driver that encodes them all the same gets as many buffers as it needs, and encodes a page in each at least; they
/// are never run.
fn encode_purge_operation(
    adapter: &Adapter,
    moment: &mut Moment,
    plans: &Plans,
    kmd: &mut dyn Kmd,
    operation: &PagingOperation,
) -> BuildStatus {
    let pages = match operation {
        PagingOperation::UnmapApertureSegment(unmap) => unmap.number_of_pages,
        _ => 0,
    };
    let mut multipass_offset = 0;
    for _ in 0..=pages {
        let mut buffer = PagingBuffer::new(adapter.paging_buffer_size, adapter.paging_private_size);
        // Nothing runs any more.
        let is_idle = true;
        let Encoded { status, dma_bytes, .. } =
            encode(moment, kmd, &mut buffer, operation, &mut multipass_offset, is_idle, plans.system_context);
        if status != BuildStatus::InsufficientDmaBuffer || dma_bytes == 0 {
            return status;
        }
    }
    BuildStatus::InsufficientDmaBuffer
}

fn purge_operations(state: &State, plans: &Plans) -> Vec<(AllocationIx, PagingOperation)> {
    let (adapter, left) = (&state.adapter, farewells_to_leaving(&state.adapter, plans));
    let building = plans.stream.being_built();
    let lent = building.and_then(|(plan, cursor)| plans::lent(plan, cursor, &plans.builder.steps));
    let operations = |(index, allocation): (AllocationIx, &Allocation)| {
        let of_place = left.get(&allocation.handle).copied().or_else(|| farewell(adapter, allocation));
        let lent = lent.as_ref().filter(|lent| lent.store.handle == allocation.handle);
        of_place.into_iter().chain(lent.map(|lent| lent.unmap(adapter))).map(move |operation| (index, operation))
    };
    state.objects.allocations.iter().flat_map(operations).collect()
}

/// The operation by which a driver hears that an allocation has left its segment.
fn farewell(adapter: &Adapter, allocation: &Allocation) -> Option<PagingOperation> {
    let store = allocation.store();
    match allocation.place? {
        Place::Memory(account, place) => {
            let extents = allocation.extents(place);
            Some(end_of_transfer(&InMemory { account, extents, store }, adapter))
        }
        Place::Aperture(offset) => Some(ApertureRange { store, offset: offset.bytes() }.unmap(adapter)),
        Place::System => None,
    }
}

/// The same of allocations that were to be copied out or unmapped, as far as the driver has not been told: it knows them where they were,
/// wherever they were to go next.
fn farewells_to_leaving(adapter: &Adapter, plans: &Plans) -> BTreeMap<KmdAllocationHandle, PagingOperation> {
    let mut farewells = BTreeMap::new();
    for leaving in plans.stream.unbuilt().flat_map(|plan| &plan.out) {
        let (handle, operation) = match leaving {
            Leaving::Memory(out) => (out.from.store.handle, end_of_transfer(&out.from, adapter)),
            Leaving::Aperture(range) => (range.store.handle, range.unmap(adapter)),
            Leaving::Discarded { .. } | Leaving::Told(_) => continue,
        };
        farewells.entry(handle).or_insert(operation);
    }
    farewells
}

/// A transfer that moves nothing.
fn end_of_transfer(of: &InMemory, adapter: &Adapter) -> PagingOperation {
    let place = of.address(adapter);
    PagingOperation::Transfer(Transfer {
        allocation: of.store.handle,
        transfer_offset: 0,
        transfer_size: 0,
        source: place,
        destination: place,
        flags: TransferFlags::TRANSFER_START | TransferFlags::TRANSFER_END,
        mdl_offset: 0,
    })
}

/// Unmaps all ranges from the IOMMU.
fn purge_io_mmu(state: &mut State, plans: &mut Plans, host: &mut dyn Host, abandoned: &[Abandoned]) {
    if state.adapter.has_page_tables() {
        return;
    }
    let waiting = abandoned.iter().filter(|abandoned| !abandoned.has_entered);
    let steps = plans.builder.take_steps();
    let is_shown = |step: &Step| !matches!(step, Step::MapIoMmu(_));
    debug_assert!(steps.iter().all(is_shown), "a window is mapped as soon as there are steps for it");
    let mut never_mapped =
        NeverMapped(waiting.flat_map(|abandoned| &abandoned.plan.io_mmu_map).map(domain_addresses).collect());
    let windows = steps.iter().filter_map(|step| match step {
        Step::UnmapIoMmu(range) => Some((plans.builder.plan, *range)),
        _ => None,
    });
    let leaving = abandoned
        .iter()
        .flat_map(|abandoned| abandoned.plan.io_mmu_unmap.iter().map(|&range| (abandoned.number, range)));
    let mut mapped: Vec<_> = windows.chain(leaving).collect();
    for (index, allocation) in state.objects.allocations.iter().filter(|(_, allocation)| allocation.place.is_some()) {
        let ranges = allocation
            .mappings()
            .filter_map(|mapping| addresses::io_mmu_range(&state.adapter, &state.objects, index, &mapping));
        mapped.extend(ranges.map(|range| (0, range)));
    }
    for (plan, range) in mapped {
        if !never_mapped.take(&range) {
            build::unmap_io_mmu(&mut state.moment, host, plan, range);
        }
    }
}

/// The right content of an allocation is lost with a reset.
enum Loss {
    /// Its right copy was in a memory segment.
    Gone,
    /// It is in system memory, in the form that the GPU left it in: the notified driver would have put it right before the
    /// eviction, with the GPU's knowledge of it.
    AsLeft,
}

/// Whether a reset loses the right content of an allocation that was at `place`.
fn loss_of(allocation: &Allocation, place: Option<Place>, halfway: &Halfway) -> Option<Loss> {
    let is_news = allocation.is(AllocationState::DIRTY);
    let as_left = allocation.is(AllocationState::NOTIFY_EVICTION).then_some(Loss::AsLeft);
    if halfway.leaving.contains(&allocation.handle) {
        return Some(Loss::Gone);
    }
    if halfway.notified.contains(&allocation.handle) {
        return Some(Loss::AsLeft);
    }
    match place.filter(|_| is_news)? {
        // Content that no work has written there is right at its source (I03), unless it was promoted as the GPU had
        // left it.
        Place::Memory(..) => match halfway.coming.get(&allocation.handle) {
            Some(&is_as_left) => as_left.filter(|_| is_as_left),
            None => Some(Loss::Gone),
        },
        Place::System | Place::Aperture(_) => as_left,
    }
}

/// Takes an allocation out of its place. Its content is that of its backing store, or else zero; if it was lost, its owner
/// is told.
fn purge_allocation(state: &mut State, host: &mut dyn Host, index: AllocationIx, halfway: &Halfway) {
    state.residency.remove_candidate(&mut state.objects, index);
    let is_dead = state.objects.is_dead(index);
    let allocation = &mut state.objects.allocations[index];
    let (_, extents) = allocation.location(&state.adapter);
    let place = allocation.place;
    let loss = loss_of(allocation, place, halfway).filter(|_| !is_dead);
    allocation.purge();
    if let Some(place) = place {
        state.shares.by_account[place.account()].subtract_usage(allocation.process, allocation.size);
        state.residency.note_left(&state.adapter, &state.objects, place.account(), index);
    }
    let size = state.objects[index].size;
    if let Some(loss) = loss {
        lose_content(state, host, index, loss);
    }
    if let Some(Place::Memory(account, _)) = place {
        debug_assert_eq!(extents.bytes(), size);
        extents.iter().for_each(|extent| state.memory.placers[account].release(extent));
    }
}

/// Tells the owner of an allocation that its content is lost. What is gone reads as zero; what is in system memory stays, and so does
/// the copy that the CPU sees there wherever the allocation is (2.2).
fn lose_content(state: &mut State, host: &mut dyn Host, index: AllocationIx, loss: Loss) {
    let allocation = &mut state.objects[index];
    let is_kept = matches!(loss, Loss::AsLeft) || allocation.is(AllocationState::KEEPS_COPY);
    if !is_kept {
        allocation.lose_content();
        if !allocation.is(AllocationState::NOT_COMMITTED) {
            host.reset_backing_store(allocation.store_address(), allocation.size);
        }
    }
    let allocation = state.objects.allocation_id(index);
    state.moment.record(|| Event::ContentLost { allocation, is_kept });
}
