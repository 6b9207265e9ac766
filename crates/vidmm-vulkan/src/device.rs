//! A logical device: its queues, and the two timelines that order all that they do.

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
/// Commands have a queue and a timeline semaphore: whatever is submitted waits for all commands that were submitted before. Bindings have
/// a timeline of their own, and where the device has another family that binds memory also a queue, so that copies go on beside them.
/// Commands that use the addresses of processes wait for the bindings before them.
pub struct VulkanDevice {
    pub(crate) raw: ash::Device,
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    /// None on a device that an application owns: no kernel of ours runs there.
    pub(crate) kernels: Option<Kernels>,
    report: DeviceReport,
    /// The queue families that use the buffers, without repetition.
    families: Vec<u32>,
    /// Of commands.
    timeline: vk::Semaphore,
    bind_timeline: vk::Semaphore,
    /// Further semaphores, which live as long as the device.
    semaphores: Mutex<Vec<vk::Semaphore>>,
    /// One lock for all queues, since bindings may have the queue of the commands.
    queues: Mutex<Queues>,
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
    /// They use addresses of processes, and so wait for all bindings before.
    pub(crate) uses_addresses: bool,
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

/// The queues, and how far the timelines come with what was submitted.
struct Queues {
    commands: vk::Queue,
    /// The same queue, if the device has no other that binds memory.
    bindings: vk::Queue,
    submitted: Mark,
    /// The bindings that the last commands wait for: later ones do so too.
    awaited_bindings: u64,
    /// Points of other queues that the next commands wait for.
    waits: Vec<Point>,
}

/// All that was submitted up to some moment, as values of the timelines.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Mark {
    pub(crate) commands: u64,
    pub(crate) bindings: u64,
}

