/*
 * What a driver defers: DPCs, work items and timers, and the time. All run in the thread that calls the driver, when the level of
 * interrupts falls, when a call returns, or when the driver waits: so they are in the seed. Time is the world's, and passes where
 * the driver waits.
 */
#include "shim.h"

#include <stdlib.h>
#include <time.h>

#define UNITS_PER_SECOND 10000000

struct _IO_WORKITEM {
    LIST_ENTRY Entry;
    PDEVICE_OBJECT DeviceObject;
    PIO_WORKITEM_ROUTINE WorkerRoutine;
    PVOID Context;
    BOOLEAN IsQueued;
};

/* All with the lock held. Oldest first. */
static LIST_ENTRY g_Dpcs = {&g_Dpcs, &g_Dpcs};
static LIST_ENTRY g_WorkItems = {&g_WorkItems, &g_WorkItems};
static LIST_ENTRY g_Timers = {&g_Timers, &g_Timers};
/* DPCs of timers cancelled after an expiry: the DPC may still run on another processor. */
#define CANCELLED_MAX 16
static PKDPC g_Cancelled[CANCELLED_MAX];
/* In units of 100 ns: the world's time, and what has passed beside it in waits. */
static UINT64 g_WorldTime, g_Waited;

static void Lock(void) {
    pthread_mutex_lock(&g_VidmmLock);
}

static void Unlock(void) {
    pthread_mutex_unlock(&g_VidmmLock);
}

/* ---- DPCs ---- */

/* An object that is made anew while it is in a list would break that list. */
static void CheckNotDeferred(const void *Object, SIZE_T Size) {
    const char *Kind;
    Lock();
    Kind = VidmmForgetDeferred(Object, Size);
    Unlock();
    if (Kind != NULL) {
        VidmmReport("SHIM-DEFERRED", "a %s is initialised again", Kind);
    }
}

VOID KeInitializeDpc(PKDPC Dpc, PKDEFERRED_ROUTINE DeferredRoutine, PVOID DeferredContext) {
    CheckNotDeferred(Dpc, sizeof(*Dpc));
    VidmmCheckNotPaged("DPC", Dpc);
    RtlZeroMemory(Dpc, sizeof(*Dpc));
    Dpc->DeferredRoutine = DeferredRoutine;
    Dpc->DeferredContext = DeferredContext;
}

static BOOLEAN QueueDpcLocked(PKDPC Dpc, PVOID One, PVOID Two) {
    if (Dpc->IsQueued) {
        return FALSE;
    }
    Dpc->IsQueued = TRUE;
    Dpc->SystemArgument1 = One;
    Dpc->SystemArgument2 = Two;
    InsertTailList(&g_Dpcs, &Dpc->DpcListEntry);
    return TRUE;
}

static BOOLEAN UnlinkDpcLocked(PKDPC Dpc) {
    BOOLEAN WasQueued = Dpc->IsQueued;
    if (WasQueued) {
        RemoveEntryList(&Dpc->DpcListEntry);
        Dpc->IsQueued = FALSE;
    }
    return WasQueued;
}

BOOLEAN KeInsertQueueDpc(PKDPC Dpc, PVOID SystemArgument1, PVOID SystemArgument2) {
    BOOLEAN IsNew;
    VidmmYield();
    Lock();
    IsNew = QueueDpcLocked(Dpc, SystemArgument1, SystemArgument2);
    Unlock();
    VidmmRunDpcs();
    return IsNew;
}

BOOLEAN KeRemoveQueueDpc(PKDPC Dpc) {
    BOOLEAN WasQueued;
    Lock();
    WasQueued = UnlinkDpcLocked(Dpc);
    Unlock();
    return WasQueued;
}

