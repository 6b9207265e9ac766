//! The user-mode half of the reference driver: it encodes kernels, and what it wants of allocations.

use vidmm::contract::{AllocationFlags, AllocationFlags2};
use vidmm_runtime::{AllocationDesc, CommandStep, CpuAccess, KernelCommand, Umd, UserCommands};

use crate::command_buffer::CommandBuffer;
use crate::encoding::{self, Command};
use crate::private_data::AllocationPrivateData;

/// The user-mode half of the reference driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoftUmd;

impl Umd for SoftUmd {
    fn encode_kernel(&self, kernel: &KernelCommand) -> Vec<u8> {
        let mut bytes = Vec::new();
        encoding::encode_to_vec(&Command::Kernel(kernel.clone()), &mut bytes);
        bytes
    }

    fn encode_command_buffer(&self, steps: &[CommandStep]) -> UserCommands {
        steps.iter().fold(CommandBuffer::new(), CommandBuffer::step).finish()
    }

    fn allocation_private_data(&self, desc: &AllocationDesc) -> Vec<u8> {
        let mut flags = AllocationFlags::empty();
        flags.set(AllocationFlags::ACCESSED_PHYSICALLY, desc.accessed_physically);
        flags.set(AllocationFlags::CACHED, desc.cached);
        flags.set(AllocationFlags::DISABLE_LARGE_PAGE_MAPPING, desc.disable_large_page_mapping);
        flags.set(AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION, desc.explicit_residency_notification);
        flags |= match desc.cpu {
            CpuAccess::None => AllocationFlags::empty(),
            CpuAccess::Visible => AllocationFlags::CPU_VISIBLE,
            CpuAccess::PermanentSysMem => AllocationFlags::CPU_VISIBLE | AllocationFlags::PERMANENT_SYS_MEM,
            CpuAccess::ExistingSysMem => AllocationFlags::CPU_VISIBLE | AllocationFlags::EXISTING_SYS_MEM,
        };
        let mut flags2 = AllocationFlags2::empty();
        flags2.set(AllocationFlags2::NOTIFY_EVICTION, desc.notify_eviction);
        flags2.set(AllocationFlags2::NOTIFY_IO_MMU_UNMAP, desc.notify_io_mmu_unmap);
        AllocationPrivateData {
            size: desc.size,
            allocation_priority: desc.priority,
            flags,
            flags2,
            segments: desc.segments,
            surface: desc.surface,
            foreign: None,
            placement: desc.placement,
        }
        .to_bytes()
    }
}
