//! What the CPU sees of locked allocations while they move (RES-86), and content that the CPU has brought up to date (2.2).

use alloc::vec::Vec;

use super::draft::{Draft, follow};
use crate::{
    allocation::{Allocation, AllocationState},
    contract::Host,
    event::Event,
    extents::Extents,
    id::{AllocationIx, DeviceIx, PlanNo},
    paging::{PageIn, Rotation},
    place::Place,
    pool::Pool,
    state::VidMm,
    units::{Extent, SegmentId},
};

impl VidMm {
    /// What of which segment the CPU sees, or would: the copy in system memory unless it sees the allocation in the memory
    /// segment. What the aperture shows is in system memory too.
    pub(crate) fn view_of(&self, index: AllocationIx) -> (SegmentId, Extents) {
        let allocation = &self.allocations[index];
        let is_copy = allocation.state.contains(AllocationState::KEEPS_COPY);
        match allocation.place {
            Some(Place::Memory(place)) if !is_copy => (self.adapter.memory_id(), allocation.extents(place)),
            _ => {
                let extent = Extent { offset: allocation.backing_store, size: allocation.size };
                (SegmentId::SYSTEM, Extents::one(extent))
            }
        }
    }

    /// Whether a locked allocation may not come in where its device's list counts it: the CPU would not see it (RES-84, U-40).
    pub(super) fn waits_for_unlock(&self, index: AllocationIx) -> bool {
        let allocation = &self.allocations[index];
        let is_hidden = allocation.pool() == Pool::Memory && !allocation.is_seen_anywhere();
        // Nobody can unlock what is destroyed.
        let is_destroyed = allocation.state.contains(AllocationState::DESTROYED);
        allocation.state.contains(AllocationState::LOCKED) && is_hidden && !is_destroyed
    }

    /// Writes into `draft` that the CPU sees an allocation where it is now, if it is locked and what is seen moves.
    pub(super) fn plan_view(&mut self, draft: &mut Draft, index: AllocationIx) {
        let allocation = &mut self.allocations[index];
        // Of what is destroyed the CPU sees nothing new.
        let stays = AllocationState::KEEPS_COPY | AllocationState::DESTROYED;
        if !allocation.state.contains(AllocationState::LOCKED) || allocation.state.intersects(stays) {
            return;
        }
        if matches!(allocation.place, Some(Place::Memory(_))) {
            // The CPU may write there.
            allocation.state |= AllocationState::DIRTY;
        }
        let (segment, extents) = self.view_of(index);
        draft.plan.rotate.push(Rotation { allocation: index, segment, extents });
    }

    /// A plan has entered the stream: what it moves is not seen until it has retired.
    pub(super) fn conceal(&mut self, host: &mut dyn Host, plan: PlanNo) {
        let rotations = self.stream.get(plan).map_or(&[][..], |plan| &plan.rotate);
        for index in Vec::from_iter(rotations.iter().map(|rotation| rotation.allocation)) {
            if let Some(lock) = self.locks.get_mut(&index) {
                lock.moved_by = plan;
                self.rotate(host, plan, index, SegmentId::SYSTEM, Vec::new());
            }
        }
    }

    /// A plan has retired: what it has moved is seen where it is.
    pub(super) fn reveal(&mut self, host: &mut dyn Host, plan: PlanNo, rotation: &Rotation) {
        let index = rotation.allocation;
        if self.locks.get(&index).is_some_and(|lock| lock.moved_by == plan) {
            self.rotate(host, plan, index, rotation.segment, rotation.extents.iter().collect());
        }
    }

    /// After a reset nothing is anywhere else.
    pub(super) fn show_backing_store(&mut self, host: &mut dyn Host, index: AllocationIx) {
        if self.allocations[index].state.contains(AllocationState::KEEPS_COPY) {
            return;
        }
        let (segment, extents) = self.view_of(index);
        self.rotate(host, 0, index, segment, extents.iter().collect());
    }

    fn rotate(
        &mut self,
        host: &mut dyn Host,
        plan: PlanNo,
        index: AllocationIx,
        segment: SegmentId,
        extents: Vec<Extent>,
    ) {
        let address = self.locks[&index].address;
        host.rotate_cpu_virtual_address(address, segment, &extents);
        let allocation = self.allocation_id(index);
        self.events.record(|| Event::Rotated { plan, allocation, address, segment, extents });
    }

    /// Copies what the CPU has written in system memory to where the allocation is in the memory segment, after the work that is
    /// under way. Work that is not dispatched yet waits for it.
    pub(crate) fn refresh(&mut self, index: AllocationIx) {
        let allocation = &self.allocations[index];
        let Allocation { handle, size, backing_store, last_plan, place, state, .. } = *allocation;
        let Some(Place::Memory(place)) = place else { return };
        if !state.contains(AllocationState::KEEPS_COPY) {
            return;
        }
        let mut draft = Draft::default();
        let extents = allocation.extents(place);
        draft.plan.copy_in(PageIn { handle, size, extents, backing_store: Some(backing_store), is_as_left: false });
        follow(&self.stream, &mut draft.plan, last_plan);
        let devices: Vec<DeviceIx> = self.allocations[index].entries().map(|(device, _)| device).collect();
        let number = self.stream.next_number();
        for device in devices {
            self.plan_wait(&mut draft, device, self.devices[device].dispatched());
            self.await_plan(device, number);
        }
        let allocation = &mut self.allocations[index];
        allocation.last_plan = number;
        allocation.state -= AllocationState::DIRTY;
        self.statistics.bytes_paged_in += size;
        draft.decided = true;
        let allocation = self.allocation_id(index);
        self.events.record(|| Event::Refreshed { plan: number, allocation });
        self.finish(draft);
    }
}
