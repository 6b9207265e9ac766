/*
 * The display driver interface of kernel mode: structures of the memory manager's contract, with WDDM's names, and in WDDM's
 * layouts for x86-64. Written for vidmm from public documentation.
 *
 * docs/guides/c-drivers.md says which operations are sent, and when. Operations 19, 20 and 21 are declared and never sent.
 */
#ifndef VIDMM_D3DKMDDI_H
#define VIDMM_D3DKMDDI_H

#include "d3dkmdt.h"

/* Opaque: its pages are asked for by MmGetMdlPfnArray and its kin (ntddk.h). */
typedef struct _MDL MDL, *PMDL;

#define DXGKDDI_INTERFACE_VERSION_WIN7 0x2005
#define DXGKDDI_INTERFACE_VERSION_WIN8 0x300E
#define DXGKDDI_INTERFACE_VERSION_WDDM1_3 0x4002
#define DXGKDDI_INTERFACE_VERSION_WDDM2_0 0x5023
#define DXGKDDI_INTERFACE_VERSION_WDDM2_1 0x6003
#define DXGKDDI_INTERFACE_VERSION_WDDM2_2 0x700A
#define DXGKDDI_INTERFACE_VERSION_WDDM2_3 0x8001
#define DXGKDDI_INTERFACE_VERSION_WDDM2_4 0x9006
#define DXGKDDI_INTERFACE_VERSION_WDDM2_5 0xA00B
#define DXGKDDI_INTERFACE_VERSION_WDDM2_6 0xB004
#define DXGKDDI_INTERFACE_VERSION_WDDM2_7 0xC004
#define DXGKDDI_INTERFACE_VERSION_WDDM2_8 0xD001
#define DXGKDDI_INTERFACE_VERSION_WDDM2_9 0xE003
#define DXGKDDI_INTERFACE_VERSION_WDDM3_0 0xF003
#define DXGKDDI_INTERFACE_VERSION_WDDM3_2 0x11007
#ifndef DXGKDDI_INTERFACE_VERSION
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM3_2
#endif

/* ---- Queries ---- */

typedef enum _DXGK_QUERYADAPTERINFOTYPE {
    DXGKQAITYPE_UMDRIVERPRIVATE = 0,
    DXGKQAITYPE_DRIVERCAPS = 1,
    DXGKQAITYPE_QUERYSEGMENT = 2,
    DXGKQAITYPE_QUERYSEGMENT3 = 5,
    DXGKQAITYPE_NUMPOWERCOMPONENTS = 6,
    DXGKQAITYPE_POWERCOMPONENTINFO = 7,
    DXGKQAITYPE_HISTORYBUFFERPRECISION = 10,
    DXGKQAITYPE_QUERYSEGMENT4 = 11,
    DXGKQAITYPE_SEGMENTMEMORYSTATE = 12,
    DXGKQAITYPE_GPUMMUCAPS = 13,
    DXGKQAITYPE_PAGETABLELEVELDESC = 14,
    DXGKQAITYPE_PHYSICALADAPTERCAPS = 15,
    DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION = 16,
    DXGKQAITYPE_PHYSICAL_MEMORY_CAPS = 34,
    DXGKQAITYPE_IOMMU_CAPS = 35,
    DXGKQAITYPE_PAGINGPROCESSGPUVASIZE = 48
} DXGK_QUERYADAPTERINFOTYPE;

typedef struct _DXGK_QUERYADAPTERINFOFLAGS {
    union {
        struct {
            UINT VirtualMachineData : 1;
            UINT SecureVirtualMachine : 1;
            UINT Reserved0 : 30;
        };
        UINT Value;
    };
} DXGK_QUERYADAPTERINFOFLAGS;

typedef struct _DXGK_PRESENTATIONCAPS {
    union {
        struct {
            UINT NoScreenToScreenBlt : 1;
            UINT NoOverlapScreenBlt : 1;
            UINT SupportKernelModeCommandBuffer : 1;
            UINT NoSameBitmapAlphaBlend : 1;
            UINT NoSameBitmapStretchBlt : 1;
            UINT NoSameBitmapTransparentBlt : 1;
            UINT NoSameBitmapOverlappedAlphaBlend : 1;
            UINT NoSameBitmapOverlappedStretchBlt : 1;
            UINT DriverSupportsCddDwmInterop : 1;
            UINT Reserved0 : 1;
            UINT AlignmentShift : 4;
            UINT MaxTextureWidthShift : 3;
            UINT MaxTextureHeightShift : 3;
            UINT SupportAllBltRops : 1;
            UINT SupportMirrorStretchBlt : 1;
            UINT SupportMonoStretchBltModes : 1;
            UINT StagingRectStartPitchAligned : 1;
            UINT NoSameBitmapBitBlt : 1;
            UINT NoSameBitmapOverlappedBitBlt : 1;
            UINT Reserved1 : 1;
            UINT NoTempSurfaceForClearTypeBlend : 1;
            UINT SupportSoftwareDeviceBitmaps : 1;
            UINT NoCacheCoherentApertureMemory : 1;
            UINT SupportLinearHeap : 1;
            UINT Reserved2 : 1;
        };
        UINT Value;
    };
} DXGK_PRESENTATIONCAPS;

typedef struct _DXGK_FLIPCAPS {
    union {
        struct {
            UINT FlipOnVSyncWithNoWait : 1;
            UINT FlipOnVSyncMmIo : 1;
            UINT FlipInterval : 1;
            UINT FlipImmediateMmIo : 1;
            UINT FlipIndependent : 1;
            UINT DdiPresentForIFlip : 1;
            UINT FlipImmediateOnHSync : 1;
            UINT Reserved0 : 25;
        };
        UINT Value;
    };
} DXGK_FLIPCAPS;

typedef struct _DXGK_VIDSCHCAPS {
    union {
        struct {
            UINT MultiEngineAware : 1;
            UINT VSyncPowerSaveAware : 1;
            UINT PreemptionAware : 1;
            UINT NoDmaPatching : 1;
            UINT CancelCommandAware : 1;
            UINT No64BitAtomics : 1;
            UINT LowIrqlPreemptCommand : 1;
            UINT HwQueuePacketCap : 4;
            UINT NativeGpuFence : 1;
            UINT OptimizedNativeFenceSignaledInterrupt : 1;
            UINT Reserved0 : 19;
        };
        UINT Value;
    };
} DXGK_VIDSCHCAPS;

typedef struct _DXGK_SEGMENTFLAGS {
    union {
        struct {
            UINT Aperture : 1;
            UINT Agp : 1;
            UINT CpuVisible : 1;
            UINT UseBanking : 1;
            UINT CacheCoherent : 1;
            UINT PitchAlignment : 1;
            UINT PopulatedFromSystemMemory : 1;
            UINT PreservedDuringStandby : 1;
            UINT PreservedDuringHibernate : 1;
            UINT PartiallyPreservedDuringHibernate : 1;
            UINT DirectFlip : 1;
            UINT Use64KBPages : 1;
            UINT Reserved0 : 1;
            UINT SupportsCpuHostAperture : 1;
            UINT SupportsCachedCpuHostAperture : 1;
            UINT ApplicationTarget : 1;
            UINT VprSupported : 1;
            UINT VprPreservedDuringStandby : 1;
            UINT EncryptedPagingSupported : 1;
            UINT LocalBudgetGroup : 1;
            UINT NonLocalBudgetGroup : 1;
            UINT PopulatedByReservedDDRByFirmware : 1;
            UINT Reserved1 : 10;
        };
        UINT Value;
    };
} DXGK_SEGMENTFLAGS;

