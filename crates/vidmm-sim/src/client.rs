//! The client that runs a workload, and behaves like a good one (RES-): MakeResident before, Submit, Evict after, some kernels
//! ahead of the GPU; what dies is destroyed.

use vidmm::contract::EngineKind;
use vidmm::{
    AllocationId, ContextId, CreateError, DestroyFlags, DeviceId, EvictFlags, FenceValueDesc, GpuVirtualAddress,
    MakeResidentError, MakeResidentFlags, MapError, MapGpuVirtualAddress, MonitoredFenceId, Nanoseconds, PAGE_SIZE,
    PagingQueueId, ProcessId, SubmitDesc,
};
use vidmm_runtime::{AllocationDesc, AllocationSegments, Content, KernelCommand, PageRange, Runtime, Surface};
use vidmm_trace::{ByteSize, Cost, Engine, Lifetime, Workload};

use crate::system_copies::SystemCopies;

/// Why a client cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The memory is too small for a kernel and the page tables of the workload.
    #[error(
        "kernel {kernel} does not fit in local memory beside the page tables, or under the commit limit of system memory, even \
         with nothing else there: {} are missing; give it more", ByteSize(*.num_bytes_to_trim)
    )]
    DoesNotFit {
        /// The kernel.
        kernel: usize,
        /// How many bytes are missing.
        num_bytes_to_trim: u64,
    },
    /// The manager refused a call that a good client may make.
    #[error("kernel {kernel}: {call} was refused: {reason}")]
    Refused {
        /// The kernel.
        kernel: usize,
        /// The call.
        call: &'static str,
        /// The manager's words.
        reason: String,
    },
    /// The machine has no engine of a kind that the workload needs.
    #[error("the machine has no {0:?} engine")]
    NoEngine(EngineKind),
}

/// What a client asks of each buffer's allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BufferDesc {
    /// Where it may be.
    pub segments: AllocationSegments,
    /// Whether it has a compression surface, through which kernels read and write it.
    pub compression: bool,
    /// Whether the driver wants to know before it is evicted (NTF-02).
    pub notify_eviction: bool,
    /// Whether the driver wants to know before it is unmapped from the IOMMU (NTF-04).
    pub notify_io_mmu_unmap: bool,
}

impl BufferDesc {
    /// The allocation of a buffer: its surface, if it has one, bears the buffer's number.
    fn allocation(&self, buffer: u32, size: u64) -> AllocationDesc {
        AllocationDesc {
            segments: self.segments,
            surface: self.compression.then_some(buffer),
            notify_eviction: self.notify_eviction,
            notify_io_mmu_unmap: self.notify_io_mmu_unmap,
            ..AllocationDesc::local(size)
        }
    }

    /// What kernels read and write of a buffer that is mapped at an address.
    fn range(&self, buffer: u32, virtual_address: GpuVirtualAddress, num_pages: u64) -> PageRange {
        let surface = self.compression.then_some(Surface { number: buffer, first_page: 0 });
        PageRange { virtual_address, num_pages, surface }
    }
}

/// How a client behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientOptions {
    pub buffers: BufferDesc,
    /// Kernels that may be submitted and not ended, beyond the one that runs.
    pub ahead: usize,
    pub content: Content,
    /// Bytes a second at which an upload runs.
    pub upload_bytes_per_second: u64,
}

/// All processes of a workload.
pub(crate) struct Client<'a> {
    workload: &'a Workload,
    options: ClientOptions,
    processes: Vec<Process>,
    buffers: Vec<BufferState>,
}

struct Process {
    process: ProcessId,
    device: DeviceId,
    queue: PagingQueueId,
    engines: [EngineQueue; 2],
    /// Its kernels, and how many are submitted and ended.
    kernels: Vec<u32>,
    submitted: usize,
    ended: usize,
}

/// A context with the fence that counts its kernels.
struct EngineQueue {
    context: ContextId,
    fence: MonitoredFenceId,
    submitted: u64,
    ended: u64,
}

