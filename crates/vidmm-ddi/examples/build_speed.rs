//! How many paging operations a driver in C builds in a second, as the manager asks for them, without a GPU.
//!
//! `cargo run --release -p vidmm-ddi --example build_speed -- DRIVER.so`

use std::path::PathBuf;
use std::time::Instant;

use vidmm::contract::{AddressingModel, BuildPagingBuffer, BuildStatus, Fill, FillVirtual, PagingOperation};
use vidmm::{GpuVirtualAddress, PhysicalAddress, SegmentId};
use vidmm_ddi::{Driver, DriverMachines, Progress};
use vidmm_runtime::AllocationDesc;
use vidmm_sim::{MachineDesc, MachineFactory};

const BUILDS: u32 = 1_000_000;

/// Bytes of the allocation.
const SIZE: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name the driver's library")?;
    let machines = DriverMachines::new(Driver::load(&path, &Progress::anonymous()?, &[])?, "driver", Vec::new())?;
    let (local_memory_bytes, aperture_bytes) = machines.memory();
    let desc = MachineDesc { local_memory_bytes, aperture_bytes, ..MachineDesc::default() };
    let mut machine = machines.machine(&desc)?;
    let process = machine.kmd.create_process(true)?;
    let system_context = machine.kmd.create_context(process, 0, true)?;
    let private_data = machine.umd.allocation_private_data(&AllocationDesc::local(SIZE));
    let allocation = machine.kmd.create_allocation(&private_data)?.allocation;
    let operation = match machines.info().addressing_model {
        AddressingModel::Physical => PagingOperation::Fill(Fill {
            allocation,
            fill_size: SIZE,
            fill_pattern: 0,
            destination: PhysicalAddress { segment: SegmentId(1), offset: 0 },
        }),
        _ => PagingOperation::VirtualFill(FillVirtual {
            allocation,
            allocation_offset_in_bytes: 0,
            fill_size_in_bytes: SIZE,
            fill_pattern: 0,
            destination_virtual_address: GpuVirtualAddress(0x20_0000),
        }),
    };
    let mut buffer = vec![0; machines.info().paging_buffer.size as usize];
    let (mut written, mut multipass_offset, begun) = (0, 0, Instant::now());
    for _ in 0..BUILDS {
        let mut build = BuildPagingBuffer {
            operation: &operation,
            dma_buffer: &mut buffer[written..],
            dma_buffer_write_offset: written as u32,
            dma_buffer_private_data: &mut [],
            dma_bytes_written: 0,
            private_bytes_written: 0,
            multipass_offset: &mut multipass_offset,
            allocation_is_idle: false,
            system_context,
        };
        match machine.kmd.build_paging_buffer(&mut build) {
            BuildStatus::Success => written += build.dma_bytes_written,
            BuildStatus::InsufficientDmaBuffer => written = 0,
            other => return Err(format!("the driver answered {other:?}").into()),
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{BUILDS} builds in {seconds:.2} s: {:.0} a second", f64::from(BUILDS) / seconds);
    Ok(())
}
