//! An adapter: a Vulkan device, and the worker that manages its memory.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use ash::vk;
use vidmm::Statistics;

use crate::device::{Handles, Point, VulkanDevice};
use crate::instance::Validation;
use crate::report::DeviceReport;

use super::client::{Client, Status};
use super::command::{AllocationStatistics, Command, LocalMemory};
use super::error::Error;
use super::names::Names;
use super::options::Options;
use super::pinned::PinnedMemory;
use super::process::Process;
use super::worker;

/// A Vulkan device whose memory is managed.
///
/// The manager goes on as long as any handle of the adapter's is left: a process, a device, an allocation, a use or pinned memory.
#[doc(alias = "DXGADAPTER")]
#[derive(Clone)]
pub struct Adapter(Arc<Client>);

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").field("device", &self.0.device).finish_non_exhaustive()
    }
}

impl Adapter {
    /// Opens the first Vulkan device that can be used: a discrete GPU if there is one. Its one queue is shared with the
    /// application. It has the features that the manager needs and no others: an engine that needs more hands over a device of its own
    /// ([`adopt`](Self::adopt)).
    ///
    /// # Errors
    ///
    /// Why there is none, or why the options are impossible on it.
    pub fn open(options: Options, validation: Validation) -> Result<Self, Error> {
        Self::start(VulkanDevice::open(validation)?, options)
    }

    /// Manages memory on a device that the application owns. Other memory of the device is not touched: allocators of the
    /// application's go on beside.
    ///
    /// # Errors
    ///
    /// If the device lacks a feature, or the options are impossible on it.
    ///
    /// # Safety
    ///
    /// - The handles belong to each other, and outlive the adapter and all handles that come from it.
    /// - Instance and device were made for Vulkan 1.2, the device with `sparseBinding`, `sparseResidencyBuffer`, `sparseResidencyAliased`,
    ///   `bufferDeviceAddress` and `timelineSemaphore`.
    /// - The queue is used through [`with_queue`](Self::with_queue) alone.
    pub unsafe fn adopt(handles: Handles, options: Options) -> Result<Self, Error> {
        // SAFETY: the caller's.
        Self::start(unsafe { VulkanDevice::adopt(handles) }?, options)
    }

    fn start(device: Arc<VulkanDevice>, options: Options) -> Result<Self, Error> {
        let options = options.check(device.report())?;
        let (status, names) = (Arc::new(Status::default()), Arc::new(Names::default()));
        let (to, commands) = channel::<Command>();
        let (says, started) = channel();
        let worker = {
            let (device, names, status, to) = (device.clone(), names.clone(), status.clone(), to.clone());
            let work = move || worker::run(device, names, options, commands, to, &status, &says);
            thread::Builder::new().name("vidmm worker".to_owned()).spawn(work)
        };
        let worker = worker.map_err(|error| Error::Lost(format!("no thread: {error}")))?;
        let client = Client::new(device, names, status, to, worker);
        started.recv().unwrap_or_else(|_| Err(client.unanswered()))?;
        Ok(Self(Arc::new(client)))
    }

    /// Creates a process, which has a budget of its own.
    ///
    /// # Errors
    ///
    /// If its page tables get no memory.
    #[doc(alias = "DxgkDdiCreateProcess")]
    pub fn create_process(&self) -> Result<Process, Error> {
        Process::create(&self.0)
    }

    /// The description of the device.
    pub fn report(&self) -> &DeviceReport {
        self.0.device.report()
    }

    /// The instance.
    pub fn instance(&self) -> &ash::Instance {
        &self.0.device.instance
    }

    /// The physical device.
    pub fn physical_device(&self) -> vk::PhysicalDevice {
        self.0.device.physical
    }

    /// The device. An application destroys what it has made there before it drops its last handle of the adapter.
    pub fn raw(&self) -> &ash::Device {
        &self.0.device.raw
    }

    /// The family of the queue that the manager uses.
    pub fn queue_family(&self) -> u32 {
        self.report().queue_family.unwrap_or(0)
    }

    /// Creates a timeline semaphore for points of the application's own, such as the [ends of its uses](super::Use::end). Its value is 0. It
    /// lives as long as the device: the adapter's threads look at it whenever they get to it, so it is not the application's to
    /// destroy. One for each queue is enough.
    ///
    /// # Errors
    ///
    /// If Vulkan has no memory.
    pub fn create_semaphore(&self) -> Result<vk::Semaphore, Error> {
        Ok(self.0.device.new_semaphore()?)
    }

    /// Calls `use_it` with the manager's queue, which nobody else uses meanwhile.
    ///
    /// A submission that uses buffers of the manager, or waits for a point of it, goes by [`Device::submit`](super::Device::submit): here it
    /// would hold up the paging that it waits for.
    pub fn with_queue<T>(&self, use_it: impl FnOnce(vk::Queue) -> T) -> T {
        self.0.device.with_queue(use_it)
    }

    /// Waits on the host until `point` is reached, which came from the adapter, for `at_most`; whether it was. It is the one call
    /// that waits for the GPU, beside [`Download::wait`](super::Download::wait).
    ///
    /// # Errors
    ///
    /// If the point is of another's semaphore, or Vulkan refuses.
    pub fn wait(&self, point: Point, at_most: Duration) -> Result<bool, Error> {
        if !self.0.device.has_made(point.semaphore) {
            return Err(Error::ForeignPoint);
        }
        let nanoseconds = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
        Ok(self.0.device.wait_points(&[point], nanoseconds)?)
    }

    /// Lets the budgets of all processes together be no more than `bytes` of local memory from now on, or with none all that there is.
    /// Processes above their budgets are asked to trim, frames trim themselves, and memory in which nothing is left goes back to the device,
    /// in blocks of 16 MiB: a block stays for the last allocation that has a part of it.
    /// A budget is no wall: allocations on a device's own list stay until the application evicts them, and what one frame or one
    /// list needs comes in as long as it fits into all that there is.
    ///
    /// Where the device says what it has for this process (VK_EXT_memory_budget), the manager looks each second, and uses no more than
    /// others leave of it, by itself.
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    #[doc(alias = "RestrictBudget")]
    pub fn restrict_local_memory(&self, bytes: Option<u64>) -> Result<(), Error> {
        self.0.send(Command::RestrictLocalMemory(bytes))
    }

    /// Takes `bytes` of local memory away from the manager, for memory of the application's own that cannot be moved: what the host has
    /// mapped, what is imported or exported, what another allocator has. The manager gives it up as for
    /// [`restrict_local_memory`](Self::restrict_local_memory), and has it again when the value is dropped:
    /// [`PinnedMemory::is_left`] says whether it has. What is pinned and what is restricted do not add up: the manager uses the less of
    /// what either leaves. Where VK_EXT_memory_budget tells of such memory too, it counts once.
    ///
    /// # Errors
    ///
    /// If the manager has less that is not pinned, or the adapter is lost.
    pub fn pin_local_memory(&self, bytes: u64) -> Result<PinnedMemory, Error> {
        PinnedMemory::new(&self.0, bytes)
    }

    /// How much local memory there is for the manager, how much of it is pinned, and how much the manager has taken.
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    pub fn local_memory(&self) -> Result<LocalMemory, Error> {
        self.0.ask(Command::LocalMemory)
    }

    /// The manager's counters so far: what was paged in and out, in bytes.
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        self.0.ask(Command::Statistics)
    }

    /// The buffers and images that exist: how large each is, where, and for whom, in the order of their creation.
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    pub fn allocations(&self) -> Result<Vec<AllocationStatistics>, Error> {
        self.0.ask(Command::Allocations)
    }
}
