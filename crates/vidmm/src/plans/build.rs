//! Building: the head of the stream is encoded by the driver into paging buffers (section 3). Building decides nothing.

use crate::{
    adapter::Adapter,
    addresses::IoMmuRange,
    buggify::Unlikely,
    contract::{
        BuildPagingBuffer, BuildStatus, DmaBuffer, EngineFence, Host, Kmd, KmdContextHandle, NotifyAllocFlags, Packet,
        PagingBuffer, PagingOperation, SubmitCommand, UpdateMode, UpdatePageTable,
    },
    engines::engine::PacketWork,
    event::{
        Event,
        error::{DriverFinding, Violation},
    },
    id::{DeviceIx, PlanNo},
    moment::{Moment, Output, Statistics},
    plans::{BuildEnv, Plans, Step, expand},
    state::State,
    units::{PAGE_SIZE, PhysicalAddress, SegmentId},
};
/// Paging buffers that exist at most: what is beyond waits for one to come back (U-4, D14).
const PAGING_BUFFERS_MAX: usize = 16;

/// How often a driver may ask for another buffer for one operation, beside once for each 4 KiB that it is about (U-10).
const PASSES_MAX: u64 = 64;

/// The outcome of an attempt to build the next operation.
enum Built {
    Operation,
    /// A notification in a window of the paging process: it is submitted before the window goes (NTF-02).
    InWindow,
    /// The buffer is full; its content goes to the GPU.
    Full,
    /// The allocation must be idle first.
    Busy,
    /// The driver broke a rule.
    Violation(Violation),
}

/// The driver's answer, and how many bytes of each kind it says that it has written.
pub(crate) struct Encoded {
    pub status: BuildStatus,
    pub dma_bytes: usize,
    pub private_bytes: usize,
}

/// The driver encodes an operation, or goes on with it at `multipass_offset`, behind what is in the buffer.
pub(crate) fn encode(
    moment: &mut Moment,
    kmd: &mut dyn Kmd,
    buffer: &mut PagingBuffer,
    operation: &PagingOperation,
    multipass_offset: &mut u32,
    allocation_is_idle: bool,
    system_context: KmdContextHandle,
) -> Encoded {
    let dma_buffer_write_offset = buffer.write_offset() as u32;
    let (dma_buffer, dma_buffer_private_data) = buffer.remaining();
    let mut build = BuildPagingBuffer {
        operation,
        dma_buffer,
        dma_buffer_write_offset,
        dma_buffer_private_data,
        dma_bytes_written: 0,
        private_bytes_written: 0,
        multipass_offset,
        allocation_is_idle,
        system_context,
    };
    let status = kmd.build_paging_buffer(&mut build);
    moment.statistics_mut().build_calls += 1;
    Encoded { status, dma_bytes: build.dma_bytes_written, private_bytes: build.private_bytes_written }
}

impl Plans {
    /// Lets parked plans enter the stream whose waits are over.
    pub(crate) fn enter(&mut self, state: &mut State, host: &mut dyn Host) {
        loop {
            let devices = &state.objects.devices;
            let is_over = |device: DeviceIx, submission| devices[device].retired() >= submission;
            let is_idle = |device: DeviceIx| !devices[device].is_in_flight();
            let Some((plan, io_mmu_map)) = self.stream.enter_next(is_over, is_idle) else { return };
            state.memory.entered(plan);
            state.moment.record(|| Event::PlanEntered { plan });
            self.conceal(state, host, plan);
            for range in io_mmu_map {
                map_io_mmu(&mut state.moment, host, plan, range);
            }
        }
    }

