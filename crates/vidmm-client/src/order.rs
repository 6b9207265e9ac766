//! The order in which managed allocations may be evicted: least recently used first, by the memory in which each counts.

use alloc::{
    collections::{BinaryHeap, binary_heap::PeekMut},
    vec::Vec,
};
use core::cmp::Reverse;

use super::uses::UseNo;
use vidmm::MemoryAccount;

/// A use and an allocation last used in the use, as far as the order knows; the oldest on top. A later use only makes the entry
/// out of date.
type Heap = BinaryHeap<Reverse<(UseNo, u32)>>;

/// The allocations on the device's list, as heaps by last use.
///
/// A use writes a stamp, and does not touch the heaps. An entry is brought up to date only on top of the heap, once for each
/// use at most. So the search for a victim looks only at entries that seem older than the victim.
#[derive(Default)]
pub(super) struct EvictionOrder {
    heaps: Vec<(MemoryAccount, Heap)>,
    /// By index.
    entries: Vec<Entry>,
}

/// The place of an allocation's entry.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// The present heap of the entry, or the last heap.
    heap: usize,
    is_in: bool,
}

impl EvictionOrder {
    /// An allocation used in `number` has joined the list, and counts in `account`.
    pub fn join(&mut self, index: u32, number: UseNo, account: MemoryAccount) {
        if self.entries.len() <= index as usize {
            self.entries.resize(index as usize + 1, Entry::default());
        }
        // The stale entry of the index is not taken out of the middle of the heap: the entry serves the new allocation.
        if !self.entries[index as usize].is_in {
            self.entries[index as usize].heap = self.heap_of(account);
            self.put_back(index, number);
        }
    }

    /// Takes out the least recently used allocation of the accounts of `is_of`, if the last use was `last` or before. At equal
    /// use, the lowest index.
    ///
    /// `last_use` tells the last use of an allocation; none outside of the list.
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

    /// Puts an allocation that stays on the list back into the former heap, if taken out.
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

    /// Puts all entries into the heaps of their accounts by `account_of`; an entry without an account stays. Returns whether an
    /// entry has moved.
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

/// Brings the top of a heap up to date. Returns the top, if the use is `last` or earlier.
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

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::{EvictionOrder, UseNo};
    use vidmm::{MemoryAccount, SegmentId};

    const LOCAL: MemoryAccount = MemoryAccount { segment: SegmentId(1), group: None };
    const SYSTEM: MemoryAccount = MemoryAccount { segment: SegmentId::SYSTEM, group: None };

    /// An order whose allocations each joined by a use of their own, in turn.
    fn order_of(accounts: &[MemoryAccount]) -> EvictionOrder {
        let mut order = EvictionOrder::default();
        accounts.iter().zip(0..).for_each(|(&account, index)| order.join(index, index + 1, account));
        order
    }

    fn pop_all(order: &mut EvictionOrder, account: MemoryAccount, uses: &[Option<UseNo>]) -> Vec<u32> {
        core::iter::from_fn(|| order.pop(9, |other| other == account, |index| uses[index as usize])).collect()
    }

    #[test]
    fn an_entry_is_brought_up_to_date_when_it_is_on_top() {
        let mut order = order_of(&[LOCAL; 4]);
        let uses = [Some(7), Some(7), None, Some(4)];
        assert_eq!(order.pop(3, |_| true, |index| uses[index as usize]), None, "all were used later");
        assert_eq!(pop_all(&mut order, LOCAL, &uses), [3, 0, 1]);
        assert_eq!(order.drain(), []);
    }

    #[test]
    fn an_allocation_that_joins_again_has_one_entry() {
        let mut order = order_of(&[LOCAL; 2]);
        order.join(0, 5, LOCAL);
        order.put_back(1, 2);
        assert_eq!(pop_all(&mut order, LOCAL, &[Some(5), Some(2)]), [1, 0]);
    }

    #[test]
    fn an_allocation_that_counts_elsewhere_by_now_is_found_there() {
        let mut order = order_of(&[SYSTEM, LOCAL, SYSTEM]);
        let uses = [Some(1), Some(2), Some(3)];
        assert!(!order.correct_accounts(|_| None), "all are gone");
        let account_of = |index| [SYSTEM, LOCAL, LOCAL].get(index as usize).copied();
        assert!(order.correct_accounts(account_of));
        assert!(!order.correct_accounts(account_of), "all are right");
        assert_eq!(pop_all(&mut order, LOCAL, &uses), [1, 2]);
        assert_eq!(order.drain(), vec![0]);
    }

    #[test]
    fn renumbered_uses_keep_their_order() {
        let mut order = order_of(&[LOCAL; 3]);
        order.renumber(|number| (number - 1).max(1));
        assert_eq!(pop_all(&mut order, LOCAL, &[Some(1), Some(1), Some(2)]), [0, 1, 2]);
    }
}
