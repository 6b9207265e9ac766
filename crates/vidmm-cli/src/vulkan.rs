//! A Vulkan device as the machine of a run.

use std::sync::Arc;

use vidmm::contract::AddressingModel;
use vidmm_runtime::Machine;
use vidmm_sim::{Features, MachineDesc, MachineFactory};
use vidmm_vulkan::{Rules, Validation, VulkanDevice, VulkanError, direct_machine, machine};

use crate::soft;

/// A Vulkan device that executes the commands of the reference driver, at the virtual times of the model GPU.
///
/// It has page tables of its own, and nothing that resets it, loses its power or makes mistakes inside.
#[derive(Clone, Debug)]
pub struct VulkanGpu {
    device: Arc<VulkanDevice>,
    rules: Rules,
    is_direct: bool,
}

impl VulkanGpu {
    /// The name on the command line.
    pub const NAME: &str = "vulkan";

    /// The features that the model GPU has and a Vulkan device lacks.
    pub const LACKS: Features = Features::models_except(AddressingModel::GpuMmu)
        .union(Features::ENGINE_RESET)
        .union(Features::ADAPTER_RESET)
        .union(Features::DEPENDENT_ENGINES)
        .union(Features::POWER)
        .union(Features::INNER_FAULTS)
        .union(Features::CPU_TABLES);

    /// The first device that can be used.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn open(validation: Validation) -> Result<Self, VulkanError> {
        let device = VulkanDevice::open(validation)?;
        let rules = device.report().rules();
        Ok(Self { device, rules, is_direct: false })
    }

    /// The same device, which binds no more than `rules` allow.
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// The same device, on which the driver of real time pages ([`direct_machine`]).
    pub fn with_direct_driver(self) -> Self {
        Self { is_direct: true, ..self }
    }

    /// The device.
    pub fn device(&self) -> &VulkanDevice {
        &self.device
    }
}

impl MachineFactory for VulkanGpu {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn lacks(&self) -> Features {
        Self::LACKS
    }

    /// A device that cannot go on ends the command by a panic of its own, which tells of it.
    fn panics_are_findings(&self) -> bool {
        false
    }

    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        let (config, cost) = soft::described(desc)?;
        let machine = if self.is_direct { direct_machine } else { machine };
        machine(&self.device, self.rules, &config, cost).map_err(|error| error.to_string())
    }
}
