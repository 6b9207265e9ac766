//! Making the calls of steps.

use vidmm::{
    CreateError, DestroyFlags, EvictFlags, FenceValueDesc, MakeResidentFlags, MapGpuVirtualAddress, PAGE_SIZE,
    Residency, SubmitDesc,
};
use vidmm_runtime::{AllocationDesc, AllocationSegments, KernelCommand, PageRange, Surface};

use super::ledger::{Part, Work};
use super::objects::{Allocation, Device, EngineQueue, KernelState, Mapping};
use super::session::Session;
use crate::prediction::Content;
use crate::scenario::{
    Answer, CreateAllocation, CreateDevice, DEFAULT_DEVICE, DEFAULT_PROCESS, EvictFlag, Kernel, KernelEngine,
    MapAllocation, Notification,
};

/// What a call answered, and why it was refused.
pub(super) struct Answered {
    pub answer: Answer,
    pub detail: String,
}

/// Something that a step names was never made, because the call that was to make it was refused.
pub(super) struct Absent(pub String);

impl Answered {
    pub fn ok() -> Self {
        Self { answer: Answer::Ok, detail: String::new() }
    }

    fn pending(paging_fence_value: u64) -> Self {
        match paging_fence_value {
            0 => Self::ok(),
            value => Self { answer: Answer::Pending, detail: format!("paging fence value {value}") },
        }
    }

    fn refused<E: std::fmt::Display>(error: &E) -> Self
    where
        for<'e> Answer: From<&'e E>,
    {
        Self { answer: Answer::from(error), detail: error.to_string() }
    }
}

