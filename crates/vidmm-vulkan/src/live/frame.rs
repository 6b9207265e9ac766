//! A frame: what a submission uses, brought in for it.

use std::fmt;
use std::sync::Arc;

use crate::device::Point;

use super::allocation::Allocation;
use super::books::{DeviceInner, Named};
use super::buffer::Buffer;
use super::command::{Command, FrameAllocations, Submission};
use super::error::Error;
use super::uses::{Download, Use};

/// The buffers and images that one submission uses: name them, and go on.
///
/// A frame makes resident what it names and is not there. Where there is no room, what frames of the device used longest ago
/// leaves for it, or what [the policy](super::Options::policy) chooses, and without a copy if frames only read it ([`vidmm_client`]). They trim themselves when the device is to
/// trim. What the application has made resident by [`Device::make_resident`](super::Device::make_resident) stays beside them.
#[must_use = "a frame that is not submitted uses nothing"]
#[derive(Clone)]
pub struct Frame<'a> {
    device: &'a Arc<DeviceInner>,
    read: Vec<&'a Allocation>,
    written: Vec<&'a Allocation>,
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("read", &self.read).field("written", &self.written).finish_non_exhaustive()
    }
}

impl<'a> Frame<'a> {
    pub(super) fn new(device: &'a Arc<DeviceInner>) -> Self {
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

    fn named(&self) -> Result<Named, Error> {
        let names = |allocations: &[&Allocation]| -> Result<Vec<_>, Error> {
            allocations.iter().map(|allocation| allocation.name_on(self.device)).collect()
        };
        Ok(Named::Frame(FrameAllocations { read: names(&self.read)?, written: names(&self.written)? }))
    }

    /// Says that the device needs what this frame names soon, in the order of the calls of `insert` and `insert_read`, reads first. The
    /// device's last announcement is void. While engines leave the bus alone, the content comes into free local memory before the frame is
    /// submitted, and nothing is evicted for it ([`VidMm::announce`](vidmm::VidMm::announce)).
    ///
    /// # Errors
    ///
    /// If the adapter is lost, or something is another device's.
    pub fn announce(&self) -> Result<(), Error> {
        let names = |of: &[&Allocation]| of.iter().map(|of| of.name_on(self.device)).collect::<Result<Vec<_>, Error>>();
        let allocations = [names(&self.read)?, names(&self.written)?].concat();
        self.device.client().send(Command::Announce { device: self.device.new.device, allocations })
    }

    /// Submits commands to the manager's queue, when all that the frame uses is in place. Returns the point that their end
    /// reaches.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoom`] if the frame does not fit, although all other frames gave way. Also if an allocation of the frame is offered, or of
    /// another device. Nothing is submitted in case of an error.
    ///
    /// # Safety
    ///
    /// As for [`Device::submit`](super::Device::submit); the commands use what the frame names, and those on the device's own list.
    #[doc(alias = "D3DKMTSubmitCommand")]
    pub unsafe fn submit(&self, work: Submission) -> Result<Point, Error> {
        self.device.submit(self.named()?, work)
    }

    /// Begins a use that the application submits to a queue of its own, as [`Device::begin_use`](super::Device::begin_use) does.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Self::submit).
    pub fn begin_use(&self) -> Result<Use, Error> {
        self.device.begin_use(self.named()?)
    }

    /// Writes `bytes` to a buffer, from `offset` on, as [`Device::write`](super::Device::write) does.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Self::submit), or if the bytes do not lie in the buffer.
    pub fn write(&self, buffer: &'a Buffer, offset: u64, bytes: &[u8]) -> Result<Point, Error> {
        let name = buffer.part_on(self.device, offset, bytes.len() as u64)?;
        self.device.write(self.clone().insert(buffer).named()?, name, offset, bytes)
    }

    /// Reads `bytes` bytes of a buffer, from `offset` on, as [`Device::read`](super::Device::read) does.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn read(&self, buffer: &'a Buffer, offset: u64, bytes: u64) -> Result<Download, Error> {
        let name = buffer.part_on(self.device, offset, bytes)?;
        self.device.read(self.clone().insert_read(buffer).named()?, name, offset, bytes)
    }
}
