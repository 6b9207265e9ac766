//! A logical device: its queue, and the one timeline that orders all that it does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::{ext, vk};

use crate::error::{Feature, VulkanError};
use crate::instance::{Instance, Validation};
use crate::kernels::Kernels;
use crate::probe::{self, Enabled};
use crate::report::DeviceReport;

/// How long the host waits for the GPU before it gives it up.
const PATIENCE_SECONDS: u64 = 120;

/// A Vulkan device that the manager can use.
///
/// It has one queue and one timeline semaphore, which lives as long as the device. Whatever is submitted waits for all that
/// was submitted before: the queue's own order does not hold between bindings and commands. Where the device has another family
/// that binds memory, bindings have a queue of their own, so that copies go on beside them.
pub struct VulkanDevice {
    pub(crate) raw: ash::Device,
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    /// None on a device that an application owns: no kernel of ours runs there.
    pub(crate) kernels: Option<Kernels>,
    report: DeviceReport,
    /// The queue families that use the buffers, without repetition.
    families: Vec<u32>,
    timeline: vk::Semaphore,
    /// Further semaphores, which live as long as the device.
    semaphores: Mutex<Vec<vk::Semaphore>>,
    queue: Mutex<Queue>,
    bind_queue: Option<Mutex<BindQueue>>,
    names: Option<ext::debug_utils::Device>,
    /// Destroyed after all of the device; none if an application owns both.
    owned: Option<Instance>,
}

/// A logical device that an application owns, and the queue of it that the manager is to use.
#[derive(Clone)]
pub struct Handles {
    /// The instance.
    pub instance: ash::Instance,
    /// The physical device.
    pub physical_device: vk::PhysicalDevice,
    /// The device.
    pub device: ash::Device,
    /// The family of the queue: its queues bind sparse memory and copy.
    pub queue_family: u32,
    /// The queue.
    pub queue: vk::Queue,
    /// The families of all queues with which the application uses buffers of the manager.
    pub families: Vec<u32>,
}

/// Commands for the queue.
#[derive(Clone, Copy, Default)]
pub(crate) struct Batch<'a> {
    pub(crate) commands: &'a [vk::CommandBuffer],
    pub(crate) waits: &'a [Point],
    pub(crate) signals: &'a [Point],
}

/// A value of a timeline semaphore.
#[doc(alias = "D3DKMT_MONITORED_FENCE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// The semaphore.
    pub semaphore: vk::Semaphore,
    /// The value from which on the point is reached.
    pub value: u64,
}

/// The queue, and the last value of the timeline that something submitted is to signal.
struct Queue {
    raw: vk::Queue,
    submitted: u64,
    /// Points of other queues that the next submission waits for.
    waits: Vec<Point>,
}

/// A queue for bindings alone, and the timeline that orders them.
struct BindQueue {
    raw: vk::Queue,
    timeline: vk::Semaphore,
    submitted: u64,
}

