/*
 * A reference driver of WDDM 1.3, or of 1.1 or 2.0: a GPU with physical addresses, whose DMA buffers are patched and split; one memory segment,
 * one engine, and with WITH_APERTURE an aperture segment. The memory-management part is what a driver for Windows has, with its names; the hardware is in gpu.c.
 */
#include "driver.h"

/* The private data that the user-mode driver passes. */
typedef struct PRIVATE_DATA {
    UINT64 Size;
    UINT Segments; /* bit 0: memory, bit 1: system memory through the aperture */
    UINT Priority;
    UINT Flags;
    UINT Magic;
} PRIVATE_DATA;

/* The private data of a resource, and the resource: a surface with rows. */
typedef struct RESOURCE_DATA {
    UINT Pitch;
    UINT Magic;
} RESOURCE_DATA;

typedef struct RESOURCE {
    UINT Pitch;
} RESOURCE;

#define PRIVATE_DATA_MAGIC 0x43544150u

/* Each generation of WDDM asks for the segments in its own way. From WDDM 2.0 on an adapter needs an aperture. */
#if defined(WITH_WDDM2)
#define DRIVER_VERSION DXGKDDI_INTERFACE_VERSION_WDDM2_0
#define QUERY_SEGMENTS DXGKQAITYPE_QUERYSEGMENT4
typedef DXGK_QUERYSEGMENTOUT4 SEGMENTS;
typedef DXGK_SEGMENTDESCRIPTOR4 SEGMENT;
#elif defined(WITH_WDDM1_1)
#define DRIVER_VERSION DXGKDDI_INTERFACE_VERSION_WIN7
#define QUERY_SEGMENTS DXGKQAITYPE_QUERYSEGMENT
typedef DXGK_QUERYSEGMENTOUT SEGMENTS;
typedef DXGK_SEGMENTDESCRIPTOR SEGMENT;
#else
#define DRIVER_VERSION DXGKDDI_INTERFACE_VERSION_WDDM1_3
#define QUERY_SEGMENTS DXGKQAITYPE_QUERYSEGMENT3
typedef DXGK_QUERYSEGMENTOUT3 SEGMENTS;
typedef DXGK_SEGMENTDESCRIPTOR3 SEGMENT;
#endif

/* ---- The adapter ---- */

static NTSTATUS AddDevice(const PDEVICE_OBJECT PhysicalDeviceObject, PVOID *MiniportDeviceContext) {
    ADAPTER *Adapter = (ADAPTER *)ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*Adapter), TAG);
    UNREFERENCED_PARAMETER(PhysicalDeviceObject);
    if (Adapter == NULL) {
        return STATUS_NO_MEMORY;
    }
    *MiniportDeviceContext = Adapter;
    return STATUS_SUCCESS;
}

/* Maps the first range of memory of the device. */
static BOOLEAN MapRegisters(ADAPTER *Adapter) {
    const CM_PARTIAL_RESOURCE_LIST *List;
    DXGK_DEVICE_INFO Info;
    ULONG At;
    PVOID Registers;
    if (!NT_SUCCESS(Adapter->Dxgkrnl.DxgkCbGetDeviceInformation(Adapter->Dxgkrnl.DeviceHandle, &Info))) {
        return FALSE;
    }
    List = &Info.TranslatedResourceList->List[0].PartialResourceList;
    for (At = 0; At < List->Count; At++) {
        if (List->PartialDescriptors[At].Type == CmResourceTypeMemory) {
            PHYSICAL_ADDRESS Address = List->PartialDescriptors[At].u.Memory.Start;
            if (BUG(REGISTERS_32_BITS)) {
                Address.QuadPart = (UINT)Address.QuadPart;
            }
            return NT_SUCCESS(Adapter->Dxgkrnl.DxgkCbMapMemory(Adapter->Dxgkrnl.DeviceHandle, Address, PAGE_SIZE, FALSE, FALSE,
                                                               MmNonCached, &Registers));
        }
    }
    return FALSE;
}

#ifdef WITH_REPORTER
static NTSTATUS StartReporter(ADAPTER *Adapter);
static VOID StopReporter(ADAPTER *Adapter);
#endif

static NTSTATUS StartDevice(const PVOID MiniportDeviceContext, PDXGK_START_INFO StartInfo, PDXGKRNL_INTERFACE Dxgkrnl,
                            PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren) {
    ADAPTER *Adapter = (ADAPTER *)MiniportDeviceContext;
    UNREFERENCED_PARAMETER(StartInfo);
    Adapter->Dxgkrnl = *Dxgkrnl;
    if (BUG(INTERFACE_READ_BEHIND)) {
        (void)((volatile BYTE *)(Dxgkrnl + 1))[7];
    }
    if (!MapRegisters(Adapter)) {
        return STATUS_UNSUCCESSFUL;
    }
    GpuStart(&Adapter->Gpu, Dxgkrnl->DeviceHandle);
    *NumberOfVideoPresentSources = 0;
    *NumberOfChildren = 0;
#ifdef WITH_REPORTER
    return StartReporter(Adapter);
#else
    return STATUS_SUCCESS;
#endif
}

