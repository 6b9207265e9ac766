/*
 * The kernel functions that memory-management code of a display driver uses, as far as vidmm has them: the files of shim/ are their
 * implementation. What is counted and checked is said at each group. Written for vidmm from public documentation.
 */
#ifndef VIDMM_NTDDK_H
#define VIDMM_NTDDK_H

#include "ntdef.h"

#include <stdarg.h>

EXTERN_C_START

typedef struct _MDL MDL, *PMDL;
typedef BOOLEAN KSYNCHRONIZE_ROUTINE(PVOID SynchronizeContext);
typedef KSYNCHRONIZE_ROUTINE *PKSYNCHRONIZE_ROUTINE;
typedef struct _DRIVER_OBJECT DRIVER_OBJECT, *PDRIVER_OBJECT;
typedef NTSTATUS DRIVER_INITIALIZE(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath), (*PDRIVER_INITIALIZE)(PDRIVER_OBJECT, PUNICODE_STRING);
typedef VOID DRIVER_UNLOAD(PDRIVER_OBJECT DriverObject), (*PDRIVER_UNLOAD)(PDRIVER_OBJECT);

/* How far the priority of a thread rises that KeSetEvent wakes. */
#define IO_NO_INCREMENT 0
#define IO_DISK_INCREMENT 1
#define IO_VIDEO_INCREMENT 1
#define EVENT_INCREMENT 1
#define SEMAPHORE_INCREMENT 1

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
/* -DDBG=0 is a free build, without assertions. */
#ifndef DBG
#define DBG 1
#endif
#if DBG
#define NT_ASSERT(expression) ((expression) ? (void)0 : RtlAssert(#expression, __FILE__, __LINE__))
#else
#define NT_ASSERT(expression) ((void)0)
#endif
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
 * than zeros unless zeros were asked for. The checks pool-1 to pool-24 let the n-th allocation of an adapter fail. In one check of
 * eight pageable pool is paged out at each rise to DISPATCH_LEVEL: an access there is reported (SHIM-IRQL, DRV-15).
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

#define InterlockedAnd(value, with) __sync_fetch_and_and((value), (with))
#define InterlockedOr(value, with) __sync_fetch_and_or((value), (with))
#define InterlockedAdd64(value, with) __sync_add_and_fetch((value), (with))
#define InterlockedIncrement64(value) __sync_add_and_fetch((value), 1)
#define InterlockedDecrement64(value) __sync_sub_and_fetch((value), 1)
/* __sync_lock_test_and_set would be half a barrier. */
#define InterlockedExchange64(value, with) __atomic_exchange_n((value), (with), __ATOMIC_SEQ_CST)
#define InterlockedExchangePointer(value, with) __atomic_exchange_n((value), (with), __ATOMIC_SEQ_CST)
#define InterlockedCompareExchange64(value, with, when) __sync_val_compare_and_swap((value), (when), (with))
#define InterlockedIncrement(value) __sync_add_and_fetch((value), 1)
#define InterlockedDecrement(value) __sync_sub_and_fetch((value), 1)
#define InterlockedExchange(value, with) __atomic_exchange_n((value), (with), __ATOMIC_SEQ_CST)
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
    BOOLEAN HasFired;
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
 * ---- Memory and its addresses ----
 *
 * An MDL lists pages of system memory, of a paging operation or of the driver's own. Neighbouring pages do not follow one another,
 * and the numbers behind the last page are of no page. An MDL of a paging operation lives until its packet has ended (DRV-03): then
 * its numbers are those of pages that are nowhere. A mapping shows the pages; the bytes that the driver changes reach the pages when
 * a call of the driver returns, and when the mapping ends.
 */

struct _MDL {
    struct _MDL *Next;
    CSHORT Size;
    CSHORT MdlFlags;
    PVOID MappedSystemVa; /* with MDL_MAPPED_TO_SYSTEM_VA */
    PVOID StartVa;
    ULONG ByteCount;
    ULONG ByteOffset;
    PFN_NUMBER *Pages;
};

