/*
 * What the files of the shim share. Not for drivers.
 */
#ifndef VIDMM_SHIM_H
#define VIDMM_SHIM_H

#include "ntddk.h"
#include "vidmm_host.h"

#include <pthread.h>

extern const VIDMM_HOST *g_VidmmHost;
/* Guards all that threads share. */
extern pthread_mutex_t g_VidmmLock;
/* Tells of events. */
extern pthread_cond_t g_VidmmChanged;
/* But for LocksHeld, which each thread has of its own. */
extern VIDMM_SHIM_COUNTS g_VidmmCounts;
extern __thread KIRQL g_VidmmIrql;
extern __thread UINT64 g_VidmmLocksHeld;

void VidmmReport(const char *Rule, const char *Format, ...) __attribute__((format(printf, 2, 3)));
/* Reports a function that is called above its highest level of interrupts. */
void VidmmCheckIrql(const char *Function, KIRQL Highest);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VIDMM_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VIDMM_IS_SANITIZED 1
#endif
#endif
#ifndef VIDMM_IS_SANITIZED
#define VIDMM_IS_SANITIZED 0
#endif

/* ---- Pool ---- */

void VidmmCheckPool(void);
void VidmmFailAt(UINT64 Number);
/* The function of the driver that runs, for what is left over. */
const char *VidmmCall(void);
/* Reports what was allocated behind so many allocations, and is left. */
void VidmmReportLeaks(UINT64 After);
/* With the lock held: a block, or contiguous memory without a tag, is left. */
void VidmmAddLeakLocked(UINT64 Number, SIZE_T Size, ULONG Tag, const char *Call);
void VidmmAddContiguousLeaksLocked(UINT64 After);

/* ---- Pageable pool ---- */

void VidmmSetTrims(BOOLEAN Trims);
/* Memory of whole pages, for ever; NULL without. */
BYTE *VidmmNewPagedLocked(SIZE_T Size);
BOOLEAN VidmmIsPaged(const VOID *Address);
/* The level rises to DISPATCH_LEVEL or above. */
void VidmmTrim(void);
/* Pages in. FALSE if the address is not in pageable pool. */
BOOLEAN VidmmPageIn(const VOID *Address);
void VidmmCheckNotPaged(const char *Kind, const VOID *Object);
/* With the lock held: an allocation of anything is asked for, and counted. Whether it is to fail. */
BOOLEAN VidmmFailsLocked(void);

/* ---- Stack ---- */

void VidmmSetMeasures(BOOLEAN Measures);
/* A call of the driver begins below this frame. */
void VidmmBeginStack(VOID *Frame);
/* The bytes that the driver has taken; 0 if none are measured. */
UINT64 VidmmEndStack(void);
/* What runs until the resumption is not the driver, or has a stack of its own. */
void VidmmPauseStack(void);
void VidmmResumeStack(void);
void VidmmPauseInCallbacks(DXGKRNL_INTERFACE *Interface);

/* ---- MDLs of operations ---- */

VOID *VidmmNewMdlMemory(SIZE_T Size);
void VidmmHideMdlMemory(VOID *Address);
/* Lets accesses pass again. FALSE if the address is in no MDL whose packet has ended. */
BOOLEAN VidmmShowMdlMemory(const VOID *Address);
void VidmmFreeMdlMemory(void);

/* ---- Memory of users ---- */

VOID *VidmmVanishedCopy(UINT Number, const VOID *Bytes, SIZE_T Size);
BOOLEAN VidmmHasVanished(const VOID *Address);
/* A copy whose bytes change at a moment of the next call; NULL without memory, or where no instruction can be traced. */
VOID *VidmmChangingCopy(UINT Number, const VOID *Bytes, SIZE_T Size);
/* The moment, of all or of those at which the C library begins to read; 0 is never. And the moments of the last call. */
VOID VidmmSetChange(UINT64 Moment, BOOLEAN IsOfCopies);
UINT64 VidmmCountMoments(BOOLEAN OfCopies);
/* An instruction reads memory that changes: the instruction goes on. */
BOOLEAN VidmmReadChanging(const VOID *Address, VOID *Context);

/* ---- Memory ---- */

/* The bytes of contiguous memory at a physical address; NULL if there are not so many. */
VOID *VidmmContiguousBytes(UINT64 Address, SIZE_T Size);
/* What the driver has written into mappings reaches the pages, and the other way round. */
void VidmmCompareMappings(void);
/* An MDL of a paging operation is over. */
void VidmmRetireMdl(PMDL Mdl);
/* The registers at a physical address. */
VOID *VidmmMapRegisters(UINT64 Address, SIZE_T Size);
/* The CM_RESOURCE_LIST of the device. */
const VOID *VidmmResources(void);

/* ---- Turns of threads ---- */

