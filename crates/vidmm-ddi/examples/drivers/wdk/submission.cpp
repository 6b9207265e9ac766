#include "driver.hpp"

#include "commands.h"

// ---- Render and Patch ----

static UINT64 SizeOf(HANDLE hDeviceSpecificAllocation) {
    return static_cast<OpenedAllocation *>(hDeviceSpecificAllocation)->Opened->Size;
}

static void WriteAddress(BYTE *at, const DXGK_ALLOCATIONLIST &element, UINT offset) {
    UINT64 address = element.SegmentId != 0 ? static_cast<UINT64>(element.PhysicalAddress.QuadPart) + offset : 0;
    RtlCopyMemory(at, &address, sizeof(address));
}

// The command and its list are memory of the user, which may change or go at any time: each byte is read once, and the copies are
// checked where they are to stay.
_Use_decl_annotations_
NTSTATUS DdiRender(IN_CONST_HANDLE hContext, INOUT_PDXGKARG_RENDER pRender) {
    UNREFERENCED_PARAMETER(hContext);
    auto *dmaBuffer = static_cast<BYTE *>(pRender->pDmaBuffer);
    D3DDDI_PATCHLOCATIONLIST *list = pRender->pPatchLocationListOut;
    if (pRender->DmaSize < pRender->CommandLength || pRender->PatchLocationListOutSize < pRender->PatchLocationListInSize) {
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    }
    __try {
        ProbeForRead(pRender->pCommand, pRender->CommandLength, 1);
        RtlCopyMemory(dmaBuffer, pRender->pCommand, pRender->CommandLength);
        RtlCopyMemory(list, pRender->pPatchLocationListIn, pRender->PatchLocationListInSize * sizeof(*list));
    }
    __except (EXCEPTION_EXECUTE_HANDLER) {
        return STATUS_INVALID_PARAMETER;
    }
    DXGKARG_RENDER copied = *pRender;
    copied.pCommand = dmaBuffer;
    copied.pPatchLocationListIn = list;
    NTSTATUS status = CheckCommands(&copied, 1u << 24, SizeOf);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    for (UINT at = 0; at < pRender->PatchLocationListInSize; at++) {
        const DXGK_ALLOCATIONLIST &element = pRender->pAllocationList[list[at].AllocationIndex];
        if (element.hDeviceSpecificAllocation != nullptr) {
            WriteAddress(dmaBuffer + list[at].PatchOffset, element, list[at].AllocationOffset);
        }
    }
    pRender->pPatchLocationListOut = list + pRender->PatchLocationListInSize;
    auto *data = static_cast<DmaBufferData *>(pRender->pDmaBufferPrivateData);
    data->DmaBuffer = dmaBuffer;
    data->Address = MmGetPhysicalAddress(dmaBuffer);
    data->Size = pRender->CommandLength;
    pRender->pDmaBuffer = dmaBuffer + pRender->CommandLength;
    return STATUS_SUCCESS;
}

// The addresses go where DxgkDdiRender has written the commands.
_Use_decl_annotations_
NTSTATUS DdiPatch(IN_CONST_HANDLE hAdapter, IN_CONST_PDXGKARG_PATCH pPatch) {
    UNREFERENCED_PARAMETER(hAdapter);
    auto *data = static_cast<DmaBufferData *>(pPatch->pDmaBufferPrivateData);
    NT_ASSERT(data->DmaBuffer == pPatch->pDmaBuffer);
    for (UINT at = 0; at < pPatch->PatchLocationListSubmissionLength; at++) {
        const D3DDDI_PATCHLOCATIONLIST &location = pPatch->pPatchLocationList[pPatch->PatchLocationListSubmissionStart + at];
        const DXGK_ALLOCATIONLIST &element = pPatch->pAllocationList[location.AllocationIndex];
        if (element.hDeviceSpecificAllocation != nullptr) {
            WriteAddress(data->DmaBuffer + location.PatchOffset, element, location.AllocationOffset);
        }
    }
    return STATUS_SUCCESS;
}

// ---- Submission ----

_Use_decl_annotations_
NTSTATUS DdiSubmitCommand(IN_CONST_HANDLE hAdapter, IN_CONST_PDXGKARG_SUBMITCOMMAND pSubmitCommand) {
    const auto *data = static_cast<const DmaBufferData *>(pSubmitCommand->pDmaBufferPrivateData);
    HwPacket packet = {};
    NT_ASSERT(data->Address.QuadPart == pSubmitCommand->DmaBufferPhysicalAddress.QuadPart);
    packet.Address = static_cast<UINT64>(data->Address.QuadPart) + pSubmitCommand->DmaBufferSubmissionStartOffset;
    packet.Bytes = pSubmitCommand->DmaBufferSubmissionEndOffset - pSubmitCommand->DmaBufferSubmissionStartOffset;
    packet.FenceId = pSubmitCommand->SubmissionFenceId;
    packet.IsUserWork = !pSubmitCommand->Flags.Paging;
    return static_cast<Adapter *>(hAdapter)->Submit(packet);
}

