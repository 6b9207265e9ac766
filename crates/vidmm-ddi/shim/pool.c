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
} BLOCK;

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

static PVOID AllocateLocked(SIZE_T Size, ULONG Tag, int Fill) {
    BLOCK *Block, **Bucket;
    if (VidmmFailsLocked()) {
        return NULL;
    }
    VidmmCheckIrql("an allocation of pool", DISPATCH_LEVEL);
    Block = (BLOCK *)malloc(sizeof(BLOCK));
    if (Block == NULL || Size > SIZE_MAX - CANARY_BYTES || (Block->Bytes = (unsigned char *)malloc(Size + CANARY_BYTES)) == NULL) {
        free(Block);
        return NULL;
    }
    Block->Size = Size;
    Block->Tag = Tag;
    memset(Block->Bytes, Fill, Size);
    memset(Block->Bytes + Size, CANARY, CANARY_BYTES);
    Bucket = BucketOf(Block->Bytes);
    Block->Next = *Bucket;
    *Bucket = Block;
    g_VidmmCounts.PoolBlocks++;
    g_VidmmCounts.PoolBytes += Size;
    return Block->Bytes;
}

static PVOID Allocate(SIZE_T Size, ULONG Tag, int Fill) {
    PVOID Bytes;
    VidmmYield();
    pthread_mutex_lock(&g_VidmmLock);
    Bytes = AllocateLocked(Size, Tag, Fill);
    pthread_mutex_unlock(&g_VidmmLock);
    return Bytes;
}

PVOID ExAllocatePool2(POOL_FLAGS Flags, SIZE_T NumberOfBytes, ULONG Tag) {
    return Allocate(NumberOfBytes, Tag, Flags & POOL_FLAG_UNINITIALIZED ? FRESH : 0);
}

PVOID ExAllocatePoolWithTag(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag) {
    (void)PoolType;
    return Allocate(NumberOfBytes, Tag, FRESH);
}

PVOID ExAllocatePoolZero(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag) {
    (void)PoolType;
    return Allocate(NumberOfBytes, Tag, 0);
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
    CheckBlock(Block);
    Deferred = VidmmForgetDeferred(Block->Bytes, Block->Size);
    if (Deferred != NULL) {
        VidmmReport("SHIM-DEFERRED", "a pool block is freed with a %s in it", Deferred);
    }
    *At = Block->Next;
    g_VidmmCounts.PoolBlocks--;
    g_VidmmCounts.PoolBytes -= Block->Size;
    memset(Block->Bytes, FREED, Block->Size);
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
