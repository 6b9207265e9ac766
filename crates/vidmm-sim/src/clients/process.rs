//! A process that runs its kernels of a workload and leaves residency to a model.

use vidmm::contract::EngineKind;
use vidmm::{
    AllocationId, ContextId, DestroyError, DestroyFlags, DeviceId, FenceValueDesc, MapGpuVirtualAddress,
    MemorySegmentGroup, MonitoredFenceId, PAGE_SIZE, PagingQueueId, ProcessId, SubmitDesc,
};
use vidmm_runtime::{AllocationDesc, AllocationSegments, Content, Happening, KernelCommand, PageRange, Runtime};
use vidmm_trace::{Cost, Workload};

use super::{
    kind::ClientKind,
    model::{ClientModel, ModelDevice, ModelError, Prepared, Use},
};
use crate::client::ClientError;

/// Every so many buffers one is made for a passing purpose.
const TEMPORARY_EVERY: u32 = 8;

/// How a process behaves.
#[derive(Clone, Copy, Debug)]
pub struct ModelProcessDesc {
    /// Which client it is.
    pub kind: ClientKind,
    /// Which process of the workload it is.
    pub number: u32,
    /// Kernels that it submits ahead of the one that runs.
    pub ahead: u64,
    /// What fills the pages that kernels write.
    pub content: Content,
}

/// A process at work.
pub struct ModelProcess<'w> {
    workload: &'w Workload,
    desc: ModelProcessDesc,
    model: Box<dyn ClientModel>,
    process: ProcessId,
    device: DeviceId,
    queue: PagingQueueId,
    context: ContextId,
    fence: MonitoredFenceId,
    /// Its kernels, by their numbers in the workload.
    kernels: Vec<u32>,
    /// Its buffers, in the order of their numbers.
    buffers: Vec<(u32, Use, PageRange)>,
    submitted: u64,
    completed: u64,
    /// The fence value that its next submission waits for.
    waits_for: u64,
}

impl<'w> ModelProcess<'w> {
    /// A process with a device, a paging queue, a context, and all its buffers. `engines` are the adapter's.
    ///
    /// # Errors
    ///
    /// If the machine has no engine for kernels, or the manager refuses what a client may do.
    pub fn new(
        runtime: &mut Runtime,
        engines: &[EngineKind],
        workload: &'w Workload,
        desc: ModelProcessDesc,
    ) -> Result<Self, ClientError> {
        let create = |error: vidmm::CreateError| refused(0, "create", error);
        let engine = engines.iter().position(|&engine| engine == EngineKind::Render3d);
        let engine = engine.ok_or(ClientError::NoEngine(EngineKind::Render3d))?;
        let (vidmm, kmd, host) = runtime.borrow();
        let process = vidmm.create_process(kmd, host).map_err(create)?;
        let device = vidmm.create_device(process).map_err(create)?;
        let queue = vidmm.create_paging_queue(device, 0).map_err(create)?;
        let context = vidmm.create_context(kmd, device, engine as u32).map_err(create)?;
        let fence = vidmm.create_monitored_fence(0);
        let model = desc.kind.model();
        if model.wants_trim_notifications() {
            vidmm.register_trim_notification(device).map_err(create)?;
        }
        let own = |&kernel: &u32| workload.kernels[kernel as usize].process == desc.number;
        let kernels: Vec<u32> = (0..workload.kernels.len() as u32).filter(own).collect();
        let (submitted, completed, waits_for, buffers) = (0, 0, 0, Vec::new());
        let mut process = Self {
            workload,
            desc,
            model,
            process,
            device,
            queue,
            context,
            fence,
            kernels,
            buffers,
            submitted,
            completed,
            waits_for,
        };
        process.create_buffers(runtime)?;
        Ok(process)
    }

    /// Whether all its kernels have ended.
    pub fn is_done(&self) -> bool {
        self.completed == self.kernels.len() as u64
    }

    /// Kernels that have ended.
    pub fn ended(&self) -> u64 {
        self.completed
    }

    /// The process, as the manager calls it.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// The allocation of a buffer, if it is the process's.
    pub fn allocation_of(&self, buffer: u32) -> Option<AllocationId> {
        Some(self.buffer(buffer)?.1.allocation)
    }

    /// The allocation that the process has mapped at an address, and which page of it is there.
    pub fn mapping_at(&self, virtual_address: u64) -> Option<(AllocationId, u64)> {
        self.buffers.iter().find_map(|(_, what, range)| {
            let page = virtual_address.checked_sub(range.virtual_address.0)? / PAGE_SIZE;
            (page < range.num_pages).then_some((what.allocation, page))
        })
    }

    /// Submits what may be submitted now.
    ///
    /// # Errors
    ///
    /// If the client cannot go on.
    pub fn submit(&mut self, runtime: &mut Runtime) -> Result<(), ClientError> {
        while self.completed >= self.waits_for && self.submitted - self.completed <= self.desc.ahead {
            let Some(&kernel) = self.kernels.get(self.submitted as usize) else { break };
            let named = self.workload.kernels[kernel as usize].buffers();
            let uses: Vec<Use> = named.iter().map(|&buffer| self.own(buffer).1).collect();
            match self.with_model(runtime, |model, device| model.prepare(device, &uses))? {
                Prepared::Ready => self.submit_kernel(runtime, kernel)?,
                Prepared::WaitsFor(value) => self.waits_for = value,
            }
        }
        Ok(())
    }

