/*
 * The kernel functions that memory-management code of a display driver uses, as far as vidmm has them: the files of shim/ are their
 * implementation. What is counted and checked is said at each group. Written for vidmm from public documentation.
 */
#ifndef VIDMM_NTDDK_H
#define VIDMM_NTDDK_H

#include "ntdef.h"

EXTERN_C_START

typedef struct _MDL MDL, *PMDL;
typedef struct _DRIVER_OBJECT DRIVER_OBJECT, *PDRIVER_OBJECT;
typedef struct _DEVICE_OBJECT DEVICE_OBJECT, *PDEVICE_OBJECT;

/* ---- Messages ---- */

#define DPFLTR_IHVVIDEO_ID 78
#define DPFLTR_ERROR_LEVEL 0
#define DPFLTR_WARNING_LEVEL 1
#define DPFLTR_TRACE_LEVEL 2
#define DPFLTR_INFO_LEVEL 3

/* To standard error, if the environment has VIDMM_DBGPRINT. */
ULONG DbgPrint(PCSTR Format, ...) __attribute__((format(printf, 1, 2)));
ULONG DbgPrintEx(ULONG ComponentId, ULONG Level, PCSTR Format, ...) __attribute__((format(printf, 3, 4)));

/* A failed assertion and a bug check end the process: a finding under a supervisor. */
VOID RtlAssert(PCSTR Expression, PCSTR File, ULONG Line);
__attribute__((noreturn)) VOID KeBugCheckEx(ULONG Code, ULONG_PTR One, ULONG_PTR Two, ULONG_PTR Three, ULONG_PTR Four);
#define NT_ASSERT(expression) ((expression) ? (void)0 : RtlAssert(#expression, __FILE__, __LINE__))
#ifndef ASSERT
#define ASSERT(expression) NT_ASSERT(expression)
#endif

/* ---- The levels of interrupts ---- */

#define PASSIVE_LEVEL 0
#define APC_LEVEL 1
#define DISPATCH_LEVEL 2
#define DIRQL 5

/* At first the level at which vidmm has called the driver. */
KIRQL KeGetCurrentIrql(VOID);
VOID KeRaiseIrql(KIRQL NewIrql, PKIRQL OldIrql);
VOID KeLowerIrql(KIRQL NewIrql);

/*
 * ---- Pool ----
 *
 * Every block is counted. A free of what is not allocated, and bytes written behind a block's end, are reported at once
 * (SHIM-POOL-FREE, SHIM-POOL-OVERRUN); blocks that are left after RemoveDevice, then (SHIM-POOL-LEAK). A block has other bytes
 * than zeros unless zeros were asked for. The checks pool-1 to pool-24 let the n-th allocation of an adapter fail.
 */

typedef enum _POOL_TYPE {
    NonPagedPool = 0,
    PagedPool = 1,
    NonPagedPoolNx = 512
} POOL_TYPE;
typedef ULONG64 POOL_FLAGS;
#define POOL_FLAG_UNINITIALIZED 0x0000000000000002ULL
#define POOL_FLAG_NON_PAGED 0x0000000000000040ULL
#define POOL_FLAG_PAGED 0x0000000000000100ULL

PVOID ExAllocatePool2(POOL_FLAGS Flags, SIZE_T NumberOfBytes, ULONG Tag); /* zeros, without POOL_FLAG_UNINITIALIZED */
PVOID ExAllocatePoolWithTag(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);
PVOID ExAllocatePoolZero(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);
VOID ExFreePoolWithTag(PVOID Block, ULONG Tag); /* another tag than at allocation is reported: SHIM-POOL-TAG */
VOID ExFreePool(PVOID Block);

/* ---- Lists ---- */

FORCEINLINE VOID InitializeListHead(PLIST_ENTRY Head) {
    Head->Flink = Head->Blink = Head;
}

FORCEINLINE BOOLEAN IsListEmpty(const LIST_ENTRY *Head) {
    return Head->Flink == Head;
}

