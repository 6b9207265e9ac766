//! How much memory the workload would need: the bytes of other allocations beside one, between two uses of it.
//!
//! A list that begins to name an allocation uses it. An order of eviction by age has it there still at its next use if it fits beside
//! all that was used since, at the moment at which that was most: what was destroyed in between had taken room too. So one pass
//! tells how many bytes are copied in with any size of memory. Page tables in memory segments take room beside them. Uses by lists
//! that keep an allocation are not seen. So no answer is below the largest list of a device, which is at least the largest kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::{Value, json};
use vidmm::contract::SegmentSet;
use vidmm::{AllocationId, DeviceId, Event, SegmentId};

use crate::timeline::BYTES_MAX;

/// The points of the curve that a page has.
const POINTS: usize = 512;

/// Uses so far.
#[derive(Debug, Default)]
pub(super) struct Reuse {
    sizes: BTreeMap<AllocationId, u64>,
    /// The place of the last use of each allocation in the order of all uses.
    last: BTreeMap<AllocationId, usize>,
    depths: Depths,
    /// Bytes that are used again, by the bytes that memory must have for that.
    again: BTreeMap<u64, u64>,
    /// Bytes that were used for the first time.
    first: u64,
    tables: Tables,
    lists: Lists,
}

/// The lists of devices, as far as the allocations can be in memory segments only.
#[derive(Debug, Default)]
struct Lists {
    /// The memory segments, as a mask.
    memory: u32,
    in_memory_only: BTreeSet<AllocationId>,
    /// How often each device lists an allocation, and the bytes of the list.
    counts: BTreeMap<DeviceId, (BTreeMap<AllocationId, u64>, u64)>,
    /// The most bytes that one list ever had.
    most: u64,
}

/// Bytes of page tables in memory segments, and the most that there were.
#[derive(Debug, Default)]
struct Tables {
    now: u64,
    most: u64,
}

impl Reuse {
    pub fn event(&mut self, event: &Event) {
        match *event {
            Event::AdapterStarted { paging_table_bytes, paging_tables_segment, ref memory, .. } => {
                self.tables.placed(paging_tables_segment, paging_table_bytes);
                let ids = memory.iter().map(|memory| memory.segment).filter(|id| (1..=32).contains(&id.0));
                self.lists.memory = ids.fold(0, |mask, id| mask | SegmentSet::of(id).0);
            }
            Event::PageTablePlaced { address, size, .. } => self.tables.placed(address.segment, size),
            Event::PageTableFreed { address, size, .. } if !address.segment.is_system() => {
                self.tables.now = self.tables.now.saturating_sub(size);
            }
            Event::AllocationCreated { allocation, size, supported_segment_set, .. } => {
                self.sizes.insert(allocation, size.min(BYTES_MAX));
                if supported_segment_set & !self.lists.memory == 0 {
                    self.lists.in_memory_only.insert(allocation);
                }
            }
            Event::Evict { device, ref allocations, .. } => {
                allocations.iter().for_each(|&allocation| self.lists.leave(device, allocation, &self.sizes));
            }
            Event::DeviceInError { device, .. } | Event::DeviceDestroyed { device } => {
                self.lists.counts.remove(&device);
            }
            Event::MakeResident { device, ref allocations, .. } => {
                allocations.iter().for_each(|&allocation| self.lists.join(device, allocation, &self.sizes));
                // The allocations that one call names are there at the same time, in any order.
                let mut named: Vec<AllocationId> = allocations.clone();
                named.sort_unstable();
                named.dedup();
                let distances: Vec<_> = named.iter().map(|&allocation| self.distance(allocation)).collect();
                for (allocation, distance) in named.into_iter().zip(distances) {
                    self.used(allocation, distance);
                }
            }
            Event::AllocationDestroyed { allocation, .. } => {
                self.lists.forget(allocation, &self.sizes);
                if let (Some(size), Some(place)) = (self.sizes.remove(&allocation), self.last.remove(&allocation)) {
                    self.depths.add(0, place, -(size as i64));
                }
            }
            _ => {}
        }
    }

    /// The bytes that memory must have for an allocation to be there since its last use; none if it had no use.
    fn distance(&mut self, allocation: AllocationId) -> Option<u64> {
        let place = *self.last.get(&allocation)?;
        let size = self.sizes.get(&allocation).copied().unwrap_or(0);
        Some(self.depths.most(place) + size)
    }

    fn used(&mut self, allocation: AllocationId, distance: Option<u64>) {
        let Some(&size) = self.sizes.get(&allocation) else { return };
        match distance {
            Some(bytes) => *self.again.entry(bytes).or_default() += size,
            None => self.first += size,
        }
        // It lies upon all that was used since, and lay upon the rest before.
        let before = self.last.get(&allocation).map_or(0, |&place| place + 1);
        self.depths.add(before, self.depths.len(), size as i64);
        self.last.insert(allocation, self.depths.push());
        if self.depths.len() > 64 && self.depths.len() > 4 * self.last.len() {
            self.compact();
        }
    }

