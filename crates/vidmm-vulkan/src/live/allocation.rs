//! Allocations, which the manager moves: a buffer or an image.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use vidmm::{AllocationId, AllocationResidencyStatus};

use super::books::DeviceInner;
use super::command::{Command, NamedRanges, NewAllocation};
use super::error::Error;
use super::names::NamedAllocation;

/// A [`Buffer`](super::Buffer) or an [`Image`](super::Image). A call with allocations takes a slice of buffers or a slice of images. For a
/// slice of both, name `buffer.as_ref()` and `image.as_ref()`.
///
/// The bytes are zeros at first (CRE-42), and survive eviction. The allocation is gone when the handle was dropped and all earlier uses have
/// ended (RES-91).
#[doc(alias = "D3DKMT_CREATEALLOCATION")]
pub struct Allocation {
    device: Arc<DeviceInner>,
    id: AllocationId,
    size: u64,
    range_bytes: u64,
    ranges: u32,
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Allocation {
    pub(super) fn new(device: Arc<DeviceInner>, new: &NewAllocation) -> Self {
        let &NewAllocation { id, bytes: size, range_bytes, .. } = new;
        // It has less than 2^32 ranges.
        Self { device, id, size, range_bytes, ranges: size.div_ceil(range_bytes) as u32 }
    }

    /// Its name, if it is the device's.
    pub(super) fn name_on(&self, device: &Arc<DeviceInner>) -> Result<AllocationId, Error> {
        match Arc::ptr_eq(&self.device, device) {
            true => Ok(self.id),
            false => Err(Error::OtherDevice { allocation: self.named() }),
        }
    }

    /// The names of all its ranges, if it is the device's.
    pub(super) fn all_on(&self, device: &Arc<DeviceInner>) -> Result<NamedRanges, Error> {
        Ok(NamedRanges { resource: self.name_on(device)?, ranges: 0..self.ranges })
    }

    /// The names of the ranges that `bytes` touches, if it is the device's.
    pub(super) fn ranges_on(&self, device: &Arc<DeviceInner>, bytes: Range<u64>) -> Result<NamedRanges, Error> {
        let resource = self.name_on(device)?;
        if bytes.is_empty() || bytes.end > self.size {
            return Err(Error::Range { allocation: self.named(), range: bytes, size: self.size });
        }
        let ranges = (bytes.start / self.range_bytes) as u32..bytes.end.div_ceil(self.range_bytes) as u32;
        Ok(NamedRanges { resource, ranges })
    }

    /// The name in errors: the manager's name of the first range. In the log each range has a name.
    pub fn id(&self) -> AllocationId {
        self.id
    }

    /// The manager's name with the application's.
    pub fn named(&self) -> NamedAllocation {
        self.device.client().names.of(self.id)
    }

    /// Gives the allocation a name, in place of an earlier name. Errors and statistics have the name. Messages of validation and tools
    /// for debugging have the name too, if the instance of the Vulkan device has VK_EXT_debug_utils.
    ///
    /// # Errors
    ///
    /// If the name has a zero byte, or the adapter is lost.
    #[doc(alias = "vkSetDebugUtilsObjectNameEXT")]
    pub fn set_name(&self, name: &str) -> Result<(), Error> {
        if name.contains('\0') {
            return Err(Error::Name { name: name.to_owned() });
        }
        let (client, name) = (self.device.client(), Arc::<str>::from(name));
        client.names.set(self.id, name.clone());
        client.send(Command::Name { allocation: self.id, name })
    }

    /// Takes the allocation off the lists of frames and of the application. After the last use the allocation leaves local memory.
    /// Content and handles stay. A later frame or MakeResident brings the allocation back.
    ///
    /// An [offered](super::Device::offer) allocation leaves when memory is wanted.
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    pub fn release(&self) -> Result<(), Error> {
        let mut line = self.device.line();
        let listed = line.listed.remove(&self.id).unwrap_or_default();
        self.device.client().send(Command::Release { allocation: self.id, listed })
    }

    /// The bytes that it takes of its memory, a multiple of 64 KiB.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The place of the allocation by the decisions so far (RES-76). Of several ranges the place farthest from the GPU counts, and
    /// [`Adapter::allocations`](super::Adapter::allocations) tells how many bytes are in local memory.
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    #[doc(alias = "D3DKMTQueryAllocationResidency")]
    pub fn residency(&self) -> Result<AllocationResidencyStatus, Error> {
        let allocation = self.id;
        self.device.client().ask(|reply| Command::Residency { allocation, reply })
    }
}

/// So many bytes from `offset` on: no possible range if they are too many.
pub(super) fn bytes_from(offset: u64, bytes: u64) -> Range<u64> {
    offset..offset.saturating_add(bytes)
}

impl AsRef<Allocation> for Allocation {
    fn as_ref(&self) -> &Allocation {
        self
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.device.forget(self.id);
        // On an adapter that is lost all allocations go with it.
        let _ = self.device.client().send(Command::DestroyAllocation(self.id));
    }
}