#[derive(Clone, Copy, Default)]
struct BufferState {
    allocation: Option<AllocationId>,
    mapping: Option<PageRange>,
    last_use: u32,
    /// The value of each engine's fence after its last kernel that names the buffer.
    last_access: [u64; 2],
    /// What the CPU sees of it has been judged since then.
    copy_is_judged: bool,
}

/// What became of an attempt to submit.
enum Attempt {
    Submitted,
    /// There is no room at present.
    NoMemory {
        num_bytes_to_trim: u64,
    },
}

const ENGINES: [(Engine, EngineKind); 2] = [(Engine::Compute, EngineKind::Render3d), (Engine::Copy, EngineKind::Copy)];

fn slot(engine: Engine) -> usize {
    match engine {
        Engine::Compute => 0,
        Engine::Copy => 1,
    }
}

impl<'a> Client<'a> {
    /// Creates the processes of `workload`, with a device, a paging queue and a context on each kind of engine.
    pub fn new(
        runtime: &mut Runtime,
        engines: &[EngineKind],
        workload: &'a Workload,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        let mut buffers = vec![BufferState::default(); workload.buffers.len()];
        for (buffer, (_, last)) in buffers.iter_mut().zip(workload.first_and_last_use()) {
            buffer.last_use = last;
        }
        let numbers = workload.processes();
        let mut processes = Vec::with_capacity(numbers.len());
        for _ in &numbers {
            processes.push(Process::new(runtime, engines)?);
        }
        for (kernel, number) in workload.kernels.iter().map(|kernel| kernel.process).enumerate() {
            let process = numbers.binary_search(&number).expect("the workload lists its processes");
            processes[process].kernels.push(kernel as u32);
        }
        let mut client = Self { workload, options, processes, buffers };
        client.create_whole_buffers(runtime)?;
        Ok(client)
    }

    /// Whether all kernels have ended.
    pub fn is_done(&self) -> bool {
        self.processes.iter().all(|process| process.ended == process.kernels.len())
    }

    /// Kernels that have ended.
    pub fn ended(&self) -> usize {
        self.processes.iter().map(|process| process.ended).sum()
    }

    /// The allocation that holds a buffer at present.
    pub fn allocation_of(&self, buffer: u32) -> Option<AllocationId> {
        self.buffers[buffer as usize].allocation
    }

    /// The allocation that is mapped at an address, and which page of it is there.
    pub fn mapping_at(&self, virtual_address: u64) -> Option<(AllocationId, u64)> {
        self.buffers.iter().find_map(|buffer| {
            let PageRange { virtual_address: start, num_pages, .. } = buffer.mapping?;
            let page = virtual_address.checked_sub(start.0)? / PAGE_SIZE;
            (page < num_pages).then_some((buffer.allocation?, page))
        })
    }

    /// A fence has reached `value`.
    pub fn fence_signaled(&mut self, fence: MonitoredFenceId, value: u64) {
        for process in &mut self.processes {
            for engine in process.engines.iter_mut().filter(|engine| engine.fence == fence) {
                // A device in error signals the maximum.
                let value = value.min(engine.submitted);
                process.ended += (value - engine.ended) as usize;
                engine.ended = value;
            }
        }
    }

    /// Submits what may be submitted at this time. Returns when the next kernel arrives that is not there yet.
    ///
    /// `copies` is shown each buffer that is about to be used and was evicted.
    pub fn submit(
        &mut self,
        runtime: &mut Runtime,
        copies: &mut SystemCopies<'_>,
    ) -> Result<Option<Nanoseconds>, ClientError> {
        let mut next_arrival: Option<Nanoseconds> = None;
        for index in 0..self.processes.len() {
            while let Some(kernel) = self.next_kernel(index) {
                let arrival = self.workload.kernels[kernel].not_before_ns;
                if arrival > runtime.now() {
                    next_arrival = Some(next_arrival.map_or(arrival, |next| next.min(arrival)));
                    break;
                }
                match self.attempt(runtime, copies, index, kernel)? {
                    Attempt::Submitted => {}
                    Attempt::NoMemory { .. } if !self.nothing_under_way(runtime) => break,
                    Attempt::NoMemory { num_bytes_to_trim } => {
                        return Err(ClientError::DoesNotFit { kernel, num_bytes_to_trim });
                    }
                }
            }
        }
        Ok(next_arrival)
    }