#define MDL_MAPPED_TO_SYSTEM_VA 0x0001
#define MDL_PAGES_LOCKED 0x0002
#define MDL_SOURCE_IS_NONPAGED_POOL 0x0004

typedef enum _MEMORY_CACHING_TYPE { MmNonCached = 0, MmCached = 1, MmWriteCombined = 2 } MEMORY_CACHING_TYPE;
typedef enum _LOCK_OPERATION { IoReadAccess, IoWriteAccess, IoModifyAccess } LOCK_OPERATION;
typedef enum _MM_PAGE_PRIORITY { LowPagePriority, NormalPagePriority = 16, HighPagePriority = 32 } MM_PAGE_PRIORITY;
#define MdlMappingNoExecute 0x40000000
#define MdlMappingNoWrite 0x80000000

typedef struct _PHYSICAL_MEMORY_RANGE {
    PHYSICAL_ADDRESS BaseAddress;
    LARGE_INTEGER NumberOfBytes;
} PHYSICAL_MEMORY_RANGE, *PPHYSICAL_MEMORY_RANGE;

typedef struct _IRP IRP, *PIRP;

PPFN_NUMBER MmGetMdlPfnArray(PMDL Mdl);
ULONG MmGetMdlByteCount(PMDL Mdl);
ULONG MmGetMdlByteOffset(PMDL Mdl);
PVOID MmGetMdlVirtualAddress(PMDL Mdl);
PVOID MmGetSystemAddressForMdlSafe(PMDL Mdl, ULONG Priority);
PVOID MmMapLockedPagesSpecifyCache(PMDL Mdl, KPROCESSOR_MODE AccessMode, MEMORY_CACHING_TYPE CacheType, PVOID RequestedAddress,
                                   ULONG BugCheckOnFailure, ULONG Priority);
VOID MmUnmapLockedPages(PVOID BaseAddress, PMDL Mdl);
PMDL IoAllocateMdl(PVOID VirtualAddress, ULONG Length, BOOLEAN SecondaryBuffer, BOOLEAN ChargeQuota, PIRP Irp);
VOID IoFreeMdl(PMDL Mdl);
VOID MmBuildMdlForNonPagedPool(PMDL Mdl);
VOID MmProbeAndLockPages(PMDL Mdl, KPROCESSOR_MODE AccessMode, LOCK_OPERATION Operation);
VOID MmUnlockPages(PMDL Mdl);
PMDL MmAllocatePagesForMdlEx(PHYSICAL_ADDRESS Low, PHYSICAL_ADDRESS High, PHYSICAL_ADDRESS Skip, SIZE_T TotalBytes,
                             MEMORY_CACHING_TYPE CacheType, ULONG Flags);
VOID MmFreePagesFromMdl(PMDL Mdl);
VOID KeFlushIoBuffers(PMDL Mdl, BOOLEAN ReadOperation, BOOLEAN DmaOperation);

/* Counted as pool is. The model of the GPU finds the bytes in segment 0, at the physical address. */
PVOID MmAllocateContiguousMemory(SIZE_T NumberOfBytes, PHYSICAL_ADDRESS HighestAcceptableAddress);
PVOID MmAllocateContiguousMemorySpecifyCache(SIZE_T NumberOfBytes, PHYSICAL_ADDRESS Lowest, PHYSICAL_ADDRESS Highest,
                                             PHYSICAL_ADDRESS BoundaryAddressMultiple, MEMORY_CACHING_TYPE CacheType);
