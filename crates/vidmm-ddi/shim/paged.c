/*
 * Pageable pool: one range of addresses. In a share of the checks the range is paged out at each rise to DISPATCH_LEVEL, as Driver
 * Verifier does by force IRQL checking (DRV-15). An access below DISPATCH_LEVEL pages the range in; an access above is a mistake.
 */
#include "shim.h"

#include <sys/mman.h>

/* Sanitizers know the bytes of malloc alone. */
#define ARENA_BYTES (VIDMM_IS_SANITIZED ? 0 : (SIZE_T)1 << 30)

/* With the lock held, but for reads of g_Arena and g_Used. */
static BYTE *g_Arena;
static SIZE_T g_Used;
static BOOLEAN g_Trims, g_IsOut;

void VidmmSetTrims(BOOLEAN Trims) {
    g_Trims = Trims;
}

BYTE *VidmmNewPagedLocked(SIZE_T Size) {
    BYTE *Bytes;
    if (g_Arena == NULL && ARENA_BYTES > 0) {
        VOID *Arena = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        g_Arena = Arena == MAP_FAILED ? NULL : (BYTE *)Arena;
    }
    Size = ROUND_TO_PAGES(Size);
    if (g_Arena == NULL || Size > ARENA_BYTES - g_Used ||
        mprotect(g_Arena + g_Used, Size, PROT_READ | PROT_WRITE) != 0) {
        return NULL;
    }
    Bytes = g_Arena + g_Used;
    __atomic_store_n(&g_Used, g_Used + Size, __ATOMIC_RELEASE);
    return Bytes;
}

BOOLEAN VidmmIsPaged(const VOID *Address) {
    return (ULONG_PTR)Address - (ULONG_PTR)g_Arena < __atomic_load_n(&g_Used, __ATOMIC_ACQUIRE) && g_Arena != NULL;
}

void VidmmTrim(void) {
    if (g_Trims && g_Used > 0 && !__atomic_exchange_n(&g_IsOut, TRUE, __ATOMIC_ACQ_REL)) {
        mprotect(g_Arena, g_Used, PROT_NONE);
    }
}

BOOLEAN VidmmPageIn(const VOID *Address) {
    if (!VidmmIsPaged(Address)) {
        return FALSE;
    }
    mprotect(g_Arena, g_Used, PROT_READ | PROT_WRITE);
    __atomic_store_n(&g_IsOut, FALSE, __ATOMIC_RELEASE);
    return TRUE;
}

void VidmmCheckNotPaged(const char *Kind, const VOID *Object) {
    if (VidmmIsPaged(Object)) {
        VidmmReport("SHIM-POOL-PAGED", "an object of the kernel is in pageable pool: a block for it is nonpaged (DRV-15); kind: %s", Kind);
    }
}
