//! A device: what an application has made resident, and its uses of that.

use std::fmt;
use std::sync::Arc;

use ash::vk;
use vidmm::{AllocationId, EvictFlags, MakeResidentFlags, OfferPriority, PAGE_SIZE_64K, ReclaimResult};
use vidmm_runtime::AllocationSegments;

use crate::device::Point;
use crate::report::Mode;
use crate::sparse::Handle;

use super::allocation::{Allocation, bytes_from};
use super::books::{DeviceInner, Named};
use super::buffer::{Buffer, BufferDesc, BufferMemory};
use super::client::Client;
use super::command::{Command, CreateAllocation, NewAllocation, NewResource, Submission, Trim};
use super::error::Error;
use super::frame::Frame;
use super::image::Image;
use super::image_desc::ImageDesc;
use super::no_room::ListRoom;
use super::options::checked;
use super::owner::ProcessInner;
use super::uses::{Download, Use};

/// A residency list, its buffers, and the uses of them.
///
/// No call waits for the GPU. Those that can be refused wait for the worker's answer, which does not wait for it either.
/// Points of one device's submissions are reached in the order of its calls, and so are those of its MakeResidents.
///
/// Between paging and commands there is nothing to synchronize: what was submitted to the manager's queue before is through and visible, and
/// later paging waits for it.
#[doc(alias = "D3DKMT_CREATEDEVICE")]
#[derive(Clone)]
pub struct Device(Arc<DeviceInner>);

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("device", &self.0.new.device).finish_non_exhaustive()
    }
}

impl Device {
    pub(super) fn of_process(process: Arc<ProcessInner>) -> Result<Self, Error> {
        Ok(Self(DeviceInner::create(process)?))
    }

    fn client(&self) -> &Arc<Client> {
        self.0.client()
    }

    fn names(&self, allocations: &[impl AsRef<Allocation>]) -> Result<Vec<AllocationId>, Error> {
        allocations.iter().map(|allocation| allocation.as_ref().name_on(&self.0)).collect()
    }

    /// Creates a buffer of `size` bytes, a multiple of 64 KiB. It takes addresses and backing store, and no local memory until it is
    /// made resident. `usage` is what the application uses it for beside [what every buffer has](Buffer::raw).
    ///
    /// # Errors
    ///
    /// If there is not so much backing store, or the device has no addresses left for sparse buffers.
    #[doc(alias = "D3DKMTCreateAllocation2")]
    pub fn create_buffer(&self, size: u64, usage: vk::BufferUsageFlags) -> Result<Buffer, Error> {
        self.create_buffer_with(BufferDesc { usage, ..BufferDesc::new(size) })
    }

    /// The same, of a buffer that may be in other memory, or is to be notified.
    ///
    /// # Errors
    ///
    /// As for [`create_buffer`](Self::create_buffer), and [`Error::SystemMemory`] where the device cannot bind it.
    pub fn create_buffer_with(&self, desc: BufferDesc) -> Result<Buffer, Error> {
        let report = self.client().device.report();
        let segments = match desc.memory {
            BufferMemory::Local => AllocationSegments::Local,
            _ if report.mode != Mode::BindsAll => return Err(Error::SystemMemory),
            BufferMemory::LocalOrSystem => AllocationSegments::LocalOrSystem,
            BufferMemory::System => AllocationSegments::System,
        };
        let BufferDesc { size, range_bytes, usage, notify_eviction, .. } = desc;
        let most = report.limits.max_buffer_bytes / PAGE_SIZE_64K * PAGE_SIZE_64K;
        let bytes = checked("a buffer", size, most)?;
        let range_bytes = checked("a range of a buffer", range_bytes, u64::MAX)?;
        let resource = NewResource::Buffer { bytes, range_bytes, usage };
        let (allocation, new) = self.create(CreateAllocation { resource, segments, notify_eviction })?;
        match new.raw {
            Handle::Buffer(raw) => Ok(Buffer::new(allocation, raw, new.address)),
            Handle::Image(_) => Err(Error::Lost("a buffer was made an image".to_owned())),
        }
    }

