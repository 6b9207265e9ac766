/* What a driver defers, as a driver sees it: each check ends the program. */
#ifdef __cplusplus
extern "C" {
#endif
#include "ntddk.h"
#include "ntintsafe.h"
#include "ntstrsafe.h"
#include "vidmm_host.h"
#ifdef __cplusplus
}
#endif

#include <stdio.h>
#include <stdlib.h>

#define CHECK(expression)                                                                                              \
    if (!(expression)) {                                                                                               \
        fprintf(stderr, "line %d: %s; the reports: %s\n", __LINE__, #expression, g_Reports);                           \
        exit(1);                                                                                                       \
    }

static const VIDMM_SHIM *g_Shim;
static char g_Order[64];
static char g_Reports[512];

static char g_Message[256];

static VOID Report(const char *Rule, const char *Message) {
    strncpy(g_Message, Message, sizeof(g_Message) - 1);
    strncat(g_Reports, Rule, sizeof(g_Reports) - strlen(g_Reports) - 1);
    strncat(g_Reports, " ", sizeof(g_Reports) - strlen(g_Reports) - 1);
}

static void Note(const char *Text) {
    strncat(g_Order, Text, sizeof(g_Order) - strlen(g_Order) - 1);
}

static BOOLEAN IsOrder(const char *Text) {
    BOOLEAN Is = strcmp(g_Order, Text) == 0;
    g_Order[0] = 0;
    return Is;
}

static BOOLEAN IsReported(const char *Text) {
    BOOLEAN Is = strcmp(g_Reports, Text) == 0;
    g_Reports[0] = 0;
    return Is;
}

static VOID DpcRoutine(PKDPC Dpc, PVOID Context, PVOID One, PVOID Two) {
    (void)Dpc;
    (void)Two;
    CHECK(KeGetCurrentIrql() == DISPATCH_LEVEL);
    Note((const char *)Context);
    Note(One != NULL ? (const char *)One : "");
}

static VOID WorkRoutine(PDEVICE_OBJECT DeviceObject, PVOID Context) {
    (void)DeviceObject;
    CHECK(KeGetCurrentIrql() == PASSIVE_LEVEL);
    Note("w");
    if (Context != NULL) {
        KeSetEvent((PKEVENT)Context, 0, FALSE);
    }
}

static LARGE_INTEGER In(LONGLONG Units) {
    LARGE_INTEGER Time;
    Time.QuadPart = -Units;
    return Time;
}

static void DpcsRunWhenTheLevelFalls(void) {
    KDPC One, Two;
    KIRQL Irql;
    KeInitializeDpc(&One, DpcRoutine, (PVOID) "1");
    KeInitializeDpc(&Two, DpcRoutine, (PVOID) "2");
    CHECK(KeInsertQueueDpc(&One, NULL, NULL) && IsOrder("1"));
    KeRaiseIrql(DISPATCH_LEVEL, &Irql);
    CHECK(KeInsertQueueDpc(&Two, (PVOID) "a", NULL) && KeInsertQueueDpc(&One, NULL, NULL));
    CHECK(!KeInsertQueueDpc(&Two, (PVOID) "b", NULL) && IsOrder(""));
    KeLowerIrql(Irql);
    CHECK(IsOrder("2a1"));
    g_Shim->BeginCall(DIRQL, "f");
    CHECK(KeInsertQueueDpc(&One, NULL, NULL) && KeInsertQueueDpc(&Two, NULL, NULL) && KeRemoveQueueDpc(&One));
    CHECK(!KeRemoveQueueDpc(&One) && IsOrder(""));
    g_Shim->EndCall(FALSE);
    CHECK(IsOrder("2") && IsReported(""));
}

static void WorkItemsRunBehindTheOutermostCall(void) {
    PIO_WORKITEM WorkItem = IoAllocateWorkItem(NULL);
    VIDMM_SHIM_COUNTS Counts;
    KEVENT Event;
    g_Shim->BeginCall(PASSIVE_LEVEL, "f");
    IoQueueWorkItem(WorkItem, WorkRoutine, DelayedWorkQueue, NULL);
    g_Shim->EndCall(FALSE);
    CHECK(IsOrder(""));
    g_Shim->EndCall(TRUE);
    CHECK(IsOrder("w") && IsReported(""));
    KeInitializeEvent(&Event, NotificationEvent, FALSE);
    IoQueueWorkItem(WorkItem, WorkRoutine, DelayedWorkQueue, &Event);
    CHECK(KeWaitForSingleObject(&Event, Executive, KernelMode, FALSE, NULL) == STATUS_SUCCESS && IsOrder("w"));
    IoQueueWorkItem(WorkItem, WorkRoutine, DelayedWorkQueue, NULL);
    IoQueueWorkItem(WorkItem, WorkRoutine, DelayedWorkQueue, NULL);
    CHECK(IsReported("SHIM-WORK-ITEM "));
    IoFreeWorkItem(WorkItem);
    CHECK(IsReported("SHIM-WORK-ITEM "));
    g_Shim->EndCall(TRUE);
    CHECK(IsOrder("w"));
    g_Shim->GetCounts(&Counts);
    CHECK(Counts.WorkItems == 1);
    IoFreeWorkItem(WorkItem);
    g_Shim->GetCounts(&Counts);
    CHECK(Counts.WorkItems == 0 && IsReported(""));
}

static void TimersFireWhenTheirTimeComes(void) {
    KTIMER Late, Early;
    KDPC LateDpc, EarlyDpc;
    LARGE_INTEGER Time;
    KeInitializeTimer(&Late);
    KeInitializeTimerEx(&Early, SynchronizationTimer);
    KeInitializeDpc(&LateDpc, DpcRoutine, (PVOID) "L");
    KeInitializeDpc(&EarlyDpc, DpcRoutine, (PVOID) "E");
    g_Shim->SetTime(0);
    CHECK(!KeSetTimer(&Late, In(20), &LateDpc) && !KeSetTimer(&Early, In(10), &EarlyDpc));
    g_Shim->SetTime(999);
    CHECK(IsOrder("") && KeQueryInterruptTime() == 9);
    g_Shim->SetTime(2000);
    CHECK(IsOrder("EL"));
    CHECK(!KeSetTimerEx(&Early, In(10), 1, &EarlyDpc) && KeSetTimerEx(&Early, In(5), 1, &EarlyDpc));
    g_Shim->SetTime(2000 + 500 + 2 * 1000000);
    CHECK(IsOrder("EEE") && KeCancelTimer(&Early) && !KeCancelTimer(&Early));
    /* Another world begins. */
    g_Shim->SetTime(0);
    KeSetTimer(&Late, In(100), NULL);
    Time = In(60);
    CHECK(KeWaitForSingleObject(&Late, Executive, KernelMode, FALSE, &Time) == STATUS_TIMEOUT && KeQueryInterruptTime() == 60);
    CHECK(KeWaitForSingleObject(&Late, Executive, KernelMode, FALSE, NULL) == STATUS_SUCCESS && KeQueryInterruptTime() == 100);
    KeSetTimer(&Late, In(50), &LateDpc);
    Time = In(80);
    CHECK(KeDelayExecutionThread(KernelMode, FALSE, &Time) == STATUS_SUCCESS && KeQueryInterruptTime() == 180 && IsOrder("L"));
    KeStallExecutionProcessor(2);
    CHECK(KeQueryInterruptTime() == 200 && IsReported(""));
}

static void WhatIsLeftIsReported(void) {
    PKTIMER Timer = (PKTIMER)ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*Timer), 1);
    PKDPC Dpc = (PKDPC)ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*Dpc), 1);
    KEVENT Event;
    KIRQL Irql;
    KeInitializeTimer(Timer);
    KeSetTimer(Timer, In(1), NULL);
    ExFreePool(Timer);
    CHECK(IsReported("SHIM-DEFERRED "));
    KeInitializeDpc(Dpc, DpcRoutine, (PVOID) "x");
    KeRaiseIrql(DISPATCH_LEVEL, &Irql);
    KeInsertQueueDpc(Dpc, NULL, NULL);
    ExFreePool(Dpc);
    CHECK(IsReported("SHIM-DEFERRED "));
    KeInitializeEvent(&Event, NotificationEvent, TRUE);
    CHECK(KeWaitForSingleObject(&Event, Executive, KernelMode, FALSE, NULL) == STATUS_SUCCESS && IsReported("SHIM-IRQL "));
    KeLowerIrql(Irql);
    KeClearEvent(&Event);
    CHECK(KeWaitForSingleObject(&Event, Executive, KernelMode, FALSE, NULL) == STATUS_SUCCESS && IsReported("SHIM-WAIT "));
    CHECK(IsOrder(""));
}

