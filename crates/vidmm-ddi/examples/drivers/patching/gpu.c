#include "gpu.h"

void GpuStart(GPU *Gpu, HANDLE DeviceHandle) {
    memset(Gpu, 0, sizeof(*Gpu));
    Gpu->DeviceHandle = DeviceHandle;
}

void GpuSubmit(GPU *Gpu, const GPU_PACKET *Packet) {
    Gpu->Packet = *Packet;
    Gpu->IsSubmitted = TRUE;
}

void GpuReset(GPU *Gpu) {
    UINT FenceId = Gpu->Packet.FenceId;
    GpuStart(Gpu, Gpu->DeviceHandle);
    Gpu->Packet.FenceId = FenceId;
}

BOOLEAN GpuPlace(UINT64 Address, UINT *Segment, UINT64 *Offset) {
    if (Address >= GPU_SYSTEM_BASE) {
        *Segment = 0;
        *Offset = Address - GPU_SYSTEM_BASE;
        return TRUE;
    }
    if (Address < GPU_MEMORY_BASE || Address - GPU_MEMORY_BASE >= GPU_MEMORY_BYTES) {
        return FALSE;
    }
    *Segment = GPU_MEMORY_SEGMENT;
    *Offset = Address - GPU_MEMORY_BASE;
    return TRUE;
}

static GPU_STATUS Fault(GPU *Gpu, UINT64 Address, BOOLEAN Write) {
    Gpu->FaultAddress = Address;
    Gpu->FaultIsWrite = Write;
    return GPU_PAGE_FAULT;
}

static GPU_STATUS CopyOrFillPage(GPU *Gpu, UINT64 To, const UINT64 *From, UINT Pattern) {
    UINT ToSegment, FromSegment;
    UINT64 ToOffset, FromOffset;
    if (!GpuPlace(To, &ToSegment, &ToOffset)) {
        return Fault(Gpu, To, TRUE);
    }
    if (From == NULL) {
        VidmmFillPage(Gpu->DeviceHandle, ToSegment, ToOffset, Pattern);
        return GPU_COMPLETED;
    }
    if (!GpuPlace(*From, &FromSegment, &FromOffset)) {
        return Fault(Gpu, *From, FALSE);
    }
    VidmmCopyPage(Gpu->DeviceHandle, ToSegment, ToOffset, FromSegment, FromOffset);
    return GPU_COMPLETED;
}

static GPU_STATUS Execute(GPU *Gpu, const GPU_COMMAND *Command) {
    GPU_STATUS Status = GPU_COMPLETED;
    UINT64 At, From;
    switch (Command->Opcode) {
    case GPU_COPY:
        for (At = 0; At < Command->Words[2] && Status == GPU_COMPLETED; At += PAGE_SIZE) {
            From = Command->Words[0] + At;
            Status = CopyOrFillPage(Gpu, Command->Words[1] + At, &From, 0);
        }
        return Status;
    case GPU_FILL:
        for (At = 0; At < Command->Words[1] && Status == GPU_COMPLETED; At += PAGE_SIZE) {
            Status = CopyOrFillPage(Gpu, Command->Words[0] + At, NULL, (UINT)Command->Words[2]);
        }
        return Status;
    default:
        return GPU_BAD_COMMAND;
    }
}

static GPU_STATUS RunPacket(GPU *Gpu) {
    UINT64 Address = Gpu->Packet.Address + Gpu->Packet.Start;
    UINT Bytes = Gpu->Packet.End - Gpu->Packet.Start, At;
    GPU_STATUS Status = GPU_COMPLETED;
    const BYTE *Commands;
    if (Gpu->Packet.IsUserWork) {
        BOOLEAN HasEnded =
            VidmmRunUserWork(Gpu->DeviceHandle, 0, Address, Bytes, &Gpu->FaultAddress, &Gpu->FaultIsWrite);
        return HasEnded ? GPU_COMPLETED : GPU_PAGE_FAULT;
    }
    Commands = (const BYTE *)VidmmMapDmaBuffer(Gpu->DeviceHandle, Address, Bytes);
    if (Commands == NULL || Bytes % sizeof(GPU_COMMAND) != 0) {
        return GPU_BAD_COMMAND;
    }
    for (At = 0; At < Bytes && Status == GPU_COMPLETED; At += sizeof(GPU_COMMAND)) {
        Status = Execute(Gpu, (const GPU_COMMAND *)(Commands + At));
    }
    return Status;
}

void GpuRun(GPU *Gpu) {
    if (!Gpu->IsSubmitted) {
        return;
    }
    Gpu->IsSubmitted = FALSE;
    Gpu->FenceId = Gpu->Packet.FenceId;
    Gpu->Status = RunPacket(Gpu);
    VidmmRaiseInterrupt(Gpu->DeviceHandle, 0);
}
