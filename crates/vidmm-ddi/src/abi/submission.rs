//! Submission, interrupts, resets.

use super::*;

/// `DXGK_SUBMITCOMMANDFLAGS.Paging`.
pub const SUBMIT_PAGING: u32 = 1 << 0;
/// `DXGK_SUBMITCOMMANDFLAGS.Present`, `DXGK_PATCHFLAGS.Present`.
pub const SUBMIT_PRESENT: u32 = 1 << 1;

/// `DXGK_PRESENTFLAGS.Blt`.
pub const PRESENT_BLT: u32 = 1 << 0;
/// The elements of a presentation's allocation list.
pub const DXGK_PRESENT_SOURCE_INDEX: usize = 1;
pub const DXGK_PRESENT_DESTINATION_INDEX: usize = 2;

pub const DXGK_INTERRUPT_DMA_COMPLETED: u32 = 1;
pub const DXGK_INTERRUPT_DMA_PREEMPTED: u32 = 2;
pub const DXGK_INTERRUPT_DMA_FAULTED: u32 = 4;
pub const DXGK_INTERRUPT_DMA_PAGE_FAULTED: u32 = 9;

/// The bits of `D3DDDI_PATCHLOCATIONLIST.Value` that are `SlotId`.
pub const SLOT_ID_MASK: u32 = (1 << 24) - 1;
/// The first bit of `DXGK_ALLOCATIONLIST.SegmentId`; `WriteOperation` is the bit before it.
pub const ALLOCATION_LIST_SEGMENT_SHIFT: u32 = 1;

/// `DXGKARG_COLLECTDBGINFO.Reason`.
pub const VIDEO_TDR_TIMEOUT_DETECTED: u32 = 0x117;
pub const VIDEO_ENGINE_TIMEOUT_DETECTED: u32 = 0x141;

/// The adapter itself, in place of a child.
pub const DISPLAY_ADAPTER_HW_ID: u32 = u32::MAX;
pub const POWER_DEVICE_D0: u32 = 1;
pub const POWER_DEVICE_D3: u32 = 4;
pub const POWER_ACTION_SLEEP: u32 = 2;
pub const POWER_ACTION_HIBERNATE: u32 = 3;