/* A list whose neighbours do not point back is broken: SHIM-LIST. */
VOID VidmmCheckListEntry(const LIST_ENTRY *Entry);

FORCEINLINE BOOLEAN RemoveEntryList(PLIST_ENTRY Entry) {
    PLIST_ENTRY Next = Entry->Flink, Previous = Entry->Blink;
    VidmmCheckListEntry(Entry);
    Previous->Flink = Next;
    Next->Blink = Previous;
    return Next == Previous;
}

FORCEINLINE VOID InsertHeadList(PLIST_ENTRY Head, PLIST_ENTRY Entry) {
    VidmmCheckListEntry(Head);
    Entry->Flink = Head->Flink;
    Entry->Blink = Head;
    Head->Flink->Blink = Entry;
    Head->Flink = Entry;
}

FORCEINLINE VOID InsertTailList(PLIST_ENTRY Head, PLIST_ENTRY Entry) {
    VidmmCheckListEntry(Head);
    Entry->Blink = Head->Blink;
    Entry->Flink = Head;
    Head->Blink->Flink = Entry;
    Head->Blink = Entry;
}

FORCEINLINE PLIST_ENTRY RemoveHeadList(PLIST_ENTRY Head) {
    PLIST_ENTRY Entry = Head->Flink;
    RemoveEntryList(Entry);
    return Entry;
}

FORCEINLINE PLIST_ENTRY RemoveTailList(PLIST_ENTRY Head) {
    PLIST_ENTRY Entry = Head->Blink;
    RemoveEntryList(Entry);
    return Entry;
}

/*
 * ---- Locks and events ----
 *
 * One thread calls the driver. So a lock that is acquired by the thread that holds it never comes free: it is reported
 * (SHIM-LOCK), as is the release of one that is not held, a lock that is held when a call returns, and, as long as the driver
 * has no threads of its own, a wait for an event that nothing can set (SHIM-WAIT).
 */

VOID KeInitializeSpinLock(PKSPIN_LOCK SpinLock);
VOID KeAcquireSpinLock(PKSPIN_LOCK SpinLock, PKIRQL OldIrql);
VOID KeReleaseSpinLock(PKSPIN_LOCK SpinLock, KIRQL NewIrql);
VOID KeAcquireSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock);
VOID KeReleaseSpinLockFromDpcLevel(PKSPIN_LOCK SpinLock);

typedef struct _FAST_MUTEX {
    ULONG_PTR Owner;
} FAST_MUTEX, *PFAST_MUTEX;

VOID ExInitializeFastMutex(PFAST_MUTEX FastMutex);
VOID ExAcquireFastMutex(PFAST_MUTEX FastMutex);
VOID ExReleaseFastMutex(PFAST_MUTEX FastMutex);

typedef enum _EVENT_TYPE { NotificationEvent, SynchronizationEvent } EVENT_TYPE;
typedef enum _KWAIT_REASON { Executive } KWAIT_REASON;
typedef enum _MODE { KernelMode, UserMode } KPROCESSOR_MODE;

typedef struct _KEVENT {
    EVENT_TYPE Type;
    LONG Signaled;
} KEVENT, *PKEVENT;

VOID KeInitializeEvent(PKEVENT Event, EVENT_TYPE Type, BOOLEAN State);
LONG KeSetEvent(PKEVENT Event, LONG Increment, BOOLEAN Wait);
VOID KeClearEvent(PKEVENT Event);
NTSTATUS KeWaitForSingleObject(PVOID Object, KWAIT_REASON Reason, KPROCESSOR_MODE Mode, BOOLEAN Alertable,
                               PLARGE_INTEGER Timeout);

#define InterlockedIncrement(value) __sync_add_and_fetch((value), 1)
#define InterlockedDecrement(value) __sync_sub_and_fetch((value), 1)
#define InterlockedExchange(value, with) __sync_lock_test_and_set((value), (with))
#define InterlockedCompareExchange(value, with, when) __sync_val_compare_and_swap((value), (when), (with))

