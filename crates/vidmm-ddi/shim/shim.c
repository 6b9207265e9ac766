/*
 * A small kernel: the functions of ntddk.h and vidmm_test.h, which a driver's library links. It counts what a driver takes, and
 * reports misuse by name. One thread uses it at a time.
 */
#include "vidmm_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static const VIDMM_HOST *g_Host;
static KIRQL g_Irql;
static UINT64 g_LocksHeld;

static void Report(const char *Rule, const char *Format, ...) __attribute__((format(printf, 2, 3)));

static void Report(const char *Rule, const char *Format, ...) {
    char Message[256];
    va_list Arguments;
    va_start(Arguments, Format);
    vsnprintf(Message, sizeof(Message), Format, Arguments);
    va_end(Arguments);
    if (g_Host != NULL) {
        g_Host->Report(Rule, Message);
    }
}

/* ---- Messages ---- */

static void Print(const char *Format, va_list Arguments) {
    if (getenv("VIDMM_DBGPRINT") != NULL) {
        vfprintf(stderr, Format, Arguments);
    }
}

ULONG DbgPrint(PCSTR Format, ...) {
    va_list Arguments;
    va_start(Arguments, Format);
    Print(Format, Arguments);
    va_end(Arguments);
    return STATUS_SUCCESS;
}

ULONG DbgPrintEx(ULONG ComponentId, ULONG Level, PCSTR Format, ...) {
    va_list Arguments;
    (void)ComponentId;
    (void)Level;
    va_start(Arguments, Format);
    Print(Format, Arguments);
    va_end(Arguments);
    return STATUS_SUCCESS;
}

VOID RtlAssert(PCSTR Expression, PCSTR File, ULONG Line) {
    fprintf(stderr, "%s:%u: assertion failed: %s\n", File, Line, Expression);
    abort();
}

VOID KeBugCheckEx(ULONG Code, ULONG_PTR One, ULONG_PTR Two, ULONG_PTR Three, ULONG_PTR Four) {
    fprintf(stderr, "bug check %#x (%#zx, %#zx, %#zx, %#zx)\n", Code, One, Two, Three, Four);
    abort();
}

KIRQL KeGetCurrentIrql(VOID) {
    return g_Irql;
}

/* ---- Pool ---- */

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
static VIDMM_SHIM_COUNTS g_Counts;
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

static PVOID Allocate(SIZE_T Size, ULONG Tag, int Fill) {
    BLOCK *Block, **Bucket;
    g_Counts.PoolAllocations++;
    if (g_FailAt != 0 && --g_FailAt == 0) {
        return NULL;
    }
    if (g_Irql > DISPATCH_LEVEL) {
        Report("SHIM-IRQL", "pool is allocated at level %u: no more than DISPATCH_LEVEL is allowed", g_Irql);
    }
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
    g_Counts.PoolBlocks++;
    g_Counts.PoolBytes += Size;
    return Block->Bytes;
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
            Report("SHIM-POOL-OVERRUN", "a pool block of %zu bytes with tag '%s' was written %zu bytes behind its end",
                   Block->Size, Tag, At + 1);
            memset(Block->Bytes + Block->Size, CANARY, CANARY_BYTES);
            return;
        }
    }
}

static void Free(PVOID Bytes, const ULONG *Tag) {
    BLOCK **At = BucketOf(Bytes), *Block;
    while (*At != NULL && (*At)->Bytes != (unsigned char *)Bytes) {
        At = &(*At)->Next;
    }
    Block = *At;
    if (Block == NULL) {
        Report("SHIM-POOL-FREE", "%p is freed, and no pool block is there: freed twice, or never allocated", Bytes);
        return;
    }
    if (Tag != NULL && *Tag != 0 && *Tag != Block->Tag) {
        char Given[5], Own[5];
        TagText(*Tag, Given);
        TagText(Block->Tag, Own);
        Report("SHIM-POOL-TAG", "a pool block with tag '%s' is freed with tag '%s'", Own, Given);
    }
    CheckBlock(Block);
    *At = Block->Next;
    g_Counts.PoolBlocks--;
    g_Counts.PoolBytes -= Block->Size;
    memset(Block->Bytes, FREED, Block->Size);
    free(Block->Bytes);
    free(Block);
}

