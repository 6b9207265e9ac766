/*
 * The commands of a user, who is not trusted: whether they are commands, and whether their patch locations lead into their allocations.
 */
#include "commands.h"

#include "bugs.h"

/* An address in a command. */
typedef struct FIELD {
    UINT CommandOffset;
    UINT64 Bytes; /* that are accessed */
    BOOLEAN IsWritten;
} FIELD;

static const VIDMM_USER_KERNEL_COMMAND *CommandAt(const BYTE *Commands, UINT Length, UINT At) {
    const VIDMM_USER_KERNEL_COMMAND *Kernel = (const VIDMM_USER_KERNEL_COMMAND *)(Commands + At);
    UINT64 Size = sizeof(VIDMM_USER_COMMAND);
    if (Length - At < Size || Kernel->Command.Size > Length - At) {
        return NULL;
    }
    if (Kernel->Command.Opcode == VIDMM_USER_STATE) {
        return Kernel->Command.Size == sizeof(VIDMM_USER_COMMAND) + sizeof(UINT64) ? Kernel : NULL;
    }
    if (Kernel->Command.Opcode != VIDMM_USER_KERNEL || Kernel->Command.Size < sizeof(*Kernel)) {
        return NULL;
    }
    Size = sizeof(*Kernel) + ((UINT64)Kernel->NumReads + Kernel->NumWrites) * sizeof(VIDMM_USER_RANGE);
    return Kernel->Command.Size == Size ? Kernel : NULL;
}

static BOOLEAN AreCommands(const BYTE *Commands, UINT Length) {
    UINT At = 0;
    while (At < Length) {
        const VIDMM_USER_KERNEL_COMMAND *Kernel = CommandAt(Commands, Length, At);
        if (Kernel == NULL) {
            return FALSE;
        }
        At += Kernel->Command.Size;
    }
    return TRUE;
}

static BOOLEAN IsBetweenCommands(const BYTE *Commands, UINT Length, UINT Offset) {
    UINT At = 0;
    while (At < Offset && At < Length) {
        At += CommandAt(Commands, Length, At)->Command.Size;
    }
    return At == Offset;
}

/* The index of the address at Offset in a kernel's command at At; -1 if there is none that is used. */
static int RangeAt(const VIDMM_USER_KERNEL_COMMAND *Kernel, UINT At, UINT Offset) {
    const VIDMM_USER_RANGE *Ranges = (const VIDMM_USER_RANGE *)(Kernel + 1);
    UINT First = At + (UINT)sizeof(*Kernel), Index;
    if (Kernel->Command.Opcode != VIDMM_USER_KERNEL || Offset < First || (Offset - First) % sizeof(*Ranges) != 0) {
        return -1;
    }
    Index = (Offset - First) / (UINT)sizeof(*Ranges);
    return Index < Kernel->NumReads + Kernel->NumWrites && Ranges[Index].NumPages != 0 ? (int)Index : -1;
}

static BOOLEAN FindField(const BYTE *Commands, UINT Length, UINT Offset, FIELD *Field) {
    UINT At = 0;
    while (At < Length) {
        const VIDMM_USER_KERNEL_COMMAND *Kernel = CommandAt(Commands, Length, At);
        int Index = RangeAt(Kernel, At, Offset);
        if (Index >= 0) {
            UINT64 Pages = ((const VIDMM_USER_RANGE *)(Kernel + 1))[Index].NumPages;
            Field->CommandOffset = At;
            Field->Bytes = Pages > ~0ull >> PAGE_SHIFT ? ~0ull : Pages << PAGE_SHIFT;
            Field->IsWritten = (UINT)Index >= Kernel->NumReads;
            return TRUE;
        }
        At += Kernel->Command.Size;
    }
    return FALSE;
}

/* ---- Its patch locations ---- */

/* Whether the part of the buffer in which the command is begins at the location's split point. */
static BOOLEAN IsInItsPart(const DXGKARG_RENDER *Render, const D3DDDI_PATCHLOCATIONLIST *Location, UINT CommandOffset) {
    UINT At, Last = 0;
    for (At = 0; At < Render->PatchLocationListInSize; At++) {
        if (Render->pPatchLocationListIn[At].SplitOffset <= CommandOffset) {
            Last = Render->pPatchLocationListIn[At].SplitOffset;
        }
    }
    return Location->SplitOffset == Last;
}

/* Whether the slot holds the location's allocation, and no other, in its part. */
static BOOLEAN IsHeld(const DXGKARG_RENDER *Render, UINT Number) {
    const D3DDDI_PATCHLOCATIONLIST *Location = &Render->pPatchLocationListIn[Number];
    UINT At;
    for (At = Number + 1; At < Render->PatchLocationListInSize; At++) {
        const D3DDDI_PATCHLOCATIONLIST *Other = &Render->pPatchLocationListIn[At];
        if (Other->SplitOffset == Location->SplitOffset && Other->SlotId == Location->SlotId &&
            Other->AllocationIndex != Location->AllocationIndex) {
            return FALSE;
        }
    }
    return TRUE;
}

