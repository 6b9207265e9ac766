/*
 * A small kernel: the functions of ntddk.h and vidmm_test.h, which a driver's library links. It counts what a driver takes, and
 * reports misuse by name.
 */
#include "vidmm_host.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static const VIDMM_HOST *g_Host;
/* Guards all that threads share, and tells of events. */
static pthread_mutex_t g_Lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_Changed = PTHREAD_COND_INITIALIZER;
/* Threads of the driver's own. */
static UINT64 g_Threads;
static UINT64 g_OpenHandles;
static __thread KIRQL g_Irql;
static __thread UINT64 g_LocksHeld;

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

static PVOID AllocateLocked(SIZE_T Size, ULONG Tag, int Fill) {
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

static PVOID Allocate(SIZE_T Size, ULONG Tag, int Fill) {
    PVOID Bytes;
    pthread_mutex_lock(&g_Lock);
    Bytes = AllocateLocked(Size, Tag, Fill);
    pthread_mutex_unlock(&g_Lock);
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
            Report("SHIM-POOL-OVERRUN", "a pool block of %zu bytes with tag '%s' was written %zu bytes behind its end",
                   Block->Size, Tag, At + 1);
            memset(Block->Bytes + Block->Size, CANARY, CANARY_BYTES);
            return;
        }
    }
}

