//! Events about DMA buffers that refer to allocations by patch locations, as sentences and as a table.

use std::collections::BTreeMap;

use serde::Serialize;
use vidmm::Event;
use vidmm::event::{EvictReason, PortionBinding, PortionEnd};

use super::names::Names;
use crate::exact::exact;

/// A portion of a DMA buffer, as it was handed to its engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PortionRow {
    /// The command buffer that it was rendered from.
    pub dma_buffer: String,
    /// Its number in the DMA buffer, from 1.
    pub portion: u32,
    /// Its first byte.
    pub start_offset: u32,
    /// The first byte that is not in it.
    pub end_offset: u32,
    /// Why it ends there.
    pub end: String,
    /// The slots that the portion's commands need.
    pub slots: Vec<SlotRow>,
    /// Whether the driver was asked to patch it.
    pub patched: bool,
}

/// A slot of a portion's resource table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlotRow {
    /// The slot.
    pub slot_id: u32,
    /// The allocation that is bound to the slot; none if it is unbound.
    pub allocation: Option<String>,
    /// The allocation's place.
    pub address: Option<String>,
    /// The state of the slot at the portion's split point.
    pub state: SlotState,
}

/// The state of a slot when a portion begins (SPL-03, SPL-08).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlotState {
    /// The slot holds another allocation than in the portion before, or its first.
    Bound,
    /// The slot holds nothing any more.
    Unbound,
    /// The slot holds the same allocation and is not reprogrammed, so the allocation keeps its place.
    Fixed,
    /// The slot is reprogrammed with the same allocation, which could have moved and did not.
    Reprogrammed,
    /// The slot is reprogrammed with the same allocation, which has moved.
    Moved,
}

/// The portions of a run, by the event log alone, without those of renderings that only look at content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Portions {
    /// In the order in which they were handed out.
    pub rows: Vec<PortionRow>,
    /// DMA buffers that were dropped because they could not be brought in.
    pub num_dropped: u64,
    /// The number of moves of allocations within their segment that made room for the rest of a portion.
    pub num_moves: u64,
    /// The bindings of the slots in the last portion of each DMA buffer that has not ended.
    #[serde(skip)]
    held: BTreeMap<u64, BTreeMap<u32, PortionBinding>>,
}

impl Portions {
    /// Reads the next event.
    pub(crate) fn observe(&mut self, event: &Event, names: &Names) {
        match event {
            Event::Portion { dma_buffer, .. } if !names.looks.contains(dma_buffer) => self.add(event, names),
            Event::PreparationFailed { .. } => self.num_dropped += 1,
            Event::Evicted { reason: EvictReason::Moved, .. } => self.num_moves += 1,
            _ => {}
        }
    }

    fn add(&mut self, event: &Event, names: &Names) {
        let &Event::Portion {
            dma_buffer, portion, start_offset, end_offset, is_last, ref bindings, cut, patched, ..
        } = event
        else {
            return;
        };
        let before = self.held.remove(&dma_buffer).unwrap_or_default();
        let mut held = before.clone();
        let mut slots: Vec<SlotRow> = Vec::new();
        for binding in bindings {
            let slot = SlotRow {
                slot_id: binding.slot_id,
                allocation: binding.allocation.map(|allocation| names.allocation(allocation)),
                address: binding.allocation.map(|_| names.address(binding.address)),
                state: state(before.get(&binding.slot_id), binding),
            };
            match binding.allocation {
                Some(_) => drop(held.insert(binding.slot_id, *binding)),
                None => drop(held.remove(&binding.slot_id)),
            }
            // Commands that use a slot more than once reprogram it more than once.
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        }
        if !is_last {
            self.held.insert(dma_buffer, held);
        }
        let (dma_buffer, end) = (names.dma_buffer(dma_buffer), end_of_portion(cut, names));
        self.rows.push(PortionRow { dma_buffer, portion: portion + 1, start_offset, end_offset, end, slots, patched });
    }
}

fn state(before: Option<&PortionBinding>, now: &PortionBinding) -> SlotState {
    match before.filter(|before| before.allocation == now.allocation) {
        _ if now.allocation.is_none() => SlotState::Unbound,
        _ if now.fixed => SlotState::Fixed,
        None => SlotState::Bound,
        Some(before) if before.address == now.address => SlotState::Reprogrammed,
        Some(_) => SlotState::Moved,
    }
}

fn end_of_portion(cut: PortionEnd, names: &Names) -> String {
    match cut {
        PortionEnd::EndOfDmaBuffer => "end of the buffer".to_owned(),
        PortionEnd::NoRoom { allocation } => format!("no room for {}", names.allocation(allocation)),
        PortionEnd::TakeSplitPoint => "every split point".to_owned(),
    }
}

/// The verb and the rest; none of an event that has another sentence, or no sentence.
pub(super) fn portion(event: &Event, names: &Names) -> Option<(&'static str, String)> {
    match event {
        Event::Portion { dma_buffer, portion, bindings, patched: true, .. } => {
            let mut slots: Vec<String> = Vec::new();
            for binding in bindings.iter().filter(|binding| !binding.fixed) {
                let address = names.address(binding.address);
                let slot = binding.allocation.map(|allocation| {
                    format!("slot {} {} at {address}", binding.slot_id, names.allocation(allocation))
                });
                slots.extend(slot.filter(|slot| !slots.contains(slot)));
            }
            let of = format!("portion {} of {}", portion + 1, names.dma_buffer(*dma_buffer));
            Some(("Patch", format!("{of}: {}", slots.join(", "))))
        }
        Event::PreparationFailed { dma_buffer, offset, bytes, .. } => {
            let (name, bytes) = (names.dma_buffer(*dma_buffer), exact(*bytes));
            Some(("drop", format!("{name}: {bytes} are bound together at byte {offset}, and do not fit")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use vidmm::{AllocationId, PhysicalAddress, SegmentId};

    use super::*;

    fn binding(allocation: Option<AllocationId>, offset: u64, fixed: bool) -> PortionBinding {
        PortionBinding { slot_id: 0, allocation, address: PhysicalAddress { segment: SegmentId(1), offset }, fixed }
    }

    #[test]
    fn a_slot_is_compared_with_its_binding_in_the_portion_before() {
        let a = Some(AllocationId::from_bits(1));
        let b = Some(AllocationId::from_bits(2));
        let before = binding(a, 0, false);
        assert_eq!(state(None, &before), SlotState::Bound);
        assert_eq!(state(Some(&before), &binding(b, 0, false)), SlotState::Bound);
        assert_eq!(state(Some(&before), &binding(a, 0, true)), SlotState::Fixed);
        assert_eq!(state(Some(&before), &binding(a, 0, false)), SlotState::Reprogrammed);
        assert_eq!(state(Some(&before), &binding(a, 4096, false)), SlotState::Moved);
        assert_eq!(state(Some(&before), &binding(None, 0, false)), SlotState::Unbound);
    }
}
