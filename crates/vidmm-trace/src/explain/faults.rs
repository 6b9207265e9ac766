//! Faults at its addresses or next to them, devices in error, and resets of the adapter.

use vidmm::event::Neighbour;
use vidmm::{AllocationId, DeviceErrorReason, Event, GpuVirtualAddress};

use super::subject::Subject;
use super::tale::Tale;
use super::words::capitalised;
use super::world::World;
use crate::ByteSize;

impl Subject {
    /// Tells faults and resets that touch it.
    pub fn of_faults(&mut self, event: &Event, world: &World, tale: &mut Tale) {
        match *event {
            Event::PageFault { allocation, virtual_address, write, below, above, .. } => {
                self.of_fault(allocation, virtual_address, write, (below, above), tale);
            }
            Event::DeviceInError { device, ref reason } if self.counts.contains_key(&device) => {
                let was_listed = self.counts.insert(device, 0).is_some_and(|count| count > 0);
                let list = if was_listed { " It is not on that device's list any more." } else { "" };
                tale.tell(format!("{} was put in error: {reason}.{list}", capitalised(&world.device(device))));
            }
            Event::Evicted { plan, allocation, .. } | Event::Placed { plan, allocation, .. }
                if allocation == self.id =>
            {
                self.plans.insert(plan);
            }
            Event::PlanRetired { plan } => drop(self.plans.remove(&plan)),
            Event::PlanAbandoned { plan } if self.plans.remove(&plan) => {
                tale.tell(format!("The plan that moved it was given up before it had ended (plan {plan})."));
            }
            _ => self.of_reset(event, world, tale),
        }
    }

    fn of_reset(&mut self, event: &Event, world: &World, tale: &mut Tale) {
        match *event {
            Event::AdapterResetBegun { cause } if self.destroyed_at.is_none() => {
                let why = match cause {
                    DeviceErrorReason::AdapterReset => "a fault needed it".to_owned(),
                    cause => cause.to_string(),
                };
                tale.tell(format!("The adapter was to be reset: {why}."));
            }
            Event::EngineResetBegun { engine, ref reason, .. } if self.counts.values().any(|&count| count > 0) => {
                tale.tell(format!("Engine {engine} was to be reset: {reason}."));
            }
            Event::PurgeOperation { allocation, .. } if allocation == self.id => {
                let place = self.place.map_or("where it was".into(), |place| world.segments.name(place));
                tale.tell(format!("The driver was told that it is not in {place} any more."));
            }
            Event::ContentLost { allocation, is_kept: true } if allocation == self.id => {
                tale.tell(
                    "Its bytes are kept in system memory as the GPU left them: its driver could not put them right.",
                );
            }
            Event::ContentLost { allocation, is_kept: false } if allocation == self.id => {
                tale.tell("Its content was lost, because the only right copy of it was in what the reset cleared; it reads as zero.");
            }
            Event::AdapterRestarted if self.place.is_some() => {
                self.place = None;
                tale.tell("The adapter ran again, and it was resident nowhere.");
            }
            _ => {}
        }
    }

    /// Tells an access to one of its addresses, or to one that is nearest to one of its mappings.
    fn of_fault(
        &self,
        hit: Option<AllocationId>,
        address: GpuVirtualAddress,
        write: bool,
        (below, above): (Option<Neighbour>, Option<Neighbour>),
        tale: &mut Tale,
    ) {
        let how = if write { "wrote to" } else { "read" };
        if hit == Some(self.id) {
            tale.tell(format!("Work {how} it where it was not resident (at {address}) and faulted."));
            return;
        }
        let is_this = |neighbour: &Neighbour| neighbour.allocation == self.id;
        if let Some(Neighbour { virtual_address, size, .. }) = below.filter(is_this) {
            let distance = address.0.saturating_sub(virtual_address.0.saturating_add(size));
            tale.tell(format!(
                "Work {how} an address after the end of its mapping, the nearest below (at {address}, {} after it), and faulted.",
                ByteSize(distance)
            ));
        }
        if let Some(Neighbour { virtual_address, .. }) = above.filter(is_this) {
            let distance = virtual_address.0.saturating_sub(address.0);
            tale.tell(format!(
                "Work {how} an address before its mapping, the nearest above (at {address}, {} before it), and faulted.",
                ByteSize(distance)
            ));
        }
    }
}
