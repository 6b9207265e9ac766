//! How long a process waits for a kernel whose memory is in place, while another process pages (RES-01, D23).
//!
//! `cargo bench -p vidmm-soft --bench neighbour`. All times are those of the model GPU, so that every run prints the same.

use std::error::Error;

use vidmm::{
    AdapterOptions, AllocationId, ContextId, DeviceId, EvictFlags, FenceValueDesc, MakeResidentFlags,
    MapGpuVirtualAddress, MonitoredFenceId, Nanoseconds, PAGE_SIZE, PagingQueueId, Statistics, SubmitDesc,
};
use vidmm_runtime::{AllocationDesc, Content, KernelCommand, PageRange, Runtime};
use vidmm_soft::{CostModel, ModelGpuFaults, RENDER_ENGINE, SoftAdapterConfig};

const MICROSECOND: Nanoseconds = 1_000;
/// The kernels that are measured, and the pause before each of them.
const KERNELS: u64 = 200;
const PAUSE: Nanoseconds = 137 * MICROSECOND;
/// The kernel of the process that pages: it may run when another one comes.
const OTHERS_KERNEL: Nanoseconds = 20 * MICROSECOND;

/// A process with one context on the render engine.
struct Process {
    device: DeviceId,
    context: ContextId,
    queue: PagingQueueId,
    fence: MonitoredFenceId,
    submitted: u64,
    buffers: Vec<(AllocationId, PageRange)>,
}

impl Process {
    fn new(runtime: &mut Runtime, sizes: &[u64]) -> Result<Self, Box<dyn Error>> {
        let private_driver_data = Vec::from_iter(
            sizes.iter().map(|&size| runtime.umd().allocation_private_data(&AllocationDesc::local(size))),
        );
        let (vidmm, kmd, host) = runtime.borrow();
        let process = vidmm.create_process(kmd, host)?;
        let device = vidmm.create_device(process)?;
        let queue = vidmm.create_paging_queue(device, 0)?;
        let context = vidmm.create_context(kmd, device, RENDER_ENGINE)?;
        let mut buffers = Vec::new();
        for data in private_driver_data {
            let allocation = vidmm.create_allocation(kmd, host, device, &data)?;
            let mapped = vidmm.map_gpu_virtual_address(host, queue, &MapGpuVirtualAddress::whole(allocation))?;
            // A kernel uses the first page: the rest takes the time of paging, and none of the GPU's.
            buffers.push((allocation, PageRange::plain(mapped.virtual_address, 1)));
        }
        Ok(Self { device, context, queue, fence: vidmm.create_monitored_fence(0)?, submitted: 0, buffers })
    }

    fn submit(&mut self, runtime: &mut Runtime, buffer: usize, nanoseconds: Nanoseconds) -> Result<(), Box<dyn Error>> {
        self.submitted += 1;
        let (kernel, content) = (self.submitted, Content::Uniform);
        let outputs = vec![self.buffers[buffer].1];
        let kernel = KernelCommand { kernel, nanoseconds, content, inputs: Vec::new(), outputs };
        let dma_buffer = runtime.umd().encode_kernel(&kernel);
        let signals = vec![FenceValueDesc { fence: self.fence, value: self.submitted }];
        runtime.vidmm().submit(self.context, SubmitDesc { dma_buffer, signals, ..SubmitDesc::default() })?;
        runtime.pump();
        Ok(())
    }

    fn has_ended(&self, runtime: &mut Runtime) -> bool {
        runtime.vidmm().monitored_fence_value(self.fence).is_ok_and(|value| value >= self.submitted)
    }
}

/// A process that has two buffers of 2 GiB in 3 GiB of memory, and uses them in turn: it pages all the time.
struct Pager(Process);

impl Pager {
    fn go_on(&mut self, runtime: &mut Runtime) -> Result<(), Box<dyn Error>> {
        let Self(process) = self;
        if !process.has_ended(runtime) {
            return Ok(());
        }
        let next = (process.submitted % 2) as usize;
        let [this, other] = [next, 1 - next].map(|buffer| process.buffers[buffer].0);
        if process.submitted > 0 {
            runtime.vidmm().evict(process.device, &[other], EvictFlags::empty())?;
        }
        let _ = runtime.vidmm().make_resident(process.queue, &[this], MakeResidentFlags::empty())?;
        process.submit(runtime, next, OTHERS_KERNEL)
    }
}

/// The latencies of kernels of so many nanoseconds, from their submission to the end that the host sees, in order of size; and what
/// was moved and asked meanwhile.
fn latencies(
    nanoseconds: Nanoseconds,
    is_beside_a_pager: bool,
) -> Result<(Vec<Nanoseconds>, Statistics), Box<dyn Error>> {
    let config = SoftAdapterConfig { local_memory_bytes: 3 << 30, ..SoftAdapterConfig::default() };
    let machine = vidmm_soft::machine(&config, CostModel::default(), ModelGpuFaults::default(), None);
    let mut runtime = Runtime::start(AdapterOptions::default(), machine.into())?;
    let mut neighbour = Process::new(&mut runtime, &[PAGE_SIZE])?;
    let mut pager = Pager(Process::new(&mut runtime, &[2 << 30, 2 << 30])?);
    let _ = runtime.vidmm().make_resident(neighbour.queue, &[neighbour.buffers[0].0], MakeResidentFlags::empty())?;
    while runtime.advance(None) {}
    let mut latencies = Vec::new();
    for _ in 0..KERNELS {
        let begin = runtime.now() + PAUSE;
        while runtime.now() < begin {
            if is_beside_a_pager {
                pager.go_on(&mut runtime)?;
            }
            runtime.advance(Some(begin));
        }
        neighbour.submit(&mut runtime, 0, nanoseconds)?;
        let submitted_at = runtime.now();
        while !neighbour.has_ended(&mut runtime) {
            runtime.advance(None);
            if is_beside_a_pager {
                pager.go_on(&mut runtime)?;
            }
        }
        latencies.push(runtime.now() - submitted_at);
    }
    latencies.sort_unstable();
    Ok((latencies, runtime.statistics()))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("A kernel alone, and beside a process that pages 2 GiB again and again, whose own kernels take 20 us:");
    println!("kernel      alone       median      largest     ratio  less its kernel    paged   engine asked to yield");
    for nanoseconds in [3, 30, 300, 3000].map(|us| us * MICROSECOND) {
        let [alone, beside] = [false, true].map(|is_beside| latencies(nanoseconds, is_beside));
        let ((alone, _), (beside, statistics)) = (alone?, beside?);
        let middle = alone.len() / 2;
        let (usual, largest) = (alone[middle] as f64, beside[beside.len() - 1]);
        println!(
            "{:>7} us {:>8.1} us {:>8.1} us {:>8.1} us {:>9.2} {:>16.2} {:>4} GiB {:>7} times",
            nanoseconds / MICROSECOND,
            usual / 1e3,
            beside[middle] as f64 / 1e3,
            largest as f64 / 1e3,
            beside[middle] as f64 / usual,
            largest.saturating_sub(OTHERS_KERNEL) as f64 / usual,
            (statistics.bytes_paged_in + statistics.bytes_paged_out + statistics.bytes_filled) >> 30,
            statistics.preemptions,
        );
    }
    Ok(())
}
