#include "gpu.h"

#include "bugs.h"

void GpuStart(GPU *Gpu, HANDLE DeviceHandle) {
    memset(Gpu, 0, sizeof(*Gpu));
    Gpu->DeviceHandle = DeviceHandle;
#ifdef WITH_THREAD
    KeInitializeEvent(&Gpu->Interrupt, SynchronizationEvent, FALSE);
    KeInitializeEvent(&Gpu->IsTaken, SynchronizationEvent, FALSE);
#endif
}

#ifdef WITH_THREAD
void GpuShare(GPU *Gpu) {
    if (BUG(THREADS_UNLOCKED)) {
        KIRQL Irql;
        KSPIN_LOCK Other = 0;
        Gpu->Users++;
        KeAcquireSpinLock(&Other, &Irql);
        KeReleaseSpinLock(&Other, Irql);
        NT_ASSERT(Gpu->Users == 1);
        Gpu->Users--;
    }
}
#endif

/* The registers stay as they are until the driver has read them. */
void GpuInterrupt(GPU *Gpu) {
#ifdef WITH_THREAD
    LONG Raised = InterlockedIncrement(&Gpu->Raised);
    KeSetEvent(&Gpu->Interrupt, 0, FALSE);
    GpuShare(Gpu);
    /* A driver that asks an engine to yield does so at a level at which nothing may wait. */
    while (KeGetCurrentIrql() < DISPATCH_LEVEL && InterlockedCompareExchange(&Gpu->Taken, 0, 0) < Raised) {
        KeWaitForSingleObject(&Gpu->IsTaken, Executive, KernelMode, FALSE, NULL);
    }
#else
    VidmmRaiseInterrupt(Gpu->DeviceHandle, 0);
#endif
}

void GpuSubmit(GPU *Gpu, UINT Node, const GPU_PACKET *Packet) {
    Gpu->Engines[Node].Packet = *Packet;
    Gpu->Engines[Node].IsSubmitted = !Gpu->IsAsleep;
}

void GpuSetPower(GPU *Gpu, BOOLEAN IsOn) {
    UINT Node;
    Gpu->IsAsleep = !IsOn;
    for (Node = 0; IsOn && Node < GPU_ENGINES; Node++) {
        GpuReset(Gpu, Node);
    }
}

void GpuReset(GPU *Gpu, UINT Node) {
    GPU_ENGINE *Engine = &Gpu->Engines[Node];
    UINT FenceId = Engine->Packet.FenceId;
    memset(&Engine->Packet, 0, sizeof(Engine->Packet));
    memset(Gpu->Tlb, 0, sizeof(Gpu->Tlb));
    Engine->Packet.FenceId = FenceId;
    Engine->IsSubmitted = FALSE;
    Engine->IsToYield = FALSE;
    Engine->Status = GPU_IDLE;
}

/* ---- Translation ---- */

static UINT64 Walk(GPU *Gpu, const GPU_PACKET *Packet, UINT64 Page) {
    UINT Segment = Packet->Root.SegmentId;
    UINT64 Table = Packet->Root.SegmentOffset;
    UINT64 Entry = 0;
    int Level;
    if (Page >> ((GPU_LEVELS - 1) * GPU_LEVEL_BITS) >= Packet->RootEntries) {
        return 0;
    }
    for (Level = GPU_LEVELS - 1; Level >= 0; Level--) {
        UINT64 Index = Page >> (Level * GPU_LEVEL_BITS) & (GPU_ENTRIES - 1);
        if (!VidmmReadMemory(Gpu->DeviceHandle, Segment, Table + Index * 8, &Entry, 8) ||
            (Entry & (GPU_ENTRY_VALID | GPU_ENTRY_ZERO)) != GPU_ENTRY_VALID) {
            return Entry & GPU_ENTRY_ZERO;
        }
        Segment = GPU_ENTRY_SEGMENT(Entry);
        Table = GPU_ENTRY_PAGE(Entry) << 12;
    }
    return Entry;
}

/* Only entries that lead to memory are cached. */
static UINT64 EntryOf(GPU *Gpu, const GPU_PACKET *Packet, UINT64 Page) {
    UINT Slot = (UINT)((Page ^ Packet->AddressSpace * 31) % GPU_TLB_SLOTS);
    UINT64 Entry;
    if (Gpu->Tlb[Slot].Entry != 0 && Gpu->Tlb[Slot].Page == Page &&
        Gpu->Tlb[Slot].AddressSpace == Packet->AddressSpace) {
        return Gpu->Tlb[Slot].Entry;
    }
    Entry = Walk(Gpu, Packet, Page);
    if (Entry & GPU_ENTRY_VALID) {
        Gpu->Tlb[Slot].AddressSpace = Packet->AddressSpace;
        Gpu->Tlb[Slot].Page = Page;
        Gpu->Tlb[Slot].Entry = Entry;
    }
    return Entry;
}

