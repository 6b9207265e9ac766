//! The one answer of driver or host that is a failure: the n-th of those that may be one.

use std::{cell::RefCell, rc::Rc};

/// A call that may fail instead of answering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallible {
    CreateProcess,
    CreateContext,
    CreateAllocation,
    OpenAllocation,
    ValidateUpdateAllocationProperty,
    BuildPagingBuffer,
    Render,
    CommitBackingStore,
    MapCpuVirtualAddress,
}

#[derive(Debug, Default)]
struct State {
    is_armed: bool,
    /// The call that fails, counted from 0.
    fails_at: Option<usize>,
    calls: Vec<Fallible>,
}

/// Counts the calls that may fail, for driver and host together.
#[derive(Clone, Debug, Default)]
pub struct Failing(Rc<RefCell<State>>);

impl Failing {
    /// From now on calls are counted, and this one fails; none counts alone.
    pub fn arm(&self, fails_at: Option<usize>) {
        *self.0.borrow_mut() = State { is_armed: true, fails_at, calls: Vec::new() };
    }

    /// No call fails any more, and none is counted.
    pub fn disarm(&self) {
        self.0.borrow_mut().is_armed = false;
    }

    /// Whether this call is the one that fails.
    pub fn fails(&self, call: Fallible) -> bool {
        let mut state = self.0.borrow_mut();
        if !state.is_armed {
            return false;
        }
        let number = state.calls.len();
        state.calls.push(call);
        state.fails_at == Some(number)
    }

    /// The calls so far that might have failed.
    pub fn calls(&self) -> Vec<Fallible> {
        self.0.borrow().calls.clone()
    }

    /// Whether the call that fails is among the next `calls`, or the last; if none is to fail, always.
    pub fn is_near(&self, calls: usize) -> bool {
        let state = self.0.borrow();
        state.fails_at.is_none_or(|at| at.abs_diff(state.calls.len()) <= calls)
    }
}
