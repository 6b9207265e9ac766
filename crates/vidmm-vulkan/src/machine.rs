//! A machine on a Vulkan device, in lockstep with the model GPU (D15, D26).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use vidmm_runtime::{FaultSwitch, HookedHost, Machine};
use vidmm_soft::{
    CostModel, CpuAddresses, IoMmu, Memories, ModelGpu, ModelGpuFaults, SoftAdapterConfig, SoftHost, SoftKmd, SoftUmd,
    SystemMemory,
};

use crate::device::VulkanDevice;
use crate::error::VulkanError;
use crate::executor::VulkanExecutor;
use crate::host::ClearMemory;
use crate::memory::{Chunks, VulkanMemory};
use crate::report::Rules;

/// Builds a machine for the adapter that `config` describes: the reference driver, whose commands `device` executes at the
/// times of `cost`. It binds what `rules` allow, which are those of the device or stricter; pages that cannot be bound are
/// reached at addresses of their own.
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
    let memory = VulkanMemory::new(device.clone(), config, rules, Chunks::AsMapped)?;
    let Parts { kmd, gpu, host, cpu, .. } = Parts::new(memory, config, cost, None);
    Ok(Machine {
        cpu: Box::new(cpu),
        kmd: Box::new(kmd),
        umd: Box::new(SoftUmd),
        gpu: Box::new(gpu),
        host: Box::new(host),
        fault_switch: FaultSwitch::default(),
    })
}

/// A driver, a GPU and a host over one memory.
pub(crate) struct Parts {
    pub(crate) kmd: SoftKmd,
    pub(crate) gpu: ModelGpu<VulkanExecutor>,
    pub(crate) host: HookedHost<ClearMemory>,
    cpu: CpuAddresses,
    pub(crate) memory: Rc<RefCell<VulkanMemory>>,
}

impl Parts {
    /// Those of the adapter that `config` describes. `commit_limit` bounds the backing store, in bytes.
    pub(crate) fn new(
        memory: VulkanMemory,
        config: &SoftAdapterConfig,
        cost: CostModel,
        commit_limit: Option<u64>,
    ) -> Self {
        let (system, io_mmu, faults) = (SystemMemory::new(), IoMmu::new(), ModelGpuFaults::default());
        let memory = Rc::new(RefCell::new(memory));
        let executor = VulkanExecutor::new(Memories::new(config, system.clone()), memory.clone());
        let kmd = SoftKmd::new(config.clone()).with_memory(system.clone());
        let gpu = ModelGpu::over(config, cost, faults, executor, io_mmu.clone()).with_surface_book(kmd.surface_book());
        let host = SoftHost::new(system, io_mmu, commit_limit);
        let cpu = host.cpu_addresses().clone();
        let host = HookedHost::new(Box::new(host), ClearMemory(memory.clone()));
        Self { kmd, gpu, host, cpu, memory }
    }
}
