/*
 * A reference driver: a GPU with page tables (GpuMmu), one memory segment or two, one engine or two. The memory-management part has the
 * names of a driver for Windows; the hardware is in gpu.c.
 */
#include "bugs.h"
#include "dispmprt.h"
#include "gpu.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TAG 0x4D4D5547 /* 'GUMM' */

#define REPORTS_MAX 8

typedef struct ADAPTER {
    DXGKRNL_INTERFACE Dxgkrnl;
    GPU Gpu;
    UINT PreemptionFenceIds[GPU_ENGINES];
    UINT SubmittedFenceIds[GPU_ENGINES]; /* for a mistake */
    ULONG FlushesAll; /* the registry says that TLBs are flushed whole */
#ifdef WITH_THREAD
    PVOID Thread;
    BOOLEAN IsStopping;
    PVOID volatile Acquired; /* the handle of a release, for the thread */
#endif
#ifdef WITH_DEFERRED
    PDEVICE_OBJECT PhysicalDeviceObject;
    KDPC InterruptDpc;
    PIO_WORKITEM InterruptWork;
    BOOLEAN IsWorkQueued;
    /* What the interrupt routine has read, and nobody has reported yet. */
    DXGKARGCB_NOTIFY_INTERRUPT_DATA Unreported[REPORTS_MAX];
    UINT UnreportedCount;
    KTIMER Watch;
    KDPC WatchDpc;
    ULONG Watches;
#endif
    KSPIN_LOCK Lock;
    UINT64 LastAddressSpace;
    UINT64 LastTransferSource;
    D3DGPU_PHYSICAL_ADDRESS FirstRoot;
} ADAPTER;

typedef struct PROCESS {
    UINT64 AddressSpace;
} PROCESS;

typedef struct DEVICE {
    ADAPTER *Adapter;
    PROCESS *Process;
} DEVICE;

typedef struct CONTEXT {
    DEVICE *Device;
    UINT NodeOrdinal;
    D3DGPU_PHYSICAL_ADDRESS Root;
    UINT RootEntries;
} CONTEXT;

typedef struct ALLOCATION {
    UINT64 Size;
    UINT Surface; /* 0: it is never compressed */
    UINT Width;   /* in pixels; 0: it is no surface of Dxgkrnl's */
    UINT Height;
} ALLOCATION;

/* The private data that the user-mode driver passes. */
typedef struct PRIVATE_DATA {
    UINT64 Size;
    UINT Segments; /* bit 0: memory, bit 1: system memory */
    UINT Priority;
    UINT Flags;
    UINT Magic;
    UINT Flags2;
    UINT Surface;
    UINT Width;
    UINT Height;
} PRIVATE_DATA;

#define PRIVATE_DATA_MAGIC 0x5550474Du

/* ---- The adapter ---- */

static NTSTATUS AddDevice(const PDEVICE_OBJECT PhysicalDeviceObject, PVOID *MiniportDeviceContext) {
    ADAPTER *Adapter = (ADAPTER *)ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*Adapter), TAG);
    UNREFERENCED_PARAMETER(PhysicalDeviceObject);
    if (Adapter == NULL) {
        return STATUS_NO_MEMORY;
    }
#ifdef WITH_DEFERRED
    Adapter->PhysicalDeviceObject = PhysicalDeviceObject;
#endif
    KeInitializeSpinLock(&Adapter->Lock);
    *MiniportDeviceContext = Adapter;
    return STATUS_SUCCESS;
}

/* A number of the registry, or 0. */
static ULONG ReadSetting(PCWSTR Name) {
    union {
        KEY_VALUE_PARTIAL_INFORMATION Partial;
        UCHAR Bytes[sizeof(KEY_VALUE_PARTIAL_INFORMATION) + sizeof(ULONG)];
    } Information;
    UNICODE_STRING Path, ValueName;
    OBJECT_ATTRIBUTES Attributes;
    HANDLE Key;
    ULONG Size, Value = 0;
    RtlInitUnicodeString(&Path, u"\\Registry\\Machine\\System\\CurrentControlSet\\Services\\gpummu");
    RtlInitUnicodeString(&ValueName, Name);
    InitializeObjectAttributes(&Attributes, &Path, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE, NULL, NULL);
    if (!NT_SUCCESS(ZwOpenKey(&Key, KEY_READ, &Attributes))) {
        return 0;
    }
    if (NT_SUCCESS(ZwQueryValueKey(Key, &ValueName, KeyValuePartialInformation, &Information, sizeof(Information), &Size)) &&
        Information.Partial.Type == REG_DWORD && Information.Partial.DataLength == sizeof(Value)) {
        RtlCopyMemory(&Value, Information.Partial.Data, sizeof(Value));
    }
    if (!BUG(KEY_LEFT_OPEN)) {
        ZwClose(Key);
    }
    return Value;
}

static BOOLEAN InterruptRoutine(const PVOID MiniportDeviceContext, ULONG MessageNumber);

/* Outside of the interrupt, so that the interrupt does not come meanwhile. */
static BOOLEAN LookAtInterrupt(PVOID Context) {
    return InterruptRoutine(Context, 0);
}

#ifdef WITH_THREAD

/* The thread looks at an allocation some time after the allocation was opened: DestroyAllocation waits for the release. */
static VOID ReleaseLate(ADAPTER *Adapter, HANDLE Release) {
    DXGKARGCB_RELEASEHANDLEDATA ReleaseData = {Release, DXGK_HANDLE_ALLOCATION};
    LARGE_INTEGER Delay;
    if (Release != NULL) {
        Delay.QuadPart = -1000;
        KeDelayExecutionThread(KernelMode, FALSE, &Delay);
        Adapter->Dxgkrnl.DxgkCbReleaseHandleData(ReleaseData);
    }
}

/* Hands the data of an allocation to the thread, unless the thread has data already. */
static VOID AcquireForThread(ADAPTER *Adapter, D3DKMT_HANDLE hAllocation) {
    DXGKARGCB_GETHANDLEDATA GetData;
    HANDLE Release, Before;
    RtlZeroMemory(&GetData, sizeof(GetData));
    GetData.hObject = hAllocation;
    GetData.Type = DXGK_HANDLE_ALLOCATION;
    Adapter->Dxgkrnl.DxgkCbAcquireHandleData(&GetData, &Release);
    Before = InterlockedExchangePointer(&Adapter->Acquired, Release);
    if (Before != NULL) {
        DXGKARGCB_RELEASEHANDLEDATA ReleaseData = {Before, DXGK_HANDLE_ALLOCATION};
        Adapter->Dxgkrnl.DxgkCbReleaseHandleData(ReleaseData);
    }
    KeSetEvent(&Adapter->Gpu.Interrupt, 0, FALSE);
}

/* Hardware without an interrupt of its own: a thread looks after it. */
static VOID InterruptThread(PVOID Context) {
    ADAPTER *Adapter = (ADAPTER *)Context;
    for (;;) {
        LONG Raised;
        KeWaitForSingleObject(&Adapter->Gpu.Interrupt, Executive, KernelMode, FALSE, NULL);
        if (Adapter->IsStopping) {
            PsTerminateSystemThread(STATUS_SUCCESS);
        }
        ReleaseLate(Adapter, InterlockedExchangePointer(&Adapter->Acquired, NULL));
        /* A thread runs when the scheduler lets it: nothing may depend on its haste. */
        KeStallExecutionProcessor(200);
        GpuShare(&Adapter->Gpu);
        Raised = InterlockedCompareExchange(&Adapter->Gpu.Raised, 0, 0);
        if (Raised == InterlockedCompareExchange(&Adapter->Gpu.Taken, 0, 0)) {
            /* The interrupt was taken with the interrupt before: the hardware may be at work. */
            continue;
        }
        if (BUG(THREAD_AT_PASSIVE)) {
            LookAtInterrupt(Adapter);
        } else {
            BOOLEAN Returned;
            Adapter->Dxgkrnl.DxgkCbSynchronizeExecution(Adapter->Dxgkrnl.DeviceHandle, LookAtInterrupt, Adapter, 0, &Returned);
        }
        InterlockedExchange(&Adapter->Gpu.Taken, Raised);
        KeSetEvent(&Adapter->Gpu.IsTaken, 0, FALSE);
    }
}

static NTSTATUS StartThread(ADAPTER *Adapter) {
    HANDLE Handle;
    NTSTATUS Status = PsCreateSystemThread(&Handle, THREAD_ALL_ACCESS, NULL, NULL, NULL, InterruptThread, Adapter);
    if (NT_SUCCESS(Status)) {
        Status = ObReferenceObjectByHandle(Handle, THREAD_ALL_ACCESS, NULL, KernelMode, &Adapter->Thread, NULL);
        ZwClose(Handle);
    }
    return Status;
}

