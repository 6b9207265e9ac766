//! Submission, interrupts, resets.

use super::*;

/// `DXGK_SUBMITCOMMANDFLAGS.Paging`.
pub const SUBMIT_PAGING: u32 = 1 << 0;

pub const DXGK_INTERRUPT_DMA_COMPLETED: u32 = 1;
pub const DXGK_INTERRUPT_DMA_FAULTED: u32 = 4;
pub const DXGK_INTERRUPT_DMA_PAGE_FAULTED: u32 = 9;

twin! {
    DXGKARG_SUBMITCOMMANDVIRTUAL {
        hContext: HANDLE,
        DmaBufferVirtualAddress: u64,
        DmaBufferSize: u32,
        pDmaBufferPrivateData: *const u8,
        DmaBufferPrivateDataSize: u32,
        DmaBufferUmdPrivateDataSize: u32,
        SubmissionFenceId: u32,
        VidPnSourceId: u32,
        FlipInterval: u32,
        Flags: u32,
        EngineOrdinal: u32,
        NodeOrdinal: u32,
    }
    DXGKARG_RESETENGINE {
        NodeOrdinal: u32,
        EngineOrdinal: u32,
        LastAbortedFenceId: u32,
    }
    DXGKARG_QUERYDEPENDENTENGINEGROUP {
        NodeOrdinal: u32,
        EngineOrdinal: u32,
        DependentNodeOrdinalMask: u64,
    }
    DMA_COMPLETED {
        SubmissionFenceId: u32,
        NodeOrdinal: u32,
        EngineOrdinal: u32,
    }
    DMA_FAULTED {
        FaultedFenceId: u32,
        Status: NTSTATUS,
        NodeOrdinal: u32,
        EngineOrdinal: u32,
    }
    DMA_PAGE_FAULTED {
        FaultedFenceId: u32,
        FaultedPrimitiveAPISequenceNumber: u64,
        FaultedPipelineStage: u32,
        FaultedBindTableEntry: u32,
        PageFaultFlags: u32,
        FaultedVirtualAddress: u64,
        NodeOrdinal: u32,
        EngineOrdinal: u32,
        PageTableLevel: u32,
        FaultErrorCode: u32,
        FaultedProcessHandle: HANDLE,
    }
    DXGKARGCB_NOTIFY_INTERRUPT_DATA {
        InterruptType: u32,
        Data: INTERRUPT_DATA,
    }
}

/// The union of the reports that are read.
#[repr(C)]
#[derive(Clone, Copy)]
pub union INTERRUPT_DATA {
    pub DmaCompleted: DMA_COMPLETED,
    pub DmaFaulted: DMA_FAULTED,
    pub DmaPageFaulted: DMA_PAGE_FAULTED,
    pub Space: [u64; 14],
}
