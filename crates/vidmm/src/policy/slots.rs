//! Tables by the numbers of allocations.

use alloc::vec::Vec;

/// A record for each slot; those that nothing was said of have the default.
#[derive(Debug, Default)]
pub(super) struct Slots<T>(Vec<T>);

impl<T: Clone + Default> Slots<T> {
    pub fn get(&self, slot: usize) -> T {
        self.0.get(slot).cloned().unwrap_or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.0.iter().enumerate()
    }

    pub fn for_each(&mut self, mut act: impl FnMut(usize, &mut T)) {
        self.0.iter_mut().enumerate().for_each(|(slot, known)| act(slot, known));
    }

    pub fn entry(&mut self, slot: usize) -> &mut T {
        if self.0.len() <= slot {
            self.0.resize(slot + 1, T::default());
        }
        &mut self.0[slot]
    }
}