VOID MmFreeContiguousMemory(PVOID BaseAddress);
VOID MmFreeContiguousMemorySpecifyCache(PVOID BaseAddress, SIZE_T NumberOfBytes, MEMORY_CACHING_TYPE CacheType);
/* Of contiguous memory, and of the DMA buffer that the driver is handed; 0 for other addresses. */
PHYSICAL_ADDRESS MmGetPhysicalAddress(PVOID BaseAddress);
PVOID MmGetVirtualForPhysical(PHYSICAL_ADDRESS PhysicalAddress);
PPHYSICAL_MEMORY_RANGE MmGetPhysicalMemoryRanges(VOID); /* one, and one of zeros; freed by ExFreePool */
BOOLEAN MmIsAddressValid(PVOID VirtualAddress);

/* Registers are memory of zeros at first: the same bytes for the same physical address. */
PVOID MmMapIoSpace(PHYSICAL_ADDRESS PhysicalAddress, SIZE_T NumberOfBytes, MEMORY_CACHING_TYPE CacheType);
PVOID MmMapIoSpaceEx(PHYSICAL_ADDRESS PhysicalAddress, SIZE_T NumberOfBytes, ULONG Protect);
VOID MmUnmapIoSpace(PVOID BaseAddress, SIZE_T NumberOfBytes);

#define VIDMM_REGISTER(name, type)                                                                                               \
    FORCEINLINE type READ_REGISTER_##name(volatile type *Register) {                                                             \
        return *Register;                                                                                                        \
    }                                                                                                                            \
    FORCEINLINE VOID WRITE_REGISTER_##name(volatile type *Register, type Value) {                                                \
        *Register = Value;                                                                                                       \
    }                                                                                                                            \
    FORCEINLINE type READ_REGISTER_NOFENCE_##name(volatile type *Register) {                                                     \
        return *Register;                                                                                                        \
    }                                                                                                                            \
    FORCEINLINE VOID WRITE_REGISTER_NOFENCE_##name(volatile type *Register, type Value) {                                        \
        *Register = Value;                                                                                                       \
    }                                                                                                                            \
    FORCEINLINE VOID READ_REGISTER_BUFFER_##name(volatile type *Register, type *Buffer, ULONG Count) {                           \
        while (Count-- > 0) {                                                                                                    \
            *Buffer++ = *Register++;                                                                                             \
        }                                                                                                                        \
    }                                                                                                                            \
    FORCEINLINE VOID WRITE_REGISTER_BUFFER_##name(volatile type *Register, type *Buffer, ULONG Count) {                          \
        while (Count-- > 0) {                                                                                                    \
            *Register++ = *Buffer++;                                                                                             \
        }                                                                                                                        \
    }                                                                                                                            \
    FORCEINLINE VOID READ_REGISTER_NOFENCE_BUFFER_##name(volatile type *Register, type *Buffer, ULONG Count) {                   \
        READ_REGISTER_BUFFER_##name(Register, Buffer, Count);                                                                    \
    }
VIDMM_REGISTER(UCHAR, UCHAR)
VIDMM_REGISTER(USHORT, USHORT)
VIDMM_REGISTER(ULONG, ULONG)
VIDMM_REGISTER(ULONG64, ULONG64)

/* There are no ports: reads give ones, and writes are dropped. */
#define VIDMM_PORT(name, type)                                                                                                   \
    FORCEINLINE type READ_PORT_##name(type *Port) {                                                                              \
        UNREFERENCED_PARAMETER(Port);                                                                                            \
        return (type)~(type)0;                                                                                                   \
    }                                                                                                                            \
    FORCEINLINE VOID WRITE_PORT_##name(type *Port, type Value) {                                                                 \
        UNREFERENCED_PARAMETER(Port);                                                                                            \
        UNREFERENCED_PARAMETER(Value);                                                                                           \
    }                                                                                                                            \
    FORCEINLINE VOID WRITE_PORT_BUFFER_##name(type *Port, type *Buffer, ULONG Count) {                                           \
        UNREFERENCED_PARAMETER(Port);                                                                                            \
        UNREFERENCED_PARAMETER(Buffer);                                                                                          \
        UNREFERENCED_PARAMETER(Count);                                                                                           \
    }
