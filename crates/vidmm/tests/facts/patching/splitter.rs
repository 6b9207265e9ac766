//! A splitter that was written from the description of splitting alone, and a placement by trying all there are.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::{contract::SegmentSet, *};

/// A patch location: where, which slot, and which allocation by its number; none unbinds.
pub struct Entry {
    pub split: u32,
    pub slot: u32,
    pub allocation: Option<usize>,
}

#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Part {
    pub start: u32,
    pub end: u32,
    pub required: BTreeSet<usize>,
    /// Of these, what was bound before `start` and is not reprogrammed there.
    pub kept: BTreeSet<usize>,
}

/// The parts of a DMA buffer, and where it cannot go on. `takes(part, more, offset)` says whether what is bound at `offset` is
/// taken into the part.
pub fn split(
    entries: &[Entry],
    end: u32,
    mut takes: impl FnMut(&Part, &BTreeSet<usize>, u32) -> bool,
) -> (Vec<Part>, Option<u32>) {
    let mut table: BTreeMap<u32, usize> = BTreeMap::new();
    let mut parts = Vec::new();
    let mut part = Part { start: 0, end, required: BTreeSet::new(), kept: BTreeSet::new() };
    for point in entries.chunk_by(|entry, next| entry.split == next.split) {
        let offset = point[0].split;
        let bound: BTreeSet<usize> = point.iter().filter_map(|entry| entry.allocation).collect();
        if !takes(&part, &bound, offset) {
            if offset > part.start {
                parts.push(Part { end: offset, ..part });
                let is_kept = |slot: &u32| point.iter().all(|entry| entry.slot != *slot);
                let kept: BTreeSet<usize> =
                    table.iter().filter(|(slot, _)| is_kept(slot)).map(|(_, &allocation)| allocation).collect();
                part = Part { start: offset, end, required: kept.clone(), kept };
            }
            if !takes(&part, &bound, offset) {
                return (parts, Some(offset));
            }
        }
        part.required.extend(bound);
        for entry in point {
            match entry.allocation {
                Some(allocation) => drop(table.insert(entry.slot, allocation)),
                None => drop(table.remove(&entry.slot)),
            }
        }
    }
    parts.push(part);
    (parts, None)
}

/// Whether items of these sizes, each of which may be in some memories, fit into them beside what is taken, wherever they go.
pub fn can_be_placed(memories: &mut [(SegmentId, Vec<bool>); 2], items: &[(usize, SegmentSet)]) -> bool {
    let Some((&(size, segments), rest)) = items.split_first() else { return true };
    for memory in 0..2 {
        let (segment, units) = (memories[memory].0, memories[memory].1.len());
        for at in (0..(units + 1).saturating_sub(size)).filter(|_| segments.contains(segment)) {
            if memories[memory].1[at..at + size].contains(&true) {
                continue;
            }
            memories[memory].1[at..at + size].fill(true);
            let found = can_be_placed(memories, rest);
            memories[memory].1[at..at + size].fill(false);
            if found {
                return true;
            }
        }
    }
    false
}
