/* Entry points beside memory management: power components, presentations, and work that never reaches the hardware. */
#include "driver.h"

/* ---- Power components: the engine sleeps while nothing is to do ---- */

NTSTATUS DescribeComponent(const DXGKARG_QUERYADAPTERINFO *Query) {
    DXGK_POWER_RUNTIME_COMPONENT *Component = (DXGK_POWER_RUNTIME_COMPONENT *)Query->pOutputData;
    if (*(const UINT *)Query->pInputData != 0 || Query->OutputDataSize < sizeof(*Component)) {
        return STATUS_INVALID_PARAMETER;
    }
    Component->StateCount = BUG(COMPONENT_STATES) ? DXGK_MAX_F_STATES + 1 : 2;
    Component->States[1].TransitionLatency = 1000;
    Component->States[1].ResidencyRequirement = 10000;
    Component->ComponentMapping.ComponentType = DXGK_POWER_COMPONENT_ENGINE;
    Component->ComponentMapping.EngineDesc.NodeIndex = 0;
    Component->Flags.DriverCompletesFStateTransition = 1;
    return STATUS_SUCCESS;
}

/* An engine forgets the registers in its sleep: the driver keeps a copy. */
NTSTATUS SetPowerComponentFState(const HANDLE hAdapter, UINT ComponentIndex, UINT FState) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
    if (ComponentIndex != 0 || FState > 1) {
        return STATUS_INVALID_PARAMETER;
    }
    if (BUG(COMPONENT_ACTIVE_INSIDE)) {
        Adapter->Dxgkrnl.DxgkCbSetPowerComponentActive(Adapter->Dxgkrnl.DeviceHandle, ComponentIndex);
    }
    if (FState == 1) {
        Adapter->SavedFenceId = Adapter->Gpu.LastCompletedFenceId;
        GpuSleep(&Adapter->Gpu, TRUE);
    } else if (!BUG(COMPONENT_SLEEPS_ON)) {
        GpuSleep(&Adapter->Gpu, FALSE);
        if (!BUG(COMPONENT_FORGETS)) {
            Adapter->Gpu.LastCompletedFenceId = Adapter->SavedFenceId;
        }
    }
    if (!BUG(COMPONENT_NOT_COMPLETED)) {
        Adapter->Dxgkrnl.DxgkCbCompleteFStateTransition(Adapter->Dxgkrnl.DeviceHandle, ComponentIndex);
    }
    return STATUS_SUCCESS;
}

NTSTATUS PowerRuntimeControlRequest(const HANDLE hAdapter, const GUID *PowerControlCode, PVOID InBuffer, SIZE_T InBufferSize,
                                    PVOID OutBuffer, SIZE_T OutBufferSize, SIZE_T *BytesReturned) {
    UNREFERENCED_PARAMETER(hAdapter);
    UNREFERENCED_PARAMETER(InBuffer);
    UNREFERENCED_PARAMETER(InBufferSize);
    if (BytesReturned != NULL) {
        *BytesReturned = 0;
    }
    if (BUG(REQUEST_OVERRUN) && OutBufferSize != 0) {
        ((BYTE *)OutBuffer)[OutBufferSize] = 0;
    }
    if (PowerControlCode->Data2 == GUID_DXGKDDI_POWER_MANAGEMENT_PREPARE_TO_START.Data2 ||
        PowerControlCode->Data2 == GUID_DXGKDDI_POWER_MANAGEMENT_STARTED.Data2) {
        return STATUS_SUCCESS;
    }
    return STATUS_NOT_SUPPORTED;
}

/* ---- Work that never reaches the hardware ---- */

NTSTATUS CancelCommand(const HANDLE hAdapter, const DXGKARG_CANCELCOMMAND *Cancel) {
    UNREFERENCED_PARAMETER(hAdapter);
    if (BUG(CANCEL_FAILS)) {
        return STATUS_INVALID_PARAMETER;
    }
    if (!BUG(CANCEL_LEAK)) {
        FreeNotes((RENDERED *)Cancel->pDmaBufferPrivateData);
    }
    return STATUS_SUCCESS;
}

/* ---- Presentations: each rectangle is a copy of one page ---- */

static VOID AddPlace(DXGKARG_PRESENT *Present, UINT AllocationIndex, UINT PatchOffset) {
    D3DDDI_PATCHLOCATIONLIST Location;
    RtlZeroMemory(&Location, sizeof(Location));
    Location.AllocationIndex = AllocationIndex;
    Location.SlotId = AllocationIndex;
    Location.PatchOffset = PatchOffset;
    *Present->pPatchLocationListOut++ = Location;
}

/* MultipassOffset is the number of the rectangle that comes next. */
NTSTATUS Present(const HANDLE hContext, DXGKARG_PRESENT *Present) {
    BYTE *DmaBuffer = (BYTE *)Present->pDmaBuffer;
    UINT First = Present->MultipassOffset, Next = First, Size = 0;
    UNREFERENCED_PARAMETER(hContext);
    if (!Present->Flags.Blt || Present->DmaBufferPrivateDataSize < sizeof(RENDERED)) {
        return STATUS_INVALID_PARAMETER;
    }
    for (; Next < Present->SubRectCnt && Present->PatchLocationListOutSize >= 2 * (Next - First + 1) &&
           (BUG(PRESENT_TOO_FAR) || Size + sizeof(GPU_COMMAND) <= Present->DmaSize);
         Next++) {
        GPU_COMMAND Command;
        RtlZeroMemory(&Command, sizeof(Command));
        Command.Opcode = GPU_COPY;
        Command.Words[2] = PAGE_SIZE;
        RtlCopyMemory(DmaBuffer + Size, &Command, sizeof(Command));
        AddPlace(Present, DXGK_PRESENT_SOURCE_INDEX, Size + offsetof(GPU_COMMAND, Words));
        if (!BUG(PRESENT_UNLISTED)) {
            AddPlace(Present, DXGK_PRESENT_DESTINATION_INDEX, Size + offsetof(GPU_COMMAND, Words) + sizeof(UINT64));
        }
        Size += sizeof(Command);
    }
    if (Size == 0) {
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    }
    if (!AddRendered((RENDERED *)Present->pDmaBufferPrivateData, DmaBuffer, Size)) {
        return STATUS_NO_MEMORY;
    }
    Present->pDmaBufferPrivateData = (BYTE *)Present->pDmaBufferPrivateData + sizeof(RENDERED);
    Present->pDmaBuffer = DmaBuffer + Size;
    Present->MultipassOffset = BUG(PRESENT_FROM_START) ? 0 : Next;
    return Next < Present->SubRectCnt ? STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER : STATUS_SUCCESS;
}
