/*
 * A driver that misbehaves at random, to try vidmm: no driver to learn from. The driver is a reference driver with a wrapped table.
 * Now and then a function lies, hangs, or ends the process.
 *
 * LIAR_SEED chooses, LIAR_EVERY says how many calls there are to one that misbehaves, and LIAR_LOG names a file to which a line
 * for each is appended before it is done, with the number of the last paging operation:
 *
 *     entry                  a process has loaded the driver
 *     adapter                an adapter is added
 *     lie FUNCTION           the contract is broken
 *     odd FUNCTION           something is changed that the contract may allow, or that leads to a crash
 *     CRASH, EXIT, HANG      the process ends here
 *     KILL                   the parent process ends here, or stands still
 */
#include "dispmprt.h"
#include "vidmm_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#undef DxgkInitialize
#undef VidmmGetTestInterface

const VIDMM_TEST_INTERFACE *WrappedTestInterface(VOID);
NTSTATUS DxgkInitialize(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA Data);

static DRIVER_INITIALIZATION_DATA g_Driver;
static const VIDMM_GPU *g_Gpu;
static const VIDMM_TEST_INTERFACE *g_Test;
static DXGKRNL_INTERFACE g_Dxgkrnl;
static HANDLE g_Adapter;
static UINT64 g_State;
static UINT64 g_Every = 200;
static int g_Log = -1;
/* The function that runs, and its operation. */
static const char *g_Function = "DriverEntry";
static UINT g_Operation;

/* ---- Chance ---- */

static UINT64 Random(void) {
    UINT64 Value = g_State += 0x9E3779B97F4A7C15ull;
    Value = (Value ^ Value >> 30) * 0xBF58476D1CE4E5B9ull;
    Value = (Value ^ Value >> 27) * 0x94D049BB133111EBull;
    return Value ^ Value >> 31;
}

static UINT64 Below(UINT64 Limit) {
    return Random() % Limit;
}

static void Note(const char *Kind, const char *Deed) {
    char Line[128];
    int Size = snprintf(Line, sizeof(Line), "%s %s %u: %s\n", Kind, g_Function, g_Operation, Deed);
    if (g_Log >= 0 && write(g_Log, Line, (size_t)Size) != Size) {
        abort();
    }
}

/* A number as it may come from memory that was never written. */
static UINT64 Garbage(void) {
    static const UINT64 Values[] = {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, ~0ull, 1ull << 63, 4095, 4097};
    UINT64 Choice = Below(sizeof(Values) / sizeof(Values[0]) + 4);
    return Choice < sizeof(Values) / sizeof(Values[0]) ? Values[Choice] : Random() >> Below(64);
}

/* Without an end in practice: the stack is smaller. */
static int Recurse(UINT64 Depth) {
    volatile char Frame[4096];
    Frame[0] = (char)Depth;
    return Depth == 0 ? 0 : Recurse(Depth - 1) + Frame[0];
}

/* Whether the driver is in a separate space of process numbers: a signal to every process stays there. */
static BOOLEAN HasOwnNumbers(void) {
    char Link[32] = "";
    return readlink("/proc/self", Link, sizeof(Link) - 1) > 0 && atoi(Link) != getpid();
}

static void Wait(void) {
    for (;;) {
        pause();
    }
}

/* Signals to processes around the driver. */
static void Kill(void) {
    switch (Below(4)) {
    case 0:
        Note("KILL", "the parent is killed");
        kill(getppid(), SIGKILL);
        break;
    case 1:
        Note("KILL", "the parent is stopped");
        kill(getppid(), SIGSTOP);
        break;
    case 2:
        if (HasOwnNumbers()) {
            Note("KILL", "all are killed");
            kill(-1, SIGKILL);
            break;
        }
        /* Fall through. */
    default:
        Note("CRASH", "the group is killed");
        kill(0, SIGKILL);
    }
    Wait();
}

/* Processes without an end, and much output. */
static void Fork(void) {
    char Text[1024];
    UINT At, Kind = (UINT)Below(4);
    if (Kind == 3) {
        Note("odd", "3 MiB are printed");
        memset(Text, 'x', sizeof(Text));
        for (At = 0; At < 3 << 10; At++) {
            fwrite(Text, 1, sizeof(Text), stderr);
        }
        return;
    }
    Note("lie", "a process is started");
    if (fork() == 0) {
        if (Kind > 0) {
            setsid();
        }
        for (At = 0; Kind == 2 && At < 4; At++) {
            fork();
        }
        fprintf(stderr, "a process of the driver goes on\n");
        Wait();
    }
}

