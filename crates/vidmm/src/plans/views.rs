//! The CPU's view of locked allocations while they move (RES-86), and content that the CPU has brought up to date (2.2).

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    contract::Host,
    event::Event,
    id::{AllocationIx, DeviceIx, PlanNo},
    moment::Moment,
    objects::{
        Objects,
        allocation::{Allocation, AllocationState},
        place::Place,
    },
    plans::{
        InMemory, PageIn, Plans, Rotation,
        draft::{self, Draft},
    },
    residency::{pins, views},
    state::State,
    units::{Extent, SegmentId},
};

/// Writes into `draft` that the CPU sees an allocation where it is now, if it is locked and its bytes move: it leaves `place`, or comes there.
/// In system memory, resident or not, its bytes stay in the backing store, and so does what the CPU sees (RES-81).
#[inline(always)]
pub(crate) fn plan_view(
    adapter: &Adapter,
    objects: &mut Objects,
    draft: &mut Draft,
    index: AllocationIx,
    place: Place,
) {
    if matches!(place, Place::Memory(..)) && objects[index].is(AllocationState::LOCKED) {
        plan_view_of_locked(adapter, objects, draft, index);
    }
}

#[inline(never)]
fn plan_view_of_locked(adapter: &Adapter, objects: &mut Objects, draft: &mut Draft, index: AllocationIx) {
    let allocation = &mut objects[index];
    // Of what is destroyed the CPU sees nothing new.
    if allocation.is_any(AllocationState::KEEPS_COPY | AllocationState::DESTROYED) {
        return;
    }
    if matches!(allocation.place, Some(Place::Memory(..))) {
        // The CPU may write there.
        allocation.note_written();
    }
    let (segment, extents) = views::view_of(adapter, objects, index);
    // An allocation that leaves and comes back with the plan is seen once: where it comes.
    draft.plan.rotate.retain(|rotation| rotation.allocation != index);
    draft.plan.rotate.push(Rotation { allocation: index, segment, extents });
}

/// A plan has retired: what it has moved is seen where it is.
pub(crate) fn reveal(state: &mut State, host: &mut dyn Host, plan: PlanNo, rotation: &Rotation) {
    let index = rotation.allocation;
    if state.objects[index].lock().is_some_and(|lock| lock.moved_by == plan) {
        rotate(state, host, plan, index, rotation.segment, rotation.extents.iter().collect());
    }
}

/// After a reset nothing is anywhere else.
pub(crate) fn show_backing_store(state: &mut State, host: &mut dyn Host, index: AllocationIx) {
    if state.objects[index].is(AllocationState::KEEPS_COPY) {
        return;
    }
    let (segment, extents) = views::view_of(&state.adapter, &state.objects, index);
    rotate(state, host, 0, index, segment, extents.iter().collect());
}

pub(crate) fn rotate(
    state: &mut State,
    host: &mut dyn Host,
    plan: PlanNo,
    index: AllocationIx,
    segment: SegmentId,
    extents: Vec<Extent>,
) {
    let address = state.objects[index].show((segment, extents.clone()));
    host.rotate_cpu_virtual_address(address, segment, &extents);
    let allocation = state.objects.allocation_id(index);
    state.moment.record(|| Event::Rotated { plan, allocation, address, segment, extents });
}

impl Plans {
    /// A plan has entered the stream: what it moves is not seen until it has retired.
    pub(crate) fn conceal(&self, state: &mut State, host: &mut dyn Host, plan: PlanNo) {
        let rotations = self.stream.get(plan).map_or(&[][..], |plan| &plan.rotate);
        for index in Vec::from_iter(rotations.iter().map(|rotation| rotation.allocation)) {
            if state.objects[index].is(AllocationState::LOCKED) {
                state.objects[index].conceal(plan);
                rotate(state, host, plan, index, SegmentId::SYSTEM, Vec::new());
            }
        }
    }

    /// Copies what the CPU has written in system memory to where the allocation is in a memory segment, after the work that is
    /// under way. Work that is not dispatched yet waits for it.
    pub(crate) fn refresh(&mut self, moment: &mut Moment, objects: &mut Objects, index: AllocationIx) {
        let allocation = &objects[index];
        let Allocation { size, last_plan, place, .. } = *allocation;
        let Some(Place::Memory(account, place)) = place else { return };
        if !allocation.is(AllocationState::KEEPS_COPY) {
            return;
        }
        let mut draft = Draft::default();
        let to = InMemory { account, extents: allocation.extents(place), store: allocation.store() };
        draft.plan.copy_in(PageIn { to, is_backed: true, is_as_left: false });
        self.plan_after(&mut draft, last_plan);
        let devices: Vec<DeviceIx> = objects[index].entries().map(|(device, _)| device).collect();
        let number = self.stream.next_number();
        for device in devices {
            draft::plan_wait(objects, &mut draft, device, objects[device].dispatched());
            // Work may have been handed out before other work that it does not wait for.
            draft.plan.idle_devices.push(device);
            self.await_plan(objects, device, number);
        }
        // Earlier writes are overwritten.
        pins::note_writes_to(objects, index);
        objects[index].refresh(number);
        moment.statistics_mut().bytes_paged_in += size;
        objects.count(index, account, |traffic| traffic.bytes_paged_in += size);
        draft.decided = true;
        let allocation = objects.allocation_id(index);
        moment.record(|| Event::Refreshed { plan: number, allocation });
        self.decide(moment, objects, draft);
    }
}
