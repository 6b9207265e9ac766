#include "gpu.h"

#include "bugs.h"
#include "ntddk.h"

void GpuStart(GPU *Gpu, HANDLE DeviceHandle) {
    memset(Gpu, 0, sizeof(*Gpu));
    Gpu->DeviceHandle = DeviceHandle;
}

#ifdef WITH_REPORTER

static void Interrupt(GPU *Gpu) {
    GPU_EVENT Event = {Gpu->Status, Gpu->FenceId, Gpu->LastCompletedFenceId};
    Gpu->Events[Gpu->Raised % GPU_EVENTS] = Event;
    KeMemoryBarrier();
    Gpu->Raised++;
    VidmmRaiseInterrupt(Gpu->DeviceHandle, 0);
}

BOOLEAN GpuHasEvents(const GPU *Gpu) {
    return Gpu->Taken != Gpu->Raised;
}

BOOLEAN GpuTakeEvent(GPU *Gpu, GPU_EVENT *Event) {
    if (!GpuHasEvents(Gpu)) {
        return FALSE;
    }
    KeMemoryBarrier();
    *Event = Gpu->Events[Gpu->Taken % GPU_EVENTS];
    Gpu->Taken++;
    return TRUE;
}

#else

static void Interrupt(GPU *Gpu) {
    VidmmRaiseInterrupt(Gpu->DeviceHandle, 0);
}

BOOLEAN GpuHasEvents(const GPU *Gpu) {
    return Gpu->Status != GPU_IDLE;
}

BOOLEAN GpuTakeEvent(GPU *Gpu, GPU_EVENT *Event) {
    Event->Status = Gpu->Status;
    Event->FenceId = Gpu->FenceId;
    Event->LastCompletedFenceId = Gpu->LastCompletedFenceId;
    Gpu->Status = GPU_IDLE;
    return Event->Status != GPU_IDLE;
}

#endif

void GpuSubmit(GPU *Gpu, const GPU_PACKET *Packet) {
    if (Gpu->PacketCount < GPU_QUEUE) {
        Gpu->Packets[Gpu->PacketCount++] = *Packet;
    }
}

UINT GpuCurrentFenceId(const GPU *Gpu) {
    return Gpu->PacketCount > 0 ? Gpu->Packets[0].FenceId : Gpu->Packet.FenceId;
}

void GpuResetEngine(GPU *Gpu) {
    Gpu->PacketCount = 0;
    Gpu->IsToYield = FALSE;
    Gpu->Status = GPU_IDLE;
#ifdef WITH_REPORTER
    Gpu->Taken = Gpu->Raised;
#endif
}

void GpuSleep(GPU *Gpu, BOOLEAN IsAsleep) {
    Gpu->IsAsleep = IsAsleep;
    Gpu->LastCompletedFenceId = 0;
}

void GpuReset(GPU *Gpu) {
    GpuStart(Gpu, Gpu->DeviceHandle);
}

BOOLEAN GpuShown(const GPU *Gpu, UINT64 Page, UINT64 *SystemPage) {
#ifdef WITH_APERTURE
    if (Page < GPU_APERTURE_PAGES && Gpu->Shown[Page] != 0) {
        *SystemPage = Gpu->Shown[Page] - 1;
        return TRUE;
    }
#else
    UNREFERENCED_PARAMETER(Gpu);
    UNREFERENCED_PARAMETER(Page);
    UNREFERENCED_PARAMETER(SystemPage);
#endif
    return FALSE;
}

static GPU_STATUS Show(GPU *Gpu, UINT64 First, UINT64 Count, UINT64 SystemPage) {
#ifdef WITH_APERTURE
    UINT64 Page;
    if (First > GPU_APERTURE_PAGES || Count > GPU_APERTURE_PAGES - First) {
        return GPU_BAD_COMMAND;
    }
    for (Page = First; Page < First + Count; Page++) {
        Gpu->Shown[Page] = SystemPage + 1;
    }
    return GPU_COMPLETED;
#else
    UNREFERENCED_PARAMETER(Gpu);
    UNREFERENCED_PARAMETER(First);
    UNREFERENCED_PARAMETER(Count);
    UNREFERENCED_PARAMETER(SystemPage);
    return GPU_BAD_COMMAND;
#endif
}