    /// Creates an image. It takes backing store, and no local memory until it is made resident. Its bytes are not those of its texels alone:
    /// [`Allocation::size`] says how many there are.
    ///
    /// # Errors
    ///
    /// [`Error::Image`] where the device has no such images with sparse binding. If there is not so much backing store, or the device has no
    /// addresses left.
    ///
    /// # Safety
    ///
    /// A device that [an application owns](super::Adapter::adopt) has the features that the format, the usage and the flags of the image
    /// need; the manager enables none for images.
    #[doc(alias = "D3DKMTCreateAllocation2")]
    pub unsafe fn create_image(&self, desc: ImageDesc) -> Result<Image, Error> {
        desc.check(&self.client().device)?;
        let resource = NewResource::Image(desc);
        let desc = CreateAllocation { resource, segments: AllocationSegments::Local, notify_eviction: None };
        let (allocation, new) = self.create(desc)?;
        match new.raw {
            Handle::Image(raw) => Ok(Image::new(allocation, raw)),
            Handle::Buffer(_) => Err(Error::Lost("an image was made a buffer".to_owned())),
        }
    }

    fn create(&self, desc: CreateAllocation) -> Result<(Allocation, NewAllocation), Error> {
        let device = self.0.new.device;
        let new = self.client().ask(|reply| Command::CreateAllocation { device, desc, reply })?;
        Ok((Allocation::new(self.0.clone(), &new), new))
    }

    /// Adds buffers and images to the device's residency list, each as often as it is named (RES-02), and returns the point from which on
    /// they are in local memory. A use that is begun later waits for them by itself.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoom`] if the list has no room, although frames have given up their allocations: evict the bytes of the refusal, and try
    /// again (RES-11). The list is then unchanged.
    #[doc(alias = "D3DKMTMakeResident")]
    pub fn make_resident(
        &self,
        allocations: &[impl AsRef<Allocation>],
        flags: MakeResidentFlags,
    ) -> Result<Point, Error> {
        let names = self.names(allocations)?;
        let device = self.0.new.device;
        let mut line = self.0.line();
        line.check_not_offered(&names, &self.client().names)?;
        let ready = line.ready + 1;
        let asked = names.clone();
        let ask = |reply| Command::MakeResident { device, allocations: asked, flags, ready, reply };
        let answer = self.client().begin_asking(ask)?;
        line.ready = ready;
        drop(line);
        self.client().finish_asking(&answer)?;
        let mut line = self.0.line();
        for name in names {
            *line.listed.entry(name).or_default() += 1;
        }
        Ok(self.0.ready(ready))
    }

    /// Whether buffers and images fit on the device's residency list beside all that frames hold, what is missing, and which processes hold
    /// the memory. Nothing changes.
    ///
    /// # Errors
    ///
    /// As for [`make_resident`](Self::make_resident) but for [`Error::NoRoom`], which is an answer here.
    pub fn query_room(&self, allocations: &[impl AsRef<Allocation>]) -> Result<ListRoom, Error> {
        let (names, device) = (self.names(allocations)?, self.0.new.device);
        self.0.line().check_not_offered(&names, &self.client().names)?;
        self.client().ask(|reply| Command::QueryRoom { device, allocations: names, reply })
    }

    /// Takes buffers and images off the device's residency list, each as often as it is named (RES-02). Uses that were begun before still have
    /// them; a later use is refused (RES-20). Their content goes to system memory when those uses have ended: soon, or only when
    /// their memory is wanted, as `flags` say (RES-21).
    ///
    /// # Errors
    ///
    /// If one is not on the list that often. The list is then as it was.
    #[doc(alias = "D3DKMTEvict")]
    pub fn evict(&self, allocations: &[impl AsRef<Allocation>], flags: EvictFlags) -> Result<(), Error> {
        let allocations = self.names(allocations)?;
        if allocations.is_empty() {
            return Ok(());
        }
        let mut line = self.0.line();
        line.count_out(&allocations, &self.client().names)?;
        self.client().send(Command::Evict { device: self.0.new.device, allocations, flags })
    }

    /// Offers buffers and images: their content may be lost when memory is wanted, until they are [reclaimed](Self::reclaim) (RES-61). They
    /// stay on the list, which does not require them meanwhile.
    ///
    /// # Errors
    ///
    /// If one is offered already. None is then offered.
    #[doc(alias = "D3DKMTOfferAllocations")]
    pub fn offer(&self, allocations: &[impl AsRef<Allocation>], priority: OfferPriority) -> Result<(), Error> {
        let names = self.names(allocations)?;
        let (device, offered) = (self.0.new.device, names.clone());
        self.0.line().check_not_offered(&names, &self.client().names)?;
        self.client().ask(|reply| Command::Offer { device, allocations: offered, priority, reply })?;
        self.0.line().offered.extend(names);
        Ok(())
    }

