//! One allocation becomes resident: the shortest program that uses the core by itself.
//!
//! `cargo run -p vidmm --example make_resident`

use std::error::Error;

use vidmm::{AdapterOptions, MakeResidentFlags, Output, PhysicalAddress, VidMm};

// `ExampleDriver`, which the documentation of `vidmm::contract` shows.
include!("../src/contract/example_driver.rs");

/// A host with memory without end: addresses count up, and nothing is used twice.
struct ExampleHost(u64);

impl Host for ExampleHost {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        self.0 += size;
        Ok(PhysicalAddress { segment: SegmentId::SYSTEM, offset: self.0 - size })
    }

    fn decommit_backing_store(&mut self, _: PhysicalAddress, _size: u64) {}

    fn reset_backing_store(&mut self, _: PhysicalAddress, _size: u64) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut kmd, mut host) = (ExampleDriver::default(), ExampleHost(1 << 20));
    let mut vidmm = VidMm::start_adapter(AdapterOptions::default(), &mut kmd, &mut host)?;
    let process = vidmm.create_process(&mut kmd, &mut host)?;
    let device = vidmm.create_device(process)?;
    let queue = vidmm.create_paging_queue(device, 0)?;

    let private_driver_data = vidmm::PAGE_SIZE.to_le_bytes(); // For this driver: the size.
    let allocation = vidmm.create_allocation(&mut kmd, &mut host, device, &private_driver_data)?;
    let answer = vidmm.make_resident(queue, &[allocation], MakeResidentFlags::empty())?;
    println!("{allocation}: {answer:?}");

    // The first packets prepare the paging process; the last one fills the page and maps it.
    let mut packets = 0;
    while let Some(output) = vidmm.poll(0, &mut kmd, &mut host) {
        match output {
            Output::Submit(packet) => {
                packets += 1;
                vidmm.handle_completed(packet.signal, packet.buffer); // A GPU that takes no time.
            }
            output => println!("after {packets} packets: {output:?}"),
        }
    }
    Ok(())
}
