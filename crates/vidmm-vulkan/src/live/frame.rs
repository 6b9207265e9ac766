//! A frame: what a submission uses, brought in for it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::device::Point;

use super::allocation::{Allocation, bytes_from};
use super::books::{DeviceInner, Named};
use super::buffer::Buffer;
use super::command::{Command, FrameAllocations, NamedRanges, Submission};
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
    named: FrameAllocations,
    /// What a call has named that cannot be used.
    refused: Option<Error>,
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FrameAllocations { read, written } = &self.named;
        f.debug_struct("Frame").field("read", read).field("written", written).finish_non_exhaustive()
    }
}

impl<'a> Frame<'a> {
    pub(super) fn new(device: &'a Arc<DeviceInner>) -> Self {
        Self { device, named: FrameAllocations::default(), refused: None }
    }

    /// It uses a buffer or an image, and writes it, or may write it.
    pub fn insert(self, allocation: &'a impl AsRef<Allocation>) -> Self {
        let ranges = allocation.as_ref().all_on(self.device);
        self.with(ranges, |named| &mut named.written)
    }

    /// It uses a buffer or an image, and only reads it. Where it writes it all the same, what it wrote may be lost (RES-22).
    pub fn insert_read(self, allocation: &'a impl AsRef<Allocation>) -> Self {
        let ranges = allocation.as_ref().all_on(self.device);
        self.with(ranges, |named| &mut named.read)
    }

    /// It uses bytes of a buffer, and writes them, or may write them. The [ranges](super::BufferDesc::range_bytes) that they touch come in, and
    /// no others. The call that submits the frame refuses bytes that do not lie in the buffer.
    pub fn insert_range(self, buffer: &'a Buffer, bytes: Range<u64>) -> Self {
        let ranges = buffer.ranges_on(self.device, bytes);
        self.with(ranges, |named| &mut named.written)
    }

    /// It uses bytes of a buffer, and writes none of the ranges that they touch: what it wrote there may be lost (RES-22).
    pub fn insert_read_range(self, buffer: &'a Buffer, bytes: Range<u64>) -> Self {
        let ranges = buffer.ranges_on(self.device, bytes);
        self.with(ranges, |named| &mut named.read)
    }

    fn with(
        mut self,
        ranges: Result<NamedRanges, Error>,
        list: fn(&mut FrameAllocations) -> &mut Vec<NamedRanges>,
    ) -> Self {
        match ranges {
            Ok(ranges) => list(&mut self.named).push(ranges),
            Err(error) => _ = self.refused.get_or_insert(error),
        }
        self
    }

    fn names(&self) -> Result<FrameAllocations, Error> {
        match &self.refused {
            None => Ok(self.named.clone()),
            Some(error) => Err(error.clone()),
        }
    }

    fn named(&self) -> Result<Named, Error> {
        self.names().map(Named::Frame)
    }

    /// Says that the device needs what this frame names soon, in the order of the calls of `insert` and `insert_read`, reads first. The
    /// device's last announcement is void. While engines leave the bus alone, the content comes into free local memory before the frame is
    /// submitted, and nothing is evicted for it ([`VidMm::announce`](vidmm::VidMm::announce)).
    ///
    /// # Errors
    ///
    /// If the adapter is lost, something is another device's, or bytes do not lie in their buffer.
    pub fn announce(&self) -> Result<(), Error> {
        let FrameAllocations { read, written } = self.names()?;
        let allocations = [read, written].concat();
        self.device.client().send(Command::Announce { device: self.device.new.device, allocations })
    }

    /// Submits commands to the manager's queue, when all that the frame uses is in place. Returns the point that their end
    /// reaches.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoom`] if the frame does not fit, although all other frames gave way. Also if an allocation of the frame is offered, or of
    /// another device, or if bytes do not lie in their buffer. Nothing is submitted in case of an error.
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

    /// Writes `bytes` to a buffer, from `offset` on, as [`Device::write`](super::Device::write) does. The frame uses these bytes too.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Self::submit), or if the bytes do not lie in the buffer.
    pub fn write(&self, buffer: &'a Buffer, offset: u64, bytes: &[u8]) -> Result<Point, Error> {
        let named = self.clone().insert_range(buffer, bytes_from(offset, bytes.len() as u64)).named()?;
        self.device.write(named, buffer.id(), offset, bytes)
    }

    /// Reads `bytes` bytes of a buffer, from `offset` on, as [`Device::read`](super::Device::read) does.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn read(&self, buffer: &'a Buffer, offset: u64, bytes: u64) -> Result<Download, Error> {
        let named = self.clone().insert_read_range(buffer, bytes_from(offset, bytes)).named()?;
        self.device.read(named, buffer.id(), offset, bytes)
    }
}