    fn nothing_under_way(&self, runtime: &mut Runtime) -> bool {
        self.processes.iter().all(|process| process.ended == process.submitted) && runtime.vidmm().is_idle()
    }

    fn next_kernel(&self, process: usize) -> Option<usize> {
        let process = &self.processes[process];
        let under_way = process.submitted - process.ended;
        if under_way > self.options.ahead {
            return None;
        }
        process.kernels.get(process.submitted).map(|&kernel| kernel as usize)
    }

    /// Submits one kernel: its buffers exist and are mapped, are made resident, and leave the list again behind it.
    fn attempt(
        &mut self,
        runtime: &mut Runtime,
        copies: &mut SystemCopies<'_>,
        process: usize,
        kernel: usize,
    ) -> Result<Attempt, ClientError> {
        let named = self.workload.kernels[kernel].buffers();
        named.iter().for_each(|&buffer| self.judge_copy(runtime, copies, buffer));
        for &buffer in &named {
            if let Some(num_bytes_to_trim) = self.provide(runtime, process, kernel, buffer)? {
                return Ok(Attempt::NoMemory { num_bytes_to_trim });
            }
        }
        let allocations: Vec<AllocationId> = named.iter().map(|&buffer| self.allocation(buffer)).collect();
        let queue = self.processes[process].queue;
        match runtime.vidmm().make_resident(queue, &allocations, MakeResidentFlags::empty()) {
            Ok(_) => {}
            Err(MakeResidentError::NoMemory { num_bytes_to_trim, .. }) => {
                return Ok(Attempt::NoMemory { num_bytes_to_trim });
            }
            Err(error) => return Err(refused(kernel, "MakeResident", error)),
        }
        self.submit_kernel(runtime, process, kernel, &named)?;
        self.evict(runtime, process, kernel, &named)?;
        self.destroy_dead(runtime, kernel, &named)?;
        Ok(Attempt::Submitted)
    }

    fn submit_kernel(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        kernel: usize,
        named: &[u32],
    ) -> Result<(), ClientError> {
        let work = &self.workload.kernels[kernel];
        let own = slot(work.engine);
        let other = 1 - own;
        let range = |&buffer: &u32| self.buffers[buffer as usize].mapping.expect("it was provided");
        let command = KernelCommand {
            kernel: kernel as u64,
            nanoseconds: self.nanoseconds(kernel),
            content: self.options.content,
            inputs: work.reads.iter().map(range).collect(),
            outputs: work.writes.iter().map(range).collect(),
        };
        let waited = named.iter().map(|&buffer| self.buffers[buffer as usize].last_access[other]).max();
        let [compute, copy] = &mut self.processes[process].engines;
        let (own_queue, other_queue) = if own == 0 { (compute, &*copy) } else { (copy, &*compute) };
        let waits = waited.filter(|&value| value > other_queue.ended);
        let waits = waits.map(|value| FenceValueDesc { fence: other_queue.fence, value });
        let desc = SubmitDesc {
            dma_buffer: runtime.umd().encode_kernel(&command),
            waits: waits.into_iter().collect(),
            signals: vec![FenceValueDesc { fence: own_queue.fence, value: own_queue.submitted + 1 }],
        };
        let submitted = runtime.vidmm().submit(own_queue.context, desc);
        submitted.map_err(|error| refused(kernel, "submit", error))?;
        own_queue.submitted += 1;
        for &buffer in named {
            let state = &mut self.buffers[buffer as usize];
            state.last_access[own] = own_queue.submitted;
            state.copy_is_judged = false;
        }
        self.processes[process].submitted += 1;
        Ok(())
    }