static VOID StopThread(ADAPTER *Adapter) {
    if (BUG(THREAD_LEFT)) {
        return;
    }
    Adapter->IsStopping = TRUE;
    KeSetEvent(&Adapter->Gpu.Interrupt, 0, FALSE);
    KeWaitForSingleObject(Adapter->Thread, Executive, KernelMode, FALSE, NULL);
    ObDereferenceObject(Adapter->Thread);
}

#endif

#ifdef WITH_DEFERRED

/* At the level of the interrupt, so that the routine does not run meanwhile. */
static BOOLEAN NotifyInterrupts(PVOID Context) {
    ADAPTER *Adapter = (ADAPTER *)Context;
    UINT At;
    for (At = 0; At < Adapter->UnreportedCount; At++) {
        Adapter->Dxgkrnl.DxgkCbNotifyInterrupt(Adapter->Dxgkrnl.DeviceHandle, &Adapter->Unreported[At]);
    }
    Adapter->UnreportedCount = 0;
    Adapter->Dxgkrnl.DxgkCbQueueDpc(Adapter->Dxgkrnl.DeviceHandle);
    return TRUE;
}

/* A driver that does little in its interrupt routine: a DPC asks for a work item, which reports. */
static VOID ReportInterrupts(PDEVICE_OBJECT DeviceObject, PVOID Context) {
    ADAPTER *Adapter = (ADAPTER *)Context;
    BOOLEAN Returned;
    UNREFERENCED_PARAMETER(DeviceObject);
    Adapter->IsWorkQueued = FALSE;
    if (BUG(NOTIFY_AT_PASSIVE)) {
        NotifyInterrupts(Adapter);
    } else {
        Adapter->Dxgkrnl.DxgkCbSynchronizeExecution(Adapter->Dxgkrnl.DeviceHandle, NotifyInterrupts, Adapter, 0, &Returned);
    }
}

static VOID InterruptDpcRoutine(PKDPC Dpc, PVOID Context, PVOID One, PVOID Two) {
    ADAPTER *Adapter = (ADAPTER *)Context;
    UNREFERENCED_PARAMETER(Dpc);
    UNREFERENCED_PARAMETER(One);
    UNREFERENCED_PARAMETER(Two);
    if (BUG(WAIT_IN_DPC)) {
        LARGE_INTEGER Millisecond = {.QuadPart = -10000};
        KeWaitForSingleObject(&Adapter->Watch, Executive, KernelMode, FALSE, &Millisecond);
    }
    if (!Adapter->IsWorkQueued) {
        Adapter->IsWorkQueued = TRUE;
        IoQueueWorkItem(Adapter->InterruptWork, ReportInterrupts, DelayedWorkQueue, Adapter);
        if (BUG(WORK_ITEM_TWICE)) {
            IoQueueWorkItem(Adapter->InterruptWork, ReportInterrupts, DelayedWorkQueue, Adapter);
        }
    }
}

/* Each 100 ms: a place to look whether engines stand still. */
static VOID WatchDpcRoutine(PKDPC Dpc, PVOID Context, PVOID One, PVOID Two) {
    UNREFERENCED_PARAMETER(Dpc);
    UNREFERENCED_PARAMETER(One);
    UNREFERENCED_PARAMETER(Two);
    ((ADAPTER *)Context)->Watches++;
}

static NTSTATUS StartDeferred(ADAPTER *Adapter) {
    LARGE_INTEGER Due;
    Adapter->InterruptWork = IoAllocateWorkItem(Adapter->PhysicalDeviceObject);
    if (Adapter->InterruptWork == NULL) {
        if (BUG(FREE_ON_FAILED_START)) {
            ExFreePoolWithTag(Adapter, TAG);
        }
        return STATUS_NO_MEMORY;
    }
    KeInitializeDpc(&Adapter->InterruptDpc, InterruptDpcRoutine, Adapter);
    KeInitializeDpc(&Adapter->WatchDpc, WatchDpcRoutine, Adapter);
    KeInitializeTimer(&Adapter->Watch);
    Due.QuadPart = -1000000;
    KeSetTimerEx(&Adapter->Watch, Due, 100, &Adapter->WatchDpc);
    return STATUS_SUCCESS;
}

static VOID StopDeferred(ADAPTER *Adapter) {
    if (!BUG(TIMER_LEFT)) {
        KeCancelTimer(&Adapter->Watch);
    }
    if (!BUG(TIMER_NOT_FLUSHED)) {
        KeFlushQueuedDpcs();
    }
    if (!BUG(WORK_ITEM_LEFT)) {
        IoFreeWorkItem(Adapter->InterruptWork);
    }
}

#endif

static NTSTATUS StartDevice(const PVOID MiniportDeviceContext, PDXGK_START_INFO StartInfo, PDXGKRNL_INTERFACE Dxgkrnl,
                            PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren) {
    ADAPTER *Adapter = (ADAPTER *)MiniportDeviceContext;
    UNREFERENCED_PARAMETER(StartInfo);
    Adapter->Dxgkrnl = *Dxgkrnl;
    GpuStart(&Adapter->Gpu, Dxgkrnl->DeviceHandle);
    Adapter->FlushesAll = ReadSetting(u"FlushesAll");
    *NumberOfVideoPresentSources = 0;
    *NumberOfChildren = 0;
#if defined(WITH_THREAD)
    return StartThread(Adapter);
#elif defined(WITH_DEFERRED)
    return StartDeferred(Adapter);
#else
    return STATUS_SUCCESS;
#endif
}

static NTSTATUS StopDevice(const PVOID MiniportDeviceContext) {
#ifdef WITH_THREAD
    StopThread((ADAPTER *)MiniportDeviceContext);
#endif
#ifdef WITH_DEFERRED
    StopDeferred((ADAPTER *)MiniportDeviceContext);
#endif
    UNREFERENCED_PARAMETER(MiniportDeviceContext);
    return STATUS_SUCCESS;
}

static NTSTATUS RemoveDevice(const PVOID MiniportDeviceContext) {
    ExFreePoolWithTag(MiniportDeviceContext, TAG);
    return STATUS_SUCCESS;
}

static VOID Unload(VOID) {
}

static NTSTATUS QuerySegments(const DXGKARG_QUERYADAPTERINFO *Query) {
    DXGK_QUERYSEGMENTOUT4 *Out = (DXGK_QUERYSEGMENTOUT4 *)Query->pOutputData;
    DXGK_SEGMENTDESCRIPTOR4 *Memory, *Aperture;
#ifdef WITH_MORE_MEMORY
    DXGK_SEGMENTDESCRIPTOR4 *MoreMemory;
#endif
    Out->NbSegment = GPU_SEGMENTS;
    Out->PagingBufferSegmentId = 0;
    Out->PagingBufferSize = 4 << 10;
    Out->PagingBufferPrivateDataSize = 0;
    if (Out->pSegmentDescriptor == NULL) {
        Out->SegmentDescriptorStride = sizeof(DXGK_SEGMENTDESCRIPTOR4);
        return STATUS_SUCCESS;
    }
    Memory = (DXGK_SEGMENTDESCRIPTOR4 *)Out->pSegmentDescriptor;
    Memory->Flags.ApplicationTarget = 1;
    Memory->Flags.LocalBudgetGroup = 1;
    Memory->Flags.Use64KBPages = 1;
#ifdef WITH_HOST_APERTURE
    Memory->Flags.SupportsCpuHostAperture = 1;
    Memory->CpuHostAperture.PhysicalAddress = GPU_WINDOW_ADDRESS;
    Memory->CpuHostAperture.SizeInPages = GPU_WINDOW_PAGES;
#endif
    Memory->Size = GPU_MEMORY_BYTES;
#ifndef WITH_SAME_BASES
    Memory->CommitLimit = GPU_MEMORY_BYTES; /* 0 is right too */
#endif
    Aperture = (DXGK_SEGMENTDESCRIPTOR4 *)(Out->pSegmentDescriptor + Out->SegmentDescriptorStride);
    Aperture->Flags.Aperture = 1;
    Aperture->Flags.NonLocalBudgetGroup = 1;
#ifndef WITH_SAME_BASES
    Aperture->BaseAddress.QuadPart = GPU_MEMORY_BYTES;
#endif
    Aperture->Size = GPU_APERTURE_BYTES;
    Aperture->CommitLimit = GPU_APERTURE_BYTES;
#ifdef WITH_MORE_MEMORY
    MoreMemory = (DXGK_SEGMENTDESCRIPTOR4 *)(Out->pSegmentDescriptor + 2 * Out->SegmentDescriptorStride);
    *MoreMemory = *Memory;
    MoreMemory->BaseAddress.QuadPart = GPU_MEMORY_BYTES + GPU_APERTURE_BYTES;
    MoreMemory->Size = GPU_MORE_MEMORY_BYTES;
    MoreMemory->CommitLimit = GPU_MORE_MEMORY_BYTES;
#endif
    return STATUS_SUCCESS;
}