static void End(void) {
    struct rlimit NoCore = {0, 0};
    setrlimit(RLIMIT_CORE, &NoCore);
    switch (Below(12)) {
    case 0:
        Note("CRASH", "a null pointer is followed");
        *(volatile int *)0 = 1;
        break;
    case 1:
        Note("CRASH", "abort");
        abort();
    case 2:
        Note("CRASH", "a call of what is no function");
        ((VOID(*)(VOID))(ULONG_PTR)8)();
        break;
    case 3:
        Note("CRASH", "the stack is used up");
        Recurse(~0ull);
        break;
    case 4:
        Note("EXIT", "exit");
        exit((int)Below(256));
    case 5:
        Note("EXIT", "standard output is closed, and then exit");
        /* Without the report of the check that ran. */
        close(STDOUT_FILENO);
        _exit(0);
    case 6:
        Note("EXIT", "a child has the pipe");
        /* A child goes on with all that is open. */
        if (fork() == 0) {
            sleep(2);
            _exit(0);
        }
        _exit(3);
    case 7:
        Note("HANG", "standard output is closed, and then a loop");
        /* The supervisor hears no more, but the process lives. */
        close(STDOUT_FILENO);
        for (volatile int Forever = 1; Forever;) {
        }
        break;
    case 8:
        Note("HANG", "a wait");
        Wait();
        break;
    default:
        Kill();
    }
}

/* Whether this call is to lie. It may not return. */
static BOOLEAN Draw(const char *Function) {
    g_Function = Function;
    if (Below(g_Every) != 0) {
        return FALSE;
    }
    switch (Below(24)) {
    case 0:
    case 1:
        End();
        break;
    case 2:
        Fork();
        return FALSE;
    }
    return TRUE;
}

static NTSTATUS Failure(void) {
    static const NTSTATUS Values[] = {STATUS_UNSUCCESSFUL, STATUS_NOT_IMPLEMENTED, STATUS_INVALID_HANDLE,
                                      (NTSTATUS)0x80000005, (NTSTATUS)0xFFFFFFFF, (NTSTATUS)0x80000000};
    return Values[Below(sizeof(Values) / sizeof(Values[0]))];
}

/* ---- Functions whose status alone is wrong: `Kind` says whether a failure breaks the contract ---- */