BOOLEAN GpuPlace(UINT64 Address, UINT *Segment, UINT64 *Offset) {
    if (Address >= GPU_SYSTEM_BASE) {
        *Segment = 0;
        *Offset = Address - GPU_SYSTEM_BASE;
        return TRUE;
    }
#ifdef WITH_APERTURE
    if (Address >= GPU_APERTURE_BASE && Address - GPU_APERTURE_BASE < GPU_APERTURE_BYTES) {
        *Segment = GPU_APERTURE_SEGMENT;
        *Offset = Address - GPU_APERTURE_BASE;
        return TRUE;
    }
#endif
#ifdef WITH_MORE_MEMORY
    if (Address >= GPU_MORE_MEMORY_BASE && Address - GPU_MORE_MEMORY_BASE < GPU_MORE_MEMORY_BYTES) {
        *Segment = GPU_MORE_MEMORY_SEGMENT;
        *Offset = Address - GPU_MORE_MEMORY_BASE;
        return TRUE;
    }
#endif
    if (Address < GPU_MEMORY_BASE || Address - GPU_MEMORY_BASE >= GPU_MEMORY_BYTES) {
        return FALSE;
    }
    *Segment = GPU_MEMORY_SEGMENT;
    *Offset = Address - GPU_MEMORY_BASE;
    return TRUE;
}

/* The place of the bytes at an address: bytes of the aperture are in system memory. */
static BOOLEAN BytesAt(const GPU *Gpu, UINT64 Address, UINT *Segment, UINT64 *Offset) {
    UINT64 SystemPage;
    if (!GpuPlace(Address, Segment, Offset)) {
        return FALSE;
    }
    if (*Segment != GPU_APERTURE_SEGMENT) {
        return TRUE;
    }
    if (!GpuShown(Gpu, *Offset >> PAGE_SHIFT, &SystemPage)) {
        return FALSE;
    }
    *Segment = 0;
    *Offset = SystemPage << PAGE_SHIFT;
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
    if (!BytesAt(Gpu, To, &ToSegment, &ToOffset)) {
        return Fault(Gpu, To, TRUE);
    }
    if (From == NULL) {
        VidmmFillPage(Gpu->DeviceHandle, ToSegment, ToOffset, Pattern);
        return GPU_COMPLETED;
    }
    if (!BytesAt(Gpu, *From, &FromSegment, &FromOffset)) {
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
    case GPU_SHOW:
        return Show(Gpu, Command->Words[0], Command->Words[1], Command->Words[2]);
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
    UINT At;
    if (Gpu->PacketCount == 0 || Gpu->IsAsleep) {
        return;
    }
    if (BUG(NEWEST_FIRST)) {
        GPU_PACKET First = Gpu->Packets[0];
        Gpu->Packets[0] = Gpu->Packets[Gpu->PacketCount - 1];
        Gpu->Packets[Gpu->PacketCount - 1] = First;
    }
    Gpu->Packet = Gpu->Packets[0];
    Gpu->PacketCount--;
    for (At = 0; At < Gpu->PacketCount; At++) {
        Gpu->Packets[At] = Gpu->Packets[(At + 1) % GPU_QUEUE];
    }
    Gpu->FenceId = Gpu->Packet.FenceId;
    Gpu->Status = RunPacket(Gpu);
    if (Gpu->Status == GPU_COMPLETED) {
        Gpu->LastCompletedFenceId = Gpu->FenceId;
    }
    Interrupt(Gpu);
    if (Gpu->IsToYield) {
        GpuYield(Gpu);
    }
}

void GpuYield(GPU *Gpu) {
    /* The running packet goes on to the end; packets behind come again. */
    Gpu->PacketCount = Gpu->PacketCount > 1 ? 1 : Gpu->PacketCount;
    Gpu->IsToYield = Gpu->PacketCount > 0;
    if (!Gpu->IsToYield) {
        Gpu->Status = GPU_YIELDED;
        Interrupt(Gpu);
    }
}
