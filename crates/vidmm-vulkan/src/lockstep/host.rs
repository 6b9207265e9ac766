//! The host of a machine on a Vulkan device: the reference host, whose system memory is the device's.

use std::cell::RefCell;
use std::rc::Rc;

use vidmm::{PAGE_SIZE_64K, PhysicalAddress};
use vidmm_runtime::HostHook;

use crate::error::sure;
use crate::memory::VulkanMemory;

/// A hook that clears the device's memory in the places that the host hands out.
pub(crate) struct ClearMemory(pub(crate) Rc<RefCell<VulkanMemory>>);

impl HostHook for ClearMemory {
    fn committed(&mut self, address: PhysicalAddress, size: u64) {
        // The device recycles memory with the content of its last owner.
        self.reset(address, size.next_multiple_of(PAGE_SIZE_64K));
    }

    fn reset(&mut self, address: PhysicalAddress, size: u64) {
        sure(self.0.borrow_mut().clear_system(address.offset, size));
    }
}
