use alloc::vec::Vec;

use crate::{
    contract::{BackingStoreError, Host},
    event::{
        Event,
        offer::{OfferFlags, OfferPriority},
    },
    id::{AllocationIx, PlanNo},
    moment::Moment,
    objects::{Objects, allocation::AllocationState},
    plans::Plans,
    state::State,
    units::PhysicalAddress,
};

impl Plans {
    /// Commits a backing store. Where the host has none left, offered allocations that allow it are decommitted for it, those
    /// of lower priority first.
    pub(crate) fn commit_backing_store(
        &self,
        state: &mut State,
        host: &mut dyn Host,
        size: u64,
    ) -> Result<PhysicalAddress, BackingStoreError> {
        host.commit_backing_store(size).or_else(|error| {
            let offered = self.decommittable(&state.objects);
            if offered.is_empty() {
                return Err(error);
            }
            state.moment.record(|| Event::BackingStoreRefused { size });
            decommit_offered(&mut state.moment, &mut state.objects, host, offered, size);
            host.commit_backing_store(size)
        })
    }

    /// Offered allocations that allow it and are in no memory, the least wanted first.
    fn decommittable(&self, objects: &Objects) -> Vec<AllocationIx> {
        let mut candidates: Vec<(OfferPriority, AllocationIx)> = Vec::new();
        let offered = objects.processes.iter().flat_map(|(_, process)| process.offered.iter().copied());
        for (index, offer) in offered.filter_map(|index| Some((index, objects[index].offer()?))) {
            let allocation = &objects[index];
            let can_go = offer.flags.contains(OfferFlags::ALLOW_DECOMMIT)
                && objects.is_discardable(index)
                && allocation.place.is_none()
                && !allocation.is(AllocationState::NOT_COMMITTED)
                && self.stream.is_retired(allocation.last_plan);
            if can_go {
                candidates.push((offer.priority, index));
            }
        }
        candidates.sort_unstable();
        candidates.into_iter().map(|(_, index)| index).collect()
    }
}

/// Decommits those of `offered`, in their order, until `size` bytes are free.
fn decommit_offered(
    moment: &mut Moment,
    objects: &mut Objects,
    host: &mut dyn Host,
    offered: Vec<AllocationIx>,
    size: u64,
) {
    let mut freed = 0;
    for index in offered {
        if freed >= size {
            break;
        }
        note_discarded(moment, objects, index, None);
        decommit(moment, objects, host, index);
        freed += objects[index].size;
    }
}

/// Gives back the backing store of an offered allocation whose content is lost (RES-66).
pub(crate) fn decommit(moment: &mut Moment, objects: &mut Objects, host: &mut dyn Host, index: AllocationIx) {
    let allocation = &mut objects[index];
    allocation.decommit();
    host.decommit_backing_store(allocation.store_address(), allocation.size);
    let allocation = objects.allocation_id(index);
    moment.record(|| Event::Decommitted { allocation });
}

/// Notes that the content of an offered allocation is lost (RES-63), with a plan or at once.
pub(crate) fn note_discarded(moment: &mut Moment, objects: &mut Objects, index: AllocationIx, plan: Option<PlanNo>) {
    if objects[index].discard() {
        let allocation = objects.allocation_id(index);
        moment.record(|| Event::ContentDiscarded { allocation, plan });
    }
}
