//! Making calls: what is created, mapped, submitted and destroyed.

use vidmm::contract::{CreateAllocationError, Direction, SegmentBankPreference};
use vidmm::{
    CreateAllocationDesc, CreateAllocationFlags, CreateDeviceDesc, CreateError, CreateMonitoredFenceDesc, DestroyFlags,
    DeviceResidency, FenceValueDesc, PAGE_SIZE, PhysicalAddress, ProcessId, SubmitDesc,
};
use vidmm_runtime::{AllocationDesc, KernelCommand, PageRange, Placement, Surface};

use super::ledger::{Part, Work};
use super::objects::{Allocation, Device, EngineQueue, KernelState, named};
use super::session::Session;
use crate::scenario::Notification;
use crate::scenario::steps::{
    Answer, Answered, CheckContent, CloseAllocation, CpuAccess, CreateAllocation, CreateDevice, CreateFence,
    CreateProcess, DEFAULT_DEVICE, DEFAULT_PROCESS, DestroyAllocation, DestroyFlag, Kernel, Make, OpenAllocation,
    SetContextPriority, Signal, Undone,
};

/// Backing stores begin at multiples of this many bytes, and are whole ones.
const STORE_UNIT: u64 = 1 << 16;

/// The value of a fence that a step has created, once it is signalled; before that it is 0.
const OPEN: u64 = 1;

/// The bytes of a DMA buffer that no GPU knows as a command.
const ILLEGAL_BYTES: usize = 64;

