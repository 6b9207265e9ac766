/*
 * MDLs of paging operations behind the end of the packet. In a share of the checks each MDL has separate pages, and behind the packet's
 * end no access reaches the pages: the first access is reported and allowed (the lifetime is assumed, DRV-03).
 */
#include "shim.h"

#include <stdlib.h>
#include <sys/mman.h>

typedef struct _RANGE {
    struct _RANGE *Next;
    BYTE *Bytes;
    SIZE_T Size;
    BOOLEAN IsOver;
} RANGE;

/* Of the thread that calls the driver; other threads only look. */
static RANGE *g_Ranges;

VOID *VidmmNewMdlMemory(SIZE_T Size) {
    RANGE *Range = (RANGE *)malloc(sizeof(*Range));
    VOID *Bytes;
    Size = ROUND_TO_PAGES(Size);
    Bytes = mmap(NULL, Size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (Range == NULL || Bytes == MAP_FAILED) {
        free(Range);
        return NULL;
    }
    Range->Bytes = (BYTE *)Bytes;
    Range->Size = Size;
    Range->IsOver = FALSE;
    Range->Next = g_Ranges;
    __atomic_store_n(&g_Ranges, Range, __ATOMIC_RELEASE);
    return Bytes;
}

static RANGE *Find(const VOID *Address) {
    RANGE *Range = __atomic_load_n(&g_Ranges, __ATOMIC_ACQUIRE);
    while (Range != NULL && (ULONG_PTR)Address - (ULONG_PTR)Range->Bytes >= Range->Size) {
        Range = Range->Next;
    }
    return Range;
}

void VidmmHideMdlMemory(VOID *Address) {
    RANGE *Range = Find(Address);
    if (Range != NULL) {
        Range->IsOver = mprotect(Range->Bytes, Range->Size, PROT_NONE) == 0;
    }
}

BOOLEAN VidmmShowMdlMemory(const VOID *Address) {
    RANGE *Range = Find(Address);
    BOOLEAN IsShown = Range != NULL && Range->IsOver && mprotect(Range->Bytes, Range->Size, PROT_READ | PROT_WRITE) == 0;
    if (IsShown) {
        Range->IsOver = FALSE;
    }
    return IsShown;
}

void VidmmFreeMdlMemory(void) {
    while (g_Ranges != NULL) {
        RANGE *Range = g_Ranges;
        g_Ranges = Range->Next;
        munmap(Range->Bytes, Range->Size);
        free(Range);
    }
}