/* ---- Memory, waits for several objects, exceptions ---- */

static BOOLEAN NoPage(UINT64 Page, const VOID *Data) {
    (void)Page;
    (void)Data;
    return FALSE;
}

static BOOLEAN ReadPage(UINT64 Page, VOID *Data) {
    memset(Data, (int)Page, PAGE_SIZE);
    return TRUE;
}

static UINT64 g_WrittenPage;

static BOOLEAN WritePage(UINT64 Page, const VOID *Data) {
    g_WrittenPage = *(const BYTE *)Data == 0xEE ? Page : 0;
    return NoPage(Page, Data);
}

static UINT64 NoAddress(const VOID *Address) {
    (void)Address;
    return 0;
}

static void TestMemory(void) {
    PHYSICAL_ADDRESS Highest;
    PFN_NUMBER Pages[] = {7, 9};
    MDL Mdl = {NULL, sizeof(MDL), 0, NULL, NULL, 2 * PAGE_SIZE, 0, Pages};
    ULONG Bits = 0;
    RTL_BITMAP BitMap;
    BYTE *Bytes;
    Highest.QuadPart = -1;
    Bytes = (BYTE *)MmAllocateContiguousMemory(3 * PAGE_SIZE, Highest);
    CHECK(MmGetPhysicalAddress(Bytes).QuadPart >> 32 != 0);
    CHECK(MmGetPhysicalAddress(Bytes + PAGE_SIZE).QuadPart == MmGetPhysicalAddress(Bytes).QuadPart + PAGE_SIZE);
    CHECK(MmGetVirtualForPhysical(MmGetPhysicalAddress(Bytes + 5)) == Bytes + 5);
    MmFreeContiguousMemory(Bytes);
    CHECK(MmGetPhysicalAddress(Bytes).QuadPart == 0 && IsReported(""));
    MmFreeContiguousMemory(Bytes);
    CHECK(IsReported("SHIM-POOL-FREE "));
    Bytes = (BYTE *)MmGetSystemAddressForMdlSafe(&Mdl, NormalPagePriority);
    CHECK(Bytes[0] == 7 && Bytes[PAGE_SIZE] == 9 && (Mdl.MdlFlags & MDL_MAPPED_TO_SYSTEM_VA));
    Bytes[PAGE_SIZE] = 0xEE;
    MmUnmapLockedPages(Bytes, &Mdl);
    CHECK(g_WrittenPage == 9 && IsReported(""));
    MmUnmapLockedPages(Bytes, &Mdl);
    CHECK(IsReported("SHIM-MDL "));
    Highest.QuadPart = 0xF0000000;
    CHECK(MmMapIoSpace(Highest, 64, MmNonCached) != NULL && IsReported("SHIM-REGISTERS "));
    Highest.QuadPart = 0x1F0000000;
    WRITE_REGISTER_ULONG((volatile ULONG *)MmMapIoSpace(Highest, 64, MmNonCached) + 3, 5);
    CHECK(READ_REGISTER_ULONG((volatile ULONG *)MmMapIoSpace(Highest, 64, MmNonCached) + 3) == 5);
    CHECK(IsReported(""));
    RtlInitializeBitMap(&BitMap, &Bits, 32);
    CHECK(RtlFindClearBitsAndSet(&BitMap, 3, 30) == 0 && Bits == 7);
}

