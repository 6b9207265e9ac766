//! A driver without a model of its GPU: operations are executed as documented, whatever the driver encodes. This driver stands
//! for yours. It answers as ours does, says *buffer full* more often, and its commands mean nothing to anybody.
//!
//! `cargo run --release -p vidmm-cli --example no_gpu_model -- sim --seeds 1..100`

use std::process::ExitCode;

use vidmm::contract::{BuildPagingBuffer, BuildStatus, Kmd};
use vidmm_cli::ModelGpu;
use vidmm_runtime::{HookedKmd, KmdHook, Machine};
use vidmm_sim::{Features, MachineDesc, MachineFactory};
use vidmm_soft::{CostModel, ModelGpuFaults, semantic_machine};

/// Encodes each operation as bytes without a meaning, one operation to a paging buffer.
struct Nonsense;

impl KmdHook for Nonsense {
    fn build_paging_buffer(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        if build.dma_buffer_write_offset > 0 {
            return BuildStatus::InsufficientDmaBuffer;
        }
        let status = driver.build_paging_buffer(build);
        build.dma_buffer.iter_mut().take(build.dma_bytes_written).for_each(|byte| *byte = !*byte);
        status
    }
}

/// The factory of these machines.
pub struct NoGpuModel;

impl MachineFactory for NoGpuModel {
    fn name(&self) -> &str {
        "no-gpu-model"
    }

    fn lacks(&self) -> Features {
        Features::OWN_COMMANDS
            | Features::PROBE
            | Features::COMPRESSION
            | Features::COSTS
            | Features::INNER_FAULTS
            | Features::MODEL_OCCASIONS
    }

    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        let Machine { kmd, umd, .. } = ModelGpu.machine(desc)?;
        let kmd = Box::new(HookedKmd::new(kmd, Nonsense));
        let machine = semantic_machine(kmd, umd, CostModel::default(), ModelGpuFaults::default(), None);
        machine.map_err(|error| error.to_string())
    }
}

fn main() -> ExitCode {
    vidmm_cli::main(&NoGpuModel, &[])
}
