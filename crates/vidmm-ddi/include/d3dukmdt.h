/*
 * Types that user mode and kernel mode share. Written for vidmm from public documentation; only what the memory manager's
 * contract needs is here.
 */
#ifndef VIDMM_D3DUKMDT_H
#define VIDMM_D3DUKMDT_H

#include "ntdef.h"

typedef UINT D3DKMT_HANDLE;
typedef UINT D3DDDI_VIDEO_PRESENT_SOURCE_ID;
typedef ULONGLONG D3DGPU_VIRTUAL_ADDRESS;
typedef ULONGLONG D3DGPU_SIZE_T;
#define D3DGPU_NULL 0
typedef UINT D3DDDI_VIDEO_PRESENT_TARGET_ID;
#define D3DDDI_ID_NOTAPPLICABLE ((UINT)0)
#define D3DDDI_ID_UNINITIALIZED (~(UINT)0)
#define D3DDDI_ID_ANY (~(UINT)1)
#define D3DDDI_ID_ALL (~(UINT)2)

typedef struct _D3DGPU_PHYSICAL_ADDRESS {
    UINT SegmentId;
    UINT Padding;
    UINT64 SegmentOffset;
} D3DGPU_PHYSICAL_ADDRESS;

typedef struct _D3DDDI_PATCHLOCATIONLIST {
    UINT AllocationIndex;
    union {
        struct {
            UINT SlotId : 24;
            UINT Reserved : 8;
        };
        UINT Value;
    };
    UINT DriverId;
    UINT AllocationOffset;
    UINT PatchOffset;
    UINT SplitOffset;
} D3DDDI_PATCHLOCATIONLIST;

typedef enum _DXGK_PTE_PAGE_SIZE {
    DXGK_PTE_PAGE_TABLE_PAGE_4KB = 0,
    DXGK_PTE_PAGE_TABLE_PAGE_64KB = 1
} DXGK_PTE_PAGE_SIZE;

typedef struct _DXGK_PTE {
    union {
        struct {
            ULONGLONG Valid : 1;
            ULONGLONG Zero : 1;
            ULONGLONG CacheCoherent : 1;
            ULONGLONG ReadOnly : 1;
            ULONGLONG NoExecute : 1;
            ULONGLONG Segment : 5;
            ULONGLONG LargePage : 1;
            ULONGLONG PhysicalAdapterIndex : 6;
            ULONGLONG PageTablePageSize : 2;
            ULONGLONG SystemReserved0 : 1;
            ULONGLONG Reserved : 44;
        };
        ULONGLONG Flags;
    };
    union {
        ULONGLONG PageAddress;      /* in pages of 4 KiB */
        ULONGLONG PageTableAddress; /* likewise */
    };
} DXGK_PTE;

typedef union _DXGK_FAULT_ERROR_CODE {
    struct {
        UINT IsDeviceSpecificCodeReservedBit : 1;
        UINT DeviceSpecificCode : 31;
    };
    struct {
        UINT IsDeviceSpecificCode : 1;
        UINT GeneralErrorCode : 31;
    };
} DXGK_FAULT_ERROR_CODE;

typedef enum _DXGK_PAGE_FAULT_FLAGS {
    DXGK_PAGE_FAULT_WRITE = 0x1,
    DXGK_PAGE_FAULT_FENCE_INVALID = 0x2,
    DXGK_PAGE_FAULT_ADAPTER_RESET_REQUIRED = 0x4,
    DXGK_PAGE_FAULT_ENGINE_RESET_REQUIRED = 0x8,
    DXGK_PAGE_FAULT_FATAL_HARDWARE_ERROR = 0x10,
    DXGK_PAGE_FAULT_IOMMU = 0x20,
    DXGK_PAGE_FAULT_HW_CONTEXT_VALID = 0x40,
    DXGK_PAGE_FAULT_PROCESS_HANDLE_VALID = 0x80
} DXGK_PAGE_FAULT_FLAGS;

typedef UINT DXGK_RENDER_PIPELINE_STAGE;
#define DXGK_PRIMITIVE_API_SEQUENCE_NUMBER_UNKNOWN 0xFFFFFFFFFFFFFFFFULL
#define DXGK_BIND_TABLE_ENTRY_UNKNOWN 0xFFFFFFFFu

typedef enum _DXGK_ENGINE_TYPE {
    DXGK_ENGINE_TYPE_OTHER = 0,
    DXGK_ENGINE_TYPE_3D = 1,
    DXGK_ENGINE_TYPE_VIDEO_DECODE = 2,
    DXGK_ENGINE_TYPE_VIDEO_ENCODE = 3,
    DXGK_ENGINE_TYPE_VIDEO_PROCESSING = 4,
    DXGK_ENGINE_TYPE_SCENE_ASSEMBLY = 5,
    DXGK_ENGINE_TYPE_COPY = 6,
    DXGK_ENGINE_TYPE_OVERLAY = 7,
    DXGK_ENGINE_TYPE_CRYPTO = 8
} DXGK_ENGINE_TYPE;

/* Of the members the sources agree on this one alone: Windows packs the struct, and so FriendlyName is 2 bytes a character. */
#pragma pack(push, 1)
typedef struct _DXGK_NODEMETADATA_FLAGS {
    union {
        struct {
            UINT32 ContextSchedulingSupported : 1;
            UINT32 RingBufferFenceRelease : 1;
            UINT32 SupportTrackedWorkload : 1;
            UINT32 Reserved : 13;
            UINT32 MaxInFlightHwQueueBuffers : 16;
        };
        UINT32 Value;
    };
} DXGK_NODEMETADATA_FLAGS;

typedef struct _DXGK_NODEMETADATA {
    DXGK_ENGINE_TYPE EngineType;
    WCHAR FriendlyName[32];
    DXGK_NODEMETADATA_FLAGS Flags;
    BOOLEAN GpuMmuSupported;
    BOOLEAN IoMmuSupported;
} DXGK_NODEMETADATA;
#pragma pack(pop)

#endif