    /// Numbers the last uses anew, without the places of uses that others have followed.
    fn compact(&mut self) {
        let mut uses: Vec<(usize, AllocationId)> =
            self.last.iter().map(|(&allocation, &place)| (place, allocation)).collect();
        uses.sort_unstable();
        let places = uses.iter().map(|&(place, _)| place);
        self.depths = self.depths.picked(places);
        self.last = uses.into_iter().enumerate().map(|(place, (_, allocation))| (allocation, place)).collect();
    }

    /// The curve: sizes of memory, and the bytes that are copied in with less than each.
    pub fn into_value(self) -> Value {
        let all: u64 = self.again.values().sum();
        let every = self.again.len().div_ceil(POINTS).max(1);
        let mut missed = all;
        let tables = self.tables.most;
        let least = tables.saturating_add(self.lists.most);
        let mut points = vec![[tables, all]];
        let count = self.again.len();
        for (number, (distance, bytes)) in self.again.into_iter().enumerate() {
            missed -= bytes;
            if (number + 1) % every == 0 || number + 1 == count {
                points.push([tables.saturating_add(distance), missed]);
            }
        }
        json!({ "first": self.first, "points": no_less(points, least) })
    }
}

/// The points of the curve from `least` bytes of memory on.
fn no_less(mut points: Vec<[u64; 2]>, least: u64) -> Vec<[u64; 2]> {
    points.iter_mut().for_each(|point| point[0] = point[0].max(least));
    // Of points with equal memory the last has what that memory misses.
    points.reverse();
    points.dedup_by_key(|point| point[0]);
    points.reverse();
    points
}

impl Lists {
    fn join(&mut self, device: DeviceId, allocation: AllocationId, sizes: &BTreeMap<AllocationId, u64>) {
        if !self.in_memory_only.contains(&allocation) {
            return;
        }
        let (counts, bytes) = self.counts.entry(device).or_default();
        let count = counts.entry(allocation).or_default();
        *count += 1;
        if *count == 1 {
            *bytes = bytes.saturating_add(sizes.get(&allocation).copied().unwrap_or(0));
            self.most = self.most.max(*bytes);
        }
    }

    fn leave(&mut self, device: DeviceId, allocation: AllocationId, sizes: &BTreeMap<AllocationId, u64>) {
        let Some((counts, bytes)) = self.counts.get_mut(&device) else { return };
        let Some(count) = counts.get_mut(&allocation) else { return };
        *count -= 1;
        if *count == 0 {
            counts.remove(&allocation);
            *bytes = bytes.saturating_sub(sizes.get(&allocation).copied().unwrap_or(0));
        }
    }

    fn forget(&mut self, allocation: AllocationId, sizes: &BTreeMap<AllocationId, u64>) {
        for (counts, bytes) in self.counts.values_mut() {
            if counts.remove(&allocation).is_some() {
                *bytes = bytes.saturating_sub(sizes.get(&allocation).copied().unwrap_or(0));
            }
        }
        self.in_memory_only.remove(&allocation);
    }
}

impl Tables {
    fn placed(&mut self, segment: SegmentId, size: u64) {
        if !segment.is_system() {
            self.now = self.now.saturating_add(size.min(BYTES_MAX));
            self.most = self.most.max(self.now);
        }
    }
}

/// For each use in the order of uses the bytes that lie upon it, and the most that ever did: a tree, in which a change of many takes
/// logarithmic time.
#[derive(Debug, Default)]
struct Depths {
    /// A node has the nodes `2 * i` and `2 * i + 1` below it. Leaves are the last half.
    nodes: Vec<Node>,
    len: usize,
}

/// Of a leaf, the bytes upon it; of another node, what is still to be added to all leaves below.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    bytes: i64,
    /// The most that `bytes` ever was.
    most: i64,
}

impl Depths {
    fn len(&self) -> usize {
        self.len
    }

    fn leaves(&self) -> usize {
        self.nodes.len() / 2
    }

    /// Appends a use, upon which nothing lies. Returns its place.
    fn push(&mut self) -> usize {
        if self.len == self.leaves() {
            *self = self.grown(0..self.len, 2 * self.len.max(32));
        }
        let place = self.len;
        self.len += 1;
        self.settle(place);
        let leaf = self.leaves() + place;
        self.nodes[leaf] = Node::default();
        place
    }

    /// These places, in their order.
    fn picked(&mut self, places: impl Iterator<Item = usize>) -> Self {
        let leaves = self.leaves();
        self.grown(places, leaves)
    }

    fn grown(&mut self, places: impl Iterator<Item = usize>, leaves: usize) -> Self {
        let mut grown = Self { nodes: vec![Node::default(); 2 * leaves], len: 0 };
        for place in places {
            self.settle(place);
            grown.nodes[leaves + grown.len] = self.nodes[self.leaves() + place];
            grown.len += 1;
        }
        grown
    }