VIDMM_PORT(UCHAR, UCHAR)
VIDMM_PORT(USHORT, USHORT)
VIDMM_PORT(ULONG, ULONG)

/* ---- The resources of a device ---- */

#define CmResourceTypeInterrupt 2
#define CmResourceTypeMemory 3
#define CmResourceTypeMemoryLarge 7
#define CM_RESOURCE_MEMORY_LARGE_40 0x0200
#define CM_RESOURCE_MEMORY_LARGE_48 0x0400
#define CM_RESOURCE_MEMORY_LARGE_64 0x0800

#pragma pack(push, 4)
typedef struct _CM_PARTIAL_RESOURCE_DESCRIPTOR {
    UCHAR Type;
    UCHAR ShareDisposition;
    USHORT Flags;
    union {
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length;
        } Generic, Port, Memory;
        struct {
            ULONG Level;
            ULONG Vector;
            ULONG_PTR Affinity;
        } Interrupt;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length40;
        } Memory40;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length48;
        } Memory48;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length64;
        } Memory64;
        struct {
            ULONG Data[3];
        } DevicePrivate;
    } u;
} CM_PARTIAL_RESOURCE_DESCRIPTOR, *PCM_PARTIAL_RESOURCE_DESCRIPTOR;
#pragma pack(pop)

typedef struct _CM_PARTIAL_RESOURCE_LIST {
    USHORT Version;
    USHORT Revision;
    ULONG Count;
    CM_PARTIAL_RESOURCE_DESCRIPTOR PartialDescriptors[1];
} CM_PARTIAL_RESOURCE_LIST, *PCM_PARTIAL_RESOURCE_LIST;

typedef struct _CM_FULL_RESOURCE_DESCRIPTOR {
    UINT InterfaceType;
    ULONG BusNumber;
    CM_PARTIAL_RESOURCE_LIST PartialResourceList;
} CM_FULL_RESOURCE_DESCRIPTOR, *PCM_FULL_RESOURCE_DESCRIPTOR;

typedef struct _CM_RESOURCE_LIST {
    ULONG Count;
    CM_FULL_RESOURCE_DESCRIPTOR List[1];
} CM_RESOURCE_LIST, *PCM_RESOURCE_LIST;

/* ---- Lookaside lists, bit maps, texts, sums ---- */

typedef struct _NPAGED_LOOKASIDE_LIST {
    SIZE_T Size;
    ULONG Tag;
} NPAGED_LOOKASIDE_LIST, *PNPAGED_LOOKASIDE_LIST;

VOID ExInitializeNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside, PVOID Allocate, PVOID Free, ULONG Flags, SIZE_T Size,
                                     ULONG Tag, USHORT Depth);
VOID ExDeleteNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside);
PVOID ExAllocateFromNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside);
VOID ExFreeToNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside, PVOID Entry);
PVOID ExAllocatePoolUninitialized(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);

typedef struct _RTL_BITMAP {
    ULONG SizeOfBitMap;
    PULONG Buffer;
} RTL_BITMAP, *PRTL_BITMAP;

VOID RtlInitializeBitMap(PRTL_BITMAP BitMap, PULONG Buffer, ULONG SizeOfBitMap);
VOID RtlClearAllBits(PRTL_BITMAP BitMap);
VOID RtlSetBit(PRTL_BITMAP BitMap, ULONG Bit);
VOID RtlClearBit(PRTL_BITMAP BitMap, ULONG Bit);
VOID RtlSetBits(PRTL_BITMAP BitMap, ULONG First, ULONG Count);
VOID RtlClearBits(PRTL_BITMAP BitMap, ULONG First, ULONG Count);
BOOLEAN RtlTestBit(PRTL_BITMAP BitMap, ULONG Bit);
ULONG RtlFindClearBitsAndSet(PRTL_BITMAP BitMap, ULONG Count, ULONG Hint); /* 0xFFFFFFFF: there are none */