static BOOLEAN IsInside(const DXGK_ALLOCATIONLIST *Element, const D3DDDI_PATCHLOCATIONLIST *Location, const FIELD *Field,
                        SIZE_OF *SizeOf) {
    UINT64 Size = (SizeOf(Element->hDeviceSpecificAllocation) + PAGE_SIZE - 1) & ~(UINT64)(PAGE_SIZE - 1);
    if (BUG(ALLOCATION_OFFSET_NOT_CHECKED)) {
        return TRUE;
    }
    return Location->AllocationOffset % PAGE_SIZE == 0 && Location->AllocationOffset <= Size &&
           Field->Bytes <= Size - Location->AllocationOffset && (Element->WriteOperation || !Field->IsWritten);
}

static NTSTATUS CheckLocation(const DXGKARG_RENDER *Render, UINT Number, UINT Slots, SIZE_OF *SizeOf) {
    const D3DDDI_PATCHLOCATIONLIST *Location = &Render->pPatchLocationListIn[Number];
    const BYTE *Commands = (const BYTE *)Render->pCommand;
    const DXGK_ALLOCATIONLIST *Element;
    FIELD Field;
    if ((Location->AllocationIndex >= Render->AllocationListSize && !BUG(INDEX_NOT_CHECKED)) ||
        (Location->SlotId >= Slots && !BUG(SLOT_NOT_CHECKED))) {
        return STATUS_INVALID_HANDLE;
    }
    if (BUG(LIST_NOT_CHECKED)) {
        return STATUS_SUCCESS;
    }
    if ((Number > 0 && Location->SplitOffset < Location[-1].SplitOffset) ||
        !IsBetweenCommands(Commands, Render->CommandLength, Location->SplitOffset)) {
        return STATUS_INVALID_HANDLE;
    }
    Element = &Render->pAllocationList[Location->AllocationIndex];
    if (Element->hDeviceSpecificAllocation == NULL) {
        return STATUS_SUCCESS;
    }
    if (BUG(PATCH_OFFSET_NOT_CHECKED)) {
        return STATUS_SUCCESS;
    }
    if (!FindField(Commands, Render->CommandLength, Location->PatchOffset, &Field) ||
        !IsInItsPart(Render, Location, Field.CommandOffset) || !IsHeld(Render, Number) || !IsInside(Element, Location, &Field, SizeOf)) {
        return STATUS_INVALID_HANDLE;
    }
    return STATUS_SUCCESS;
}

/* How many locations name the address at Offset. */
static UINT LocationsAt(const DXGKARG_RENDER *Render, UINT Offset) {
    UINT At, Count = 0;
    for (At = 0; At < Render->PatchLocationListInSize; At++) {
        const D3DDDI_PATCHLOCATIONLIST *Location = &Render->pPatchLocationListIn[At];
        if (Location->PatchOffset == Offset &&
            Render->pAllocationList[Location->AllocationIndex].hDeviceSpecificAllocation != NULL) {
            Count++;
        }
    }
    return Count;
}

/* An address of the user's own choice would reach anybody's memory. */
static NTSTATUS CheckAddresses(const DXGKARG_RENDER *Render) {
    const BYTE *Commands = (const BYTE *)Render->pCommand;
    UINT At = 0;
    while (At < Render->CommandLength && !BUG(LIST_NOT_CHECKED) && !BUG(ADDRESS_NOT_CHECKED) && !BUG(INDEX_NOT_CHECKED) &&
           !BUG(PATCH_OFFSET_NOT_CHECKED)) {
        const VIDMM_USER_KERNEL_COMMAND *Kernel = CommandAt(Commands, Render->CommandLength, At);
        UINT Offset = At + (UINT)sizeof(*Kernel);
        for (; Offset < At + Kernel->Command.Size; Offset += sizeof(VIDMM_USER_RANGE)) {
            UINT Count = LocationsAt(Render, Offset);
            if (RangeAt(Kernel, At, Offset) >= 0 && Count != 1) {
                return Count == 0 ? STATUS_PRIVILEGED_INSTRUCTION : STATUS_INVALID_HANDLE;
            }
        }
        At += Kernel->Command.Size;
    }
    return STATUS_SUCCESS;
}

NTSTATUS CheckCommands(const DXGKARG_RENDER *Render, UINT Slots, SIZE_OF *SizeOf) {
    UINT At;
    if (!AreCommands((const BYTE *)Render->pCommand, Render->CommandLength)) {
        return STATUS_ILLEGAL_INSTRUCTION;
    }
    for (At = 0; At < Render->PatchLocationListInSize; At++) {
        NTSTATUS Status = CheckLocation(Render, At, Slots, SizeOf);
        if (!NT_SUCCESS(Status)) {
            return Status;
        }
    }
    return CheckAddresses(Render);
}
