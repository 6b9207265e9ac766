//! A logical device: its queue, and the one timeline that orders all that it does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::{ext, vk};

use crate::error::VulkanError;
use crate::instance::{Instance, Validation};
use crate::kernels::Kernels;
use crate::probe::{self, Enabled};
use crate::report::DeviceReport;

/// How long the host waits for the GPU before it gives it up.
const PATIENCE_SECONDS: u64 = 120;

/// A Vulkan device that the manager can use.
///
/// It has one queue and one timeline semaphore, which lives as long as the device. Whatever is submitted waits for all that
/// was submitted before: the queue's own order does not hold between bindings and commands.
pub struct VulkanDevice {
    pub(crate) raw: ash::Device,
    pub(crate) kernels: Kernels,
    report: DeviceReport,
    timeline: vk::Semaphore,
    queue: Mutex<Queue>,
    names: Option<ext::debug_utils::Device>,
    /// Destroyed after all of the device.
    _instance: Instance,
}

/// The queue, and the last value of the timeline that something submitted is to signal.
struct Queue {
    raw: vk::Queue,
    submitted: u64,
}

impl std::fmt::Debug for VulkanDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VulkanDevice").field("name", &self.report.name).finish_non_exhaustive()
    }
}

impl VulkanDevice {
    /// Opens the first device that can be used: a discrete GPU if there is one.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn open(validation: Validation) -> Result<Arc<Self>, VulkanError> {
        let instance = Instance::new(validation)?;
        let found = probe::find(&instance)?;
        if found.is_empty() {
            return Err(VulkanError::NoDevice);
        }
        let mut refused = Vec::new();
        for (physical, report) in found {
            match report.check() {
                Ok(()) => return Self::new(instance, physical, report),
                Err(error) => refused.push(error),
            }
        }
        Err(VulkanError::NoUsableDevice(refused))
    }

    fn new(instance: Instance, physical: vk::PhysicalDevice, report: DeviceReport) -> Result<Arc<Self>, VulkanError> {
        let family = report.queue_family.unwrap_or(0);
        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&priorities)];
        let Enabled { core, mut vulkan12 } = Enabled::needed();
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_features(&core)
            .push_next(&mut vulkan12);
        // SAFETY: the report has been checked: the device has the features and the family.
        let raw = unsafe { instance.raw.create_device(physical, &info, None) };
        let raw = raw.map_err(VulkanError::of("vkCreateDevice"))?;
        let names = instance.is_validated().then(|| ext::debug_utils::Device::new(&instance.raw, &raw));
        let (kernels, timeline) = match Kernels::new(&raw).and_then(|kernels| Ok((kernels, timeline(&raw)?))) {
            Ok(made) => made,
            Err(error) => {
                // SAFETY: nothing of the device is in use. What the failed call has made goes with the process.
                unsafe { raw.destroy_device(None) };
                return Err(error);
            }
        };
        // SAFETY: the device was made with one queue of the family.
        let queue = Mutex::new(Queue { raw: unsafe { raw.get_device_queue(family, 0) }, submitted: 0 });
        Ok(Arc::new(Self { raw, kernels, report, timeline, queue, names, _instance: instance }))
    }

    /// The description of the device.
    pub fn report(&self) -> &DeviceReport {
        &self.report
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits `commands`, which wait for all that was submitted before. Returns the value that the timeline has when they
    /// have ended.
    pub(crate) fn submit(&self, commands: vk::CommandBuffer) -> Result<u64, VulkanError> {
        let mut queue = self.queue();
        let (waits, signals) = ([queue.submitted], [queue.submitted + 1]);
        let mut values =
            vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&waits).signal_semaphore_values(&signals);
        let (semaphores, commands) = ([self.timeline], [commands]);
        let info = vk::SubmitInfo::default()
            .wait_semaphores(&semaphores)
            .wait_dst_stage_mask(&[vk::PipelineStageFlags::ALL_COMMANDS])
            .command_buffers(&commands)
            .signal_semaphores(&semaphores)
            .push_next(&mut values);
        // SAFETY: the guard is the one access to the queue; the commands are recorded, and kept until the value is reached.
        let submitted = unsafe { self.raw.queue_submit(queue.raw, &[info], vk::Fence::null()) };
        submitted.map_err(VulkanError::of("vkQueueSubmit"))?;
        queue.submitted += 1;
        Ok(queue.submitted)
    }

    /// Binds memory to sparse buffers, after all that was submitted before. Returns the value that the timeline has then.
    pub(crate) fn bind_sparse(&self, binds: &[vk::SparseBufferMemoryBindInfo<'_>]) -> Result<u64, VulkanError> {
        let mut queue = self.queue();
        let (waits, signals) = ([queue.submitted], [queue.submitted + 1]);
        let mut values =
            vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&waits).signal_semaphore_values(&signals);
        let semaphores = [self.timeline];
        let info = vk::BindSparseInfo::default()
            .wait_semaphores(&semaphores)
            .buffer_binds(binds)
            .signal_semaphores(&semaphores)
            .push_next(&mut values);
        // SAFETY: the guard is the one access to the queue; buffers and memory live until the value is reached.
        let bound = unsafe { self.raw.queue_bind_sparse(queue.raw, &[info], vk::Fence::null()) };
        bound.map_err(VulkanError::of("vkQueueBindSparse"))?;
        queue.submitted += 1;
        Ok(queue.submitted)
    }

    /// Whether the timeline has reached `value`.
    pub(crate) fn has_reached(&self, value: u64) -> Result<bool, VulkanError> {
        // SAFETY: the semaphore is this device's.
        let reached = unsafe { self.raw.get_semaphore_counter_value(self.timeline) };
        Ok(reached.map_err(VulkanError::of("vkGetSemaphoreCounterValue"))? >= value)
    }

    /// Waits until the timeline has reached `value`.
    pub(crate) fn wait(&self, value: u64) -> Result<(), VulkanError> {
        let (semaphores, values) = ([self.timeline], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore is this device's.
        match unsafe { self.raw.wait_semaphores(&info, PATIENCE_SECONDS * 1_000_000_000) } {
            Ok(()) => Ok(()),
            Err(vk::Result::TIMEOUT) => Err(VulkanError::TimedOut { seconds: PATIENCE_SECONDS }),
            Err(result) => Err(VulkanError::Call { call: "vkWaitSemaphores", result }),
        }
    }

    /// Waits for all that was submitted. Whatever is destroyed is destroyed after that; a device that is lost runs nothing.
    pub(crate) fn settle(&self) {
        let submitted = self.queue().submitted;
        let _ = self.wait(submitted);
    }

    /// Gives an object a name for the messages of validation.
    pub(crate) fn name(&self, object: impl vk::Handle, name: &str) {
        let (Some(names), Ok(name)) = (&self.names, std::ffi::CString::new(name)) else { return };
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&name);
        // SAFETY: the object is this device's, and nobody else uses it at this time. Without its name it is the same.
        let _ = unsafe { names.set_debug_utils_object_name(&info) };
    }
}

fn timeline(device: &ash::Device) -> Result<vk::Semaphore, VulkanError> {
    let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
    let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
    // SAFETY: the device has timeline semaphores enabled.
    unsafe { device.create_semaphore(&info, None) }.map_err(VulkanError::of("vkCreateSemaphore"))
}

impl Drop for VulkanDevice {
    fn drop(&mut self) {
        // SAFETY: the last of those who share the device drops it, so all their objects are gone. The semaphore is destroyed
        // only once the device is idle: lavapipe still touches it after a wait has returned.
        unsafe {
            let _ = self.raw.device_wait_idle();
            self.raw.destroy_semaphore(self.timeline, None);
            self.kernels.destroy(&self.raw);
            self.raw.destroy_device(None);
        }
    }
}
