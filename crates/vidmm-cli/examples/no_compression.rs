//! A machine of another shape: it compresses nothing. Driver and GPU are otherwise ours.
//!
//! `cargo run --release -p vidmm-cli --example no_compression -- sim --seeds 1..100`

use std::process::ExitCode;

use vidmm_cli::ModelGpu;
use vidmm_runtime::Machine;
use vidmm_sim::{Features, MachineDesc, MachineFactory};

struct NoCompression;

impl MachineFactory for NoCompression {
    fn name(&self) -> &str {
        "no-compression"
    }

    fn lacks(&self) -> Features {
        Features::COMPRESSION
    }

    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        ModelGpu.machine(desc)
    }
}

fn main() -> ExitCode {
    vidmm_cli::main(&NoCompression, &[])
}