static void TestWaits(void) {
    KEVENT One, Two;
    PVOID Objects[] = {&One, &Two};
    LARGE_INTEGER Zero;
    Zero.QuadPart = 0;
    KeInitializeEvent(&One, SynchronizationEvent, FALSE);
    KeInitializeEvent(&Two, SynchronizationEvent, TRUE);
    CHECK(KeWaitForMultipleObjects(2, Objects, WaitAll, Executive, KernelMode, FALSE, &Zero, NULL) == STATUS_TIMEOUT);
    CHECK(KeWaitForMultipleObjects(2, Objects, WaitAny, Executive, KernelMode, FALSE, NULL, NULL) == STATUS_WAIT_1);
    KeSetEvent(&One, 0, FALSE);
    KeSetEvent(&Two, 0, FALSE);
    CHECK(KeWaitForMultipleObjects(2, Objects, WaitAll, Executive, KernelMode, FALSE, NULL, NULL) == STATUS_SUCCESS);
    CHECK(One.Signaled == 0 && Two.Signaled == 0);
}

static int Raises(volatile int *Nowhere) {
    __try {
        if (Nowhere == NULL) {
            return *Nowhere;
        }
        __try {
            ExRaiseStatus(STATUS_INTEGER_OVERFLOW);
        }
        __except (GetExceptionCode() == STATUS_ACCESS_VIOLATION) {
            return 1;
        }
    }
    __except (EXCEPTION_EXECUTE_HANDLER) {
        return GetExceptionCode() == STATUS_ACCESS_VIOLATION ? 2 : 3;
    }
    return 4;
}

