//! A machine for a driver without a model of its GPU: the paging operations are carried out as documented.
//!
//! The author's driver is asked for everything, and its answers count: the adapter, allocations, statuses, bytes
//! written, progress, busy answers. Beside it the reference driver encodes the same operations, and a [`ModelGpu`]
//! executes these commands in the place of the author's. So the manager and the driver's protocol are judged, with
//! content, and the effects of the driver's bytes are not.

mod adapter;
mod driver;
mod gpu;
mod packets;
mod umd;

use vidmm::contract::Kmd;
use vidmm_runtime::{FaultSwitch, Machine, Umd};

pub use adapter::SemanticError;

use crate::{CostModel, IoMmu, ModelGpu, ModelGpuFaults, SoftHost, SoftKmd, SystemMemory};
use driver::SemanticKmd;
use gpu::SemanticGpu;
use packets::PacketOperations;
use umd::SemanticUmd;

/// Builds a machine that executes the paging operations of `kmd` as documented, whatever `kmd` encodes.
///
/// `umd` writes the private data of allocations, which `kmd` parses. Kernels are those of [`SoftUmd`](crate::SoftUmd),
/// and allocations are never compressed. `kmd` describes its adapter once, here. `commit_limit` bounds the backing
/// store, in bytes.
///
/// These functions of `kmd` have no effect, because they belong to its encoding: `interrupt_routine` and, on an adapter
/// without GPU virtual addresses, `render` and `patch` are not called; the preamble that `submit_command` writes is
/// dropped.
///
/// An operation that `kmd` may have without commands, such as one that it carries out by registers, gets a byte in an
/// empty paging buffer, so that a packet carries it out. An operation that must have commands and has none is not
/// carried out.
///
/// # Errors
///
/// If `kmd` describes an adapter that the model GPU cannot be.
pub fn semantic_machine(
    mut kmd: Box<dyn Kmd>,
    umd: Box<dyn Umd>,
    cost: CostModel,
    faults: ModelGpuFaults,
    commit_limit: Option<u64>,
) -> Result<Machine, SemanticError> {
    let info = kmd.query_adapter_info();
    let config = adapter::config_of(&info)?;
    let (system, io_mmu, packets) = (SystemMemory::new(), IoMmu::new(), PacketOperations::default());
    let soft = SoftKmd::new(config.clone()).with_memory(system.clone());
    let host = SoftHost::new(system.clone(), io_mmu.clone(), commit_limit).with_faults(&faults);
    let gpu = ModelGpu::new(&config, cost, faults, system, io_mmu);
    Ok(Machine {
        kmd: Box::new(SemanticKmd::new(kmd, info, soft, packets.clone())),
        umd: Box::new(SemanticUmd(umd)),
        gpu: Box::new(SemanticGpu::new(gpu, packets)),
        cpu: Box::new(host.cpu_addresses().clone()),
        host: Box::new(host),
        fault_switch: FaultSwitch::default(),
    })
}