static NTSTATUS StopDevice(const PVOID MiniportDeviceContext) {
#ifdef WITH_REPORTER
    StopReporter((ADAPTER *)MiniportDeviceContext);
#else
    UNREFERENCED_PARAMETER(MiniportDeviceContext);
#endif
    return STATUS_SUCCESS;
}

static NTSTATUS RemoveDevice(const PVOID MiniportDeviceContext) {
    ExFreePoolWithTag(MiniportDeviceContext, TAG);
    return STATUS_SUCCESS;
}

static VOID Unload(VOID) {
}

static NTSTATUS QuerySegments(SEGMENTS *Out) {
#if defined(WITHOUT_MEMORY)
    Out->NbSegment = 1;
#elif defined(WITH_MORE_MEMORY)
    Out->NbSegment = 3;
#elif defined(WITH_APERTURE)
    Out->NbSegment = 2;
#else
    Out->NbSegment = 1;
#endif
    Out->PagingBufferSegmentId = 0;
#ifndef WITHOUT_PAGING_BUFFER
    Out->PagingBufferSize = 4 << 10;
#endif
#ifdef WITH_KEPT_POINTERS
    Out->PagingBufferPrivateDataSize = sizeof(PAGING_DATA);
#else
    Out->PagingBufferPrivateDataSize = 0;
#endif
#ifdef WITH_WDDM2
    Out->SegmentDescriptorStride = sizeof(SEGMENT);
#endif
#ifdef WITHOUT_MEMORY
    /* Limits are left 0: the whole aperture may be used. */
    if (Out->pSegmentDescriptor != NULL) {
        SEGMENT *Aperture = (SEGMENT *)Out->pSegmentDescriptor;
        Aperture->Flags.Aperture = 1;
        Aperture->BaseAddress.QuadPart = GPU_APERTURE_BASE;
        Aperture->Size = GPU_APERTURE_BYTES;
    }
#else
    if (Out->pSegmentDescriptor != NULL) {
        SEGMENT *Memory = (SEGMENT *)Out->pSegmentDescriptor;
        Memory->BaseAddress.QuadPart = GPU_MEMORY_BASE;
        Memory->Size = GPU_MEMORY_BYTES;
        Memory->CommitLimit = GPU_MEMORY_BYTES;
#ifdef WITH_APERTURE
        Memory[1].Flags.Aperture = 1;
        Memory[1].BaseAddress.QuadPart = GPU_APERTURE_BASE;
        Memory[1].Size = GPU_APERTURE_BYTES;
        Memory[1].CommitLimit = GPU_APERTURE_BYTES;
#endif
#ifdef WITH_MORE_MEMORY
        Memory[2].BaseAddress.QuadPart = GPU_MORE_MEMORY_BASE;
        Memory[2].Size = GPU_MORE_MEMORY_BYTES;
        Memory[2].CommitLimit = GPU_MORE_MEMORY_BYTES;
#endif
    }
#endif
    return STATUS_SUCCESS;
}

static NTSTATUS QueryAdapterInfo(const HANDLE hAdapter, const DXGKARG_QUERYADAPTERINFO *Query) {
    UNREFERENCED_PARAMETER(hAdapter);
    switch (Query->Type) {
    case DXGKQAITYPE_DRIVERCAPS: {
        DXGK_DRIVERCAPS *Caps = (DXGK_DRIVERCAPS *)Query->pOutputData;
        if (Query->OutputDataSize < sizeof(*Caps)) {
            return STATUS_BUFFER_TOO_SMALL;
        }
        Caps->HighestAcceptableAddress.QuadPart = -1;
        if (BUG(OUTPUT_OVERRUN)) {
            ((volatile BYTE *)Query->pOutputData)[Query->OutputDataSize] = 0;
        }
#ifndef WITHOUT_MEMORY
        Caps->ApertureSegmentCommitLimit = (SIZE_T)-1;
        Caps->MaxAllocationListSlotId = SLOTS;
#endif
        Caps->SchedulingCaps.MultiEngineAware = 1;
        Caps->GpuEngineTopology.NbAsymetricProcessingNodes = 1;
#ifndef WITHOUT_ENGINE_RESET
        Caps->SupportPerEngineTDR = TRUE;
#endif
        Caps->SupportRuntimePowerManagement = TRUE;
        Caps->SchedulingCaps.CancelCommandAware = 1;
        return STATUS_SUCCESS;
    }
    case DXGKQAITYPE_NUMPOWERCOMPONENTS:
        *(UINT *)Query->pOutputData = 1;
        return STATUS_SUCCESS;
    case DXGKQAITYPE_POWERCOMPONENTINFO:
        return DescribeComponent(Query);
    case QUERY_SEGMENTS:
        return QuerySegments((SEGMENTS *)Query->pOutputData);
    default:
        return STATUS_NOT_SUPPORTED;
    }
}

/* ---- Devices, contexts ---- */

#ifndef WITH_WDDM2
/* Processes exist from WDDM 2.0 on: nobody calls this. */
static NTSTATUS CreateProcess(const HANDLE hAdapter, DXGKARG_CREATEPROCESS *Create) {
    UNREFERENCED_PARAMETER(hAdapter);
    UNREFERENCED_PARAMETER(Create);
    return STATUS_NOT_SUPPORTED;
}
#endif

