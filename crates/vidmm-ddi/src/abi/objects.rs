//! Processes, devices, contexts and allocations.

use super::*;

/// `DXGK_CREATEPROCESSFLAGS.SystemProcess`, `DXGK_CREATEDEVICEFLAGS.SystemDevice`, `DXGK_CREATECONTEXTFLAGS.SystemContext`.
pub const FLAG_SYSTEM: u32 = 1 << 0;
/// `DXGK_CREATECONTEXTFLAGS.VirtualAddressing`.
pub const FLAG_VIRTUAL_ADDRESSING: u32 = 1 << 2;
/// `DXGK_OPENALLOCATIONFLAGS.Create`.
#[allow(dead_code)]
pub const FLAG_CREATE: u32 = 1 << 0;
/// `DXGK_CREATEALLOCATIONFLAGS.Resource`, `DXGK_DESTROYALLOCATIONFLAGS.DestroyResource`.
pub const FLAG_RESOURCE: u32 = 1 << 0;
pub const D3DKMDT_STANDARDALLOCATION_SHADOWSURFACE: u32 = 2;
pub const D3DKMDT_STANDARDALLOCATION_STAGINGSURFACE: u32 = 3;
pub const D3DKMDT_STANDARDALLOCATION_GDISURFACE: u32 = 4;
pub const D3DKMDT_GDISURFACE_TEXTURE: u32 = 1;
pub const D3DDDIFMT_A8R8G8B8: u32 = 21;
/// `SetSupportedSegmentSet | SetPreferredSegment` of `DXGKARG_VALIDATEUPDATEALLOCPROPERTY`.
pub const PROPERTIES_OF_SEGMENTS: u32 = 1 << 1 | 1 << 2;

twin! {
    DXGKARG_CREATEPROCESS {
        hDxgkProcess: HANDLE,
        hKmdProcess: HANDLE,
        Flags: u32,
        NumPasid: u32,
        pPasid: *const u32,
        hKmdVmWorkerProcess: HANDLE,
        ProcessNameLength: u16,
        pProcessName: *const u16,
    }
    DXGKARG_CREATEDEVICE {
        hDevice: HANDLE,
        Flags: u64,
        Pasid: u32,
        hKmdProcess: HANDLE,
    }
    DXGK_CONTEXTINFO {
        DmaBufferSize: u32,
        DmaBufferSegmentSet: u32,
        DmaBufferPrivateDataSize: u32,
        AllocationListSize: u32,
        PatchLocationListSize: u32,
        Reserved: u32,
        Caps: u32,
        PagingCompanionNodeId: u32,
    }
    DXGKARG_CREATECONTEXT {
        hContext: HANDLE,
        NodeOrdinal: u32,
        EngineAffinity: u32,
        Flags: u32,
        pPrivateDriverData: *const c_void,
        PrivateDriverDataSize: u32,
        ContextInfo: DXGK_CONTEXTINFO,
    }
    DXGK_ALLOCATIONINFO {
        pPrivateDriverData: *const c_void,
        PrivateDriverDataSize: u32,
        Alignment: u32,
        Size: usize,
        PitchAlignedSize: usize,
        HintedBank: u32,
        PreferredSegment: u32,
        SupportedReadSegmentSet: u32,
        SupportedWriteSegmentSet: u32,
        EvictionSegmentSet: u32,
        MaximumRenamingListLength: u32,
        hAllocation: HANDLE,
        Flags: u32,
        pAllocationUsageHint: *const c_void,
        AllocationPriority: u32,
        Flags2: u32,
    }
    DXGKARG_CREATEALLOCATION {
        pPrivateDriverData: *const c_void,
        PrivateDriverDataSize: u32,
        NumAllocations: u32,
        pAllocationInfo: *mut DXGK_ALLOCATIONINFO,
        hResource: HANDLE,
        Flags: u32,
    }
    DXGKARG_DESTROYALLOCATION {
        NumAllocations: u32,
        pAllocationList: *const HANDLE,
        hResource: HANDLE,
        Flags: u32,
    }
    DXGK_OPENALLOCATIONINFO {
        hAllocation: u32,
        pPrivateDriverData: *const c_void,
        PrivateDriverDataSize: u32,
        hDeviceSpecificAllocation: HANDLE,
    }
    DXGKARG_OPENALLOCATION {
        NumAllocations: u32,
        pOpenAllocation: *mut DXGK_OPENALLOCATIONINFO,
        pPrivateDriverData: *const c_void,
        PrivateDriverSize: u32,
        Flags: u32,
        SubresourceIndex: u32,
        SubresourceOffset: usize,
        Pitch: u32,
    }
    DXGKARG_CLOSEALLOCATION {
        NumAllocations: u32,
        pOpenHandleList: *const HANDLE,
    }
    DXGKARG_DESCRIBEALLOCATION {
        hAllocation: HANDLE,
        Width: u32,
        Height: u32,
        Format: u32,
        MultisampleMethod: [u32; 2],
        RefreshRate: [u32; 2],
        PrivateDriverFormatAttribute: u32,
        Flags: u32,
        Rotation: u32,
    }
    DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA {
        StandardAllocationType: u32,
        pCreateGdiSurfaceData: *mut c_void,
        pAllocationPrivateDriverData: *mut c_void,
        AllocationPrivateDriverDataSize: u32,
        pResourcePrivateDriverData: *mut c_void,
        ResourcePrivateDriverDataSize: u32,
        PhysicalAdapterIndex: u32,
    }
    D3DKMDT_GDISURFACEDATA {
        Width: u32,
        Height: u32,
        Format: u32,
        Type: u32,
        Flags: u32,
        Pitch: u32,
    }
    D3DKMDT_SHADOWSURFACEDATA {
        Width: u32,
        Height: u32,
        Format: u32,
        Pitch: u32,
    }
    D3DKMDT_STAGINGSURFACEDATA {
        Width: u32,
        Height: u32,
        Pitch: u32,
    }
    DXGKARG_VALIDATEUPDATEALLOCPROPERTY {
        hAllocation: HANDLE,
        SupportedSegmentSet: u32,
        PreferredSegment: u32,
        Flags: u32,
        PropertyMaskValue: u32,
    }
    DXGKARGCB_GETHANDLEDATA {
        hObject: u32,
        Type: u32,
        Flags: u32,
    }
    DXGKARGCB_RELEASEHANDLEDATA {
        ReleaseHandle: HANDLE,
        Type: u32,
    }
}
