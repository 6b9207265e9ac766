//! Renaming: a dynamic buffer that the CPU writes anew while the GPU still reads the former content (RES-05).

use alloc::collections::VecDeque;

/// The allocations of one dynamic buffer, used in turn. Ours.
///
/// `T` names an allocation: an [`AllocationId`](vidmm::AllocationId), or a [`Managed`](super::Managed) with the address.
#[derive(Clone, Debug)]
pub struct Renamer<T> {
    /// In the order of last use; the present allocation is last.
    ring: VecDeque<Name<T>>,
    max: usize,
}

#[derive(Clone, Debug)]
struct Name<T> {
    allocation: T,
    /// The fence value at the end of the last use; 0 without a use.
    last_use: u64,
}

/// The reason why no allocation can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RenameError<E> {
    /// All allocations are in use, and the limit is reached.
    #[error("all allocations of the buffer are in use; wait until the fence has reached {fence_value}")]
    AllInUse {
        /// The first allocation is free when the fence has reached `fence_value`.
        fence_value: u64,
    },
    /// No allocation could be created.
    #[error("no allocation could be created: {0}")]
    Create(E),
}

impl<T: Copy> Renamer<T> {
    /// A buffer with at most `max` allocations.
    ///
    /// # Panics
    ///
    /// If `max` is 0.
    pub fn new(max: usize) -> Self {
        assert!(max > 0, "a buffer has an allocation");
        Self { ring: VecDeque::new(), max }
    }

    /// The allocation to write next: the present allocation if unused, or else the allocation whose last use ended first, or
    /// else a new allocation from `create`. `completed` is the reached value of the fence.
    ///
    /// # Errors
    ///
    /// If all allocations are in use and the limit is reached, or `create` fails.
    pub fn next<E>(&mut self, completed: u64, create: impl FnOnce() -> Result<T, E>) -> Result<T, RenameError<E>> {
        if let Some(present) = self.present().filter(|present| present.last_use <= completed) {
            return Ok(present.allocation);
        }
        match self.ring.front() {
            Some(oldest) if oldest.last_use <= completed => self.ring.rotate_left(1),
            Some(oldest) if self.ring.len() == self.max => {
                return Err(RenameError::AllInUse { fence_value: oldest.last_use });
            }
            _ => self.ring.push_back(Name { allocation: create().map_err(RenameError::Create)?, last_use: 0 }),
        }
        Ok(self.present().expect("it was just put there").allocation)
    }

    /// The last returned allocation.
    pub fn current(&self) -> Option<T> {
        self.present().map(|present| present.allocation)
    }

    /// Work with the present allocation was submitted, and ends when the fence reaches `fence_value`.
    pub fn used(&mut self, fence_value: u64) {
        if let Some(present) = self.ring.back_mut() {
            present.last_use = present.last_use.max(fence_value);
        }
    }

    /// Gives up all unused allocations except the present allocation: the caller destroys the returned allocations.
    pub fn trim(&mut self, completed: u64) -> impl Iterator<Item = T> {
        let before_present = self.ring.len().saturating_sub(1);
        let ended = self.ring.iter().take(before_present).take_while(|name| name.last_use <= completed).count();
        self.ring.drain(..ended).map(|name| name.allocation)
    }

    /// The number of allocations.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether no allocation was created yet.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    fn present(&self) -> Option<&Name<T>> {
        self.ring.back()
    }
}