SIZE_T RtlCompareMemory(const VOID *One, const VOID *Two, SIZE_T Length);
NTSTATUS RtlSizeTAdd(SIZE_T One, SIZE_T Two, PSIZE_T Result);
NTSTATUS RtlSizeTMult(SIZE_T One, SIZE_T Two, PSIZE_T Result);
NTSTATUS RtlULongAdd(ULONG One, ULONG Two, PULONG Result);
VOID RtlInitAnsiString(PANSI_STRING String, PCSZ Text);
NTSTATUS RtlAnsiStringToUnicodeString(PUNICODE_STRING Destination, PANSI_STRING Source, BOOLEAN Allocate);
VOID RtlFreeUnicodeString(PUNICODE_STRING String);
NTSTATUS RtlIntegerToUnicodeString(ULONG Value, ULONG Base, PUNICODE_STRING String);
NTSTATUS RtlStringCbVPrintfA(PSTR Destination, SIZE_T Bytes, PCSTR Format, va_list Arguments);
NTSTATUS RtlStringCchPrintfA(PSTR Destination, SIZE_T Characters, PCSTR Format, ...);
/* Formats of 2-byte text are not carried out: STATUS_NOT_SUPPORTED. */
NTSTATUS RtlStringCbPrintfW(PWSTR Destination, SIZE_T Bytes, PCWSTR Format, ...);
NTSTATUS RtlUnicodeStringPrintf(PUNICODE_STRING Destination, PCWSTR Format, ...);

/* ---- More of threads, processes and processors ---- */

typedef struct _KTHREAD *PKTHREAD, *PETHREAD, *PRKTHREAD;
typedef struct _EPROCESS *PEPROCESS;
typedef PVOID PACCESS_TOKEN;
typedef PVOID *POBJECT_TYPE;
extern POBJECT_TYPE *PsThreadType;
extern POBJECT_TYPE *MmSectionObjectType;

PKTHREAD KeGetCurrentThread(VOID);
PEPROCESS PsGetCurrentProcess(VOID);
HANDLE PsGetCurrentProcessId(VOID);
PACCESS_TOKEN PsReferencePrimaryToken(PEPROCESS Process);
VOID PsDereferencePrimaryToken(PACCESS_TOKEN Token);
KPROCESSOR_MODE ExGetPreviousMode(VOID);
KPRIORITY KeSetPriorityThread(PKTHREAD Thread, KPRIORITY Priority);
ULONG KeGetCurrentProcessorNumber(VOID);
ULONG KeQueryTimeIncrement(VOID);
VOID KeQueryTickCount(PLARGE_INTEGER TickCount);
typedef struct _KFLOATING_SAVE {
    ULONG Dummy;
} KFLOATING_SAVE, *PKFLOATING_SAVE;
NTSTATUS KeSaveFloatingPointState(PKFLOATING_SAVE Save);
NTSTATUS KeRestoreFloatingPointState(PKFLOATING_SAVE Save);
VOID ObReferenceObject(PVOID Object);
#define KeMemoryBarrier() __sync_synchronize()

typedef enum _WAIT_TYPE { WaitAll, WaitAny } WAIT_TYPE;
typedef struct _KWAIT_BLOCK {
    PVOID Reserved[6];
} KWAIT_BLOCK, *PKWAIT_BLOCK;
#define MAXIMUM_WAIT_OBJECTS 64
NTSTATUS KeWaitForMultipleObjects(ULONG Count, PVOID Object[], WAIT_TYPE WaitType, KWAIT_REASON Reason, KPROCESSOR_MODE Mode,
                                  BOOLEAN Alertable, PLARGE_INTEGER Timeout, PKWAIT_BLOCK WaitBlockArray);

typedef VOID WORKER_THREAD_ROUTINE(PVOID Parameter);
typedef WORKER_THREAD_ROUTINE *PWORKER_THREAD_ROUTINE;
typedef struct _WORK_QUEUE_ITEM {
    LIST_ENTRY List;
    PWORKER_THREAD_ROUTINE WorkerRoutine;
    PVOID Parameter;
} WORK_QUEUE_ITEM, *PWORK_QUEUE_ITEM;
#define ExInitializeWorkItem(item, routine, parameter)                                                                           \
    ((item)->WorkerRoutine = (routine), (item)->Parameter = (parameter), (item)->List.Flink = NULL)