    /// Builds what the stream holds, as long as there are buffers.
    pub(crate) fn build(&mut self, state: &mut State, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        if state.engines.recovery.is_recovering(state.adapter.paging_engine) {
            return;
        }
        while !state.moment.has_failed() && self.next_step(state, kmd) {
            let awaited = self.builder.idle_at.max(self.builder.host_step_at);
            if awaited.is_some_and(|fence| state.engines.paging_engine(&state.adapter).retired < fence)
                || !self.do_host_steps(state, kmd, host)
            {
                return;
            }
            if !matches!(self.builder.steps.front(), Some(Step::Operation(_))) {
                continue;
            }
            if self.builder.current.is_none() && !self.take_buffer(&state.adapter) {
                return;
            }
            let idle = self.builder.idle_at.is_some();
            match self.build_operation(&mut state.moment, kmd) {
                Built::Operation => {
                    let occasion = state.moment.statistics().build_calls;
                    if state.moment.makes(Unlikely::CloseBuffer, self.builder.plan, occasion) {
                        self.submit_paging_buffer(state, kmd);
                    }
                }
                Built::InWindow => self.submit_paging_buffer(state, kmd),
                Built::Full => {
                    self.submit_paging_buffer(state, kmd);
                    // The first part uses the allocation: the next call must wait for it to be idle again (BPB-06).
                    self.builder.idle_at = idle.then_some(self.builder.submitted);
                }
                Built::Busy => {
                    self.submit_paging_buffer(state, kmd);
                    self.builder.idle_at = Some(self.builder.submitted);
                }
                Built::Violation(violation) => state.moment.fail(violation),
            }
        }
    }

    /// Does the steps that are next and need no buffer; `false` when one must wait until what was built before has completed.
    fn do_host_steps(&mut self, state: &mut State, kmd: &mut dyn Kmd, host: &mut dyn Host) -> bool {
        loop {
            let plan = self.builder.plan;
            let step = match self.builder.steps.front() {
                None | Some(Step::Operation(_)) => return true,
                Some(&step) => step,
            };
            match step {
                Step::Operation(_) => unreachable!("it needs a buffer"),
                Step::UpdateInView(update) => {
                    self.builder.steps.replace_front(self.windows.write_in_view(&state.adapter, update));
                    continue;
                }
                Step::MapIoMmu(range) => map_io_mmu(&mut state.moment, host, plan, range),
                Step::UnmapIoMmu(_) | Step::UpdateByCpu(_) if !self.has_all_completed(state, kmd) => return false,
                Step::UnmapIoMmu(range) => unmap_io_mmu(&mut state.moment, host, plan, range),
                Step::UpdateByCpu(update) => self.update_by_cpu(&mut state.moment, kmd, host, update),
            }
            if state.moment.has_failed() {
                return false;
            }
            self.builder.host_step_at = None;
            self.builder.steps.end_front();
        }
    }

    /// Whether all that was built has completed; what is not handed out yet is, and the next step waits for it.
    fn has_all_completed(&mut self, state: &mut State, kmd: &mut dyn Kmd) -> bool {
        self.submit_paging_buffer(state, kmd);
        let (retired, submitted) = (state.engines.paging_engine(&state.adapter).retired, self.builder.submitted);
        self.builder.host_step_at = (retired < submitted).then_some(submitted);
        self.builder.host_step_at.is_none()
    }

    /// Lets the driver write entries with the CPU: it has no buffer to write commands into (BPB-08).
    fn update_by_cpu(&mut self, moment: &mut Moment, kmd: &mut dyn Kmd, host: &mut dyn Host, update: UpdatePageTable) {
        let update_mode = UpdateMode::CpuVirtual(host.kernel_virtual_address(update.page_table_address));
        let operation = PagingOperation::UpdatePageTable(UpdatePageTable { update_mode, ..update });
        let (plan, system_context) = (self.builder.plan, self.system_context);
        let (mut no_buffer, mut multipass_offset) = (PagingBuffer::new(0, 0), 0);
        let Encoded { status, dma_bytes, private_bytes } =
            encode(moment, kmd, &mut no_buffer, &operation, &mut multipass_offset, false, system_context);
        let bytes = dma_bytes as u32;
        moment.record(|| Event::PagingOperation { plan, operation, status, offset: 0, bytes, multipass_offset });
        let operation = operation.kind();
        match status {
            BuildStatus::Success if dma_bytes == 0 && private_bytes == 0 => {
                moment.statistics_mut().operations[operation] += 1;
            }
            BuildStatus::Other(status) => moment.fail(Violation::IllegalStatus { operation, status }),
            _ => moment.fail(Violation::NotAtOnce { operation, status, dma_bytes, private_bytes }),
        }
    }

