/* Render and Patch: the commands of users, and the addresses in them. */
#include "commands.h"
#include "driver.h"

/* The engine has nothing at this address: a command that is not patched faults. */
#define UNPATCHED 0ull

/* For a mistake: the DMA buffer of the last call of Render. */
static VOID *g_LastRendered;

static UINT64 SizeOf(HANDLE hDeviceSpecificAllocation) {
    return ((const OPENED *)hDeviceSpecificAllocation)->Allocation->Size;
}

/* ---- Addresses ---- */

/* The engine addresses its memory from the segment's BaseAddress on, as allocation lists do. */
static void WriteAddress(BYTE *Address, const DXGK_ALLOCATIONLIST *Element, UINT AllocationOffset) {
    UINT64 Value = Element->SegmentId != 0 ? (UINT64)Element->PhysicalAddress.QuadPart + AllocationOffset : UNPATCHED;
    RtlCopyMemory(Address, &Value, sizeof(Value));
}

/* Whether the slot holds the location's allocation already, before its split point. */
static BOOLEAN HoldsAlready(const DXGKARG_RENDER *Render, UINT Number) {
    const D3DDDI_PATCHLOCATIONLIST *Location = &Render->pPatchLocationListIn[Number];
    while (Number-- > 0) {
        const D3DDDI_PATCHLOCATIONLIST *Before = &Render->pPatchLocationListIn[Number];
        if (Before->SlotId == Location->SlotId) {
            return Before->AllocationIndex == Location->AllocationIndex && Before->SplitOffset < Location->SplitOffset;
        }
    }
    return FALSE;
}

/* Where the commands of one call end: all of them are translated at once, or with WITH_PARTS up to the next split point. */
static UINT EndOfPart(const DXGKARG_RENDER *Render, UINT Start) {
#ifdef WITH_PARTS
    UINT At;
    for (At = 0; At < Render->PatchLocationListInSize; At++) {
        if (Render->pPatchLocationListIn[At].SplitOffset > Start) {
            return Render->pPatchLocationListIn[At].SplitOffset;
        }
    }
#endif
    UNREFERENCED_PARAMETER(Start);
    return Render->CommandLength;
}

/* Adds a location to the driver's list; offsets are those in the DMA buffer of the call, which begins at Start of the commands. */
static VOID AddLocation(DXGKARG_RENDER *Render, UINT Number, UINT Start) {
    D3DDDI_PATCHLOCATIONLIST Location = Render->pPatchLocationListIn[Number];
    BOOLEAN IsKnown = Render->pAllocationList[Location.AllocationIndex].SegmentId != 0;
    if ((BUG(KNOWN_NOT_LISTED) && IsKnown) || (BUG(STAYS_BOUND) && HoldsAlready(Render, Number))) {
        return;
    }
    if (BUG(SPLIT_BEHIND_STATE) && Location.SplitOffset < Render->CommandLength) {
        Location.SplitOffset += sizeof(VIDMM_USER_COMMAND) + sizeof(UINT64);
    }
    if (!BUG(PARTS_OFFSETS)) {
        Location.PatchOffset -= Start;
        Location.SplitOffset -= Start;
    }
    Location.DriverId = IsKnown;
    *Render->pPatchLocationListOut++ = Location;
}

BOOLEAN AddRendered(RENDERED *Rendered, VOID *DmaBuffer, UINT Size) {
    Rendered->Notes = ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(UINT64), TAG);
    Rendered->Magic = RENDERED_MAGIC;
    Rendered->Size = Size;
    Rendered->DmaBuffer = DmaBuffer;
    Rendered->Address = (UINT64)MmGetPhysicalAddress(DmaBuffer).QuadPart;
    return Rendered->Notes != NULL;
}

VOID FreeNotes(RENDERED *Rendered) {
    if (Rendered->Notes != NULL) {
        ExFreePoolWithTag(Rendered->Notes, TAG);
        Rendered->Notes = NULL;
    }
}

UINT RenderedSize(const VOID *PrivateData, UINT Size, const VOID *DmaBuffer, UINT64 Address) {
    const RENDERED *Rendered = (const RENDERED *)PrivateData;
    if (Size != sizeof(*Rendered) || Rendered->Magic != RENDERED_MAGIC || Rendered->Address != Address ||
        (DmaBuffer != NULL && Rendered->DmaBuffer != DmaBuffer)) {
        return 0;
    }
    return Rendered->Size;
}