/// The place of bindings among what was submitted before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BindOrder {
    /// After all of it.
    Last,
    /// After other bindings: no command that was submitted before and has not ended uses the addresses.
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
        let made = Kernels::new(&raw).and_then(|kernels| Ok((kernels, timeline(&raw)?, timeline(&raw)?)));
        let (kernels, timeline, bind_timeline) = match made {
            Ok(made) => made,
            Err(error) => {
                // SAFETY: nothing of the device is in use. What the failed call has made goes with the process.
                unsafe { raw.destroy_device(None) };
                return Err(error);
            }
        };
        let queue = |family| {
            // SAFETY: the device was made with one queue of the family.
            unsafe { raw.get_device_queue(family, 0) }
        };
        let queues = Queues::new(queue(family), queue(report.bind_family.unwrap_or(family)));
        Ok(Arc::new(Self {
            raw,
            instance: instance.raw.clone(),
            physical,
            kernels: Some(kernels),
            report,
            families: vec![family],
            timeline,
            bind_timeline,
            semaphores: Mutex::default(),
            queues,
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
        // An instance of an older version has no such call for its devices.
        // SAFETY: the device is the instance's.
        let call = unsafe { instance.get_device_proc_addr(device.handle(), c"vkGetSemaphoreCounterValue".as_ptr()) };
        if call.is_none() {
            return Err(VulkanError::Lacks { device: report.name, feature: Feature::Vulkan12 });
        }
        let report = DeviceReport { queue_family: Some(queue_family), bind_family: None, ..report };
        families.push(queue_family);
        families.sort_unstable();
        families.dedup();
        // The call is there where the instance has VK_EXT_debug_utils.
        // SAFETY: the device is the instance's.
        let call = unsafe { instance.get_device_proc_addr(device.handle(), c"vkSetDebugUtilsObjectNameEXT".as_ptr()) };
        let names = call.is_some().then(|| ext::debug_utils::Device::new(&instance, &device));
        let (timeline, bind_timeline) = (timeline(&device)?, timeline(&device)?);
        Ok(Arc::new(Self {
            raw: device,
            instance,
            physical: physical_device,
            kernels: None,
            report,
            families,
            timeline,
            bind_timeline,
            semaphores: Mutex::default(),
            queues: Queues::new(queue, queue),
            names,
            owned: None,
        }))
    }

    /// The queue families that use the buffers.
    pub(crate) fn families(&self) -> &[u32] {
        &self.families
    }

    /// The queue, which nobody else uses meanwhile.
    pub(crate) fn with_queue<T>(&self, use_it: impl FnOnce(vk::Queue) -> T) -> T {
        use_it(self.queues().commands)
    }

    /// The description of the device.
    pub fn report(&self) -> &DeviceReport {
        &self.report
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits `batch`, which waits for all commands that were submitted before. Returns when it has ended, whatever
    /// becomes of bindings. Its commands and semaphores are kept until then.
    pub(crate) fn submit(&self, batch: Batch<'_>) -> Result<Mark, VulkanError> {
        let mut queues = self.queues();
        let Mark { commands, bindings } = queues.submitted;
        let awaited = if batch.uses_addresses { bindings } else { queues.awaited_bindings };
        let bound = (awaited > queues.awaited_bindings).then(|| self.bind_point(awaited));
        let waits = batch.waits.iter().chain(&queues.waits).copied().chain([self.point(commands)]).chain(bound);
        let signals = batch.signals.iter().copied().chain([self.point(commands + 1)]);
        self.submit_on(queues.commands, batch.commands, waits, signals)?;
        queues.waits.clear();
        queues.awaited_bindings = awaited;
        queues.submitted.commands += 1;
        Ok(Mark { bindings: 0, ..queues.submitted })
    }

    fn submit_on(
        &self,
        queue: vk::Queue,
        commands: &[vk::CommandBuffer],
        waits: impl IntoIterator<Item = Point>,
        signals: impl IntoIterator<Item = Point>,
    ) -> Result<(), VulkanError> {
        let (waits, wait_values) = parts(waits);
        let (signals, signal_values) = parts(signals);
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
        let mut values = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&signal_values);
        let info = vk::SubmitInfo::default()
            .wait_semaphores(&waits)
            .wait_dst_stage_mask(&stages)
            .command_buffers(commands)
            .signal_semaphores(&signals)
            .push_next(&mut values);
        // SAFETY: the caller's guard is the one access to the queue; the commands are recorded; they and the semaphores are kept.
        let submitted = unsafe { self.raw.queue_submit(queue, &[info], vk::Fence::null()) };
        submitted.map_err(VulkanError::of("vkQueueSubmit"))
    }

    /// The next commands wait for `point`, which is reached: what another queue wrote before it is visible from then on.
    pub(crate) fn see(&self, point: Point) {
        let waits = &mut self.queues().waits;
        waits.retain(|earlier| earlier.semaphore != point.semaphore);
        waits.push(point);
    }

    /// All that was submitted so far.
    pub(crate) fn submitted(&self) -> Mark {
        self.queues().submitted
    }

    /// The point at which the timeline of commands has reached `value`.
    fn point(&self, value: u64) -> Point {
        Point { semaphore: self.timeline, value }
    }

    /// The point at which the timeline of bindings has reached `value`.
    fn bind_point(&self, value: u64) -> Point {
        Point { semaphore: self.bind_timeline, value }
    }

    /// The points at which all of a mark has ended.
    pub(crate) fn points(&self, mark: Mark) -> [Point; 2] {
        [self.point(mark.commands), self.bind_point(mark.bindings)]
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

    /// Lets the queue of the bindings reach `point`, after all that was submitted before; later copies do not wait for that. A signal by the
    /// host would be there earlier where a queue is busy, and would order no memory.
    pub(crate) fn signal(&self, point: Point) -> Result<(), VulkanError> {
        let mut queues = self.queues();
        let waits = self.points(queues.submitted);
        let signals = [point, self.bind_point(queues.submitted.bindings + 1)];
        self.submit_on(queues.bindings, &[], waits, signals)?;
        queues.submitted.bindings += 1;
        Ok(())
    }

    /// Waits until all of `points` are reached, for `nanoseconds` at most; whether they were.
    pub(crate) fn wait_points(&self, points: &[Point], nanoseconds: u64) -> Result<bool, VulkanError> {
        let (semaphores, values) = parts(points.iter().copied());
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the caller's semaphores are this device's.
        match unsafe { self.raw.wait_semaphores(&info, nanoseconds) } {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(result) => Err(VulkanError::Call { call: "vkWaitSemaphores", result }),
        }
    }

    /// Binds memory to sparse resources. Commands that use addresses of processes, and are submitted later, wait for that.
    pub(crate) fn bind_sparse(&self, binds: vk::BindSparseInfo<'_>, order: BindOrder) -> Result<(), VulkanError> {
        let mut queues = self.queues();
        let Mark { commands, bindings } = queues.submitted;
        let last = (order == BindOrder::Last).then(|| self.point(commands));
        let (waits, wait_values) = parts([self.bind_point(bindings)].into_iter().chain(last));
        let (signals, signal_values) = parts([self.bind_point(bindings + 1)]);
        let mut values = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&signal_values);
        let info = binds.wait_semaphores(&waits).signal_semaphores(&signals).push_next(&mut values);
        // SAFETY: the guard is the one access to the queue; resources and memory live until the point is reached.
        let bound = unsafe { self.raw.queue_bind_sparse(queues.bindings, &[info], vk::Fence::null()) };
        bound.map_err(VulkanError::of("vkQueueBindSparse"))?;
        queues.submitted.bindings += 1;
        Ok(())
    }

    /// Whether all of a mark has ended.
    pub(crate) fn has_reached(&self, mark: Mark) -> Result<bool, VulkanError> {
        for Point { semaphore, value } in self.points(mark) {
            // SAFETY: the semaphore is this device's.
            let reached = unsafe { self.raw.get_semaphore_counter_value(semaphore) };
            if reached.map_err(VulkanError::of("vkGetSemaphoreCounterValue"))? < value {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until all of a mark has ended.
    pub(crate) fn wait(&self, mark: Mark) -> Result<(), VulkanError> {
        match self.wait_points(&self.points(mark), PATIENCE_SECONDS * 1_000_000_000)? {
            true => Ok(()),
            false => Err(VulkanError::TimedOut { seconds: PATIENCE_SECONDS }),
        }
    }

    /// Waits for all that was submitted. Whatever is destroyed is destroyed after that; a device that is lost runs nothing.
    pub(crate) fn settle(&self) {
        let _ = self.wait(self.submitted());
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

impl Queues {
    fn new(commands: vk::Queue, bindings: vk::Queue) -> Mutex<Self> {
        let (submitted, waits) = (Mark::default(), Vec::new());
        Mutex::new(Self { commands, bindings, submitted, awaited_bindings: 0, waits })
    }
}

/// The semaphores of points, and their values.
fn parts(points: impl IntoIterator<Item = Point>) -> (Vec<vk::Semaphore>, Vec<u64>) {
    let (mut semaphores, mut values) = (Vec::with_capacity(4), Vec::with_capacity(4));
    for Point { semaphore, value } in points {
        semaphores.push(semaphore);
        values.push(value);
    }
    (semaphores, values)
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
        let queues = self.queues();
        for queue in [queues.commands, queues.bindings] {
            // SAFETY: the queue is this device's, and the guard the one access to it.
            let _ = unsafe { self.raw.queue_wait_idle(queue) };
        }
        drop(queues);
        // SAFETY: the last of those who share the device drops it, so all their objects are gone. Semaphores are destroyed only
        // once the queues are idle: lavapipe still touches them after a wait has returned.
        unsafe {
            for semaphore in semaphores.into_iter().chain([self.timeline, self.bind_timeline]) {
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