#ifdef WITH_ONE_CONTEXT

/* The hardware has one context: all devices and contexts are the adapter's only device and only context. */
static NTSTATUS CreateDevice(const HANDLE hAdapter, DXGKARG_CREATEDEVICE *Create) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    Adapter->OnlyDevice.Adapter = Adapter;
    Create->hDevice = &Adapter->OnlyDevice;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyDevice(const HANDLE hDevice) {
    UNREFERENCED_PARAMETER(hDevice);
    return STATUS_SUCCESS;
}

static CONTEXT *NewContext(DEVICE *Device) {
    return &Device->Adapter->OnlyContext;
}

static NTSTATUS DestroyContext(const HANDLE hContext) {
    UNREFERENCED_PARAMETER(hContext);
    return STATUS_SUCCESS;
}

#else

static NTSTATUS CreateDevice(const HANDLE hAdapter, DXGKARG_CREATEDEVICE *Create) {
    DEVICE *Device = (DEVICE *)ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*Device), TAG);
    if (Device == NULL) {
        return STATUS_NO_MEMORY;
    }
    Device->Adapter = (ADAPTER *)hAdapter;
    Create->hDevice = Device;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyDevice(const HANDLE hDevice) {
    ExFreePoolWithTag(hDevice, TAG);
    return STATUS_SUCCESS;
}

static CONTEXT *NewContext(DEVICE *Device) {
    UNREFERENCED_PARAMETER(Device);
    return (CONTEXT *)ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(CONTEXT), TAG);
}

static NTSTATUS DestroyContext(const HANDLE hContext) {
    ExFreePoolWithTag(hContext, TAG);
    return STATUS_SUCCESS;
}

#endif

static NTSTATUS CreateContext(const HANDLE hDevice, DXGKARG_CREATECONTEXT *Create) {
    CONTEXT *Context = NewContext((DEVICE *)hDevice);
    if (Context == NULL) {
        return STATUS_NO_MEMORY;
    }
    Context->Device = (DEVICE *)hDevice;
    Context->NodeOrdinal = Create->NodeOrdinal;
    Create->hContext = Context;
    Create->ContextInfo.DmaBufferSize = 64 << 10;
    Create->ContextInfo.DmaBufferPrivateDataSize = sizeof(RENDERED);
    Create->ContextInfo.AllocationListSize = 256;
    Create->ContextInfo.PatchLocationListSize = 256;
    return STATUS_SUCCESS;
}

/* ---- Allocations ---- */

/* Bit 0 is segment 1. */
static UINT SegmentSet(UINT Segments) {
    UINT Memory = GPU_MEMORY_SEGMENT != 0 && (Segments & 1) != 0 ? 1u << (GPU_MEMORY_SEGMENT + 31) % 32 : 0;
#ifdef WITH_MORE_MEMORY
    Memory |= (Segments & 1) != 0 ? 1u << (GPU_MORE_MEMORY_SEGMENT - 1) : 0;
#endif
    return Memory | ((Segments & 2) != 0 ? 1u << (GPU_APERTURE_SEGMENT - 1) : 0);
}

static NTSTATUS CreateOne(DXGK_ALLOCATIONINFO *Info) {
    const PRIVATE_DATA *Data = (const PRIVATE_DATA *)Info->pPrivateDriverData;
    ALLOCATION *Allocation;
    if (Info->PrivateDriverDataSize != sizeof(*Data) || Data->Magic != PRIVATE_DATA_MAGIC || Data->Size == 0) {
        return STATUS_INVALID_PARAMETER;
    }
    Allocation = (ALLOCATION *)ExAllocatePool2(POOL_FLAG_PAGED, sizeof(*Allocation), TAG);
    if (Allocation == NULL) {
        return STATUS_NO_MEMORY;
    }
    Allocation->Size = Data->Size;
    Info->hAllocation = Allocation;
    Info->Size = Data->Size;
    Info->Alignment = 256; /* any is right: below a page it is a page */
    Info->SupportedReadSegmentSet = SegmentSet(Data->Segments);
    Info->SupportedWriteSegmentSet = SegmentSet(Data->Segments);
    if (Data->Segments & 1) {
        Info->PreferredSegment.SegmentId0 = GPU_MEMORY_SEGMENT;
#ifdef WITH_MORE_MEMORY
        Info->PreferredSegment.SegmentId1 = GPU_MORE_MEMORY_SEGMENT;
        Info->PreferredSegment.SegmentId2 = Data->Segments & 2 ? GPU_APERTURE_SEGMENT : 0;
#else
        Info->PreferredSegment.SegmentId1 = Data->Segments & 2 ? GPU_APERTURE_SEGMENT : 0;
#endif
    } else {
        Info->PreferredSegment.SegmentId0 = GPU_APERTURE_SEGMENT;
    }
#if defined(WITH_EVICTION_SET)
    Info->EvictionSegmentSet = 1u << (GPU_APERTURE_SEGMENT - 1);
#endif
    Info->AllocationPriority = Data->Priority != 0 ? Data->Priority : D3DDDI_ALLOCATIONPRIORITY_NORMAL;
    Info->Flags.Value = Data->Flags;
    return STATUS_SUCCESS;
}

