//! The user-mode half of a semantic machine: the author's private data, and kernels of the model GPU.

use vidmm_runtime::{AllocationDesc, BoundKernel, CommandStep, KernelCommand, Umd, UserCommands};

use crate::umd::SoftUmd;

/// The author's user-mode half, of which the private data of allocations is used.
pub(super) struct SemanticUmd(pub Box<dyn Umd>);

/// No range belongs to a compression surface: a driver that does not know the model GPU could not make it plain.
impl Umd for SemanticUmd {
    fn encode_kernel(&self, kernel: &KernelCommand) -> Vec<u8> {
        let mut kernel = kernel.clone();
        kernel.inputs.iter_mut().chain(&mut kernel.outputs).for_each(|range| range.surface = None);
        SoftUmd.encode_kernel(&kernel)
    }

    fn encode_command_buffer(&self, steps: &[CommandStep]) -> UserCommands {
        let steps: Vec<CommandStep> = steps.iter().cloned().map(without_surfaces).collect();
        SoftUmd.encode_command_buffer(&steps)
    }

    fn allocation_private_data(&self, desc: &AllocationDesc) -> Vec<u8> {
        self.0.allocation_private_data(desc)
    }
}

fn without_surfaces(step: CommandStep) -> CommandStep {
    let CommandStep::Kernel(BoundKernel { mut inputs, mut outputs, kernel, nanoseconds, content }) = step else {
        return step;
    };
    inputs.iter_mut().chain(&mut outputs).for_each(|range| range.surface = None);
    CommandStep::Kernel(BoundKernel { inputs, outputs, kernel, nanoseconds, content })
}