    /// Takes the kernel's buffers off the list: only if necessary, and those that it did not write as not written to.
    fn evict(&self, runtime: &mut Runtime, process: usize, kernel: usize, named: &[u32]) -> Result<(), ClientError> {
        let device = self.processes[process].device;
        let writes = &self.workload.kernels[kernel].writes;
        let (written, read): (Vec<u32>, Vec<u32>) = named.iter().partition(|buffer| writes.contains(buffer));
        let if_necessary = EvictFlags::EVICT_ONLY_IF_NECESSARY;
        for (buffers, flags) in [(written, if_necessary), (read, if_necessary | EvictFlags::NOT_WRITTEN_TO)] {
            if buffers.is_empty() {
                continue;
            }
            let allocations: Vec<AllocationId> = buffers.iter().map(|&buffer| self.allocation(buffer)).collect();
            let evicted = runtime.vidmm().evict(device, &allocations, flags);
            evicted.map_err(|error| refused(kernel, "Evict", error))?;
        }
        Ok(())
    }

    fn destroy_dead(&mut self, runtime: &mut Runtime, kernel: usize, named: &[u32]) -> Result<(), ClientError> {
        for &buffer in named {
            let temporary = self.workload.buffers[buffer as usize].lifetime == Lifetime::Temporary;
            let state = &mut self.buffers[buffer as usize];
            if temporary && state.last_use as usize == kernel {
                let allocation = state.allocation.expect("it was provided");
                let destroyed = runtime.vidmm().destroy_allocation(allocation, DestroyFlags::empty());
                destroyed.map_err(|error| refused(kernel, "DestroyAllocation2", error))?;
            }
        }
        Ok(())
    }