/* The resource that a standard allocation is all of. */
static NTSTATUS CreateResource(DXGKARG_CREATEALLOCATION *Create) {
    const RESOURCE_DATA *Data = (const RESOURCE_DATA *)Create->pPrivateDriverData;
    RESOURCE *Resource;
    if (Create->PrivateDriverDataSize != sizeof(*Data) || Data->Magic != PRIVATE_DATA_MAGIC) {
        return STATUS_INVALID_PARAMETER;
    }
    Resource = (RESOURCE *)ExAllocatePool2(POOL_FLAG_PAGED, sizeof(*Resource), TAG);
    if (Resource == NULL) {
        return STATUS_NO_MEMORY;
    }
    Resource->Pitch = Data->Pitch;
    Create->hResource = Resource;
    return STATUS_SUCCESS;
}

static NTSTATUS CreateAllocation(const HANDLE hAdapter, DXGKARG_CREATEALLOCATION *Create) {
    BOOLEAN IsNewResource = Create->Flags.Resource && (Create->hResource == NULL || BUG(RESOURCE_ANEW));
    UINT At;
    UNREFERENCED_PARAMETER(hAdapter);
    if (IsNewResource) {
        NTSTATUS Status = CreateResource(Create);
        if (!NT_SUCCESS(Status)) {
            return Status;
        }
    }
    for (At = 0; At < Create->NumAllocations; At++) {
        NTSTATUS Status = CreateOne(&Create->pAllocationInfo[At]);
        if (!NT_SUCCESS(Status)) {
            while (At-- > 0) {
                ExFreePoolWithTag(Create->pAllocationInfo[At].hAllocation, TAG);
            }
            if (IsNewResource) {
                ExFreePoolWithTag(Create->hResource, TAG);
            }
            return Status;
        }
    }
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyAllocation(const HANDLE hAdapter, const DXGKARG_DESTROYALLOCATION *Destroy) {
    UINT At;
    UNREFERENCED_PARAMETER(hAdapter);
    for (At = 0; At < Destroy->NumAllocations; At++) {
        ExFreePoolWithTag(Destroy->pAllocationList[At], TAG);
    }
    if (Destroy->Flags.DestroyResource && !BUG(RESOURCE_LEAK)) {
        ExFreePoolWithTag(Destroy->hResource, TAG);
    }
    return STATUS_SUCCESS;
}

/* The private data of surfaces that Dxgkrnl creates by itself. It asks for the sizes first, and then with room. */
static NTSTATUS GetStandardAllocationDriverData(const HANDLE hAdapter, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA *Get) {
    PRIVATE_DATA Private = {0, GPU_MEMORY_SEGMENT != 0 ? 1 : 2, 0, 0, PRIVATE_DATA_MAGIC};
    RESOURCE_DATA Resource = {0, PRIVATE_DATA_MAGIC};
    DXGK_ALLOCATIONINFOFLAGS Flags = {{{0}}};
    UINT Height;
    UNREFERENCED_PARAMETER(hAdapter);
    switch (Get->StandardAllocationType) {
    case D3DKMDT_STANDARDALLOCATION_SHADOWSURFACE:
        Resource.Pitch = Get->pCreateShadowSurfaceData->Width * 4;
        Height = Get->pCreateShadowSurfaceData->Height;
        Get->pCreateShadowSurfaceData->Pitch = Resource.Pitch;
        break;
    case D3DKMDT_STANDARDALLOCATION_STAGINGSURFACE:
        Resource.Pitch = Get->pCreateStagingSurfaceData->Width * 4;
        Height = Get->pCreateStagingSurfaceData->Height;
        Get->pCreateStagingSurfaceData->Pitch = Resource.Pitch;
#ifdef WITH_APERTURE
        Private.Segments = 2;
#endif
        break;
    default: /* GDI draws with the CPU here */
        return STATUS_NOT_SUPPORTED;
    }
    Flags.CpuVisible = 1;
    Private.Size = (UINT64)Resource.Pitch * Height;
    Private.Flags = Flags.Value;
    if (Get->pAllocationPrivateDriverData != NULL) {
        RtlCopyMemory(Get->pAllocationPrivateDriverData, &Private, sizeof(Private));
    }
    if (Get->pResourcePrivateDriverData != NULL) {
        RtlCopyMemory(Get->pResourcePrivateDriverData, &Resource, sizeof(Resource));
    }
    Get->AllocationPrivateDriverDataSize = sizeof(Private);
    Get->ResourcePrivateDriverDataSize = sizeof(Resource);
    return STATUS_SUCCESS;
}

/* For mistakes with the data of an allocation that is opened. A driver that is right has the data by DxgkCbGetHandleData alone. */
static VOID AcquireWrongly(const DXGKRNL_INTERFACE *Dxgkrnl, const DXGKARGCB_GETHANDLEDATA *GetData) {
    static DXGKARGCB_RELEASEHANDLEDATA Last;
    DXGKARGCB_RELEASEHANDLEDATA First = {NULL, DXGK_HANDLE_ALLOCATION}, Second = {NULL, DXGK_HANDLE_ALLOCATION};
    if (BUG(HANDLE_NOT_RELEASED)) {
        Dxgkrnl->DxgkCbAcquireHandleData(GetData, &First.ReleaseHandle);
    }
    if (BUG(HANDLE_RELEASED_TWICE)) {
        Dxgkrnl->DxgkCbAcquireHandleData(GetData, &First.ReleaseHandle);
        Dxgkrnl->DxgkCbAcquireHandleData(GetData, &Second.ReleaseHandle);
        Dxgkrnl->DxgkCbReleaseHandleData(First);
        Dxgkrnl->DxgkCbReleaseHandleData(First);
    }
    if (BUG(HANDLE_STALE)) {
        if (Last.ReleaseHandle != NULL) {
            Dxgkrnl->DxgkCbReleaseHandleData(Last);
        }
        Last.Type = DXGK_HANDLE_ALLOCATION;
        Dxgkrnl->DxgkCbAcquireHandleData(GetData, &Last.ReleaseHandle);
    }
    if (BUG(HANDLE_CONFUSED)) {
        Dxgkrnl->DxgkCbAcquireHandleData(GetData, &First.ReleaseHandle);
        First.ReleaseHandle = (HANDLE)(ULONG_PTR)GetData->hObject;
        Dxgkrnl->DxgkCbReleaseHandleData(First);
    }
}

static NTSTATUS OpenAllocation(const HANDLE hDevice, const DXGKARG_OPENALLOCATION *Open) {
    const DXGKRNL_INTERFACE *Dxgkrnl = &((DEVICE *)hDevice)->Adapter->Dxgkrnl;
    UINT At;
    for (At = 0; At < Open->NumAllocations; At++) {
        DXGKARGCB_GETHANDLEDATA GetData;
        OPENED *Opened = (OPENED *)ExAllocatePool2(POOL_FLAG_PAGED, sizeof(*Opened), TAG);
        if (Opened == NULL) {
            while (At-- > 0) {
                ExFreePoolWithTag(Open->pOpenAllocation[At].hDeviceSpecificAllocation, TAG);
            }
            return STATUS_NO_MEMORY;
        }
        RtlZeroMemory(&GetData, sizeof(GetData));
        GetData.hObject = Open->pOpenAllocation[At].hAllocation;
        GetData.Type = DXGK_HANDLE_ALLOCATION;
        if (Open->PrivateDriverSize == sizeof(RESOURCE_DATA)) {
            Opened->Pitch = ((const RESOURCE_DATA *)Open->pPrivateDriverData)->Pitch;
        }
        AcquireWrongly(Dxgkrnl, &GetData);
        Opened->Allocation = (const ALLOCATION *)Dxgkrnl->DxgkCbGetHandleData(&GetData);
        Open->pOpenAllocation[At].hDeviceSpecificAllocation = Opened;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS CloseAllocation(const HANDLE hDevice, const DXGKARG_CLOSEALLOCATION *Close) {
    UINT At;
    UNREFERENCED_PARAMETER(hDevice);
    for (At = 0; At < Close->NumAllocations && !BUG(CLOSE_LEAK); At++) {
        ExFreePoolWithTag(Close->pOpenHandleList[At], TAG);
    }
    return STATUS_SUCCESS;
}

/* ---- Submission and interrupts ---- */

static BOOLEAN NotifyEnd(PVOID Context) {
    ADAPTER *Adapter = (ADAPTER *)Context;
    DXGKARGCB_NOTIFY_INTERRUPT_DATA Data;
    RtlZeroMemory(&Data, sizeof(Data));
    Data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
    Data.DmaCompleted.SubmissionFenceId = Adapter->ForgedFenceId;
    Adapter->Dxgkrnl.DxgkCbNotifyInterrupt(Adapter->Dxgkrnl.DeviceHandle, &Data);
    return Adapter->Dxgkrnl.DxgkCbQueueDpc(Adapter->Dxgkrnl.DeviceHandle);
}

VOID ForgeEnd(ADAPTER *Adapter, UINT FenceId) {
    BOOLEAN Returned;
    Adapter->ForgedFenceId = FenceId;
    Adapter->Dxgkrnl.DxgkCbSynchronizeExecution(Adapter->Dxgkrnl.DeviceHandle, NotifyEnd, Adapter, 0, &Returned);
}

static NTSTATUS SubmitCommand(const HANDLE hAdapter, const DXGKARG_SUBMITCOMMAND *Submit) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    GPU_PACKET Packet;
    if (!Submit->Flags.Paging &&
        RenderedSize(Submit->pDmaBufferPrivateData, Submit->DmaBufferPrivateDataSubmissionEndOffset, NULL,
                     (UINT64)Submit->DmaBufferPhysicalAddress.QuadPart) < Submit->DmaBufferSubmissionEndOffset) {
        return STATUS_INVALID_PARAMETER;
    }
#ifdef WITH_KEPT_POINTERS
    if (Submit->Flags.Paging &&
        (Submit->DmaBufferPrivateDataSize != sizeof(PAGING_DATA) ||
         ((const PAGING_DATA *)Submit->pDmaBufferPrivateData)->Address != (UINT64)Submit->DmaBufferPhysicalAddress.QuadPart)) {
        return STATUS_INVALID_PARAMETER;
    }
#endif
    RtlZeroMemory(&Packet, sizeof(Packet));
    Packet.Address = (UINT64)Submit->DmaBufferPhysicalAddress.QuadPart;
    Packet.Start = BUG(START_IGNORED) ? 0 : Submit->DmaBufferSubmissionStartOffset;
    Packet.End = Submit->DmaBufferSubmissionEndOffset;
    Packet.FenceId = BUG(FENCE_8_BITS) ? Submit->SubmissionFenceId & 0xFF : Submit->SubmissionFenceId;
    Packet.IsUserWork = !Submit->Flags.Paging;
    if (BUG(PAGING_HAS_DEVICE)) {
        Packet.FenceId += *(volatile UINT *)&((const CONTEXT *)Submit->hContext)->NodeOrdinal;
    }
    if (!Submit->Flags.Paging && Submit->DmaBufferSubmissionEndOffset == ((RENDERED *)Submit->pDmaBufferPrivateData)->Size) {
        FreeNotes((RENDERED *)Submit->pDmaBufferPrivateData);
    }
    GpuSubmit(&Adapter->Gpu, &Packet);
    Adapter->LastSubmittedFenceId = Packet.FenceId;
    if (BUG(FORGED_AT_SUBMISSION)) {
        ForgeEnd(Adapter, Packet.FenceId);
    }
    return BUG(SUBMIT_FAILS) && Submit->DmaBufferSubmissionStartOffset != 0 ? STATUS_UNSUCCESSFUL : STATUS_SUCCESS;
}

/* At the level of the interrupt: reports the oldest event. FALSE if there is none. */
static BOOLEAN ReportEvent(ADAPTER *Adapter) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA Data;
    GPU_EVENT Event;
    if (!GpuTakeEvent(&Adapter->Gpu, &Event)) {
        return FALSE;
    }
    RtlZeroMemory(&Data, sizeof(Data));
    switch (Event.Status) {
    case GPU_IDLE:
        return FALSE;
    case GPU_COMPLETED:
        Data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
        Data.DmaCompleted.SubmissionFenceId = Event.FenceId;
        break;
    case GPU_BAD_COMMAND:
    case GPU_PAGE_FAULT:
        /* WDDM 1.3 has no report of a page fault. */
        Data.InterruptType = DXGK_INTERRUPT_DMA_FAULTED;
        Data.DmaFaulted.FaultedFenceId = Event.FenceId;
        Data.DmaFaulted.Status = STATUS_ILLEGAL_INSTRUCTION;
        break;
    case GPU_YIELDED:
        Data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
        Data.DmaPreempted.PreemptionFenceId = Adapter->PreemptionFenceId;
        Data.DmaPreempted.LastCompletedFenceId = Event.LastCompletedFenceId;
        break;
    }
    Adapter->Dxgkrnl.DxgkCbNotifyInterrupt(Adapter->Dxgkrnl.DeviceHandle, &Data);
    if (BUG(YIELD_REPORTED_TWICE) && Event.Status == GPU_YIELDED) {
        Adapter->Dxgkrnl.DxgkCbNotifyInterrupt(Adapter->Dxgkrnl.DeviceHandle, &Data);
    }
    Adapter->Dxgkrnl.DxgkCbQueueDpc(Adapter->Dxgkrnl.DeviceHandle);
    if (BUG(DPC_IN_INTERRUPT)) {
        Adapter->Dxgkrnl.DxgkCbNotifyDpc(Adapter->Dxgkrnl.DeviceHandle);
    }
    return TRUE;
}

static BOOLEAN ReportEvents(PVOID Context) {
    BOOLEAN HasReported = FALSE;
    while (ReportEvent((ADAPTER *)Context)) {
        HasReported = TRUE;
    }
    return HasReported;
}

#ifdef WITH_REPORTER

/* A thread reports: the interrupt routine, and the DPC behind it, only wake the thread. */
static VOID ReporterThread(PVOID Context) {
    ADAPTER *Adapter = (ADAPTER *)Context;
    BOOLEAN Returned;
    for (;;) {
        KeWaitForSingleObject(&Adapter->Wake, Executive, KernelMode, FALSE, NULL);
        if (Adapter->IsStopping) {
            PsTerminateSystemThread(STATUS_SUCCESS);
        }
        Adapter->Dxgkrnl.DxgkCbSynchronizeExecution(Adapter->Dxgkrnl.DeviceHandle, ReportEvents, Adapter, 0, &Returned);
    }
}

static NTSTATUS StartReporter(ADAPTER *Adapter) {
    HANDLE Handle;
    NTSTATUS Status;
    KeInitializeEvent(&Adapter->Wake, SynchronizationEvent, FALSE);
    Adapter->IsStopping = FALSE;
    Status = PsCreateSystemThread(&Handle, THREAD_ALL_ACCESS, NULL, NULL, NULL, ReporterThread, Adapter);
    if (NT_SUCCESS(Status)) {
        Status = ObReferenceObjectByHandle(Handle, THREAD_ALL_ACCESS, NULL, KernelMode, &Adapter->Reporter, NULL);
        ZwClose(Handle);
    }
    return Status;
}

static VOID StopReporter(ADAPTER *Adapter) {
    if (BUG(REPORTER_LEFT)) {
        return;
    }
    Adapter->IsStopping = TRUE;
    KeSetEvent(&Adapter->Wake, 0, FALSE);
    KeWaitForSingleObject(Adapter->Reporter, Executive, KernelMode, FALSE, NULL);
    ObDereferenceObject(Adapter->Reporter);
}

static BOOLEAN InterruptRoutine(const PVOID MiniportDeviceContext, ULONG MessageNumber) {
    ADAPTER *Adapter = (ADAPTER *)MiniportDeviceContext;
    UNREFERENCED_PARAMETER(MessageNumber);
    if (!GpuHasEvents(&Adapter->Gpu)) {
        return FALSE;
    }
    if (BUG(EVENT_SET_IN_INTERRUPT)) {
        KeSetEvent(&Adapter->Wake, 0, FALSE);
    }
    Adapter->Dxgkrnl.DxgkCbQueueDpc(Adapter->Dxgkrnl.DeviceHandle);
    return TRUE;
}

#else

static BOOLEAN InterruptRoutine(const PVOID MiniportDeviceContext, ULONG MessageNumber) {
    UNREFERENCED_PARAMETER(MessageNumber);
    return ReportEvent((ADAPTER *)MiniportDeviceContext);
}

#endif

static VOID DpcRoutine(const PVOID MiniportDeviceContext) {
    ADAPTER *Adapter = (ADAPTER *)MiniportDeviceContext;
    Adapter->Dxgkrnl.DxgkCbNotifyDpc(Adapter->Dxgkrnl.DeviceHandle);
#ifdef WITH_REPORTER
    KeSetEvent(&Adapter->Wake, 0, FALSE);
#endif
}

static NTSTATUS PreemptCommand(const HANDLE hAdapter, const DXGKARG_PREEMPTCOMMAND *Preempt) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    Adapter->PreemptionFenceId = Preempt->PreemptionFenceId;
    GpuYield(&Adapter->Gpu);
    return STATUS_SUCCESS;
}