_Use_decl_annotations_
NTSTATUS DdiSubmitCommandVirtual(IN_CONST_HANDLE hAdapter, IN_CONST_PDXGKARG_SUBMITCOMMANDVIRTUAL pSubmitCommand) {
    const auto *context = static_cast<const Context *>(pSubmitCommand->hContext);
    HwPacket packet = {};
    packet.Address = pSubmitCommand->DmaBufferVirtualAddress;
    packet.Bytes = pSubmitCommand->DmaBufferSize;
    packet.FenceId = pSubmitCommand->SubmissionFenceId;
    packet.IsUserWork = !pSubmitCommand->Flags.Paging;
    packet.RootSegment = context->Root.SegmentId;
    packet.RootOffset = context->Root.SegmentOffset;
    return static_cast<Adapter *>(hAdapter)->Submit(packet);
}

NTSTATUS Adapter::Submit(const HwPacket &packet) {
    SpinLockGuard guard(&m_lock);
    return m_hardware.Push(packet) ? STATUS_SUCCESS : STATUS_UNSUCCESSFUL;
}

// ---- The interrupt: a thread looks after it ----

// At the level of the interrupt.
BOOLEAN Adapter::Interrupt() {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data = {};
    switch (m_hardware.Status()) {
    case HwStatus::Idle:
        return FALSE;
    case HwStatus::Completed:
        m_lastCompletedFenceId = m_hardware.FenceId();
        data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
        data.DmaCompleted.SubmissionFenceId = m_lastCompletedFenceId;
        break;
    case HwStatus::Faulted:
#ifdef WITH_GPU_MMU
        data.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
        data.DmaPageFaulted.FaultedFenceId = m_hardware.FenceId();
        data.DmaPageFaulted.FaultedPrimitiveAPISequenceNumber = DXGK_PRIMITIVE_API_SEQUENCE_NUMBER_UNKNOWN;
        data.DmaPageFaulted.FaultedBindTableEntry = DXGK_BIND_TABLE_ENTRY_UNKNOWN;
        data.DmaPageFaulted.PageFaultFlags = m_hardware.FaultIsWrite() ? DXGK_PAGE_FAULT_WRITE : DXGK_PAGE_FAULT_FLAGS(0);
        data.DmaPageFaulted.FaultedVirtualAddress = m_hardware.FaultAddress();
#else
        data.InterruptType = DXGK_INTERRUPT_DMA_FAULTED;
        data.DmaFaulted.FaultedFenceId = m_hardware.FenceId();
        data.DmaFaulted.Status = STATUS_ILLEGAL_INSTRUCTION;
#endif
        break;
    }
    m_hardware.Acknowledge();
    m_dxgkrnl.DxgkCbNotifyInterrupt(m_dxgkrnl.DeviceHandle, &data);
    m_dxgkrnl.DxgkCbQueueDpc(m_dxgkrnl.DeviceHandle);
    return TRUE;
}

VOID Adapter::ThreadRoutine(PVOID context) {
    auto *adapter = static_cast<Adapter *>(context);
    for (;;) {
        KeWaitForSingleObject(&adapter->m_wake, Executive, KernelMode, FALSE, nullptr);
        if (adapter->m_isStopping) {
            PsTerminateSystemThread(STATUS_SUCCESS);
        }
        adapter->Synchronize([adapter] { return adapter->Interrupt(); });
        KeSetEvent(&adapter->m_reported, 0, FALSE);
    }
}

// The hardware's side: it raises its interrupt, and waits until it is taken.
void Adapter::RunHardware() {
    m_hardware.RunOne();
    KeSetEvent(&m_wake, 0, FALSE);
    KeWaitForSingleObject(&m_reported, Executive, KernelMode, FALSE, nullptr);
    if (m_isToYield) {
        ReportYield();
    }
}

void Adapter::ReportYield() {
    m_isToYield = FALSE;
    Synchronize([this]() -> BOOLEAN {
        DXGKARGCB_NOTIFY_INTERRUPT_DATA data = {};
        data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
        data.DmaPreempted.PreemptionFenceId = m_preemptionFenceId;
        data.DmaPreempted.LastCompletedFenceId = m_lastCompletedFenceId;
        m_dxgkrnl.DxgkCbNotifyInterrupt(m_dxgkrnl.DeviceHandle, &data);
        return m_dxgkrnl.DxgkCbQueueDpc(m_dxgkrnl.DeviceHandle);
    });
}

// The packet that runs goes on to its end; those behind it come again.
void Adapter::Preempt(UINT preemptionFenceId) {
    ULONG left;
    {
        SpinLockGuard guard(&m_lock);
        m_hardware.KeepFirst();
        left = m_hardware.Count();
    }
    m_preemptionFenceId = preemptionFenceId;
    m_isToYield = TRUE;
    if (left == 0) {
        ReportYield();
    }
}

UINT Adapter::ResetEngine() {
    SpinLockGuard guard(&m_lock);
    UINT fenceId = m_hardware.FirstFenceId();
    m_hardware.Clear();
    m_isToYield = FALSE;
    return fenceId;
}