VOID ExQueueWorkItem(PWORK_QUEUE_ITEM WorkItem, WORK_QUEUE_TYPE QueueType);

PLIST_ENTRY ExInterlockedInsertTailList(PLIST_ENTRY Head, PLIST_ENTRY Entry, PKSPIN_LOCK Lock);
PLIST_ENTRY ExInterlockedInsertHeadList(PLIST_ENTRY Head, PLIST_ENTRY Entry, PKSPIN_LOCK Lock);
PLIST_ENTRY ExInterlockedRemoveHeadList(PLIST_ENTRY Head, PKSPIN_LOCK Lock);

/* ---- Power, and the machine around: nothing of it is here, and each function says so by its status ---- */

typedef enum _DEVICE_POWER_STATE {
    PowerDeviceUnspecified = 0,
    PowerDeviceD0 = 1,
    PowerDeviceD1 = 2,
    PowerDeviceD2 = 3,
    PowerDeviceD3 = 4
} DEVICE_POWER_STATE;
typedef enum _POWER_ACTION {
    PowerActionNone = 0,
    PowerActionReserved = 1,
    PowerActionSleep = 2,
    PowerActionHibernate = 3,
    PowerActionShutdown = 4,
    PowerActionShutdownReset = 5,
    PowerActionShutdownOff = 6,
    PowerActionWarmEject = 7
} POWER_ACTION;

typedef struct _IO_STACK_LOCATION *PIO_STACK_LOCATION;
typedef struct _FILE_OBJECT *PFILE_OBJECT;
typedef struct _IO_STATUS_BLOCK {
    union {
        NTSTATUS Status;
        PVOID Pointer;
    };
    ULONG_PTR Information;
} IO_STATUS_BLOCK, *PIO_STATUS_BLOCK;
typedef struct _RTL_QUERY_REGISTRY_TABLE *PRTL_QUERY_REGISTRY_TABLE;
typedef UINT DEVICE_REGISTRY_PROPERTY;

VOID IoCompleteRequest(PIRP Irp, CHAR PriorityBoost);
NTSTATUS IoCreateDevice(PDRIVER_OBJECT DriverObject, ULONG ExtensionSize, PUNICODE_STRING Name, ULONG DeviceType,
                        ULONG Characteristics, BOOLEAN Exclusive, PDEVICE_OBJECT *DeviceObject);
VOID IoDeleteDevice(PDEVICE_OBJECT DeviceObject);
PKEVENT IoCreateNotificationEvent(PUNICODE_STRING Name, PHANDLE Handle);
NTSTATUS IoCreateSymbolicLink(PUNICODE_STRING Link, PUNICODE_STRING Device);
NTSTATUS IoDeleteSymbolicLink(PUNICODE_STRING Link);
PIO_STACK_LOCATION IoGetCurrentIrpStackLocation(PIRP Irp);
NTSTATUS IoGetDeviceObjectPointer(PUNICODE_STRING Name, ACCESS_MASK Access, PFILE_OBJECT *FileObject, PDEVICE_OBJECT *DeviceObject);
NTSTATUS IoGetDeviceProperty(PDEVICE_OBJECT DeviceObject, DEVICE_REGISTRY_PROPERTY Property, ULONG Length, PVOID Buffer,
                             PULONG ResultLength);
