//! The order in which managed allocations may be evicted: least recently used first, by the memory in which each counts.

use alloc::{
    collections::{BinaryHeap, binary_heap::PeekMut},
    vec::Vec,
};
use core::cmp::Reverse;

use super::uses::UseNo;
use crate::MemoryAccount;

/// A use and the allocation that was last used in it, as far as the order knows; the oldest on top. A use that came later
/// only makes the entry out of date.
type Heap = BinaryHeap<Reverse<(UseNo, u32)>>;

/// The allocations on the device's list, as heaps by their last uses.
///
/// A use writes a stamp and does nothing here. An entry is brought up to date only when it is on top of its heap, and each
/// time a use has paid for that. So the search for a victim looks at entries that seem older than it, and at no others.
#[derive(Default)]
pub(super) struct EvictionOrder {
    heaps: Vec<(MemoryAccount, Heap)>,
    /// By index.
    entries: Vec<Entry>,
}

/// The place of an allocation's entry.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// The heap that it is in, or was in last.
    heap: usize,
    is_in: bool,
}

impl EvictionOrder {
    /// An allocation that was used in `number` has joined the list, and counts in `account`.
    pub fn join(&mut self, index: u32, number: UseNo, account: MemoryAccount) {
        if self.entries.len() <= index as usize {
            self.entries.resize(index as usize + 1, Entry::default());
        }
        // The entry of an allocation that has left meanwhile, or of the index's former owner, is not taken out of the
        // middle of its heap: it serves for this one.
        if !self.entries[index as usize].is_in {
            self.entries[index as usize].heap = self.heap_of(account);
            self.put_back(index, number);
        }
    }

    /// Takes out the allocation that was used longest ago among those that count in accounts that `is_of` accepts, if that was
    /// in use `last` or before. Of those used together it is the one with the lowest index.
    ///
    /// `last_use` tells the last use of an allocation; none if it is not on the list.
    pub fn pop(
        &mut self,
        last: UseNo,
        is_of: impl Fn(MemoryAccount) -> bool,
        last_use: impl Fn(u32) -> Option<UseNo>,
    ) -> Option<u32> {
        let Self { heaps, entries } = self;
        let mut oldest: Option<((UseNo, u32), &mut Heap)> = None;
        for (_, heap) in heaps.iter_mut().filter(|(account, _)| is_of(*account)) {
            let Some(first) = settle(heap, entries, last, &last_use) else { continue };
            if oldest.as_ref().is_none_or(|(other, _)| first < *other) {
                oldest = Some((first, heap));
            }
        }
        let ((_, index), heap) = oldest?;
        heap.pop();
        entries[index as usize].is_in = false;
        Some(index)
    }

    /// Puts an allocation that stays on the list back into the heap that it came from, if it was taken out.
    pub fn put_back(&mut self, index: u32, number: UseNo) {
        let entry = &mut self.entries[index as usize];
        if !core::mem::replace(&mut entry.is_in, true) {
            self.heaps[entry.heap].1.push(Reverse((number, index)));
        }
    }

    /// Takes everything out, in no order.
    pub fn drain(&mut self) -> Vec<u32> {
        let entries = self.heaps.iter_mut().flat_map(|(_, heap)| heap.drain());
        let drained: Vec<u32> = entries.map(|Reverse((_, index))| index).collect();
        drained.iter().for_each(|&index| self.entries[index as usize].is_in = false);
        drained
    }

    /// Puts all entries into the heaps of the accounts that `account_of` tells; an entry without one stays where it is.
    /// Returns whether any was elsewhere.
    pub fn correct_accounts(&mut self, account_of: impl Fn(u32) -> Option<MemoryAccount>) -> bool {
        let is_elsewhere =
            |&(_, index): &(UseNo, u32), known| account_of(index).is_some_and(|account| account != known);
        let mut moved = Vec::new();
        for (known, heap) in &mut self.heaps {
            if heap.iter().any(|Reverse(entry)| is_elsewhere(entry, *known)) {
                moved.extend(heap.iter().map(|Reverse(entry)| *entry).filter(|entry| is_elsewhere(entry, *known)));
                heap.retain(|Reverse(entry)| !is_elsewhere(entry, *known));
            }
        }
        for &(number, index) in &moved {
            self.entries[index as usize].is_in = false;
            self.join(index, number, account_of(index).expect("it was told before"));
        }
        !moved.is_empty()
    }

    /// Uses have new numbers: `renumbered` tells the new number of each.
    pub fn renumber(&mut self, renumbered: impl Fn(UseNo) -> UseNo) {
        for (_, heap) in &mut self.heaps {
            let entries = core::mem::take(heap).into_iter();
            *heap = entries.map(|Reverse((number, index))| Reverse((renumbered(number), index))).collect();
        }
    }

    fn heap_of(&mut self, account: MemoryAccount) -> usize {
        self.heaps.iter().position(|(known, _)| *known == account).unwrap_or_else(|| {
            self.heaps.push((account, Heap::new()));
            self.heaps.len() - 1
        })
    }
}

/// Brings the top of a heap up to date. Returns it, if its use is `last` or an earlier one.
fn settle(
    heap: &mut Heap,
    entries: &mut [Entry],
    last: UseNo,
    last_use: impl Fn(u32) -> Option<UseNo>,
) -> Option<(UseNo, u32)> {
    loop {
        let mut top = heap.peek_mut()?;
        let Reverse((number, index)) = *top;
        if number > last {
            return None;
        }
        match last_use(index) {
            Some(now) if now == number => return Some((number, index)),
            Some(now) => *top = Reverse((now, index)),
            None => {
                PeekMut::pop(top);
                entries[index as usize].is_in = false;
            }
        }
    }
}
