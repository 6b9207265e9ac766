//! A queue in ascending order of rank, whose members leave from anywhere.
//!
//! Members mostly come in the order of their ranks: those are appended to an array, and one that leaves is a bit cleared, which
//! touches no other. A member that comes *late*, with a lower rank than the last of the array, stands in a tree beside it. When
//! the room is used up, the queue is made anew, in order and without gaps, with room for as many members again. So a member costs
//! a constant time, however many there are, and one that comes late a logarithmic one until the queue is next made anew.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::data::{number_set::NumberSet, packed::U56};

/// The members that a queue has room for at least.
const LEAST_ROOM: usize = 64;

/// The place of a member in its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// In the array, at this index.
    InOrder(u32),
    /// In the tree, with this number among those that came late.
    Late(U56),
}

const _: () = assert!(size_of::<Standing>() == 8, "each allocation has one");

/// Packed, so that a member of four bytes makes it one of twelve.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Entry<T: Copy> {
    rank: u64,
    member: T,
}

const _: () = assert!(size_of::<Entry<u32>>() == 12, "each evictable allocation has one, and as many have left");

/// The queue. Each member knows its [`Standing`], which the queue tells it.
#[derive(Debug)]
pub(crate) struct RankQueue<T: Copy> {
    first: Option<(u64, T)>,
    /// Members that came in order, and those of them that have left.
    in_order: Vec<Entry<T>>,
    /// The indices of `in_order` that have not left.
    present: NumberSet,
    /// Members by rank and number.
    late: BTreeMap<(u64, u64), T>,
    /// The number of the last member that came late.
    last_late: u64,
    /// The most members in array and tree.
    room: usize,
}

impl<T: Copy> Default for RankQueue<T> {
    fn default() -> Self {
        Self {
            first: None,
            in_order: Vec::new(),
            present: NumberSet::new(LEAST_ROOM),
            late: BTreeMap::new(),
            last_late: 0,
            room: LEAST_ROOM,
        }
    }
}

impl<T: Copy + PartialEq> RankQueue<T> {
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The rank of the first member, and that member.
    pub fn first(&self) -> Option<(u64, T)> {
        self.first
    }

    /// The first member of `rank` or above.
    pub fn first_from(&self, rank: u64) -> Option<(u64, T)> {
        self.first_of(self.in_order.partition_point(|entry| entry.rank < rank), (rank, 0))
    }

    /// The member behind another one.
    pub fn after(&self, rank: u64, standing: Standing) -> Option<(u64, T)> {
        match standing {
            Standing::InOrder(at) => self.first_of(at as usize + 1, (rank, 0)),
            Standing::Late(number) => {
                let above = self.in_order.partition_point(|entry| entry.rank <= rank);
                self.first_of(above, (rank, number.get() + 1))
            }
        }
    }

    /// The first member of the array from an index on, and of the tree from a key on. Of equal rank, those of the array came first:
    /// a member is late only where the array goes on with a higher rank.
    fn first_of(&self, at: usize, key: (u64, u64)) -> Option<(u64, T)> {
        let in_order = self.present.next(at).map(|at| (self.in_order[at].rank, self.in_order[at].member));
        let late = self.late.range(key..).next().map(|(&(rank, _), &member)| (rank, member));
        match (in_order, late) {
            (Some(in_order), Some(late)) if late.0 < in_order.0 => Some(late),
            _ => in_order.or(late),
        }
    }

    /// Adds a member behind those of its rank or lower ones. `tell` hears the standing of each member that has got another.
    pub fn push(&mut self, rank: u64, member: T, mut tell: impl FnMut(T, Standing)) {
        if self.in_order.len() + self.late.len() >= self.room {
            self.make_anew(&mut tell);
        }
        let is_late = self.in_order.last().is_some_and(|last| rank < last.rank);
        let standing = if is_late {
            self.last_late += 1;
            self.late.insert((rank, self.last_late), member);
            Standing::Late(U56::new(self.last_late))
        } else {
            let at = self.in_order.len();
            self.in_order.push(Entry { rank, member });
            self.present.insert(at);
            Standing::in_order(at)
        };
        tell(member, standing);
        if self.first.is_none_or(|(first, _)| rank < first) {
            self.first = Some((rank, member));
        }
    }

    /// Takes out a member of this rank.
    #[inline(always)]
    pub fn remove(&mut self, member: T, rank: u64, standing: Standing) {
        match standing {
            Standing::InOrder(at) => self.present.remove(at as usize),
            Standing::Late(number) => {
                let late = self.late.remove(&(rank, number.get()));
                debug_assert!(late == Some(member), "only a member is taken out");
            }
        }
        if self.first == Some((rank, member)) {
            self.first = self.first_of(0, (0, 0));
        }
        if self.is_empty() {
            self.in_order.clear();
        }
    }