    /// Reclaims what was offered, and returns the state of their content (RES-64), and the point from which on those on
    /// the list are in local memory.
    ///
    /// # Errors
    ///
    /// If an allocation is not offered. [`Error::NoRoom`] if the list has no room, although frames have given up their allocations. No
    /// allocation is then reclaimed.
    #[doc(alias = "D3DKMTReclaimAllocations2")]
    pub fn reclaim(&self, allocations: &[impl AsRef<Allocation>]) -> Result<(Vec<ReclaimResult>, Point), Error> {
        let names = self.names(allocations)?;
        let (device, offered) = (self.0.new.device, names.clone());
        let mut line = self.0.line();
        line.check_offered(&names, &self.client().names)?;
        let ready = line.ready + 1;
        let ask = |reply| Command::Reclaim { device, allocations: offered, ready, reply };
        let answer = self.client().begin_asking(ask)?;
        line.ready = ready;
        drop(line);
        let results = self.client().finish_asking(&answer)?;
        self.0.line().offered.retain(|allocation| !names.contains(allocation));
        Ok((results, self.0.ready(ready)))
    }

    /// A frame of this device, which uses nothing yet: it brings in by itself what it uses.
    pub fn frame<'a>(&'a self) -> Frame<'a> {
        Frame::new(&self.0)
    }

    /// Begins a use that the application submits to a queue of its own: its submission must wait for [`Use::turn`], and
    /// [`Use::end`] names the point that it signals.
    ///
    /// All that is on the device's list is in place from the turn on, and not moved until the end, whether `allocations` names it or
    /// not. Between the two, do not wait on the host for a later point of any device.
    ///
    /// On the manager's own queue use [`submit`](Self::submit): a submission that waits for its turn there would hold up the paging
    /// that it waits for.
    ///
    /// # Errors
    ///
    /// [`Error::NotResident`] if one of `allocations` is not on the list: it was evicted. Nothing was begun then.
    pub fn begin_use(&self, allocations: &[impl AsRef<Allocation>]) -> Result<Use, Error> {
        self.0.begin_use(Named::Listed(self.names(allocations)?))
    }

    /// Submits commands that use `allocations` to the manager's queue, when it is their turn. Returns the point that their end reaches.
    ///
    /// # Errors
    ///
    /// As for [`begin_use`](Self::begin_use).
    ///
    /// # Safety
    ///
    /// The command buffers are recorded for the [queue's family](super::Adapter::queue_family); they, what they use, and the
    /// semaphores of `work` are valid until the point is reached. They use no allocation of the device that is not on its list.
    #[doc(alias = "D3DKMTSubmitCommand")]
    pub unsafe fn submit(&self, allocations: &[impl AsRef<Allocation>], work: Submission) -> Result<Point, Error> {
        self.0.submit(Named::Listed(self.names(allocations)?), work)
    }

    /// Writes `bytes` to a resident buffer, from `offset` on, by way of memory of the adapter's own: a copy to the memory that the
    /// buffer has at that time, as paging makes it. Returns the point from which on
    /// they are there. Later uses on the manager's queue see them; others wait for the point.
    ///
    /// # Errors
    ///
    /// As for [`begin_use`](Self::begin_use), or if the bytes do not lie in the buffer.
    pub fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<Point, Error> {
        let name = buffer.ranges_on(&self.0, bytes_from(offset, bytes.len() as u64))?.resource;
        self.0.write(Named::Listed(vec![name]), name, offset, bytes)
    }

    /// Reads `bytes` bytes of a resident buffer, from `offset` on, as earlier uses on the manager's queue leave them.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn read(&self, buffer: &Buffer, offset: u64, bytes: u64) -> Result<Download, Error> {
        let name = buffer.ranges_on(&self.0, bytes_from(offset, bytes))?.resource;
        self.0.read(Named::Listed(vec![name]), name, offset, bytes)
    }

    /// Lets `call` be called when the device is to trim (RES-40), in place of an earlier one. It is called on the worker's thread,
    /// which does nothing else meanwhile: it may call [`evict`](Self::evict), and is refused what waits for an answer
    /// ([`Error::InCallBack`]). A call that owns a handle of the adapter keeps it alive, until another takes its place.
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    #[doc(alias = "D3DKMTRegisterTrimNotification")]
    pub fn on_trim(&self, call: impl FnMut(Trim) + Send + 'static) -> Result<(), Error> {
        self.client().send(Command::OnTrim { device: self.0.new.device, call: Box::new(call) })
    }
}
