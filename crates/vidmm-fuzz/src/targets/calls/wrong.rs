//! Calls with the name of a dead object, or of an object of another device: each is refused, and changes nothing (I27,
//! P53).

use std::collections::{BTreeMap, BTreeSet};

use vidmm::*;

use crate::choices::Choices;
use crate::world::World;

/// The living objects, by the events.
#[derive(Default)]
struct Known {
    /// The devices on which each living allocation is open.
    alive: BTreeMap<AllocationId, BTreeSet<DeviceId>>,
    dead: Vec<AllocationId>,
    queues: Vec<(DeviceId, PagingQueueId)>,
}

impl Known {
    fn of(events: &[Event]) -> Self {
        let mut known = Self::default();
        for event in events {
            match *event {
                Event::AllocationCreated { allocation, device, .. } => {
                    known.alive.insert(allocation, BTreeSet::from([device]));
                }
                Event::AllocationOpened { allocation, device, .. } => {
                    known.alive.get_mut(&allocation).into_iter().for_each(|open_on| _ = open_on.insert(device));
                }
                Event::AllocationClosed { allocation, device } => {
                    known.alive.get_mut(&allocation).into_iter().for_each(|open_on| _ = open_on.remove(&device));
                }
                Event::AllocationDestroyed { allocation, .. } => {
                    known.alive.remove(&allocation);
                    known.dead.push(allocation);
                }
                // A shared allocation that its owner destroys is another device's then. Such an allocation is neither
                // wrong nor right here.
                Event::AllocationOwnershipTransferred { allocation, .. } => {
                    known.dead.retain(|dead| *dead != allocation);
                }
                Event::PagingQueueCreated { device, queue, .. } => known.queues.push((device, queue)),
                _ => {}
            }
        }
        known
    }

    /// A name that is no object's: one that was, or one that never was.
    fn dead(&self, choices: &Choices<'_>) -> AllocationId {
        let invented = AllocationId::from_bits(choices.edge() | 1 << 62);
        self.dead.get(choices.index(self.dead.len() + 1)).copied().unwrap_or(invented)
    }

    /// A name that `device` may not use: a dead one, or one of an object of others.
    fn wrong(&self, device: DeviceId, choices: &Choices<'_>) -> AllocationId {
        let theirs: Vec<_> =
            self.alive.iter().filter(|(_, open_on)| !open_on.contains(&device)).map(|(&id, _)| id).collect();
        match choices.pick_any(&theirs) {
            Some(foreign) if choices.one_in(2) => foreign,
            _ => self.dead(choices),
        }
    }

    /// A list with a wrong name, and possibly right ones, each as often as it comes.
    fn list(&self, wrong: AllocationId, choices: &Choices<'_>) -> Vec<AllocationId> {
        let alive: Vec<_> = self.alive.keys().copied().collect();
        let mut list: Vec<_> = (0..choices.below(4)).filter_map(|_| choices.pick_any(&alive)).collect();
        list.insert(choices.index(list.len() + 1), wrong);
        list
    }
}

/// One call with a wrong name.
pub fn call(world: &mut World, choices: &Choices<'_>) {
    let known = Known::of(&world.events);
    let (device, queue) = choices.pick(&known.queues);
    let (wrong, dead) = (known.wrong(device, choices), known.dead(choices));
    let (list, kind) = (known.list(wrong, choices), choices.below(12));
    let before = (world.outputs.len(), world.vidmm.statistics(), world.vidmm.events().number());
    let is_refused = world.call(|vidmm, driver, host| match kind {
        0 => vidmm.make_resident(queue, &list, MakeResidentFlags::empty()).is_err(),
        1 => vidmm.evict(device, &list, EvictFlags::empty()).is_err(),
        2 => vidmm.offer_allocations(device, &list, OfferPriority::Auto, OfferFlags::empty()).is_err(),
        3 => vidmm.reclaim_allocations(host, queue, &list).is_err(),
        4 => vidmm.map_gpu_virtual_address(host, queue, &MapGpuVirtualAddress::whole(wrong)).is_err(),
        5 => vidmm.lock(host, device, wrong).is_err(),
        6 => vidmm.close_allocation(device, wrong).is_err(),
        7 => vidmm.unlock(host, dead).is_err(),
        8 => vidmm.destroy_allocation(host, dead, DestroyFlags::empty()).is_err(),
        9 => vidmm.open_allocation(driver, device, dead).is_err(),
        10 => vidmm.set_allocation_priority(dead, 1).is_err(),
        _ => vidmm.create_context(driver, DeviceId::from_bits(dead.to_bits() | 1 << 40), 1).is_err(),
    });
    assert!(is_refused, "I27: a call with a wrong name ({kind}, {wrong} or {dead}) is accepted");
    let after = (world.outputs.len(), world.vidmm.statistics(), world.vidmm.events().number());
    assert_eq!(after, before, "I27: a call with a wrong name ({kind}, {wrong} or {dead}) changes something");
}