typedef struct _DXGK_PHYSICALADAPTERFLAGS {
    union {
        struct {
            UINT IoMmuSupported : 1;
            UINT GpuMmuSupported : 1;
            UINT MovePagingSupported : 1;
            UINT VPRPagingContextRequired : 1;
            UINT AllowHardwareProtectedNoVpr : 1;
            UINT VirtualCopyEngineSupported : 1;
            UINT GpuVaIommuRequired : 1;
            UINT GpuVaIommuGlobalRequired : 1;
            UINT GpuVaIommuCacheCoherent : 1;
            UINT Reserved0 : 23;
        };
        UINT Value;
    };
} DXGK_PHYSICALADAPTERFLAGS;

typedef struct _DXGKARG_QUERYADAPTERINFO {
    DXGK_QUERYADAPTERINFOTYPE Type;
    VOID *pInputData;
    UINT InputDataSize;
    VOID *pOutputData;
    UINT OutputDataSize;
    DXGK_QUERYADAPTERINFOFLAGS Flags;
    HANDLE hKmdProcessHandle;
} DXGKARG_QUERYADAPTERINFO;
typedef const DXGKARG_QUERYADAPTERINFO *IN_CONST_PDXGKARG_QUERYADAPTERINFO;

typedef struct _DXGK_VIDMMCAPS {
    union {
        struct {
            UINT OutOfOrderLock : 1;
            UINT DedicatedPagingEngine : 1;
            UINT PagingEngineCanSwizzle : 1;
            UINT SectionBackedPrimary : 1;
            UINT CrossAdapterResource : 1;
            UINT VirtualAddressingSupported : 1;
            UINT GpuMmuSupported : 1;
            UINT IoMmuSupported : 1;
            UINT ReplicateGdiContent : 1;
            UINT NonCpuVisiblePrimary : 1;
            UINT ParavirtualizationSupported : 1;
            UINT IoMmuSecureModeSupported : 1;
            UINT DisableSelfRefreshVRAMInS3 : 1;
            UINT IoMmuSecureModeRequired : 1;
            UINT MapAperture2Supported : 1;
            UINT CrossAdapterResourceTexture : 1;
            UINT CrossAdapterResourceScanout : 1;
            UINT AlwaysPoweredVRAM : 1;
            UINT Reserved0 : 14;
        };
        UINT Value;
    };
    UINT PagingNode;
} DXGK_VIDMMCAPS;

typedef struct _DXGK_POINTERFLAGS {
    union {
        struct {
            UINT Monochrome : 1;
            UINT Color : 1;
            UINT MaskedColor : 1;
            UINT Reserved : 29;
        };
        UINT Value;
    };
} DXGK_POINTERFLAGS;

