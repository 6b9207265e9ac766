/*
 * The stack that the driver takes, in a share of the checks: what is below the caller's frame has a pattern, and the deepest changed
 * byte is looked for when the driver returns. vidmm's callbacks, DPCs and reports have stacks of their own in Windows, or none: what
 * they change gets the pattern again. Frames of this kernel's short functions count.
 */
#include "shim.h"

#define PATTERN 0x5A17C0DE5A17C0DEull
/* Deeper than all that is told apart, and far from the end of the thread's stack. */
#define LOOKED_AT (128u << 10)
/* Frames of the functions here. */
#define OWN 512

static BOOLEAN g_Measures;
/* Of the outermost call of the driver, in the thread that calls; NULL while none is measured. */
static __thread UINT64 *g_Base;
static __thread UINT64 *g_Deepest;
static __thread UINT g_Pauses;

void VidmmSetMeasures(BOOLEAN Measures) {
    g_Measures = Measures && !VIDMM_IS_SANITIZED;
}

static UINT64 *Lowest(void) {
    return g_Base - LOOKED_AT / sizeof(UINT64);
}

__attribute__((noinline, no_sanitize("address"))) static UINT64 *FindDeepest(void) {
    volatile UINT64 *At = Lowest();
    while (At < g_Base && *At == PATTERN) {
        At++;
    }
    return (UINT64 *)At;
}

/* Up to an address, or to what is below the frames of the functions here. */
__attribute__((noinline, no_sanitize("address"))) static void Paint(const UINT64 *End) {
    volatile UINT64 *At = Lowest();
    const UINT64 *Own = (const UINT64 *)((BYTE *)__builtin_frame_address(0) - OWN);
    for (End = min(End, Own); At < End; At++) {
        *At = PATTERN;
    }
}

void VidmmBeginStack(VOID *Frame) {
    g_Base = NULL;
    if (g_Measures) {
        g_Base = (UINT64 *)Frame;
        g_Pauses = 0;
        Paint(g_Base);
    }
}

UINT64 VidmmEndStack(void) {
    UINT64 Bytes = g_Base != NULL ? (UINT64)((BYTE *)g_Base - (BYTE *)FindDeepest()) : 0;
    g_Base = NULL;
    return Bytes > OWN ? Bytes : 0;
}

void VidmmPauseStack(void) {
    if (g_Base != NULL && g_Pauses++ == 0) {
        g_Deepest = FindDeepest();
    }
}

void VidmmResumeStack(void) {
    if (g_Base != NULL && --g_Pauses == 0) {
        Paint(g_Deepest);
    }
}

/* ---- The callbacks of Dxgkrnl ---- */

static DXGKRNL_INTERFACE g_Dxgkrnl;

#define PAUSED(Type, Name, Parameters, Arguments)                                                                      \
    static Type Name Parameters {                                                                                      \
        Type Result;                                                                                                   \
        VidmmPauseStack();                                                                                             \
        Result = g_Dxgkrnl.Name Arguments;                                                                             \
        VidmmResumeStack();                                                                                            \
        return Result;                                                                                                 \
    }

#define PAUSED_VOID(Name, Parameters, Arguments)                                                                       \
    static VOID Name Parameters {                                                                                      \
        VidmmPauseStack();                                                                                             \
        g_Dxgkrnl.Name Arguments;                                                                                      \
        VidmmResumeStack();                                                                                            \
    }

PAUSED(NTSTATUS, DxgkCbGetDeviceInformation, (HANDLE Device, PDXGK_DEVICE_INFO Info), (Device, Info))
PAUSED(BOOLEAN, DxgkCbQueueDpc, (HANDLE Device), (Device))
PAUSED(HANDLE, DxgkCbGetHandleData, (const DXGKARGCB_GETHANDLEDATA *Get), (Get))
PAUSED(HANDLE, DxgkCbAcquireHandleData, (const DXGKARGCB_GETHANDLEDATA *Get, HANDLE *Release), (Get, Release))
PAUSED_VOID(DxgkCbReleaseHandleData, (DXGKARGCB_RELEASEHANDLEDATA Release), (Release))
PAUSED_VOID(DxgkCbNotifyInterrupt, (const HANDLE Device, const DXGKARGCB_NOTIFY_INTERRUPT_DATA *Data), (Device, Data))
PAUSED_VOID(DxgkCbNotifyDpc, (const HANDLE Device), (Device))
PAUSED(NTSTATUS, DxgkCbSynchronizeExecution,
       (HANDLE Device, PKSYNCHRONIZE_ROUTINE Routine, PVOID Context, ULONG Message, PBOOLEAN Returned),
       (Device, Routine, Context, Message, Returned))

void VidmmPauseInCallbacks(DXGKRNL_INTERFACE *Interface) {
    if (!g_Measures) {
        return;
    }
    g_Dxgkrnl = *Interface;
    Interface->DxgkCbGetDeviceInformation = DxgkCbGetDeviceInformation;
    Interface->DxgkCbQueueDpc = DxgkCbQueueDpc;
    Interface->DxgkCbGetHandleData = DxgkCbGetHandleData;
    Interface->DxgkCbAcquireHandleData = DxgkCbAcquireHandleData;
    Interface->DxgkCbReleaseHandleData = DxgkCbReleaseHandleData;
    Interface->DxgkCbNotifyInterrupt = DxgkCbNotifyInterrupt;
    Interface->DxgkCbNotifyDpc = DxgkCbNotifyDpc;
    Interface->DxgkCbSynchronizeExecution = DxgkCbSynchronizeExecution;
}