#ifndef WITHOUT_ENGINE_RESET

static NTSTATUS ResetEngine(const HANDLE hAdapter, DXGKARG_RESETENGINE *Reset) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    Reset->LastAbortedFenceId = GpuCurrentFenceId(&Adapter->Gpu) - (BUG(WRONG_ABORTED_FENCE) ? 1 : 0);
    GpuResetEngine(&Adapter->Gpu);
    return STATUS_SUCCESS;
}

/* An engine is reset without harm to others. */
static NTSTATUS QueryDependentEngineGroup(const HANDLE hAdapter, DXGKARG_QUERYDEPENDENTENGINEGROUP *Query) {
    UNREFERENCED_PARAMETER(hAdapter);
    Query->DependentNodeOrdinalMask = 1ull << Query->NodeOrdinal;
    return STATUS_SUCCESS;
}

#endif

/* The engine is late: its interrupt may be lost. */
static NTSTATUS QueryCurrentFence(const HANDLE hAdapter, DXGKARG_QUERYCURRENTFENCE *Query) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    BOOLEAN Returned;
    if (!BUG(MISSED_FENCE)) {
        Adapter->Dxgkrnl.DxgkCbSynchronizeExecution(Adapter->Dxgkrnl.DeviceHandle, ReportEvents, Adapter, 0, &Returned);
    }
    Query->CurrentFence = Adapter->Gpu.LastCompletedFenceId;
    return STATUS_SUCCESS;
}

