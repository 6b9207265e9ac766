//! A set for the few that have something to do now, and for numbers that come in order and leave nearly so.
//!
//! The members lie in order in a ring that keeps its room. So joining at one end and leaving at the other, and a set that is
//! empty most of the time, cost a few instructions and no memory; a tree would allocate and free a node each time. Joining or
//! leaving elsewhere moves the members on the shorter side.

use alloc::collections::{VecDeque, vec_deque::Iter};

#[derive(Debug)]
pub(crate) struct OrderedSet<T>(VecDeque<T>);

impl<T> Default for OrderedSet<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Ord + Copy> OrderedSet<T> {
    /// Adds a member; `false` if it was one.
    #[inline]
    pub fn insert(&mut self, member: T) -> bool {
        if self.0.back().is_none_or(|last| *last < member) {
            self.0.push_back(member);
            return true;
        }
        self.insert_between(member)
    }

    #[inline(never)]
    fn insert_between(&mut self, member: T) -> bool {
        match self.0.binary_search(&member) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, member);
                true
            }
        }
    }

    /// Takes a member out; `false` if it was none.
    pub fn remove(&mut self, member: &T) -> bool {
        if self.0.front() == Some(member) {
            self.0.pop_front();
            return true;
        }
        let found = self.0.binary_search(member);
        found.is_ok_and(|at| self.0.remove(at).is_some())
    }

    /// Takes the first out.
    pub fn pop_first(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    pub fn first(&self) -> Option<&T> {
        self.0.front()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, member: &T) -> bool {
        self.0.binary_search(member).is_ok()
    }

    /// All, in order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.0.iter()
    }

    /// The first that is not before `from`: so all can be visited while they join and leave.
    #[inline]
    pub fn next_from(&self, from: T) -> Option<T> {
        match self.0.front() {
            Some(&first) if first < from => self.0.get(self.0.partition_point(|member| *member < from)).copied(),
            first => first.copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::OrderedSet;

    proptest! {
        #[test]
        fn it_has_the_members_of_a_tree_in_the_same_order(
            calls in proptest::collection::vec((0..4_u8, 0..24_u64), 0..200),
        ) {
            let (mut ring, mut tree) = (OrderedSet::default(), BTreeSet::new());
            for (call, member) in calls {
                match call {
                    0 | 1 => prop_assert_eq!(ring.insert(member), tree.insert(member)),
                    2 => prop_assert_eq!(ring.remove(&member), tree.remove(&member)),
                    _ => prop_assert_eq!(ring.pop_first(), tree.pop_first()),
                }
                prop_assert_eq!((ring.first(), ring.len(), ring.is_empty()), (tree.first(), tree.len(), tree.is_empty()));
                prop_assert_eq!(ring.contains(&member), tree.contains(&member));
                prop_assert!(ring.iter().eq(tree.iter()));
                prop_assert_eq!(ring.next_from(member), tree.range(member..).next().copied());
            }
        }
    }
}
