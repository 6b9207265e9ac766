/* The commands and the list of DxgkDdiRender are memory of the user: they may change or vanish during the call (DRV-12). */
#include "driver.h"

/* In a file of its own: a compiler that optimizes keeps no variable of TranslateCommands in a register of this function. */
NTSTATUS Render(const HANDLE hContext, DXGKARG_RENDER *Render) {
    volatile NTSTATUS Status;
    if (BUG(USER_MEMORY_BELIEVED)) {
        return TranslateCommands(hContext, Render);
    }
    __try {
        Status = TranslateCommands(hContext, Render);
    }
    __except (EXCEPTION_EXECUTE_HANDLER) {
        Status = STATUS_INVALID_PARAMETER;
    }
    return Status;
}
