//! The driver's handles by number: a handle is an address of this process, and no address enters a log or a finding.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::abi::HANDLE;

/// The handles of one kind of object, numbered from 1 in the order of creation. 0 stands for no handle.
#[derive(Default)]
pub(crate) struct Numbers(RefCell<State>);

#[derive(Default)]
struct State {
    /// The handle of number 1, and so on.
    handles: Vec<HANDLE>,
    /// The numbers of handles that live.
    live: BTreeMap<HANDLE, u64>,
}

impl Numbers {
    /// The number of a new object, whose handle may be the handle of another object too.
    pub fn add_new(&self, handle: HANDLE) -> u64 {
        let State { handles, live } = &mut *self.0.borrow_mut();
        handles.push(handle);
        let number = handles.len() as u64;
        live.insert(handle, number);
        number
    }

    /// The number of a new handle. A handle that lives already keeps the number: the manager sees one name for two objects.
    pub fn add(&self, handle: HANDLE) -> u64 {
        if handle.is_null() {
            return 0;
        }
        self.find(handle).unwrap_or_else(|| self.add_new(handle))
    }

    /// The number of a handle that lives.
    pub fn find(&self, handle: HANDLE) -> Option<u64> {
        self.0.borrow().live.get(&handle).copied()
    }

    /// The handle with a number; null without one.
    pub fn handle(&self, number: u64) -> HANDLE {
        let index = (number as usize).wrapping_sub(1);
        self.0.borrow().handles.get(index).copied().unwrap_or(std::ptr::null_mut())
    }

    /// The object is destroyed: a new object may have the address.
    pub fn forget(&self, number: u64) {
        let handle = self.handle(number);
        let live = &mut self.0.borrow_mut().live;
        if live.get(&handle) == Some(&number) {
            live.remove(&handle);
        }
    }
}
