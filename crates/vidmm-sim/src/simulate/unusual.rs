//! Calls that programs seldom make, sequences that they make on purpose, and calls that are wrong.

use vidmm_trace::ByteSize;

use super::player::Player;
use crate::features::Features;
use crate::scenario::steps::{
    CloseAllocation, CpuWrite, Evict, EvictFlag, Kernel, KernelEngine, Lock, MakeResident, MakeResidentFlag, Map,
    Offer, OfferFlag, OfferPriority, OpenAllocation, Reclaim, RenewContext, RenewPagingQueue, SetContextPriority,
    Unlock,
};

impl Player<'_, '_> {
    /// Makes a call that the other moves do not come to.
    pub fn make_unusual_call(&mut self, device: usize) {
        match self.dice.below(8) {
            0 | 1 => self.evict_unwritten(device),
            2 => self.offer_listed(device),
            3 => self.reclaim_and_write(device),
            4 => self.unlock_and_use(device),
            7 => self.close_in_use(device),
            5 if self.has(Features::PREEMPTION) && !self.dice.chance(30) => self.set_context_priority(device),
            5 => {
                let engine = self.draw_engine();
                let name = self.cast.devices[device].name.clone();
                match engine {
                    KernelEngine::Render => self.call(RenewContext { device: name, engine }),
                    KernelEngine::Copy => self.call(RenewPagingQueue { device: name }),
                };
            }
            _ if self.world.misuse > 0 && self.dice.chance(40) => self.make_wrong_call(device),
            _ => {}
        }
    }

    /// Evicts what no work has written since the device made it resident, and says so (RES-22).
    fn evict_unwritten(&mut self, device: usize) {
        let unwritten = |known: &super::cast::Allocation| {
            let is_written = known.writers.contains(&device) || known.is_written_at_any_time;
            known.is_listed_by(device) && !known.is_offered && !is_written
        };
        let unwritten = self.cast.those(unwritten);
        let mut flags = vec![EvictFlag::NotWrittenTo];
        if self.dice.chance(40) {
            flags.push(EvictFlag::OnlyIfNecessary);
        }
        self.evict(device, &unwritten, 3, flags);
    }

    /// Offers what is on the device's list, with any flags.
    fn offer_listed(&mut self, device: usize) {
        let listed = self.cast.those(|known| known.device == device && known.is_listed_by(device) && !known.is_offered);
        let chosen = self.dice.some(&listed, 2);
        if chosen.is_empty() {
            return;
        }
        let mut flags = Vec::new();
        if self.dice.chance(60) {
            flags.push(OfferFlag::Immediately);
        }
        if self.dice.chance(60) {
            flags.push(OfferFlag::AllowDecommit);
        }
        let priority = OfferPriority::default();
        if self.call(Offer { allocations: self.cast.names(&chosen), priority, flags }).is_done() {
            chosen.iter().for_each(|&known| self.cast.allocations[known].is_offered = true);
        }
    }

    /// Reclaims an allocation, and the CPU writes it at once: its backing store is there when the call returns (RES-65).
    fn reclaim_and_write(&mut self, device: usize) {
        let offered = self.cast.those(|known| known.device == device && known.is_offered && known.is_lockable);
        let Some(chosen) = self.dice.pick(&offered) else { return };
        let allocations = self.cast.names(&[chosen]);
        if !self.call(Reclaim { allocations: allocations.clone(), ..Reclaim::default() }).is_done() {
            return;
        }
        self.cast.allocations[chosen].is_offered = false;
        if self.call(Lock { allocations: allocations.clone(), device: None }).is_done() {
            self.cast.allocations[chosen].locks += 1;
            self.see(CpuWrite { allocations: allocations.clone() });
            self.cast.allocations[chosen].locks -= u32::from(self.call(Unlock { allocations }).is_done());
        }
    }

    /// Ends the last lock of an allocation, and submits work that may use it: what the CPU wrote to a copy is brought in (2.2).
    fn unlock_and_use(&mut self, device: usize) {
        let locked = self.cast.those(|known| known.device == device && known.locks == 1 && known.is_listed_by(device));
        let Some(chosen) = self.dice.pick(&locked) else { return };
        let allocations = self.cast.names(&[chosen]);
        self.see(CpuWrite { allocations: allocations.clone() });
        if self.call(Unlock { allocations }).is_done() {
            self.cast.allocations[chosen].locks = 0;
            self.work(device);
        }
    }

    /// Closes an allocation that work submitted before may still use, and mostly lets its owner destroy it at once: what that work reads
    /// is there until it has ended (RES-91).
    fn close_in_use(&mut self, device: usize) {
        let open = self.cast.those(|known| known.openers.contains(&device) && known.is_listed_by(device));
        let Some(chosen) = self.dice.pick(&open) else { return };
        self.work(device);
        self.work(device);
        self.close(chosen, device);
        if self.dice.chance(70) {
            self.destroy_now(chosen, Vec::new());
        }
    }