impl Session<'_> {
    /// The process of that name, which is made if it is the default.
    pub fn process(&mut self, name: &str) -> Result<ProcessId, Undone> {
        if name == DEFAULT_PROCESS && !self.objects.processes.contains_key(name) {
            // That it was refused shows by its absence.
            let _ = CreateProcess { process: name.to_owned() }.make(self);
        }
        self.objects.process(name)
    }

    fn make_device(&mut self, process: ProcessId, create: &CreateDevice) -> Result<Device, CreateError> {
        let (engines, is_physical, is_judged) = (self.engines, self.is_physical, self.rules.is_some());
        let (residency, priority) = (create.residency.map(DeviceResidency::from), create.priority);
        let (vidmm, kmd, host) = self.runtime.borrow();
        let device = vidmm.create_device(CreateDeviceDesc { process, residency })?;
        let has_queue = !is_physical || residency == Some(DeviceResidency::DeviceList);
        let has_second = has_queue && is_judged && create.priority == 1;
        let (mut queue, mut second_queue, mut contexts, mut fences) = (None, None, Vec::new(), Vec::new());
        let mut furnish = || {
            if has_queue {
                queue = Some(vidmm.create_paging_queue(device, priority)?);
            }
            if has_second {
                second_queue = Some(vidmm.create_paging_queue(device, priority - 1)?);
            }
            for ordinal in engines {
                contexts.push(vidmm.create_context(kmd, device, ordinal)?);
                let fence = CreateMonitoredFenceDesc { device: Some(device), initial_fence_value: 0 };
                fences.push(vidmm.create_monitored_fence(fence)?);
            }
            Ok::<_, CreateError>(())
        };
        if let Err(error) = furnish() {
            // A program that is refused a part of a device keeps nothing of it.
            let _ = vidmm.destroy_device(kmd, host, device);
            return Err(error);
        }
        let engine = |at| EngineQueue { context: contexts[at], fence: fences[at], submitted: 0 };
        Ok(Device {
            process,
            device,
            queue,
            priority,
            second_queue,
            engines: [engine(0), engine(1)],
            trim_notifications: Vec::new(),
            self_scheduled: None,
        })
    }

    /// The device of that name, which is made if it is the default.
    pub fn device(&mut self, name: &str) -> Result<(), Undone> {
        if name == DEFAULT_DEVICE && !self.objects.devices.contains_key(name) {
            let device = CreateDevice { device: name.to_owned(), process: None, priority: 0, residency: None };
            if let Err(absent @ Undone::Absent(_)) = device.make(self) {
                return Err(absent);
            }
        }
        self.objects.device(name).map(drop)
    }

    fn create_allocation(
        &mut self,
        name: &str,
        device_name: &str,
        create: &CreateAllocation,
    ) -> Result<(), CreateError> {
        // A surface of its own: names are never used twice.
        let surface = create.compression.then_some(self.objects.allocations.len() as u32);
        let desc = AllocationDesc {
            size: create.size.bytes(),
            segments: create.segments.unwrap_or(self.default_segments),
            accessed_physically: create.accessed_physically,
            explicit_residency_notification: create.explicit_residency_notification,
            surface,
            // No other program would decompress an allocation that leaves system memory.
            notify_eviction: create.notify.contains(&Notification::Eviction)
                || self.rules.is_some() && create.compression,
            notify_io_mmu_unmap: create.notify.contains(&Notification::IoMmuUnmap)
                || self.rules.as_ref().is_some_and(|rules| rules.has_device_cache),
            priority: create.priority.map_or(0, |priority| priority.value()),
            cpu: create.cpu.map_or(vidmm_runtime::CpuAccess::None, |cpu| match cpu {
                CpuAccess::Visible => vidmm_runtime::CpuAccess::Visible,
                CpuAccess::PermanentSysMem => vidmm_runtime::CpuAccess::PermanentSysMem,
                CpuAccess::ExistingSysMem => vidmm_runtime::CpuAccess::ExistingSysMem,
            }),
            cached: create.cached,
            disable_large_page_mapping: create.disable_large_page_mapping,
            placement: placement(create),
        };
        let private_driver_data = self.runtime.umd().allocation_private_data(&desc);
        let device = self.objects.devices[device_name].device;
        let (vidmm, kmd, host) = self.runtime.borrow();
        let existing = match create.cpu {
            Some(CpuAccess::ExistingSysMem) => {
                let size = desc.size.next_multiple_of(STORE_UNIT);
                Some((host.commit_backing_store(size)?, size))
            }
            _ => None,
        };
        let desc = CreateAllocationDesc {
            private_driver_data: &private_driver_data,
            flags: if create.shared { CreateAllocationFlags::CREATE_SHARED } else { CreateAllocationFlags::empty() },
            existing_sys_mem: existing.map(|(address, _): (PhysicalAddress, u64)| address),
        };
        let created = vidmm.create_allocation(kmd, host, device, desc);
        let created = created.inspect_err(|_| {
            if let Some((address, size)) = existing {
                host.decommit_backing_store(address, size);
            }
        });
        let id = created.inspect_err(|error| self.judge_creation(error))?;
        let pages = create.size.bytes().div_ceil(PAGE_SIZE);
        self.ledger.create(name, pages);
        self.narrator.names.allocations.insert(id, name.to_owned());
        let (device, openers) = (device_name.to_owned(), Vec::new());
        let keeps_copy = matches!(create.cpu, Some(CpuAccess::PermanentSysMem | CpuAccess::ExistingSysMem));
        let (written_copy, lock) = (None, None);
        let alignment = create.alignment.map_or(0, |alignment| alignment.bytes());
        let is_one_range = self.is_physical || create.accessed_physically;
        let allocation = Allocation {
            id,
            device,
            openers,
            pages,
            alignment,
            banks: create.banks.clone(),
            bank_direction: placement(create).hinted_bank.directions[0],
            is_one_range,
            surface,
            keeps_copy,
            written_copy,
            lock,
            existing,
        };
        self.objects.allocations.insert(name.to_owned(), allocation);
        Ok(())
    }

    /// Random worlds ask for allocations that a driver can make: nothing but memory may be short.
    fn judge_creation(&mut self, error: &CreateError) {
        let is_driver = match error {
            CreateError::Allocation(error) => *error != CreateAllocationError::NoMemory,
            error => matches!(error, CreateError::Violation(_)),
        };
        let is_expected = matches!(self.expect, Some(Answer::Violation | Answer::Allocation));
        if is_driver && !is_expected && self.rules.as_ref().is_some_and(|rules| !rules.may_misdescribe) {
            self.broke("CRE-03", error.to_string());
        }
    }

    /// Submits a kernel that reads mappings, to see what is there.
    fn read_content(&mut self, mappings: &[String], device: Option<String>) -> Result<Answered, Undone> {
        let name = format!("check {}", self.objects.kernels.len() + 1);
        let reader = Kernel { reads: mappings.to_owned(), device, ..Kernel::new(name) };
        self.submit(&reader)
    }

    /// Submits a kernel.
    fn submit(&mut self, kernel: &Kernel) -> Result<Answered, Undone> {
        let ranges = |names: &[String]| names.iter().map(|name| self.range(name)).collect::<Result<Vec<_>, _>>();
        let (mut inputs, reads): (Vec<_>, _) = ranges(&kernel.reads)?.into_iter().unzip();
        let (outputs, writes) = ranges(&kernel.writes)?.into_iter().unzip();
        let mut zeros = Vec::new();
        for name in &kernel.zeros {
            let hole = self.unmapped_part(name)?;
            zeros.push((name.clone(), hole));
            inputs.push(hole);
        }
        let number = self.objects.kernels.len() as u64 + 1;
        let work = Work { number, content: kernel.content, zeros, reads, writes };
        let used = kernel.reads.iter().chain(&kernel.writes).next();
        let device_of = |mapping: &String| self.objects.mappings[mapping].device.clone();
        let device_name = kernel.device.clone().or_else(|| used.map(device_of)).unwrap_or(DEFAULT_DEVICE.to_owned());
        self.device(&device_name)?;
        let mut waits = kernel.after.iter().map(|name| self.wait_for(name)).collect::<Result<Vec<_>, _>>()?;
        let parts: Vec<&Part> = work.reads.iter().chain(&work.writes).collect();
        let device = &self.objects.devices[&device_name];
        waits.extend(self.waits_for_users(&parts, device.engines[kernel.engine as usize].fence));
        let writes_read_only = kernel.writes.iter().any(|name| self.objects.mappings[name].read_only);
        let written = kernel.writes.iter().map(|name| self.objects.mappings[name].addresses()).collect();
        let is_promised = self.is_covered(device.device, &parts) && !kernel.illegal;
        let (is_covered, must_fault) = (is_promised && !writes_read_only, is_promised && writes_read_only);
        let command = KernelCommand {
            kernel: number,
            nanoseconds: if kernel.hangs { u64::MAX } else { kernel.nanoseconds },
            content: kernel.content.of_kernels(),
            inputs,
            outputs,
        };
        let dma_buffer = match kernel.illegal {
            true => vec![0xFF; ILLEGAL_BYTES],
            false => self.runtime.umd().encode_kernel(&command),
        };
        let allocations = self.objects.ids(&kernel.allocations)?;
        let gate =
            |name: &String| named(&self.objects.fences, name).map(|&fence| FenceValueDesc { fence, value: OPEN });
        let gates = kernel.signals.iter().map(gate).collect::<Result<Vec<_>, _>>()?;
        let device = self.objects.devices.get_mut(&device_name).expect("it is there, or made");
        let queue = &mut device.engines[kernel.engine as usize];
        let (fence, value) = (queue.fence, queue.submitted + 1);
        let signals = [vec![FenceValueDesc { fence, value }], gates].concat();
        let desc = SubmitDesc { dma_buffer, waits, signals, allocations };
        let submission = self.runtime.vidmm().submit(queue.context, desc)?;
        queue.submitted = value;
        let device = device.device;
        self.narrator.names.kernels.insert((device, submission), kernel.name.clone());
        if let Some(rights) = &mut self.rights {
            let used = work.reads.iter().chain(&work.writes).map(|part| self.objects.allocations[&part.allocation].id);
            rights.declare(device, submission, used);
        }
        let index = self.objects.add_kernel(KernelState {
            name: kernel.name.clone(),
            submission: kernel.name.clone(),
            work,
            outputs: written,
            device,
            fence,
            value,
            fault_is_expected: self.expect == Some(Answer::PageFault),
            is_covered,
            must_fault,
            is_illegal: kernel.illegal,
            faulted: false,
            aborted: false,
            begun: false,
            ended: false,
        });
        self.add_user(index);
        Ok(Answered::ok())
    }

    /// The pages of a mapping that a kernel reads or writes, and those of which allocation they are.
    fn range(&self, name: &str) -> Result<(PageRange, Part), Undone> {
        let mapping = named(&self.objects.mappings, name)?;
        let Part { first_page, pages, .. } = mapping.part;
        let surface = self.objects.allocation(&mapping.part.allocation)?.surface;
        let surface = surface.map(|number| Surface { number, first_page });
        let range = PageRange { virtual_address: mapping.virtual_address, num_pages: pages, surface };
        Ok((range, mapping.part.clone()))
    }

    /// Pages of a reservation that were never mapped: as many as follow each other there first, and no more than 4.
    fn unmapped_part(&self, name: &str) -> Result<PageRange, Undone> {
        let reservation = named(&self.objects.reservations, name)?;
        let is_free =
            |page: &u64| !reservation.used.iter().any(|used| used.start < page + PAGE_SIZE && *page < used.end);
        let mut pages = reservation.addresses.clone().step_by(PAGE_SIZE as usize).skip_while(|page| !is_free(page));
        let first = pages.next().ok_or_else(|| Undone::Absent(name.to_owned()))?;
        let num_pages = 1 + pages.take(3).take_while(is_free).count() as u64;
        Ok(PageRange { virtual_address: vidmm::GpuVirtualAddress(first), num_pages, surface: None })
    }

    pub fn wait_for(&self, name: &str) -> Result<FenceValueDesc, Undone> {
        if let Some(&fence) = self.objects.fences.get(name) {
            return Ok(FenceValueDesc { fence, value: OPEN });
        }
        let kernel = self.objects.last_kernel(name).ok_or_else(|| Undone::Absent(name.to_owned()))?;
        let kernel = &self.objects.kernels[kernel];
        Ok(FenceValueDesc { fence: kernel.fence, value: kernel.value })
    }
}

