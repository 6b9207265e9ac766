//! The driver's report.

use super::*;

pub const DXGKQAITYPE_DRIVERCAPS: u32 = 1;
pub const DXGKQAITYPE_QUERYSEGMENT: u32 = 2;
pub const DXGKQAITYPE_QUERYSEGMENT3: u32 = 5;
pub const DXGKQAITYPE_NUMPOWERCOMPONENTS: u32 = 6;
pub const DXGKQAITYPE_POWERCOMPONENTINFO: u32 = 7;
pub const DXGKQAITYPE_QUERYSEGMENT4: u32 = 11;
pub const DXGKQAITYPE_GPUMMUCAPS: u32 = 13;
pub const DXGKQAITYPE_PAGETABLELEVELDESC: u32 = 14;
pub const DXGKQAITYPE_PHYSICALADAPTERCAPS: u32 = 15;
pub const DXGKQAITYPE_PHYSICAL_MEMORY_CAPS: u32 = 34;
pub const DXGKQAITYPE_IOMMU_CAPS: u32 = 35;
pub const DXGKQAITYPE_PAGINGPROCESSGPUVASIZE: u32 = 48;

/// `DXGK_VIDMMCAPS`: bits of `MemoryManagementCaps`.
pub const VIDMMCAPS_VIRTUAL_ADDRESSING_SUPPORTED: u32 = 1 << 5;
pub const VIDMMCAPS_GPU_MMU_SUPPORTED: u32 = 1 << 6;
pub const VIDMMCAPS_IO_MMU_SUPPORTED: u32 = 1 << 7;

/// `DXGK_VIDSCHCAPS`: bits of `SchedulingCaps`.
pub const VIDSCHCAPS_PREEMPTION_AWARE: u32 = 1 << 2;
pub const VIDSCHCAPS_NO_DMA_PATCHING: u32 = 1 << 3;
pub const VIDSCHCAPS_CANCEL_COMMAND_AWARE: u32 = 1 << 4;

/// `DXGK_SEGMENTFLAGS`: bits of a segment whose memory the CPU reaches, in whole or through a host aperture.
pub const SEGMENT_CPU_VISIBLE: u32 = 1 << 2;
pub const SEGMENT_USE_64KB_PAGES: u32 = 1 << 11;
pub const SEGMENT_CPU_HOST_APERTURE: u32 = 1 << 13;
pub const SEGMENT_CACHED_CPU_HOST_APERTURE: u32 = 1 << 14;

/// `DXGK_IOMMU_CAPS`.
pub const IOMMU_ISOLATION_SUPPORTED: u32 = 1 << 0;
pub const IOMMU_ISOLATION_REQUIRED: u32 = 1 << 1;
pub const IOMMU_DMA_REMAPPING_SUPPORTED: u32 = 1 << 2;

pub const DXGK_MAX_F_STATES: usize = 8;
pub const DXGK_MAX_POWER_COMPONENT_PROVIDERS: usize = 16;
/// `DXGK_POWER_COMPONENT_MAPPING.ComponentType`: the components of which one at most has the same engine, monitor or segment.
pub const POWER_COMPONENTS_OF_ONE: std::ops::RangeInclusive<u32> = 0..=4;
/// `DXGK_POWER_COMPONENT_FLAGS.DriverCompletesFStateTransition`.
pub const POWER_DRIVER_COMPLETES_TRANSITION: u32 = 1 << 1;
/// The words of `GUID_DXGKDDI_POWER_MANAGEMENT_PREPARE_TO_START`, of `GUID_DXGKDDI_POWER_MANAGEMENT_STARTED`, and of a request that no
/// driver knows.
pub const POWER_REQUESTS: [[u32; 4]; 3] = [[0x7664_646D, 1, 0, 0], [0x7664_646D, 2, 0, 0], [0x7664_646D, 0xFFFF, 0, 0]];

pub const DXGK_ENGINE_TYPE_COPY: u32 = 6;

