//! A machine of another shape: the CPU writes its page tables, which are in system memory (BPB-08, GVA-10). Driver and GPU are
//! otherwise ours.
//!
//! `cargo run --release -p vidmm-cli --example cpu_tables -- sim --seeds 1..100`

use std::process::ExitCode;

use vidmm::contract::{AddressingModel, PageTableUpdateMode};
use vidmm_cli::ModelGpu;
use vidmm_runtime::Machine;
use vidmm_sim::{Features, MachineDesc, MachineFactory};

struct CpuTables;

impl MachineFactory for CpuTables {
    fn name(&self) -> &str {
        "cpu-tables"
    }

    fn lacks(&self) -> Features {
        Features::models_except(AddressingModel::GpuMmu) | Features::TABLE_SHAPE
    }

    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        let desc = MachineDesc {
            page_tables_in_system_memory: true,
            // A table in system memory is one page of entries (GVA-15).
            virtual_address_bits: None,
            page_table_bits: Some(vec![9, 9, 9]),
            dual_pte: false,
            page_table_update_mode: PageTableUpdateMode::CpuVirtual,
            ..desc.clone()
        };
        ModelGpu.machine(&desc)
    }
}

fn main() -> ExitCode {
    vidmm_cli::main(&CpuTables, &[])
}