static void Raise(void) {
    ExRaiseStatus(STATUS_INTEGER_OVERFLOW);
}

/* The statements that leave a __try and a handler go where C says. */
static void TestJumps(void) {
    volatile int At, Ended = 0, Handled = 0, Behind = 0;
    for (At = 0; At < 10; At++) {
        __try {
            if (At == 1) {
                continue;
            }
            if (At == 2) {
                __leave;
            }
            if (At == 3) {
                Raise();
            }
            if (At == 4) {
                __try {
                    Raise();
                }
                __except (EXCEPTION_EXECUTE_HANDLER) {
                    continue;
                }
            }
            if (At == 7) {
                break;
            }
            Ended++;
        }
        __except (EXCEPTION_EXECUTE_HANDLER) {
            Handled++;
            if (At == 3) {
                continue;
            }
        }
        Behind++;
    }
    CHECK(At == 7 && Ended == 3 && Handled == 1 && Behind == 4);
    for (At = 0; At < 10; At++) {
        __try {
            Raise();
        }
        __except (EXCEPTION_EXECUTE_HANDLER) {
            break;
        }
    }
    CHECK(At == 0 && IsReported(""));
    for (At = 0; At < 2; At++)
        __try {
            Raise();
        }
        __except (EXCEPTION_EXECUTE_HANDLER) {
            Handled++;
        }
    CHECK(IsReported("SHIM-TRY "));
}

static void TestExceptions(void) {
    int Somewhere = 0;
    CHECK(Raises(NULL) == 2);
    CHECK(Raises(&Somewhere) == 3);
    TestJumps();
    /* Every frame is gone. */
    CHECK(Raises(&Somewhere) == 3);
    CHECK(!MmIsAddressValid(NULL) && MmIsAddressValid(&Somewhere));
}

/* ---- Rules of Driver Verifier ---- */

