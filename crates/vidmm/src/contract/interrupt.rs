//! The driver's reports in an interrupt (6.2), and its answers to a reset (6.3).

use alloc::vec::Vec;

use bitflags::bitflags;

use super::{DmaBuffer, KmdProcessHandle};
use crate::units::GpuVirtualAddress;

/// An interrupt of the GPU, as its driver decodes it.
#[doc(alias = "DXGKARGCB_NOTIFY_INTERRUPT_DATA")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotifyInterrupt {
    /// A packet accessed an address where nothing is resident; its engine has stopped (FLT-03).
    #[doc(alias = "DXGK_INTERRUPT_DMA_PAGE_FAULTED")]
    DmaPageFaulted(DmaPageFaulted),
    /// A packet holds a command that means nothing; its engine has stopped.
    #[doc(alias = "DXGK_INTERRUPT_DMA_FAULTED")]
    DmaFaulted {
        /// The packet.
        faulted_fence_id: u64,
        /// Its engine.
        node_ordinal: u32,
    },
}

/// An access that cannot be recovered from (6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DmaPageFaulted {
    /// The packet that faulted; 0 with [`FENCE_INVALID`](PageFaultFlags::FENCE_INVALID). All earlier packets of the engine have
    /// ended (FLT-11).
    pub faulted_fence_id: u64,
    /// The draw or dispatch call; [`PRIMITIVE_API_SEQUENCE_NUMBER_UNKNOWN`](Self::PRIMITIVE_API_SEQUENCE_NUMBER_UNKNOWN) if not
    /// known (FLT-12).
    pub faulted_primitive_api_sequence_number: u64,
    /// The stage of the pipeline, 0 to 7; 0 is unknown.
    pub faulted_pipeline_stage: u32,
    /// The entry of the binding table; [`BIND_TABLE_ENTRY_UNKNOWN`](Self::BIND_TABLE_ENTRY_UNKNOWN) if not known.
    pub faulted_bind_table_entry: u32,
    /// The known facts, and the GPU's need.
    pub page_fault_flags: PageFaultFlags,
    /// The address; 0 if it is not known, and the error code explains (FLT-12).
    pub faulted_virtual_address: GpuVirtualAddress,
    /// The engine.
    pub node_ordinal: u32,
    /// The level of the page tables at which the walk ended.
    pub page_table_level: u32,
    /// The error code.
    pub fault_error_code: FaultErrorCode,
    /// The process, if the driver knows it (FLT-14).
    #[cfg_attr(feature = "serde", serde(skip))]
    pub faulted_process: Option<KmdProcessHandle>,
}

impl DmaPageFaulted {
    /// The draw or dispatch call is not known.
    #[doc(alias = "DXGK_PRIMITIVE_API_SEQUENCE_NUMBER_UNKNOWN")]
    pub const PRIMITIVE_API_SEQUENCE_NUMBER_UNKNOWN: u64 = u64::MAX;
    /// The entry of the binding table is not known.
    #[doc(alias = "DXGK_BIND_TABLE_ENTRY_UNKNOWN")]
    pub const BIND_TABLE_ENTRY_UNKNOWN: u32 = u32::MAX;
}

bitflags! {
    /// The kind of a page fault, and the GPU's need after it (FLT-10).
    #[doc(alias = "DXGK_PAGE_FAULT_FLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct PageFaultFlags: u32 {
        /// It was a write.
        const WRITE = 1 << 0;
        /// The packet is not known: its number is 0, and a reset bit is set (FLT-11).
        const FENCE_INVALID = 1 << 1;
        /// Only a reset of the adapter clears the error.
        const ADAPTER_RESET_REQUIRED = 1 << 2;
        /// A reset of the engine clears the error.
        const ENGINE_RESET_REQUIRED = 1 << 3;
        /// The hardware is broken: the adapter stops.
        const FATAL_HARDWARE_ERROR = 1 << 4;
        /// The address was translated by the IOMMU.
        const IOMMU = 1 << 5;
        /// The context is known, its queue is not.
        const HW_CONTEXT_VALID = 1 << 6;
        /// Only the process is known.
        const PROCESS_HANDLE_VALID = 1 << 7;
    }
}

/// The error code of a page fault: bit 0 says that the code is the device's own, the others are the code (FLT-12).
#[doc(alias = "DXGK_FAULT_ERROR_CODE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FaultErrorCode(pub u32);

impl FaultErrorCode {
    /// An address where nothing is resident.
    #[doc(alias = "DXGK_GENERAL_ERROR_PAGE_FAULT")]
    pub const PAGE_FAULT: Self = Self(0);
    /// A command that means nothing.
    #[doc(alias = "DXGK_GENERAL_ERROR_INVALID_INSTRUCTION")]
    pub const INVALID_INSTRUCTION: Self = Self(1 << 1);
}

/// Buffers of packets that an engine will not run, with the fence that each would have signalled, oldest first.
pub type ReturnedBuffers = Vec<(u64, DmaBuffer)>;

/// The driver could not reset an engine (FLT-21): the adapter is reset instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the driver could not reset the engine")]
pub struct ResetEngineError;

/// The driver could not restart the adapter (FLT-32): it has stopped for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the driver could not restart the adapter")]
pub struct RestartError;
