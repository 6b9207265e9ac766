//! One allocation becomes resident: the shortest program with a driver and a GPU.
//!
//! `cargo run -p vidmm-runtime --example model_gpu`

use std::error::Error;

use vidmm::{AdapterOptions, MakeResidentFlags};
use vidmm_runtime::{AllocationDesc, Runtime};
use vidmm_soft::{CostModel, ModelGpuFaults, SoftAdapterConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let config = SoftAdapterConfig::default();
    let machine = vidmm_soft::machine(&config, CostModel::default(), ModelGpuFaults::default(), None);
    let mut runtime = Runtime::start(AdapterOptions::default(), machine.into())?;

    let private_driver_data = runtime.umd().allocation_private_data(&AllocationDesc::local(vidmm::PAGE_SIZE));
    let (vidmm, kmd, host) = runtime.borrow();
    let process = vidmm.create_process(kmd, host)?;
    let device = vidmm.create_device(process)?;
    let queue = vidmm.create_paging_queue(device, 0)?;
    let allocation = vidmm.create_allocation(kmd, host, device, &private_driver_data)?;
    let answer = vidmm.make_resident(queue, &[allocation], MakeResidentFlags::empty())?;
    println!("{allocation}: {answer:?}");

    // The runtime polls, hands packets to the GPU, and lets its time pass.
    while runtime.advance(None) {
        while let Some(happening) = runtime.next_happening() {
            println!("{:>6} ns  {happening:?}", runtime.now());
        }
    }
    Ok(())
}