VIDMM_TRANSLATION GpuTranslate(GPU *Gpu, UINT Node, UINT64 Address, BOOLEAN Write, UINT *Segment, UINT64 *Offset) {
    UINT64 Entry = EntryOf(Gpu, &Gpu->Engines[Node].Packet, Address >> 12);
    if (Entry == GPU_ENTRY_ZERO) {
        return VIDMM_TRANSLATION_ZERO;
    }
    if (Entry == 0 || (Write && (Entry & GPU_ENTRY_READ_ONLY))) {
        return VIDMM_TRANSLATION_FAULT;
    }
    *Segment = GPU_ENTRY_SEGMENT(Entry);
    *Offset = GPU_ENTRY_PAGE(Entry) << 12;
    return VIDMM_TRANSLATION_MAPPED;
}

static void Flush(GPU *Gpu, UINT64 AddressSpace, UINT64 Start, UINT64 End) {
    UINT Slot;
    for (Slot = 0; Slot < GPU_TLB_SLOTS; Slot++) {
        UINT64 Address = Gpu->Tlb[Slot].Page << 12;
        BOOLEAN IsAll = Start == 0 && End == 0;
        if (Gpu->Tlb[Slot].AddressSpace == AddressSpace && (IsAll || (Address >= Start && Address < End))) {
            Gpu->Tlb[Slot].Entry = 0;
        }
    }
}

/* ---- Execution ---- */

static GPU_STATUS Fault(GPU *Gpu, UINT Node, UINT64 Address, BOOLEAN Write) {
    Gpu->Engines[Node].FaultAddress = Address;
    Gpu->Engines[Node].FaultIsWrite = Write;
    return GPU_PAGE_FAULT;
}

static GPU_STATUS CopyOrFillPage(GPU *Gpu, UINT Node, UINT64 To, const UINT64 *From, UINT Pattern) {
    UINT ToSegment, FromSegment = 0;
    UINT64 ToOffset, FromOffset = 0;
    VIDMM_TRANSLATION Source = VIDMM_TRANSLATION_ZERO, Destination;
    if (From != NULL) {
        Source = GpuTranslate(Gpu, Node, *From, FALSE, &FromSegment, &FromOffset);
        if (Source == VIDMM_TRANSLATION_FAULT) {
            return Fault(Gpu, Node, *From, FALSE);
        }
    }
    Destination = GpuTranslate(Gpu, Node, To, TRUE, &ToSegment, &ToOffset);
    if (Destination == VIDMM_TRANSLATION_FAULT) {
        return Fault(Gpu, Node, To, TRUE);
    }
    if (Destination == VIDMM_TRANSLATION_MAPPED) {
        if (Source == VIDMM_TRANSLATION_MAPPED) {
            VidmmCopyPage(Gpu->DeviceHandle, ToSegment, ToOffset, FromSegment, FromOffset);
        } else {
            VidmmFillPage(Gpu->DeviceHandle, ToSegment, ToOffset, From != NULL ? 0 : Pattern);
        }
    }
    return GPU_COMPLETED;
}

static GPU_STATUS DecompressPage(GPU *Gpu, UINT Node, UINT64 Address, UINT Surface, UINT64 Page) {
    UINT Segment;
    UINT64 Offset;
    VIDMM_TRANSLATION Place = GpuTranslate(Gpu, Node, Address, TRUE, &Segment, &Offset);
    if (Place == VIDMM_TRANSLATION_FAULT) {
        return Fault(Gpu, Node, Address, TRUE);
    }
    if (Place == VIDMM_TRANSLATION_MAPPED) {
        VidmmDecompressPage(Gpu->DeviceHandle, Segment, Offset, Surface, Page);
    }
    return GPU_COMPLETED;
}

/* The offset of a page of a command. With WITH_BACKWARDS the hardware begins at the last page. */
static UINT64 PageAt(UINT64 At, UINT64 Size) {
#ifdef WITH_BACKWARDS
    return Size - PAGE_SIZE - At;
#else
    UNREFERENCED_PARAMETER(Size);
    return At;
#endif
}