static BOOLEAN RunDpc(void) {
    KIRQL Before = g_VidmmIrql;
    PKDPC Dpc;
    KDPC Copy;
    Lock();
    if (IsListEmpty(&g_Dpcs)) {
        Unlock();
        return FALSE;
    }
    Dpc = CONTAINING_RECORD(g_Dpcs.Flink, KDPC, DpcListEntry);
    UnlinkDpcLocked(Dpc);
    Copy = *Dpc;
    Unlock();
    g_VidmmIrql = DISPATCH_LEVEL;
    VidmmPauseStack();
    Copy.DeferredRoutine(Dpc, Copy.DeferredContext, Copy.SystemArgument1, Copy.SystemArgument2);
    VidmmResumeStack();
    g_VidmmIrql = Before;
    return TRUE;
}

void VidmmRunDpcs(void) {
    while (g_VidmmIrql < DISPATCH_LEVEL && RunDpc()) {
    }
}

VOID KeFlushQueuedDpcs(VOID) {
    VidmmCheckIrql("KeFlushQueuedDpcs", PASSIVE_LEVEL);
    VidmmRunDpcs();
    VidmmForgetCancelled();
}

/* ---- Work items ---- */

PIO_WORKITEM IoAllocateWorkItem(PDEVICE_OBJECT DeviceObject) {
    PIO_WORKITEM WorkItem = NULL;
    VidmmCheckIrql("IoAllocateWorkItem", DISPATCH_LEVEL);
    Lock();
    if (!VidmmFailsLocked() && (WorkItem = (PIO_WORKITEM)calloc(1, sizeof(*WorkItem))) != NULL) {
        WorkItem->DeviceObject = DeviceObject;
        g_VidmmCounts.WorkItems++;
    }
    Unlock();
    return WorkItem;
}

VOID IoQueueWorkItem(PIO_WORKITEM WorkItem, PIO_WORKITEM_ROUTINE WorkerRoutine, WORK_QUEUE_TYPE QueueType, PVOID Context) {
    BOOLEAN WasQueued;
    (void)QueueType;
    VidmmCheckIrql("IoQueueWorkItem", DISPATCH_LEVEL);
    Lock();
    WasQueued = WorkItem->IsQueued;
    if (!WasQueued) {
        WorkItem->IsQueued = TRUE;
        WorkItem->WorkerRoutine = WorkerRoutine;
        WorkItem->Context = Context;
        InsertTailList(&g_WorkItems, &WorkItem->Entry);
        pthread_cond_broadcast(&g_VidmmChanged);
    }
    Unlock();
    if (WasQueued) {
        VidmmReport("SHIM-WORK-ITEM", "a work item is queued that is queued already");
    }
}

static VOID RunPlainItem(PDEVICE_OBJECT DeviceObject, PVOID Context) {
    PWORK_QUEUE_ITEM Plain = (PWORK_QUEUE_ITEM)Context;
    IoFreeWorkItem((PIO_WORKITEM)(PVOID)DeviceObject);
    Plain->WorkerRoutine(Plain->Parameter);
}

/* The item is named in place of a device, and is freed when the item runs. */
VOID ExQueueWorkItem(PWORK_QUEUE_ITEM WorkItem, WORK_QUEUE_TYPE QueueType) {
    PIO_WORKITEM Item = IoAllocateWorkItem(NULL);
    if (Item == NULL) {
        return;
    }
    Item->DeviceObject = (PDEVICE_OBJECT)(PVOID)Item;
    IoQueueWorkItem(Item, RunPlainItem, QueueType, WorkItem);
}

VOID IoFreeWorkItem(PIO_WORKITEM WorkItem) {
    BOOLEAN IsQueued;
    VidmmCheckIrql("IoFreeWorkItem", DISPATCH_LEVEL);
    Lock();
    IsQueued = WorkItem->IsQueued;
    g_VidmmCounts.WorkItems -= !IsQueued;
    Unlock();
    if (IsQueued) {
        VidmmReport("SHIM-WORK-ITEM", "a work item is freed before it has run");
        return;
    }
    free(WorkItem);
}