static NTSTATUS QueryAdapterInfo(const HANDLE hAdapter, const DXGKARG_QUERYADAPTERINFO *Query) {
    UNREFERENCED_PARAMETER(hAdapter);
    switch (Query->Type) {
    case DXGKQAITYPE_DRIVERCAPS: {
        DXGK_DRIVERCAPS *Caps = (DXGK_DRIVERCAPS *)Query->pOutputData;
        Caps->WDDMVersion = DXGKDDI_WDDMv3_2;
        if (Query->OutputDataSize < sizeof(*Caps)) {
            return STATUS_BUFFER_TOO_SMALL;
        }
        Caps->HighestAcceptableAddress.QuadPart = GPU_HIGHEST_ADDRESS;
        Caps->ApertureSegmentCommitLimit = (SIZE_T)-1;
        Caps->SchedulingCaps.MultiEngineAware = 1;
        Caps->SchedulingCaps.PreemptionAware = 1;
        Caps->MemoryManagementCaps.VirtualAddressingSupported = 1;
        Caps->MemoryManagementCaps.GpuMmuSupported = 1;
        Caps->GpuEngineTopology.NbAsymetricProcessingNodes = GPU_ENGINES;
        Caps->SupportPerEngineTDR = TRUE;
        return STATUS_SUCCESS;
    }
    case DXGKQAITYPE_PHYSICALADAPTERCAPS: {
        DXGK_PHYSICALADAPTERCAPS *Caps = (DXGK_PHYSICALADAPTERCAPS *)Query->pOutputData;
        Caps->NumExecutionNodes = GPU_ENGINES;
        Caps->PagingNodeIndex = GPU_ENGINES - 1;
        Caps->Flags.GpuMmuSupported = 1;
        return STATUS_SUCCESS;
    }
    case DXGKQAITYPE_QUERYSEGMENT4:
        return QuerySegments(Query);
    case DXGKQAITYPE_GPUMMUCAPS: {
        DXGK_GPUMMUCAPS *Caps = (DXGK_GPUMMUCAPS *)Query->pOutputData;
        Caps->ReadOnlyMemorySupported = 1;
        Caps->ZeroInPteSupported = 1;
        Caps->InvalidTlbEntriesNotCached = 1;
        Caps->PageTableUpdateMode = DXGK_PAGETABLEUPDATE_GPU_PHYSICAL;
        Caps->VirtualAddressBitCount = GPU_ADDRESS_BITS;
        Caps->PageTableLevelCount = GPU_LEVELS;
        return STATUS_SUCCESS;
    }
    case DXGKQAITYPE_PAGETABLELEVELDESC: {
        DXGK_PAGE_TABLE_LEVEL_DESC *Level = (DXGK_PAGE_TABLE_LEVEL_DESC *)Query->pOutputData;
        Level->PageTableIndexBitCount = GPU_LEVEL_BITS;
        Level->PageTableSegmentId = GPU_MEMORY_SEGMENT;
        Level->PagingProcessPageTableSegmentId = GPU_MEMORY_SEGMENT;
        Level->PageTableSizeInBytes = GPU_TABLE_BYTES;
        Level->PageTableAlignmentInBytes = PAGE_SIZE;
        return STATUS_SUCCESS;
    }
    case DXGKQAITYPE_IOMMU_CAPS:
        /* Before StartDevice. The GPU reaches all memory, and runs behind an IOMMU or without. */
        ((DXGK_IOMMU_CAPS *)Query->pOutputData)->IommuIsolationSupported = !BUG(ISOLATION_NOT_SUPPORTED);
        ((DXGK_IOMMU_CAPS *)Query->pOutputData)->IommuIsolationRequired = BUG(ISOLATION_NOT_SUPPORTED);
        return STATUS_SUCCESS;
    case DXGKQAITYPE_PHYSICAL_MEMORY_CAPS:
        ((DXGK_PHYSICAL_MEMORY_CAPS *)Query->pOutputData)->HighestVisibleAddress.QuadPart = GPU_HIGHEST_ADDRESS;
        return STATUS_SUCCESS;
    default:
        return STATUS_NOT_SUPPORTED;
    }
}

static NTSTATUS GetNodeMetadata(const HANDLE hAdapter, UINT NodeOrdinalAndAdapterIndex, DXGKARG_GETNODEMETADATA *Metadata) {
    UNREFERENCED_PARAMETER(hAdapter);
    Metadata->EngineType = NodeOrdinalAndAdapterIndex == 0 ? DXGK_ENGINE_TYPE_3D : DXGK_ENGINE_TYPE_COPY;
    return STATUS_SUCCESS;
}

/* ---- Processes, devices, contexts ---- */

static NTSTATUS CreateProcess(const HANDLE hAdapter, DXGKARG_CREATEPROCESS *Create) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    PROCESS *Process;
    KIRQL Irql;
    KeAcquireSpinLock(&Adapter->Lock, &Irql);
    Process = (PROCESS *)ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*Process), TAG);
    if (Process == NULL) {
        if (!BUG(LOCK_LEFT)) {
            KeReleaseSpinLock(&Adapter->Lock, Irql);
        }
        return STATUS_NO_MEMORY;
    }
    Process->AddressSpace = ++Adapter->LastAddressSpace;
    if (BUG(PAGED_ALLOCATED_LATE)) {
        ExFreePoolWithTag(ExAllocatePool2(POOL_FLAG_PAGED, 64, TAG), TAG);
    }
    KeReleaseSpinLock(&Adapter->Lock, Irql);
    Create->hKmdProcess = Process;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyProcess(const HANDLE hAdapter, const HANDLE hKmdProcess) {
    UNREFERENCED_PARAMETER(hAdapter);
    ExFreePoolWithTag(hKmdProcess, TAG);
    return STATUS_SUCCESS;
}

static NTSTATUS CreateDevice(const HANDLE hAdapter, DXGKARG_CREATEDEVICE *Create) {
    DEVICE *Device = (DEVICE *)ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*Device), TAG);
    if (Device == NULL) {
        return STATUS_NO_MEMORY;
    }
    Device->Adapter = (ADAPTER *)hAdapter;
    Device->Process = (PROCESS *)Create->hKmdProcess;
    Create->hDevice = Device;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyDevice(const HANDLE hDevice) {
    ExFreePoolWithTag(hDevice, TAG);
    return STATUS_SUCCESS;
}

static NTSTATUS CreateContext(const HANDLE hDevice, DXGKARG_CREATECONTEXT *Create) {
    CONTEXT *Context = (CONTEXT *)ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*Context), TAG);
    if (Context == NULL) {
        return STATUS_NO_MEMORY;
    }
    Context->Device = (DEVICE *)hDevice;
    Context->NodeOrdinal = Create->NodeOrdinal;
    Create->hContext = Context;
    Create->ContextInfo.DmaBufferSize = 64 << 10;
    Create->ContextInfo.Caps.NoPatchingRequired = 1;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyContext(const HANDLE hContext) {
    if (!BUG(CONTEXT_LEAK)) {
        ExFreePoolWithTag(hContext, TAG);
    }
    return STATUS_SUCCESS;
}

static VOID SetRootPageTable(const HANDLE hAdapter, const DXGKARG_SETROOTPAGETABLE *Set) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    CONTEXT *Context = (CONTEXT *)Set->hContext;
    Context->Root = Set->Address;
    Context->RootEntries = BUG(ROOT_ENTRIES) ? 0 : Set->NumEntries;
    if (BUG(FIRST_ROOT)) {
        if (Adapter->FirstRoot.SegmentId == 0) {
            Adapter->FirstRoot = Set->Address;
        }
        Context->Root = Adapter->FirstRoot;
    }
}

/* ---- Allocations ---- */