    fn set_context_priority(&mut self, device: usize) {
        let engines = [KernelEngine::Render, KernelEngine::Copy];
        let engines = &engines[..1 + usize::from(self.has(Features::COPY_ENGINE))];
        let engine = self.dice.pick(engines).unwrap_or_default();
        let priority = if self.misuses() { 8 } else { self.dice.within(0, 14) as i32 - 7 };
        self.call(SetContextPriority { device: self.cast.devices[device].name.clone(), engine, priority });
    }

    /// A call that must be refused, and change nothing.
    fn make_wrong_call(&mut self, device: usize) {
        if self.dice.chance(20) {
            return self.use_the_dead(device);
        }
        let own = self.cast.those(|known| known.device == device);
        let others = self.cast.those(|known| !known.is_known_to(device));
        let (Some(chosen), others) = (self.dice.pick(&own), self.dice.pick(&others)) else { return };
        let (allocations, name) = (self.cast.names(&[chosen]), self.cast.devices[device].name.clone());
        let known = &self.cast.allocations[chosen];
        let make_resident = |allocations, flags| MakeResident {
            allocations,
            device: Some(name.clone()),
            flags,
            ..MakeResident::default()
        };
        match (self.dice.below(10), others) {
            (0, _) if !known.is_offered => _ = self.call(Reclaim { allocations, ..Reclaim::default() }),
            (1, _) if known.is_offered => {
                self.call(Offer { allocations, priority: OfferPriority::default(), flags: Vec::new() });
            }
            (2, _) if known.is_offered => _ = self.call(Lock { allocations, device: None }),
            (3, _) if known.locks == 0 => _ = self.call(Unlock { allocations }),
            (4, _) if !known.openers.contains(&device) => {
                self.call(CloseAllocation { allocations, device: name.clone() });
            }
            (5, Some(other)) if !self.cast.allocations[other].is_shared => {
                self.call(OpenAllocation { allocations: self.cast.names(&[other]), device: name.clone() });
            }
            (6, Some(other)) => _ = self.call(make_resident(self.cast.names(&[other]), Vec::new())),
            (7, _) => _ = self.call(make_resident(allocations, vec![MakeResidentFlag::MustSucceed])),
            (8, _) if !self.world.scenario.adapter.is_physical() => {
                let name = self.cast.name("m");
                let beyond = ByteSize(self.cast.allocations[chosen].pages * vidmm::PAGE_SIZE + vidmm::PAGE_SIZE_64K);
                self.call(Map {
                    allocations,
                    name: Some(name),
                    offset: beyond,
                    size: ByteSize(vidmm::PAGE_SIZE_64K),
                    ..Map::default()
                });
            }
            _ => _ = self.call(make_resident(Vec::new(), Vec::new())),
        }
    }

    /// Names an allocation that was destroyed: its handle is nobody's (I27).
    fn use_the_dead(&mut self, device: usize) {
        let allocations = &self.cast.allocations;
        let is_dead = |&at: &usize| !allocations[at].lives && allocations[at].device == device;
        let dead: Vec<usize> = (0..allocations.len()).filter(is_dead).collect();
        let Some(chosen) = self.dice.pick(&dead) else { return };
        let allocations = self.cast.names(&[chosen]);
        let device = Some(self.cast.devices[device].name.clone());
        match self.dice.below(5) {
            3 if !self.world.scenario.adapter.is_physical() => {
                let kernel = Kernel::new(self.cast.name("k"));
                self.call(Kernel { allocations, device, ..kernel });
            }
            0 => _ = self.call(Lock { allocations, device: None }),
            1 => _ = self.call(Offer { allocations, priority: OfferPriority::default(), flags: Vec::new() }),
            2 => _ = self.call(Evict { allocations, device, flags: Vec::new(), num_bytes_to_trim: None }),
            _ => {
                self.call(MakeResident { allocations, device, ..MakeResident::default() });
            }
        }
    }

    /// Takes up to `most` of these off a device's list.
    pub fn evict(&mut self, device: usize, of: &[usize], most: usize, flags: Vec<EvictFlag>) {
        let mut leaving = self.dice.some(of, most);
        if leaving.is_empty() {
            return;
        }
        if self.dice.chance(5) {
            leaving.push(leaving[0]);
        }
        let step = Evict {
            allocations: self.cast.names(&leaving),
            device: Some(self.cast.devices[device].name.clone()),
            flags,
            num_bytes_to_trim: None,
        };
        if self.call(step).is_done() {
            for allocation in leaving {
                if let Some(count) = self.cast.allocations[allocation].lists.get_mut(&device) {
                    *count = count.saturating_sub(1);
                }
            }
        }
    }
}