/// The place of bindings among what was submitted before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BindOrder {
    /// After all of it.
    Last,
    /// After other bindings: nothing that was submitted before and has not ended uses the addresses.
    Beside,
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
        let of_family =
            |family| vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&priorities);
        let queues: Vec<_> = [Some(family), report.bind_family].into_iter().flatten().map(of_family).collect();
        let Enabled { core, mut vulkan12 } = Enabled::needed();
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_features(&core)
            .push_next(&mut vulkan12);
        // SAFETY: the report has been checked: the device has the features and the family.
        let raw = unsafe { instance.raw.create_device(physical, &info, None) };
        let raw = raw.map_err(VulkanError::of("vkCreateDevice"))?;
        let names = instance.is_validated().then(|| ext::debug_utils::Device::new(&instance.raw, &raw));
        let parts = |family| bind_queue(&raw, family).map(Mutex::new);
        let bind_queue = report.bind_family.map(parts).transpose();
        let made = bind_queue.and_then(|bind_queue| Ok((Kernels::new(&raw)?, timeline(&raw)?, bind_queue)));
        let (kernels, timeline, bind_queue) = match made {
            Ok(made) => made,
            Err(error) => {
                // SAFETY: nothing of the device is in use. What the failed call has made goes with the process.
                unsafe { raw.destroy_device(None) };
                return Err(error);
            }
        };
        // SAFETY: the device was made with one queue of the family.
        let queue = unsafe { raw.get_device_queue(family, 0) };
        let queue = Mutex::new(Queue { raw: queue, submitted: 0, waits: Vec::new() });
        Ok(Arc::new(Self {
            raw,
            instance: instance.raw.clone(),
            physical,
            kernels: Some(kernels),
            report,
            families: vec![family],
            timeline,
            semaphores: Mutex::default(),
            queue,
            bind_queue,
            names,
            owned: Some(instance),
        }))
    }

    /// Uses a device that an application owns.
    ///
    /// # Safety
    ///
    /// The handles belong to each other and outlive the value. The device was made with the features of [`Enabled`], but for
    /// 64-bit integers in shaders. Nobody else uses the queue but through [`with_queue`](Self::with_queue).
    pub(crate) unsafe fn adopt(handles: Handles) -> Result<Arc<Self>, VulkanError> {
        let Handles { instance, physical_device, device, queue_family, queue, mut families } = handles;
        let report = probe::report(&instance, physical_device);
        report.check()?;
        let family = report.queue_families.get(queue_family as usize);
        if !family.is_some_and(|family| family.sparse_binding && family.transfer) {
            return Err(VulkanError::Lacks { device: report.name, feature: Feature::SparseTransferQueue });
        }
        let report = DeviceReport { queue_family: Some(queue_family), bind_family: None, ..report };
        families.push(queue_family);
        families.sort_unstable();
        families.dedup();
        let timeline = timeline(&device)?;
        Ok(Arc::new(Self {
            raw: device,
            instance,
            physical: physical_device,
            kernels: None,
            report,
            families,
            timeline,
            semaphores: Mutex::default(),
            queue: Mutex::new(Queue { raw: queue, submitted: 0, waits: Vec::new() }),
            bind_queue: None,
            names: None,
            owned: None,
        }))
    }

    /// The queue families that use the buffers.
    pub(crate) fn families(&self) -> &[u32] {
        &self.families
    }

    /// The queue, which nobody else uses meanwhile.
    pub(crate) fn with_queue<T>(&self, use_it: impl FnOnce(vk::Queue) -> T) -> T {
        use_it(self.queue().raw)
    }

    /// The description of the device.
    pub fn report(&self) -> &DeviceReport {
        &self.report
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits `batch`, which waits for all that was submitted before. Returns the value that the timeline has when it has
    /// ended. Its commands and semaphores are kept until then.
    pub(crate) fn submit(&self, batch: Batch<'_>) -> Result<u64, VulkanError> {
        self.submit_to(&mut self.queue(), batch)
    }

    fn submit_to(&self, queue: &mut Queue, batch: Batch<'_>) -> Result<u64, VulkanError> {
        let own = |value| Point { semaphore: self.timeline, value };
        let waits = [batch.waits, &queue.waits, &[own(queue.submitted)]].concat();
        let signals = [batch.signals, &[own(queue.submitted + 1)]].concat();
        let semaphores = |points: &[Point]| points.iter().map(|point| point.semaphore).collect::<Vec<_>>();
        let values = |points: &[Point]| points.iter().map(|point| point.value).collect::<Vec<_>>();
        let (wait_values, signal_values) = (values(&waits), values(&signals));
        let (waits, signals) = (semaphores(&waits), semaphores(&signals));
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
        let mut values = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&signal_values);
        let info = vk::SubmitInfo::default()
            .wait_semaphores(&waits)
            .wait_dst_stage_mask(&stages)
            .command_buffers(batch.commands)
            .signal_semaphores(&signals)
            .push_next(&mut values);
        // SAFETY: the guard is the one access to the queue; the commands are recorded; they and the semaphores are kept.
        let submitted = unsafe { self.raw.queue_submit(queue.raw, &[info], vk::Fence::null()) };
        submitted.map_err(VulkanError::of("vkQueueSubmit"))?;
        queue.waits.clear();
        queue.submitted += 1;
        Ok(queue.submitted)
    }

    /// The next submission waits for `point`, which is reached: what another queue wrote before it is visible from then on.
    pub(crate) fn see(&self, point: Point) {
        let waits = &mut self.queue().waits;
        waits.retain(|earlier| earlier.semaphore != point.semaphore);
        waits.push(point);
    }

    /// The last value of the timeline that something submitted is to signal.
    pub(crate) fn submitted(&self) -> u64 {
        self.queue().submitted
    }

    /// The point at which the timeline has reached `value`.
    pub(crate) fn point(&self, value: u64) -> Point {
        Point { semaphore: self.timeline, value }
    }

    /// A timeline semaphore, whose value is 0. It lives as long as the device.
    pub(crate) fn new_semaphore(&self) -> Result<vk::Semaphore, VulkanError> {
        let semaphore = timeline(&self.raw)?;
        self.name(semaphore, "points of an application's device");
        self.semaphores().push(semaphore);
        Ok(semaphore)
    }

    fn semaphores(&self) -> MutexGuard<'_, Vec<vk::Semaphore>> {
        self.semaphores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the device has made the semaphore.
    pub(crate) fn has_made(&self, semaphore: vk::Semaphore) -> bool {
        self.semaphores().contains(&semaphore)
    }

    /// Lets the queue reach `point`, after all that was submitted before. A signal by the host would be there earlier where
    /// the queue is busy, and would order no memory.
    pub(crate) fn signal(&self, point: Point) -> Result<(), VulkanError> {
        self.submit(Batch { signals: &[point], ..Batch::default() }).map(drop)
    }

    /// Waits until `point` is reached, for `nanoseconds` at most; whether it was.
    pub(crate) fn wait_point(&self, point: Point, nanoseconds: u64) -> Result<bool, VulkanError> {
        let (semaphores, values) = ([point.semaphore], [point.value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the caller's semaphore is this device's.
        match unsafe { self.raw.wait_semaphores(&info, nanoseconds) } {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(result) => Err(VulkanError::Call { call: "vkWaitSemaphores", result }),
        }
    }

    /// Binds memory to sparse resources. Whatever is submitted later waits for that. Returns the value that the timeline has then.
    pub(crate) fn bind_sparse(&self, binds: vk::BindSparseInfo<'_>, order: BindOrder) -> Result<u64, VulkanError> {
        let mut queue = self.queue();
        let Some(bind_queue) = &self.bind_queue else {
            let (before, after) = (self.point(queue.submitted), self.point(queue.submitted + 1));
            self.bind_on(queue.raw, binds, &[before], after)?;
            queue.submitted += 1;
            return Ok(queue.submitted);
        };
        let mut own = bind_queue.lock().unwrap_or_else(PoisonError::into_inner);
        let point = |value| Point { semaphore: own.timeline, value };
        let (before, after) = (point(own.submitted), point(own.submitted + 1));
        let all = [before, self.point(queue.submitted)];
        let waits = match order {
            BindOrder::Last => &all[..],
            BindOrder::Beside => &all[..1],
        };
        self.bind_on(own.raw, binds, waits, after)?;
        own.submitted += 1;
        queue.waits.push(after);
        // Nothing has to be done but to wait: the timeline's next value is reached when both are through.
        self.submit_to(&mut queue, Batch::default())
    }

    fn bind_on(
        &self,
        queue: vk::Queue,
        binds: vk::BindSparseInfo<'_>,
        waits: &[Point],
        signal: Point,
    ) -> Result<(), VulkanError> {
        let wait_values: Vec<_> = waits.iter().map(|point| point.value).collect();
        let waits: Vec<_> = waits.iter().map(|point| point.semaphore).collect();
        let (signal_values, signals) = ([signal.value], [signal.semaphore]);
        let mut values = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&signal_values);
        let info = binds.wait_semaphores(&waits).signal_semaphores(&signals).push_next(&mut values);
        // SAFETY: the caller's guard is the one access to the queue; resources and memory live until the point is reached.
        let bound = unsafe { self.raw.queue_bind_sparse(queue, &[info], vk::Fence::null()) };
        bound.map_err(VulkanError::of("vkQueueBindSparse"))
    }

    /// Whether the timeline has reached `value`.
    pub(crate) fn has_reached(&self, value: u64) -> Result<bool, VulkanError> {
        // SAFETY: the semaphore is this device's.
        let reached = unsafe { self.raw.get_semaphore_counter_value(self.timeline) };
        Ok(reached.map_err(VulkanError::of("vkGetSemaphoreCounterValue"))? >= value)
    }

    /// Waits until the timeline has reached `value`.
    pub(crate) fn wait(&self, value: u64) -> Result<(), VulkanError> {
        match self.wait_point(self.point(value), PATIENCE_SECONDS * 1_000_000_000)? {
            true => Ok(()),
            false => Err(VulkanError::TimedOut { seconds: PATIENCE_SECONDS }),
        }
    }

    /// Waits for all that was submitted. Whatever is destroyed is destroyed after that; a device that is lost runs nothing.
    pub(crate) fn settle(&self) {
        let submitted = self.queue().submitted;
        let _ = self.wait(submitted);
    }

    /// The bytes that this process may take of the heap of local memory now, and those that it has taken; none if the device does not say.
    pub(crate) fn local_budget(&self) -> Option<(u64, u64)> {
        let heap = self.report.heap_of(self.report.local_type)? as usize;
        self.report.heaps.get(heap)?.budget_bytes?;
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        // SAFETY: the device is one of the instance's, and has the extension whose structure is chained: its report has a budget.
        unsafe { self.instance.get_physical_device_memory_properties2(self.physical, &mut properties) };
        Some((budget.heap_budget[heap], budget.heap_usage[heap]))
    }

    /// Gives an object a name for the messages of validation.
    pub(crate) fn name(&self, object: impl vk::Handle, name: &str) {
        let (Some(names), Ok(name)) = (&self.names, std::ffi::CString::new(name)) else { return };
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&name);
        // SAFETY: the object is this device's, and nobody else uses it at this time. Without its name it is the same.
        let _ = unsafe { names.set_debug_utils_object_name(&info) };
    }
}