static NTSTATUS CreateOne(DXGK_ALLOCATIONINFO *Info) {
    const PRIVATE_DATA *Data = (const PRIVATE_DATA *)Info->pPrivateDriverData;
    ALLOCATION *Allocation;
    if (Info->PrivateDriverDataSize != sizeof(*Data) || Data->Magic != PRIVATE_DATA_MAGIC || Data->Size == 0) {
        return STATUS_INVALID_PARAMETER;
    }
    Allocation = (ALLOCATION *)ExAllocatePool2(POOL_FLAG_PAGED, sizeof(*Allocation), TAG);
    if (Allocation == NULL && !BUG(NO_CHECK_OF_POOL)) {
        return STATUS_NO_MEMORY;
    }
    Allocation->Size = Data->Size;
    Allocation->Surface = Data->Surface;
    Allocation->Width = Data->Width;
    Allocation->Height = Data->Height;
    if (BUG(POOL_OVERRUN)) {
        *(volatile UINT64 *)(Allocation + 1) = Data->Size;
    }
    Info->hAllocation = Allocation;
    Info->Size = BUG(SIZE_IN_PAGES) ? Data->Size >> PAGE_SHIFT : Data->Size;
    Info->SupportedReadSegmentSet = Data->Segments & 3;
#ifdef WITH_MORE_MEMORY
    /* The second memory segment is for allocations that may leave memory. */
    Info->SupportedReadSegmentSet |= Data->Segments == 3 ? 1u << (GPU_MORE_MEMORY_SEGMENT - 1) : 0;
#endif
    Info->SupportedWriteSegmentSet = BUG(NO_SEGMENT) ? 0 : Info->SupportedReadSegmentSet;
    if (Data->Segments & 1) {
        Info->Alignment = 64 << 10;
        Info->PreferredSegment.SegmentId0 = GPU_MEMORY_SEGMENT;
#ifdef WITH_MORE_MEMORY
        Info->PreferredSegment.SegmentId1 = Data->Segments == 3 ? GPU_MORE_MEMORY_SEGMENT : 0;
        Info->PreferredSegment.SegmentId2 = Data->Segments == 3 ? GPU_APERTURE_SEGMENT : 0;
#else
        Info->PreferredSegment.SegmentId1 = Data->Segments & 2 ? GPU_APERTURE_SEGMENT : 0;
#endif
    } else {
        Info->PreferredSegment.SegmentId0 = GPU_APERTURE_SEGMENT;
    }
    Info->AllocationPriority = Data->Priority != 0 ? Data->Priority : D3DDDI_ALLOCATIONPRIORITY_NORMAL;
    if (BUG(PRIORITY_ZERO)) {
        Info->AllocationPriority = 0;
    }
    Info->FlagsWddm2.Value = Data->Flags;
    Info->Flags2.Value = Data->Flags2;
    return STATUS_SUCCESS;
}

/* Objects of the kernel where they must not be. */
static VOID UsePageablePool(VOID) {
    VOID *Pageable = ExAllocatePool2(POOL_FLAG_PAGED, 4096, TAG);
    if (Pageable == NULL) {
        return;
    }
    if (BUG(PAGED_LOCK)) {
        KeInitializeSpinLock((PKSPIN_LOCK)Pageable);
    } else if (BUG(PAGED_EVENT)) {
        KeInitializeEvent((PKEVENT)Pageable, NotificationEvent, FALSE);
    } else if (BUG(PAGED_TIMER)) {
        KeInitializeTimer((PKTIMER)Pageable);
    }
    ExFreePoolWithTag(Pageable, TAG);
}