    /// Makes sure that there is a step to do; `false` when the stream is empty, with nothing left unsubmitted.
    fn next_step(&mut self, state: &mut State, kmd: &mut dyn Kmd) -> bool {
        while self.builder.steps.is_empty() {
            let Some((number, plan, cursor)) = self.stream.head() else {
                self.submit_paging_buffer(state, kmd);
                return false;
            };
            self.builder.plan = number;
            let mut env = BuildEnv {
                adapter: &state.adapter,
                windows: &mut self.windows,
                buggify: state.moment.buggify(),
                plan: number,
                processes: &mut state.objects.processes,
            };
            if !expand(plan, cursor, &mut env, &mut self.builder.steps) {
                let moves_bytes = plan.bytes() > 0;
                let pending = self.builder.current.as_ref().is_some_and(|buffer| !buffer.is_empty());
                // No other work is handed out before the buffer is.
                let next = state.engines.paging_engine(&state.adapter).submitted + 1;
                let fence_id = if pending { next } else { self.builder.submitted };
                let signal = EngineFence { engine: state.adapter.paging_engine, fence_id };
                self.stream.head_built(fence_id);
                state.moment.record(|| Event::PlanBuilt { plan: number, signal });
                // Content that has arrived should not wait for what comes after it in the buffer.
                if moves_bytes {
                    self.submit_paging_buffer(state, kmd);
                }
            }
        }
        true
    }

    fn take_buffer(&mut self, adapter: &Adapter) -> bool {
        let builder = &mut self.builder;
        builder.current = builder.pool.pop();
        if builder.current.is_none() && builder.buffers < PAGING_BUFFERS_MAX {
            builder.buffers += 1;
            builder.current = Some(PagingBuffer::new(adapter.paging_buffer_size, adapter.paging_private_size));
        }
        builder.current.is_some()
    }

    fn build_operation(&mut self, moment: &mut Moment, kmd: &mut dyn Kmd) -> Built {
        let builder = &mut self.builder;
        let (plan, system_context) = (builder.plan, self.system_context);
        let buffer = builder.current.as_mut().expect("a buffer was taken");
        let Some(Step::Operation(operation)) = builder.steps.front_mut() else {
            unreachable!("the host's steps are done before")
        };
        // It stays idle until the operation is built to its end.
        if builder.idle_at.is_some() {
            operation.note_idle();
        }
        let is_fresh = buffer.is_empty();
        let offset = buffer.write_offset() as u32;
        let progress_before = builder.multipass_offset;
        let was_idle = builder.idle_at.is_some();
        let multipass_offset = &mut builder.multipass_offset;
        let Encoded { status, dma_bytes, private_bytes } =
            encode(moment, kmd, buffer, operation, multipass_offset, was_idle, system_context);
        let multipass_offset = builder.multipass_offset;
        moment.record(|| Event::PagingOperation {
            plan,
            operation: *operation,
            status,
            offset,
            bytes: dma_bytes as u32,
            multipass_offset,
        });
        if let Some(allocation) = operation.allocation().filter(|_| dma_bytes > 0)
            && builder.named.last() != Some(&allocation)
        {
            builder.named.push(allocation);
        }
        if buffer.advance(dma_bytes, private_bytes).is_none() {
            let operation = Some(operation.kind());
            return Built::Violation(Violation::BufferOverrun { operation, dma_bytes, private_bytes });
        }
        match status {
            BuildStatus::Success => {
                count(moment.statistics_mut(), operation);
                let is_in_window = matches!(operation, PagingOperation::NotifyAlloc(op) if op.process.is_none());
                builder.steps.end_front();
                builder.begin_operation();
                builder.idle_at = None;
                if is_in_window { Built::InWindow } else { Built::Operation }
            }
            BuildStatus::InsufficientDmaBuffer => {
                let (kind, allocation) = (operation.kind(), operation.allocation());
                let passes_max = PASSES_MAX + operation.size_in_bytes() / PAGE_SIZE;
                builder.passes += 1;
                builder.empty_passes = if is_fresh && dma_bytes == 0 { builder.empty_passes + 1 } else { 0 };
                let passes = builder.passes;
                match builder.empty_passes {
                    1 if multipass_offset != progress_before => Built::Full,
                    0 if passes <= passes_max => Built::Full,
                    0 => Built::Violation(Violation::TooManyPasses { operation: kind, allocation, passes }),
                    _ => Built::Violation(Violation::NoProgress { operation: kind, allocation }),
                }
            }
            BuildStatus::AllocationBusy if was_idle => {
                let (operation, allocation) = (operation.kind(), operation.allocation());
                Built::Violation(Violation::BusyWhileIdle { operation, allocation })
            }
            BuildStatus::AllocationBusy => {
                if !operation.kind().may_be_busy() {
                    let operation = operation.kind();
                    moment.report(DriverFinding::BusyUndocumented { operation });
                }
                Built::Busy
            }
            BuildStatus::Other(status) => {
                Built::Violation(Violation::IllegalStatus { operation: operation.kind(), status })
            }
        }
    }

