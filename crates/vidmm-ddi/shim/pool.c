/*
 * Pool: every block is counted, and has bytes behind it that are looked at.
 */
#include "shim.h"

#include <stdlib.h>

#define CANARY 0xA5
#define CANARY_BYTES 32
#define FRESH 0xCD
#define FREED 0xDD
#define BUCKETS 4096

typedef struct _BLOCK {
    struct _BLOCK *Next;
    unsigned char *Bytes;
    SIZE_T Size;
    ULONG Tag;
    UINT64 Number;    /* in the order of allocations */
    const char *Call; /* of the driver, in which the block was allocated */
    int Class;        /* of pageable blocks: room for 1 << Class bytes; else 0 */
} BLOCK;

#define CLASSES 31

/* Free pageable blocks, by class. */
static BLOCK *g_FreePaged[CLASSES];

static BLOCK *g_Buckets[BUCKETS];
static UINT64 g_FailAt;

static BLOCK **BucketOf(const void *Bytes) {
    return &g_Buckets[((uintptr_t)Bytes >> 4) % BUCKETS];
}

static void TagText(ULONG Tag, char Text[5]) {
    int At;
    for (At = 0; At < 4; At++) {
        char Character = (char)(Tag >> (8 * At));
        Text[At] = Character >= ' ' && Character <= '~' ? Character : '?';
    }
    Text[4] = 0;
}

BOOLEAN VidmmFailsLocked(void) {
    g_VidmmCounts.Allocations++;
    return g_FailAt != 0 && --g_FailAt == 0;
}

/* A block with room in pageable pool; NULL without room. */
static BLOCK *NewPaged(SIZE_T Size) {
    BLOCK *Block;
    int Class = 6;
    while (Class < CLASSES && (SIZE_T)1 << Class < Size + CANARY_BYTES) {
        Class++;
    }
    if (Class == CLASSES) {
        return NULL;
    }
    if (g_FreePaged[Class] == NULL) {
        /* Small blocks share a page. */
        SIZE_T Bytes = (SIZE_T)1 << (Class < PAGE_SHIFT ? PAGE_SHIFT : Class), At;
        BYTE *Pages = VidmmNewPagedLocked(Bytes);
        for (At = 0; Pages != NULL && At < Bytes && (Block = (BLOCK *)malloc(sizeof(*Block))) != NULL; At += (SIZE_T)1 << Class) {
            Block->Bytes = Pages + At;
            Block->Class = Class;
            Block->Next = g_FreePaged[Class];
            g_FreePaged[Class] = Block;
        }
    }
    Block = g_FreePaged[Class];
    if (Block != NULL) {
        g_FreePaged[Class] = Block->Next;
    }
    return Block;
}

static BLOCK *NewBlock(SIZE_T Size) {
    BLOCK *Block = (BLOCK *)malloc(sizeof(*Block));
    if (Block == NULL || (Block->Bytes = (unsigned char *)malloc(Size + CANARY_BYTES)) == NULL) {
        free(Block);
        return NULL;
    }
    Block->Class = 0;
    return Block;
}

static PVOID AllocateLocked(SIZE_T Size, ULONG Tag, int Fill, BOOLEAN IsPaged) {
    BLOCK *Block = NULL, **Bucket;
    if (VidmmFailsLocked() || Size > SIZE_MAX / 2) {
        return NULL;
    }
    VidmmCheckIrql(IsPaged ? "an allocation of pageable pool" : "an allocation of pool", IsPaged ? APC_LEVEL : DISPATCH_LEVEL);
    if (IsPaged) {
        Block = NewPaged(Size);
    }
    if (Block == NULL && (Block = NewBlock(Size)) == NULL) {
        return NULL;
    }
    Block->Size = Size;
    Block->Tag = Tag;
    Block->Number = g_VidmmCounts.Allocations;
    Block->Call = VidmmCall();
    memset(Block->Bytes, Fill, Size);
    memset(Block->Bytes + Size, CANARY, CANARY_BYTES);
    Bucket = BucketOf(Block->Bytes);
    Block->Next = *Bucket;
    *Bucket = Block;
    g_VidmmCounts.PoolBlocks++;
    g_VidmmCounts.PoolBytes += Size;
    return Block->Bytes;
}

static PVOID Allocate(SIZE_T Size, ULONG Tag, int Fill, BOOLEAN IsPaged) {
    PVOID Bytes;
    VidmmYield();
    pthread_mutex_lock(&g_VidmmLock);
    Bytes = AllocateLocked(Size, Tag, Fill, IsPaged);
    pthread_mutex_unlock(&g_VidmmLock);
    return Bytes;
}

PVOID ExAllocatePool2(POOL_FLAGS Flags, SIZE_T NumberOfBytes, ULONG Tag) {
    return Allocate(NumberOfBytes, Tag, Flags & POOL_FLAG_UNINITIALIZED ? FRESH : 0, (Flags & POOL_FLAG_PAGED) != 0);
}

PVOID ExAllocatePoolWithTag(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag) {
    return Allocate(NumberOfBytes, Tag, FRESH, (PoolType & PagedPool) != 0);
}

PVOID ExAllocatePoolZero(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag) {
    return Allocate(NumberOfBytes, Tag, 0, (PoolType & PagedPool) != 0);
}

static void CheckBlock(const BLOCK *Block) {
    SIZE_T At;
    for (At = 0; At < CANARY_BYTES; At++) {
        if (Block->Bytes[Block->Size + At] != CANARY) {
            char Tag[5];
            TagText(Block->Tag, Tag);
            VidmmReport("SHIM-POOL-OVERRUN", "a pool block of %zu bytes with tag '%s' was written %zu bytes behind its end",
                   Block->Size, Tag, At + 1);
            memset(Block->Bytes + Block->Size, CANARY, CANARY_BYTES);
            return;
        }
    }
}