VOID ExFreePoolWithTag(PVOID Block, ULONG Tag) {
    Free(Block, &Tag);
}

VOID ExFreePool(PVOID Block) {
    Free(Block, NULL);
}

static void CheckPool(void) {
    int At;
    const BLOCK *Block;
    for (At = 0; At < BUCKETS; At++) {
        for (Block = g_Buckets[At]; Block != NULL; Block = Block->Next) {
            CheckBlock(Block);
        }
    }
}

static void FailPoolAt(UINT64 Number) {
    g_FailAt = Number;
}

/* ---- Lists ---- */

VOID VidmmCheckListEntry(const LIST_ENTRY *Entry) {
    if (Entry->Flink->Blink != Entry || Entry->Blink->Flink != Entry) {
        Report("SHIM-LIST", "the neighbours of a list entry do not point back to it");
    }
}

/* ---- Locks and events ---- */

static void Acquire(const char *Kind, int IsHeld) {
    g_LocksHeld++;
    if (IsHeld) {
        Report("SHIM-LOCK", "a %s is acquired while it is held: the thread would wait for itself", Kind);
    }
}

static void Release(const char *Kind, int IsHeld) {
    if (IsHeld) {
        g_LocksHeld--;
    } else {
        Report("SHIM-LOCK", "a %s is released that is not held", Kind);
    }
}

VOID KeInitializeSpinLock(PKSPIN_LOCK SpinLock) {
    *SpinLock = 0;
}

VOID KeAcquireSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock) {
    Acquire("spin lock", *SpinLock != 0);
    *SpinLock = 1;
}

VOID KeReleaseSpinLockFromDpcLevel(PKSPIN_LOCK SpinLock) {
    Release("spin lock", *SpinLock != 0);
    *SpinLock = 0;
}

VOID KeAcquireSpinLock(PKSPIN_LOCK SpinLock, PKIRQL OldIrql) {
    if (g_Irql > DISPATCH_LEVEL) {
        Report("SHIM-IRQL", "a spin lock is acquired at level %u: no more than DISPATCH_LEVEL is allowed", g_Irql);
    }
    *OldIrql = g_Irql;
    g_Irql = DISPATCH_LEVEL;
    KeAcquireSpinLockAtDpcLevel(SpinLock);
}

VOID KeReleaseSpinLock(PKSPIN_LOCK SpinLock, KIRQL NewIrql) {
    KeReleaseSpinLockFromDpcLevel(SpinLock);
    g_Irql = NewIrql;
}

VOID ExInitializeFastMutex(PFAST_MUTEX FastMutex) {
    FastMutex->IsHeld = 0;
}

VOID ExAcquireFastMutex(PFAST_MUTEX FastMutex) {
    if (g_Irql > APC_LEVEL) {
        Report("SHIM-IRQL", "a fast mutex is acquired at level %u: no more than APC_LEVEL is allowed", g_Irql);
    }
    Acquire("fast mutex", FastMutex->IsHeld);
    FastMutex->IsHeld = 1;
}

VOID ExReleaseFastMutex(PFAST_MUTEX FastMutex) {
    Release("fast mutex", FastMutex->IsHeld);
    FastMutex->IsHeld = 0;
}

VOID KeInitializeEvent(PKEVENT Event, EVENT_TYPE Type, BOOLEAN State) {
    Event->Type = Type;
    Event->Signaled = State;
}

LONG KeSetEvent(PKEVENT Event, LONG Increment, BOOLEAN Wait) {
    LONG Before = Event->Signaled;
    (void)Increment;
    (void)Wait;
    Event->Signaled = 1;
    return Before;
}

VOID KeClearEvent(PKEVENT Event) {
    Event->Signaled = 0;
}