/* A thread, and what the thread waits for. */
typedef struct _VIDMM_TASK {
    struct _VIDMM_TASK *Next;
    BOOLEAN IsWaiting;
    ULONG Count;
    PVOID *Objects;
    WAIT_TYPE WaitType;
    UINT64 Until; /* in units of 100 ns; UINT64_MAX without a limit */
} VIDMM_TASK;

/* Whether the driver has threads that run in turn with the caller. */
BOOLEAN VidmmTakesTurns(void);
BOOLEAN VidmmIsRacing(void);
void VidmmSetMachine(UINT64 Seed, UINT64 HighestAddress, BOOLEAN IsRacing, UINT Drawn);
void VidmmSetHighestAddressLocked(UINT64 HighestAddress);
/* Says why the process ends. */
void VidmmSayLastWords(const char *Format, ...) __attribute__((format(printf, 1, 2)));
void VidmmInstallFaultHandlers(void);
VOID *VidmmGuardedCopy(UINT Number, const VOID *Object, SIZE_T Size, BOOLEAN IsAtEnd);
/* Another thread may run. */
void VidmmYield(void);
void VidmmAddTaskLocked(VIDMM_TASK *Task);
void VidmmEndTaskLocked(VIDMM_TASK *Task);
/* The calling thread is this task, and waits for a turn. */
void VidmmBeginTask(VIDMM_TASK *Task);
/* The driver's threads run until each waits. */
void VidmmSettleThreads(void);
/* Whether each thread of the driver waits, without a limit, for events that are not set. */
BOOLEAN VidmmThreadsAreIdle(void);
/* With the lock held: whether a thread waits for an event in these bytes. */
BOOLEAN VidmmIsWaitedForLocked(const void *Bytes, SIZE_T Size);
/* With the lock held: the calling thread begins to wait until a time, or has ended its wait. */
void VidmmBeginWaitLocked(ULONG Count, PVOID Objects[], WAIT_TYPE WaitType, UINT64 Until);
void VidmmEndWaitLocked(void);
/* The driver's threads go on, if need be by a wait that ends within a time. FALSE if nothing has run. */
BOOLEAN VidmmStepThreads(UINT64 Nanoseconds);
NTSTATUS VidmmWaitInTurn(ULONG Count, PVOID Objects[], WAIT_TYPE WaitType, UINT64 Until);
/* With the lock held. */
BOOLEAN VidmmHasSignalsLocked(ULONG Count, PVOID Objects[], WAIT_TYPE WaitType);
NTSTATUS VidmmTakeSignalsLocked(ULONG Count, PVOID Objects[], WAIT_TYPE WaitType);
UINT64 VidmmNowLocked(void);

/* ---- Threads and handles ---- */

typedef enum _VIDMM_KIND { VidmmThread = 0x54485244, VidmmKey = 0x4B455920 } VIDMM_KIND;

typedef struct _VIDMM_OBJECT {
    KEVENT Ended; /* first: a thread is waited for as an event is */
    VIDMM_KIND Kind;
    LONG References;
    BOOLEAN IsOpen;
    PKSTART_ROUTINE StartRoutine;
    PVOID StartContext;
    VIDMM_TASK Task;
} VIDMM_OBJECT;

/* NULL without memory. */
VIDMM_OBJECT *VidmmNewObject(VIDMM_KIND Kind);
/* Whether the thread is one of the driver's own. */
BOOLEAN VidmmIsOwnThread(void);

/* ---- The registry ---- */

void VidmmSetRegistryValue(const char *Name, const char *Value);

/* ---- Deferred work ---- */

/* A call of the driver has returned: what it has deferred runs. */
void VidmmEndCall(BOOLEAN IsOutermost);
/* The time is so many nanoseconds: timers fire. An earlier time than the last is that of another world. */
void VidmmSetTime(UINT64 Nanoseconds);
/* Runs the DPCs that are queued, if the level allows it. */
void VidmmRunDpcs(void);
/* Runs a DPC or a work item that is queued. FALSE if there is none. */
BOOLEAN VidmmRunOne(void);
/* Lets the timer fire that is due first, if that is in so many units of 100 ns, which pass; if none is, they pass all. */
BOOLEAN VidmmFireTimer(UINT64 Within);
/* With the lock held: whether a DPC or a work item is queued. */
BOOLEAN VidmmHasDeferredLocked(void);
/* Forgets all that is deferred. */
void VidmmForget(void);
/* The driver waits: DPCs of cancelled timers have run by then. */
void VidmmForgetCancelled(void);
/* Where the locks stand that are held. */
void VidmmSetHeldLocks(UINT64 *Places, UINT Count);
/* With the lock held: what is deferred in these bytes is forgotten. Its kind; NULL if there is nothing. */
const char *VidmmForgetDeferred(const void *Bytes, SIZE_T Size);

#endif
