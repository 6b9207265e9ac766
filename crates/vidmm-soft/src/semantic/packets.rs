//! Which operations each paging buffer stands for, as commands of the model GPU.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use vidmm::contract::EngineFence;

/// The commands of paging buffers: a handle that the driver and the GPU of a semantic machine share.
#[derive(Clone, Debug, Default)]
pub(super) struct PacketOperations(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    /// Those of the operations that were encoded since the last paging buffer was submitted.
    next: Vec<u8>,
    /// Those of the paging buffers that engines have.
    submitted: BTreeMap<EngineFence, Vec<u8>>,
    /// The adapter is being reset: what the driver encodes is not run (BPB-27).
    is_resetting: bool,
}

impl PacketOperations {
    /// Whether the driver's commands are not run, because the adapter is being reset.
    pub fn is_resetting(&self) -> bool {
        self.0.borrow().is_resetting
    }

    /// Appends the commands of an operation to those of the next paging buffer.
    pub fn append(&self, commands: &[u8]) {
        self.0.borrow_mut().next.extend_from_slice(commands);
    }

    /// The commands of the paging buffer that is being submitted. One that is handed out again keeps its fence
    /// (FLT-23), and has the commands that it had.
    pub fn submit(&self, fence: EngineFence) -> Vec<u8> {
        let State { next, submitted, .. } = &mut *self.0.borrow_mut();
        submitted.entry(fence).or_insert_with(|| std::mem::take(next)).clone()
    }

    /// Forgets a packet that has ended.
    pub fn end(&self, fence: EngineFence) {
        self.0.borrow_mut().submitted.remove(&fence);
    }

    /// Forgets all packets: the adapter is reset, and nothing of them runs again.
    pub fn begin_reset(&self) {
        *self.0.borrow_mut() = State { is_resetting: true, ..State::default() };
    }

    /// Forgets everything: the adapter starts.
    pub fn start(&self) {
        *self.0.borrow_mut() = State::default();
    }

    /// The adapter runs again.
    pub fn end_reset(&self) {
        self.0.borrow_mut().is_resetting = false;
    }
}
