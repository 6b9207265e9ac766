//! Machines on a Vulkan device, in lockstep with the model GPU (D15, D26).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use vidmm::PAGE_SIZE;
use vidmm_runtime::{FaultSwitch, HookedHost, HookedKmd, Machine};
use vidmm_soft::{
    CostModel, IoMmu, Memories, ModelGpu, ModelGpuFaults, SoftAdapterConfig, SoftHost, SoftKmd, SoftUmd, SystemMemory,
};

use super::direct::{DirectGpu, DirectWatch, Packets};
use super::executor::VulkanExecutor;
use super::host::ClearMemory;
use super::tables::Tables;
use crate::device::VulkanDevice;
use crate::error::VulkanError;
use crate::memory::{Chunks, VulkanMemory};
use crate::report::Rules;

/// Builds a machine for the adapter that `config` describes: `device` executes the reference driver's commands at the
/// times of `cost`. `rules`, the device's or stricter, say which pages are bound. Kernels reach further pages at addresses of the
/// memory itself.
///
/// Machines on one device take turns.
///
/// # Errors
///
/// If a call of Vulkan fails.
///
/// # Panics
///
/// If [`SoftAdapterConfig::check`] finds an error.
pub fn machine(
    device: &Arc<VulkanDevice>,
    rules: Rules,
    config: &SoftAdapterConfig,
    cost: CostModel,
) -> Result<Machine, VulkanError> {
    let page_bits = config.virtual_address_bit_count - PAGE_SIZE.trailing_zeros();
    let parts = Parts::new(device, rules, config, cost, Some(Tables::new(1 << page_bits)))?;
    Ok(Machine {
        kmd: Box::new(parts.kmd),
        umd: Box::new(SoftUmd),
        gpu: Box::new(parts.gpu),
        cpu: Box::new(parts.host.cpu_addresses().clone()),
        host: Box::new(HookedHost::new(Box::new(parts.host), ClearMemory(parts.memory))),
        fault_switch: FaultSwitch::default(),
    })
}

/// The same machine, but the driver of real time pages. The reference driver's commands say when a packet ends. At the end, the operations of
/// the other driver's encoder are carried out: copies, fills and mappings. Kernels use these mappings.
///
/// # Errors
///
/// If a call of Vulkan fails.
///
/// # Panics
///
/// If [`SoftAdapterConfig::check`] finds an error. A run panics if the encoder does not know an operation.
pub fn direct_machine(
    device: &Arc<VulkanDevice>,
    rules: Rules,
    config: &SoftAdapterConfig,
    cost: CostModel,
) -> Result<Machine, VulkanError> {
    let parts = Parts::new(device, rules, config, cost, None)?;
    let packets = Packets::default();
    Ok(Machine {
        kmd: Box::new(HookedKmd::new(Box::new(parts.kmd), DirectWatch::new(packets.clone()))),
        umd: Box::new(SoftUmd),
        gpu: Box::new(DirectGpu::new(parts.gpu, packets, parts.memory.clone())),
        cpu: Box::new(parts.host.cpu_addresses().clone()),
        host: Box::new(HookedHost::new(Box::new(parts.host), ClearMemory(parts.memory))),
        fault_switch: FaultSwitch::default(),
    })
}

/// A driver, a GPU and a host over a memory.
struct Parts {
    kmd: SoftKmd,
    gpu: ModelGpu<VulkanExecutor>,
    host: SoftHost,
    memory: Rc<RefCell<VulkanMemory>>,
}

impl Parts {
    fn new(
        device: &Arc<VulkanDevice>,
        rules: Rules,
        config: &SoftAdapterConfig,
        cost: CostModel,
        mappings: Option<Tables>,
    ) -> Result<Self, VulkanError> {
        let segments = config.memory_segments().map(|(segment, ..)| segment);
        let memory = VulkanMemory::new(device.clone(), segments, rules, Chunks::AsMapped)?;
        let memory = Rc::new(RefCell::new(memory));
        let (system, io_mmu) = (SystemMemory::new(), IoMmu::new());
        let executor = VulkanExecutor::new(Memories::new(config, system.clone()), mappings, memory.clone());
        let kmd = SoftKmd::new(config.clone()).with_memory(system.clone());
        let gpu = ModelGpu::over(config, cost, ModelGpuFaults::default(), executor, io_mmu.clone());
        let gpu = gpu.with_surface_book(kmd.surface_book());
        Ok(Self { kmd, gpu, host: SoftHost::new(system, io_mmu, None), memory })
    }
}
