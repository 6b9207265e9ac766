//! The allocations that a client believes to be resident, least recently used first.

use std::collections::VecDeque;

use vidmm::{AllocationId, Nanoseconds};

use crate::client::list::Named;

/// An allocation that the client believes to be resident.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resident {
    pub what: Named,
    /// The fence value at which its last use ends.
    pub last_fence: u64,
    /// The time of its last use.
    pub last_time: Nanoseconds,
}

/// All of them, least recently used first. Models of clients have few enough to search all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Lru {
    residents: VecDeque<Resident>,
    pub bytes: u64,
}

impl Lru {
    /// The least recently used one.
    pub fn oldest(&self) -> Option<&Resident> {
        self.residents.front()
    }

    /// Takes out the least recently used one.
    pub fn pop(&mut self) -> Option<Resident> {
        let oldest = self.residents.pop_front()?;
        self.bytes -= oldest.what.bytes;
        Some(oldest)
    }

    /// Takes out those for which `picks` returns true.
    pub fn take(&mut self, mut picks: impl FnMut(&Resident) -> bool) -> Vec<Resident> {
        let (mut taken, mut kept) = (Vec::new(), VecDeque::new());
        for &resident in &self.residents {
            if picks(&resident) {
                taken.push(resident);
            } else {
                kept.push_back(resident);
            }
        }
        self.residents = kept;
        self.bytes -= taken.iter().map(|resident| resident.what.bytes).sum::<u64>();
        taken
    }

    /// Adds an allocation that is resident and was used last.
    pub fn push(&mut self, used: Resident) {
        self.bytes += used.what.bytes;
        self.residents.push_back(used);
    }

    /// Moves an allocation to the end, if it is in the list. Returns whether it is.
    pub fn touch(&mut self, allocation: AllocationId, last_fence: u64, last_time: Nanoseconds) -> bool {
        let Some(at) = self.residents.iter().position(|resident| resident.what.allocation == allocation) else {
            return false;
        };
        let resident = self.residents.remove(at).expect("it was found");
        self.residents.push_back(Resident { last_fence, last_time, ..resident });
        true
    }

    /// Takes an allocation out, if it is in the list.
    pub fn take_one(&mut self, allocation: AllocationId) -> Vec<Resident> {
        self.take(|resident| resident.what.allocation == allocation)
    }
}

/// The allocations of residents.
pub(super) fn allocations(residents: &[Resident]) -> Vec<AllocationId> {
    residents.iter().map(|resident| resident.what.allocation).collect()
}