static NTSTATUS CreateAllocation(const HANDLE hAdapter, DXGKARG_CREATEALLOCATION *Create) {
    UINT At;
    if (BUG(PAGED_LOCK) || BUG(PAGED_EVENT) || BUG(PAGED_TIMER)) {
        UsePageablePool();
    }
    for (At = 0; At < Create->NumAllocations; At++) {
        NTSTATUS Status = CreateOne(&Create->pAllocationInfo[At]);
        if (!NT_SUCCESS(Status)) {
            if (BUG(FREE_ON_FAILURE)) {
                ExFreePoolWithTag(Create->pAllocationInfo, TAG);
            }
            while (At-- > 0 && !BUG(EARLIER_KEPT)) {
                ExFreePoolWithTag(Create->pAllocationInfo[At].hAllocation, TAG);
            }
            return Status;
        }
        if (BUG(PAGED_AT_DISPATCH)) {
            ADAPTER *Adapter = (ADAPTER *)hAdapter;
            KIRQL Irql;
            KeAcquireSpinLock(&Adapter->Lock, &Irql);
            ((volatile ALLOCATION *)Create->pAllocationInfo[At].hAllocation)->Size |= 0;
            KeReleaseSpinLock(&Adapter->Lock, Irql);
        }
    }
    UNREFERENCED_PARAMETER(hAdapter);
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyAllocation(const HANDLE hAdapter, const DXGKARG_DESTROYALLOCATION *Destroy) {
    UINT At;
    UNREFERENCED_PARAMETER(hAdapter);
    UINT Count = BUG(FIRST_DESTROYED) ? 1 : Destroy->NumAllocations;
    for (At = 0; At < Count && !BUG(ALLOCATION_LEAK); At++) {
        ExFreePoolWithTag(Destroy->pAllocationList[At], TAG);
        if (BUG(DOUBLE_FREE)) {
            ExFreePoolWithTag(Destroy->pAllocationList[At], TAG);
        }
    }
    return STATUS_SUCCESS;
}

/* The private data of surfaces that Dxgkrnl creates by itself. It asks for the size first, and then with room. */
static NTSTATUS GetStandardAllocationDriverData(const HANDLE hAdapter, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA *Get) {
    PRIVATE_DATA Private = {0, 3, 0, 0, PRIVATE_DATA_MAGIC, 0, 0, 0, 0};
    DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 Flags = {{{0}}};
    UINT Width, Height;
    UNREFERENCED_PARAMETER(hAdapter);
    switch (Get->StandardAllocationType) {
    case D3DKMDT_STANDARDALLOCATION_GDISURFACE:
        Width = Get->pCreateGdiSurfaceData->Width;
        Height = Get->pCreateGdiSurfaceData->Height;
        break;
    case D3DKMDT_STANDARDALLOCATION_SHADOWSURFACE:
        Width = Get->pCreateShadowSurfaceData->Width;
        Height = Get->pCreateShadowSurfaceData->Height;
        Get->pCreateShadowSurfaceData->Pitch = Width * 4;
        Flags.CpuVisible = !BUG(SURFACE_NOT_VISIBLE);
        break;
    case D3DKMDT_STANDARDALLOCATION_STAGINGSURFACE:
        Width = Get->pCreateStagingSurfaceData->Width;
        Height = Get->pCreateStagingSurfaceData->Height;
        Get->pCreateStagingSurfaceData->Pitch = Width * 4;
        Flags.CpuVisible = 1;
        Private.Segments = 2;
        break;
    default:
        return STATUS_NOT_SUPPORTED;
    }
    Private.Size = (UINT64)Width * 4 * (BUG(SURFACE_ROW_LOST) ? Height - 1 : Height);
    Private.Flags = Flags.Value;
    Private.Width = Width;
    Private.Height = Height;
    if (Get->pAllocationPrivateDriverData != NULL) {
        RtlCopyMemory(Get->pAllocationPrivateDriverData, &Private, sizeof(Private));
    }
    Get->AllocationPrivateDriverDataSize = BUG(SURFACE_DATA_TOO_SMALL) ? sizeof(Private) - 8 : sizeof(Private);
    Get->ResourcePrivateDriverDataSize = 0;
    return STATUS_SUCCESS;
}

/* Dxgkrnl asks about its surfaces: other allocations have no pixels. */
static NTSTATUS DescribeAllocation(const HANDLE hAdapter, DXGKARG_DESCRIBEALLOCATION *Describe) {
    const ALLOCATION *Allocation = (const ALLOCATION *)Describe->hAllocation;
    UNREFERENCED_PARAMETER(hAdapter);
    if (Allocation->Width == 0) {
        return STATUS_INVALID_PARAMETER;
    }
    Describe->Width = Allocation->Width * (BUG(DESCRIBED_IN_BYTES) ? 4 : 1);
    Describe->Height = Allocation->Height;
    Describe->Format = D3DDDIFMT_A8R8G8B8;
    return STATUS_SUCCESS;
}

static NTSTATUS OpenAllocation(const HANDLE hDevice, const DXGKARG_OPENALLOCATION *Open) {
    UINT At;
    UNREFERENCED_PARAMETER(hDevice);
    for (At = 0; At < Open->NumAllocations; At++) {
#ifdef WITH_THREAD
        AcquireForThread(((DEVICE *)hDevice)->Adapter, Open->pOpenAllocation[At].hAllocation);
#endif
        Open->pOpenAllocation[At].hDeviceSpecificAllocation = (HANDLE)(ULONG_PTR)Open->pOpenAllocation[At].hAllocation;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS CloseAllocation(const HANDLE hDevice, const DXGKARG_CLOSEALLOCATION *Close) {
    UNREFERENCED_PARAMETER(hDevice);
    UNREFERENCED_PARAMETER(Close);
    return STATUS_SUCCESS;
}

/* ---- Paging ---- */

/* Appends a command; FALSE if there is no room for it and for `Extra` bytes behind it. */
static BOOLEAN Append(DXGKARG_BUILDPAGINGBUFFER *Build, GPU_OPCODE Opcode, UINT64 One, UINT64 Two, UINT64 Three, UINT64 Four,
                      UINT Extra) {
    GPU_COMMAND Command = {Opcode, {One, Two, Three, Four}};
    UINT Size = sizeof(Command) + Extra;
    BOOLEAN Fits = BUG(OVERFLOW_CHECK) ? Build->DmaSize + Size > Build->DmaSize : Build->DmaSize >= Size;
    if (!Fits && !BUG(BUFFER_OVERRUN)) {
        return FALSE;
    }
    RtlCopyMemory(Build->pDmaBuffer, &Command, sizeof(Command));
    if (!BUG(POINTER_NOT_ADVANCED)) {
        Build->pDmaBuffer = (BYTE *)Build->pDmaBuffer + (BUG(POINTER_ADVANCED_TOO_FAR) ? Build->DmaSize + 8 : Size);
    }
    Build->DmaSize -= Size;
    return TRUE;
}

static NTSTATUS Full(void) {
    return BUG(UNSUCCESSFUL) ? STATUS_UNSUCCESSFUL : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}

/* The size of the last transfer in 64 KiB, for mistakes that differ from check to check. */
static UINT64 g_TransferSize;

__attribute__((constructor)) static void Initialise(void) {
    while (BUG(CONSTRUCTOR_SPINS)) {
    }
}

/* Whether the driver is in a separate space of process numbers: a signal to every process stays there. */
static BOOLEAN HasOwnNumbers(void) {
    char Link[32] = "";
    return readlink("/proc/self", Link, sizeof(Link) - 1) > 0 && atoi(Link) != getpid();
}

static void UseStack(void) {
    volatile char Local[32 << 10];
    Local[0] = Local[sizeof(Local) - 1] = 0;
}

static void StartProcesses(void) {
    int Depth;
    if (fork() == 0) {
        setsid();
        for (Depth = 0; BUG(FORKS) && Depth < 5; Depth++) {
            fork();
        }
        for (;;) {
            pause();
        }
    }
}

/* To processes and to the output. */
static void MisbehaveOutside(void) {
    int At;
    if (BUG(PARENT_KILLED) || BUG(PARENT_STOPPED)) {
        kill(getppid(), BUG(PARENT_KILLED) ? SIGKILL : SIGSTOP);
        sleep(1);
    } else if (BUG(GROUP_KILLED)) {
        kill(0, SIGKILL);
    } else if (BUG(ALL_KILLED) && HasOwnNumbers()) {
        kill(-1, SIGKILL);
        sleep(1);
    } else if (BUG(DAEMON) || BUG(FORKS)) {
        StartProcesses();
    } else if (BUG(PRINTS)) {
        for (At = 0; At < 8 << 10; At++) {
            fprintf(stderr, "%1023d\n", At);
        }
    } else if (BUG(SLOW_TRANSFER)) {
        usleep(700000);
    } else if (BUG(DEEP_STACK)) {
        UseStack();
    }
}

static void Misbehave(void) {
    MisbehaveOutside();
    if (BUG(CRASH)) {
        *(volatile int *)0 = 1;
    } else if (BUG(ASSERTION)) {
        NT_ASSERT(g_TransferSize == 0);
    } else if (BUG(BUG_CHECK)) {
        KeBugCheckEx(0x119, 5, 0, 0, 0);
    } else if (BUG(DEATHS)) {
        switch (g_TransferSize % 4) {
        case 0:
            *(volatile int *)0 = 2;
            break;
        case 1:
            *(volatile int *)8 = 3;
            break;
        case 2:
            NT_ASSERT(g_TransferSize == 0);
            break;
        default:
            KeBugCheckEx(0x10E, 0xB, 0, 0, 0);
        }
    } else if (BUG(EXIT)) {
        exit(0);
    } else if (BUG(EXIT_OF_PARENT)) {
        if (fork() == 0) {
            sleep(3);
        }
        _exit(0);
    } else if (BUG(HANG) || BUG(HANG_UNHEARD)) {
        if (BUG(HANG_UNHEARD)) {
            close(STDOUT_FILENO);
        }
        for (volatile int Forever = 1; Forever;) {
        }
    } else if (BUG(SMASHED_STACK)) {
        char Array[8];
        volatile int Size = 64;
        RtlFillMemory(Array, (size_t)Size, 'A');
        DbgPrint("%c", Array[7]);
    }
}

/* Makes a range of an allocation plain, which is at Address. There is nothing to do for one that is never compressed. */
static BOOLEAN Decompress(DXGKARG_BUILDPAGINGBUFFER *Build, HANDLE hAllocation, UINT64 Address, UINT64 Size,
                          UINT64 OffsetInBytes) {
    const ALLOCATION *Allocation = (const ALLOCATION *)hAllocation;
    return Allocation->Surface == 0 ||
           Append(Build, GPU_DECOMPRESS, Address, Size, Allocation->Surface, OffsetInBytes / PAGE_SIZE, 0);
}

/* Content becomes plain before it leaves the memory of the GPU. MultipassOffset is 1 once that is encoded. */
static NTSTATUS BuildTransfer(ADAPTER *Adapter, DXGKARG_BUILDPAGINGBUFFER *Build) {
    const DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL *Transfer = &Build->TransferVirtual;
    UINT64 From = Transfer->SourceVirtualAddress, To = Transfer->DestinationVirtualAddress;
    UINT64 Size = Transfer->TransferSizeInBytes;
    g_TransferSize = Size >> 16;
    Misbehave();
    if (BUG(HANG_WITH_LOCK)) {
        KIRQL Irql;
        KeAcquireSpinLock(&Adapter->Lock, &Irql);
        for (volatile int Forever = 1; Forever;) {
        }
    }
    Adapter->LastTransferSource = From;
    if (BUG(SWAPPED_TRANSFER)) {
        From = Transfer->DestinationVirtualAddress;
        To = Transfer->SourceVirtualAddress;
    }
    if (BUG(OFFSET_ADDED)) {
        From += Transfer->AllocationOffsetInBytes;
        To += Transfer->AllocationOffsetInBytes;
    }
    if (BUG(SHORT_TRANSFER)) {
        Size -= PAGE_SIZE;
    }
    if (BUG(TRANSFER_TOO_EARLY)) {
        From -= PAGE_SIZE;
        To -= PAGE_SIZE;
    }
    if (BUG(TRANSFER_TOO_FAR)) {
        Size += PAGE_SIZE;
    }
    if (BUG(BUSY_TRANSFER)) {
        return STATUS_GRAPHICS_ALLOCATION_BUSY;
    }
    if (BUG(ALWAYS_FULL)) {
        return Full();
    }
    if (Transfer->TransferDirection == DXGK_MEMORY_TRANSFER_LOCAL_TO_SYSTEM && Build->MultipassOffset == 0 &&
        !BUG(STAYS_COMPRESSED)) {
        if (!Decompress(Build, Transfer->hAllocation, From, Size, Transfer->AllocationOffsetInBytes)) {
            return Full();
        }
        Build->MultipassOffset = 1;
    }
    if (!Append(Build, GPU_COPY, From, To, Size, 0, 0)) {
        return BUG(TRANSFER_REPORTS_SUCCESS) ? STATUS_SUCCESS : Full();
    }
    return STATUS_SUCCESS;
}

static NTSTATUS BuildFill(ADAPTER *Adapter, DXGKARG_BUILDPAGINGBUFFER *Build) {
    const DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL *Fill = &Build->FillVirtual;
    UINT64 To = BUG(FILL_SYSTEM_RESIDENT) && Adapter->LastTransferSource != 0 ? Adapter->LastTransferSource
                                                                              : Fill->DestinationVirtualAddress;
    UINT64 Size = BUG(HALF_FILL) ? Fill->FillSizeInBytes / 2 : Fill->FillSizeInBytes + (BUG(FILL_TOO_FAR) ? PAGE_SIZE : 0);
    UINT Pattern = BUG(FILL_PATTERN_IGNORED) ? 0xFFFFFFFF : Fill->FillPattern;
    /* Marks would outlive what was compressed. */
    if (Build->MultipassOffset == 0 && !BUG(FILL_KEEPS_MARKS)) {
        if (!Decompress(Build, Fill->hAllocation, To, Size, Fill->AllocationOffsetInBytes)) {
            return Full();
        }
        Build->MultipassOffset = 1;
    }
    return Append(Build, GPU_FILL, To, Size, Pattern, 0, 0) ? STATUS_SUCCESS : Full();
}

static UINT64 HardwareEntry(const DXGK_PTE *Pte) {
    UINT64 Flags = 0;
    if (Pte->Zero) {
        return GPU_ENTRY_ZERO;
    }
    if (!Pte->Valid) {
        return 0;
    }
    if (Pte->ReadOnly && !BUG(READ_ONLY_DROPPED)) {
        Flags |= GPU_ENTRY_READ_ONLY;
    }
#ifdef WITH_FEW_ADDRESS_BITS
    NT_ASSERT(Pte->PageAddress <= GPU_HIGHEST_ADDRESS >> PAGE_SHIFT);
#endif
    return GPU_ENTRY(BUG(ENTRY_20_BITS) ? Pte->PageAddress & 0xFFFFF : Pte->PageAddress, BUG(SEGMENT_DROPPED) ? GPU_MEMORY_SEGMENT : Pte->Segment, Flags | GPU_ENTRY_VALID);
}

/* MultipassOffset counts the entries that earlier buffers took. */
static NTSTATUS BuildUpdatePageTable(DXGKARG_BUILDPAGINGBUFFER *Build) {
    const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE *Update = &Build->UpdatePageTable;
    UINT Count = Update->NumPageTableEntries - (BUG(LAST_ENTRY_LOST) ? 1 : 0);
    UINT First = BUG(MULTIPASS_FROM_START) ? 0 : Build->MultipassOffset;
    while (First < Count) {
        UINT Start = BUG(START_INDEX_IGNORED) ? First : Update->StartIndex + First, Room, Part, At;
        UINT64 Table = Update->PageTableAddress.GpuPhysical.SegmentOffset + (BUG(TABLE_OVERRUN) ? PAGE_SIZE : 0);
        UINT64 *Entries = (UINT64 *)((GPU_COMMAND *)Build->pDmaBuffer + 1);
        Room = Build->DmaSize < sizeof(GPU_COMMAND) + 8 ? 0 : (Build->DmaSize - (UINT)sizeof(GPU_COMMAND)) / 8;
        Part = min(Count - First, Room);
        if (Part == 0 || !Append(Build, GPU_WRITE_ENTRIES, Update->PageTableAddress.GpuPhysical.SegmentId,
                                 Table, Start, Part, Part * 8)) {
            return Full();
        }
        for (At = 0; At < Part; At++) {
            BOOLEAN IsFirst = (Update->Flags.Repeat && !BUG(REPEAT_IGNORED)) || BUG(FIRST_ENTRY_REPEATED);
            DXGK_PTE Pte = Update->pPageTableEntries[IsFirst || BUG(FIRST_ENTRY_COUNTED_UP) ? 0 : First + At];
            if (BUG(FIRST_ENTRY_COUNTED_UP) && !Update->Flags.Repeat) {
                Pte.PageAddress += First + At;
            }
            if (BUG(ENTRY_OF_NEIGHBOUR) && Update->PageTableLevel == 0 && !Update->Flags.Repeat && First + At > 0 &&
                First + At + 1 == Count) {
                Pte.PageAddress++;
            }
            Entries[At] = HardwareEntry(&Pte);
        }
        First += Part;
        Build->MultipassOffset = First + (BUG(MULTIPASS_SKIPS_ONE) ? 1 : 0);
    }
    return STATUS_SUCCESS;
}

static NTSTATUS BuildFlush(const ADAPTER *Adapter, DXGKARG_BUILDPAGINGBUFFER *Build) {
    const DXGK_BUILDPAGINGBUFFER_FLUSHTLB *Flush = &Build->FlushTlb;
    UINT64 AddressSpace = ((const PROCESS *)Flush->hProcess)->AddressSpace + (BUG(FLUSH_WRONG_PROCESS) ? 1 : 0);
    UINT64 Mask = BUG(FLUSH_32_BITS) ? 0xFFFFFFFF : ~0ull;
    if (BUG(SKIP_FLUSH)) {
        return STATUS_SUCCESS;
    }
    return Append(Build, GPU_FLUSH, AddressSpace, Adapter->FlushesAll ? 0 : Flush->StartVirtualAddress & Mask,
                  Adapter->FlushesAll ? 0 : Flush->EndVirtualAddress & Mask, 0, 0)
               ? STATUS_SUCCESS
               : Full();
}

/* System memory that the CPU is about to see: Windows shows it to the GPU once more, a chunk at a time. */
static NTSTATUS BuildNotification(DXGKARG_BUILDPAGINGBUFFER *Build) {
    const DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC *Notify = &Build->NotifyAllocation;
    if (BUG(NOTIFICATION_IGNORED) || !Notify->Flags.Eviction) {
        return STATUS_SUCCESS;
    }
    return Decompress(Build, Notify->hAllocation, Notify->GpuVirtualAddressAtOffset,
                      BUG(HALF_NOTIFICATION) ? Notify->SizeInBytes / 2 : Notify->SizeInBytes,
                      Notify->OffsetInBytes)
               ? STATUS_SUCCESS
               : Full();
}

static NTSTATUS BuildPagingBuffer(const HANDLE hAdapter, DXGKARG_BUILDPAGINGBUFFER *Build) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    switch (Build->Operation) {
    case DXGK_OPERATION_VIRTUAL_TRANSFER:
        return BuildTransfer(Adapter, Build);
    case DXGK_OPERATION_VIRTUAL_FILL:
        return BuildFill(Adapter, Build);
    case DXGK_OPERATION_UPDATE_PAGE_TABLE:
        return BuildUpdatePageTable(Build);
    case DXGK_OPERATION_FLUSH_TLB:
        return BuildFlush(Adapter, Build);
    case DXGK_OPERATION_NOTIFY_ALLOC:
        return BuildNotification(Build);
    case DXGK_OPERATION_TRANSFER:
        /* After a reset of the adapter: the content of the memory segment is gone, and there is nothing to do. */
        return Build->Transfer.TransferSize == 0 && !BUG(RESET_TRANSFER_REFUSED) ? STATUS_SUCCESS : STATUS_NOT_SUPPORTED;
    default:
        return BUG(UNKNOWN_IS_SUCCESS) ? STATUS_SUCCESS : STATUS_NOT_SUPPORTED;
    }
}

/* ---- Submission and interrupts ---- */

static NTSTATUS SubmitCommandVirtual(const HANDLE hAdapter, const DXGKARG_SUBMITCOMMANDVIRTUAL *Submit) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    const CONTEXT *Context = (const CONTEXT *)Submit->hContext;
    GPU_PACKET Packet;
    RtlZeroMemory(&Packet, sizeof(Packet));
    Packet.Address = Submit->DmaBufferVirtualAddress;
    Packet.Bytes = Submit->DmaBufferSize;
    Packet.FenceId = BUG(FENCE_12_BITS) ? Submit->SubmissionFenceId & 0xFFF : Submit->SubmissionFenceId;
    Packet.IsUserWork = !Submit->Flags.Paging;
    Packet.AddressSpace = Context->Device->Process->AddressSpace;
    Packet.Root = Context->Root;
    Packet.RootEntries = Context->RootEntries;
    if (!BUG(FENCE_BY_SIZE) || Packet.FenceId > Adapter->SubmittedFenceIds[Submit->NodeOrdinal]) {
        GpuSubmit(&Adapter->Gpu, Submit->NodeOrdinal, &Packet);
    }
    Adapter->SubmittedFenceIds[Submit->NodeOrdinal] = Packet.FenceId;
    return STATUS_SUCCESS;
}

/* Reads the registers of an engine. FALSE if it has nothing to tell. */
static BOOLEAN ReadEngine(const ADAPTER *Adapter, UINT Node, DXGKARGCB_NOTIFY_INTERRUPT_DATA *Data) {
    const GPU_ENGINE *Engine = &Adapter->Gpu.Engines[Node];
    RtlZeroMemory(Data, sizeof(*Data));
    switch (Engine->Status) {
    case GPU_IDLE:
        return FALSE;
    case GPU_COMPLETED:
        if (BUG(NO_INTERRUPT)) {
            return FALSE;
        }
        Data->InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
        Data->DmaCompleted.NodeOrdinal = BUG(WRONG_NODE) ? 0 : Node;
        Data->DmaCompleted.SubmissionFenceId = Engine->FenceId - (BUG(WRONG_FENCE) ? 1 : 0);
        break;
    case GPU_BAD_COMMAND:
        Data->InterruptType = DXGK_INTERRUPT_DMA_FAULTED;
        Data->DmaFaulted.NodeOrdinal = Node;
        Data->DmaFaulted.FaultedFenceId = Engine->FenceId;
        Data->DmaFaulted.Status = STATUS_ILLEGAL_INSTRUCTION;
        break;
    case GPU_PAGE_FAULT:
        if (BUG(FAULT_AS_END)) {
            Data->InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
            Data->DmaCompleted.NodeOrdinal = Node;
            Data->DmaCompleted.SubmissionFenceId = Engine->FenceId;
            break;
        }
        Data->InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
        Data->DmaPageFaulted.NodeOrdinal = Node;
        Data->DmaPageFaulted.FaultedFenceId = Engine->FenceId + (BUG(WRONG_FAULTED_FENCE) ? 1 : 0);
        Data->DmaPageFaulted.FaultedPrimitiveAPISequenceNumber = DXGK_PRIMITIVE_API_SEQUENCE_NUMBER_UNKNOWN;
        Data->DmaPageFaulted.FaultedBindTableEntry = DXGK_BIND_TABLE_ENTRY_UNKNOWN;
        Data->DmaPageFaulted.PageFaultFlags = Engine->FaultIsWrite ? DXGK_PAGE_FAULT_WRITE : (DXGK_PAGE_FAULT_FLAGS)0;
        Data->DmaPageFaulted.FaultedVirtualAddress = Engine->FaultAddress;
        break;
    case GPU_YIELDED:
        Data->InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
        Data->DmaPreempted.NodeOrdinal = Node;
        Data->DmaPreempted.PreemptionFenceId = Adapter->PreemptionFenceIds[Node];
        Data->DmaPreempted.LastCompletedFenceId = Engine->LastCompletedFenceId - (BUG(WRONG_LAST_COMPLETED) ? 1 : 0);
        break;
    }
    return TRUE;
}

static VOID Tell(ADAPTER *Adapter, DXGKARGCB_NOTIFY_INTERRUPT_DATA *Data) {
#ifdef WITH_DEFERRED
    if (Adapter->UnreportedCount < REPORTS_MAX) {
        Adapter->Unreported[Adapter->UnreportedCount++] = *Data;
    }
    KeInsertQueueDpc(&Adapter->InterruptDpc, NULL, NULL);
#else
    Adapter->Dxgkrnl.DxgkCbNotifyInterrupt(Adapter->Dxgkrnl.DeviceHandle, Data);
    if (!BUG(NO_DPC)) {
        Adapter->Dxgkrnl.DxgkCbQueueDpc(Adapter->Dxgkrnl.DeviceHandle);
    }
#endif
}

static BOOLEAN InterruptRoutine(const PVOID MiniportDeviceContext, ULONG MessageNumber) {
    ADAPTER *Adapter = (ADAPTER *)MiniportDeviceContext;
    DXGKARGCB_NOTIFY_INTERRUPT_DATA Data;
    BOOLEAN IsOurs = FALSE;
    UINT Node;
    UNREFERENCED_PARAMETER(MessageNumber);
    for (Node = 0; Node < GPU_ENGINES; Node++) {
        if (ReadEngine(Adapter, Node, &Data)) {
            Adapter->Gpu.Engines[Node].Status = GPU_IDLE;
            Tell(Adapter, &Data);
            IsOurs = TRUE;
        }
    }
    return IsOurs;
}

static VOID DpcRoutine(const PVOID MiniportDeviceContext) {
    ADAPTER *Adapter = (ADAPTER *)MiniportDeviceContext;
    if (BUG(DPC_IS_SILENT)) {
        return;
    }
    Adapter->Dxgkrnl.DxgkCbNotifyDpc(Adapter->Dxgkrnl.DeviceHandle);
}

static NTSTATUS PreemptCommand(const HANDLE hAdapter, const DXGKARG_PREEMPTCOMMAND *Preempt) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    Adapter->PreemptionFenceIds[Preempt->NodeOrdinal] = Preempt->PreemptionFenceId;
    if (!BUG(PREEMPTION_IGNORED)) {
        GpuYield(&Adapter->Gpu, Preempt->NodeOrdinal);
    }
    return STATUS_SUCCESS;
}

