//! Numbers for the driver's objects, and numbers of packets as the driver sees the packets.
//!
//! A handle of the driver is an address of this process, and no address enters a log or a finding.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::abi::HANDLE;
use crate::dice::Dice;

/// Fences as the driver sees the fences: the first packets have fences just below a power of 2, so a driver that keeps few bits of a
/// fence is found (DRV-11).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fences {
    /// The difference to the manager's fence.
    base: u32,
}

impl Fences {
    /// Fences from below one of some powers of 2 on.
    pub fn new(dice: &Dice) -> Self {
        const BITS: [u32; 3] = [8, 12, 16];
        let power = 1 << BITS[dice.below(BITS.len() as u64) as usize];
        Self { base: power - 1 - dice.below(32) as u32 }
    }

    /// Fences that begin below 2^32: fence 1 follows the largest fence. No document says what follows, and 0 has a meaning of its own
    /// (DRV-11).
    pub fn wrapping(dice: &Dice) -> Self {
        Self { base: u32::MAX - dice.below(32) as u32 }
    }

    /// The driver's fence of a packet.
    pub fn fence_of(self, fence_id: u64) -> u32 {
        let (fence, is_wrapped) = (fence_id as u32).overflowing_add(self.base);
        fence.wrapping_add(is_wrapped.into())
    }

    /// The packet with a fence of the driver's. A wrong fence stays wrong, and 0 is no fence.
    pub fn packet_of(self, fence_id: u32) -> u32 {
        let (packet, is_wrapped) = fence_id.overflowing_sub(self.base);
        if fence_id == 0 { 0 } else { packet.wrapping_sub(is_wrapped.into()) }
    }

    /// A packet, as messages name the packet.
    pub fn name(self, packet: u32) -> String {
        let fence = self.fence_of(packet.into());
        // A fence below the first fence is of no packet.
        if packet == 0 || packet.leading_zeros() == 0 {
            format!("fence {fence}")
        } else {
            format!("packet {packet} (fence {fence})")
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_of_packets_are_never_0_and_lead_back_to_the_packets() {
        for fences in [Fences::new(&Dice::new(7)), Fences::wrapping(&Dice::new(7)), Fences { base: u32::MAX }] {
            for packet in 1..100u32 {
                let fence = fences.fence_of(packet.into());
                assert_ne!(fence, 0);
                assert_eq!(fences.packet_of(fence), packet);
            }
        }
        assert_eq!(Fences { base: u32::MAX - 1 }.fence_of(1), u32::MAX);
        assert_eq!(Fences { base: u32::MAX - 1 }.fence_of(2), 1);
    }
}
