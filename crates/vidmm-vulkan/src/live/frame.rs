//! A frame: what a submission uses, brought in for it.

use vidmm::AllocationId;

use crate::device::Point;

use super::allocation::Allocation;
use super::buffer::Buffer;
use super::device::Device;
use super::error::Error;
use super::uses::{Download, Submission, Use};

/// The allocations that a use names.
pub(super) enum Named<'a> {
    /// They are on the device's own list.
    Listed(Vec<AllocationId>),
    /// They are brought in, and others leave for them.
    Frame { read: &'a [&'a Allocation], written: &'a [&'a Allocation] },
}

/// The buffers and images that one submission uses: name them, and go on.
///
/// A frame makes resident what it names and is not there. Where there is no room, what frames of the device used longest ago
/// leaves for it, and without a copy if frames only read it ([`vidmm::client`]). They trim themselves when the device is to
/// trim. What the application has made resident by [`Device::make_resident`] stays beside them.
#[must_use = "a frame that is not submitted uses nothing"]
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    device: &'a Device,
    read: Vec<&'a Allocation>,
    written: Vec<&'a Allocation>,
}

impl<'a> Frame<'a> {
    pub(super) fn new(device: &'a Device) -> Self {
        Self { device, read: Vec::new(), written: Vec::new() }
    }

    /// It uses a buffer or an image, and writes it, or may write it.
    pub fn insert(mut self, allocation: &'a impl AsRef<Allocation>) -> Self {
        self.written.push(allocation.as_ref());
        self
    }

    /// It uses a buffer or an image, and only reads it. Where it writes it all the same, what it wrote may be lost (RES-22).
    pub fn insert_read(mut self, allocation: &'a impl AsRef<Allocation>) -> Self {
        self.read.push(allocation.as_ref());
        self
    }

    fn named(&self) -> Named<'_> {
        Named::Frame { read: &self.read, written: &self.written }
    }

    /// Submits commands to the manager's queue, when all that the frame uses is in place. Returns the point that their end
    /// reaches.
    ///
    /// # Errors
    ///
    /// [`MakeResidentError::NoMemory`](vidmm::MakeResidentError::NoMemory) if the frame does not fit, though all other frames left for
    /// it; if one of them is offered, or another device's. Nothing was submitted then.
    ///
    /// # Safety
    ///
    /// As for [`Device::submit`]; the commands use what the frame names, and those on the device's own list.
    #[doc(alias = "D3DKMTSubmitCommand")]
    pub unsafe fn submit(&self, work: Submission) -> Result<Point, Error> {
        self.device.submit_of(self.named(), work)
    }

    /// Begins a use that the application submits to a queue of its own, as [`Device::begin_use`] does.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Self::submit).
    pub fn begin_use(&self) -> Result<Use, Error> {
        self.device.begin_use_of(self.named())
    }

    /// Writes `bytes` to a buffer, from `offset` on, as [`Device::write`] does.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Self::submit), or if the bytes do not lie in the buffer.
    pub fn write(&self, buffer: &'a Buffer, offset: u64, bytes: &[u8]) -> Result<Point, Error> {
        self.device.write_of(self.clone().insert(buffer).named(), buffer, offset, bytes)
    }

    /// Reads `bytes` bytes of a buffer, from `offset` on, as [`Device::read`] does.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn read(&self, buffer: &'a Buffer, offset: u64, bytes: u64) -> Result<Download, Error> {
        self.device.read_of(self.clone().insert_read(buffer).named(), buffer, offset, bytes)
    }
}