    fn create_whole_buffers(&mut self, runtime: &mut Runtime) -> Result<(), ClientError> {
        for process in 0..self.processes.len() {
            for index in 0..self.processes[process].kernels.len() {
                let kernel = self.processes[process].kernels[index] as usize;
                for buffer in self.workload.kernels[kernel].buffers() {
                    let whole = self.workload.buffers[buffer as usize].lifetime == Lifetime::Whole;
                    if whole && let Some(num_bytes_to_trim) = self.provide(runtime, process, kernel, buffer)? {
                        return Err(ClientError::DoesNotFit { kernel, num_bytes_to_trim });
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes sure that a buffer exists and is mapped. Returns how much to trim if its page tables do not fit at present.
    fn provide(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        kernel: usize,
        buffer: u32,
    ) -> Result<Option<u64>, ClientError> {
        let bytes = self.workload.buffers[buffer as usize].bytes;
        let Process { device, queue, .. } = self.processes[process];
        let state = &mut self.buffers[buffer as usize];
        let allocation = match state.allocation {
            Some(allocation) => allocation,
            None => {
                let desc = self.options.buffers.allocation(buffer, bytes);
                let private_data = runtime.umd().allocation_private_data(&desc);
                let (vidmm, kmd, host) = runtime.borrow();
                let created = vidmm.create_allocation(kmd, host, device, &private_data);
                created.map_err(|error| refused(kernel, "CreateAllocation2", error))?
            }
        };
        state.allocation = Some(allocation);
        if state.mapping.is_some() {
            return Ok(None);
        }
        let (vidmm, _, host) = runtime.borrow();
        match vidmm.map_gpu_virtual_address(host, queue, &MapGpuVirtualAddress::whole(allocation)) {
            Ok(mapped) => {
                let num_pages = bytes.div_ceil(PAGE_SIZE);
                state.mapping = Some(self.options.buffers.range(buffer, mapped.virtual_address, num_pages));
                Ok(None)
            }
            Err(MapError::NoMemory { num_bytes_to_trim }) => Ok(Some(num_bytes_to_trim)),
            Err(error) => Err(refused(kernel, "MapGpuVirtualAddress", error)),
        }
    }

    /// Lets `copies` judge what the CPU sees of a buffer, once between two uses.
    fn judge_copy(&mut self, runtime: &mut Runtime, copies: &mut SystemCopies<'_>, buffer: u32) {
        let state = &mut self.buffers[buffer as usize];
        let was_used = state.last_access != [0, 0];
        if let Some(allocation) = state.allocation.filter(|_| was_used && !state.copy_is_judged) {
            state.copy_is_judged = copies.judge(runtime, buffer, allocation);
        }
    }

    fn allocation(&self, buffer: u32) -> AllocationId {
        self.buffers[buffer as usize].allocation.expect("a kernel's buffers are provided first")
    }

    fn nanoseconds(&self, kernel: usize) -> u64 {
        let kernel = &self.workload.kernels[kernel];
        match kernel.cost {
            Cost::Nanoseconds(nanoseconds) => nanoseconds,
            Cost::Upload => {
                let bytes =
                    kernel.writes.iter().map(|&buffer| u128::from(self.workload.buffers[buffer as usize].bytes));
                let rate = u128::from(self.options.upload_bytes_per_second.max(1));
                (bytes.sum::<u128>() * 1_000_000_000 / rate) as u64
            }
        }
    }

    /// Destroys all that is left, so that the end of a run shows whether anything leaks.
    pub fn close(mut self, runtime: &mut Runtime, copies: &mut SystemCopies<'_>) -> Result<(), ClientError> {
        let last = self.workload.kernels.len();
        for buffer in 0..self.buffers.len() {
            self.judge_copy(runtime, copies, buffer as u32);
            if let Some(allocation) = self.buffers[buffer].allocation.take() {
                // Temporary buffers were destroyed behind their last kernel.
                let _ = runtime.vidmm().destroy_allocation(allocation, DestroyFlags::empty());
            }
        }
        while !runtime.vidmm().is_idle() && runtime.advance(None) {}
        for process in &self.processes {
            process.destroy(runtime).map_err(|error| refused(last, "destroy", error))?;
        }
        Ok(())
    }
}

fn refused(kernel: usize, call: &'static str, reason: impl std::fmt::Display) -> ClientError {
    ClientError::Refused { kernel, call, reason: reason.to_string() }
}

impl Process {
    fn new(runtime: &mut Runtime, engines: &[EngineKind]) -> Result<Self, ClientError> {
        let ordinal = |kind| {
            let at = engines.iter().position(|&engine| engine == kind);
            at.map(|at| at as u32).ok_or(ClientError::NoEngine(kind))
        };
        let ordinals = [ordinal(ENGINES[0].1)?, ordinal(ENGINES[1].1)?];
        let create = |error: CreateError| refused(0, "create", error);
        let (vidmm, kmd, host) = runtime.borrow();
        let process = vidmm.create_process(kmd, host).map_err(create)?;
        let device = vidmm.create_device(process).map_err(create)?;
        let queue = vidmm.create_paging_queue(device, 0).map_err(create)?;
        let mut engine_queue = |ordinal| {
            let context = vidmm.create_context(kmd, device, ordinal).map_err(create)?;
            Ok(EngineQueue { context, fence: vidmm.create_monitored_fence(0), submitted: 0, ended: 0 })
        };
        let engines = [engine_queue(ordinals[0])?, engine_queue(ordinals[1])?];
        Ok(Self { process, device, queue, engines, kernels: Vec::new(), submitted: 0, ended: 0 })
    }

    fn destroy(&self, runtime: &mut Runtime) -> Result<(), vidmm::DestroyError> {
        let (vidmm, kmd, host) = runtime.borrow();
        for engine in &self.engines {
            vidmm.destroy_context(kmd, engine.context)?;
            vidmm.destroy_monitored_fence(engine.fence)?;
        }
        vidmm.destroy_paging_queue(self.queue)?;
        vidmm.destroy_device(self.device)?;
        vidmm.destroy_process(kmd, host, self.process)
    }
}