static void PageablePoolIsForLowLevels(void) {
    volatile BYTE *Pageable;
    KIRQL Irql;
    KSPIN_LOCK Lock;
    g_Shim->SetMachine(0, (1ull << 34) - 1, FALSE, VIDMM_DRAWN_TRIM);
    Pageable = (volatile BYTE *)ExAllocatePool2(POOL_FLAG_PAGED, 100, 1);
    Pageable[99] = 7;
    KeInitializeSpinLock(&Lock);
    KeAcquireSpinLock(&Lock, &Irql);
    KeReleaseSpinLock(&Lock, Irql);
    CHECK(Pageable[99] == 7 && IsReported(""));
    KeAcquireSpinLock(&Lock, &Irql);
    CHECK(Pageable[99] == 7 && IsReported("SHIM-IRQL ") && Pageable[98] == 0 && IsReported(""));
    KeReleaseSpinLock(&Lock, Irql);
    KeRaiseIrql(DISPATCH_LEVEL, &Irql);
    ExFreePool(ExAllocatePool2(POOL_FLAG_PAGED, 1, 1));
    CHECK(IsReported("SHIM-IRQL SHIM-IRQL "));
    KeLowerIrql(Irql);
    KeInitializeSpinLock((PKSPIN_LOCK)(ULONG_PTR)Pageable);
    KeInitializeEvent((PKEVENT)(ULONG_PTR)Pageable, NotificationEvent, FALSE);
    KeInitializeTimer((PKTIMER)(ULONG_PTR)Pageable);
    CHECK(IsReported("SHIM-POOL-PAGED SHIM-POOL-PAGED SHIM-POOL-PAGED "));
    ExFreePool((PVOID)(ULONG_PTR)Pageable);
    g_Shim->SetMachine(0, (1ull << 34) - 1, FALSE, 0);
}

/* A DPC may run on another processor when the timer is cancelled. */
static void CancelledTimersAreWaitedFor(void) {
    struct WATCH {
        KTIMER Timer;
        KDPC Dpc;
    } *Block;
    int HasFired, IsFlushed;
    for (HasFired = 0; HasFired < 2; HasFired++) {
        for (IsFlushed = 0; IsFlushed < 2; IsFlushed++) {
            Block = (struct WATCH *)ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*Block), 1);
            KeInitializeTimer(&Block->Timer);
            KeInitializeDpc(&Block->Dpc, DpcRoutine, (PVOID) "t");
            g_Shim->SetTime(0);
            KeSetTimerEx(&Block->Timer, In(10), 1, &Block->Dpc);
            if (HasFired) {
                g_Shim->SetTime(1000);
            }
            CHECK(IsOrder(HasFired ? "t" : "") && KeCancelTimer(&Block->Timer));
            if (IsFlushed) {
                KeFlushQueuedDpcs();
            }
            ExFreePool(Block);
            CHECK(IsReported(HasFired && !IsFlushed ? "SHIM-DEFERRED " : ""));
        }
    }
}

static void HeldLocksHaveAPlace(void) {
    UINT64 Places[2] = {0, 0};
    FAST_MUTEX Mutex;
    KSPIN_LOCK Lock;
    KIRQL Irql;
    g_Shim->SetHeldLocks(Places, 2);
    ExInitializeFastMutex(&Mutex);
    KeInitializeSpinLock(&Lock);
    ExAcquireFastMutex(&Mutex);
    KeAcquireSpinLock(&Lock, &Irql);
    CHECK(Places[0] >> 48 == 2 && Places[1] >> 48 == 1 && (Places[1] & 0xFFFFFFFFFFFFull) < (1 << 20));
    KeReleaseSpinLock(&Lock, Irql);
    ExReleaseFastMutex(&Mutex);
    CHECK(Places[0] == 0 && Places[1] == 0);
    g_Shim->SetHeldLocks(NULL, 0);
}

static void LeaksHaveATagAndACall(void) {
    VIDMM_SHIM_COUNTS Before;
    PVOID Blocks[3];
    int At;
    g_Shim->GetCounts(&Before);
    g_Shim->BeginCall(PASSIVE_LEVEL, "DxgkDdiCreateDevice");
    Blocks[0] = ExAllocatePool2(POOL_FLAG_NON_PAGED, 8, 0x41414141);
    Blocks[1] = ExAllocatePool2(POOL_FLAG_PAGED, 16, 0x41414141);
    g_Shim->EndCall(TRUE);
    g_Shim->BeginCall(PASSIVE_LEVEL, "DxgkDdiCreateContext");
    Blocks[2] = ExAllocatePool2(POOL_FLAG_NON_PAGED, 8, 0x41414141);
    g_Shim->EndCall(TRUE);
    g_Message[0] = 0;
    g_Shim->ReportLeaks(Before.Allocations);
    CHECK(IsReported("SHIM-POOL-LEAK SHIM-POOL-LEAK ") && strstr(g_Message, "tag 'AAAA', allocated in DxgkDdiCreateContext"));
    for (At = 0; At < 3; At++) {
        ExFreePoolWithTag(Blocks[At], 0x41414141);
    }
    g_Shim->ReportLeaks(Before.Allocations);
    CHECK(IsReported(""));
}

