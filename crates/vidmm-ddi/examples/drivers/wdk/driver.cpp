#include "driver.hpp"

// ---- The adapter ----

static DXGKDDI_ADD_DEVICE DdiAddDevice;
static DXGKDDI_START_DEVICE DdiStartDevice;

_Use_decl_annotations_
static NTSTATUS DdiAddDevice(IN_CONST_PDEVICE_OBJECT PhysicalDeviceObject, OUT_PPVOID MiniportDeviceContext) {
    PAGED_CODE();
    UNREFERENCED_PARAMETER(PhysicalDeviceObject);
    *MiniportDeviceContext = new Adapter;
    return *MiniportDeviceContext != nullptr ? STATUS_SUCCESS : STATUS_NO_MEMORY;
}

NTSTATUS Adapter::Start(PDXGKRNL_INTERFACE dxgkrnl) {
    DXGK_DEVICE_INFO info = {};
    PVOID registers = nullptr;
    HANDLE thread;
    m_dxgkrnl = *dxgkrnl;
    NTSTATUS status = m_dxgkrnl.DxgkCbGetDeviceInformation(m_dxgkrnl.DeviceHandle, &info);
    if (!NT_SUCCESS(status) || info.TranslatedResourceList == nullptr) {
        return STATUS_DEVICE_CONFIGURATION_ERROR;
    }
    const CM_PARTIAL_RESOURCE_LIST &list = info.TranslatedResourceList->List[0].PartialResourceList;
    for (ULONG at = 0; at < list.Count; at++) {
        const CM_PARTIAL_RESOURCE_DESCRIPTOR &descriptor = list.PartialDescriptors[at];
        if (descriptor.Type == CmResourceTypeMemory && registers == nullptr) {
            registers = MmMapIoSpace(descriptor.u.Memory.Start, PAGE_SIZE, MmNonCached);
        }
    }
    if (registers == nullptr) {
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    m_hardware.Start(m_dxgkrnl.DeviceHandle, registers);
    KeInitializeSpinLock(&m_lock);
    KeInitializeEvent(&m_wake, SynchronizationEvent, FALSE);
    KeInitializeEvent(&m_reported, SynchronizationEvent, FALSE);
    m_isStopping = FALSE;
    status = PsCreateSystemThread(&thread, THREAD_ALL_ACCESS, nullptr, nullptr, nullptr, ThreadRoutine, this);
    if (NT_SUCCESS(status)) {
        status = ObReferenceObjectByHandle(thread, THREAD_ALL_ACCESS, *PsThreadType, KernelMode, &m_thread, nullptr);
        ZwClose(thread);
    }
    return status;
}

void Adapter::Stop() {
    m_isStopping = TRUE;
    KeSetEvent(&m_wake, 0, FALSE);
    KeWaitForSingleObject(m_thread, Executive, KernelMode, FALSE, nullptr);
    ObDereferenceObject(m_thread);
}

_Use_decl_annotations_
static NTSTATUS DdiStartDevice(IN_CONST_PVOID MiniportDeviceContext, IN_PDXGK_START_INFO DxgkStartInfo,
                               IN_PDXGKRNL_INTERFACE DxgkInterface, OUT_PULONG NumberOfVideoPresentSources,
                               OUT_PULONG NumberOfChildren) {
    UNREFERENCED_PARAMETER(DxgkStartInfo);
    *NumberOfVideoPresentSources = *NumberOfChildren = 0;
    return static_cast<Adapter *>(MiniportDeviceContext)->Start(DxgkInterface);
}

static NTSTATUS DdiStopDevice(IN_CONST_PVOID MiniportDeviceContext) {
    static_cast<Adapter *>(MiniportDeviceContext)->Stop();
    return STATUS_SUCCESS;
}

static NTSTATUS DdiRemoveDevice(IN_CONST_PVOID MiniportDeviceContext) {
    delete static_cast<Adapter *>(MiniportDeviceContext);
    return STATUS_SUCCESS;
}

static VOID DdiUnload(VOID) {
}

static NTSTATUS DdiQueryAdapterInfo(IN_CONST_HANDLE hAdapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO pQueryAdapterInfo) {
    return static_cast<Adapter *>(hAdapter)->QueryAdapterInfo(pQueryAdapterInfo);
}

#ifdef WITH_GPU_MMU
using SegmentDescriptor = DXGK_SEGMENTDESCRIPTOR4;
using SegmentsOut = DXGK_QUERYSEGMENTOUT4;
#else
using SegmentDescriptor = DXGK_SEGMENTDESCRIPTOR3;
using SegmentsOut = DXGK_QUERYSEGMENTOUT3;
#endif

// Limits are left 0: the whole of a segment may be used.
NTSTATUS Adapter::QuerySegments(PVOID output) {
    auto *out = static_cast<SegmentsOut *>(output);
    auto *segments = reinterpret_cast<SegmentDescriptor *>(out->pSegmentDescriptor);
    out->NbSegment = 2;
    out->PagingBufferSize = 8 << 10;
    out->PagingBufferPrivateDataSize = sizeof(DmaBufferData);
#ifdef WITH_GPU_MMU
    out->SegmentDescriptorStride = sizeof(SegmentDescriptor);
#endif
    if (segments != nullptr) {
        segments[0].Size = HARDWARE_MEMORY_BYTES;
#ifndef WITH_GPU_MMU
        segments[0].CommitLimit = HARDWARE_MEMORY_BYTES;
#endif
        segments[0].BaseAddress.QuadPart = HARDWARE_MEMORY_BASE;
        segments[1].Flags.Aperture = 1;
        segments[1].Size = HARDWARE_APERTURE_PAGES * PAGE_SIZE;
        segments[1].BaseAddress.QuadPart = HARDWARE_APERTURE_BASE;
    }
    return STATUS_SUCCESS;
}

NTSTATUS Adapter::QueryAdapterInfo(const DXGKARG_QUERYADAPTERINFO *query) {
    switch (query->Type) {
    case DXGKQAITYPE_DRIVERCAPS: {
        auto *caps = static_cast<DXGK_DRIVERCAPS *>(query->pOutputData);
        caps->HighestAcceptableAddress.QuadPart = -1;
        caps->MaxAllocationListSlotId = MAX_SLOT;
        caps->GpuEngineTopology.NbAsymetricProcessingNodes = 1;
        caps->SupportPerEngineTDR = TRUE;
#ifdef WITH_GPU_MMU
        caps->MemoryManagementCaps.VirtualAddressingSupported = 1;
        caps->MemoryManagementCaps.GpuMmuSupported = 1;
#endif
        return STATUS_SUCCESS;
    }
#ifdef WITH_GPU_MMU
    case DXGKQAITYPE_QUERYSEGMENT4:
        return QuerySegments(query->pOutputData);
    case DXGKQAITYPE_PHYSICALADAPTERCAPS:
        static_cast<DXGK_PHYSICALADAPTERCAPS *>(query->pOutputData)->NumExecutionNodes = 1;
        return STATUS_SUCCESS;
    case DXGKQAITYPE_GPUMMUCAPS: {
        auto *caps = static_cast<DXGK_GPUMMUCAPS *>(query->pOutputData);
        caps->ReadOnlyMemorySupported = 1;
        caps->PageTableUpdateMode = DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
        caps->VirtualAddressBitCount = PAGE_SHIFT + TABLE_LEVELS * TABLE_INDEX_BITS;
        caps->PageTableLevelCount = TABLE_LEVELS;
        return STATUS_SUCCESS;
    }
    case DXGKQAITYPE_PAGETABLELEVELDESC: {
        auto *level = static_cast<DXGK_PAGE_TABLE_LEVEL_DESC *>(query->pOutputData);
        level->PageTableIndexBitCount = TABLE_INDEX_BITS;
        level->PageTableSizeInBytes = TABLE_BYTES;
        level->PageTableAlignmentInBytes = PAGE_SIZE;
        return STATUS_SUCCESS;
    }
#else
    case DXGKQAITYPE_QUERYSEGMENT3:
        return QuerySegments(query->pOutputData);
#endif
    default:
        return STATUS_NOT_SUPPORTED;
    }
}

// ---- Devices, contexts ----

static NTSTATUS DdiCreateDevice(IN_CONST_HANDLE hAdapter, INOUT_PDXGKARG_CREATEDEVICE pCreateDevice) {
    auto *device = new Device;
    if (device == nullptr) {
        return STATUS_NO_MEMORY;
    }
    device->Owner = static_cast<Adapter *>(hAdapter);
    pCreateDevice->hDevice = device;
    return STATUS_SUCCESS;
}

static NTSTATUS DdiDestroyDevice(IN_CONST_HANDLE hDevice) {
    delete static_cast<Device *>(hDevice);
    return STATUS_SUCCESS;
}

static NTSTATUS DdiCreateContext(IN_CONST_HANDLE hDevice, INOUT_PDXGKARG_CREATECONTEXT pCreateContext) {
    auto *context = new Context;
    if (context == nullptr) {
        return STATUS_NO_MEMORY;
    }
    context->Owner = static_cast<Device *>(hDevice);
    pCreateContext->hContext = context;
    pCreateContext->ContextInfo.DmaBufferSize = 64 << 10;
    pCreateContext->ContextInfo.DmaBufferPrivateDataSize = sizeof(DmaBufferData);
    pCreateContext->ContextInfo.AllocationListSize = 256;
    pCreateContext->ContextInfo.PatchLocationListSize = 256;
    return STATUS_SUCCESS;
}

static NTSTATUS DdiDestroyContext(IN_CONST_HANDLE hContext) {
    delete static_cast<Context *>(hContext);
    return STATUS_SUCCESS;
}

static VOID DdiSetRootPageTable(IN_CONST_HANDLE hAdapter, IN_CONST_PDXGKARG_SETROOTPAGETABLE pSetPageTable) {
    UNREFERENCED_PARAMETER(hAdapter);
    static_cast<Context *>(pSetPageTable->hContext)->Root = pSetPageTable->Address;
}

// ---- Allocations ----

static NTSTATUS CreateOne(DXGK_ALLOCATIONINFO *info) {
    auto *data = static_cast<const AllocationPrivateData *>(info->pPrivateDriverData);
    if (info->PrivateDriverDataSize != sizeof(*data) || data->Magic != PRIVATE_DATA_MAGIC || data->Size == 0) {
        return STATUS_INVALID_PARAMETER;
    }
    auto *allocation = new Allocation;
    if (allocation == nullptr) {
        return STATUS_NO_MEMORY;
    }
    allocation->Size = data->Size;
    info->hAllocation = allocation;
    info->Size = data->Size;
    info->Alignment = 64;
    info->SupportedReadSegmentSet = (data->MayBeLocal ? 1u << (SEGMENT_MEMORY - 1) : 0) |
                                    (data->MayBeSystem ? 1u << (SEGMENT_APERTURE - 1) : 0);
    info->SupportedWriteSegmentSet = info->SupportedReadSegmentSet;
    info->PreferredSegment.SegmentId0 = data->MayBeLocal ? SEGMENT_MEMORY : SEGMENT_APERTURE;
    info->PreferredSegment.SegmentId1 = data->MayBeLocal && data->MayBeSystem ? SEGMENT_APERTURE : 0;
    info->AllocationPriority = data->Priority != 0 ? data->Priority : D3DDDI_ALLOCATIONPRIORITY_NORMAL;
    info->Flags.Value = data->Flags;
    return STATUS_SUCCESS;
}

static NTSTATUS DdiCreateAllocation(IN_CONST_HANDLE hAdapter, INOUT_PDXGKARG_CREATEALLOCATION pCreateAllocation) {
    UNREFERENCED_PARAMETER(hAdapter);
    for (UINT at = 0; at < pCreateAllocation->NumAllocations; at++) {
        NTSTATUS status = CreateOne(&pCreateAllocation->pAllocationInfo[at]);
        if (!NT_SUCCESS(status)) {
            while (at-- > 0) {
                delete static_cast<Allocation *>(pCreateAllocation->pAllocationInfo[at].hAllocation);
            }
            return status;
        }
    }
    return STATUS_SUCCESS;
}

static NTSTATUS DdiDestroyAllocation(IN_CONST_HANDLE hAdapter, IN_CONST_PDXGKARG_DESTROYALLOCATION pDestroyAllocation) {
    UNREFERENCED_PARAMETER(hAdapter);
    for (UINT at = 0; at < pDestroyAllocation->NumAllocations; at++) {
        delete static_cast<Allocation *>(pDestroyAllocation->pAllocationList[at]);
    }
    return STATUS_SUCCESS;
}

static NTSTATUS DdiCloseAllocation(IN_CONST_HANDLE hDevice, IN_CONST_PDXGKARG_CLOSEALLOCATION pCloseAllocation) {
    const DXGKRNL_INTERFACE &dxgkrnl = static_cast<Device *>(hDevice)->Owner->Dxgkrnl();
    for (UINT at = 0; at < pCloseAllocation->NumAllocations; at++) {
        auto *opened = static_cast<OpenedAllocation *>(pCloseAllocation->pOpenHandleList[at]);
        dxgkrnl.DxgkCbReleaseHandleData({opened->Release, DXGK_HANDLE_ALLOCATION});
        delete opened;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS DdiOpenAllocation(IN_CONST_HANDLE hDevice, IN_CONST_PDXGKARG_OPENALLOCATION pOpenAllocation) {
    const DXGKRNL_INTERFACE &dxgkrnl = static_cast<Device *>(hDevice)->Owner->Dxgkrnl();
    for (UINT at = 0; at < pOpenAllocation->NumAllocations; at++) {
        auto *opened = new OpenedAllocation;
        if (opened == nullptr) {
            while (at-- > 0) {
                HANDLE list[] = {pOpenAllocation->pOpenAllocation[at].hDeviceSpecificAllocation};
                DXGKARG_CLOSEALLOCATION close = {1, list};
                DdiCloseAllocation(hDevice, &close);
            }
            return STATUS_NO_MEMORY;
        }
        DXGKARGCB_GETHANDLEDATA getData = {};
        getData.hObject = pOpenAllocation->pOpenAllocation[at].hAllocation;
        getData.Type = DXGK_HANDLE_ALLOCATION;
        opened->Opened = static_cast<Allocation *>(dxgkrnl.DxgkCbAcquireHandleData(&getData, &opened->Release));
        pOpenAllocation->pOpenAllocation[at].hDeviceSpecificAllocation = opened;
    }
    return STATUS_SUCCESS;
}

// ---- Interrupts, faults, resets ----

static BOOLEAN DdiInterruptRoutine(IN_CONST_PVOID MiniportDeviceContext, IN_ULONG MessageNumber) {
    UNREFERENCED_PARAMETER(MessageNumber);
    return static_cast<Adapter *>(MiniportDeviceContext)->Interrupt();
}

static VOID DdiDpcRoutine(IN_CONST_PVOID MiniportDeviceContext) {
    const DXGKRNL_INTERFACE &dxgkrnl = static_cast<Adapter *>(MiniportDeviceContext)->Dxgkrnl();
    dxgkrnl.DxgkCbNotifyDpc(dxgkrnl.DeviceHandle);
}

static NTSTATUS DdiBuildPagingBuffer(IN_CONST_HANDLE hAdapter, IN_PDXGKARG_BUILDPAGINGBUFFER pBuildPagingBuffer) {
    return static_cast<Adapter *>(hAdapter)->BuildPagingBuffer(pBuildPagingBuffer);
}

static NTSTATUS DdiPreemptCommand(IN_CONST_HANDLE hAdapter, IN_CONST_PDXGKARG_PREEMPTCOMMAND pPreemptCommand) {
    static_cast<Adapter *>(hAdapter)->Preempt(pPreemptCommand->PreemptionFenceId);
    return STATUS_SUCCESS;
}

static NTSTATUS DdiResetEngine(IN_CONST_HANDLE hAdapter, INOUT_PDXGKARG_RESETENGINE pResetEngine) {
    pResetEngine->LastAbortedFenceId = static_cast<Adapter *>(hAdapter)->ResetEngine();
    return STATUS_SUCCESS;
}

static NTSTATUS DdiQueryDependentEngineGroup(IN_CONST_HANDLE hAdapter, INOUT_DXGKARG_QUERYDEPENDENTENGINEGROUP pQuery) {
    UNREFERENCED_PARAMETER(hAdapter);
    pQuery->DependentNodeOrdinalMask = 1;
    return STATUS_SUCCESS;
}

static NTSTATUS DdiResetFromTimeout(IN_CONST_HANDLE hAdapter) {
    static_cast<Adapter *>(hAdapter)->ResetEngine();
    return STATUS_SUCCESS;
}

static NTSTATUS DdiRestartFromTimeout(IN_CONST_HANDLE hAdapter) {
    UNREFERENCED_PARAMETER(hAdapter);
    return STATUS_SUCCESS;
}

// ---- The entry ----

extern "C" NTSTATUS DriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath) {
    DRIVER_INITIALIZATION_DATA data = {};
#ifdef WITH_GPU_MMU
    data.Version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
    data.DxgkDdiSubmitCommandVirtual = DdiSubmitCommandVirtual;
    data.DxgkDdiSetRootPageTable = DdiSetRootPageTable;
#else
    data.Version = DXGKDDI_INTERFACE_VERSION_WDDM1_3;
    data.DxgkDdiRender = DdiRender;
    data.DxgkDdiPatch = DdiPatch;
    data.DxgkDdiSubmitCommand = DdiSubmitCommand;
    UNREFERENCED_PARAMETER(DdiSetRootPageTable);
#endif
    data.DxgkDdiAddDevice = DdiAddDevice;
    data.DxgkDdiStartDevice = DdiStartDevice;
    data.DxgkDdiStopDevice = DdiStopDevice;
    data.DxgkDdiRemoveDevice = DdiRemoveDevice;
    data.DxgkDdiUnload = DdiUnload;
    data.DxgkDdiInterruptRoutine = DdiInterruptRoutine;
    data.DxgkDdiDpcRoutine = DdiDpcRoutine;
    data.DxgkDdiQueryAdapterInfo = DdiQueryAdapterInfo;
    data.DxgkDdiCreateDevice = DdiCreateDevice;
    data.DxgkDdiDestroyDevice = DdiDestroyDevice;
    data.DxgkDdiCreateContext = DdiCreateContext;
    data.DxgkDdiDestroyContext = DdiDestroyContext;
    data.DxgkDdiCreateAllocation = DdiCreateAllocation;
    data.DxgkDdiDestroyAllocation = DdiDestroyAllocation;
    data.DxgkDdiOpenAllocation = DdiOpenAllocation;
    data.DxgkDdiCloseAllocation = DdiCloseAllocation;
    data.DxgkDdiBuildPagingBuffer = DdiBuildPagingBuffer;
    data.DxgkDdiPreemptCommand = DdiPreemptCommand;
    data.DxgkDdiResetEngine = DdiResetEngine;
    data.DxgkDdiQueryDependentEngineGroup = DdiQueryDependentEngineGroup;
    data.DxgkDdiResetFromTimeout = DdiResetFromTimeout;
    data.DxgkDdiRestartFromTimeout = DdiRestartFromTimeout;
    return DxgkInitialize(DriverObject, RegistryPath, &data);
}

// ---- For vidmm ----

static UINT GetAllocationPrivateData(const VIDMM_ALLOCATION *wanted, VOID *data, UINT size) {
    DXGK_ALLOCATIONINFOFLAGS flags = {};
    flags.CpuVisible = wanted->CpuVisible;
    AllocationPrivateData priv = {wanted->Size, wanted->MayBeLocal, wanted->MayBeSystem, wanted->Priority, flags.Value,
                                  PRIVATE_DATA_MAGIC};
    // This driver has no allocations that stay in system memory.
    if (size < sizeof(priv) || wanted->PermanentSysMem || wanted->ExistingSysMem) {
        return 0;
    }
    RtlCopyMemory(data, &priv, sizeof(priv));
    return sizeof(priv);
}

static VOID Run(HANDLE hAdapter, UINT nodeOrdinal) {
    UNREFERENCED_PARAMETER(nodeOrdinal);
    static_cast<Adapter *>(hAdapter)->RunHardware();
}

static VIDMM_TRANSLATION Translate(HANDLE hAdapter, UINT nodeOrdinal, D3DGPU_VIRTUAL_ADDRESS address, BOOLEAN write,
                                   UINT *segmentId, UINT64 *offset) {
    UNREFERENCED_PARAMETER(nodeOrdinal);
    return static_cast<Adapter *>(hAdapter)->Gpu().Translate(address, write, segmentId, offset);
}

#ifdef WITH_GPU_MMU
static BOOLEAN ReadPageTableEntry(HANDLE hAdapter, UINT segmentId, UINT64 tableOffset, UINT level, BOOLEAN is64Kb, UINT index,
                                  DXGK_PTE *entry, DXGK_PTE *entry64Kb) {
    UINT64 hardware;
    UNREFERENCED_PARAMETER(level);
    UNREFERENCED_PARAMETER(is64Kb);
    UNREFERENCED_PARAMETER(entry64Kb);
    if (!static_cast<Adapter *>(hAdapter)->Gpu().ReadEntry(segmentId, tableOffset, index, &hardware)) {
        return FALSE;
    }
    *entry = {};
    entry->Valid = (hardware & ENTRY_VALID) != 0;
    entry->ReadOnly = (hardware & ENTRY_READ_ONLY) != 0;
    entry->Segment = hardware >> 4 & 0x1F;
    entry->PageAddress = hardware >> PAGE_SHIFT;
    return TRUE;
}
#else
static BOOLEAN ReadAperturePage(HANDLE hAdapter, UINT segmentId, UINT64 page, UINT64 *systemPage) {
    return segmentId == SEGMENT_APERTURE && static_cast<Adapter *>(hAdapter)->Gpu().ShownPage(page, systemPage);
}
#endif

extern "C" const VIDMM_TEST_INTERFACE *VidmmGetTestInterface(VOID) {
#ifdef WITH_GPU_MMU
    static const VIDMM_GPU gpu = {Run, Translate, ReadPageTableEntry, nullptr, FALSE, RING_SIZE, nullptr};
#else
    static const VIDMM_GPU gpu = {Run, Translate, nullptr, ReadAperturePage, FALSE, RING_SIZE, nullptr};
#endif
    static const VIDMM_TEST_INTERFACE testInterface = {VIDMM_TEST_INTERFACE_VERSION, GetAllocationPrivateData, &gpu, nullptr, FALSE};
    return &testInterface;
}
