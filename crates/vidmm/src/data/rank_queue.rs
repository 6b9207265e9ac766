//! A queue in ascending order of rank, whose members leave from anywhere.
//!
//! Members mostly come in the order of their ranks: those are appended to the last of a row of blocks. A leaving member is a cleared
//! bit in the block, and no other member moves. Where a quarter of a block is left, and no more of a block beside it, the members
//! of both move into one block. A member that comes *late*, with a lower rank than the last of the row, stands in a tree beside the
//! blocks. So a member costs a constant time, however many there are, and a late member a logarithmic time; a step moves half a block at
//! most.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::mem;

use crate::data::packed::U56;

/// The members that a block has room for.
const BLOCK: usize = 256;

/// Two neighbours with at most so many members each are joined.
const SPARSE: u32 = BLOCK as u32 / 4;

/// The place of a member in its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// In a block: the index of the block times [`BLOCK`], and the index in the block.
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

const _: () = assert!(size_of::<Entry<u32>>() == 12, "each evictable allocation has one");

/// Members that came in the order of their ranks.
#[derive(Debug)]
struct Block<T: Copy> {
    /// Ascends in the row of blocks.
    number: u64,
    /// Present and former members; the last entry is present.
    entries: Vec<Entry<T>>,
    /// A bit for each present member.
    present: [u64; BLOCK / 64],
    /// The number of present members.
    count: u32,
}

impl<T: Copy> Block<T> {
    const EMPTY: Self = Self { number: 0, entries: Vec::new(), present: [0; BLOCK / 64], count: 0 };