/// Where in a segment an allocation had better be.
fn placement(create: &CreateAllocation) -> Placement {
    let mut hinted_bank = SegmentBankPreference::default();
    hinted_bank.banks[..create.banks.len()].copy_from_slice(&create.banks);
    let direction = create.direction.map(Direction::from).unwrap_or_default();
    hinted_bank.directions = [create.bank_direction.map_or(direction, Direction::from); 4];
    Placement {
        alignment: create.alignment.map_or(0, |alignment| alignment.bytes() as u32),
        from_end_of_segment: false,
        directions: [direction; 5],
        hinted_bank,
        evict_through_aperture: create.evict_through_aperture,
    }
}

impl Make<Session<'_>> for CreateProcess {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let (vidmm, kmd, host) = session.runtime.borrow();
        let process = vidmm.create_process(kmd, host)?;
        session.objects.processes.insert(self.process.clone(), process);
        session.narrator.names.processes.insert(process, self.process.clone());
        Ok(Answered::ok())
    }
}

impl Make<Session<'_>> for CreateDevice {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let process = session.process(self.process.as_deref().unwrap_or(DEFAULT_PROCESS))?;
        let device = session.make_device(process, self)?;
        session.narrator.names.devices.insert(device.device, self.device.clone());
        session.objects.devices.insert(self.device.clone(), device);
        Ok(Answered::ok())
    }
}