static NTSTATUS ResetEngine(const HANDLE hAdapter, DXGKARG_RESETENGINE *Reset) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    Reset->LastAbortedFenceId =
        Adapter->Gpu.Engines[Reset->NodeOrdinal].Packet.FenceId - (BUG(WRONG_ABORTED_FENCE) ? 1 : 0);
    GpuReset(&Adapter->Gpu, Reset->NodeOrdinal);
    return STATUS_SUCCESS;
}

/* An engine is reset without harm to others. */
static NTSTATUS QueryDependentEngineGroup(const HANDLE hAdapter, DXGKARG_QUERYDEPENDENTENGINEGROUP *Query) {
    UNREFERENCED_PARAMETER(hAdapter);
    Query->DependentNodeOrdinalMask = 1ull << Query->NodeOrdinal;
    return STATUS_SUCCESS;
}

/* An engine is late: its interrupt may be lost. */
static NTSTATUS QueryCurrentFence(const HANDLE hAdapter, DXGKARG_QUERYCURRENTFENCE *Query) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    BOOLEAN Returned;
    if (!BUG(MISSED_FENCE)) {
        Adapter->Dxgkrnl.DxgkCbSynchronizeExecution(Adapter->Dxgkrnl.DeviceHandle, LookAtInterrupt, Adapter, 0, &Returned);
    }
    Query->CurrentFence =
        Adapter->Gpu.Engines[Query->NodeOrdinal].LastCompletedFenceId - (BUG(WRONG_CURRENT_FENCE) ? 1 : 0);
    return STATUS_SUCCESS;
}

