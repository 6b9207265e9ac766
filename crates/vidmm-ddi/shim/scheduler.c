/*
 * Turns: the thread that calls the driver and the driver's own threads run in turn, and a seed chooses the next thread at calls of the
 * shim. A run repeats. Time passes when every thread waits. In a racing run the threads run as the machine lets the threads run.
 */
#include "shim.h"

/* More switches in a row at the end of a call belong to a thread that never waits. */
#define MOST_SWITCHES 256

static VIDMM_TASK g_Main;
static VIDMM_TASK *g_Tasks = &g_Main;
static VIDMM_TASK *g_Turn = &g_Main;
static pthread_cond_t g_Switched = PTHREAD_COND_INITIALIZER;
static UINT64 g_Seed;
static BOOLEAN g_IsRacing;
static __thread VIDMM_TASK *g_Task;

static VIDMM_TASK *Me(void) {
    return g_Task != NULL ? g_Task : &g_Main;
}

BOOLEAN VidmmTakesTurns(void) {
    return !g_IsRacing && __atomic_load_n(&g_Tasks, __ATOMIC_RELAXED) != &g_Main;
}

BOOLEAN VidmmIsRacing(void) {
    return g_IsRacing;
}

void VidmmSetMachine(UINT64 Seed, UINT64 HighestAddress, BOOLEAN IsRacing, UINT Drawn) {
    VidmmSetMeasures((Drawn & VIDMM_DRAWN_STACK) != 0);
    VidmmSetTrims((Drawn & VIDMM_DRAWN_TRIM) != 0);
    pthread_mutex_lock(&g_VidmmLock);
    VidmmSetHighestAddressLocked(HighestAddress);
    g_Seed = Seed;
    g_IsRacing = IsRacing;
    pthread_mutex_unlock(&g_VidmmLock);
}

static UINT64 Draw(UINT64 End) {
    UINT64 Mixed;
    g_Seed += 0x9E3779B97F4A7C15ull;
    Mixed = (g_Seed ^ (g_Seed >> 30)) * 0xBF58476D1CE4E5B9ull;
    return ((Mixed ^ (Mixed >> 27)) >> 8) % End;
}

static BOOLEAN IsReadyLocked(const VIDMM_TASK *Task) {
    return !Task->IsWaiting || VidmmHasSignalsLocked(Task->Count, Task->Objects, Task->WaitType) ||
           Task->Until <= VidmmNowLocked();
}

/* A ready thread other than Not; NULL without any. */
static VIDMM_TASK *DrawReadyLocked(const VIDMM_TASK *Not) {
    VIDMM_TASK *Task, *Drawn = NULL;
    UINT64 Seen = 0;
    for (Task = g_Tasks; Task != NULL; Task = Task->Next) {
        if (Task != Not && IsReadyLocked(Task) && Draw(++Seen) == 0) {
            Drawn = Task;
        }
    }
    return Drawn;
}

/* Gives the turn away, and waits until the turn comes back. */
static void SwitchLocked(VIDMM_TASK *To) {
    VIDMM_TASK *Self = Me();
    VidmmPauseStack();
    g_Turn = To;
    pthread_cond_broadcast(&g_Switched);
    while (g_Turn != Self) {
        pthread_cond_wait(&g_Switched, &g_VidmmLock);
    }
    VidmmResumeStack();
}

void VidmmYield(void) {
    VIDMM_TASK *Next;
    if (!VidmmTakesTurns() || g_VidmmIrql >= DIRQL) {
        return;
    }
    pthread_mutex_lock(&g_VidmmLock);
    Next = DrawReadyLocked(NULL);
    if (Next != NULL && Next != Me()) {
        SwitchLocked(Next);
    }
    pthread_mutex_unlock(&g_VidmmLock);
}

void VidmmBeginTask(VIDMM_TASK *Task) {
    g_Task = Task;
    pthread_mutex_lock(&g_VidmmLock);
    while (!g_IsRacing && g_Turn != Task) {
        pthread_cond_wait(&g_Switched, &g_VidmmLock);
    }
    pthread_mutex_unlock(&g_VidmmLock);
}

void VidmmAddTaskLocked(VIDMM_TASK *Task) {
    memset(Task, 0, sizeof(*Task));
    Task->Next = g_Tasks;
    __atomic_store_n(&g_Tasks, Task, __ATOMIC_RELAXED);
}

void VidmmEndTaskLocked(VIDMM_TASK *Task) {
    VIDMM_TASK **At = &g_Tasks;
    while (*At != Task) {
        At = &(*At)->Next;
    }
    *At = Task->Next;
    if (!g_IsRacing) {
        VIDMM_TASK *Next = DrawReadyLocked(NULL);
        g_Turn = Next != NULL ? Next : &g_Main;
        pthread_cond_broadcast(&g_Switched);
    }
}