/* What the aperture shows stays without power. */
static NTSTATUS SetPowerState(const PVOID MiniportDeviceContext, ULONG DeviceUid, DEVICE_POWER_STATE State, POWER_ACTION Action) {
    UNREFERENCED_PARAMETER(State);
    UNREFERENCED_PARAMETER(Action);
    if (DeviceUid == DISPLAY_ADAPTER_HW_ID) {
        GpuResetEngine(&((ADAPTER *)MiniportDeviceContext)->Gpu);
    }
    return STATUS_SUCCESS;
}

static NTSTATUS ResetFromTimeout(const HANDLE hAdapter) {
    GpuReset(&((ADAPTER *)hAdapter)->Gpu);
    return STATUS_SUCCESS;
}

static NTSTATUS RestartFromTimeout(const HANDLE hAdapter) {
    UNREFERENCED_PARAMETER(hAdapter);
    return BUG(RESTART_FAILS) ? STATUS_UNSUCCESSFUL : STATUS_SUCCESS;
}

/* ---- The entry ---- */

NTSTATUS DriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath) {
    DRIVER_INITIALIZATION_DATA Data;
    RtlZeroMemory(&Data, sizeof(Data));
    Data.Version = DRIVER_VERSION;
    Data.DxgkDdiAddDevice = AddDevice;
    Data.DxgkDdiStartDevice = StartDevice;
    Data.DxgkDdiStopDevice = StopDevice;
    Data.DxgkDdiRemoveDevice = RemoveDevice;
    Data.DxgkDdiUnload = Unload;
    Data.DxgkDdiInterruptRoutine = InterruptRoutine;
    Data.DxgkDdiDpcRoutine = DpcRoutine;
    Data.DxgkDdiSetPowerState = SetPowerState;
    Data.DxgkDdiQueryAdapterInfo = QueryAdapterInfo;
#ifndef WITH_WDDM2
    Data.DxgkDdiCreateProcess = CreateProcess;
#endif
    Data.DxgkDdiCreateDevice = CreateDevice;
    Data.DxgkDdiDestroyDevice = DestroyDevice;
    Data.DxgkDdiCreateContext = CreateContext;
    Data.DxgkDdiDestroyContext = DestroyContext;
    Data.DxgkDdiCreateAllocation = CreateAllocation;
    Data.DxgkDdiDestroyAllocation = DestroyAllocation;
    Data.DxgkDdiGetStandardAllocationDriverData = GetStandardAllocationDriverData;
    Data.DxgkDdiOpenAllocation = OpenAllocation;
    Data.DxgkDdiCloseAllocation = CloseAllocation;
    Data.DxgkDdiBuildPagingBuffer = BuildPagingBuffer;
    Data.DxgkDdiRender = Render;
    Data.DxgkDdiPresent = Present;
    Data.DxgkDdiCancelCommand = CancelCommand;
    Data.DxgkDdiSetPowerComponentFState = SetPowerComponentFState;
    Data.DxgkDdiPowerRuntimeControlRequest = PowerRuntimeControlRequest;
    Data.DxgkDdiPatch = Patch;
    Data.DxgkDdiSubmitCommand = SubmitCommand;
    Data.DxgkDdiPreemptCommand = PreemptCommand;
#ifndef WITHOUT_ENGINE_RESET
    Data.DxgkDdiResetEngine = ResetEngine;
    Data.DxgkDdiQueryDependentEngineGroup = QueryDependentEngineGroup;
#endif
    Data.DxgkDdiQueryCurrentFence = QueryCurrentFence;
    Data.DxgkDdiResetFromTimeout = ResetFromTimeout;
    Data.DxgkDdiRestartFromTimeout = RestartFromTimeout;
    return DxgkInitialize(DriverObject, RegistryPath, &Data);
}

