//! Paging operations and page tables.

use super::*;

pub const DXGK_OPERATION_TRANSFER: u32 = 0;
pub const DXGK_OPERATION_FILL: u32 = 1;
pub const DXGK_OPERATION_DISCARD_CONTENT: u32 = 2;
pub const DXGK_OPERATION_MAP_APERTURE_SEGMENT: u32 = 5;
pub const DXGK_OPERATION_UNMAP_APERTURE_SEGMENT: u32 = 6;
pub const DXGK_OPERATION_VIRTUAL_TRANSFER: u32 = 8;
pub const DXGK_OPERATION_VIRTUAL_FILL: u32 = 9;
pub const DXGK_OPERATION_UPDATE_PAGE_TABLE: u32 = 11;
pub const DXGK_OPERATION_FLUSH_TLB: u32 = 12;
pub const DXGK_OPERATION_NOTIFY_RESIDENCY: u32 = 15;
pub const DXGK_OPERATION_MAP_APERTURE_SEGMENT2: u32 = 17;
pub const DXGK_OPERATION_NOTIFY_ALLOC: u32 = 22;

/// A list of pages: `ntddk.h` has the same fields.
#[repr(C)]
pub struct MDL {
    pub Next: *mut MDL,
    pub Size: i16,
    pub MdlFlags: i16,
    pub MappedSystemVa: *mut c_void,
    pub StartVa: *mut c_void,
    pub ByteCount: u32,
    pub ByteOffset: u32,
    pub Pages: *mut usize,
}

twin! {
    D3DGPU_PHYSICAL_ADDRESS {
        SegmentId: u32,
        Padding: u32,
        SegmentOffset: u64,
    }
    DXGK_PTE {
        Flags: u64,
        PageAddress: u64,
    }
    TRANSFER {
        hAllocation: HANDLE,
        TransferOffset: u32,
        TransferSize: usize,
        Source: TRANSFER_SIDE,
        Destination: TRANSFER_SIDE,
        Flags: u32,
        MdlOffset: u32,
    }
    TRANSFER_SIDE {
        SegmentId: u32,
        SegmentAddress: u64,
    }
    FILL {
        hAllocation: HANDLE,
        FillSize: usize,
        FillPattern: u32,
        Destination: TRANSFER_SIDE,
    }
    DISCARD_CONTENT {
        hAllocation: HANDLE,
        Flags: u32,
        SegmentId: u32,
        SegmentAddress: u64,
    }
    MAP_APERTURE_SEGMENT {
        hDevice: HANDLE,
        hAllocation: HANDLE,
        SegmentId: u32,
        OffsetInPages: usize,
        NumberOfPages: usize,
        pMdl: *const MDL,
        Flags: u32,
        MdlOffset: u32,
    }
    UNMAP_APERTURE_SEGMENT {
        hDevice: HANDLE,
        hAllocation: HANDLE,
        SegmentId: u32,
        OffsetInPages: usize,
        NumberOfPages: usize,
        DummyPage: u64,
    }
    DXGK_ADL {
        PageCount: u32,
        Flags: u32,
        Pages: *const u64,
    }
    MAP_APERTURE_SEGMENT2 {
        hDevice: HANDLE,
        hAllocation: HANDLE,
        SegmentId: u32,
        OffsetInPages: usize,
        NumberOfPages: usize,
        Adl: DXGK_ADL,
        Flags: u32,
        AdlOffset: u32,
        CpuVisibleAddress: HANDLE,
    }
    DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL {
        hAllocation: HANDLE,
        AllocationOffsetInBytes: u64,
        TransferSizeInBytes: u64,
        SourceVirtualAddress: u64,
        DestinationVirtualAddress: u64,
        SourcePageTable: u64,
        TransferDirection: u32,
        Flags: u32,
        DestinationPageTable: u64,
    }
    DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL {
        hAllocation: HANDLE,
        AllocationOffsetInBytes: u64,
        FillSizeInBytes: u64,
        FillPattern: u32,
        DestinationVirtualAddress: u64,
    }
    DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE {
        PageTableLevel: u32,
        hAllocation: HANDLE,
        PageTableAddress: D3DGPU_PHYSICAL_ADDRESS,
        pPageTableEntries: *const DXGK_PTE,
        StartIndex: u32,
        NumPageTableEntries: u32,
        Reserved0: u32,
        Flags: u32,
        DriverProtection: u64,
        AllocationOffsetInBytes: u64,
        hProcess: HANDLE,
        UpdateMode: u32,
        pPageTableEntries64KB: *const DXGK_PTE,
        FirstPteVirtualAddress: u64,
    }
    DXGK_BUILDPAGINGBUFFER_FLUSHTLB {
        RootPageTableAddress: D3DGPU_PHYSICAL_ADDRESS,
        hProcess: HANDLE,
        StartVirtualAddress: u64,
        EndVirtualAddress: u64,
    }
    DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY {
        hAllocation: HANDLE,
        PhysicalAddress: D3DGPU_PHYSICAL_ADDRESS,
        Reserved: u32,
    }
    DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC {
        hAllocation: HANDLE,
        hKmdProcessHandle: HANDLE,
        Flags: u32,
        OffsetInBytes: u64,
        SizeInBytes: u64,
        GpuVirtualAddressAtOffset: u64,
    }
    DXGKARG_BUILDPAGINGBUFFER {
        pDmaBuffer: *mut u8,
        DmaSize: u32,
        pDmaBufferPrivateData: *mut u8,
        DmaBufferPrivateDataSize: u32,
        Operation: u32,
        MultipassOffset: u32,
        Reserved: OPERATION,
        hSystemContext: HANDLE,
        DmaBufferGpuVirtualAddress: u64,
        DmaBufferWriteOffset: u32,
    }
    DXGKARG_GETROOTPAGETABLESIZE {
        NumberOfPte: u32,
        PhysicalAdapterIndex: u32,
    }
    DXGKARG_SETROOTPAGETABLE {
        hContext: HANDLE,
        Address: D3DGPU_PHYSICAL_ADDRESS,
        NumEntries: u32,
    }
}

/// The union of all payloads.
#[repr(C)]
#[derive(Clone, Copy)]
pub union OPERATION {
    pub Transfer: TRANSFER,
    pub Fill: FILL,
    pub DiscardContent: DISCARD_CONTENT,
    pub MapApertureSegment: MAP_APERTURE_SEGMENT,
    pub UnmapApertureSegment: UNMAP_APERTURE_SEGMENT,
    pub MapApertureSegment2: MAP_APERTURE_SEGMENT2,
    pub TransferVirtual: DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL,
    pub FillVirtual: DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL,
    pub UpdatePageTable: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE,
    pub FlushTlb: DXGK_BUILDPAGINGBUFFER_FLUSHTLB,
    pub NotifyResidency: DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY,
    pub NotifyAllocation: DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC,
    pub Reserved: [u64; 32],
}