static void FreeLocked(PVOID Bytes, const ULONG *Tag) {
    BLOCK **At = BucketOf(Bytes), *Block;
    const char *Deferred;
    while (*At != NULL && (*At)->Bytes != (unsigned char *)Bytes) {
        At = &(*At)->Next;
    }
    Block = *At;
    if (Block == NULL) {
        VidmmReport("SHIM-POOL-FREE", "memory is freed that is no pool block: freed twice, or never allocated");
        return;
    }
    if (Tag != NULL && *Tag != 0 && *Tag != Block->Tag) {
        char Given[5], Own[5];
        TagText(*Tag, Given);
        TagText(Block->Tag, Own);
        VidmmReport("SHIM-POOL-TAG", "a pool block with tag '%s' is freed with tag '%s'", Own, Given);
    }
    if (Block->Class != 0) {
        VidmmCheckIrql("a free of pageable pool", APC_LEVEL);
        VidmmPageIn(Block->Bytes);
    }
    CheckBlock(Block);
    Deferred = VidmmForgetDeferred(Block->Bytes, Block->Size);
    if (Deferred != NULL) {
        VidmmReport("SHIM-DEFERRED", "a pool block is freed with a %s in it", Deferred);
    }
    if (VidmmIsWaitedForLocked(Block->Bytes, Block->Size)) {
        VidmmReport("SHIM-THREAD", "a pool block is freed with an event in it for which a thread waits, in %s", VidmmCall());
    }
    *At = Block->Next;
    g_VidmmCounts.PoolBlocks--;
    g_VidmmCounts.PoolBytes -= Block->Size;
    memset(Block->Bytes, FREED, Block->Size);
    if (Block->Class != 0) {
        Block->Next = g_FreePaged[Block->Class];
        g_FreePaged[Block->Class] = Block;
        return;
    }
    free(Block->Bytes);
    free(Block);
}

static void Free(PVOID Bytes, const ULONG *Tag) {
    VidmmYield();
    pthread_mutex_lock(&g_VidmmLock);
    FreeLocked(Bytes, Tag);
    pthread_mutex_unlock(&g_VidmmLock);
}

VOID ExFreePoolWithTag(PVOID Block, ULONG Tag) {
    Free(Block, &Tag);
}

VOID ExFreePool(PVOID Block) {
    Free(Block, NULL);
}

void VidmmCheckPool(void) {
    int At;
    const BLOCK *Block;
    pthread_mutex_lock(&g_VidmmLock);
    for (At = 0; At < BUCKETS; At++) {
        for (Block = g_Buckets[At]; Block != NULL; Block = Block->Next) {
            CheckBlock(Block);
        }
    }
    pthread_mutex_unlock(&g_VidmmLock);
}

void VidmmFailAt(UINT64 Number) {
    pthread_mutex_lock(&g_VidmmLock);
    g_FailAt = Number;
    pthread_mutex_unlock(&g_VidmmLock);
}

/* ---- What is left ---- */

#define LEAKS 64

/* Blocks of a tag from a call. */
static struct {
    ULONG Tag;
    const char *Call;
    UINT64 Count, Bytes, First;
} g_Leaks[LEAKS];
static UINT g_LeakCount;

void VidmmAddLeakLocked(UINT64 Number, SIZE_T Size, ULONG Tag, const char *Call) {
    UINT At = 0;
    while (At < g_LeakCount && (g_Leaks[At].Tag != Tag || g_Leaks[At].Call != Call)) {
        At++;
    }
    if (At == LEAKS) {
        return;
    }
    if (At == g_LeakCount) {
        g_LeakCount++;
        g_Leaks[At].Tag = Tag;
        g_Leaks[At].Call = Call;
        g_Leaks[At].Count = g_Leaks[At].Bytes = 0;
        g_Leaks[At].First = Number;
    }
    g_Leaks[At].Count++;
    g_Leaks[At].Bytes += Size;
    g_Leaks[At].First = min(g_Leaks[At].First, Number);
}

/* The first leak without a report; LEAKS without such a leak. Addresses decide nothing. */
static UINT FirstLeak(void) {
    UINT At, First = LEAKS;
    for (At = 0; At < g_LeakCount; At++) {
        if (g_Leaks[At].Count > 0 && (First == LEAKS || g_Leaks[At].First < g_Leaks[First].First)) {
            First = At;
        }
    }
    return First;
}

void VidmmReportLeaks(UINT64 After) {
    const BLOCK *Block;
    UINT At, Leak;
    pthread_mutex_lock(&g_VidmmLock);
    g_LeakCount = 0;
    for (At = 0; At < BUCKETS; At++) {
        for (Block = g_Buckets[At]; Block != NULL; Block = Block->Next) {
            if (Block->Number > After) {
                VidmmAddLeakLocked(Block->Number, Block->Size, Block->Tag, Block->Call);
            }
        }
    }
    VidmmAddContiguousLeaksLocked(After);
    while ((Leak = FirstLeak()) != LEAKS) {
        char Tag[5];
        TagText(g_Leaks[Leak].Tag, Tag);
        VidmmReport("SHIM-POOL-LEAK", "%llu pool blocks of %llu bytes are left after RemoveDevice: tag '%s', allocated in %s",
                    (unsigned long long)g_Leaks[Leak].Count, (unsigned long long)g_Leaks[Leak].Bytes, Tag, g_Leaks[Leak].Call);
        g_Leaks[Leak].Count = 0;
    }
    pthread_mutex_unlock(&g_VidmmLock);
}
