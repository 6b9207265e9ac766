/*
 * Vanished memory of a user: the bytes exist, and no access is allowed. A driver guards reads by __try (DRV-12).
 */
#include "shim.h"

#include <sys/mman.h>

#define KINDS 2

static struct {
    BYTE *Pages;
    SIZE_T Size;
} g_Vanished[KINDS];

VOID *VidmmVanishedCopy(UINT Number, const VOID *Bytes, SIZE_T Size) {
    SIZE_T Whole = ROUND_TO_PAGES(Size > 0 ? Size : 1);
    if (g_Vanished[Number].Size < Whole) {
        VOID *Pages = mmap(NULL, Whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (Pages == MAP_FAILED) {
            return NULL;
        }
        if (g_Vanished[Number].Pages != NULL) {
            munmap(g_Vanished[Number].Pages, g_Vanished[Number].Size);
        }
        g_Vanished[Number].Pages = (BYTE *)Pages;
        g_Vanished[Number].Size = Whole;
    }
    if (mprotect(g_Vanished[Number].Pages, Whole, PROT_READ | PROT_WRITE) != 0) {
        return NULL;
    }
    memcpy(g_Vanished[Number].Pages, Bytes, Size);
    return mprotect(g_Vanished[Number].Pages, g_Vanished[Number].Size, PROT_NONE) == 0 ? g_Vanished[Number].Pages : NULL;
}

BOOLEAN VidmmHasVanished(const VOID *Address) {
    UINT Number;
    for (Number = 0; Number < KINDS; Number++) {
        if ((ULONG_PTR)Address - (ULONG_PTR)g_Vanished[Number].Pages < g_Vanished[Number].Size) {
            return TRUE;
        }
    }
    return FALSE;
}