/*
 * ---- Deferred work ----
 *
 * All of it runs in the thread that calls the driver, so that it is in the seed: a DPC as soon as the level falls below
 * DISPATCH_LEVEL, a work item when the call of the driver has returned, a timer when the world's time has come; and all of them
 * while the driver waits. Pool that is freed with a DPC or a timer in it that is still to run is reported, and so are timers that
 * are set after RemoveDevice (SHIM-DEFERRED); a work item that is queued twice, freed while it is queued, or never (SHIM-WORK-ITEM).
 */

typedef struct _KDPC KDPC, *PKDPC;
typedef VOID KDEFERRED_ROUTINE(PKDPC Dpc, PVOID DeferredContext, PVOID SystemArgument1, PVOID SystemArgument2);
typedef KDEFERRED_ROUTINE *PKDEFERRED_ROUTINE;

struct _KDPC {
    LIST_ENTRY DpcListEntry;
    PKDEFERRED_ROUTINE DeferredRoutine;
    PVOID DeferredContext;
    PVOID SystemArgument1;
    PVOID SystemArgument2;
    BOOLEAN IsQueued;
};

VOID KeInitializeDpc(PKDPC Dpc, PKDEFERRED_ROUTINE DeferredRoutine, PVOID DeferredContext);
BOOLEAN KeInsertQueueDpc(PKDPC Dpc, PVOID SystemArgument1, PVOID SystemArgument2);
BOOLEAN KeRemoveQueueDpc(PKDPC Dpc);
VOID KeFlushQueuedDpcs(VOID);

typedef struct _IO_WORKITEM *PIO_WORKITEM;
typedef VOID IO_WORKITEM_ROUTINE(PDEVICE_OBJECT DeviceObject, PVOID Context);
typedef IO_WORKITEM_ROUTINE *PIO_WORKITEM_ROUTINE;
typedef enum _WORK_QUEUE_TYPE { CriticalWorkQueue, DelayedWorkQueue } WORK_QUEUE_TYPE;

PIO_WORKITEM IoAllocateWorkItem(PDEVICE_OBJECT DeviceObject);
VOID IoQueueWorkItem(PIO_WORKITEM WorkItem, PIO_WORKITEM_ROUTINE WorkerRoutine, WORK_QUEUE_TYPE QueueType, PVOID Context);
VOID IoFreeWorkItem(PIO_WORKITEM WorkItem);

typedef enum _TIMER_TYPE { NotificationTimer, SynchronizationTimer } TIMER_TYPE;

typedef struct _KTIMER {
    KEVENT Fired; /* first: a timer is waited for as an event is */
    LIST_ENTRY TimerListEntry;
    UINT64 DueAt;
    BOOLEAN IsSet;
    LONG Period; /* in ms */
    PKDPC Dpc;
} KTIMER, *PKTIMER;

VOID KeInitializeTimer(PKTIMER Timer);
VOID KeInitializeTimerEx(PKTIMER Timer, TIMER_TYPE Type);
/* DueTime in 100 ns: relative if it is negative, else of KeQuerySystemTime. */
BOOLEAN KeSetTimer(PKTIMER Timer, LARGE_INTEGER DueTime, PKDPC Dpc);
BOOLEAN KeSetTimerEx(PKTIMER Timer, LARGE_INTEGER DueTime, LONG Period, PKDPC Dpc);
BOOLEAN KeCancelTimer(PKTIMER Timer);

/* The world's time, which begins at 0, and what has passed in waits, delays and stalls; in 100 ns. */
ULONGLONG KeQueryInterruptTime(VOID);
VOID KeQuerySystemTime(PLARGE_INTEGER CurrentTime);
LARGE_INTEGER KeQueryPerformanceCounter(PLARGE_INTEGER PerformanceFrequency);
VOID KeStallExecutionProcessor(ULONG MicroSeconds);
NTSTATUS KeDelayExecutionThread(KPROCESSOR_MODE WaitMode, BOOLEAN Alertable, PLARGE_INTEGER Interval);