static NTSTATUS QueryEngineStatus(const HANDLE hAdapter, DXGKARG_QUERYENGINESTATUS *Query) {
    UNREFERENCED_PARAMETER(hAdapter);
    if (BUG(STATUS_REFUSED)) {
        return STATUS_NOT_SUPPORTED;
    }
    /* An engine that is asked about has stopped at a fault. */
    Query->EngineStatus.Responsive = 0;
    return STATUS_SUCCESS;
}

/* The registers of the engines, as far as there is room. */
static NTSTATUS CollectDbgInfo(const HANDLE hAdapter, const DXGKARG_COLLECTDBGINFO *Collect) {
    const ADAPTER *Adapter = (const ADAPTER *)hAdapter;
    SIZE_T Size = sizeof(Adapter->Gpu.Engines);
    if (Size > Collect->BufferSize && !BUG(DEBUG_OVERRUN)) {
        Size = Collect->BufferSize;
    }
    RtlCopyMemory(Collect->pBuffer, Adapter->Gpu.Engines, Size);
    return STATUS_SUCCESS;
}

static NTSTATUS SetPowerState(const PVOID MiniportDeviceContext, ULONG DeviceUid, DEVICE_POWER_STATE State, POWER_ACTION Action) {
    ADAPTER *Adapter = (ADAPTER *)MiniportDeviceContext;
    UNREFERENCED_PARAMETER(Action);
    if (DeviceUid != DISPLAY_ADAPTER_HW_ID) {
        return STATUS_SUCCESS;
    }
    GpuSetPower(&Adapter->Gpu, State == PowerDeviceD0 && !BUG(SLEEPS_ON));
    return BUG(POWER_REFUSED) && State == PowerDeviceD3 ? STATUS_UNSUCCESSFUL : STATUS_SUCCESS;
}

static NTSTATUS ResetFromTimeout(const HANDLE hAdapter) {
    UINT Node;
    for (Node = 0; Node < GPU_ENGINES; Node++) {
        GpuReset(&((ADAPTER *)hAdapter)->Gpu, Node);
    }
    return STATUS_SUCCESS;
}

static NTSTATUS RestartFromTimeout(const HANDLE hAdapter) {
    UNREFERENCED_PARAMETER(hAdapter);
    return BUG(RESTART_FAILS) ? STATUS_UNSUCCESSFUL : STATUS_SUCCESS;
}

/* ---- The window of the CPU ---- */

#ifdef WITH_HOST_APERTURE
static BOOLEAN IsWindow(UINT SegmentId, const UINT32 *Pages, UINT64 Count) {
    UINT64 At;
    for (At = 0; At < Count; At++) {
        if (Pages[At] >= GPU_WINDOW_PAGES) {
            return FALSE;
        }
    }
    return SegmentId == GPU_MEMORY_SEGMENT;
}