    /// Something happened that may concern the process.
    ///
    /// # Errors
    ///
    /// If the client cannot go on.
    pub fn hear(&mut self, runtime: &mut Runtime, happening: &Happening) -> Result<(), ClientError> {
        match *happening {
            Happening::MonitoredFenceSignaled { fence, value } if fence == self.fence => {
                // A device in error signals the maximum.
                self.completed = value.min(self.submitted);
                self.with_model(runtime, |model, device| model.fence_reached(device))
            }
            Happening::TrimNotification { device, flags, num_bytes_to_trim, .. } if device == self.device => {
                self.with_model(runtime, |model, device| model.trim(device, flags, num_bytes_to_trim))
            }
            _ => Ok(()),
        }
    }

    /// Destroys all that the process has, so that the end of a run shows whether anything leaks.
    ///
    /// # Errors
    ///
    /// If something is still in use when everything is over.
    pub fn close(self, runtime: &mut Runtime) -> Result<(), ClientError> {
        for (_, what, _) in &self.buffers {
            let destroyed = runtime.vidmm().destroy_allocation(what.allocation, DestroyFlags::empty());
            destroyed.map_err(|error| refused(self.completed, "DestroyAllocation2", error))?;
        }
        while !runtime.vidmm().is_idle() && runtime.advance(None) {}
        self.destroy(runtime).map_err(|error| refused(self.completed, "destroy", error))
    }

    fn destroy(&self, runtime: &mut Runtime) -> Result<(), DestroyError> {
        let (vidmm, kmd, host) = runtime.borrow();
        vidmm.destroy_context(kmd, self.context)?;
        vidmm.destroy_monitored_fence(self.fence)?;
        vidmm.destroy_paging_queue(self.queue)?;
        vidmm.destroy_device(self.device)?;
        vidmm.destroy_process(kmd, host, self.process)
    }

    fn create_buffers(&mut self, runtime: &mut Runtime) -> Result<(), ClientError> {
        let own = self.kernels.iter().flat_map(|&kernel| self.workload.kernels[kernel as usize].buffers());
        let mut own: Vec<u32> = own.collect();
        own.sort_unstable();
        own.dedup();
        for buffer in own {
            let (what, range) = self.create_buffer(runtime, buffer)?;
            self.buffers.push((buffer, what, range));
            self.with_model(runtime, |model, device| model.created(device, &what))?;
        }
        Ok(())
    }

    fn create_buffer(&self, runtime: &mut Runtime, buffer: u32) -> Result<(Use, PageRange), ClientError> {
        let bytes = self.workload.buffers[buffer as usize].bytes;
        let segments = self.desc.kind.segments(buffer);
        let desc = AllocationDesc { segments, ..AllocationDesc::local(bytes) };
        let private_data = runtime.umd().allocation_private_data(&desc);
        let (vidmm, kmd, host) = runtime.borrow();
        let created = vidmm.create_allocation(kmd, host, self.device, &private_data);
        let allocation = created.map_err(|error| refused(0, "CreateAllocation2", error))?;
        let mapped = vidmm.map_gpu_virtual_address(host, self.queue, &MapGpuVirtualAddress::whole(allocation));
        let mapped = mapped.map_err(|error| refused(0, "MapGpuVirtualAddress", error))?;
        let group = match segments {
            AllocationSegments::System => MemorySegmentGroup::NonLocal,
            AllocationSegments::Local | AllocationSegments::LocalOrSystem => MemorySegmentGroup::Local,
        };
        let is_temporary = buffer.is_multiple_of(TEMPORARY_EVERY);
        let what = Use { allocation, bytes, group, is_temporary };
        Ok((what, PageRange::plain(mapped.virtual_address, bytes.div_ceil(PAGE_SIZE))))
    }

    fn submit_kernel(&mut self, runtime: &mut Runtime, kernel: u32) -> Result<(), ClientError> {
        let work = &self.workload.kernels[kernel as usize];
        let range = |&buffer: &u32| self.own(buffer).2;
        let Cost::Nanoseconds(nanoseconds) = work.cost else { unreachable!("the models upload nothing") };
        let command = KernelCommand {
            kernel: kernel.into(),
            nanoseconds,
            content: self.desc.content,
            inputs: work.reads.iter().map(range).collect(),
            outputs: work.writes.iter().map(range).collect(),
        };
        let signals = vec![FenceValueDesc { fence: self.fence, value: self.submitted + 1 }];
        let desc = SubmitDesc { dma_buffer: runtime.umd().encode_kernel(&command), signals, ..SubmitDesc::default() };
        let submitted = runtime.vidmm().submit(self.context, desc);
        submitted.map_err(|error| refused(self.submitted, "submit", error))?;
        self.submitted += 1;
        Ok(())
    }

    fn with_model<T>(
        &mut self,
        runtime: &mut Runtime,
        act: impl FnOnce(&mut dyn ClientModel, &mut ModelDevice<'_>) -> Result<T, ModelError>,
    ) -> Result<T, ClientError> {
        let now = runtime.now();
        let mut device = ModelDevice {
            vidmm: runtime.vidmm(),
            process: self.process,
            device: self.device,
            queue: self.queue,
            now,
            completed: self.completed,
            submitted: self.submitted,
        };
        act(&mut *self.model, &mut device).map_err(|error| refused(self.submitted, "residency", error))
    }

    fn own(&self, buffer: u32) -> &(u32, Use, PageRange) {
        self.buffer(buffer).expect("a process uses its own buffers")
    }

    fn buffer(&self, buffer: u32) -> Option<&(u32, Use, PageRange)> {
        let at = self.buffers.binary_search_by_key(&buffer, |&(buffer, ..)| buffer).ok()?;
        Some(&self.buffers[at])
    }
}

fn refused(kernel: u64, call: &'static str, reason: impl std::fmt::Display) -> ClientError {
    ClientError::Refused { kernel: kernel as usize, call, reason: reason.to_string() }
}