/// Creates allocations, up to the first that is refused.
impl Make<Session<'_>> for CreateAllocation {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let device = self.device.as_deref().unwrap_or(DEFAULT_DEVICE);
        session.device(device)?;
        for name in self.names() {
            session.create_allocation(&name, device, self)?;
        }
        Ok(Answered::ok())
    }
}

/// A device opens allocations, up to the first that is refused.
impl Make<Session<'_>> for OpenAllocation {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        session.device(&self.device)?;
        let id = session.objects.devices[&self.device].device;
        for name in &self.allocations {
            let allocation = session.objects.allocation(name)?.id;
            let (vidmm, kmd, _) = session.runtime.borrow();
            vidmm.open_allocation(kmd, id, allocation)?;
            session.objects.allocations.entry(name.clone()).and_modify(|known| known.openers.push(self.device.clone()));
        }
        Ok(Answered::ok())
    }
}

/// A device closes allocations, up to the first that is refused.
impl Make<Session<'_>> for CloseAllocation {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let id = session.objects.device(&self.device)?.device;
        for name in &self.allocations {
            let allocation = session.objects.allocation(name)?.id;
            session.runtime.vidmm().close_allocation(id, allocation)?;
            let known = session.objects.allocations.get_mut(name).expect("it was found");
            known.openers.retain(|opener| *opener != self.device);
        }
        session.forget_lists(&self.allocations, &self.device);
        session.free_mappings(&self.allocations, Some(&self.device));
        Ok(Answered::ok())
    }
}