impl Session<'_> {
    pub fn create_process(&mut self, name: &str) -> Answered {
        let (vidmm, kmd, host) = self.runtime.borrow();
        match vidmm.create_process(kmd, host) {
            Ok(process) => {
                self.objects.processes.insert(name.to_owned(), process);
                self.narrator.names.processes.insert(process, name.to_owned());
                Answered::ok()
            }
            Err(error) => Answered::refused(&error),
        }
    }

    pub fn create_device(&mut self, create: &CreateDevice) -> Result<Answered, Absent> {
        let process = create.process.as_deref().unwrap_or(DEFAULT_PROCESS);
        if process == DEFAULT_PROCESS && !self.objects.processes.contains_key(process) {
            let created = self.create_process(process);
            if !created.answer.is_done() {
                return Ok(created);
            }
        }
        let process = *self.objects.processes.get(process).ok_or_else(|| Absent(process.to_owned()))?;
        let made = self.make_device(process, create.priority);
        Ok(match made {
            Ok(device) => {
                self.narrator.names.devices.insert(device.device, create.device.clone());
                self.objects.devices.insert(create.device.clone(), device);
                Answered::ok()
            }
            Err(error) => Answered::refused(&error),
        })
    }

    fn make_device(&mut self, process: vidmm::ProcessId, priority: i32) -> Result<Device, CreateError> {
        let engines = self.engines;
        let (vidmm, kmd, _) = self.runtime.borrow();
        let device = vidmm.create_device(process)?;
        let queue = vidmm.create_paging_queue(device, priority)?;
        let mut engine = |ordinal| {
            let context = vidmm.create_context(kmd, device, ordinal)?;
            Ok::<_, CreateError>(EngineQueue { context, fence: vidmm.create_monitored_fence(0), submitted: 0 })
        };
        let engines = [engine(engines[0])?, engine(engines[1])?];
        Ok(Device { process, device, queue, engines })
    }

    /// The device of that name, which is made if it is the default.
    fn device(&mut self, name: &str) -> Result<(), Absent> {
        if name == DEFAULT_DEVICE && !self.objects.devices.contains_key(name) {
            let device = CreateDevice { device: name.to_owned(), process: None, priority: 0 };
            self.create_device(&device)?;
        }
        if self.objects.devices.contains_key(name) { Ok(()) } else { Err(Absent(name.to_owned())) }
    }

    pub fn create_fence(&mut self, name: &str) -> Answered {
        let fence = self.runtime.vidmm().create_monitored_fence(0);
        self.narrator.names.fences.insert(fence, name.to_owned());
        self.objects.fences.insert(name.to_owned(), fence);
        Answered::ok()
    }

    pub fn signal(&mut self, name: &str) -> Answered {
        match self.runtime.vidmm().signal_monitored_fence(self.objects.fences[name], 1) {
            Ok(()) => Answered::ok(),
            Err(error) => Answered::refused(&error),
        }
    }

    /// Creates allocations, up to the first that is refused.
    pub fn create_allocations(
        &mut self,
        create: &CreateAllocation,
        default: AllocationSegments,
    ) -> Result<Answered, Absent> {
        let device_name = create.device.as_deref().unwrap_or(DEFAULT_DEVICE);
        self.device(device_name)?;
        let device = self.objects.devices[device_name].device;
        for name in create.names() {
            // A surface of its own: names are never used twice.
            let surface = create.compression.then_some(self.objects.allocations.len() as u32);
            let desc = AllocationDesc {
                size: create.size.bytes(),
                segments: create.segments.unwrap_or(default),
                accessed_physically: create.accessed_physically,
                surface,
                notify_eviction: create.notify.contains(&Notification::Eviction),
                notify_io_mmu_unmap: create.notify.contains(&Notification::IoMmuUnmap),
            };
            let private_data = self.runtime.umd().allocation_private_data(&desc);
            let (vidmm, kmd, host) = self.runtime.borrow();
            let id = match vidmm.create_allocation(kmd, host, device, &private_data) {
                Ok(id) => id,
                Err(error) => return Ok(Answered::refused(&error)),
            };
            let pages = desc.size.div_ceil(PAGE_SIZE);
            self.ledger.create(&name, pages);
            self.narrator.names.allocations.insert(id, name.clone());
            let allocation = Allocation { id, device: device_name.to_owned(), pages, surface };
            self.objects.allocations.insert(name, allocation);
        }
        Ok(Answered::ok())
    }

    /// Maps each of the allocations, up to the first that is refused.
    pub fn map(&mut self, map: &MapAllocation) -> Result<Answered, Absent> {
        let mut answered = Answered::ok();
        for name in &map.allocations {
            let allocation = self.allocation(name)?;
            let Allocation { id, device, pages, .. } = allocation;
            let (id, device, pages) = (*id, device.clone(), *pages);
            let Device { process, queue, .. } = self.objects.devices[&device];
            let (offset, size) = (map.offset.bytes(), map.size.bytes());
            let desc = MapGpuVirtualAddress { offset, size, write: !map.read_only, ..MapGpuVirtualAddress::whole(id) };
            let (vidmm, _, host) = self.runtime.borrow();
            let mapped = match vidmm.map_gpu_virtual_address(host, queue, &desc) {
                Ok(mapped) => mapped,
                Err(error) => return Ok(Answered::refused(&error)),
            };
            let virtual_address = mapped.virtual_address;
            // The allocation is rounded up: what is mapped behind its last page is no kernel's.
            let first_page = (offset / PAGE_SIZE).min(pages);
            let rest = pages - first_page;
            let part_pages = if size == 0 { rest } else { rest.min(size / PAGE_SIZE) };
            let part = Part { allocation: name.clone(), first_page, pages: part_pages };
            let mapping = Mapping { process, device, virtual_address, size, part };
            let mapping_name = map.name.clone().unwrap_or_else(|| name.clone());
            self.objects.mappings.insert(mapping_name, mapping);
            answered = Answered::pending(mapped.paging_fence_value);
        }
        Ok(answered)
    }

    pub fn free_va(&mut self, name: &str) -> Result<Answered, Absent> {
        // The size of a whole mapping is the manager's to say, in the event of the mapping.
        self.settle();
        let Mapping { process, virtual_address, size, .. } =
            *self.objects.mappings.get(name).ok_or_else(|| Absent(name.to_owned()))?;
        let size = self.narrator.names.mapped.get(&(process, virtual_address)).copied().unwrap_or(size);
        let freed = self.runtime.vidmm().free_gpu_virtual_address(process, virtual_address, size);
        Ok(freed.map_or_else(|error| Answered::refused(&error), |_| Answered::ok()))
    }

    pub fn make_resident(&mut self, names: &[String]) -> Result<Answered, Absent> {
        let allocations = self.allocations(names)?;
        let Some(first) = names.first() else { return Ok(Answered { answer: Answer::Empty, detail: String::new() }) };
        let queue = self.objects.devices[&self.allocation(first)?.device].queue;
        Ok(match self.runtime.vidmm().make_resident(queue, &allocations, MakeResidentFlags::empty()) {
            Ok(Residency::Resident) => Answered::ok(),
            Ok(Residency::Pending { paging_fence_value }) => Answered::pending(paging_fence_value),
            Err(error) => Answered::refused(&error),
        })
    }

    pub fn evict(&mut self, names: &[String], flags: &[EvictFlag]) -> Result<Answered, Absent> {
        let allocations = self.allocations(names)?;
        let Some(first) = names.first() else { return Ok(Answered { answer: Answer::Empty, detail: String::new() }) };
        let device = self.objects.devices[&self.allocation(first)?.device].device;
        let flags = flags.iter().map(|flag| match flag {
            EvictFlag::OnlyIfNecessary => EvictFlags::EVICT_ONLY_IF_NECESSARY,
            EvictFlag::NotWrittenTo => EvictFlags::NOT_WRITTEN_TO,
        });
        let evicted = self.runtime.vidmm().evict(device, &allocations, flags.collect());
        Ok(evicted.map_or_else(|error| Answered::refused(&error), |_| Answered::ok()))
    }

    pub fn destroy_allocations(&mut self, names: &[String]) -> Result<Answered, Absent> {
        for allocation in self.allocations(names)? {
            if let Err(error) = self.runtime.vidmm().destroy_allocation(allocation, DestroyFlags::empty()) {
                return Ok(Answered::refused(&error));
            }
        }
        Ok(Answered::ok())
    }

    /// Submits a kernel that reads mappings, to see what is there.
    pub fn read_content(&mut self, mappings: &[String], expect: Option<Answer>) -> Result<Answered, Absent> {
        let reader = Kernel {
            name: format!("check {}", self.objects.kernels.len() + 1),
            reads: mappings.to_owned(),
            writes: Vec::new(),
            content: Content::Ramp,
            nanoseconds: 1000,
            engine: KernelEngine::Render,
            after: Vec::new(),
            device: None,
        };
        self.submit(&reader, expect)
    }

    pub fn submit(&mut self, kernel: &Kernel, expect: Option<Answer>) -> Result<Answered, Absent> {
        let ranges = |names: &[String]| names.iter().map(|name| self.range(name)).collect::<Result<Vec<_>, _>>();
        let (inputs, reads) = ranges(&kernel.reads)?.into_iter().unzip();
        let (outputs, writes) = ranges(&kernel.writes)?.into_iter().unzip();
        let number = self.objects.kernels.len() as u64 + 1;
        let work = Work { number, content: kernel.content, reads, writes };
        let used = kernel.reads.iter().chain(&kernel.writes).next();
        let device_of = |mapping: &String| self.objects.mappings[mapping].device.clone();
        let device_name = kernel.device.clone().or_else(|| used.map(device_of)).unwrap_or(DEFAULT_DEVICE.to_owned());
        self.device(&device_name)?;
        let waits = kernel.after.iter().map(|name| self.wait_for(name)).collect::<Result<Vec<_>, _>>()?;
        let command = KernelCommand {
            kernel: number,
            nanoseconds: kernel.nanoseconds,
            content: kernel.content.of_kernels(),
            inputs,
            outputs,
        };
        let dma_buffer = self.runtime.umd().encode_kernel(&command);
        let device = self.objects.devices.get_mut(&device_name).expect("it is there, or made");
        let queue = &mut device.engines[kernel.engine as usize];
        let (fence, value) = (queue.fence, queue.submitted + 1);
        let desc = SubmitDesc { dma_buffer, waits, signals: vec![FenceValueDesc { fence, value }] };
        let submission = match self.runtime.vidmm().submit(queue.context, desc) {
            Ok(submission) => submission,
            Err(error) => return Ok(Answered::refused(&error)),
        };
        queue.submitted = value;
        let device = device.device;
        self.narrator.names.kernels.insert((device, submission), kernel.name.clone());
        self.objects.kernels.push(KernelState {
            name: kernel.name.clone(),
            work,
            device,
            fence,
            value,
            fault_is_expected: expect == Some(Answer::PageFault),
            faulted: false,
            ended: false,
        });
        Ok(Answered::ok())
    }

    /// What a kernel reads or writes of a mapping, and which pages of which allocation these are.
    fn range(&self, name: &str) -> Result<(PageRange, Part), Absent> {
        let mapping = self.objects.mappings.get(name).ok_or_else(|| Absent(name.to_owned()))?;
        let Part { first_page, pages, .. } = mapping.part;
        let surface = self.allocation(&mapping.part.allocation)?.surface;
        let surface = surface.map(|number| Surface { number, first_page });
        let range = PageRange { virtual_address: mapping.virtual_address, num_pages: pages, surface };
        Ok((range, mapping.part.clone()))
    }

    fn wait_for(&self, name: &str) -> Result<FenceValueDesc, Absent> {
        if let Some(&fence) = self.objects.fences.get(name) {
            return Ok(FenceValueDesc { fence, value: 1 });
        }
        let kernel = self.objects.kernel(name).ok_or_else(|| Absent(name.to_owned()))?;
        Ok(FenceValueDesc { fence: kernel.fence, value: kernel.value })
    }

    pub fn allocation(&self, name: &str) -> Result<&Allocation, Absent> {
        self.objects.allocations.get(name).ok_or_else(|| Absent(name.to_owned()))
    }

    fn allocations(&self, names: &[String]) -> Result<Vec<vidmm::AllocationId>, Absent> {
        names.iter().map(|name| Ok(self.allocation(name)?.id)).collect()
    }

    /// Destroys all that is left, so that the end shows whether anything leaks. Returns what was refused.
    pub fn close(&mut self) -> Vec<String> {
        for allocation in self.objects.allocations.values() {
            // Some were destroyed by steps.
            let _ = self.runtime.vidmm().destroy_allocation(allocation.id, DestroyFlags::empty());
        }
        for &fence in self.objects.fences.values() {
            let _ = self.runtime.vidmm().signal_monitored_fence(fence, 1);
        }
        if !self.run_until_idle() {
            return vec!["something never ends".to_owned()];
        }
        let (vidmm, kmd, host) = self.runtime.borrow();
        let mut refused = Vec::new();
        let mut note = |what: &str, result: Result<(), vidmm::DestroyError>| {
            refused.extend(result.err().map(|error| format!("{what}: {error}")));
        };
        for (name, device) in &self.objects.devices {
            for engine in &device.engines {
                note(name, vidmm.destroy_context(kmd, engine.context));
                note(name, vidmm.destroy_monitored_fence(engine.fence));
            }
            note(name, vidmm.destroy_paging_queue(device.queue));
            note(name, vidmm.destroy_device(device.device));
        }
        for (name, &process) in &self.objects.processes {
            note(name, vidmm.destroy_process(kmd, host, process));
        }
        for (name, &fence) in &self.objects.fences {
            note(name, vidmm.destroy_monitored_fence(fence));
        }
        refused
    }
}