/*
 * ---- Threads and handles ----
 *
 * A thread of the driver's is one of the process's. Those that run on after RemoveDevice are reported (SHIM-THREAD), and
 * handles that are not closed by then (SHIM-OPEN-HANDLE). A thread's object is waited for as an event is.
 */

typedef struct _OBJECT_ATTRIBUTES {
    ULONG Length;
    HANDLE RootDirectory;
    PUNICODE_STRING ObjectName;
    ULONG Attributes;
    PVOID SecurityDescriptor;
    PVOID SecurityQualityOfService;
} OBJECT_ATTRIBUTES, *POBJECT_ATTRIBUTES;

#define OBJ_CASE_INSENSITIVE 0x40
#define OBJ_KERNEL_HANDLE 0x200
#define InitializeObjectAttributes(p, n, a, r, s)                                                                      \
    ((p)->Length = sizeof(OBJECT_ATTRIBUTES), (p)->RootDirectory = (r), (p)->ObjectName = (n), (p)->Attributes = (a),  \
     (p)->SecurityDescriptor = (s), (p)->SecurityQualityOfService = NULL)

typedef VOID KSTART_ROUTINE(PVOID StartContext);
typedef KSTART_ROUTINE *PKSTART_ROUTINE;

#define THREAD_ALL_ACCESS 0x1FFFFF
NTSTATUS PsCreateSystemThread(PHANDLE ThreadHandle, ULONG DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes, HANDLE ProcessHandle,
                              PVOID ClientId, PKSTART_ROUTINE StartRoutine, PVOID StartContext);
NTSTATUS PsTerminateSystemThread(NTSTATUS ExitStatus);
/* ObjectType and AccessMode are not looked at. */
NTSTATUS ObReferenceObjectByHandle(HANDLE Handle, ACCESS_MASK DesiredAccess, PVOID ObjectType, KPROCESSOR_MODE AccessMode,
                                   PVOID *Object, PVOID HandleInformation);
VOID ObDereferenceObject(PVOID Object);
NTSTATUS ZwClose(HANDLE Handle);

/*
 * ---- The registry ----
 *
 * Every key is there, and all have the same values: those of `vidmm check --registry NAME=VALUE`, a REG_DWORD if VALUE is a
 * number and a REG_SZ otherwise.
 */

#define KEY_READ 0x20019
#define REG_SZ 1
#define REG_DWORD 4

typedef enum _KEY_VALUE_INFORMATION_CLASS { KeyValuePartialInformation = 2 } KEY_VALUE_INFORMATION_CLASS;

typedef struct _KEY_VALUE_PARTIAL_INFORMATION {
    ULONG TitleIndex;
    ULONG Type;
    ULONG DataLength;
    UCHAR Data[1];
} KEY_VALUE_PARTIAL_INFORMATION, *PKEY_VALUE_PARTIAL_INFORMATION;

VOID RtlInitUnicodeString(PUNICODE_STRING DestinationString, PCWSTR SourceString);
NTSTATUS ZwOpenKey(PHANDLE KeyHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes);
NTSTATUS ZwQueryValueKey(HANDLE KeyHandle, PUNICODE_STRING ValueName, KEY_VALUE_INFORMATION_CLASS Class, PVOID Information,
                         ULONG Length, PULONG ResultLength);

/*
 * ---- Lists of pages ----
 *
 * Neighbouring pages of an MDL do not follow one another, and the numbers behind its last page are of no page.
 */

PPFN_NUMBER MmGetMdlPfnArray(PMDL Mdl);
ULONG MmGetMdlByteCount(PMDL Mdl);
ULONG MmGetMdlByteOffset(PMDL Mdl); /* 0 */

EXTERN_C_END

#endif
