//! The steps that plans are expanded into.

use alloc::vec::Vec;

use crate::{
    addresses::IoMmuRange,
    contract::{PagingOperation, UpdatePageTable},
};

/// One step of the stream: what the driver encodes, or what is done without the GPU in between.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Operation(PagingOperation),
    /// Nothing that is under way uses the addresses: done at once.
    MapIoMmu(IoMmuRange),
    /// Done by the host when all that was built before has completed.
    UnmapIoMmu(IoMmuRange),
    /// Done by the driver, with the CPU, when all that was built before has completed (BPB-08): whatever the GPU read through
    /// the old entries it has read, and what is built next finds the new ones.
    UpdateByCpu(UpdatePageTable),
    /// Replaced by the steps through which the paging engine writes entries at addresses of the paging process.
    UpdateInView(UpdatePageTable),
}

/// Steps in their order: those that are done stay in front until all are.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    steps: Vec<Step>,
    done: usize,
}

impl Steps {
    /// The number of steps that are not done.
    pub fn len(&self) -> usize {
        self.steps.len() - self.done
    }

    /// Whether all steps are done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The steps that are not done.
    pub fn iter(&self) -> impl Iterator<Item = &Step> {
        self.steps[self.done..].iter()
    }

    /// The next step.
    pub fn front(&self) -> Option<&Step> {
        self.steps.get(self.done)
    }

    /// The next step, for a change.
    pub fn front_mut(&mut self) -> Option<&mut Step> {
        self.steps.get_mut(self.done)
    }

    /// Adds a step.
    pub fn push_back(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Adds steps.
    pub fn extend(&mut self, steps: impl IntoIterator<Item = Step>) {
        self.steps.extend(steps);
    }

    /// The next step is done.
    pub fn end_front(&mut self) {
        self.done += 1;
        if self.is_empty() {
            self.steps.clear();
            self.done = 0;
        }
    }

    /// Puts other steps in the place of the next step.
    pub fn replace_front(&mut self, steps: Self) {
        self.steps.splice(self.done..=self.done, steps.steps);
    }
}
