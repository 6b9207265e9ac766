//! The user-mode half: the driver's private data, and kernels of ours.

use std::rc::Rc;

use vidmm_runtime::{AllocationDesc, AllocationSegments, CommandStep, CpuAccess, KernelCommand, Umd, UserCommands};
use vidmm_soft::CommandBuffer;

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::progress::Entry;
use crate::reports::report;
use crate::user_work::{self, UserCommandsInC};

/// Private data of more bytes no driver has.
const PRIVATE_DATA_BYTES: u32 = 4096;

/// The user-mode half of a driver in C.
pub(crate) struct DdiUmd(pub Rc<Adapter>);

impl Umd for DdiUmd {
    fn encode_kernel(&self, kernel: &KernelCommand) -> Vec<u8> {
        user_work::encode(kernel)
    }

    fn encode_command_buffer(&self, steps: &[CommandStep]) -> UserCommands {
        steps.iter().fold(CommandBuffer::with_encoding(UserCommandsInC), CommandBuffer::step).finish()
    }

    fn allocation_private_data(&self, desc: &AllocationDesc) -> Vec<u8> {
        let (local, system) = match desc.segments {
            AllocationSegments::Local => (true, false),
            AllocationSegments::System => (false, true),
            AllocationSegments::LocalOrSystem | AllocationSegments::Ordered(_) => (true, true),
        };
        let (is_visible, is_permanent, is_existing) = match desc.cpu {
            CpuAccess::None => (false, false, false),
            CpuAccess::Visible => (true, false, false),
            CpuAccess::PermanentSysMem => (true, true, false),
            CpuAccess::ExistingSysMem => (true, false, true),
        };
        let wanted = VIDMM_ALLOCATION {
            Size: desc.size,
            MayBeLocal: local.into(),
            MayBeSystem: system.into(),
            CpuVisible: is_visible.into(),
            PermanentSysMem: is_permanent.into(),
            ExistingSysMem: is_existing.into(),
            Priority: desc.priority,
        };
        let Some(function) = self.0.driver().test().GetAllocationPrivateData else { return Vec::new() };
        let mut data = vec![0; PRIVATE_DATA_BYTES as usize];
        // SAFETY: the struct and the buffer live for the call.
        let size = self.0.call(Entry::GetAllocationPrivateData, PASSIVE_LEVEL, || unsafe {
            function(&wanted, data.as_mut_ptr(), PRIVATE_DATA_BYTES)
        });
        if size > PRIVATE_DATA_BYTES {
            report("DDI-PRIVATE-DATA", format!("GetAllocationPrivateData has returned {size}: there is room for 4096"));
        }
        data.truncate(size.min(PRIVATE_DATA_BYTES) as usize);
        self.0.wanted.borrow_mut().insert(data.clone(), desc.size);
        data
    }
}