    /// The most bytes that ever lay upon a use.
    fn most(&mut self, place: usize) -> u64 {
        self.settle(place);
        self.nodes[self.leaves() + place].most.max(0) as u64
    }

    /// Adds to the bytes upon the uses from `first` on, up to `until`.
    fn add(&mut self, first: usize, until: usize, bytes: i64) {
        if first < until {
            self.add_below(1, 0..self.leaves(), &(first..until), Node { bytes, most: bytes.max(0) });
        }
    }

    fn add_below(&mut self, node: usize, covers: Range<usize>, range: &Range<usize>, change: Node) {
        if range.end <= covers.start || covers.end <= range.start {
            return;
        }
        if range.start <= covers.start && covers.end <= range.end {
            return self.apply(node, change);
        }
        self.push_down(node);
        let middle = covers.start.midpoint(covers.end);
        self.add_below(2 * node, covers.start..middle, range, change);
        self.add_below(2 * node + 1, middle..covers.end, range, change);
    }

    /// Brings all that is still to be added to a leaf down to it.
    fn settle(&mut self, place: usize) {
        let leaf = self.leaves() + place;
        for level in (1..=leaf.ilog2()).rev() {
            self.push_down(leaf >> level);
        }
    }

    fn push_down(&mut self, node: usize) {
        let change = std::mem::take(&mut self.nodes[node]);
        self.apply(2 * node, change);
        self.apply(2 * node + 1, change);
    }

    fn apply(&mut self, node: usize, change: Node) {
        let node = &mut self.nodes[node];
        node.most = node.most.max(node.bytes + change.most);
        node.bytes += change.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_and_their_maxima_are_those_of_a_plain_list() {
        let (mut depths, mut plain) = (Depths::default(), Vec::<(i64, i64)>::new());
        let mut random = 1u64;
        let mut below = |limit: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % limit
        };
        for step in 0..2000 {
            assert_eq!(depths.push(), plain.len());
            plain.push((0, 0));
            let (one, other) = (below(plain.len() + 1), below(plain.len() + 1));
            let (first, until, bytes) = (one.min(other), one.max(other), below(100) as i64 - 40);
            depths.add(first, until, bytes);
            for (now, most) in &mut plain[first..until] {
                *now += bytes;
                *most = (*most).max(*now);
            }
            let place = below(plain.len());
            assert_eq!(depths.most(place), plain[place].1 as u64, "step {step}, place {place}");
            if step % 100 == 99 {
                let kept: Vec<usize> = (0..plain.len()).filter(|place| place % 3 > 0).collect();
                depths = depths.picked(kept.iter().copied());
                plain = kept.into_iter().map(|place| plain[place]).collect();
            }
        }
    }

    #[test]
    fn an_allocation_destroyed_in_between_had_taken_room_too() {
        let device = vidmm::DeviceId::from_bits(0);
        let id = AllocationId::from_bits;
        let mut reuse = Reuse::default();
        for (bits, size) in [(1, 10), (2, 70)] {
            reuse.sizes.insert(id(bits), size);
        }
        let name = |reuse: &mut Reuse, bits| {
            reuse.event(&Event::MakeResident {
                device,
                queue: vidmm::PagingQueueId::from_bits(0),
                allocations: vec![id(bits)],
                flags: vidmm::MakeResidentFlags::empty(),
                after_submission: 0,
                paging_fence_value: 0,
                waiting: Vec::new(),
            });
        };
        name(&mut reuse, 1);
        name(&mut reuse, 2);
        reuse.event(&Event::AllocationDestroyed { allocation: id(2), flags: vidmm::DestroyFlags::empty() });
        name(&mut reuse, 1);
        assert_eq!(reuse.again, BTreeMap::from([(80, 10)]));
    }

    #[test]
    fn no_answer_is_below_the_largest_list() {
        let [device, other] = [0, 1].map(DeviceId::from_bits);
        let [a, b, c] = [1, 2, 3].map(AllocationId::from_bits);
        let sizes = BTreeMap::from([(a, 30), (b, 40), (c, 90)]);
        let mut lists = Lists { in_memory_only: BTreeSet::from([a, b]), ..Lists::default() };
        for (device, allocation) in [(device, a), (device, a), (device, c), (other, b), (device, b)] {
            lists.join(device, allocation, &sizes);
        }
        lists.leave(device, a, &sizes);
        assert_eq!((lists.counts[&device].1, lists.most), (70, 70), "the list has it twice, and may have c elsewhere");
        lists.leave(device, a, &sizes);
        lists.forget(b, &sizes);
        assert_eq!((lists.counts[&device].1, lists.counts[&other].1, lists.most), (0, 0, 70));
        assert_eq!(no_less(vec![[5, 100], [20, 60], [90, 0]], 70), [[70, 60], [90, 0]]);
        assert_eq!(no_less(vec![[5, 0]], 70), [[70, 0]]);
    }
}