    /// The index of the first member from an index on.
    fn next(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.present.get(word)? & (!0 << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.present.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    fn is_present(&self, at: usize) -> bool {
        self.present[at / 64] & (1 << (at % 64)) != 0
    }

    /// Appends a member, and returns its index.
    fn push(&mut self, entry: Entry<T>) -> usize {
        let at = self.entries.len();
        self.entries.push(entry);
        self.present[at / 64] |= 1 << (at % 64);
        self.count += 1;
        at
    }

    fn remove(&mut self, at: usize) {
        self.present[at / 64] &= !(1 << (at % 64));
        self.count -= 1;
        // The last entry is a member: ranks above all members make nobody late.
        while let Some(last) = self.entries.len().checked_sub(1)
            && !self.is_present(last)
        {
            self.entries.pop();
        }
    }

    /// Takes out all members.
    fn take(&mut self) -> Vec<Entry<T>> {
        let (mut entries, mut at) = (mem::take(&mut self.entries), 0..);
        entries.retain(|_| at.next().is_some_and(|at| self.is_present(at)));
        (self.present, self.count) = ([0; BLOCK / 64], 0);
        entries
    }

    fn last_rank(&self) -> Option<u64> {
        self.entries.last().map(|last| last.rank)
    }
}

/// The queue. Each member knows its [`Standing`].
#[derive(Debug)]
pub(crate) struct RankQueue<T: Copy> {
    first: Option<(u64, T)>,
    blocks: Vec<Block<T>>,
    /// The blocks that have members, by index, in the order of their ranks.
    row: VecDeque<u32>,
    /// The other blocks. The last block here keeps memory for the next block of the row.
    unused: Vec<u32>,
    /// The number of the last block of the row.
    last_block: u64,
    /// Members by rank and number.
    late: BTreeMap<(u64, u64), T>,
    /// The number of the last member that came late.
    last_late: u64,
}

impl<T: Copy> Default for RankQueue<T> {
    fn default() -> Self {
        Self {
            first: None,
            blocks: Vec::new(),
            row: VecDeque::new(),
            unused: Vec::new(),
            last_block: 0,
            late: BTreeMap::new(),
            last_late: 0,
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
        match self.first {
            Some((first, _)) if first < rank => self.first_of(self.first_in_row(|other| other < rank), (rank, 0)),
            first => first,
        }
    }

    /// The member behind another member.
    pub fn after(&self, rank: u64, standing: Standing) -> Option<(u64, T)> {
        match standing {
            Standing::InOrder(at) => {
                let (block, at) = (&self.blocks[at as usize / BLOCK], at as usize % BLOCK);
                let next = block.next(at + 1).map(|next| block.entries[next]);
                self.first_of(next.or_else(|| self.first_of_block(self.place_in_row(block) + 1)), (rank, 0))
            }
            Standing::Late(number) => self.first_of(self.first_in_row(|other| other <= rank), (rank, number.get() + 1)),
        }
    }

    /// The first member in the row behind those whose ranks are `below`.
    fn first_in_row(&self, below: impl Fn(u64) -> bool) -> Option<Entry<T>> {
        let place = self.row.partition_point(|&index| self.blocks[index as usize].last_rank().is_some_and(&below));
        let block = &self.blocks[*self.row.get(place)? as usize];
        let at = block.next(block.entries.partition_point(|entry| below(entry.rank)));
        Some(block.entries[at.expect("the last entry of a block is a member")])
    }

    /// The first member of the block at a place in the row.
    fn first_of_block(&self, place: usize) -> Option<Entry<T>> {
        let block = &self.blocks[*self.row.get(place)? as usize];
        Some(block.entries[block.next(0).expect("a block in the row has members")])
    }

    fn place_in_row(&self, block: &Block<T>) -> usize {
        self.row.partition_point(|&index| self.blocks[index as usize].number < block.number)
    }

    /// The first of a member in the row, and of those in the tree from a key on. Of equal rank, those in the row came first.
    fn first_of(&self, in_row: Option<Entry<T>>, key: (u64, u64)) -> Option<(u64, T)> {
        let in_row = in_row.map(|entry| (entry.rank, entry.member));
        let late = self.late_from(key);
        match (in_row, late) {
            (Some(in_row), Some(late)) if late.0 < in_row.0 => Some(late),
            _ => in_row.or(late),
        }
    }

    /// The first member in the tree from a key on. Nearly always the tree is empty.
    #[inline]
    fn late_from(&self, key: (u64, u64)) -> Option<(u64, T)> {
        let from = || self.late.range(key..).next().map(|(&(rank, _), &member)| (rank, member));
        if self.late.is_empty() { None } else { from() }
    }

    /// Adds a member behind those of its rank or lower ones. Returns its standing. `tell` hears the standing of each other member that has
    /// got another.
    #[must_use]
    #[inline(always)]
    pub fn push(&mut self, rank: u64, member: T, mut tell: impl FnMut(T, Standing)) -> Standing {
        if self.first.is_none_or(|(first, _)| rank < first) {
            self.first = Some((rank, member));
        }
        // A late member of equal rank may have outlived the members before.
        let is_equal_late = self.late_from((rank, 0)).is_some_and(|(late, _)| late == rank);
        let last = self.row.back().map(|&last| last as usize);
        if let Some(last) = last
            && !is_equal_late
        {
            let block = &mut self.blocks[last];
            let is_late = block.last_rank().is_some_and(|last| rank < last);
            if !is_late && block.entries.len() < BLOCK {
                return Standing::in_order(last, block.push(Entry { rank, member }));
            }
            if !is_late {
                return self.push_beyond(Some(last), Entry { rank, member }, &mut tell);
            }
        } else if !is_equal_late {
            return self.push_beyond(None, Entry { rank, member }, &mut tell);
        }
        self.last_late += 1;
        self.late.insert((rank, self.last_late), member);
        Standing::Late(U56::new(self.last_late))
    }

    /// Appends a member where the last block, if there is one, is full.
    #[inline(never)]
    fn push_beyond(&mut self, last: Option<usize>, entry: Entry<T>, tell: &mut impl FnMut(T, Standing)) -> Standing {
        let last = self.make_room(last, tell);
        Standing::in_order(last, self.blocks[last].push(entry))
    }

    /// The block that a member is appended to where the last block, if there is one, is full.
    fn make_room(&mut self, last: Option<usize>, tell: &mut impl FnMut(T, Standing)) -> usize {
        if let Some(last) = last.filter(|&last| self.blocks[last].count <= 2 * SPARSE) {
            let entries = self.blocks[last].take();
            self.fill(last, entries, tell);
            return last;
        }
        let index = self.unused.pop().unwrap_or_else(|| {
            self.blocks.push(Block::EMPTY);
            u32::try_from(self.blocks.len() - 1).expect("there are fewer blocks than indices")
        });
        self.last_block += 1;
        self.blocks[index as usize].number = self.last_block;
        self.row.push_back(index);
        index as usize
    }

    /// Gives an empty block its members.
    fn fill(&mut self, index: usize, entries: Vec<Entry<T>>, tell: &mut impl FnMut(T, Standing)) {
        let block = &mut self.blocks[index];
        (block.entries, block.count) = (entries, 0);
        for (at, entry) in block.entries.iter().enumerate() {
            block.present[at / 64] |= 1 << (at % 64);
            block.count += 1;
            tell(entry.member, Standing::in_order(index, at));
        }
    }

    /// Takes out a member of this rank. `tell` hears the standing of each other member that has got another.
    #[inline(always)]
    pub fn remove(&mut self, member: T, rank: u64, standing: Standing, mut tell: impl FnMut(T, Standing)) {
        let is_first = self.first.is_some_and(|(_, first)| first == member);
        match standing {
            Standing::InOrder(at) => {
                let (index, at) = (at as usize / BLOCK, at as usize % BLOCK);
                let block = &mut self.blocks[index];
                block.remove(at);
                if block.count == 0 || block.count == SPARSE {
                    self.tidy(index, &mut tell);
                } else if is_first && self.late.is_empty() {
                    // The first stood in the first block, so the next member of the block is the first now.
                    let next = block.next(at + 1).expect("the last entry of a block is a member");
                    let Entry { rank, member } = block.entries[next];
                    self.first = Some((rank, member));
                    return;
                }
            }
            Standing::Late(number) => {
                let late = self.late.remove(&(rank, number.get()));
                debug_assert!(late == Some(member), "only a member is taken out");
            }
        }
        if is_first {
            self.first = self.first_of(self.first_of_block(0), (0, 0));
        }
    }

    /// Takes a block without members out of the row; joins two sparse neighbours. The last block is left alone: members enter and leave
    /// there in turn.
    #[inline(never)]
    fn tidy(&mut self, index: usize, tell: &mut impl FnMut(T, Standing)) {
        let place = self.place_in_row(&self.blocks[index]);
        if self.blocks[index].count == 0 {
            return self.leave_row(place);
        }
        let is_sparse =
            |place: usize| self.row.get(place).is_some_and(|&index| self.blocks[index as usize].count <= SPARSE);
        let front = match place.checked_sub(1).filter(|&before| is_sparse(before)) {
            _ if place + 1 == self.row.len() => return,
            Some(before) => before,
            None if is_sparse(place + 1) => place,
            None => return,
        };
        let (into, from) = (self.row[front] as usize, self.row[front + 1] as usize);
        let (mut entries, mut behind) = (self.blocks[into].take(), self.blocks[from].take());
        entries.append(&mut behind);
        self.blocks[from].entries = behind;
        self.fill(into, entries, tell);
        self.leave_row(front + 1);
    }

    fn leave_row(&mut self, place: usize) {
        let index = self.row.remove(place).expect("the block is in the row");
        if let Some(&other) = self.unused.last() {
            self.blocks[other as usize].entries = Vec::new();
        }
        self.unused.push(index);
    }
}

impl Standing {
    fn in_order(block: usize, at: usize) -> Self {
        Self::InOrder(u32::try_from(block * BLOCK + at).expect("there are fewer members than indices"))
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

    use super::{BLOCK, RankQueue, SPARSE, Standing};

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
            let standing = self.queue.push(rank, member, |member, standing| known[member as usize].1 = standing);
            known[member as usize].1 = standing;
            let at = self.sorted.partition_point(|&(other, _)| other <= rank);
            self.sorted.insert(at, (rank, member));
        }

        fn remove(&mut self, at: usize) {
            let (rank, member) = self.sorted.remove(at);
            let known = &mut self.known;
            let standing = known[member as usize].1;
            self.queue.remove(member, rank, standing, |member, standing| known[member as usize].1 = standing);
        }

        /// The members that the queue's memory has room for.
        fn room(&self) -> usize {
            self.queue.blocks.iter().map(|block| block.entries.capacity()).sum::<usize>() + self.queue.late.len()
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
                prop_assert!(model.room() <= 8 * model.sorted.len() + 4 * BLOCK);
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
        assert!(model.room() < 10_000 + 2 * BLOCK);
        (0..9_990).for_each(|_| model.remove(1));
        assert_eq!(model.walked(), model.sorted);
        assert!(model.room() <= 4 * BLOCK);
        (0..20_000).for_each(|rank| {
            model.push(10_000 + rank);
            model.remove(1);
        });
        assert_eq!(model.walked(), model.sorted);
        assert!(model.room() <= 4 * BLOCK);
    }

    /// Each comes last, and has left before the next.
    #[test]
    fn members_that_enter_and_leave_in_turn_move_no_other() {
        let mut model = Model::default();
        (0..SPARSE.into()).for_each(|rank| model.push(rank));
        for _ in 0..1000 {
            let standings = model.known.clone();
            model.push(1000);
            let (others, _) = model.known.split_at(standings.len());
            assert_eq!(others, standings);
            model.remove(model.sorted.len() - 1);
            assert!(model.known.starts_with(&standings));
        }
    }

    #[test]
    fn no_step_moves_more_than_half_a_block() {
        let mut model = Model::default();
        (0..3000).for_each(|rank| model.push(rank));
        // Every second goes, then every second of the rest, until a few are left.
        while model.sorted.len() > 100 {
            for at in 0..model.sorted.len() / 2 {
                let before = model.known.clone();
                model.remove(at);
                let moved = before.iter().zip(&model.known).filter(|(before, after)| before != after).count();
                assert!(moved <= BLOCK / 2, "{moved} have moved");
            }
        }
        assert_eq!(model.walked(), model.sorted);
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