/// Destroys allocations, up to the first that is refused. Synchronously, it lasts until their memory is free.
impl Make<Session<'_>> for DestroyAllocation {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let mut flags = DestroyFlags::empty();
        flags.set(DestroyFlags::ASSUME_NOT_IN_USE, self.flags.contains(&DestroyFlag::AssumeNotInUse));
        flags.set(DestroyFlags::SYNCHRONOUS_DESTROY, self.flags.contains(&DestroyFlag::Synchronous));
        for allocation in session.objects.ids(&self.allocations)? {
            let (vidmm, _, host) = session.runtime.borrow();
            vidmm.destroy_allocation(host, allocation, flags)?;
            if flags.contains(DestroyFlags::SYNCHRONOUS_DESTROY) {
                session.awaited.insert(allocation);
            }
        }
        self.allocations.iter().for_each(|name| session.locks_ended(name));
        for name in &self.allocations {
            let creator = session.objects.allocation(name)?.device.clone();
            session.forget_lists(std::slice::from_ref(name), &creator);
        }
        session.free_mappings(&self.allocations, None);
        if flags.contains(DestroyFlags::ASSUME_NOT_IN_USE) {
            session.uncover(&self.allocations);
        }
        Ok(Answered::ok())
    }
}

impl Make<Session<'_>> for Signal {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let fence = *named(&session.objects.fences, &self.fence)?;
        let is_judged = session.rules.is_some();
        let vidmm = session.runtime.vidmm();
        if !is_judged {
            return Answered::of(vidmm.signal_monitored_fence(fence, OPEN));
        }
        // A value below the fence's is ignored; one above that which work waits for lets it go, too.
        let before = vidmm.monitored_fence_value(fence)?;
        let value = 1 + u64::from(self.fence.len().is_multiple_of(2));
        vidmm.signal_monitored_fence(fence, value)?;
        vidmm.signal_monitored_fence(fence, value - 1)?;
        let after = vidmm.monitored_fence_value(fence)?;
        if after != before.max(value) {
            session.broke("SYN-02", format!("{fence} was at {before}, was signalled with {value}, and is at {after}"));
        }
        Ok(Answered::ok())
    }
}

impl Make<Session<'_>> for CreateFence {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let created = session.runtime.vidmm().create_monitored_fence(0);
        let fence = created.expect("no handle is named");
        session.narrator.names.fences.insert(fence, self.fence.clone());
        session.objects.fences.insert(self.fence.clone(), fence);
        Ok(Answered::ok())
    }
}

impl Make<Session<'_>> for Kernel {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        if session.rules.is_some() && session.uses_others_addresses(self) {
            return Err(Undone::Races);
        }
        session.submit(self)
    }
}

impl Make<Session<'_>> for SetContextPriority {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        session.device(&self.device)?;
        let context = session.objects.devices[&self.device].engines[self.engine as usize].context;
        Answered::of(session.runtime.vidmm().set_context_scheduling_priority(context, self.priority))
    }
}

impl Make<Session<'_>> for CheckContent {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let answered = match session.is_physical {
            true => session.render_readers(&self.names, self.device.clone()),
            false => session.read_content(&self.names, self.device.clone()),
        }?;
        session.awaited_reader = Some(session.objects.kernels.len() - 1);
        Ok(answered)
    }
}
