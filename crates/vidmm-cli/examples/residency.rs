//! Two buffers that do not fit into local memory together, used in turn: residency as an engine sees it.
//!
//! `cargo run --release -p vidmm-cli --example residency`

use std::error::Error;

use vidmm::{
    AdapterOptions, EvictFlags, FenceValueDesc, MakeResidentError, MakeResidentFlags, MapGpuVirtualAddress, Output,
    Residency, SubmitDesc,
};
use vidmm_runtime::{AllocationDesc, Content, Happening, KernelCommand, Machine, PageRange, Runtime};
use vidmm_soft::{CostModel, ModelGpuFaults, RENDER_ENGINE, SoftAdapterConfig};

const MIB: u64 = 1 << 20;
const BUFFER: u64 = 40 * MIB;

fn main() -> Result<(), Box<dyn Error>> {
    let mut runtime = Runtime::start(AdapterOptions::default(), machine(64 * MIB))?;
    let umd_data = runtime.umd().allocation_private_data(&AllocationDesc::local(BUFFER));
    let (vidmm, kmd, host) = runtime.borrow();
    let process = vidmm.create_process(kmd, host)?;
    let device = vidmm.create_device(process)?;
    let queue = vidmm.create_paging_queue(device, 0)?;
    let context = vidmm.create_context(kmd, device, RENDER_ENGINE)?;
    let fence = vidmm.create_monitored_fence(0)?;

    let mut buffers = Vec::new();
    for _ in 0..2 {
        let allocation = vidmm.create_allocation(kmd, host, device, &umd_data)?;
        let mapped = vidmm.map_gpu_virtual_address(host, queue, &MapGpuVirtualAddress::whole(allocation))?;
        buffers.push((allocation, mapped.virtual_address));
    }

    // Both at once are refused, and nothing changes: the answer has the bytes to trim.
    match vidmm.make_resident(queue, &[buffers[0].0, buffers[1].0], MakeResidentFlags::empty()) {
        Err(MakeResidentError::NoMemory { num_bytes_to_trim, .. }) => {
            println!("both do not fit: {} MiB too much", num_bytes_to_trim / MIB);
        }
        other => println!("both fit: {other:?}"),
    }

    // They fit in turn, and the client need not wait in between: each submission has the list of its moment.
    for round in 0..4u64 {
        let (allocation, virtual_address) = buffers[round as usize % 2];
        let pages = [PageRange::plain(virtual_address, BUFFER / vidmm::PAGE_SIZE)].to_vec();
        let kernel = KernelCommand {
            kernel: round,
            nanoseconds: 1_000_000,
            content: Content::Uniform,
            inputs: pages.clone(),
            outputs: pages,
        };
        let dma_buffer = runtime.umd().encode_kernel(&kernel);
        let vidmm = runtime.vidmm();
        match vidmm.make_resident(queue, &[allocation], MakeResidentFlags::empty())? {
            Residency::Resident => println!("kernel {round}: {allocation} is resident"),
            Residency::Pending { paging_fence_value } => {
                println!("kernel {round}: {allocation} will be resident at paging fence {paging_fence_value}");
            }
        }
        let signals = vec![FenceValueDesc { fence, value: round + 1 }];
        vidmm.submit(context, SubmitDesc { dma_buffer, signals, ..SubmitDesc::default() })?;
        vidmm.evict(device, &[allocation], EvictFlags::EVICT_ONLY_IF_NECESSARY)?;
    }

    while runtime.advance(None) {
        let now = runtime.now();
        while let Some(happening) = runtime.next_happening() {
            match happening {
                Happening::Output(Output::PagingFenceSignaled { value, .. }) => {
                    println!("{now:>10} ns  paging fence {value}")
                }
                Happening::Output(Output::MonitoredFenceSignaled { value, .. }) => {
                    println!("{now:>10} ns  kernel {} ended", value - 1)
                }
                _ => {}
            }
        }
    }
    let statistics = runtime.statistics();
    println!(
        "{} MiB paged in, {} MiB out, {} evictions",
        statistics.bytes_paged_in / MIB,
        statistics.bytes_paged_out / MIB,
        statistics.evictions
    );
    runtime.vidmm().check()?;
    Ok(())
}

fn machine(local_memory_bytes: u64) -> Machine {
    let config = SoftAdapterConfig { local_memory_bytes, ..SoftAdapterConfig::default() };
    vidmm_soft::machine(&config, CostModel::default(), ModelGpuFaults::default(), None).into()
}
