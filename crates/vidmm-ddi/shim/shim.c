/*
 * A small kernel: with the other files of this folder, the functions of ntddk.h and vidmm_test.h, which a driver's library links. It
 * counts what a driver takes, and reports misuse by name.
 */
#include "shim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

const VIDMM_HOST *g_VidmmHost;
pthread_mutex_t g_VidmmLock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t g_VidmmChanged = PTHREAD_COND_INITIALIZER;
VIDMM_SHIM_COUNTS g_VidmmCounts;

void VidmmReport(const char *Rule, const char *Format, ...) {
    char Message[256];
    va_list Arguments;
    VidmmPauseStack();
    va_start(Arguments, Format);
    vsnprintf(Message, sizeof(Message), Format, Arguments);
    va_end(Arguments);
    if (g_VidmmHost != NULL) {
        g_VidmmHost->Report(Rule, Message);
    }
    VidmmResumeStack();
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

static char *g_LastWords;
static SIZE_T g_LastWordsSize;

static void SetLastWords(char *Buffer, SIZE_T Size) {
    g_LastWords = Buffer;
    g_LastWordsSize = Size;
}

void VidmmSayLastWords(const char *Format, ...) {
    va_list Arguments;
    va_start(Arguments, Format);
    if (g_LastWords != NULL) {
        vsnprintf(g_LastWords, g_LastWordsSize, Format, Arguments);
    }
    va_end(Arguments);
}

VOID RtlAssert(PCSTR Expression, PCSTR File, ULONG Line) {
    const char *Name = strrchr(File, '/');
    fprintf(stderr, "%s:%u: assertion failed: %s\n", File, Line, Expression);
    VidmmSayLastWords("the assertion %s of %s:%u fails", Expression, Name != NULL ? Name + 1 : File, Line);
    abort();
}

VOID KeBugCheckEx(ULONG Code, ULONG_PTR One, ULONG_PTR Two, ULONG_PTR Three, ULONG_PTR Four) {
    fprintf(stderr, "bug check %#x (%#zx, %#zx, %#zx, %#zx)\n", Code, One, Two, Three, Four);
    VidmmSayLastWords("the driver calls KeBugCheckEx with code %#x, %#zx", Code, One);
    abort();
}

/* ---- The driver's table, and the model of its GPU ---- */

NTSTATUS DxgkInitialize(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath,
                        PDRIVER_INITIALIZATION_DATA DriverInitializationData) {
    (void)DriverObject;
    (void)RegistryPath;
    return DriverInitializationData == NULL ? STATUS_INVALID_PARAMETER : g_VidmmHost->Initialize(DriverInitializationData);
}

BOOLEAN VidmmReadMemory(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, VOID *Data, SIZE_T Size) {
    const VOID *Bytes = SegmentId == 0 ? VidmmContiguousBytes(Offset, Size) : NULL;
    if (Bytes != NULL) {
        memcpy(Data, Bytes, Size);
        return TRUE;
    }
    return g_VidmmHost->ReadMemory(DeviceHandle, SegmentId, Offset, Data, Size);
}

BOOLEAN VidmmWriteMemory(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, const VOID *Data, SIZE_T Size) {
    VOID *Bytes = SegmentId == 0 ? VidmmContiguousBytes(Offset, Size) : NULL;
    if (Bytes != NULL) {
        memcpy(Bytes, Data, Size);
        return TRUE;
    }
    return g_VidmmHost->WriteMemory(DeviceHandle, SegmentId, Offset, Data, Size);
}

BOOLEAN VidmmCopyPage(HANDLE DeviceHandle, UINT ToSegment, UINT64 ToOffset, UINT FromSegment, UINT64 FromOffset) {
    return g_VidmmHost->CopyPage(DeviceHandle, ToSegment, ToOffset, FromSegment, FromOffset);
}

BOOLEAN VidmmFillPage(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, UINT Pattern) {
    return g_VidmmHost->FillPage(DeviceHandle, SegmentId, Offset, Pattern);
}

BOOLEAN VidmmDecompressPage(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, UINT Surface, UINT64 Page) {
    return g_VidmmHost->DecompressPage(DeviceHandle, SegmentId, Offset, Surface, Page);
}

const VOID *VidmmMapDmaBuffer(HANDLE DeviceHandle, UINT64 Address, SIZE_T Size) {
    return g_VidmmHost->MapDmaBuffer(DeviceHandle, Address, Size);
}

BOOLEAN VidmmRunUserWork(HANDLE DeviceHandle, UINT NodeOrdinal, UINT64 Address, SIZE_T Size, UINT64 *FaultAddress,
                         BOOLEAN *FaultIsWrite) {
    return g_VidmmHost->RunUserWork(DeviceHandle, NodeOrdinal, Address, Size, FaultAddress, FaultIsWrite);
}

VOID VidmmRaiseInterrupt(HANDLE DeviceHandle, ULONG MessageNumber) {
    g_VidmmHost->RaiseInterrupt(DeviceHandle, MessageNumber);
}

/* ---- The connection ---- */

static void GetCounts(VIDMM_SHIM_COUNTS *Counts) {
    pthread_mutex_lock(&g_VidmmLock);
    *Counts = g_VidmmCounts;
    pthread_mutex_unlock(&g_VidmmLock);
    Counts->LocksHeld = g_VidmmLocksHeld;
}

#define CALLS_MAX 8

/* The functions of the driver that run, the outermost first. One thread calls the driver. */
static const char *g_Calls[CALLS_MAX];
static UINT g_CallCount;

const char *VidmmCall(void) {
    if (VidmmIsOwnThread()) {
        return "a thread of the driver";
    }
    return g_CallCount > 0 ? g_Calls[min(g_CallCount, CALLS_MAX) - 1] : "DriverEntry";
}

static void BeginCall(KIRQL Irql, const char *Name) {
    g_VidmmIrql = Irql;
    if (Name != NULL && g_CallCount++ < CALLS_MAX) {
        g_Calls[g_CallCount - 1] = Name;
    }
    if (Name != NULL && g_CallCount == 1) {
        /* The model of the GPU and the user-mode driver are no part of the driver. */
        if (strncmp(Name, "DxgkDdi", 7) == 0) {
            VidmmBeginStack(__builtin_frame_address(0));
        }
    } else if (Name != NULL) {
        VidmmPauseStack();
    }
    if (Irql >= DISPATCH_LEVEL) {
        VidmmTrim();
    }
    VidmmCompareMappings();
}

static UINT64 g_DeepestBytes;
static const char *g_DeepestName;

static UINT64 TakeDeepest(const char **Name) {
    UINT64 Bytes = g_DeepestBytes;
    *Name = g_DeepestName;
    g_DeepestBytes = 0;
    return Bytes;
}

static void EndCall(BOOLEAN IsOutermost) {
    if (IsOutermost) {
        UINT64 Bytes = VidmmEndStack();
        if (Bytes > g_DeepestBytes) {
            g_DeepestBytes = Bytes;
            g_DeepestName = g_Calls[0];
        }
    } else {
        VidmmResumeStack();
    }
    VidmmEndCall(IsOutermost);
    g_CallCount = IsOutermost ? 0 : g_CallCount - (g_CallCount > 0);
}

EXPORT const VIDMM_SHIM *VidmmConnect(const VIDMM_HOST *Host) {
    static const VIDMM_SHIM Shim = {VIDMM_HOST_VERSION, GetCounts,             VidmmCheckPool,   VidmmFailAt,
                                    BeginCall,          EndCall,               VidmmSetTime,     KeGetCurrentIrql,
                                    VidmmForget,        VidmmSetRegistryValue, VidmmRetireMdl,   VidmmResources,
                                    VidmmMapRegisters,  VidmmSetMachine,       SetLastWords,     VidmmSetHeldLocks,
                                    VidmmReportLeaks,   VidmmStepThreads,
                                    VidmmGuardedCopy,   VidmmPauseInCallbacks, TakeDeepest,      VidmmVanishedCopy,
                                    VidmmChangingCopy,  VidmmSetChange,        VidmmCountMoments,
                                    VidmmNewMdlMemory,  VidmmHideMdlMemory,    VidmmFreeMdlMemory, VidmmThreadsAreIdle};
    if (Host->Version != VIDMM_HOST_VERSION) {
        return NULL;
    }
    g_VidmmHost = Host;
    VidmmInstallFaultHandlers();
    return &Shim;
}