/* ---- For vidmm ---- */

#ifndef WITHOUT_TEST_INTERFACE

static UINT GetAllocationPrivateData(const VIDMM_ALLOCATION *Wanted, VOID *Data, UINT Size) {
#ifdef WITHOUT_ALLOCATIONS
    Size = 0;
#endif
    UINT Segments = GPU_MEMORY_SEGMENT != 0 && Wanted->MayBeLocal ? 1u : 0;
    PRIVATE_DATA Private = {Wanted->Size, Segments, Wanted->Priority, 0, PRIVATE_DATA_MAGIC};
    DXGK_ALLOCATIONINFOFLAGS Flags = {{{0}}};
#ifdef WITH_APERTURE
    Private.Segments |= Wanted->MayBeSystem ? 2u : 0;
#endif
    if (Size < sizeof(Private) || Private.Segments == 0) {
        return 0;
    }
    Flags.CpuVisible = Wanted->CpuVisible;
    Flags.PermanentSysMem = Wanted->PermanentSysMem;
    Flags.ExistingSysMem = Wanted->ExistingSysMem;
    Private.Flags = Flags.Value;
    RtlCopyMemory(Data, &Private, sizeof(Private));
    return sizeof(Private);
}

static VOID Run(HANDLE hAdapter, UINT NodeOrdinal) {
    UNREFERENCED_PARAMETER(NodeOrdinal);
    GpuRun(&((ADAPTER *)hAdapter)->Gpu);
}

