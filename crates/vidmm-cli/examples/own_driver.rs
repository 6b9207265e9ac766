//! A driver of one's own under a whole workload. This one wraps the reference driver, and answers *busy* and *buffer
//! full* as often as it may.
//!
//! `cargo run --release -p vidmm-cli --example own_driver`

use std::error::Error;

use vidmm::contract::{BuildPagingBuffer, BuildStatus, Kmd, PagingOperation};
use vidmm::{AdapterOptions, PageSize};
use vidmm_runtime::{HookedKmd, KmdHook, Machine};
use vidmm_sim::{Content, MachineDesc, RunDesc, Script, Unobserved};
use vidmm_soft::{CostModel, ModelGpuFaults, SoftAdapterConfig};
use vidmm_trace::Generator;

/// Answers *busy* to every transfer of an allocation that is not idle, and *buffer full* in every buffer that is not
/// new.
#[derive(Default)]
struct Contrary {
    busy: u64,
    full: u64,
}

impl KmdHook for Contrary {
    fn build_paging_buffer(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let is_transfer = matches!(build.operation, PagingOperation::VirtualTransfer(_));
        if is_transfer && !build.allocation_is_idle && *build.multipass_offset == 0 {
            self.busy += 1;
            return BuildStatus::AllocationBusy;
        }
        if build.dma_buffer_write_offset > 0 {
            self.full += 1;
            return BuildStatus::InsufficientDmaBuffer;
        }
        driver.build_paging_buffer(build)
    }
}

impl Drop for Contrary {
    fn drop(&mut self) {
        println!("the driver said busy {} times and buffer full {} times", self.busy, self.full);
    }
}

fn machine(desc: &MachineDesc) -> Result<Machine, String> {
    let config = SoftAdapterConfig { local_memory_bytes: desc.local_memory_bytes, ..SoftAdapterConfig::default() };
    let machine = Machine::from(vidmm_soft::machine(&config, CostModel::default(), ModelGpuFaults::default(), None));
    let kmd = Box::new(HookedKmd::new(machine.kmd, Contrary::default()));
    Ok(Machine { kmd, ..machine })
}

fn main() -> Result<(), Box<dyn Error>> {
    let workload = Generator::default().generate(1)?;
    let footprint = workload.footprint(PageSize::Kib64.bytes());
    let desc = RunDesc {
        machine: MachineDesc {
            local_memory_bytes: (footprint.peak_bytes / 2).next_multiple_of(1 << 20),
            ..MachineDesc::default()
        },
        content: Content::Uniform,
        clients: Vec::new(),
        script: Script::default(),
        strict: false,
        options: AdapterOptions::default(),
    };
    let report = vidmm_sim::run(&workload, &desc, &machine, &mut Unobserved)?;
    println!(
        "{} pages checked, {} wrong, {} findings",
        report.pages_checked,
        report.pages_wrong,
        report.findings.len()
    );
    if report.all_held() { Ok(()) } else { Err("something did not hold".into()) }
}