/* Page tables have no allocation: a mapping is of pages alone. */
static NTSTATUS MapCpuHostAperture(const HANDLE hAdapter, const DXGKARG_MAPCPUHOSTAPERTURE *Map) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    UINT64 Count = Map->NumberOfPages - (BUG(WINDOW_SHORT) ? 1 : 0), At;
    if (!IsWindow(Map->SegmentId, Map->pCpuHostAperturePages, Map->NumberOfPages)) {
        return STATUS_INVALID_PARAMETER;
    }
    for (At = 0; At < Count; At++) {
        UINT64 Page = BUG(WINDOW_COUNTS_ON) ? Map->pMemorySegmentPages[0] + At : Map->pMemorySegmentPages[At];
        Adapter->Gpu.Window[Map->pCpuHostAperturePages[At]] = Page + 1;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS UnmapCpuHostAperture(const HANDLE hAdapter, const DXGKARG_UNMAPCPUHOSTAPERTURE *Unmap) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    UINT64 At;
    if (!IsWindow(Unmap->SegmentId, Unmap->pCpuHostAperturePages, Unmap->NumberOfPages) || BUG(WINDOW_UNMAP_FAILS)) {
        return STATUS_INVALID_PARAMETER;
    }
    if (BUG(WINDOW_UNMAPS_ALL)) {
        RtlZeroMemory(Adapter->Gpu.Window, sizeof(Adapter->Gpu.Window));
    }
    for (At = 0; At < Unmap->NumberOfPages; At++) {
        Adapter->Gpu.Window[Unmap->pCpuHostAperturePages[At]] = 0;
    }
    return STATUS_SUCCESS;
}
#endif

/* ---- The entry ---- */

NTSTATUS DriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath) {
    DRIVER_INITIALIZATION_DATA Data;
    RtlZeroMemory(&Data, sizeof(Data));
    Data.Version = DXGKDDI_INTERFACE_VERSION_WDDM3_2;
    Data.DxgkDdiAddDevice = AddDevice;
    Data.DxgkDdiStartDevice = StartDevice;
    Data.DxgkDdiStopDevice = StopDevice;
    Data.DxgkDdiRemoveDevice = RemoveDevice;
    Data.DxgkDdiUnload = Unload;
    Data.DxgkDdiInterruptRoutine = InterruptRoutine;
    Data.DxgkDdiDpcRoutine = DpcRoutine;
    Data.DxgkDdiSetPowerState = SetPowerState;
    Data.DxgkDdiQueryAdapterInfo = QueryAdapterInfo;
    Data.DxgkDdiGetNodeMetadata = GetNodeMetadata;
    Data.DxgkDdiCreateProcess = CreateProcess;
    Data.DxgkDdiDestroyProcess = DestroyProcess;
    Data.DxgkDdiCreateDevice = CreateDevice;
    Data.DxgkDdiDestroyDevice = DestroyDevice;
    Data.DxgkDdiCreateContext = CreateContext;
    Data.DxgkDdiDestroyContext = DestroyContext;
    Data.DxgkDdiSetRootPageTable = SetRootPageTable;
    Data.DxgkDdiCreateAllocation = CreateAllocation;
    Data.DxgkDdiDestroyAllocation = DestroyAllocation;
    Data.DxgkDdiGetStandardAllocationDriverData = BUG(NO_SURFACES) ? NULL : GetStandardAllocationDriverData;
    Data.DxgkDdiDescribeAllocation = DescribeAllocation;
    Data.DxgkDdiOpenAllocation = OpenAllocation;
    Data.DxgkDdiCloseAllocation = CloseAllocation;
    Data.DxgkDdiBuildPagingBuffer = BuildPagingBuffer;
    Data.DxgkDdiSubmitCommandVirtual = SubmitCommandVirtual;
    Data.DxgkDdiPreemptCommand = PreemptCommand;
    Data.DxgkDdiResetEngine = ResetEngine;
    Data.DxgkDdiQueryDependentEngineGroup = QueryDependentEngineGroup;
    Data.DxgkDdiQueryCurrentFence = QueryCurrentFence;
    Data.DxgkDdiQueryEngineStatus = QueryEngineStatus;
    Data.DxgkDdiCollectDbgInfo = CollectDbgInfo;
    Data.DxgkDdiResetFromTimeout = ResetFromTimeout;
    Data.DxgkDdiRestartFromTimeout = RestartFromTimeout;
#ifdef WITH_HOST_APERTURE
    Data.DxgkDdiMapCpuHostAperture = MapCpuHostAperture;
    Data.DxgkDdiUnmapCpuHostAperture = UnmapCpuHostAperture;
#endif
    return DxgkInitialize(DriverObject, RegistryPath, &Data);
}

/* ---- For vidmm ---- */

#ifndef WITHOUT_TEST_INTERFACE

static UINT GetAllocationPrivateData(const VIDMM_ALLOCATION *Wanted, VOID *Data, UINT Size) {
    PRIVATE_DATA Private = {Wanted->Size, 0, Wanted->Priority, 0, PRIVATE_DATA_MAGIC, 0, Wanted->Surface, 0, 0};
    DXGK_ALLOCATIONINFOFLAGS2 Flags2 = {{{0}}};
    DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 Flags = {{{0}}};
    if (Size < sizeof(Private)) {
        return 0;
    }
    Flags.CpuVisible = Wanted->CpuVisible;
    Flags.PermanentSysMem = Wanted->PermanentSysMem;
    Flags.ExistingSysMem = Wanted->ExistingSysMem && !BUG(EXISTING_IGNORED);
    Flags2.NotifyEviction = Wanted->NotifyEviction;
    Private.Flags = Flags.Value;
    Private.Flags2 = Flags2.Value;
    Private.Segments = (Wanted->MayBeLocal ? 1u : 0) | (Wanted->MayBeSystem ? 2u : 0);
    RtlCopyMemory(Data, &Private, sizeof(Private));
    return sizeof(Private);
}

static VOID Run(HANDLE hAdapter, UINT NodeOrdinal) {
    if (NodeOrdinal < GPU_ENGINES) {
        GpuRun(&((ADAPTER *)hAdapter)->Gpu, NodeOrdinal);
    }
}

static VIDMM_TRANSLATION Translate(HANDLE hAdapter, UINT NodeOrdinal, D3DGPU_VIRTUAL_ADDRESS Address, BOOLEAN Write,
                                   UINT *SegmentId, UINT64 *Offset) {
    if (NodeOrdinal >= GPU_ENGINES) {
        return VIDMM_TRANSLATION_FAULT;
    }
    return GpuTranslate(&((ADAPTER *)hAdapter)->Gpu, NodeOrdinal, Address, Write, SegmentId, Offset);
}

#ifdef WITHOUT_ENTRIES
#define ReadPageTableEntry NULL
#else
static BOOLEAN ReadPageTableEntry(HANDLE hAdapter, UINT SegmentId, UINT64 TableOffset, UINT Level, BOOLEAN Is64KB, UINT Index,
                                  DXGK_PTE *Entry, DXGK_PTE *Entry64KB) {
    UINT64 Hardware;
    UNREFERENCED_PARAMETER(Level);
    UNREFERENCED_PARAMETER(Entry64KB);
    if (Is64KB || Index >= GPU_ENTRIES ||
        !VidmmReadMemory(((ADAPTER *)hAdapter)->Gpu.DeviceHandle, SegmentId, TableOffset + Index * 8ull, &Hardware, 8)) {
        return FALSE;
    }
    RtlZeroMemory(Entry, sizeof(*Entry));
    Entry->Valid = (Hardware & GPU_ENTRY_VALID) != 0;
    Entry->Zero = (Hardware & GPU_ENTRY_ZERO) != 0;
    Entry->ReadOnly = (Hardware & GPU_ENTRY_READ_ONLY) != 0;
    Entry->Segment = GPU_ENTRY_SEGMENT(Hardware);
    Entry->PageAddress = GPU_ENTRY_PAGE(Hardware);
    return TRUE;
}
#endif

#ifdef WITH_HOST_APERTURE
static BOOLEAN ReadCpuHostAperturePage(HANDLE hAdapter, UINT SegmentId, UINT32 Page, UINT64 *MemoryPage) {
    const ADAPTER *Adapter = (const ADAPTER *)hAdapter;
    if (SegmentId != GPU_MEMORY_SEGMENT || Page >= GPU_WINDOW_PAGES || Adapter->Gpu.Window[Page] == 0) {
        return FALSE;
    }
    *MemoryPage = Adapter->Gpu.Window[Page] - 1;
    return TRUE;
}
#else
#define ReadCpuHostAperturePage NULL
#endif

const VIDMM_TEST_INTERFACE *VidmmGetTestInterface(VOID) {
    static const VIDMM_GPU Gpu = {Run, Translate, ReadPageTableEntry, NULL, TRUE, 0, ReadCpuHostAperturePage};
    static VIDMM_TEST_INTERFACE Interface = {VIDMM_TEST_INTERFACE_VERSION, GetAllocationPrivateData, &Gpu, NULL, TRUE};
#ifdef WITHOUT_GPU
    Interface.Gpu = NULL;
#endif
    return &Interface;
}

#endif