__attribute__((noinline)) static void TakeStack(SIZE_T Size) {
    volatile BYTE *Local = (volatile BYTE *)__builtin_alloca(Size);
    Local[0] = Local[Size - 1] = 1;
}

/* The callback takes 64 KiB of another stack in Windows. */
static BOOLEAN Deep(HANDLE Device) {
    (void)Device;
    TakeStack(64 << 10);
    return TRUE;
}

static void StackIsMeasuredWithoutCallbacks(void) {
    DXGKRNL_INTERFACE Interface;
    const char *Name;
    UINT64 Bytes;
    RtlZeroMemory(&Interface, sizeof(Interface));
    Interface.DxgkCbQueueDpc = Deep;
    g_Shim->SetMachine(0, (1ull << 34) - 1, FALSE, VIDMM_DRAWN_STACK);
    g_Shim->PauseInCallbacks(&Interface);
    g_Shim->BeginCall(PASSIVE_LEVEL, "DxgkDdiPatch");
    TakeStack(10 << 10);
    Interface.DxgkCbQueueDpc(NULL);
    g_Shim->EndCall(TRUE);
    g_Shim->BeginCall(PASSIVE_LEVEL, "DxgkDdiRender");
    TakeStack(3 << 10);
    g_Shim->EndCall(TRUE);
    Bytes = g_Shim->TakeDeepest(&Name);
    CHECK(Bytes > (10 << 10) && Bytes < (12 << 10) && strcmp(Name, "DxgkDdiPatch") == 0);
    CHECK(g_Shim->TakeDeepest(&Name) == 0);
    g_Shim->SetMachine(0, (1ull << 34) - 1, FALSE, 0);
}

C_ASSERT(sizeof(ULONG) == 4);

/* A driver declares its entry by this type. */
static DRIVER_INITIALIZE Entry;
static NTSTATUS Entry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath) {
    return DriverObject == NULL && RegistryPath == NULL ? STATUS_SUCCESS : STATUS_UNSUCCESSFUL;
}

static void NumbersThatDoNotFitAreSaid(void) {
    ULONG Long;
    SIZE_T Size;
    USHORT Short;
    LONG Signed;
    CHECK(RtlULongAdd(MAXULONG, 1, &Long) == STATUS_INTEGER_OVERFLOW && RtlULongAdd(2, 3, &Long) == STATUS_SUCCESS && Long == 5);
    CHECK(RtlULongSub(1, 2, &Long) == STATUS_INTEGER_OVERFLOW && Long == MAXULONG);
    CHECK(RtlULongMult(1u << 16, 1u << 16, &Long) == STATUS_INTEGER_OVERFLOW);
    CHECK(RtlSizeTMult(MAXSIZE_T, 2, &Size) == STATUS_INTEGER_OVERFLOW && RtlSizeTSub(3, 2, &Size) == STATUS_SUCCESS && Size == 1);
    CHECK(RtlLongAdd(MAXLONG, 1, &Signed) == STATUS_INTEGER_OVERFLOW && RtlLongSub(1, 2, &Signed) == STATUS_SUCCESS && Signed == -1);
    CHECK(RtlULongLongToULong(MAXULONGLONG, &Long) == STATUS_INTEGER_OVERFLOW && RtlSizeTToULong(7, &Long) == STATUS_SUCCESS && Long == 7);
    CHECK(RtlULongToUShort(0x10000, &Short) == STATUS_INTEGER_OVERFLOW && Short == MAXUSHORT);
    CHECK(RtlLongToULong(-1, &Long) == STATUS_INTEGER_OVERFLOW);
    CHECK(min((SIZE_T)3, 2u) == 2 && max(3u, (SIZE_T)2) == 3 && MAXLONGLONG > 0 && MINLONGLONG < 0);
    CHECK(Entry(NULL, NULL) == STATUS_SUCCESS && IO_NO_INCREMENT == 0);
}