static GPU_STATUS Execute(GPU *Gpu, UINT Node, const GPU_COMMAND *Command) {
    GPU_STATUS Status = GPU_COMPLETED;
    UINT64 At, From;
    switch (Command->Opcode) {
    case GPU_COPY:
        for (At = 0; At < Command->Words[2] && Status == GPU_COMPLETED; At += PAGE_SIZE) {
            From = Command->Words[0] + PageAt(At, Command->Words[2]);
            Status = CopyOrFillPage(Gpu, Node, Command->Words[1] + PageAt(At, Command->Words[2]), &From, 0);
        }
        return Status;
    case GPU_FILL:
        for (At = 0; At < Command->Words[1] && Status == GPU_COMPLETED; At += PAGE_SIZE) {
            Status = CopyOrFillPage(Gpu, Node, Command->Words[0] + PageAt(At, Command->Words[1]), NULL, (UINT)Command->Words[2]);
        }
        return Status;
    case GPU_DECOMPRESS:
        for (At = 0; At < Command->Words[1] && Status == GPU_COMPLETED; At += PAGE_SIZE) {
            Status = DecompressPage(Gpu, Node, Command->Words[0] + At, (UINT)Command->Words[2], Command->Words[3] + At / PAGE_SIZE);
        }
        return Status;
    case GPU_WRITE_ENTRIES:
        VidmmWriteMemory(Gpu->DeviceHandle, (UINT)Command->Words[0], Command->Words[1] + Command->Words[2] * 8, Command + 1,
                         Command->Words[3] * 8);
        return Status;
    case GPU_FLUSH:
        Flush(Gpu, Command->Words[0], Command->Words[1], Command->Words[2]);
        return Status;
    default:
        return GPU_BAD_COMMAND;
    }
}

static GPU_STATUS RunPacket(GPU *Gpu, UINT Node) {
    GPU_ENGINE *Engine = &Gpu->Engines[Node];
    const GPU_PACKET *Packet = &Engine->Packet;
    const BYTE *Bytes;
    UINT At = 0;
    GPU_STATUS Status = GPU_COMPLETED;
    if (Packet->IsUserWork) {
        BOOLEAN HasEnded = VidmmRunUserWork(Gpu->DeviceHandle, Node, Packet->Address, Packet->Bytes,
                                            &Engine->FaultAddress, &Engine->FaultIsWrite);
        return HasEnded ? GPU_COMPLETED : GPU_PAGE_FAULT;
    }
    Bytes = (const BYTE *)VidmmMapDmaBuffer(Gpu->DeviceHandle, Packet->Address, Packet->Bytes);
    if (Bytes == NULL) {
        return GPU_BAD_COMMAND;
    }
    while (At < Packet->Bytes && Status == GPU_COMPLETED) {
        const GPU_COMMAND *Command = (const GPU_COMMAND *)(Bytes + At);
        UINT64 Size = sizeof(*Command);
        if (Packet->Bytes - At < Size) {
            return GPU_BAD_COMMAND;
        }
        if (Command->Opcode == GPU_WRITE_ENTRIES) {
            if (Command->Words[2] > GPU_ENTRIES || Command->Words[3] > GPU_ENTRIES - Command->Words[2]) {
                return GPU_BAD_COMMAND;
            }
            Size += Command->Words[3] * 8;
        }
        if (Packet->Bytes - At < Size) {
            return GPU_BAD_COMMAND;
        }
        Status = Execute(Gpu, Node, Command);
        At += (UINT)Size;
    }
    return Status;
}

void GpuRun(GPU *Gpu, UINT Node) {
    GPU_ENGINE *Engine = &Gpu->Engines[Node];
    if (!Engine->IsSubmitted) {
        return;
    }
    Engine->IsSubmitted = FALSE;
    Engine->FenceId = Engine->Packet.FenceId;
    Engine->Status = RunPacket(Gpu, Node);
    if (Engine->Status == GPU_COMPLETED) {
        Engine->LastCompletedFenceId = Engine->FenceId;
    }
    GpuInterrupt(Gpu);
    if (Engine->IsToYield) {
        GpuYield(Gpu, Node);
    }
}

void GpuYield(GPU *Gpu, UINT Node) {
    GPU_ENGINE *Engine = &Gpu->Engines[Node];
    Engine->IsToYield = Engine->IsSubmitted;
    if (!Engine->IsToYield) {
        Engine->Status = GPU_YIELDED;
        GpuInterrupt(Gpu);
    }
}