static VIDMM_TRANSLATION Translate(HANDLE hAdapter, UINT NodeOrdinal, D3DGPU_VIRTUAL_ADDRESS Address, BOOLEAN Write,
                                   UINT *SegmentId, UINT64 *Offset) {
    UNREFERENCED_PARAMETER(hAdapter);
    UNREFERENCED_PARAMETER(NodeOrdinal);
    UNREFERENCED_PARAMETER(Write);
    return GpuPlace(Address, SegmentId, Offset) ? VIDMM_TRANSLATION_MAPPED : VIDMM_TRANSLATION_FAULT;
}

static BOOLEAN ReadAperturePage(HANDLE hAdapter, UINT SegmentId, UINT64 Page, UINT64 *SystemPage) {
    return SegmentId == GPU_APERTURE_SEGMENT && GpuShown(&((ADAPTER *)hAdapter)->Gpu, Page, SystemPage);
}

const VIDMM_TEST_INTERFACE *VidmmGetTestInterface(VOID) {
    static const VIDMM_GPU Gpu = {Run, Translate, NULL, ReadAperturePage, FALSE, GPU_QUEUE, NULL};
    static VIDMM_TEST_INTERFACE Interface = {VIDMM_TEST_INTERFACE_VERSION, GetAllocationPrivateData, &Gpu, NULL, FALSE};
#ifdef WITHOUT_GPU
    Interface.Gpu = NULL;
#endif
    return &Interface;
}

#endif