#define WRAPPED(Name, Kind, Parameters, Arguments)                                                                     \
    static NTSTATUS Name Parameters {                                                                                  \
        BOOLEAN Lies = Draw("DxgkDdi" #Name);                                                                          \
        NTSTATUS Status = g_Driver.DxgkDdi##Name Arguments;                                                            \
        if (Lies) {                                                                                                    \
            Note(Kind, "a failure");                                                                                   \
            return Failure();                                                                                          \
        }                                                                                                              \
        return Status;                                                                                                 \
    }

WRAPPED(StopDevice, "odd", (const PVOID Context), (Context))
WRAPPED(RemoveDevice, "odd", (const PVOID Context), (Context))
WRAPPED(GetNodeMetadata, "odd", (const HANDLE Adapter, UINT Node, DXGKARG_GETNODEMETADATA *Get), (Adapter, Node, Get))
WRAPPED(DestroyProcess, "odd", (const HANDLE Adapter, const HANDLE Process), (Adapter, Process))
WRAPPED(DestroyDevice, "odd", (const HANDLE Device), (Device))
WRAPPED(DestroyContext, "odd", (const HANDLE Context), (Context))
WRAPPED(DestroyAllocation, "odd", (const HANDLE Adapter, const DXGKARG_DESTROYALLOCATION *Destroy), (Adapter, Destroy))
WRAPPED(OpenAllocation, "odd", (const HANDLE Device, const DXGKARG_OPENALLOCATION *Open), (Device, Open))
WRAPPED(CloseAllocation, "odd", (const HANDLE Device, const DXGKARG_CLOSEALLOCATION *Close), (Device, Close))
WRAPPED(GetStandardAllocationDriverData, "odd", (const HANDLE Adapter, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA *Get),
        (Adapter, Get))
WRAPPED(SubmitCommand, "lie", (const HANDLE Adapter, const DXGKARG_SUBMITCOMMAND *Submit), (Adapter, Submit))
WRAPPED(SubmitCommandVirtual, "lie", (const HANDLE Adapter, const DXGKARG_SUBMITCOMMANDVIRTUAL *Submit), (Adapter, Submit))
WRAPPED(Present, "odd", (const HANDLE Context, DXGKARG_PRESENT *Present), (Context, Present))
WRAPPED(CancelCommand, "lie", (const HANDLE Adapter, const DXGKARG_CANCELCOMMAND *Cancel), (Adapter, Cancel))
WRAPPED(SetPowerComponentFState, "lie", (const HANDLE Adapter, UINT Component, UINT State), (Adapter, Component, State))
WRAPPED(ResetFromTimeout, "lie", (const HANDLE Adapter), (Adapter))
WRAPPED(RestartFromTimeout, "lie", (const HANDLE Adapter), (Adapter))

/* ---- Objects ---- */

#define CREATED(Name, Parameters, Arguments, Object)                                                                   \
    static NTSTATUS Name Parameters {                                                                                  \
        BOOLEAN Lies = Draw("DxgkDdi" #Name);                                                                          \
        NTSTATUS Status = g_Driver.DxgkDdi##Name Arguments;                                                            \
        if (!Lies || !NT_SUCCESS(Status)) {                                                                            \
            return Status;                                                                                             \
        }                                                                                                              \
        if (Below(4) == 0) {                                                                                           \
            Note("odd", "another handle");                                                                             \
            Object = (HANDLE)(ULONG_PTR)Garbage();                                                                     \
            return Status;                                                                                             \
        }                                                                                                              \
        Note("lie", "a failure");                                                                                      \
        return Failure();                                                                                              \
    }

CREATED(CreateProcess, (const HANDLE Adapter, DXGKARG_CREATEPROCESS *Create), (Adapter, Create), Create->hKmdProcess)
CREATED(CreateDevice, (const HANDLE Adapter, DXGKARG_CREATEDEVICE *Create), (Adapter, Create), Create->hDevice)
CREATED(CreateContext, (const HANDLE Device, DXGKARG_CREATECONTEXT *Create), (Device, Create), Create->hContext)

static NTSTATUS CreateAllocation(const HANDLE Adapter, DXGKARG_CREATEALLOCATION *Create) {
    BOOLEAN Lies = Draw("DxgkDdiCreateAllocation");
    NTSTATUS Status = g_Driver.DxgkDdiCreateAllocation(Adapter, Create);
    DXGK_ALLOCATIONINFO *Info = Create->pAllocationInfo;
    if (!Lies || !NT_SUCCESS(Status)) {
        return Status;
    }
    Note("odd", "a decision, or a failure");
    switch (Below(9)) {
    case 0:
        Info->Size = (SIZE_T)Garbage();
        break;
    case 1:
        Info->Alignment = (UINT)Garbage();
        break;
    case 2:
        Info->SupportedReadSegmentSet = (UINT)Garbage();
        Info->SupportedWriteSegmentSet = (UINT)Garbage();
        break;
    case 3:
        Info->PreferredSegment.Value = (UINT)Garbage();
        break;
    case 4:
        Info->EvictionSegmentSet = (UINT)Garbage();
        break;
    case 5:
        Info->AllocationPriority = (UINT)Garbage();
        break;
    case 6:
        Info->FlagsWddm2.Value = (UINT)Garbage();
        break;
    case 7:
        Info->hAllocation = (HANDLE)(ULONG_PTR)Garbage();
        break;
    default:
        return Failure();
    }
    return Status;
}

static NTSTATUS QueryAdapterInfo(const HANDLE Adapter, const DXGKARG_QUERYADAPTERINFO *Query) {
    BOOLEAN Lies = Draw("DxgkDdiQueryAdapterInfo");
    NTSTATUS Status = g_Driver.DxgkDdiQueryAdapterInfo(Adapter, Query);
    if (!Lies || !NT_SUCCESS(Status)) {
        return Status;
    }
    Note("odd", "a number, or a failure");
    if (Below(3) == 0) {
        return Failure();
    }
    ((UINT *)Query->pOutputData)[Below(Query->OutputDataSize / 4)] = (UINT)Garbage();
    return Status;
}

/* ---- Buffers ---- */

static NTSTATUS BuildPagingBuffer(const HANDLE Adapter, DXGKARG_BUILDPAGINGBUFFER *Build) {
    BYTE *Start = (BYTE *)Build->pDmaBuffer;
    UINT Room = Build->DmaSize;
    BOOLEAN Lies;
    NTSTATUS Status;
    g_Operation = Build->Operation;
    Lies = Draw("DxgkDdiBuildPagingBuffer");
    Status = g_Driver.DxgkDdiBuildPagingBuffer(Adapter, Build);
    if (!Lies || Start == NULL) {
        return Status;
    }
    switch (Below(8)) {
    case 0:
        Note("lie", "a failure");
        return Failure();
    case 1:
        Note("lie", "the end is too far");
        Build->pDmaBuffer = Start + Room + 1 + Below(1 << 20);
        return Status;
    case 2:
        Note("lie", "the end is before the start");
        Build->pDmaBuffer = Start - 1 - Below(1 << 20);
        return Status;
    case 3:
        Note("lie", "the end is anywhere");
        Build->pDmaBuffer = (VOID *)(ULONG_PTR)Garbage();
        return Status;
    case 4:
        Note("lie", "a byte behind the end");
        Start[Room + Below(1024)] ^= 0x5A;
        return Status;
    case 5:
        Note("odd", "it goes on from anywhere");
        Build->MultipassOffset = (UINT)Garbage();
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    case 6:
        Note("odd", "busy, or full");
        return Below(2) == 0 ? STATUS_GRAPHICS_ALLOCATION_BUSY : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    default:
        Note("odd", "a byte of the commands");
        if ((BYTE *)Build->pDmaBuffer > Start) {
            Start[Below((UINT64)((BYTE *)Build->pDmaBuffer - Start))] ^= (BYTE)(1 + Below(255));
        }
        return Status;
    }
}

static NTSTATUS Render(const HANDLE Context, DXGKARG_RENDER *Render) {
    BYTE *Start = (BYTE *)Render->pDmaBuffer, *Locations = (BYTE *)Render->pPatchLocationListOut;
    UINT Room = Render->DmaSize;
    BOOLEAN Lies = Draw("DxgkDdiRender");
    NTSTATUS Status = g_Driver.DxgkDdiRender(Context, Render);
    if (!Lies) {
        return Status;
    }
    switch (Below(7)) {
    case 0:
        Note("lie", "a failure");
        return STATUS_UNSUCCESSFUL;
    case 1:
        Note("lie", "the end is too far");
        Render->pDmaBuffer = Start + Room + 1 + Below(1 << 20);
        return Status;
    case 2:
        Note("odd", "the end of the list is anywhere");
        Render->pPatchLocationListOut = (D3DDDI_PATCHLOCATIONLIST *)(ULONG_PTR)Garbage();
        return Status;
    case 3:
        Note("lie", "a byte behind the end");
        Start[Room + Below(1024)] ^= 0x5A;
        return Status;
    case 4:
        Note("odd", "it goes on from anywhere");
        Render->MultipassOffset = (UINT)Garbage();
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    case 5:
        Note("odd", "a word of the list");
        if ((BYTE *)Render->pPatchLocationListOut > Locations) {
            UINT64 Words = (UINT64)((BYTE *)Render->pPatchLocationListOut - Locations) / 4;
            ((UINT *)Locations)[Below(Words)] = (UINT)Garbage();
        }
        return Status;
    default:
        Note("odd", "a byte of the commands");
        if ((BYTE *)Render->pDmaBuffer > Start) {
            Start[Below((UINT64)((BYTE *)Render->pDmaBuffer - Start))] ^= (BYTE)(1 + Below(255));
        }
        return Status;
    }
}

static NTSTATUS Patch(const HANDLE Adapter, const DXGKARG_PATCH *Patch) {
    BOOLEAN Lies = Draw("DxgkDdiPatch");
    NTSTATUS Status = g_Driver.DxgkDdiPatch(Adapter, Patch);
    if (!Lies) {
        return Status;
    }
    if (Below(2) == 0) {
        Note("lie", "a failure");
        return Failure();
    }
    Note("odd", "a byte anywhere");
    ((BYTE *)Patch->pDmaBuffer)[Below(Patch->DmaBufferSize + 512)] ^= (BYTE)(1 + Below(255));
    return Status;
}

/* ---- Interrupts and resets ---- */

/* The function that looks at the interrupt: a driver may look in an answer about the last fence too. */
static const char *g_Interrupted = "DxgkDdiInterruptRoutine";

static NTSTATUS QueryCurrentFence(const HANDLE Adapter, DXGKARG_QUERYCURRENTFENCE *Query) {
    BOOLEAN Lies = Draw("DxgkDdiQueryCurrentFence");
    NTSTATUS Status;
    g_Interrupted = "DxgkDdiQueryCurrentFence";
    Status = g_Driver.DxgkDdiQueryCurrentFence(Adapter, Query);
    g_Interrupted = "DxgkDdiInterruptRoutine";
    if (Lies) {
        Note("odd", "another fence");
        Query->CurrentFence = (UINT)Garbage();
    }
    return Status;
}

static VOID NotifyInterrupt(const HANDLE DeviceHandle, const DXGKARGCB_NOTIFY_INTERRUPT_DATA *Data) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA Told = *Data;
    if (!Draw(g_Interrupted)) {
        g_Dxgkrnl.DxgkCbNotifyInterrupt(DeviceHandle, Data);
        return;
    }
    switch (Below(5)) {
    case 0:
        Note("lie", "no report");
        return;
    case 1:
        Note("lie", "two reports");
        g_Dxgkrnl.DxgkCbNotifyInterrupt(DeviceHandle, Data);
        break;
    case 2:
        Note("odd", "another type");
        Told.InterruptType = (DXGK_INTERRUPT_TYPE)Garbage();
        break;
    case 3:
        Note("odd", "a word of the report");
        ((UINT *)&Told.DmaCompleted)[Below(10)] = (UINT)Garbage();
        break;
    default:
        Note("lie", "another adapter");
        g_Dxgkrnl.DxgkCbNotifyInterrupt((HANDLE)(ULONG_PTR)Garbage(), Data);
        return;
    }
    g_Dxgkrnl.DxgkCbNotifyInterrupt(DeviceHandle, &Told);
}

static NTSTATUS ResetEngine(const HANDLE Adapter, DXGKARG_RESETENGINE *Reset) {
    BOOLEAN Lies = Draw("DxgkDdiResetEngine");
    NTSTATUS Status = g_Driver.DxgkDdiResetEngine(Adapter, Reset);
    if (Lies) {
        Note("odd", "another packet, or a failure");
        Reset->LastAbortedFenceId = (UINT)Garbage();
        return Below(2) == 0 ? Failure() : Status;
    }
    return Status;
}

static NTSTATUS AddDevice(const PDEVICE_OBJECT Object, PVOID *Context) {
    NTSTATUS Status;
    g_Operation = 0;
    g_Function = "DxgkDdiAddDevice";
    Note("adapter", "");
    if (Draw("DxgkDdiAddDevice")) {
        Note("lie", "a failure");
        return Failure();
    }
    Status = g_Driver.DxgkDdiAddDevice(Object, Context);
    g_Adapter = *Context;
    return Status;
}

static NTSTATUS StartDevice(const PVOID Context, PDXGK_START_INFO Info, PDXGKRNL_INTERFACE Dxgkrnl, PULONG Sources,
                            PULONG Children) {
    DXGKRNL_INTERFACE Own = *Dxgkrnl;
    g_Dxgkrnl = *Dxgkrnl;
    Own.DxgkCbNotifyInterrupt = NotifyInterrupt;
    if (Draw("DxgkDdiStartDevice")) {
        Note("lie", "a failure");
        return Failure();
    }
    return g_Driver.DxgkDdiStartDevice(Context, Info, &Own, Sources, Children);
}

/* ---- The model of the GPU, and the user-mode driver ---- */

static VOID Run(HANDLE Adapter, UINT Node) {
    if (!Draw("GpuRun")) {
        g_Gpu->Run(Adapter, Node);
        return;
    }
    if (Below(2) == 0) {
        Note("lie", "nothing is run");
        return;
    }
    Note("odd", "another engine");
    g_Gpu->Run(Adapter, (UINT)Garbage());
}

static VIDMM_TRANSLATION Translate(HANDLE Adapter, UINT Node, D3DGPU_VIRTUAL_ADDRESS Address, BOOLEAN Write, UINT *SegmentId,
                                   UINT64 *Offset) {
    VIDMM_TRANSLATION Translation = g_Gpu->Translate(Adapter, Node, Address, Write, SegmentId, Offset);
    if (Below(g_Every) != 0) {
        return Translation;
    }
    g_Function = "Translate";
    Note("odd", "another place");
    *SegmentId = (UINT)Below(4);
    *Offset = Garbage();
    return (VIDMM_TRANSLATION)(Below(8) == 0 ? (UINT)Garbage() : 0);
}

static BOOLEAN ReadPageTableEntry(HANDLE Adapter, UINT SegmentId, UINT64 Table, UINT Level, BOOLEAN Is64KB, UINT Index,
                                  DXGK_PTE *Entry, DXGK_PTE *Entry64KB) {
    BOOLEAN IsThere = g_Gpu->ReadPageTableEntry(Adapter, SegmentId, Table, Level, Is64KB, Index, Entry, Entry64KB);
    if (Below(g_Every * 50) == 0) {
        g_Function = "ReadPageTableEntry";
        Note("odd", "another entry");
        ((UINT64 *)Entry)[Below(2)] = Garbage();
        return (BOOLEAN)Garbage();
    }
    return IsThere;
}

static BOOLEAN ReadAperturePage(HANDLE Adapter, UINT SegmentId, UINT64 Page, UINT64 *SystemPage) {
    BOOLEAN IsThere = g_Gpu->ReadAperturePage(Adapter, SegmentId, Page, SystemPage);
    if (Below(g_Every * 50) == 0) {
        g_Function = "ReadAperturePage";
        Note("odd", "another page");
        *SystemPage = Garbage();
        return (BOOLEAN)Garbage();
    }
    return IsThere;
}

static UINT GetAllocationPrivateData(const VIDMM_ALLOCATION *Allocation, VOID *Data, UINT Size) {
    UINT Written;
    BOOLEAN Lies = Draw("GetAllocationPrivateData");
    Written = g_Test->GetAllocationPrivateData(Allocation, Data, Size);
    if (Lies) {
        Note("odd", "other data");
        if (Below(2) == 0) {
            return (UINT)Garbage();
        }
        ((BYTE *)Data)[Below(Written)] ^= (BYTE)(1 + Below(255));
    }
    return Written;
}

const VIDMM_TEST_INTERFACE *VidmmGetTestInterface(VOID) {
    static VIDMM_GPU Gpu;
    static VIDMM_TEST_INTERFACE Interface;
    g_Test = WrappedTestInterface();
    g_Gpu = g_Test->Gpu;
    Interface = *g_Test;
    Interface.GetAllocationPrivateData = GetAllocationPrivateData;
    if (g_Gpu != NULL) {
        Gpu.Run = Run;
        Gpu.Translate = Translate;
        Gpu.ReadPageTableEntry = g_Gpu->ReadPageTableEntry != NULL ? ReadPageTableEntry : NULL;
        Gpu.ReadAperturePage = g_Gpu->ReadAperturePage != NULL ? ReadAperturePage : NULL;
        Gpu.Compresses = g_Gpu->Compresses;
        Interface.Gpu = &Gpu;
    }
    return &Interface;
}

/* ---- The entry: the wrapped driver calls this in place of DxgkInitialize ---- */

static UINT64 Number(const char *Name, UINT64 Otherwise) {
    const char *Text = getenv(Name);
    return Text != NULL ? strtoull(Text, NULL, 10) : Otherwise;
}

NTSTATUS InitializeWrapped(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA Data) {
    DRIVER_INITIALIZATION_DATA Own = *Data;
    const char *Log = getenv("LIAR_LOG");
    struct stat Written = {0};
    g_Driver = *Data;
    if (Log != NULL) {
        g_Log = open(Log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
        fstat(g_Log, &Written);
    }
    /* Each process of a run draws anew: the log is longer by then. */
    g_State = Number("LIAR_SEED", 1) << 32 ^ (UINT64)Written.st_size;
    g_Every = Number("LIAR_EVERY", g_Every);
    Note("entry", "");
    Own.DxgkDdiAddDevice = AddDevice;
    Own.DxgkDdiStartDevice = StartDevice;
#define WRAP(Name) Own.DxgkDdi##Name = Data->DxgkDdi##Name != NULL ? Name : NULL
    WRAP(StopDevice);
    WRAP(RemoveDevice);
    WRAP(QueryAdapterInfo);
    WRAP(GetNodeMetadata);
    WRAP(CreateProcess);
    WRAP(DestroyProcess);
    WRAP(CreateDevice);
    WRAP(DestroyDevice);
    WRAP(CreateContext);
    WRAP(DestroyContext);
    WRAP(CreateAllocation);
    WRAP(DestroyAllocation);
    WRAP(GetStandardAllocationDriverData);
    WRAP(OpenAllocation);
    WRAP(CloseAllocation);
    WRAP(BuildPagingBuffer);
    WRAP(Render);
    WRAP(Patch);
    WRAP(Present);
    WRAP(CancelCommand);
    WRAP(SetPowerComponentFState);
    WRAP(QueryCurrentFence);
    WRAP(SubmitCommand);
    WRAP(SubmitCommandVirtual);
    WRAP(ResetEngine);
    WRAP(ResetFromTimeout);
    WRAP(RestartFromTimeout);
    return DxgkInitialize(DriverObject, RegistryPath, &Own);
}