twin! {
    D3DDDI_PATCHLOCATIONLIST {
        AllocationIndex: u32,
        Value: u32,
        DriverId: u32,
        AllocationOffset: u32,
        PatchOffset: u32,
        SplitOffset: u32,
    }
    DXGK_ALLOCATIONLIST {
        hDeviceSpecificAllocation: HANDLE,
        WriteOperation: u32,
        PhysicalAddress: u64,
    }
    DXGKARG_RENDER {
        pCommand: *const u8,
        CommandLength: u32,
        pDmaBuffer: *mut u8,
        DmaSize: u32,
        pDmaBufferPrivateData: *mut u8,
        DmaBufferPrivateDataSize: u32,
        pAllocationList: *mut DXGK_ALLOCATIONLIST,
        AllocationListSize: u32,
        pPatchLocationListIn: *mut D3DDDI_PATCHLOCATIONLIST,
        PatchLocationListInSize: u32,
        pPatchLocationListOut: *mut D3DDDI_PATCHLOCATIONLIST,
        PatchLocationListOutSize: u32,
        MultipassOffset: u32,
        DmaBufferSegmentId: u32,
        DmaBufferPhysicalAddress: u64,
    }
    DXGKARG_PATCH {
        hContext: HANDLE,
        DmaBufferSegmentId: u32,
        DmaBufferPhysicalAddress: u64,
        pDmaBuffer: *mut u8,
        DmaBufferSize: u32,
        DmaBufferSubmissionStartOffset: u32,
        DmaBufferSubmissionEndOffset: u32,
        pDmaBufferPrivateData: *mut u8,
        DmaBufferPrivateDataSize: u32,
        DmaBufferPrivateDataSubmissionStartOffset: u32,
        DmaBufferPrivateDataSubmissionEndOffset: u32,
        pAllocationList: *const DXGK_ALLOCATIONLIST,
        AllocationListSize: u32,
        pPatchLocationList: *const D3DDDI_PATCHLOCATIONLIST,
        PatchLocationListSize: u32,
        PatchLocationListSubmissionStart: u32,
        PatchLocationListSubmissionLength: u32,
        SubmissionFenceId: u32,
        Flags: u32,
        EngineOrdinal: u32,
    }
    DXGKARG_SUBMITCOMMAND {
        hContext: HANDLE,
        DmaBufferSegmentId: u32,
        DmaBufferPhysicalAddress: u64,
        DmaBufferSize: u32,
        DmaBufferSubmissionStartOffset: u32,
        DmaBufferSubmissionEndOffset: u32,
        pDmaBufferPrivateData: *const u8,
        DmaBufferPrivateDataSize: u32,
        DmaBufferPrivateDataSubmissionStartOffset: u32,
        DmaBufferPrivateDataSubmissionEndOffset: u32,
        SubmissionFenceId: u32,
        VidPnSourceId: u32,
        FlipInterval: u32,
        Flags: u32,
        EngineOrdinal: u32,
        DmaBufferVirtualAddress: u64,
        NodeOrdinal: u32,
    }
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
    DXGKARG_CANCELCOMMAND {
        hContext: HANDLE,
        pDmaBuffer: *mut u8,
        DmaBufferSize: u32,
        DmaBufferSubmissionStartOffset: u32,
        DmaBufferSubmissionEndOffset: u32,
        pDmaBufferPrivateData: *mut u8,
        DmaBufferPrivateDataSize: u32,
        DmaBufferPrivateDataSubmissionStartOffset: u32,
        DmaBufferPrivateDataSubmissionEndOffset: u32,
        pAllocationList: *const DXGK_ALLOCATIONLIST,
        AllocationListSize: u32,
        pPatchLocationList: *const D3DDDI_PATCHLOCATIONLIST,
        PatchLocationListSize: u32,
        PatchLocationListSubmissionStart: u32,
        PatchLocationListSubmissionLength: u32,
        DmaBufferVirtualAddress: u64,
        DmaBufferUmdPrivateDataSize: u32,
    }
    DXGKARG_PRESENT {
        pDmaBuffer: *mut u8,
        DmaSize: u32,
        pDmaBufferPrivateData: *mut u8,
        DmaBufferPrivateDataSize: u32,
        pAllocationList: *mut DXGK_ALLOCATIONLIST,
        pPatchLocationListOut: *mut D3DDDI_PATCHLOCATIONLIST,
        PatchLocationListOutSize: u32,
        MultipassOffset: u32,
        Color: u32,
        DstRect: [i32; 4],
        SrcRect: [i32; 4],
        SubRectCnt: u32,
        pDstSubRects: *const [i32; 4],
        FlipInterval: u32,
        Flags: u32,
        DmaBufferSegmentId: u32,
        DmaBufferPhysicalAddress: u64,
        Reserved: usize,
        DmaBufferGpuVirtualAddress: u64,
        NumSrcAllocations: u32,
        NumDstAllocations: u32,
        PrivateDriverDataSize: u32,
        pPrivateDriverData: *mut c_void,
    }
    DXGKARG_PREEMPTCOMMAND {
        PreemptionFenceId: u32,
        NodeOrdinal: u32,
        EngineOrdinal: u32,
        Flags: u32,
    }
    DXGKARG_RESETENGINE {
        NodeOrdinal: u32,
        EngineOrdinal: u32,
        LastAbortedFenceId: u32,
    }
    DXGKARG_QUERYCURRENTFENCE {
        CurrentFence: u32,
        NodeOrdinal: u32,
        EngineOrdinal: u32,
    }
    DXGKARG_QUERYENGINESTATUS {
        NodeOrdinal: u32,
        EngineOrdinal: u32,
        EngineStatus: u32,
    }
    DXGKARG_COLLECTDBGINFO_EXT {
        BucketingKey: u32,
        CurrentDmaBufferOffset: u32,
        _1: [u32; 6],
    }
    DXGKARG_COLLECTDBGINFO {
        Reason: u32,
        pBuffer: *mut c_void,
        BufferSize: usize,
        pExtension: *mut DXGKARG_COLLECTDBGINFO_EXT,
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
    DMA_PREEMPTED {
        PreemptionFenceId: u32,
        LastCompletedFenceId: u32,
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
    pub DmaPreempted: DMA_PREEMPTED,
    pub DmaFaulted: DMA_FAULTED,
    pub DmaPageFaulted: DMA_PAGE_FAULTED,
    pub Space: [u64; 14],
}