static BOOLEAN RunWorkItem(void) {
    PIO_WORKITEM WorkItem;
    PIO_WORKITEM_ROUTINE Routine;
    Lock();
    if (IsListEmpty(&g_WorkItems)) {
        Unlock();
        return FALSE;
    }
    WorkItem = CONTAINING_RECORD(RemoveHeadList(&g_WorkItems), struct _IO_WORKITEM, Entry);
    WorkItem->IsQueued = FALSE;
    Routine = WorkItem->WorkerRoutine;
    Unlock();
    VidmmPauseStack();
    Routine(WorkItem->DeviceObject, WorkItem->Context);
    VidmmResumeStack();
    return TRUE;
}

BOOLEAN VidmmRunOne(void) {
    if (g_VidmmIrql >= DISPATCH_LEVEL) {
        return FALSE;
    }
    return RunDpc() || (g_VidmmIrql == PASSIVE_LEVEL && RunWorkItem());
}

BOOLEAN VidmmHasDeferredLocked(void) {
    return !IsListEmpty(&g_Dpcs) || !IsListEmpty(&g_WorkItems);
}

void VidmmEndCall(BOOLEAN IsOutermost) {
    g_VidmmIrql = PASSIVE_LEVEL;
    VidmmRunDpcs();
    while (IsOutermost && VidmmRunOne()) {
    }
    if (IsOutermost) {
        VidmmSettleThreads();
    }
    VidmmCompareMappings();
}

/* ---- Time ---- */

UINT64 VidmmNowLocked(void) {
    return g_WorldTime + g_Waited;
}

static UINT64 Now(void) {
    UINT64 Time;
    Lock();
    Time = VidmmNowLocked();
    Unlock();
    return Time;
}

ULONGLONG KeQueryInterruptTime(VOID) {
    return Now();
}

VOID KeQuerySystemTime(PLARGE_INTEGER CurrentTime) {
    CurrentTime->QuadPart = (LONGLONG)Now();
}

LARGE_INTEGER KeQueryPerformanceCounter(PLARGE_INTEGER PerformanceFrequency) {
    LARGE_INTEGER Counter;
    if (PerformanceFrequency != NULL) {
        PerformanceFrequency->QuadPart = UNITS_PER_SECOND;
    }
    Counter.QuadPart = (LONGLONG)Now();
    return Counter;
}

VOID KeStallExecutionProcessor(ULONG MicroSeconds) {
    Lock();
    g_Waited += (UINT64)MicroSeconds * 10;
    Unlock();
    VidmmYield();
}

NTSTATUS KeDelayExecutionThread(KPROCESSOR_MODE WaitMode, BOOLEAN Alertable, PLARGE_INTEGER Interval) {
    UINT64 Until = Interval->QuadPart < 0 ? Now() + (UINT64)-Interval->QuadPart : (UINT64)Interval->QuadPart;
    (void)WaitMode;
    (void)Alertable;
    VidmmCheckIrql("KeDelayExecutionThread", APC_LEVEL);
    VidmmForgetCancelled();
    if (VidmmTakesTurns()) {
        VidmmWaitInTurn(0, NULL, WaitAny, Until);
        return STATUS_SUCCESS;
    }
    if (VidmmIsOwnThread()) {
        UINT64 Units = Until > Now() ? Until - Now() : 0;
        struct timespec Time = {(time_t)(Units / UNITS_PER_SECOND), (long)(Units % UNITS_PER_SECOND * 100)};
        nanosleep(&Time, NULL);
        return STATUS_SUCCESS;
    }
    while (VidmmRunOne() || VidmmFireTimer(Until > Now() ? Until - Now() : 0)) {
    }
    return STATUS_SUCCESS;
}

/* ---- Timers ---- */