fn bind_queue(device: &ash::Device, family: u32) -> Result<BindQueue, VulkanError> {
    // SAFETY: the device was made with one queue of the family.
    let raw = unsafe { device.get_device_queue(family, 0) };
    Ok(BindQueue { raw, timeline: timeline(device)?, submitted: 0 })
}

fn timeline(device: &ash::Device) -> Result<vk::Semaphore, VulkanError> {
    let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
    let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
    // SAFETY: the device has timeline semaphores enabled.
    unsafe { device.create_semaphore(&info, None) }.map_err(VulkanError::of("vkCreateSemaphore"))
}

impl Drop for VulkanDevice {
    fn drop(&mut self) {
        let (kernels, owned) = (self.kernels.take(), self.owned.is_some());
        let semaphores = std::mem::take(&mut *self.semaphores());
        self.with_queue(|queue| {
            // SAFETY: the queue is this device's, and the guard the one access to it.
            let _ = unsafe { self.raw.queue_wait_idle(queue) };
        });
        // The queue has waited for all bindings.
        let bind_timeline =
            self.bind_queue.take().map(|queue| queue.into_inner().unwrap_or_else(PoisonError::into_inner).timeline);
        // SAFETY: the last of those who share the device drops it, so all their objects are gone. Semaphores are destroyed only
        // once the queue is idle: lavapipe still touches them after a wait has returned.
        unsafe {
            for semaphore in semaphores.into_iter().chain([self.timeline]).chain(bind_timeline) {
                self.raw.destroy_semaphore(semaphore, None);
            }
            if let Some(kernels) = kernels {
                kernels.destroy(&self.raw);
            }
            if owned {
                self.raw.destroy_device(None);
            }
        }
    }
}
