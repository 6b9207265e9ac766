//! Renaming: a dynamic buffer that the CPU writes anew while the GPU still reads what it held before (RES-05).

use alloc::collections::VecDeque;

/// The allocations of one dynamic buffer, used in turn. Ours.
///
/// `T` is whatever names one of them: an [`AllocationId`](crate::AllocationId), or a [`Managed`](super::Managed) with its address.
#[derive(Clone, Debug)]
pub struct Renamer<T> {
    /// In the order of their last uses; the present one is the last.
    ring: VecDeque<Name<T>>,
    max: usize,
}

#[derive(Clone, Debug)]
struct Name<T> {
    allocation: T,
    /// The fence value at which its last use ends; 0 if it was not used.
    last_use: u64,
}

/// Why there is no allocation to write to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RenameError<E> {
    /// All are in use, and there may be no more of them.
    #[error("all allocations of the buffer are in use; wait until the fence has reached {fence_value}")]
    AllInUse {
        /// The first is free when the fence has reached this value.
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

    /// The allocation to write to next: the present one if nothing uses it any more, or else the one whose last use ended
    /// first, or else a new one from `create`. `completed` is the value that the fence has reached.
    ///
    /// # Errors
    ///
    /// If all are in use and there are as many as may be, or `create` fails.
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

    /// The allocation that was handed out last.
    pub fn current(&self) -> Option<T> {
        self.present().map(|present| present.allocation)
    }

    /// Work that uses the present allocation was submitted, and ends when the fence reaches `fence_value`.
    pub fn used(&mut self, fence_value: u64) {
        if let Some(present) = self.ring.back_mut() {
            present.last_use = present.last_use.max(fence_value);
        }
    }

    /// Gives up all allocations that nothing uses, but the present one: the caller destroys them.
    pub fn trim(&mut self, completed: u64) -> impl Iterator<Item = T> {
        let before_present = self.ring.len().saturating_sub(1);
        let ended = self.ring.iter().take(before_present).take_while(|name| name.last_use <= completed).count();
        self.ring.drain(..ended).map(|name| name.allocation)
    }

    /// How many allocations there are.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether none was created yet.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    fn present(&self) -> Option<&Name<T>> {
        self.ring.back()
    }
}