    /// Hands the buffer that is being built to the paging engine, if anything is in it.
    fn submit_paging_buffer(&mut self, state: &mut State, kmd: &mut dyn Kmd) {
        let Some(buffer) = self.builder.current.take_if(|buffer| !buffer.is_empty()) else { return };
        let engine = state.adapter.paging_engine;
        let allocations = core::mem::take(&mut self.builder.named);
        let work = PacketWork::Paging { allocations };
        let fence_id = state.engines.engines[engine as usize].push(alloc::vec::Vec::new(), work);
        self.builder.submitted = fence_id;
        let signal = EngineFence { engine, fence_id };
        let submit = SubmitCommand {
            context: self.system_context,
            node_ordinal: engine,
            submission_fence_id: signal.fence_id,
            paging: true,
            dma_buffer_submission_offsets: None,
        };
        let mut preamble = alloc::vec::Vec::new();
        kmd.submit_command(&submit, &mut preamble);
        state.moment.statistics_mut().paging_buffers += 1;
        let bytes = buffer.commands().len() as u32;
        state.moment.record(|| Event::PagingBufferSubmitted { signal, bytes });
        let packet = Packet { waits: alloc::vec::Vec::new(), signal, preamble, buffer: DmaBuffer::Paging(buffer) };
        state.moment.hand_out(Output::Submit(packet));
    }
}

pub(crate) fn map_io_mmu(moment: &mut Moment, host: &mut dyn Host, plan: PlanNo, range: IoMmuRange) {
    let IoMmuRange { domain, virtual_address, size, system_offset, read_only, allocation, .. } = range;
    let system_address = PhysicalAddress { segment: SegmentId::SYSTEM, offset: system_offset };
    host.map_io_mmu(domain, virtual_address, system_address, size, read_only);
    let IoMmuRange { allocation_offset, window, .. } = range;
    moment.record(|| Event::IoMmuMapped { plan, domain, virtual_address, allocation, allocation_offset, size, window });
}

pub(crate) fn unmap_io_mmu(moment: &mut Moment, host: &mut dyn Host, plan: PlanNo, range: IoMmuRange) {
    let IoMmuRange { domain, virtual_address, size, window, .. } = range;
    host.unmap_io_mmu(domain, virtual_address, size);
    moment.record(|| Event::IoMmuUnmapped { plan, domain, virtual_address, size, window });
}

fn count(statistics: &mut Statistics, operation: &PagingOperation) {
    statistics.operations[operation.kind()] += 1;
    if let PagingOperation::NotifyAlloc(op) = operation {
        if op.flags.contains(NotifyAllocFlags::EVICTION) {
            statistics.eviction_notifications += u64::from(op.offset_in_bytes == 0);
            statistics.eviction_notification_bytes += op.size_in_bytes;
            statistics.eviction_notification_chunks += 1;
        } else {
            statistics.io_mmu_unmap_notifications += 1;
        }
    }
}
