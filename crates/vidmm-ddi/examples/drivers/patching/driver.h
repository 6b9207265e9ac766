/* The objects of the driver, and the functions of its parts. */
#ifndef DRIVER_H
#define DRIVER_H

#include "bugs.h"
#include "dispmprt.h"
#include "gpu.h"

#define TAG 0x43544150 /* 'PATC' */

/* Rows of the resource table: slots 0 to one less. */
#define SLOTS 64

typedef struct DEVICE {
    struct ADAPTER *Adapter;
} DEVICE;

typedef struct CONTEXT {
    DEVICE *Device;
    UINT NodeOrdinal;
} CONTEXT;

typedef struct ADAPTER {
    DXGKRNL_INTERFACE Dxgkrnl;
    GPU Gpu;
    UINT PreemptionFenceId;
    UINT SavedFenceId; /* the register of the engine that sleeps */
#ifdef WITH_REPORTER
    KEVENT Wake;
    PVOID Reporter;
    volatile BOOLEAN IsStopping;
#endif
#ifdef WITH_ONE_CONTEXT
    DEVICE OnlyDevice;
    CONTEXT OnlyContext;
#endif
    /* For mistakes. */
    UINT LastSubmittedFenceId;
    UINT ForgedFenceId;
} ADAPTER;

typedef struct ALLOCATION {
    UINT64 Size;
} ALLOCATION;

/* An allocation as a device has it open: what an allocation list names. */
typedef struct OPENED {
    const ALLOCATION *Allocation;
    UINT Pitch; /* of the resource's rows; 0 where it is part of none */
} OPENED;

/* The private data of a DMA buffer. */
typedef struct RENDERED {
    UINT Magic;      /* RENDERED_MAGIC */
    UINT Size;       /* bytes in the DMA buffer */
    VOID *DmaBuffer; /* where it begins */
    UINT64 Address;  /* and where it begins for the engine */
    VOID *Notes;     /* pool of the driver's, until the hardware has the last part of the buffer; then NULL */
} RENDERED;

#define RENDERED_MAGIC 0x54524150 /* 'PART' */

/* paging.c */
NTSTATUS BuildPagingBuffer(const HANDLE hAdapter, DXGKARG_BUILDPAGINGBUFFER *Build);

/* render.c */
NTSTATUS Render(const HANDLE hContext, DXGKARG_RENDER *Render);
NTSTATUS TranslateCommands(const HANDLE hContext, DXGKARG_RENDER *Render);
NTSTATUS Patch(const HANDLE hAdapter, const DXGKARG_PATCH *Patch);
/* The bytes of the DMA buffer at this address with this private data; 0 if the data is of no such buffer. The pointer may be NULL. */
UINT RenderedSize(const VOID *PrivateData, UINT Size, const VOID *DmaBuffer, UINT64 Address);
#ifdef WITH_KEPT_POINTERS
/* The private data of a paging buffer, which stays with the buffer: where the buffer is. */
typedef struct PAGING_DATA {
    VOID *DmaBuffer;
    UINT64 Address;
} PAGING_DATA;
#endif
/* Notes the bytes of a filled DMA buffer; FALSE without memory. */
BOOLEAN AddRendered(RENDERED *Rendered, VOID *DmaBuffer, UINT Size);
VOID FreeNotes(RENDERED *Rendered);

/* entries.c */
NTSTATUS DescribeComponent(const DXGKARG_QUERYADAPTERINFO *Query);
NTSTATUS SetPowerComponentFState(const HANDLE hAdapter, UINT ComponentIndex, UINT FState);
NTSTATUS PowerRuntimeControlRequest(const HANDLE hAdapter, const GUID *PowerControlCode, PVOID InBuffer, SIZE_T InBufferSize,
                                    PVOID OutBuffer, SIZE_T OutBufferSize, SIZE_T *BytesReturned);
NTSTATUS CancelCommand(const HANDLE hAdapter, const DXGKARG_CANCELCOMMAND *Cancel);
NTSTATUS Present(const HANDLE hContext, DXGKARG_PRESENT *Present);

/* For mistakes: reports the end of a packet. */
VOID ForgeEnd(ADAPTER *Adapter, UINT FenceId);

#endif
