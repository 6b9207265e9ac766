/* The commands and the list of DxgkDdiRender are memory of the user: they may change or vanish during the call (DRV-12). */
#include "driver.h"

/* In a separate file: a compiler that optimizes keeps no variable of TranslateCommands in a register here. */

static NTSTATUS RenderGuarded(const HANDLE hContext, DXGKARG_RENDER *Render) {
    volatile NTSTATUS Status;
    __try {
        Status = TranslateCommands(hContext, Render);
    }
    __except (EXCEPTION_EXECUTE_HANDLER) {
        Status = STATUS_INVALID_PARAMETER;
    }
    return Status;
}

static NTSTATUS CopyGuarded(BYTE *To, const DXGKARG_RENDER *Render) {
    volatile NTSTATUS Status = STATUS_SUCCESS;
    __try {
        RtlCopyMemory(To, Render->pCommand, Render->CommandLength);
        RtlCopyMemory(To + (Render->CommandLength + 7ull) / 8 * 8, Render->pPatchLocationListIn,
                      Render->PatchLocationListInSize * sizeof(D3DDDI_PATCHLOCATIONLIST));
    }
    __except (EXCEPTION_EXECUTE_HANDLER) {
        Status = STATUS_INVALID_PARAMETER;
    }
    return Status;
}

/* Each byte of the user is read once, and the copy is checked and translated. */
NTSTATUS Render(const HANDLE hContext, DXGKARG_RENDER *Render) {
    const VOID *Command = Render->pCommand;
    D3DDDI_PATCHLOCATIONLIST *List = Render->pPatchLocationListIn;
    SIZE_T Bytes = (Render->CommandLength + 7ull) / 8 * 8;
    NTSTATUS Status;
    BYTE *Copy;
    if (BUG(USER_MEMORY_BELIEVED)) {
        return TranslateCommands(hContext, Render);
    }
    if (BUG(USER_MEMORY_READ_TWICE)) {
        return RenderGuarded(hContext, Render);
    }
    Copy = (BYTE *)ExAllocatePool2(POOL_FLAG_PAGED, Bytes + Render->PatchLocationListInSize * sizeof(*List) + 1, TAG);
    if (Copy == NULL) {
        return STATUS_NO_MEMORY;
    }
    Status = CopyGuarded(Copy, Render);
    if (NT_SUCCESS(Status)) {
        Render->pCommand = Copy;
        Render->pPatchLocationListIn = (D3DDDI_PATCHLOCATIONLIST *)(Copy + Bytes);
        Status = TranslateCommands(hContext, Render);
    }
    Render->pCommand = Command;
    Render->pPatchLocationListIn = List;
    ExFreePoolWithTag(Copy, TAG);
    return Status;
}