static void TextsEndInsideOfTheirBuffers(void) {
    static const WCHAR Wide[] = {'a', 'b', 'c', 0};
    CHAR Text[6];
    WCHAR Room[3];
    SIZE_T Length;
    CHECK(RtlStringCbCopyA(Text, sizeof(Text), "abc") == STATUS_SUCCESS && strcmp(Text, "abc") == 0);
    CHECK(RtlStringCbCatA(Text, sizeof(Text), "defg") == STATUS_BUFFER_OVERFLOW && strcmp(Text, "abcde") == 0);
    CHECK(RtlStringCchCopyNA(Text, sizeof(Text), "abcdefgh", 2) == STATUS_SUCCESS && strcmp(Text, "ab") == 0);
    CHECK(RtlStringCchCopyA(Text, 0, "a") == STATUS_INVALID_PARAMETER);
    CHECK(RtlStringCbPrintfA(Text, sizeof(Text), "%u", 1234567u) == STATUS_BUFFER_OVERFLOW && strcmp(Text, "12345") == 0);
    CHECK(RtlStringCchPrintfA(Text, sizeof(Text), "%s", "x") == STATUS_SUCCESS && strcmp(Text, "x") == 0);
    CHECK(RtlStringCbLengthA("abc", 3, &Length) == STATUS_INVALID_PARAMETER && Length == 0);
    CHECK(RtlStringCbLengthW(Wide, sizeof(Wide), &Length) == STATUS_SUCCESS && Length == 6);
    CHECK(RtlStringCbCopyW(Room, sizeof(Room), Wide) == STATUS_BUFFER_OVERFLOW && Room[1] == 'b' && Room[2] == 0);
    CHECK(RtlStringCchCatW(Room, 3, Wide) == STATUS_BUFFER_OVERFLOW);
}

/* The functions whose highest level is below that of the interrupt. */
static void EventsAndObjectsAreForLowLevels(void) {
    KIRQL Irql;
    KEVENT Event;
    KeInitializeEvent(&Event, NotificationEvent, FALSE);
    g_Reports[0] = 0;
    KeRaiseIrql(DISPATCH_LEVEL, &Irql);
    KeSetEvent(&Event, IO_NO_INCREMENT, FALSE);
    KeClearEvent(&Event);
    CHECK(g_Reports[0] == 0);
    ZwClose(NULL);
    CHECK(strcmp(g_Reports, "SHIM-IRQL ") == 0);
    KeLowerIrql(Irql);
    KeRaiseIrql(DIRQL, &Irql);
    KeSetEvent(&Event, IO_NO_INCREMENT, FALSE);
    KeClearEvent(&Event);
    CHECK(strcmp(g_Reports, "SHIM-IRQL SHIM-IRQL SHIM-IRQL ") == 0);
    KeLowerIrql(Irql);
    g_Reports[0] = 0;
}

int main(void) {
    VIDMM_HOST Host;
    RtlZeroMemory(&Host, sizeof(Host));
    Host.Version = VIDMM_HOST_VERSION;
    Host.ReadSystemPage = ReadPage;
    Host.WriteSystemPage = WritePage;
    Host.PhysicalAddressOf = NoAddress;
    Host.Report = Report;
    g_Shim = VidmmConnect(&Host);
    CHECK(g_Shim != NULL);
    DpcsRunWhenTheLevelFalls();
    WorkItemsRunBehindTheOutermostCall();
    TimersFireWhenTheirTimeComes();
    WhatIsLeftIsReported();
    TestMemory();
    TestWaits();
    TestExceptions();
    PageablePoolIsForLowLevels();
    CancelledTimersAreWaitedFor();
    HeldLocksHaveAPlace();
    LeaksHaveATagAndACall();
    StackIsMeasuredWithoutCallbacks();
    NumbersThatDoNotFitAreSaid();
    TextsEndInsideOfTheirBuffers();
    EventsAndObjectsAreForLowLevels();
    return 0;
}
