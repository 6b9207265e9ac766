//! Calls of a device about an allocation that it has neither created nor opened: each is refused.

use vidmm::{EvictFlags, MakeResidentFlags, MapGpuVirtualAddress, OfferFlags, OfferPriority, UpdateAllocationProperty};

use crate::explicit::Session;
use crate::explicit::objects::Device;

/// A stranger calls behind one step of so many.
const STEPS_BETWEEN_STRANGERS: usize = 16;

impl Session<'_> {
    /// Makes every call about some allocation as some device that it is nothing to (CRE-06). Both follow from the number of the step,
    /// so that no seed draws anything for it.
    pub(super) fn judge_strangers(&mut self) {
        let number = self.step.0 / STEPS_BETWEEN_STRANGERS;
        let is_due = self.rules.is_some() && self.step.0.is_multiple_of(STEPS_BETWEEN_STRANGERS);
        let objects = &self.objects;
        let len = objects.allocations.len().max(1);
        let Some((name, known)) = objects.allocations.iter().nth(number % len).filter(|_| is_due) else { return };
        let is_stranger = |(name, _): &(&String, &Device)| **name != known.device && !known.openers.contains(name);
        let strangers = Vec::from_iter(objects.devices.iter().filter(is_stranger));
        let Some(&(stranger, device)) = strangers.get(number % strangers.len().max(1)) else { return };
        let (of, device, queue) = (format!("{name} by {stranger}"), device.device, device.queue);
        let named = [known.id];
        let (vidmm, kmd, host) = self.runtime.borrow();
        let mut answers = vec![
            ("Lock", vidmm.lock(host, device, known.id).is_ok()),
            ("Evict", vidmm.evict(device, &named, EvictFlags::empty()).is_ok()),
            ("Close", vidmm.close_allocation(device, known.id).is_ok()),
            ("Offer", vidmm.offer_allocations(device, &named, OfferPriority::Normal, OfferFlags::empty()).is_ok()),
        ];
        if let Some(queue) = queue {
            let update = UpdateAllocationProperty { supported_segment_set: None, preferred_segment: None };
            let map = MapGpuVirtualAddress::whole(known.id);
            answers.extend([
                ("Reclaim", vidmm.reclaim_allocations(host, queue, &named).is_ok()),
                ("MakeResident", vidmm.make_resident(queue, &named, MakeResidentFlags::empty()).is_ok()),
                ("UpdateProperty", vidmm.update_allocation_property(kmd, queue, known.id, &update).is_ok()),
                ("Map", vidmm.map_gpu_virtual_address(host, queue, &map).is_ok()),
            ]);
        }
        if let Some((call, _)) = answers.into_iter().find(|&(_, is_done)| is_done) {
            self.broke("CRE-06", format!("{call} of {of} is done, which has neither created nor opened it"));
        }
    }
}
