//! What a client believes to be resident, least recently used first.

use std::collections::VecDeque;

use vidmm::{AllocationId, Nanoseconds};

use super::super::list::Named;

/// An allocation that the client believes to be resident.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resident {
    pub what: Named,
    /// The fence value at which its last use ends.
    pub last_fence: u64,
    /// When it was used last.
    pub last_time: Nanoseconds,
}

/// All of them, least recently used first. Clients of this size can afford to look through it.
#[derive(Clone, Debug, Default)]
pub(super) struct Lru {
    residents: VecDeque<Resident>,
    pub bytes: u64,
}

impl Lru {
    /// What was used longest ago.
    pub fn oldest(&self) -> Option<&Resident> {
        self.residents.front()
    }

    /// Takes that out.
    pub fn pop(&mut self) -> Option<Resident> {
        let oldest = self.residents.pop_front()?;
        self.bytes -= oldest.what.bytes;
        Some(oldest)
    }

    /// Takes out those that `picks` says.
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

    /// It is resident and was used last.
    pub fn push(&mut self, used: Resident) {
        self.bytes += used.what.bytes;
        self.residents.push_back(used);
    }

    /// It was used last, if it is in there. Returns whether it is.
    pub fn touch(&mut self, allocation: AllocationId, last_fence: u64, last_time: Nanoseconds) -> bool {
        let Some(at) = self.residents.iter().position(|resident| resident.what.allocation == allocation) else {
            return false;
        };
        let resident = self.residents.remove(at).expect("it was found");
        self.residents.push_back(Resident { last_fence, last_time, ..resident });
        true
    }

    /// Takes an allocation out, if it is in there.
    pub fn take_one(&mut self, allocation: AllocationId) -> Vec<Resident> {
        self.take(|resident| resident.what.allocation == allocation)
    }
}

/// The allocations of residents.
pub(super) fn allocations(residents: &[Resident]) -> Vec<AllocationId> {
    residents.iter().map(|resident| resident.what.allocation).collect()
}