VOID KeInitializeTimerEx(PKTIMER Timer, TIMER_TYPE Type) {
    CheckNotDeferred(Timer, sizeof(*Timer));
    VidmmCheckNotPaged("timer", Timer);
    RtlZeroMemory(Timer, sizeof(*Timer));
    Timer->Fired.Type = Type == SynchronizationTimer ? SynchronizationEvent : NotificationEvent;
}

VOID KeInitializeTimer(PKTIMER Timer) {
    KeInitializeTimerEx(Timer, NotificationTimer);
}

static BOOLEAN UnlinkTimerLocked(PKTIMER Timer) {
    BOOLEAN WasSet = Timer->IsSet;
    if (WasSet) {
        RemoveEntryList(&Timer->TimerListEntry);
        Timer->IsSet = FALSE;
        g_VidmmCounts.Timers--;
    }
    return WasSet;
}

static void LinkTimerLocked(PKTIMER Timer, UINT64 DueAt) {
    Timer->DueAt = DueAt;
    Timer->IsSet = TRUE;
    InsertTailList(&g_Timers, &Timer->TimerListEntry);
    g_VidmmCounts.Timers++;
}

BOOLEAN KeSetTimerEx(PKTIMER Timer, LARGE_INTEGER DueTime, LONG Period, PKDPC Dpc) {
    BOOLEAN WasSet;
    VidmmCheckIrql("KeSetTimerEx", DISPATCH_LEVEL);
    Lock();
    WasSet = UnlinkTimerLocked(Timer);
    Timer->Fired.Signaled = 0;
    Timer->Period = Period;
    Timer->Dpc = Dpc;
    LinkTimerLocked(Timer, DueTime.QuadPart < 0 ? VidmmNowLocked() + (UINT64)-DueTime.QuadPart : (UINT64)DueTime.QuadPart);
    Unlock();
    return WasSet;
}

BOOLEAN KeSetTimer(PKTIMER Timer, LARGE_INTEGER DueTime, PKDPC Dpc) {
    return KeSetTimerEx(Timer, DueTime, 0, Dpc);
}

static void NoteCancelledLocked(PKDPC Dpc) {
    UINT At = 0;
    while (At < CANCELLED_MAX && g_Cancelled[At] != NULL && g_Cancelled[At] != Dpc) {
        At++;
    }
    if (At < CANCELLED_MAX) {
        g_Cancelled[At] = Dpc;
    }
}

void VidmmForgetCancelled(void) {
    Lock();
    memset(g_Cancelled, 0, sizeof(g_Cancelled));
    Unlock();
}

BOOLEAN KeCancelTimer(PKTIMER Timer) {
    BOOLEAN WasSet;
    VidmmCheckIrql("KeCancelTimer", DISPATCH_LEVEL);
    Lock();
    WasSet = UnlinkTimerLocked(Timer);
    if (Timer->HasFired && Timer->Dpc != NULL) {
        NoteCancelledLocked(Timer->Dpc);
    }
    Unlock();
    return WasSet;
}

/* The timer that is due first; of those that are due at once, the one that was set first. NULL if none is set. */
static PKTIMER FirstTimerLocked(void) {
    PKTIMER First = NULL;
    PLIST_ENTRY Entry;
    for (Entry = g_Timers.Flink; Entry != &g_Timers; Entry = Entry->Flink) {
        PKTIMER Timer = CONTAINING_RECORD(Entry, KTIMER, TimerListEntry);
        First = First == NULL || Timer->DueAt < First->DueAt ? Timer : First;
    }
    return First;
}

static void FireLocked(PKTIMER Timer) {
    UINT64 DueAt = Timer->DueAt;
    UnlinkTimerLocked(Timer);
    Timer->HasFired = TRUE;
    if (Timer->Period > 0) {
        LinkTimerLocked(Timer, DueAt + (UINT64)Timer->Period * 10000);
    }
    Timer->Fired.Signaled = 1;
    pthread_cond_broadcast(&g_VidmmChanged);
    if (Timer->Dpc != NULL) {
        QueueDpcLocked(Timer->Dpc, NULL, NULL);
    }
}