NTSTATUS IoOpenDeviceRegistryKey(PDEVICE_OBJECT DeviceObject, ULONG Type, ACCESS_MASK Access, PHANDLE Key);
ULONG HalGetBusDataByOffset(UINT BusDataType, ULONG Bus, ULONG Slot, PVOID Buffer, ULONG Offset, ULONG Length);
ULONG HalSetBusDataByOffset(UINT BusDataType, ULONG Bus, ULONG Slot, PVOID Buffer, ULONG Offset, ULONG Length);
NTSTATUS RtlQueryRegistryValues(ULONG RelativeTo, PCWSTR Path, PRTL_QUERY_REGISTRY_TABLE Table, PVOID Context, PVOID Environment);
NTSTATUS ZwCreateFile(PHANDLE File, ACCESS_MASK Access, POBJECT_ATTRIBUTES Attributes, PIO_STATUS_BLOCK Status,
                      PLARGE_INTEGER AllocationSize, ULONG FileAttributes, ULONG Share, ULONG Disposition, ULONG Options,
                      PVOID EaBuffer, ULONG EaLength);
NTSTATUS ZwWriteFile(HANDLE File, HANDLE Event, PVOID ApcRoutine, PVOID ApcContext, PIO_STATUS_BLOCK Status, PVOID Buffer,
                     ULONG Length, PLARGE_INTEGER Offset, PULONG Key);
NTSTATUS ZwSetValueKey(HANDLE Key, PUNICODE_STRING Name, ULONG TitleIndex, ULONG Type, PVOID Data, ULONG Size);
NTSTATUS ZwQuerySystemInformation(UINT Class, PVOID Information, ULONG Length, PULONG ResultLength);

EXTERN_C_END

/*
 * ---- Structured exceptions ----
 *
 * ExRaiseStatus, ProbeForRead, ProbeForWrite and an access to no memory raise one. The frame of a __try is gone before the handler
 * runs. `return`, `break`, `continue` and `goto` leave a __try, and `__leave` goes on behind the handler. `__finally` is refused. A
 * __try and its handler are two statements, so both together are no body of a loop without braces (SHIM-TRY). Files with a __try are
 * compiled with -O1 -fno-inline in C.
 */

#include <setjmp.h>

typedef struct _VIDMM_FRAME {
    struct _VIDMM_FRAME *Before;
    sigjmp_buf Place;
} VIDMM_FRAME;

EXTERN_C_START
VOID VidmmPushFrame(VIDMM_FRAME *Frame);
VOID VidmmPopFrame(VIDMM_FRAME *Frame);
/* Whether the __try before has raised an exception. */
int VidmmHasRaised(VOID);
/* Whether the handler runs; goes on to the next frame if it does not. */
int VidmmFilter(int Decision);
NTSTATUS VidmmExceptionCode(VOID);
__attribute__((noreturn)) VOID ExRaiseStatus(NTSTATUS Status);
VOID ProbeForRead(const volatile VOID *Address, SIZE_T Length, ULONG Alignment);
VOID ProbeForWrite(volatile VOID *Address, SIZE_T Length, ULONG Alignment);
EXTERN_C_END

#define EXCEPTION_EXECUTE_HANDLER 1
#define EXCEPTION_CONTINUE_SEARCH 0
#define EXCEPTION_CONTINUE_EXECUTION (-1)
#define GetExceptionCode VidmmExceptionCode

#define __try                                                                                                                    \
    {                                                                                                                            \
        __label__ vidmm_leave;                                                                                                   \
        VIDMM_FRAME vidmm_frame __attribute__((cleanup(VidmmPopFrame)));                                                         \
        VidmmPushFrame(&vidmm_frame);                                                                                            \
        if (sigsetjmp(vidmm_frame.Place, 0) == 0)
#define __leave goto vidmm_leave
#define __except(filter)                                                                                                         \
    vidmm_leave:                                                                                                                 \
        __attribute__((unused));                                                                                                 \
    }                                                                                                                            \
    if (!(VidmmHasRaised() && VidmmFilter(filter))) {                                                                            \
    } else
/* A driver with `__finally` does not compile, and reads why. */
#define __finally _Pragma("GCC error \"vidmm has no __finally: release in the handler and behind the __try\"")

#endif