typedef struct _D3DDDI_GAMMARAMP_CAPS {
    union {
        struct {
            UINT Gamma_Rgb256x3x16 : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} D3DDDI_GAMMARAMP_CAPS;

typedef struct _DXGK_COLORTRANSFORMCAPS {
    union {
        struct {
            UINT Gamma_Rgb256x3x16 : 1;
            UINT Gamma_Dxgi1 : 1;
            UINT Transform_3x4Matrix : 1;
            UINT Transform_3x4Matrix_WideColor : 1;
            UINT Transform_3x4Matrix_HighColor : 1;
            UINT Transform_Matrix_V2 : 1;
            UINT Reserved : 26;
        };
        UINT Value;
    };
} DXGK_COLORTRANSFORMCAPS;

#define DXGK_MAX_ASYMETRICAL_PROCESSING_NODES 64

typedef struct _DXGK_GPUENGINETOPOLOGY {
    UINT NbAsymetricProcessingNodes;
    UINT Reserved[DXGK_MAX_ASYMETRICAL_PROCESSING_NODES];
} DXGK_GPUENGINETOPOLOGY;

typedef struct _DXGK_VIRTUALADDRESSCAPS_DEPRECATED {
    union {
        struct {
            UINT PrivilegedMemorySupported : 1;
            UINT ReadOnlyMemorySupported : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
    UINT VirtualAddressBitCount;
    UINT PageTableCoverageBitCount;
    UINT PageDirectoryEntrySize;
    UINT PageDirectorySegment;
    UINT PageTableSegment;
    UINT IdealGPUPageSize;
} DXGK_VIRTUALADDRESSCAPS_DEPRECATED;

typedef struct _DXGK_DMABUFFERPROPERTIES_DEPRECATED {
    UINT Size;
    UINT PrivateDriverDataSize;
    UINT SegmentId;
    UINT Reserved1;
    UINT Reserved[16];
} DXGK_DMABUFFERPROPERTIES_DEPRECATED;

typedef struct _DXGK_DMABUFFERCAPS_DEPRECATED {
    DXGK_DMABUFFERPROPERTIES_DEPRECATED PresentDmaBuffer;
    DXGK_DMABUFFERPROPERTIES_DEPRECATED PagingDmaBuffer;
} DXGK_DMABUFFERCAPS_DEPRECATED;

typedef struct _DXGK_MISCCAPS {
    union {
        struct {
            UINT SupportContextlessPresent : 1;
            UINT Detachable : 1;
            UINT VirtualGpuOnly : 1;
            UINT ComputeOnly : 1;
            UINT IndependentVidPnVSyncControl : 1;
            UINT NoHybridDiscreteDListDllSupport : 1;
            UINT DisplayableSupport : 1;
            UINT NoHybridDiscreteDListDllMuxSupport : 1;
            UINT CursorDoesNotSupportXorBlendWithMultiPlaneOverlay : 1;
            UINT Reserved : 23;
        };
        UINT Value;
    };
} DXGK_MISCCAPS;

typedef struct _DXGK_HWQUEUEDFLIP_CAPS {
    UINT Value;
} DXGK_HWQUEUEDFLIP_CAPS;

typedef struct _DXGK_DRIVERCAPS {
    PHYSICAL_ADDRESS HighestAcceptableAddress;
    UINT MaxAllocationListSlotId;
    SIZE_T ApertureSegmentCommitLimit;
    UINT MaxPointerWidth;
    UINT MaxPointerHeight;
    DXGK_POINTERFLAGS PointerCaps;
    UINT InterruptMessageNumber;
    UINT NumberOfSwizzlingRanges;
    UINT MaxOverlays;
    union {
        D3DDDI_GAMMARAMP_CAPS GammaRampCaps;
        DXGK_COLORTRANSFORMCAPS ColorTransformCaps;
    };
    DXGK_PRESENTATIONCAPS PresentationCaps;
    UINT MaxQueuedFlipOnVSync;
    DXGK_FLIPCAPS FlipCaps;
    DXGK_VIDSCHCAPS SchedulingCaps;
    DXGK_VIDMMCAPS MemoryManagementCaps;
    DXGK_GPUENGINETOPOLOGY GpuEngineTopology;
    DXGK_WDDMVERSION WDDMVersion;
    DXGK_VIRTUALADDRESSCAPS_DEPRECATED Reserved;
    DXGK_DMABUFFERCAPS_DEPRECATED Reserved1;
    D3DKMDT_PREEMPTION_CAPS PreemptionCaps;
    BOOLEAN SupportNonVGA;
    BOOLEAN SupportSmoothRotation;
    BOOLEAN SupportPerEngineTDR;
    BOOLEAN SupportDirectFlip;
    BOOLEAN SupportMultiPlaneOverlay;
    BOOLEAN SupportRuntimePowerManagement;
    BOOLEAN SupportSurpriseRemovalInHibernation;
    BOOLEAN HybridDiscrete;
    UINT MaxOverlayPlanes;
    BOOLEAN HybridIntegrated;
    D3DGPU_VIRTUAL_ADDRESS InternalGpuVirtualAddressRangeStart;
    D3DGPU_VIRTUAL_ADDRESS InternalGpuVirtualAddressRangeEnd;
    BOOLEAN SupportSurpriseRemoval;
    BOOLEAN SupportMultiPlaneOverlayImmediateFlip;
    BOOLEAN CursorScaledWithMultiPlaneOverlayPlane0;
    BOOLEAN HybridAcpiChainingRequired;
    UINT MaxQueuedMultiPlaneOverlayFlipVSync;
    DXGK_MISCCAPS MiscCaps;
    UINT MaxHwQueuedFlips;
    DXGK_HWQUEUEDFLIP_CAPS HwQueuedFlipCaps;
} DXGK_DRIVERCAPS;

typedef struct _DXGK_PHYSICALADAPTERCAPS {
    WORD NumExecutionNodes;
    WORD PagingNodeIndex;
    HANDLE DxgkPhysicalAdapterHandle;
    DXGK_PHYSICALADAPTERFLAGS Flags;
    UINT VPRPagingNode;
    UINT VirtualCopyNodeIndex;
} DXGK_PHYSICALADAPTERCAPS;

typedef struct _DXGK_QUERYPHYSICALADAPTERCAPSIN {
    UINT PhysicalAdapterIndex;
} DXGK_QUERYPHYSICALADAPTERCAPSIN;

typedef struct _DXGK_QUERYSEGMENTIN {
    PHYSICAL_ADDRESS AgpApertureBase;
    LARGE_INTEGER AgpApertureSize;
    DXGK_SEGMENTFLAGS AgpFlags;
} DXGK_QUERYSEGMENTIN;

typedef struct _DXGK_QUERYSEGMENTIN4 {
    UINT PhysicalAdapterIndex;
} DXGK_QUERYSEGMENTIN4;

typedef struct _DXGK_SEGMENTDESCRIPTOR {
    PHYSICAL_ADDRESS BaseAddress;
    PHYSICAL_ADDRESS CpuTranslatedAddress;
    SIZE_T Size;
    UINT NbOfBanks;
    SIZE_T *pBankRangeTable;
    SIZE_T CommitLimit;
    DXGK_SEGMENTFLAGS Flags;
} DXGK_SEGMENTDESCRIPTOR;

typedef struct _DXGK_SEGMENTDESCRIPTOR3 {
    DXGK_SEGMENTFLAGS Flags;
    PHYSICAL_ADDRESS BaseAddress;
    PHYSICAL_ADDRESS CpuTranslatedAddress;
    SIZE_T Size;
    UINT NbOfBanks;
    SIZE_T *pBankRangeTable;
    SIZE_T CommitLimit;
    SIZE_T SystemMemoryEndAddress;
    SIZE_T Reserved;
} DXGK_SEGMENTDESCRIPTOR3;

typedef struct _DXGK_CPUHOSTAPERTURE {
    UINT64 PhysicalAddress;
    UINT32 SizeInPages;
} DXGK_CPUHOSTAPERTURE;

typedef struct _DXGK_SEGMENTDESCRIPTOR4 {
    DXGK_SEGMENTFLAGS Flags;
    PHYSICAL_ADDRESS BaseAddress;
    SIZE_T Size;
    SIZE_T CommitLimit;
    SIZE_T SystemMemoryEndAddress;
    union {
        PHYSICAL_ADDRESS CpuTranslatedAddress;
        DXGK_CPUHOSTAPERTURE CpuHostAperture;
    };
    UINT NumInvalidMemoryRanges;
    SIZE_T VprRangeStartOffset;
    SIZE_T VprRangeSize;
    UINT VprAlignment;
    UINT NumVprSupported;
    UINT VprReserveSize;
    UINT NumUEFIFrameBufferRanges;
} DXGK_SEGMENTDESCRIPTOR4;

typedef struct _DXGK_QUERYSEGMENTOUT {
    UINT NbSegment;
    DXGK_SEGMENTDESCRIPTOR *pSegmentDescriptor;
    UINT PagingBufferSegmentId;
    UINT PagingBufferSize;
    UINT PagingBufferPrivateDataSize;
} DXGK_QUERYSEGMENTOUT;

typedef struct _DXGK_QUERYSEGMENTOUT3 {
    UINT NbSegment;
    DXGK_SEGMENTDESCRIPTOR3 *pSegmentDescriptor;
    UINT PagingBufferSegmentId;
    UINT PagingBufferSize;
    UINT PagingBufferPrivateDataSize;
} DXGK_QUERYSEGMENTOUT3;

typedef struct _DXGK_QUERYSEGMENTOUT4 {
    UINT NbSegment;
    BYTE *pSegmentDescriptor;
    UINT PagingBufferSegmentId;
    UINT PagingBufferSize;
    UINT PagingBufferPrivateDataSize;
    SIZE_T SegmentDescriptorStride;
} DXGK_QUERYSEGMENTOUT4;

typedef enum _DXGK_PAGETABLEUPDATEMODE {
    DXGK_PAGETABLEUPDATE_CPU_VIRTUAL = 0,
    DXGK_PAGETABLEUPDATE_GPU_VIRTUAL = 1,
    DXGK_PAGETABLEUPDATE_GPU_PHYSICAL = 2
} DXGK_PAGETABLEUPDATEMODE;

typedef struct _DXGK_QUERYGPUMMUCAPSIN {
    UINT PhysicalAdapterIndex;
} DXGK_QUERYGPUMMUCAPSIN;

typedef struct _DXGK_GPUMMUCAPS {
    union {
        struct {
            UINT ReadOnlyMemorySupported : 1;
            UINT NoExecuteMemorySupported : 1;
            UINT ZeroInPteSupported : 1;
            UINT ExplicitPageTableInvalidation : 1;
            UINT CacheCoherentMemorySupported : 1;
            UINT PageTableUpdateRequireAddressSpaceIdle : 1;
            UINT LargePageSupported : 1;
            UINT DualPteSupported : 1;
            UINT AllowNonAlignedLargePageAddress : 1;
            UINT SysMem64KBPageSupported : 1;
            UINT InvalidTlbEntriesNotCached : 1;
            UINT SysMemLargePageSupported : 1;
            UINT CachedPageTables : 1;
            UINT Reserved : 19;
        };
        UINT Value;
    };
    DXGK_PAGETABLEUPDATEMODE PageTableUpdateMode;
    UINT VirtualAddressBitCount;
    UINT LeafPageTableSizeFor64KPagesInBytes;
    UINT PageTableLevelCount;
    struct {
        UINT SourcePageTableVaInTransfer : 1;
        UINT Reserved : 31;
    } LegacyBehaviors;
} DXGK_GPUMMUCAPS;

typedef struct _DXGK_QUERYPAGETABLELEVELDESCIN {
    WORD LevelIndex;
    WORD PhysicalAdapterIndex;
} DXGK_QUERYPAGETABLELEVELDESCIN;

typedef struct _DXGK_PAGE_TABLE_LEVEL_DESC {
    UINT PageTableIndexBitCount;
    UINT PageTableSegmentId;
    UINT PagingProcessPageTableSegmentId;
    UINT PageTableSizeInBytes;
    UINT PageTableAlignmentInBytes;
} DXGK_PAGE_TABLE_LEVEL_DESC;

typedef DXGK_NODEMETADATA DXGKARG_GETNODEMETADATA;

/* ---- Processes, devices, contexts ---- */

typedef struct _DXGK_CREATEPROCESSFLAGS {
    union {
        struct {
            UINT SystemProcess : 1;
            UINT GdiProcess : 1;
            UINT VirtualMachineProcess : 1;
            UINT VirtualMachineWorkerProcess : 1;
            UINT SessionIsolatedContainer : 1;
            UINT Reserved0 : 27;
        };
        UINT Value;
    };
} DXGK_CREATEPROCESSFLAGS;

typedef struct _DXGKARG_CREATEPROCESS {
    HANDLE hDxgkProcess;
    HANDLE hKmdProcess; /* out */
    DXGK_CREATEPROCESSFLAGS Flags;
    UINT NumPasid;
    ULONG *pPasid;
    HANDLE hKmdVmWorkerProcess;
    USHORT ProcessNameLength;
    WCHAR *pProcessName;
} DXGKARG_CREATEPROCESS;

typedef struct _DXGK_CREATEDEVICEFLAGS {
    union {
        struct {
            UINT SystemDevice : 1;
            UINT GdiDevice : 1;
            UINT Reserved0 : 30;
        };
        UINT Value;
    };
} DXGK_CREATEDEVICEFLAGS;

typedef struct _DXGK_DEVICEINFOFLAGS {
    union {
        struct {
            UINT GuaranteedDmaBufferContract : 1;
            UINT Reserved0 : 31;
        };
        UINT Value;
    };
} DXGK_DEVICEINFOFLAGS;

typedef struct _DXGK_CREATECONTEXTFLAGS {
    union {
        struct {
            UINT SystemContext : 1;
            UINT GdiContext : 1;
            UINT VirtualAddressing : 1;
            UINT SystemProtectedContext : 1;
            UINT HwQueueSupported : 1;
            UINT TestContext : 1;
            UINT Reserved0 : 26;
        };
        UINT Value;
    };
} DXGK_CREATECONTEXTFLAGS;

typedef struct _DXGK_CONTEXTINFO_CAPS {
    union {
        struct {
            UINT NoPatchingRequired : 1;
            UINT DriverManagesResidency : 1;
            UINT UseIoMmu : 1;
            UINT Reserved0 : 29;
        };
        UINT Value;
    };
} DXGK_CONTEXTINFO_CAPS;

typedef struct _DXGK_DEVICEINFO {
    UINT DmaBufferSize;
    UINT DmaBufferSegmentSet;
    UINT DmaBufferPrivateDataSize;
    UINT AllocationListSize;
    UINT PatchLocationListSize;
    DXGK_DEVICEINFOFLAGS Flags;
} DXGK_DEVICEINFO;

typedef struct _DXGKARG_CREATEDEVICE {
    HANDLE hDevice; /* in: Dxgkrnl's; out: the driver's */
    union {
        DXGK_CREATEDEVICEFLAGS Flags; /* in */
        DXGK_DEVICEINFO *pInfo;       /* out, for drivers without contexts */
    };
    ULONG Pasid;
    HANDLE hKmdProcess;
} DXGKARG_CREATEDEVICE;
typedef DXGKARG_CREATEDEVICE *INOUT_PDXGKARG_CREATEDEVICE;

typedef struct _DXGK_CONTEXTINFO {
    UINT DmaBufferSize;
    UINT DmaBufferSegmentSet;
    UINT DmaBufferPrivateDataSize;
    UINT AllocationListSize;
    UINT PatchLocationListSize;
    UINT Reserved;
    DXGK_CONTEXTINFO_CAPS Caps;
    UINT PagingCompanionNodeId;
} DXGK_CONTEXTINFO;

typedef struct _DXGKARG_CREATECONTEXT {
    HANDLE hContext; /* in: Dxgkrnl's; out: the driver's */
    UINT NodeOrdinal;
    UINT EngineAffinity;
    DXGK_CREATECONTEXTFLAGS Flags;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    DXGK_CONTEXTINFO ContextInfo;
} DXGKARG_CREATECONTEXT;
typedef DXGKARG_CREATECONTEXT *INOUT_PDXGKARG_CREATECONTEXT;

/* ---- Allocations ---- */

typedef struct _DXGK_CREATEALLOCATIONFLAGS {
    union {
        struct {
            UINT Resource : 1;
            UINT Reserved0 : 31;
        };
        UINT Value;
    };
} DXGK_CREATEALLOCATIONFLAGS;

typedef struct _DXGK_ALLOCATIONINFOFLAGS {
    union {
        struct {
            UINT CpuVisible : 1;
            UINT PermanentSysMem : 1;
            UINT Cached : 1;
            UINT Protected : 1;
            UINT ExistingSysMem : 1;
            UINT ExistingKernelSysMem : 1;
            UINT FromEndOfSegment : 1;
            UINT Swizzled : 1;
            UINT Overlay : 1;
            UINT Capture : 1;
            UINT UseAlternateVA : 1;
            UINT SynchronousPaging : 1;
            UINT LinkMirrored : 1;
            UINT LinkInstanced : 1;
            UINT HistoryBuffer : 1;
            UINT AccessedPhysically : 1;
            UINT ExplicitResidencyNotification : 1;
            UINT HardwareProtected : 1;
            UINT CpuVisibleOnDemand : 1;
            UINT DXGK_ALLOC_RESERVED16 : 1;
            UINT Reserved0 : 12;
        };
        UINT Value;
    };
} DXGK_ALLOCATIONINFOFLAGS;

typedef struct _DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 {
    union {
        struct {
            UINT CpuVisible : 1;
            UINT PermanentSysMem : 1;
            UINT Cached : 1;
            UINT Protected : 1;
            UINT ExistingSysMem : 1;
            UINT ExistingKernelSysMem : 1;
            UINT FromEndOfSegment : 1;
            UINT DisableLargePageMapping : 1;
            UINT Overlay : 1;
            UINT Capture : 1;
            UINT CreateInVpr : 1;
            UINT DXGK_ALLOC_RESERVED17 : 1;
            UINT Reserved0 : 1;
            UINT MapApertureCpuVisible : 1;
            UINT HistoryBuffer : 1;
            UINT AccessedPhysically : 1;
            UINT ExplicitResidencyNotification : 1;
            UINT HardwareProtected : 1;
            UINT CpuVisibleOnDemand : 1;
            UINT DXGK_ALLOC_RESERVED16 : 1;
            UINT Reserved1 : 12;
        };
        UINT Value;
    };
} DXGK_ALLOCATIONINFOFLAGS_WDDM2_0;

typedef struct _DXGK_ALLOCATIONINFOFLAGS2 {
    union {
        struct {
            UINT ShareBackingStoreWithKmd : 1;
            UINT NoImplicitSynchronization : 1;
            UINT DisablePartialResidency : 1;
            UINT RestrictedToSingleSegment : 1;
            UINT NotifyEviction : 1;
            UINT NotifyIoMmuUnmap : 1;
            UINT Reserved0 : 26;
        };
        UINT Value;
    };
} DXGK_ALLOCATIONINFOFLAGS2;

typedef struct _DXGK_SEGMENTBANKPREFERENCE {
    union {
        struct {
            UINT Bank0 : 7;
            UINT Direction0 : 1;
            UINT Bank1 : 7;
            UINT Direction1 : 1;
            UINT Bank2 : 7;
            UINT Direction2 : 1;
            UINT Bank3 : 7;
            UINT Direction3 : 1;
        };
        UINT Value;
    };
} DXGK_SEGMENTBANKPREFERENCE;

typedef struct _DXGK_SEGMENTPREFERENCE {
    union {
        struct {
            UINT SegmentId0 : 5;
            UINT Direction0 : 1;
            UINT SegmentId1 : 5;
            UINT Direction1 : 1;
            UINT SegmentId2 : 5;
            UINT Direction2 : 1;
            UINT SegmentId3 : 5;
            UINT Direction3 : 1;
            UINT SegmentId4 : 5;
            UINT Direction4 : 1;
            UINT Reserved : 2;
        };
        UINT Value;
    };
} DXGK_SEGMENTPREFERENCE;

typedef struct _DXGK_DESTROYALLOCATIONFLAGS {
    union {
        struct {
            UINT DestroyResource : 1;
            UINT Reserved0 : 31;
        };
        UINT Value;
    };
} DXGK_DESTROYALLOCATIONFLAGS;

typedef struct _DXGK_OPENALLOCATIONFLAGS {
    union {
        struct {
            UINT Create : 1;
            UINT ReadOnly : 1;
            UINT Reserved0 : 30;
        };
        UINT Value;
    };
} DXGK_OPENALLOCATIONFLAGS;

typedef struct _DXGK_ALLOCATIONUSAGEHINT DXGK_ALLOCATIONUSAGEHINT;

typedef struct _DXGK_ALLOCATIONINFO {
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    union {
        UINT Alignment;
        struct {
            UINT16 MinimumPageSize;
            UINT16 RecommendedPageSize;
        };
    };
    SIZE_T Size;
    SIZE_T PitchAlignedSize;
    DXGK_SEGMENTBANKPREFERENCE HintedBank;
    DXGK_SEGMENTPREFERENCE PreferredSegment;
    union {
        UINT SupportedReadSegmentSet;
        UINT MmuSet;
    };
    UINT SupportedWriteSegmentSet;
    UINT EvictionSegmentSet;
    union {
        UINT MaximumRenamingListLength;
        UINT PhysicalAdapterIndex;
    };
    HANDLE hAllocation; /* out */
    union {
        DXGK_ALLOCATIONINFOFLAGS Flags;
        DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 FlagsWddm2;
    };
    DXGK_ALLOCATIONUSAGEHINT *pAllocationUsageHint;
    UINT AllocationPriority;
    DXGK_ALLOCATIONINFOFLAGS2 Flags2;
} DXGK_ALLOCATIONINFO;

/* The priorities that a driver gives (D3DDDI_ALLOCATIONPRIORITY). */
#define D3DDDI_ALLOCATIONPRIORITY_MINIMUM 0x28000000
#define D3DDDI_ALLOCATIONPRIORITY_LOW 0x50000000
#define D3DDDI_ALLOCATIONPRIORITY_NORMAL 0x78000000
#define D3DDDI_ALLOCATIONPRIORITY_HIGH 0xA0000000
#define D3DDDI_ALLOCATIONPRIORITY_MAXIMUM 0xC8000000

typedef struct _DXGKARG_CREATEALLOCATION {
    const VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    UINT NumAllocations;
    DXGK_ALLOCATIONINFO *pAllocationInfo;
    HANDLE hResource;
    DXGK_CREATEALLOCATIONFLAGS Flags;
} DXGKARG_CREATEALLOCATION;
typedef DXGKARG_CREATEALLOCATION *INOUT_PDXGKARG_CREATEALLOCATION;

typedef struct _DXGKARG_DESTROYALLOCATION {
    UINT NumAllocations;
    const HANDLE *pAllocationList;
    HANDLE hResource;
    DXGK_DESTROYALLOCATIONFLAGS Flags;
} DXGKARG_DESTROYALLOCATION;
typedef const DXGKARG_DESTROYALLOCATION *IN_CONST_PDXGKARG_DESTROYALLOCATION;

typedef struct _DXGK_OPENALLOCATIONINFO {
    D3DKMT_HANDLE hAllocation;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    HANDLE hDeviceSpecificAllocation; /* out */
} DXGK_OPENALLOCATIONINFO;

typedef struct _DXGKARG_OPENALLOCATION {
    UINT NumAllocations;
    DXGK_OPENALLOCATIONINFO *pOpenAllocation;
    VOID *pPrivateDriverData;
    UINT PrivateDriverSize;
    DXGK_OPENALLOCATIONFLAGS Flags;
    UINT SubresourceIndex;
    SIZE_T SubresourceOffset;
    UINT Pitch;
} DXGKARG_OPENALLOCATION;
typedef const DXGKARG_OPENALLOCATION *IN_CONST_PDXGKARG_OPENALLOCATION;

typedef struct _DXGKARG_CLOSEALLOCATION {
    UINT NumAllocations;
    const HANDLE *pOpenHandleList;
} DXGKARG_CLOSEALLOCATION;
typedef const DXGKARG_CLOSEALLOCATION *IN_CONST_PDXGKARG_CLOSEALLOCATION;

typedef struct _DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA {
    D3DKMDT_STANDARDALLOCATION_TYPE StandardAllocationType;
    union {
        D3DKMDT_SHAREDPRIMARYSURFACEDATA *pCreateSharedPrimarySurfaceData;
        D3DKMDT_SHADOWSURFACEDATA *pCreateShadowSurfaceData;
        D3DKMDT_STAGINGSURFACEDATA *pCreateStagingSurfaceData;
        D3DKMDT_GDISURFACEDATA *pCreateGdiSurfaceData;
        VOID *pCreateVirtualGpuSurfaceData;
        VOID *pCreateFenceStorageData;
    };
    VOID *pAllocationPrivateDriverData;
    UINT AllocationPrivateDriverDataSize;
    VOID *pResourcePrivateDriverData;
    UINT ResourcePrivateDriverDataSize;
    UINT PhysicalAdapterIndex;
} DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA;

/* ---- Paging ---- */

typedef enum _DXGK_BUILDPAGINGBUFFER_OPERATION {
    DXGK_OPERATION_TRANSFER = 0,
    DXGK_OPERATION_FILL = 1,
    DXGK_OPERATION_DISCARD_CONTENT = 2,
    DXGK_OPERATION_READ_PHYSICAL = 3,
    DXGK_OPERATION_WRITE_PHYSICAL = 4,
    DXGK_OPERATION_MAP_APERTURE_SEGMENT = 5,
    DXGK_OPERATION_UNMAP_APERTURE_SEGMENT = 6,
    DXGK_OPERATION_SPECIAL_LOCK_TRANSFER = 7,
    DXGK_OPERATION_VIRTUAL_TRANSFER = 8,
    DXGK_OPERATION_VIRTUAL_FILL = 9,
    DXGK_OPERATION_INIT_CONTEXT_RESOURCE = 10,
    DXGK_OPERATION_UPDATE_PAGE_TABLE = 11,
    DXGK_OPERATION_FLUSH_TLB = 12,
    DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION = 13,
    DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES = 14,
    DXGK_OPERATION_NOTIFY_RESIDENCY = 15,
    DXGK_OPERATION_SIGNAL_MONITORED_FENCE = 16,
    DXGK_OPERATION_MAP_APERTURE_SEGMENT2 = 17,
    DXGK_OPERATION_NOTIFY_FENCE_RESIDENCY = 18,
    DXGK_OPERATION_MAP_MMU = 19,
    DXGK_OPERATION_UNMAP_MMU = 20,
    DXGK_OPERATION_NOTIFY_RESIDENCY2 = 21,
    DXGK_OPERATION_NOTIFY_ALLOC = 22
} DXGK_BUILDPAGINGBUFFER_OPERATION;

typedef enum _DXGK_MEMORY_TRANSFER_DIRECTION {
    DXGK_MEMORY_TRANSFER_LOCAL_TO_SYSTEM = 0,
    DXGK_MEMORY_TRANSFER_SYSTEM_TO_LOCAL = 1,
    DXGK_MEMORY_TRANSFER_LOCAL_TO_LOCAL = 2
} DXGK_MEMORY_TRANSFER_DIRECTION;

typedef struct _DXGK_TRANSFERFLAGS {
    union {
        struct {
            UINT Swizzle : 1;
            UINT Unswizzle : 1;
            UINT AllocationIsIdle : 1;
            UINT TransferStart : 1;
            UINT TransferEnd : 1;
            UINT Reserved0 : 27;
        };
        UINT Value;
    };
} DXGK_TRANSFERFLAGS;

typedef struct _DXGK_DISCARDCONTENTFLAGS {
    union {
        struct {
            UINT AllocationIsIdle : 1;
            UINT Reserved0 : 31;
        };
        UINT Value;
    };
} DXGK_DISCARDCONTENTFLAGS;

typedef struct _DXGK_MAPAPERTUREFLAGS {
    union {
        struct {
            UINT CacheCoherent : 1;
            UINT Reserved0 : 31;
        };
        UINT Value;
    };
} DXGK_MAPAPERTUREFLAGS;

typedef struct _DXGK_TRANSFERVIRTUALFLAGS {
    union {
        struct {
            UINT Src64KBPages : 1;
            UINT Dst64KBPages : 1;
            UINT Reserved0 : 30;
        };
        UINT Flags;
    };
} DXGK_TRANSFERVIRTUALFLAGS;

typedef struct _DXGK_UPDATEPAGETABLEFLAGS {
    union {
        struct {
            UINT Repeat : 1;
            UINT InitialUpdate : 1;
            UINT NotifyEviction : 1;
            UINT Use64KBPages : 1;
            UINT NativeFence : 1;
            UINT Reserved0 : 27;
        };
        UINT Value;
    };
} DXGK_UPDATEPAGETABLEFLAGS;

typedef struct _DXGK_NOTIFYALLOCFLAGS {
    union {
        struct {
            UINT Eviction : 1;
            UINT IoMmuUnmap : 1;
            UINT Reserved0 : 30;
        };
        UINT Value;
    };
} DXGK_NOTIFYALLOCFLAGS;

typedef struct _DXGK_ADL_FLAGS {
    union {
        struct {
            UINT Contiguous : 1;
            UINT Reserved0 : 31;
        };
        UINT Value;
    };
} DXGK_ADL_FLAGS;

typedef struct _DXGK_SUBMITCOMMANDFLAGS {
    union {
        struct {
            UINT Paging : 1;
            UINT Present : 1;
            UINT RedirectedPresent : 1;
            UINT NullRendering : 1;
            UINT Flip : 1;
            UINT FlipWithNoWait : 1;
            UINT ContextSwitch : 1;
            UINT Resubmission : 1;
            UINT VirtualMachineData : 1;
            UINT Reserved0 : 23;
        };
        UINT Value;
    };
} DXGK_SUBMITCOMMANDFLAGS;

typedef struct _DXGK_PATCHFLAGS {
    union {
        struct {
            UINT Paging : 1;
            UINT Present : 1;
            UINT RedirectedPresent : 1;
            UINT NullRendering : 1;
            UINT Reserved0 : 28;
        };
        UINT Value;
    };
} DXGK_PATCHFLAGS;

typedef struct _DXGK_PREEMPTCOMMANDFLAGS {
    union {
        struct {
            UINT Reserved0 : 32;
        };
        UINT Value;
    };
} DXGK_PREEMPTCOMMANDFLAGS;

typedef struct _DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL {
    HANDLE hAllocation;
    UINT64 AllocationOffsetInBytes;
    UINT64 TransferSizeInBytes;
    D3DGPU_VIRTUAL_ADDRESS SourceVirtualAddress;
    D3DGPU_VIRTUAL_ADDRESS DestinationVirtualAddress;
    D3DGPU_VIRTUAL_ADDRESS SourcePageTable;
    DXGK_MEMORY_TRANSFER_DIRECTION TransferDirection;
    DXGK_TRANSFERVIRTUALFLAGS Flags;
    D3DGPU_VIRTUAL_ADDRESS DestinationPageTable;
} DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL;

typedef struct _DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL {
    HANDLE hAllocation;
    UINT64 AllocationOffsetInBytes;
    UINT64 FillSizeInBytes;
    UINT FillPattern;
    D3DGPU_VIRTUAL_ADDRESS DestinationVirtualAddress;
} DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL;

typedef union _DXGK_PAGETABLEUPDATEADDRESS {
    PVOID CpuVirtual;
    D3DGPU_PHYSICAL_ADDRESS GpuPhysical;
    D3DGPU_VIRTUAL_ADDRESS GpuVirtual;
} DXGK_PAGETABLEUPDATEADDRESS;

typedef struct _DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE {
    UINT PageTableLevel;
    HANDLE hAllocation;
    DXGK_PAGETABLEUPDATEADDRESS PageTableAddress;
    DXGK_PTE *pPageTableEntries;
    UINT StartIndex;
    UINT NumPageTableEntries;
    UINT Reserved0;
    DXGK_UPDATEPAGETABLEFLAGS Flags;
    UINT64 DriverProtection;
    UINT64 AllocationOffsetInBytes;
    HANDLE hProcess;
    DXGK_PAGETABLEUPDATEMODE UpdateMode;
    DXGK_PTE *pPageTableEntries64KB;
    D3DGPU_VIRTUAL_ADDRESS FirstPteVirtualAddress;
} DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE;

typedef struct _DXGK_BUILDPAGINGBUFFER_FLUSHTLB {
    D3DGPU_PHYSICAL_ADDRESS RootPageTableAddress;
    HANDLE hProcess;
    D3DGPU_VIRTUAL_ADDRESS StartVirtualAddress;
    D3DGPU_VIRTUAL_ADDRESS EndVirtualAddress;
} DXGK_BUILDPAGINGBUFFER_FLUSHTLB;

typedef struct _DXGK_BUILDPAGINGBUFFER_COPY_RANGE {
    UINT NumPageTableEntries;
    D3DGPU_VIRTUAL_ADDRESS SrcPageTableAddress;
    D3DGPU_VIRTUAL_ADDRESS DstPageTableAddress;
    UINT SrcStartPteIndex;
    UINT DstStartPteIndex;
} DXGK_BUILDPAGINGBUFFER_COPY_RANGE;

typedef struct _DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES {
    UINT NumRanges;
    DXGK_BUILDPAGINGBUFFER_COPY_RANGE *pRanges;
} DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES;

typedef struct _DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION {
    D3DGPU_VIRTUAL_ADDRESS ContextAllocation;
    UINT64 ContextAllocationSize;
    PVOID pDriverPrivateData;
    UINT DriverPrivateDataSize;
} DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION;

typedef struct _DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY {
    HANDLE hAllocation;
    D3DGPU_PHYSICAL_ADDRESS PhysicalAddress;
    union {
        struct {
            UINT Resident : 1;
            UINT ReservedBits : 31;
        };
        UINT Reserved;
    };
} DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY;

typedef struct _DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE {
    D3DGPU_VIRTUAL_ADDRESS MonitoredFenceGpuVa;
    UINT64 MonitoredFenceValue;
} DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE;

typedef struct _DXGK_ADL {
    UINT PageCount;
    DXGK_ADL_FLAGS Flags;
    union {
        UINT64 BasePageNumber;
        UINT64 *Pages;
    };
} DXGK_ADL;

typedef struct _DXGK_FENCE_RESIDENCY_INFO DXGK_FENCE_RESIDENCY_INFO;

typedef struct _DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY {
    UINT NumFences;
    struct {
        UINT Reserved;
    } Flags;
    DXGK_FENCE_RESIDENCY_INFO *FenceResidencyInfo;
} DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY;

typedef struct _DXGK_BUILDPAGINGBUFFER_MAPMMU {
    HANDLE hAllocation;
    D3DGPU_VIRTUAL_ADDRESS VirtualAddress;
    UINT16 MmuId;
    UINT16 SegmentId;
    UINT AllocationOffsetInPages;
    DXGK_ADL Adl;
} DXGK_BUILDPAGINGBUFFER_MAPMMU;

typedef struct _DXGK_BUILDPAGINGBUFFER_UNMAPMMU {
    HANDLE hAllocation;
    D3DGPU_VIRTUAL_ADDRESS VirtualAddress;
    UINT16 MmuId;
    UINT16 Reserved0;
    UINT AllocationOffset;
    UINT64 NumberOfPages;
} DXGK_BUILDPAGINGBUFFER_UNMAPMMU;

typedef struct _DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2 {
    HANDLE hAllocation;
    UINT AllocationOffsetInPages;
    UINT SizeInPages;
    UINT16 SegmentId;
    UINT16 Padding0;
    union {
        D3DGPU_PHYSICAL_ADDRESS PhysicalAddress;
        PMDL Mdl;
    };
    UINT Resident : 1;
    UINT Reserved : 31;
} DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2;

typedef struct _DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC {
    HANDLE hAllocation;
    HANDLE hKmdProcessHandle;
    DXGK_NOTIFYALLOCFLAGS Flags;
    UINT64 OffsetInBytes;
    UINT64 SizeInBytes;
    D3DGPU_VIRTUAL_ADDRESS GpuVirtualAddressAtOffset;
} DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC;

typedef struct _DXGKARG_BUILDPAGINGBUFFER {
    VOID *pDmaBuffer;                /* in: the next free byte; out: behind the last one written */
    UINT DmaSize;                    /* in: bytes that are free */
    VOID *pDmaBufferPrivateData;     /* likewise */
    UINT DmaBufferPrivateDataSize;
    DXGK_BUILDPAGINGBUFFER_OPERATION Operation;
    UINT MultipassOffset;            /* the driver's own progress in this operation */
    union {
        struct {
            HANDLE hAllocation;
            UINT TransferOffset;
            SIZE_T TransferSize;
            struct {
                UINT SegmentId; /* 0: pMdl */
                union {
                    LARGE_INTEGER SegmentAddress;
                    MDL *pMdl;
                };
            } Source;
            struct {
                UINT SegmentId;
                union {
                    LARGE_INTEGER SegmentAddress;
                    MDL *pMdl;
                };
            } Destination;
            DXGK_TRANSFERFLAGS Flags;
            UINT MdlOffset; /* in pages */
        } Transfer;
        struct {
            HANDLE hAllocation;
            SIZE_T FillSize;
            UINT FillPattern;
            struct {
                UINT SegmentId;
                LARGE_INTEGER SegmentAddress;
            } Destination;
        } Fill;
        struct {
            HANDLE hAllocation;
            DXGK_DISCARDCONTENTFLAGS Flags;
            UINT SegmentId;
            PHYSICAL_ADDRESS SegmentAddress;
        } DiscardContent;
        struct {
            UINT SegmentId;
            PHYSICAL_ADDRESS PhysicalAddress;
        } ReadPhysical;
        struct {
            UINT SegmentId;
            PHYSICAL_ADDRESS PhysicalAddress;
        } WritePhysical;
        struct {
            HANDLE hDevice;
            HANDLE hAllocation;
            UINT SegmentId;
            SIZE_T OffsetInPages;
            SIZE_T NumberOfPages;
            PMDL pMdl;
            DXGK_MAPAPERTUREFLAGS Flags;
            ULONG MdlOffset;
        } MapApertureSegment;
        struct {
            HANDLE hDevice;
            HANDLE hAllocation;
            UINT SegmentId;
            SIZE_T OffsetInPages;
            SIZE_T NumberOfPages;
            PHYSICAL_ADDRESS DummyPage;
        } UnmapApertureSegment;
        struct {
            HANDLE hAllocation;
            UINT TransferOffset;
            SIZE_T TransferSize;
            struct {
                UINT SegmentId;
                union {
                    LARGE_INTEGER SegmentAddress;
                    MDL *pMdl;
                };
            } Source;
            struct {
                UINT SegmentId;
                union {
                    LARGE_INTEGER SegmentAddress;
                    MDL *pMdl;
                };
            } Destination;
            DXGK_TRANSFERFLAGS Flags;
            UINT SwizzlingRangeId;
            UINT SwizzlingRangeData;
        } SpecialLockTransfer;
        struct {
            HANDLE hAllocation;
            struct {
                UINT SegmentId;
                union {
                    LARGE_INTEGER SegmentAddress;
                    MDL *pMdl;
                };
                PVOID VirtualAddress;
                D3DGPU_VIRTUAL_ADDRESS GpuVirtualAddress;
            } Destination;
        } InitContextResource;
        DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL TransferVirtual;
        DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL FillVirtual;
        DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE UpdatePageTable;
        DXGK_BUILDPAGINGBUFFER_FLUSHTLB FlushTlb;
        DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES CopyPageTableEntries;
        DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION UpdateContextAllocation;
        DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY NotifyResidency;
        DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE SignalMonitoredFence;
        struct {
            HANDLE hDevice;
            HANDLE hAllocation;
            UINT SegmentId;
            SIZE_T OffsetInPages;
            SIZE_T NumberOfPages;
            DXGK_ADL Adl;
            DXGK_MAPAPERTUREFLAGS Flags;
            ULONG AdlOffset;
            PVOID CpuVisibleAddress;
        } MapApertureSegment2;
        DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY NotifyFenceResidency;
        DXGK_BUILDPAGINGBUFFER_MAPMMU MmapMmu;
        DXGK_BUILDPAGINGBUFFER_UNMAPMMU UnmapMmu;
        DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2 NotifyResidency2;
        DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC NotifyAllocation;
        struct {
            UINT Reserved[64];
        } Reserved;
    };
    HANDLE hSystemContext;
    D3DGPU_VIRTUAL_ADDRESS DmaBufferGpuVirtualAddress;
    UINT DmaBufferWriteOffset;
} DXGKARG_BUILDPAGINGBUFFER;
typedef DXGKARG_BUILDPAGINGBUFFER *IN_PDXGKARG_BUILDPAGINGBUFFER;

typedef struct _DXGKARG_GETROOTPAGETABLESIZE {
    UINT NumberOfPte;
    UINT PhysicalAdapterIndex;
} DXGKARG_GETROOTPAGETABLESIZE;
typedef DXGKARG_GETROOTPAGETABLESIZE *INOUT_PDXGKARG_GETROOTPAGETABLESIZE;

typedef struct _DXGKARG_SETROOTPAGETABLE {
    HANDLE hContext;
    D3DGPU_PHYSICAL_ADDRESS Address;
    UINT NumEntries;
} DXGKARG_SETROOTPAGETABLE;
typedef const DXGKARG_SETROOTPAGETABLE *IN_CONST_PDXGKARG_SETROOTPAGETABLE;

/* ---- Submission ---- */

typedef struct _DXGK_ALLOCATIONLIST {
    HANDLE hDeviceSpecificAllocation;
    struct {
        UINT WriteOperation : 1;
        UINT SegmentId : 5;
        UINT Reserved : 26;
    };
    union {
        PHYSICAL_ADDRESS PhysicalAddress;
        D3DGPU_VIRTUAL_ADDRESS VirtualAddress;
    };
} DXGK_ALLOCATIONLIST;

typedef struct _DXGKARG_RENDER {
    const VOID *pCommand;
    UINT CommandLength;
    VOID *pDmaBuffer;
    UINT DmaSize;
    VOID *pDmaBufferPrivateData;
    UINT DmaBufferPrivateDataSize;
    DXGK_ALLOCATIONLIST *pAllocationList;
    UINT AllocationListSize;
    D3DDDI_PATCHLOCATIONLIST *pPatchLocationListIn;
    UINT PatchLocationListInSize;
    D3DDDI_PATCHLOCATIONLIST *pPatchLocationListOut;
    UINT PatchLocationListOutSize;
    UINT MultipassOffset;
    UINT DmaBufferSegmentId;
    PHYSICAL_ADDRESS DmaBufferPhysicalAddress;
} DXGKARG_RENDER;
typedef DXGKARG_RENDER *INOUT_PDXGKARG_RENDER;

typedef struct _DXGKARG_PATCH {
    union {
        HANDLE hDevice;
        HANDLE hContext;
    };
    UINT DmaBufferSegmentId;
    PHYSICAL_ADDRESS DmaBufferPhysicalAddress;
    VOID *pDmaBuffer;
    UINT DmaBufferSize;
    UINT DmaBufferSubmissionStartOffset;
    UINT DmaBufferSubmissionEndOffset;
    VOID *pDmaBufferPrivateData;
    UINT DmaBufferPrivateDataSize;
    UINT DmaBufferPrivateDataSubmissionStartOffset;
    UINT DmaBufferPrivateDataSubmissionEndOffset;
    const DXGK_ALLOCATIONLIST *pAllocationList;
    UINT AllocationListSize;
    const D3DDDI_PATCHLOCATIONLIST *pPatchLocationList;
    UINT PatchLocationListSize;
    UINT PatchLocationListSubmissionStart;
    UINT PatchLocationListSubmissionLength;
    UINT SubmissionFenceId;
    DXGK_PATCHFLAGS Flags;
    UINT EngineOrdinal;
} DXGKARG_PATCH;
typedef const DXGKARG_PATCH *IN_CONST_PDXGKARG_PATCH;

typedef struct _DXGKARG_SUBMITCOMMAND {
    union {
        HANDLE hDevice;
        HANDLE hContext;
    };
    UINT DmaBufferSegmentId;
    PHYSICAL_ADDRESS DmaBufferPhysicalAddress;
    UINT DmaBufferSize;
    UINT DmaBufferSubmissionStartOffset;
    UINT DmaBufferSubmissionEndOffset;
    VOID *pDmaBufferPrivateData;
    UINT DmaBufferPrivateDataSize;
    UINT DmaBufferPrivateDataSubmissionStartOffset;
    UINT DmaBufferPrivateDataSubmissionEndOffset;
    UINT SubmissionFenceId;
    D3DDDI_VIDEO_PRESENT_SOURCE_ID VidPnSourceId;
    UINT FlipInterval;
    DXGK_SUBMITCOMMANDFLAGS Flags;
    UINT EngineOrdinal;
    D3DGPU_VIRTUAL_ADDRESS DmaBufferVirtualAddress;
    UINT NodeOrdinal;
} DXGKARG_SUBMITCOMMAND;
typedef const DXGKARG_SUBMITCOMMAND *IN_CONST_PDXGKARG_SUBMITCOMMAND;

typedef struct _DXGKARG_SUBMITCOMMANDVIRTUAL {
    HANDLE hContext;
    D3DGPU_VIRTUAL_ADDRESS DmaBufferVirtualAddress;
    UINT DmaBufferSize;
    VOID *pDmaBufferPrivateData;
    UINT DmaBufferPrivateDataSize;
    UINT DmaBufferUmdPrivateDataSize;
    UINT SubmissionFenceId;
    D3DDDI_VIDEO_PRESENT_SOURCE_ID VidPnSourceId;
    UINT FlipInterval;
    DXGK_SUBMITCOMMANDFLAGS Flags;
    UINT EngineOrdinal;
    UINT NodeOrdinal;
} DXGKARG_SUBMITCOMMANDVIRTUAL;
typedef const DXGKARG_SUBMITCOMMANDVIRTUAL *IN_CONST_PDXGKARG_SUBMITCOMMANDVIRTUAL;

typedef struct _DXGKARG_PREEMPTCOMMAND {
    UINT PreemptionFenceId;
    UINT NodeOrdinal;
    UINT EngineOrdinal;
    DXGK_PREEMPTCOMMANDFLAGS Flags;
} DXGKARG_PREEMPTCOMMAND;
typedef const DXGKARG_PREEMPTCOMMAND *IN_CONST_PDXGKARG_PREEMPTCOMMAND;

typedef struct _DXGKARG_RESETENGINE {
    UINT NodeOrdinal;
    UINT EngineOrdinal;
    UINT LastAbortedFenceId; /* out */
} DXGKARG_RESETENGINE;
typedef DXGKARG_RESETENGINE *INOUT_PDXGKARG_RESETENGINE;

typedef struct _DXGKARG_QUERYDEPENDENTENGINEGROUP {
    UINT NodeOrdinal;
    UINT EngineOrdinal;
    ULONGLONG DependentNodeOrdinalMask; /* out */
} DXGKARG_QUERYDEPENDENTENGINEGROUP;

/* ---- Interrupts ---- */

typedef enum _DXGK_INTERRUPT_TYPE {
    DXGK_INTERRUPT_DMA_COMPLETED = 1,
    DXGK_INTERRUPT_DMA_PREEMPTED = 2,
    DXGK_INTERRUPT_CRTC_VSYNC = 3,
    DXGK_INTERRUPT_DMA_FAULTED = 4,
    DXGK_INTERRUPT_DMA_PAGE_FAULTED = 9
} DXGK_INTERRUPT_TYPE;

/*
 * The sources disagree on the whole; these members have the same offsets in both. The size is that of the larger form, so code
 * that clears it by sizeof is right.
 */
typedef struct _DXGKARGCB_NOTIFY_INTERRUPT_DATA {
    DXGK_INTERRUPT_TYPE InterruptType;
    union {
        struct {
            UINT SubmissionFenceId;
            UINT NodeOrdinal;
            UINT EngineOrdinal;
        } DmaCompleted;
        struct {
            UINT PreemptionFenceId;
            UINT LastCompletedFenceId;
            UINT NodeOrdinal;
            UINT EngineOrdinal;
        } DmaPreempted;
        struct {
            UINT FaultedFenceId;
            NTSTATUS Status;
            UINT NodeOrdinal;
            UINT EngineOrdinal;
        } DmaFaulted;
        struct {
            UINT FaultedFenceId;
            UINT64 FaultedPrimitiveAPISequenceNumber;
            DXGK_RENDER_PIPELINE_STAGE FaultedPipelineStage;
            UINT FaultedBindTableEntry;
            DXGK_PAGE_FAULT_FLAGS PageFaultFlags;
            D3DGPU_VIRTUAL_ADDRESS FaultedVirtualAddress;
            UINT NodeOrdinal;
            UINT EngineOrdinal;
            UINT PageTableLevel;
            DXGK_FAULT_ERROR_CODE FaultErrorCode;
            HANDLE FaultedProcessHandle;
        } DmaPageFaulted;
        UINT64 Space[14];
    };
} DXGKARGCB_NOTIFY_INTERRUPT_DATA;
typedef const DXGKARGCB_NOTIFY_INTERRUPT_DATA *IN_CONST_PDXGKARGCB_NOTIFY_INTERRUPT_DATA;

typedef struct _DXGKARG_VALIDATEUPDATEALLOCPROPERTY {
    HANDLE hAllocation;
    UINT SupportedSegmentSet;
    DXGK_SEGMENTPREFERENCE PreferredSegment;
    union {
        struct {
            UINT AccessedPhysically : 1;
            UINT Unmoveable : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    } Flags;
    union {
        struct {
            UINT SetAccessedPhysically : 1;
            UINT SetSupportedSegmentSet : 1;
            UINT SetPreferredSegment : 1;
            UINT Reserved : 29;
        };
        UINT PropertyMaskValue;
    };
} DXGKARG_VALIDATEUPDATEALLOCPROPERTY;

#endif