twin! {
    DXGKARG_QUERYADAPTERINFO {
        Type: u32,
        pInputData: *const c_void,
        InputDataSize: u32,
        pOutputData: *mut c_void,
        OutputDataSize: u32,
        Flags: u32,
        hKmdProcessHandle: HANDLE,
    }
    DXGK_DRIVERCAPS {
        HighestAcceptableAddress: i64,
        MaxAllocationListSlotId: u32,
        ApertureSegmentCommitLimit: usize,
        MaxPointerWidth: u32,
        MaxPointerHeight: u32,
        PointerCaps: u32,
        InterruptMessageNumber: u32,
        NumberOfSwizzlingRanges: u32,
        MaxOverlays: u32,
        GammaRampCaps: u32,
        PresentationCaps: u32,
        MaxQueuedFlipOnVSync: u32,
        FlipCaps: u32,
        SchedulingCaps: u32,
        MemoryManagementCaps: u32,
        PagingNode: u32,
        GpuEngineTopology: u32,
        EngineReserved: [u32; 64],
        WDDMVersion: u32,
        Reserved: [u32; 7],
        Reserved1: [u32; 40],
        PreemptionCaps: [u32; 2],
        SupportNonVGA: BOOLEAN,
        SupportSmoothRotation: BOOLEAN,
        SupportPerEngineTDR: BOOLEAN,
        SupportDirectFlip: BOOLEAN,
        SupportMultiPlaneOverlay: BOOLEAN,
        SupportRuntimePowerManagement: BOOLEAN,
        SupportSurpriseRemovalInHibernation: BOOLEAN,
        HybridDiscrete: BOOLEAN,
        MaxOverlayPlanes: u32,
        HybridIntegrated: BOOLEAN,
        InternalGpuVirtualAddressRangeStart: u64,
        InternalGpuVirtualAddressRangeEnd: u64,
        SupportSurpriseRemoval: BOOLEAN,
        SupportMultiPlaneOverlayImmediateFlip: BOOLEAN,
        CursorScaledWithMultiPlaneOverlayPlane0: BOOLEAN,
        HybridAcpiChainingRequired: BOOLEAN,
        MaxQueuedMultiPlaneOverlayFlipVSync: u32,
        MiscCaps: u32,
        MaxHwQueuedFlips: u32,
        HwQueuedFlipCaps: u32,
    }
    DXGK_PHYSICALADAPTERCAPS {
        NumExecutionNodes: u16,
        PagingNodeIndex: u16,
        DxgkPhysicalAdapterHandle: HANDLE,
        Flags: u32,
        VPRPagingNode: u32,
        VirtualCopyNodeIndex: u32,
    }
    DXGK_QUERYSEGMENTIN {
        AgpApertureBase: u64,
        AgpApertureSize: u64,
        AgpFlags: u32,
    }
    DXGK_QUERYSEGMENTOUT {
        NbSegment: u32,
        pSegmentDescriptor: *mut u8,
        PagingBufferSegmentId: u32,
        PagingBufferSize: u32,
        PagingBufferPrivateDataSize: u32,
    }
    DXGK_SEGMENTDESCRIPTOR {
        BaseAddress: u64,
        CpuTranslatedAddress: u64,
        Size: usize,
        NbOfBanks: u32,
        pBankRangeTable: *const usize,
        CommitLimit: usize,
        Flags: u32,
    }
    DXGK_SEGMENTDESCRIPTOR3 {
        Flags: u32,
        BaseAddress: u64,
        CpuTranslatedAddress: u64,
        Size: usize,
        NbOfBanks: u32,
        pBankRangeTable: *const usize,
        CommitLimit: usize,
        SystemMemoryEndAddress: usize,
        Reserved: usize,
    }
    DXGK_QUERYSEGMENTOUT4 {
        NbSegment: u32,
        pSegmentDescriptor: *mut u8,
        PagingBufferSegmentId: u32,
        PagingBufferSize: u32,
        PagingBufferPrivateDataSize: u32,
        SegmentDescriptorStride: usize,
    }
    DXGK_SEGMENTDESCRIPTOR4 {
        Flags: u32,
        BaseAddress: u64,
        Size: usize,
        CommitLimit: usize,
        SystemMemoryEndAddress: usize,
        CpuHostAperture: [u64; 2],
        NumInvalidMemoryRanges: u32,
        VprRangeStartOffset: usize,
        VprRangeSize: usize,
        VprAlignment: u32,
        NumVprSupported: u32,
        VprReserveSize: u32,
        NumUEFIFrameBufferRanges: u32,
    }
    DXGK_GPUMMUCAPS {
        Value: u32,
        PageTableUpdateMode: u32,
        VirtualAddressBitCount: u32,
        LeafPageTableSizeFor64KPagesInBytes: u32,
        PageTableLevelCount: u32,
        LegacyBehaviors: u32,
    }
    DXGK_QUERYPAGETABLELEVELDESCIN {
        LevelIndex: u16,
        PhysicalAdapterIndex: u16,
    }
    DXGK_PAGE_TABLE_LEVEL_DESC {
        PageTableIndexBitCount: u32,
        PageTableSegmentId: u32,
        PagingProcessPageTableSegmentId: u32,
        PageTableSizeInBytes: u32,
        PageTableAlignmentInBytes: u32,
    }
    DXGK_POWER_RUNTIME_COMPONENT {
        StateCount: u32,
        States: [[u64; 3]; DXGK_MAX_F_STATES],
        ComponentMapping: [u32; 2],
        Flags: u32,
        ComponentGuid: [u32; 4],
        ComponentName: [u8; 40],
        ProviderCount: u32,
        Providers: [u32; DXGK_MAX_POWER_COMPONENT_PROVIDERS],
    }
    DXGKARG_MAPCPUHOSTAPERTURE {
        hAllocation: HANDLE,
        SegmentId: u16,
        PhysicalAdapterIndex: u16,
        NumberOfPages: u64,
        pCpuHostAperturePages: *const u32,
        pMemorySegmentPages: *const u64,
    }
    DXGKARG_UNMAPCPUHOSTAPERTURE {
        NumberOfPages: u64,
        pCpuHostAperturePages: *const u32,
        SegmentId: u16,
        PhysicalAdapterIndex: u16,
    }
    DXGK_START_INFO {
        RequiredDmaQueueEntry: u32,
        AdapterGuid: [u32; 4],
        AdapterLuid: [u32; 2],
    }
    DXGK_DEVICE_INFO {
        MiniportDeviceContext: HANDLE,
        PhysicalDeviceObject: HANDLE,
        DeviceRegistryPath: [u64; 2],
        TranslatedResourceList: *const c_void,
        SystemMemorySize: u64,
        HighestPhysicalAddress: u64,
        AgpApertureBase: u64,
        AgpApertureSize: usize,
        DockingState: u32,
    }
}

/// Packed in Windows; the first field alone is read.
#[repr(C)]
pub struct DXGK_NODEMETADATA {
    pub EngineType: u32,
    pub Rest: [u8; 70],
}
