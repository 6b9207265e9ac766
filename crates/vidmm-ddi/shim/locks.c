/*
 * Levels of interrupts, lists, locks, events, and waits.
 */
/* For dladdr. */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <time.h>

/* ---- The levels of interrupts ---- */

__thread KIRQL g_VidmmIrql;
__thread UINT64 g_VidmmLocksHeld;

static const char *NameOf(KIRQL Irql) {
    static const char *const Names[] = {"PASSIVE_LEVEL", "APC_LEVEL", "DISPATCH_LEVEL"};
    return Irql < ARRAYSIZE(Names) ? Names[Irql] : "DIRQL";
}

void VidmmCheckIrql(const char *Function, KIRQL Highest) {
    if (g_VidmmIrql > Highest) {
        VidmmReport("SHIM-IRQL", "%s is called at %s: no more than %s is allowed", Function, NameOf(g_VidmmIrql), NameOf(Highest));
    }
}

KIRQL KeGetCurrentIrql(VOID) {
    return g_VidmmIrql;
}

VOID KeRaiseIrql(KIRQL NewIrql, PKIRQL OldIrql) {
    VidmmCheckIrql("KeRaiseIrql", NewIrql);
    *OldIrql = g_VidmmIrql;
    g_VidmmIrql = NewIrql;
    if (NewIrql >= DISPATCH_LEVEL) {
        VidmmTrim();
    }
}

VOID KeLowerIrql(KIRQL NewIrql) {
    g_VidmmIrql = NewIrql;
    VidmmRunDpcs();
}

/* ---- Lists ---- */

VOID VidmmCheckListEntry(const LIST_ENTRY *Entry) {
    if (Entry->Flink->Blink != Entry || Entry->Blink->Flink != Entry) {
        VidmmReport("SHIM-LIST", "the neighbours of a list entry do not point back to it");
    }
}

/* ---- Locks ---- */

static void Acquire(const char *Kind, ULONG_PTR *Owner, const VOID *Caller);
static void Release(const char *Kind, ULONG_PTR *Owner);

#define CALLER __builtin_return_address(0)

PLIST_ENTRY ExInterlockedInsertTailList(PLIST_ENTRY Head, PLIST_ENTRY Entry, PKSPIN_LOCK Lock) {
    PLIST_ENTRY Last;
    Acquire("spin lock", Lock, CALLER);
    Last = IsListEmpty(Head) ? NULL : Head->Blink;
    InsertTailList(Head, Entry);
    Release("spin lock", Lock);
    return Last;
}

PLIST_ENTRY ExInterlockedInsertHeadList(PLIST_ENTRY Head, PLIST_ENTRY Entry, PKSPIN_LOCK Lock) {
    PLIST_ENTRY First;
    Acquire("spin lock", Lock, CALLER);
    First = IsListEmpty(Head) ? NULL : Head->Flink;
    InsertHeadList(Head, Entry);
    Release("spin lock", Lock);
    return First;
}

PLIST_ENTRY ExInterlockedRemoveHeadList(PLIST_ENTRY Head, PKSPIN_LOCK Lock) {
    PLIST_ENTRY First;
    Acquire("spin lock", Lock, CALLER);
    First = IsListEmpty(Head) ? NULL : RemoveHeadList(Head);
    Release("spin lock", Lock);
    return First;
}

static UINT64 Threads(void) {
    UINT64 Count;
    pthread_mutex_lock(&g_VidmmLock);
    Count = g_VidmmCounts.Threads;
    pthread_mutex_unlock(&g_VidmmLock);
    return Count;
}

/* A thread is named by the address of what it alone has. */
static ULONG_PTR ThisThread(void) {
    return (ULONG_PTR)&g_VidmmIrql;
}

/* A lock that is held for so many turns is the lock of a thread that waits. */
#define MOST_TURNS 100000

#define HELD_MAX 8

/* The locks that are held, and where another process sees the places of their acquisitions. */
static const ULONG_PTR *g_Held[HELD_MAX];
static UINT64 *g_HeldPlaces;
static UINT g_HeldCount;
static ULONG_PTR g_Library;