NTSTATUS KeWaitForSingleObject(PVOID Object, KWAIT_REASON Reason, KPROCESSOR_MODE Mode, BOOLEAN Alertable,
                               PLARGE_INTEGER Timeout) {
    PKEVENT Event = (PKEVENT)Object;
    (void)Reason;
    (void)Mode;
    (void)Alertable;
    if (!Event->Signaled) {
        if (Timeout == NULL) {
            Report("SHIM-WAIT", "the driver waits for an event that nothing else can set: it would wait for ever");
        }
        return Timeout == NULL ? STATUS_SUCCESS : (NTSTATUS)0x00000102; /* STATUS_TIMEOUT */
    }
    if (Event->Type == SynchronizationEvent) {
        Event->Signaled = 0;
    }
    return STATUS_SUCCESS;
}

/* ---- Lists of pages ---- */

PPFN_NUMBER MmGetMdlPfnArray(PMDL Mdl) {
    return Mdl->Pages;
}

ULONG MmGetMdlByteCount(PMDL Mdl) {
    return Mdl->ByteCount;
}

ULONG MmGetMdlByteOffset(PMDL Mdl) {
    (void)Mdl;
    return 0;
}

/* ---- The driver's table, and the model of its GPU ---- */

NTSTATUS DxgkInitialize(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath,
                        PDRIVER_INITIALIZATION_DATA DriverInitializationData) {
    (void)DriverObject;
    (void)RegistryPath;
    return DriverInitializationData == NULL ? STATUS_INVALID_PARAMETER : g_Host->Initialize(DriverInitializationData);
}

BOOLEAN VidmmReadMemory(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, VOID *Data, SIZE_T Size) {
    return g_Host->ReadMemory(DeviceHandle, SegmentId, Offset, Data, Size);
}

BOOLEAN VidmmWriteMemory(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, const VOID *Data, SIZE_T Size) {
    return g_Host->WriteMemory(DeviceHandle, SegmentId, Offset, Data, Size);
}

BOOLEAN VidmmCopyPage(HANDLE DeviceHandle, UINT ToSegment, UINT64 ToOffset, UINT FromSegment, UINT64 FromOffset) {
    return g_Host->CopyPage(DeviceHandle, ToSegment, ToOffset, FromSegment, FromOffset);
}

BOOLEAN VidmmFillPage(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, UINT Pattern) {
    return g_Host->FillPage(DeviceHandle, SegmentId, Offset, Pattern);
}

const VOID *VidmmMapDmaBuffer(HANDLE DeviceHandle, UINT64 Address, SIZE_T Size) {
    return g_Host->MapDmaBuffer(DeviceHandle, Address, Size);
}

BOOLEAN VidmmRunUserWork(HANDLE DeviceHandle, UINT NodeOrdinal, UINT64 Address, SIZE_T Size, UINT64 *FaultAddress,
                         BOOLEAN *FaultIsWrite) {
    return g_Host->RunUserWork(DeviceHandle, NodeOrdinal, Address, Size, FaultAddress, FaultIsWrite);
}

VOID VidmmRaiseInterrupt(HANDLE DeviceHandle, ULONG MessageNumber) {
    g_Host->RaiseInterrupt(DeviceHandle, MessageNumber);
}

/* ---- The connection ---- */

static void GetCounts(VIDMM_SHIM_COUNTS *Counts) {
    *Counts = g_Counts;
    Counts->LocksHeld = g_LocksHeld;
}

static void SetIrql(KIRQL Irql) {
    g_Irql = Irql;
}

EXPORT const VIDMM_SHIM *VidmmConnect(const VIDMM_HOST *Host) {
    static const VIDMM_SHIM Shim = {VIDMM_HOST_VERSION, GetCounts, CheckPool, FailPoolAt, SetIrql};
    if (Host->Version != VIDMM_HOST_VERSION) {
        return NULL;
    }
    g_Host = Host;
    return &Shim;
}
