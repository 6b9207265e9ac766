//! Portions of DMA buffers: those that require the allocation, and those that end because it does not fit.

use vidmm::Event;
use vidmm::event::PortionEnd;

use super::subject::Subject;
use super::tale::Tale;
use super::words::list;
use super::world::World;

impl Subject {
    /// Tells the portions of DMA buffers that refer to it.
    pub fn of_portions(&mut self, event: &Event, world: &World, tale: &mut Tale) {
        let Event::Portion { device, dma_buffer, portion, bindings, cut, .. } = event else { return };
        let which = || format!("portion {} of DMA buffer {dma_buffer} of {}", portion + 1, world.device(*device));
        let mine = bindings.iter().filter(|binding| binding.allocation == Some(self.id));
        let mut slots: Vec<u32> = mine.clone().map(|binding| binding.slot_id).collect();
        slots.dedup();
        if let Some(first) = mine.clone().next() {
            let (place, offset) = (world.segments.name(first.address.segment), first.address.offset);
            let kept = match mine.clone().any(|binding| binding.fixed) {
                true => ", where it had to stay because its slot was not programmed again",
                false => "",
            };
            let noun = if slots.len() == 1 { "slot" } else { "slots" };
            tale.tell(format!("In {noun} {}, {} required it at {offset:#x} of {place}{kept}.", list(&slots), which()));
        }
        if *cut == (PortionEnd::NoRoom { allocation: self.id }) {
            tale.tell(format!("It did not fit beside what {} required, which ended before it.", which()));
        }
    }
}