void VidmmSetHeldLocks(UINT64 *Places, UINT Count) {
    Dl_info Library;
    g_HeldPlaces = Places;
    g_HeldCount = min(Count, HELD_MAX);
    g_Library = dladdr((const VOID *)(ULONG_PTR)VidmmSetHeldLocks, &Library) ? (ULONG_PTR)Library.dli_fbase : 0;
}

static void NoteHeld(const ULONG_PTR *Owner, UINT64 Kind, const VOID *Caller) {
    UINT At;
    for (At = 0; At < g_HeldCount; At++) {
        const ULONG_PTR *None = NULL;
        if (__atomic_compare_exchange_n(&g_Held[At], &None, Owner, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            g_HeldPlaces[At] = Kind << 48 | (((ULONG_PTR)Caller - g_Library) & 0xFFFFFFFFFFFFull);
            return;
        }
    }
}

static void NoteReleased(const ULONG_PTR *Owner) {
    UINT At;
    for (At = 0; At < g_HeldCount; At++) {
        if (__atomic_load_n(&g_Held[At], __ATOMIC_RELAXED) == Owner) {
            g_HeldPlaces[At] = 0;
            __atomic_store_n(&g_Held[At], NULL, __ATOMIC_RELEASE);
            return;
        }
    }
}

static void Acquire(const char *Kind, ULONG_PTR *Owner, const VOID *Caller) {
    ULONG_PTR Me = ThisThread(), Holder = 0;
    UINT Turns = 0;
    VidmmCheckNotPaged(Kind, Owner);
    VidmmYield();
    g_VidmmLocksHeld++;
    while (!__atomic_compare_exchange_n(Owner, &Holder, Me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (Holder == Me || Threads() == 0 || ++Turns == MOST_TURNS) {
            VidmmReport("SHIM-LOCK", "a %s is acquired while it is held: the thread would wait for itself", Kind);
            __atomic_store_n(Owner, Me, __ATOMIC_RELEASE);
            return;
        }
        Holder = 0;
        VidmmYield();
        if (!VidmmTakesTurns()) {
            Turns = 0;
            sched_yield();
        }
    }
    NoteHeld(Owner, *Kind == 's' ? 1 : 2, Caller);
}

static void Release(const char *Kind, ULONG_PTR *Owner) {
    NoteReleased(Owner);
    if (__atomic_exchange_n(Owner, 0, __ATOMIC_RELEASE) != 0) {
        g_VidmmLocksHeld--;
    } else {
        VidmmReport("SHIM-LOCK", "a %s is released that is not held", Kind);
    }
    VidmmYield();
}

VOID KeInitializeSpinLock(PKSPIN_LOCK SpinLock) {
    VidmmCheckNotPaged("spin lock", SpinLock);
    *SpinLock = 0;
}

VOID KeAcquireSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock) {
    Acquire("spin lock", SpinLock, CALLER);
}

VOID KeReleaseSpinLockFromDpcLevel(PKSPIN_LOCK SpinLock) {
    Release("spin lock", SpinLock);
}

VOID KeAcquireSpinLock(PKSPIN_LOCK SpinLock, PKIRQL OldIrql) {
    VidmmCheckIrql("KeAcquireSpinLock", DISPATCH_LEVEL);
    *OldIrql = g_VidmmIrql;
    g_VidmmIrql = DISPATCH_LEVEL;
    Acquire("spin lock", SpinLock, CALLER);
    VidmmTrim();
}

VOID KeReleaseSpinLock(PKSPIN_LOCK SpinLock, KIRQL NewIrql) {
    KeReleaseSpinLockFromDpcLevel(SpinLock);
    KeLowerIrql(NewIrql);
}

VOID ExInitializeFastMutex(PFAST_MUTEX FastMutex) {
    VidmmCheckNotPaged("fast mutex", FastMutex);
    FastMutex->Owner = 0;
}

VOID ExAcquireFastMutex(PFAST_MUTEX FastMutex) {
    VidmmCheckIrql("ExAcquireFastMutex", APC_LEVEL);
    Acquire("fast mutex", &FastMutex->Owner, CALLER);
}

VOID ExReleaseFastMutex(PFAST_MUTEX FastMutex) {
    Release("fast mutex", &FastMutex->Owner);
}

/* ---- Events ---- */

VOID KeInitializeEvent(PKEVENT Event, EVENT_TYPE Type, BOOLEAN State) {
    VidmmCheckNotPaged("event", Event);
    Event->Type = Type;
    Event->Signaled = State;
}

LONG KeSetEvent(PKEVENT Event, LONG Increment, BOOLEAN Wait) {
    LONG Before;
    (void)Increment;
    (void)Wait;
    VidmmCheckIrql("KeSetEvent", DISPATCH_LEVEL);
    VidmmYield();
    pthread_mutex_lock(&g_VidmmLock);
    Before = Event->Signaled;
    Event->Signaled = 1;
    pthread_cond_broadcast(&g_VidmmChanged);
    pthread_mutex_unlock(&g_VidmmLock);
    return Before;
}

VOID KeClearEvent(PKEVENT Event) {
    VidmmCheckIrql("KeClearEvent", DISPATCH_LEVEL);
    pthread_mutex_lock(&g_VidmmLock);
    Event->Signaled = 0;
    pthread_mutex_unlock(&g_VidmmLock);
}

/* The time in so many nanoseconds, of the clock by which threads wait. */
static struct timespec RealTimeIn(UINT64 Nanoseconds) {
    struct timespec Time;
    clock_gettime(CLOCK_REALTIME, &Time);
    Nanoseconds += (UINT64)Time.tv_nsec;
    Time.tv_sec += (time_t)(Nanoseconds / 1000000000);
    Time.tv_nsec = (long)(Nanoseconds % 1000000000);
    return Time;
}

static BOOLEAN IsPast(const struct timespec *Time) {
    struct timespec Now = RealTimeIn(0);
    return Now.tv_sec != Time->tv_sec ? Now.tv_sec > Time->tv_sec : Now.tv_nsec >= Time->tv_nsec;
}

static void TakeLocked(PKEVENT Event) {
    if (Event->Type == SynchronizationEvent) {
        Event->Signaled = 0;
    }
}

/* With the lock held: takes the signal of one of the events, or of all. STATUS_TIMEOUT if there is none. */
NTSTATUS VidmmTakeSignalsLocked(ULONG Count, PVOID Objects[], WAIT_TYPE WaitType) {
    ULONG At, Signaled = 0;
    for (At = 0; At < Count; At++) {
        PKEVENT Event = (PKEVENT)Objects[At];
        if (Event->Signaled != 0 && WaitType == WaitAny) {
            TakeLocked(Event);
            return STATUS_WAIT_0 + (NTSTATUS)At;
        }
        Signaled += Event->Signaled != 0;
    }
    if (WaitType == WaitAny || Signaled < Count) {
        return STATUS_TIMEOUT;
    }
    for (At = 0; At < Count; At++) {
        TakeLocked((PKEVENT)Objects[At]);
    }
    return STATUS_SUCCESS;
}

BOOLEAN VidmmHasSignalsLocked(ULONG Count, PVOID Objects[], WAIT_TYPE WaitType) {
    ULONG At, Signaled = 0;
    for (At = 0; At < Count; At++) {
        Signaled += ((PKEVENT)Objects[At])->Signaled != 0;
    }
    return Count > 0 && (WaitType == WaitAny ? Signaled > 0 : Signaled == Count);
}

static NTSTATUS Take(ULONG Count, PVOID Objects[], WAIT_TYPE WaitType) {
    NTSTATUS Status;
    pthread_mutex_lock(&g_VidmmLock);
    Status = VidmmTakeSignalsLocked(Count, Objects, WaitType);
    pthread_mutex_unlock(&g_VidmmLock);
    return Status;
}

/* Lets other threads run until one tells of an event, for a millisecond at most: deferred work may be queued meanwhile. */
static BOOLEAN HasChanged(ULONG Count, PVOID Objects[], WAIT_TYPE WaitType, UINT64 WaitsUntil) {
    struct timespec Until = RealTimeIn(1000000);
    BOOLEAN Changed;
    pthread_mutex_lock(&g_VidmmLock);
    VidmmBeginWaitLocked(Count, Objects, WaitType, WaitsUntil);
    Changed = VidmmHasSignalsLocked(Count, Objects, WaitType) ||
              pthread_cond_timedwait(&g_VidmmChanged, &g_VidmmLock, &Until) != ETIMEDOUT;
    VidmmEndWaitLocked();
    pthread_mutex_unlock(&g_VidmmLock);
    return Changed;
}

/* In units of 100 ns: a relative time is negative. */
static UINT64 UnitsOf(const LARGE_INTEGER *Timeout) {
    UINT64 Now = KeQueryInterruptTime();
    if (Timeout == NULL) {
        return UINT64_MAX;
    }
    if (Timeout->QuadPart < 0) {
        return (UINT64)-Timeout->QuadPart;
    }
    return (UINT64)Timeout->QuadPart > Now ? (UINT64)Timeout->QuadPart - Now : 0;
}

/* Threads wait by the clock of the machine. Where the driver has none, what it has deferred is all that can end a wait. */
static NTSTATUS Wait(ULONG Count, PVOID Objects[], WAIT_TYPE WaitType, PLARGE_INTEGER Timeout) {
    UINT64 Until, Units = UnitsOf(Timeout), Begun = KeQueryInterruptTime();
    struct timespec RealUntil = RealTimeIn(Units < UINT64_MAX / 100 ? Units * 100 : 0);
    NTSTATUS Status;
    Until = Units < UINT64_MAX - Begun ? Begun + Units : UINT64_MAX;
    if (Units != 0) {
        VidmmCheckIrql("KeWaitForSingleObject", APC_LEVEL);
        VidmmForgetCancelled();
    }
    if (VidmmTakesTurns()) {
        return VidmmWaitInTurn(Count, Objects, WaitType, Units == 0 ? 0 : Until);
    }
    for (;;) {
        UINT64 Now = KeQueryInterruptTime();
        /* Asked before the event is: the last thing that a thread does may be to set it. */
        BOOLEAN HasThreads = Threads() != 0;
        Status = Take(Count, Objects, WaitType);
        if (Status != STATUS_TIMEOUT) {
            return Status;
        }
        if (Units == 0 || (HasThreads && Timeout != NULL && IsPast(&RealUntil))) {
            return STATUS_TIMEOUT;
        }
        if (VidmmRunOne() || (HasThreads && (HasChanged(Count, Objects, WaitType, Until) || VidmmIsOwnThread()))) {
            continue;
        }
        if (Until > Now && VidmmFireTimer(Until == UINT64_MAX ? UINT64_MAX : Until - Now)) {
            continue;
        }
        if (HasThreads) {
            continue;
        }
        if (Timeout == NULL) {
            VidmmReport("SHIM-WAIT", "the driver waits for an event that nothing else can set: it would wait for ever");
            return STATUS_SUCCESS;
        }
        return STATUS_TIMEOUT;
    }
}

NTSTATUS KeWaitForSingleObject(PVOID Object, KWAIT_REASON Reason, KPROCESSOR_MODE Mode, BOOLEAN Alertable,
                               PLARGE_INTEGER Timeout) {
    (void)Reason;
    (void)Mode;
    (void)Alertable;
    return Wait(1, &Object, WaitAny, Timeout);
}

NTSTATUS KeWaitForMultipleObjects(ULONG Count, PVOID Object[], WAIT_TYPE WaitType, KWAIT_REASON Reason, KPROCESSOR_MODE Mode,
                                  BOOLEAN Alertable, PLARGE_INTEGER Timeout, PKWAIT_BLOCK WaitBlockArray) {
    (void)Reason;
    (void)Mode;
    (void)Alertable;
    (void)WaitBlockArray;
    return Wait(Count, Object, WaitType, Timeout);
}