    /// Puts all members into the array, in order and without gaps.
    #[inline(never)]
    fn make_anew(&mut self, tell: &mut impl FnMut(T, Standing)) {
        let mut count = 0;
        self.present.iter().for_each(|at| {
            self.in_order[count] = self.in_order[at];
            count += 1;
        });
        self.in_order.truncate(count);
        if !self.late.is_empty() {
            let late = core::mem::take(&mut self.late).into_iter();
            self.in_order.extend(late.map(|((rank, _), member)| Entry { rank, member }));
            // The sort is stable, and merges the two runs in one pass.
            self.in_order.sort_by_key(|entry| entry.rank);
        }
        self.room = (2 * self.in_order.len()).max(LEAST_ROOM);
        self.in_order.reserve_exact(self.room - self.in_order.len());
        self.present = NumberSet::below(self.in_order.len(), self.room);
        for (at, entry) in self.in_order.iter().enumerate() {
            tell(entry.member, Standing::in_order(at));
        }
    }
}

impl Standing {
    fn in_order(at: usize) -> Self {
        Self::InOrder(u32::try_from(at).expect("there are fewer members than indices"))
    }
}

impl Default for Standing {
    /// Any, for a member of no queue.
    fn default() -> Self {
        Self::InOrder(0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{RankQueue, Standing};

    /// Members are numbered in the order in which they came, so that a sorted list of rank and member is the order of the queue.
    #[derive(Default)]
    struct Model {
        queue: RankQueue<u32>,
        /// The rank and the standing of each member that ever was.
        known: Vec<(u64, Standing)>,
        sorted: Vec<(u64, u32)>,
    }

    impl Model {
        fn push(&mut self, rank: u64) {
            let member = self.known.len() as u32;
            self.known.push((rank, Standing::default()));
            let known = &mut self.known;
            self.queue.push(rank, member, |member, standing| known[member as usize].1 = standing);
            let at = self.sorted.partition_point(|&(other, _)| other <= rank);
            self.sorted.insert(at, (rank, member));
        }

        fn remove(&mut self, at: usize) {
            let (rank, member) = self.sorted.remove(at);
            self.queue.remove(member, rank, self.known[member as usize].1);
        }

        fn walked(&self) -> Vec<(u64, u32)> {
            let after = |&(rank, member): &(u64, u32)| self.queue.after(rank, self.known[member as usize].1);
            core::iter::successors(self.queue.first(), after).collect()
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Call {
        /// A member comes with so much above the last rank that came in order.
        Append(u64),
        /// A member comes with this rank.
        Push(u64),
        /// The member at this place goes.
        Remove(usize),
        /// So many of the members from this place on go.
        RemoveRun(usize, usize),
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let call = prop_oneof![
            6 => (0..2_u64).prop_map(Call::Append),
            2 => (0..64_u64).prop_map(Call::Push),
            4 => any::<usize>().prop_map(Call::Remove),
            1 => (any::<usize>(), 0..100_usize).prop_map(|(at, count)| Call::RemoveRun(at, count)),
        ];
        prop::collection::vec(call, 0..1200)
    }

    proptest! {
        #[test]
        fn it_has_the_order_of_a_sorted_list(calls in calls(), ranks in prop::collection::vec(0..700_u64, 8)) {
            let mut model = Model::default();
            let mut last = 0;
            for call in calls {
                let count = model.sorted.len();
                match call {
                    Call::Append(more) => {
                        last += more;
                        model.push(last);
                    }
                    Call::Push(rank) => model.push(rank),
                    Call::Remove(at) if count > 0 => model.remove(at % count),
                    Call::RemoveRun(at, most) if count > 0 => {
                        let at = at % count;
                        (0..most.min(count - at)).for_each(|_| model.remove(at));
                    }
                    Call::Remove(_) | Call::RemoveRun(..) => {}
                }
                prop_assert_eq!(model.queue.first(), model.sorted.first().copied());
                prop_assert_eq!(model.queue.is_empty(), model.sorted.is_empty());
                prop_assert!(model.queue.room <= 2 * 1200);
            }
            prop_assert_eq!(&model.walked(), &model.sorted);
            for rank in ranks {
                let first = model.sorted.iter().copied().find(|&(other, _)| other >= rank);
                prop_assert_eq!(model.queue.first_from(rank), first);
            }
        }
    }

    #[test]
    fn the_room_follows_the_number_of_members() {
        let mut model = Model::default();
        (0..10_000).for_each(|rank| model.push(rank));
        (0..9_990).for_each(|_| model.remove(1));
        assert_eq!(model.walked(), model.sorted);
        assert!(model.queue.room >= 10_000);
        (0..20_000).for_each(|rank| {
            model.push(10_000 + rank);
            model.remove(1);
        });
        assert_eq!(model.walked(), model.sorted);
        assert_eq!(model.queue.room, super::LEAST_ROOM);
    }

    #[test]
    fn a_member_that_comes_late_goes_behind_those_of_its_rank() {
        let mut model = Model::default();
        [5, 5, 9, 5, 2, 9, 5].into_iter().for_each(|rank| model.push(rank));
        assert_eq!(model.walked(), [(2, 4), (5, 0), (5, 1), (5, 3), (5, 6), (9, 2), (9, 5)]);
        // All that came in order are gone, and ranks below theirs are late all the same until the queue is empty.
        [6, 5, 2, 1].into_iter().for_each(|at| model.remove(at));
        model.push(5);
        assert_eq!(model.walked(), [(2, 4), (5, 3), (5, 6), (5, 7)]);
        (0..4).for_each(|_| model.remove(0));
        model.push(1);
        assert_eq!(model.known[8].1, Standing::InOrder(0));
    }
}