BOOLEAN VidmmFireTimer(UINT64 Within) {
    PKTIMER Timer;
    UINT64 Time;
    BOOLEAN Fires;
    Lock();
    Timer = FirstTimerLocked();
    Time = VidmmNowLocked();
    Fires = Timer != NULL && (Timer->DueAt <= Time || Timer->DueAt - Time <= Within);
    if (Fires) {
        g_Waited += Timer->DueAt > Time ? Timer->DueAt - Time : 0;
        FireLocked(Timer);
    } else if (Within <= INT64_MAX) {
        g_Waited += Within;
    }
    Unlock();
    if (Fires) {
        VidmmRunDpcs();
    }
    return Fires;
}

void VidmmSetTime(UINT64 Nanoseconds) {
    Lock();
    if (Nanoseconds / 100 < g_WorldTime) {
        g_Waited = 0;
    }
    g_WorldTime = Nanoseconds / 100;
    Unlock();
    while (VidmmFireTimer(0)) {
    }
}

/* ---- What is left ---- */

/* The first entry of a list that is in these bytes; NULL if there is none. */
static PLIST_ENTRY FindIn(const LIST_ENTRY *Head, const void *Bytes, SIZE_T Size) {
    PLIST_ENTRY Entry;
    for (Entry = Head->Flink; Entry != Head; Entry = Entry->Flink) {
        if ((ULONG_PTR)Entry - (ULONG_PTR)Bytes < Size) {
            return Entry;
        }
    }
    return NULL;
}

void VidmmForget(void) {
    PLIST_ENTRY Entry;
    Lock();
    while ((Entry = FindIn(&g_Timers, NULL, SIZE_MAX)) != NULL) {
        UnlinkTimerLocked(CONTAINING_RECORD(Entry, KTIMER, TimerListEntry));
    }
    while ((Entry = FindIn(&g_Dpcs, NULL, SIZE_MAX)) != NULL) {
        UnlinkDpcLocked(CONTAINING_RECORD(Entry, KDPC, DpcListEntry));
    }
    while (!IsListEmpty(&g_WorkItems)) {
        CONTAINING_RECORD(RemoveHeadList(&g_WorkItems), struct _IO_WORKITEM, Entry)->IsQueued = FALSE;
    }
    memset(g_Cancelled, 0, sizeof(g_Cancelled));
    Unlock();
}

/* Whether the bytes contain a cancelled timer's DPC, or the DPC works on the bytes. */
static BOOLEAN ForgetCancelledIn(const void *Bytes, SIZE_T Size) {
    UINT At;
    for (At = 0; At < CANCELLED_MAX; At++) {
        PKDPC Dpc = g_Cancelled[At];
        if (Dpc != NULL && ((ULONG_PTR)Dpc - (ULONG_PTR)Bytes < Size || (ULONG_PTR)Dpc->DeferredContext - (ULONG_PTR)Bytes < Size)) {
            g_Cancelled[At] = NULL;
            return TRUE;
        }
    }
    return FALSE;
}

const char *VidmmForgetDeferred(const void *Bytes, SIZE_T Size) {
    PLIST_ENTRY Timer = FindIn(&g_Timers, Bytes, Size), Dpc = FindIn(&g_Dpcs, Bytes, Size);
    if (Timer != NULL) {
        UnlinkTimerLocked(CONTAINING_RECORD(Timer, KTIMER, TimerListEntry));
        return "timer that is set";
    }
    if (Dpc != NULL) {
        UnlinkDpcLocked(CONTAINING_RECORD(Dpc, KDPC, DpcListEntry));
        return "DPC that is queued";
    }
    return ForgetCancelledIn(Bytes, Size) ? "DPC of a cancelled timer, which may still run without KeFlushQueuedDpcs," : NULL;
}