static void FreeLocked(PVOID Bytes, const ULONG *Tag) {
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

static void Free(PVOID Bytes, const ULONG *Tag) {
    pthread_mutex_lock(&g_Lock);
    FreeLocked(Bytes, Tag);
    pthread_mutex_unlock(&g_Lock);
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
    pthread_mutex_lock(&g_Lock);
    for (At = 0; At < BUCKETS; At++) {
        for (Block = g_Buckets[At]; Block != NULL; Block = Block->Next) {
            CheckBlock(Block);
        }
    }
    pthread_mutex_unlock(&g_Lock);
}

static void FailPoolAt(UINT64 Number) {
    pthread_mutex_lock(&g_Lock);
    g_FailAt = Number;
    pthread_mutex_unlock(&g_Lock);
}

/* ---- Lists ---- */

VOID VidmmCheckListEntry(const LIST_ENTRY *Entry) {
    if (Entry->Flink->Blink != Entry || Entry->Blink->Flink != Entry) {
        Report("SHIM-LIST", "the neighbours of a list entry do not point back to it");
    }
}

/* ---- Locks and events ---- */

static UINT64 Threads(void) {
    UINT64 Count;
    pthread_mutex_lock(&g_Lock);
    Count = g_Threads;
    pthread_mutex_unlock(&g_Lock);
    return Count;
}

/* A thread is named by the address of what it alone has. */
static ULONG_PTR ThisThread(void) {
    return (ULONG_PTR)&g_Irql;
}

static void Acquire(const char *Kind, ULONG_PTR *Owner) {
    ULONG_PTR Me = ThisThread(), Holder = 0;
    g_LocksHeld++;
    while (!__atomic_compare_exchange_n(Owner, &Holder, Me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (Holder == Me || Threads() == 0) {
            Report("SHIM-LOCK", "a %s is acquired while it is held: the thread would wait for itself", Kind);
            __atomic_store_n(Owner, Me, __ATOMIC_RELEASE);
            return;
        }
        Holder = 0;
        sched_yield();
    }
}

static void Release(const char *Kind, ULONG_PTR *Owner) {
    if (__atomic_exchange_n(Owner, 0, __ATOMIC_RELEASE) != 0) {
        g_LocksHeld--;
    } else {
        Report("SHIM-LOCK", "a %s is released that is not held", Kind);
    }
}

VOID KeInitializeSpinLock(PKSPIN_LOCK SpinLock) {
    *SpinLock = 0;
}

VOID KeAcquireSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock) {
    Acquire("spin lock", SpinLock);
}

VOID KeReleaseSpinLockFromDpcLevel(PKSPIN_LOCK SpinLock) {
    Release("spin lock", SpinLock);
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
    FastMutex->Owner = 0;
}

VOID ExAcquireFastMutex(PFAST_MUTEX FastMutex) {
    if (g_Irql > APC_LEVEL) {
        Report("SHIM-IRQL", "a fast mutex is acquired at level %u: no more than APC_LEVEL is allowed", g_Irql);
    }
    Acquire("fast mutex", &FastMutex->Owner);
}

VOID ExReleaseFastMutex(PFAST_MUTEX FastMutex) {
    Release("fast mutex", &FastMutex->Owner);
}

VOID KeInitializeEvent(PKEVENT Event, EVENT_TYPE Type, BOOLEAN State) {
    Event->Type = Type;
    Event->Signaled = State;
}

LONG KeSetEvent(PKEVENT Event, LONG Increment, BOOLEAN Wait) {
    LONG Before;
    (void)Increment;
    (void)Wait;
    pthread_mutex_lock(&g_Lock);
    Before = Event->Signaled;
    Event->Signaled = 1;
    pthread_cond_broadcast(&g_Changed);
    pthread_mutex_unlock(&g_Lock);
    return Before;
}

VOID KeClearEvent(PKEVENT Event) {
    pthread_mutex_lock(&g_Lock);
    Event->Signaled = 0;
    pthread_mutex_unlock(&g_Lock);
}

/* Waits until something has changed. FALSE if it is not to wait any longer: a time is relative if it is negative, in 100 ns. */
static BOOLEAN WaitForChange(const LARGE_INTEGER *Timeout, const struct timespec *Until) {
    if (g_Threads == 0) {
        if (Timeout == NULL) {
            Report("SHIM-WAIT", "the driver waits for an event that nothing else can set: it would wait for ever");
        }
        return FALSE;
    }
    if (Timeout == NULL) {
        pthread_cond_wait(&g_Changed, &g_Lock);
        return TRUE;
    }
    return Timeout->QuadPart < 0 && pthread_cond_timedwait(&g_Changed, &g_Lock, Until) != ETIMEDOUT;
}

NTSTATUS KeWaitForSingleObject(PVOID Object, KWAIT_REASON Reason, KPROCESSOR_MODE Mode, BOOLEAN Alertable,
                               PLARGE_INTEGER Timeout) {
    PKEVENT Event = (PKEVENT)Object;
    NTSTATUS Status = STATUS_SUCCESS;
    struct timespec Until;
    (void)Reason;
    (void)Mode;
    (void)Alertable;
    clock_gettime(CLOCK_REALTIME, &Until);
    if (Timeout != NULL && Timeout->QuadPart < 0) {
        UINT64 Nanoseconds = (UINT64)Until.tv_nsec + (UINT64)-Timeout->QuadPart % 10000000 * 100;
        Until.tv_sec += (time_t)((UINT64)-Timeout->QuadPart / 10000000 + Nanoseconds / 1000000000);
        Until.tv_nsec = (long)(Nanoseconds % 1000000000);
    }
    pthread_mutex_lock(&g_Lock);
    while (!Event->Signaled && Status == STATUS_SUCCESS) {
        if (!WaitForChange(Timeout, &Until)) {
            Status = Timeout == NULL ? STATUS_SUCCESS : STATUS_TIMEOUT;
            break;
        }
    }
    if (Event->Signaled && Event->Type == SynchronizationEvent) {
        Event->Signaled = 0;
    }
    pthread_mutex_unlock(&g_Lock);
    return Status;
}

/* ---- Threads and handles ---- */

typedef enum _KIND { KindThread = 0x54485244, KindKey = 0x4B455920 } KIND;

typedef struct _OBJECT {
    KEVENT Ended; /* first: a thread is waited for as an event is */
    KIND Kind;
    LONG References;
    BOOLEAN IsOpen;
    PKSTART_ROUTINE StartRoutine;
    PVOID StartContext;
} OBJECT;

static __thread OBJECT *g_Thread;

static OBJECT *NewObject(KIND Kind) {
    OBJECT *Object = (OBJECT *)calloc(1, sizeof(*Object));
    if (Object != NULL) {
        Object->Kind = Kind;
        Object->References = 1;
        Object->IsOpen = TRUE;
        pthread_mutex_lock(&g_Lock);
        g_OpenHandles++;
        pthread_mutex_unlock(&g_Lock);
    }
    return Object;
}

/* With the lock held. */
static void Dereference(OBJECT *Object) {
    if (--Object->References == 0) {
        free(Object);
    }
}

static void EndThread(void) {
    OBJECT *Thread = g_Thread;
    pthread_mutex_lock(&g_Lock);
    g_Threads--;
    Thread->Ended.Signaled = 1;
    Dereference(Thread);
    pthread_cond_broadcast(&g_Changed);
    pthread_mutex_unlock(&g_Lock);
}

static void *RunThread(void *Argument) {
    g_Thread = (OBJECT *)Argument;
    g_Thread->StartRoutine(g_Thread->StartContext);
    EndThread();
    return NULL;
}

NTSTATUS PsCreateSystemThread(PHANDLE ThreadHandle, ULONG DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes, HANDLE ProcessHandle,
                              PVOID ClientId, PKSTART_ROUTINE StartRoutine, PVOID StartContext) {
    pthread_t Thread;
    OBJECT *Object = NewObject(KindThread);
    (void)DesiredAccess;
    (void)ObjectAttributes;
    (void)ProcessHandle;
    (void)ClientId;
    if (Object == NULL) {
        return STATUS_NO_MEMORY;
    }
    Object->Ended.Type = NotificationEvent;
    Object->StartRoutine = StartRoutine;
    Object->StartContext = StartContext;
    Object->References++;
    pthread_mutex_lock(&g_Lock);
    g_Threads++;
    pthread_mutex_unlock(&g_Lock);
    if (pthread_create(&Thread, NULL, RunThread, Object) != 0) {
        pthread_mutex_lock(&g_Lock);
        g_Threads--;
        g_OpenHandles--;
        pthread_mutex_unlock(&g_Lock);
        free(Object);
        return STATUS_NO_MEMORY;
    }
    pthread_detach(Thread);
    *ThreadHandle = Object;
    return STATUS_SUCCESS;
}

NTSTATUS PsTerminateSystemThread(NTSTATUS ExitStatus) {
    (void)ExitStatus;
    if (g_Thread == NULL) {
        return STATUS_INVALID_PARAMETER;
    }
    EndThread();
    pthread_exit(NULL);
}

NTSTATUS ObReferenceObjectByHandle(HANDLE Handle, ACCESS_MASK DesiredAccess, PVOID ObjectType, KPROCESSOR_MODE AccessMode,
                                   PVOID *Object, PVOID HandleInformation) {
    (void)DesiredAccess;
    (void)ObjectType;
    (void)AccessMode;
    (void)HandleInformation;
    if (Handle == NULL) {
        return STATUS_INVALID_HANDLE;
    }
    pthread_mutex_lock(&g_Lock);
    ((OBJECT *)Handle)->References++;
    pthread_mutex_unlock(&g_Lock);
    *Object = Handle;
    return STATUS_SUCCESS;
}

VOID ObDereferenceObject(PVOID Object) {
    pthread_mutex_lock(&g_Lock);
    Dereference((OBJECT *)Object);
    pthread_mutex_unlock(&g_Lock);
}

NTSTATUS ZwClose(HANDLE Handle) {
    OBJECT *Object = (OBJECT *)Handle;
    if (Object == NULL) {
        return STATUS_INVALID_HANDLE;
    }
    pthread_mutex_lock(&g_Lock);
    g_OpenHandles -= Object->IsOpen;
    Object->IsOpen = FALSE;
    Dereference(Object);
    pthread_mutex_unlock(&g_Lock);
    return STATUS_SUCCESS;
}

/* ---- The registry ---- */

#define VALUES_MAX 64

static struct {
    char Name[64];
    char Value[192];
} g_Values[VALUES_MAX];
static UINT g_ValueCount;

static void SetRegistryValue(const char *Name, const char *Value) {
    if (g_ValueCount < VALUES_MAX) {
        snprintf(g_Values[g_ValueCount].Name, sizeof(g_Values[0].Name), "%s", Name);
        snprintf(g_Values[g_ValueCount].Value, sizeof(g_Values[0].Value), "%s", Value);
        g_ValueCount++;
    }
}

VOID RtlInitUnicodeString(PUNICODE_STRING DestinationString, PCWSTR SourceString) {
    USHORT Length = 0;
    while (SourceString != NULL && SourceString[Length] != 0) {
        Length++;
    }
    DestinationString->Buffer = (PWSTR)(ULONG_PTR)SourceString;
    DestinationString->Length = (USHORT)(Length * sizeof(WCHAR));
    DestinationString->MaximumLength = (USHORT)(SourceString != NULL ? (Length + 1) * sizeof(WCHAR) : 0);
}

static void CheckPassive(const char *Function) {
    if (g_Irql > PASSIVE_LEVEL) {
        Report("SHIM-IRQL", "%s is called at level %u: no more than PASSIVE_LEVEL is allowed", Function, g_Irql);
    }
}

NTSTATUS ZwOpenKey(PHANDLE KeyHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes) {
    (void)DesiredAccess;
    (void)ObjectAttributes;
    CheckPassive("ZwOpenKey");
    *KeyHandle = NewObject(KindKey);
    return *KeyHandle != NULL ? STATUS_SUCCESS : STATUS_NO_MEMORY;
}

static BOOLEAN IsNamed(const UNICODE_STRING *Name, const char *Text) {
    USHORT At, Length = (USHORT)(Name->Length / sizeof(WCHAR));
    for (At = 0; At < Length; At++) {
        WCHAR Given = Name->Buffer[At], Own = (WCHAR)(unsigned char)Text[At];
        WCHAR Lower = (WCHAR)(Given >= 'A' && Given <= 'Z' ? Given + 32 : Given);
        if (Lower != (Own >= 'A' && Own <= 'Z' ? Own + 32 : Own) || Own == 0) {
            return FALSE;
        }
    }
    return Text[Length] == 0;
}

NTSTATUS ZwQueryValueKey(HANDLE KeyHandle, PUNICODE_STRING ValueName, KEY_VALUE_INFORMATION_CLASS Class, PVOID Information,
                         ULONG Length, PULONG ResultLength) {
    const OBJECT *Key = (const OBJECT *)KeyHandle;
    PKEY_VALUE_PARTIAL_INFORMATION Partial = (PKEY_VALUE_PARTIAL_INFORMATION)Information;
    UINT At = 0;
    WCHAR Text[sizeof(g_Values[0].Value)];
    ULONG Number, Size, Header = (ULONG)FIELD_OFFSET(KEY_VALUE_PARTIAL_INFORMATION, Data);
    char *End;
    BOOLEAN IsNumber;
    CheckPassive("ZwQueryValueKey");
    if (Key == NULL || Key->Kind != KindKey) {
        return STATUS_INVALID_HANDLE;
    }
    if (Class != KeyValuePartialInformation) {
        return STATUS_INVALID_PARAMETER;
    }
    while (At < g_ValueCount && !IsNamed(ValueName, g_Values[At].Name)) {
        At++;
    }
    if (At == g_ValueCount) {
        return STATUS_OBJECT_NAME_NOT_FOUND;
    }
    Number = (ULONG)strtoul(g_Values[At].Value, &End, 0);
    IsNumber = End != g_Values[At].Value && *End == 0;
    for (Size = 0; g_Values[At].Value[Size] != 0; Size++) {
        Text[Size] = (unsigned char)g_Values[At].Value[Size];
    }
    Text[Size] = 0;
    Size = IsNumber ? (ULONG)sizeof(Number) : (Size + 1) * (ULONG)sizeof(WCHAR);
    *ResultLength = Header + Size;
    if (Length < Header) {
        return STATUS_BUFFER_TOO_SMALL;
    }
    Partial->TitleIndex = 0;
    Partial->Type = IsNumber ? REG_DWORD : REG_SZ;
    Partial->DataLength = Size;
    if (Length < Header + Size) {
        return STATUS_BUFFER_OVERFLOW;
    }
    RtlCopyMemory(Partial->Data, IsNumber ? (const VOID *)&Number : (const VOID *)Text, Size);
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

BOOLEAN VidmmDecompressPage(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, UINT Surface, UINT64 Page) {
    return g_Host->DecompressPage(DeviceHandle, SegmentId, Offset, Surface, Page);
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
    pthread_mutex_lock(&g_Lock);
    *Counts = g_Counts;
    Counts->OpenHandles = g_OpenHandles;
    Counts->Threads = g_Threads;
    pthread_mutex_unlock(&g_Lock);
    Counts->LocksHeld = g_LocksHeld;
}

static void SetIrql(KIRQL Irql) {
    g_Irql = Irql;
}

EXPORT const VIDMM_SHIM *VidmmConnect(const VIDMM_HOST *Host) {
    static const VIDMM_SHIM Shim = {VIDMM_HOST_VERSION, GetCounts, CheckPool, FailPoolAt, SetIrql, SetRegistryValue};
    if (Host->Version != VIDMM_HOST_VERSION) {
        return NULL;
    }
    g_Host = Host;
    return &Shim;
}