/* MultipassOffset is where the commands begin that earlier calls have not translated: a split point. Each call fills a new DMA buffer. */
NTSTATUS TranslateCommands(const HANDLE hContext, DXGKARG_RENDER *Render) {
    NTSTATUS Status = CheckCommands(Render, SLOTS, SizeOf);
    BYTE *DmaBuffer = (BYTE *)Render->pDmaBuffer;
    UINT Start = Render->MultipassOffset, End, At;
    BOOLEAN IsLast;
    UNREFERENCED_PARAMETER(hContext);
    if (!NT_SUCCESS(Status)) {
        return BUG(RENDER_STATUS) ? STATUS_UNSUCCESSFUL : Status;
    }
    End = EndOfPart(Render, Start);
    IsLast = End == Render->CommandLength;
    if (Render->DmaSize < End - Start || Render->PatchLocationListOutSize < Render->PatchLocationListInSize ||
        Render->DmaBufferPrivateDataSize < sizeof(RENDERED)) {
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    }
    if ((ULONG_PTR)DmaBuffer % PAGE_SIZE != 0) {
        return STATUS_UNSUCCESSFUL;
    }
    if (BUG(PARTS_IN_FIRST_BUFFER) && Start != 0) {
        DmaBuffer = (BYTE *)g_LastRendered + Start;
    }
    if (BUG(BEFORE_BUFFER)) {
        ((volatile BYTE *)DmaBuffer)[-1] = 0;
    }
    if (BUG(BEFORE_PRIVATE_DATA)) {
        ((volatile BYTE *)Render->pDmaBufferPrivateData)[-8] = 0;
    }
    if (BUG(STRUCT_OVERRUN)) {
        ((volatile BYTE *)(Render + 1))[3] = 0;
    }
    if (!AddRendered((RENDERED *)Render->pDmaBufferPrivateData, DmaBuffer, End - Start)) {
        return STATUS_NO_MEMORY;
    }
    Render->pDmaBufferPrivateData = (BYTE *)Render->pDmaBufferPrivateData + sizeof(RENDERED) +
                                    (BUG(PRIVATE_DATA_TOO_FAR) ? Render->DmaBufferPrivateDataSize : 0);
    g_LastRendered = DmaBuffer - (BUG(PARTS_IN_FIRST_BUFFER) ? Start : 0);
    RtlCopyMemory(DmaBuffer, (const BYTE *)Render->pCommand + Start, End - Start);
    if (BUG(COMMAND_GARBLED) && End - Start >= 32) {
        DmaBuffer[sizeof(VIDMM_USER_COMMAND) + sizeof(UINT64) + offsetof(VIDMM_USER_KERNEL_COMMAND, Number) + 1] ^= 0xFF;
    }
    Render->pDmaBuffer = DmaBuffer + (BUG(RENDER_TOO_FAR) ? Render->DmaSize + 8 : End - Start);
    for (At = 0; At < Render->PatchLocationListInSize; At++) {
        const D3DDDI_PATCHLOCATIONLIST *Location = &Render->pPatchLocationListIn[At];
        const DXGK_ALLOCATIONLIST *Element = &Render->pAllocationList[Location->AllocationIndex];
        if (Element->hDeviceSpecificAllocation != NULL && Location->PatchOffset >= Start &&
            Location->PatchOffset + 8ull <= End && !BUG(NO_PREPATCH)) {
            WriteAddress(DmaBuffer + (Location->PatchOffset - Start), Element, Location->AllocationOffset);
        }
        if (Location->SplitOffset >= Start && (Location->SplitOffset < End || IsLast)) {
            AddLocation(Render, At, Start);
        }
    }
    if (BUG(LIST_NOT_ADVANCED)) {
        Render->pPatchLocationListOut = (D3DDDI_PATCHLOCATIONLIST *)((BYTE *)Render->pPatchLocationListOut - 8);
    }
    Render->MultipassOffset = BUG(PARTS_FROM_START) ? 0 : End;
    return IsLast ? STATUS_SUCCESS : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}

NTSTATUS Patch(const HANDLE hAdapter, const DXGKARG_PATCH *Patch) {
    UINT First = BUG(PATCH_ALL) ? 0 : Patch->PatchLocationListSubmissionStart, At;
    UINT Count = BUG(PATCH_ALL) ? Patch->PatchLocationListSize : Patch->PatchLocationListSubmissionLength;
    UNREFERENCED_PARAMETER(hAdapter);
    if (BUG(PATCH_LOOKS_AT_CONTEXT)) {
        First += *(volatile UINT *)&((const CONTEXT *)Patch->hContext)->NodeOrdinal;
    }
    if (Patch->Flags.Paging || (BUG(PRESENT_NOT_PATCHED) && Patch->Flags.Present)) {
        /* A paging buffer has no context, and no address to patch. */
        return STATUS_SUCCESS;
    }
    if (RenderedSize(Patch->pDmaBufferPrivateData, Patch->DmaBufferPrivateDataSubmissionEndOffset, Patch->pDmaBuffer,
                     (UINT64)Patch->DmaBufferPhysicalAddress.QuadPart) != Patch->DmaBufferSize) {
        return STATUS_INVALID_PARAMETER;
    }
    for (At = First; At < First + Count; At++) {
        const D3DDDI_PATCHLOCATIONLIST *Location = &Patch->pPatchLocationList[At];
        const DXGK_ALLOCATIONLIST *Element = &Patch->pAllocationList[Location->AllocationIndex];
        UINT Offset = Location->PatchOffset - (BUG(PATCH_FROM_START) ? Patch->DmaBufferSubmissionStartOffset : 0);
        /* The null element unbinds a slot, and has no address. */
        if (Element->hDeviceSpecificAllocation != NULL && !(BUG(PATCH_ONCE) && Location->DriverId)) {
            WriteAddress((BYTE *)(BUG(PATCH_LAST_RENDERED) ? g_LastRendered : Patch->pDmaBuffer) + Offset, Element,
                         BUG(ALLOCATION_OFFSET_IGNORED) ? 0 : Location->AllocationOffset);
        }
    }
    return BUG(PATCH_FAILS) ? STATUS_UNSUCCESSFUL : STATUS_SUCCESS;
}