/* The driver's threads run until each waits. Returns whether any has run. */
static BOOLEAN RunThreads(void) {
    UINT Switches = 0;
    VIDMM_TASK *Next;
    pthread_mutex_lock(&g_VidmmLock);
    while (Switches < MOST_SWITCHES && (Next = DrawReadyLocked(&g_Main)) != NULL) {
        Switches++;
        SwitchLocked(Next);
    }
    pthread_mutex_unlock(&g_VidmmLock);
    return Switches > 0;
}

void VidmmSettleThreads(void) {
    if (VidmmTakesTurns()) {
        RunThreads();
    }
}

void VidmmBeginWaitLocked(ULONG Count, PVOID Objects[], WAIT_TYPE WaitType, UINT64 Until) {
    VIDMM_TASK *Self = Me();
    Self->IsWaiting = TRUE;
    Self->Count = Count;
    Self->Objects = Objects;
    Self->WaitType = WaitType;
    Self->Until = Until;
}

void VidmmEndWaitLocked(void) {
    Me()->IsWaiting = FALSE;
}

BOOLEAN VidmmIsWaitedForLocked(const void *Bytes, SIZE_T Size) {
    const VIDMM_TASK *Task;
    ULONG At;
    for (Task = g_Tasks; Task != NULL; Task = Task->Next) {
        for (At = 0; Task->IsWaiting && At < Task->Count; At++) {
            if ((ULONG_PTR)Task->Objects[At] - (ULONG_PTR)Bytes < Size) {
                return TRUE;
            }
        }
    }
    return FALSE;
}

BOOLEAN VidmmThreadsAreIdle(void) {
    const VIDMM_TASK *Task;
    BOOLEAN AreIdle;
    pthread_mutex_lock(&g_VidmmLock);
    AreIdle = !VidmmHasDeferredLocked();
    for (Task = g_Tasks; Task != NULL; Task = Task->Next) {
        AreIdle = AreIdle && (Task == &g_Main || (Task->Until == UINT64_MAX && !IsReadyLocked(Task)));
    }
    pthread_mutex_unlock(&g_VidmmLock);
    return AreIdle;
}

/* The time until the first wait with a limit ends; UINT64_MAX without a limit. */
static UINT64 FirstDeadlineLocked(void) {
    UINT64 First = UINT64_MAX, Now = VidmmNowLocked();
    const VIDMM_TASK *Task;
    for (Task = g_Tasks; Task != NULL; Task = Task->Next) {
        if (Task->IsWaiting && Task->Until < First) {
            First = Task->Until;
        }
    }
    return First == UINT64_MAX ? First : First > Now ? First - Now : 0;
}

BOOLEAN VidmmStepThreads(UINT64 Nanoseconds) {
    UINT64 Within;
    if (!VidmmTakesTurns()) {
        return FALSE;
    }
    if (RunThreads()) {
        return TRUE;
    }
    pthread_mutex_lock(&g_VidmmLock);
    Within = FirstDeadlineLocked();
    pthread_mutex_unlock(&g_VidmmLock);
    Within = Within < Nanoseconds / 100 ? Within : Nanoseconds / 100;
    return VidmmFireTimer(Within) || RunThreads();
}

NTSTATUS VidmmWaitInTurn(ULONG Count, PVOID Objects[], WAIT_TYPE WaitType, UINT64 Until) {
    VIDMM_TASK *Self = Me(), *Next;
    NTSTATUS Status;
    UINT64 Within;
    BOOLEAN IsOver;
    for (;;) {
        pthread_mutex_lock(&g_VidmmLock);
        Status = Count > 0 ? VidmmTakeSignalsLocked(Count, Objects, WaitType) : STATUS_TIMEOUT;
        IsOver = Status != STATUS_TIMEOUT || Until <= VidmmNowLocked();
        Next = NULL;
        if (!IsOver) {
            VidmmBeginWaitLocked(Count, Objects, WaitType, Until);
            Next = DrawReadyLocked(Self);
            if (Next != NULL) {
                SwitchLocked(Next);
            }
        }
        Within = FirstDeadlineLocked();
        VidmmEndWaitLocked();
        pthread_mutex_unlock(&g_VidmmLock);
        if (IsOver) {
            return Status;
        }
        if (Next != NULL || VidmmRunOne() || VidmmFireTimer(Within)) {
            continue;
        }
        if (Within == UINT64_MAX) {
            VidmmReport("SHIM-WAIT", "the driver waits for an event that nothing else can set: it would wait for ever");
            return STATUS_SUCCESS;
        }
    }
}
