/*
 * A driver adds this for vidmm alone: the private data of allocations, and a model of its GPU. All names here are vidmm's.
 *
 * A driver may export VidmmGetTestInterface. Without it allocations are those of DxgkDdiGetStandardAllocationDriverData. Without a
 * GPU in it the operations are executed as documented, whatever the driver encodes; with one, the bytes of the driver's paging
 * buffers are executed and their effects judged.
 */
#ifndef VIDMM_TEST_H
#define VIDMM_TEST_H

#include "d3dkmddi.h"

EXTERN_C_START

#define VIDMM_TEST_INTERFACE_VERSION 6

/* An allocation that a program asks for. */
typedef struct _VIDMM_ALLOCATION {
    UINT64 Size;               /* bytes */
    BOOLEAN MayBeLocal;        /* in the memory segment; preferred where both are set */
    BOOLEAN MayBeSystem;       /* in system memory: the driver names its aperture segment */
    BOOLEAN CpuVisible;        /* the flags of the same names */
    BOOLEAN PermanentSysMem;
    BOOLEAN ExistingSysMem;
    BOOLEAN NotifyEviction;
    UINT Priority;             /* 0: the driver's choice */
    UINT Surface;              /* it may be compressed, and its marks are those of this surface; 0: it never is */
} VIDMM_ALLOCATION;

/* Where a page of an address space is. */
typedef enum _VIDMM_TRANSLATION {
    VIDMM_TRANSLATION_MAPPED = 0,
    VIDMM_TRANSLATION_ZERO = 1, /* reads give zeros, writes are dropped */
    VIDMM_TRANSLATION_FAULT = 2
} VIDMM_TRANSLATION;

/*
 * A model of the GPU. Its memory is vidmm's: it reads and writes segments by the functions below. What the driver's SubmitCommand
 * functions do to the hardware, they do to this model.
 */
typedef struct _VIDMM_GPU {
    /*
     * Executes what the driver has submitted to an engine since the last call, then calls VidmmRaiseInterrupt. Work of users is
     * handed back with VidmmRunUserWork.
     */
    VOID (*Run)(HANDLE hAdapter, UINT NodeOrdinal);
    /*
     * Translates an address: in the address space that the engine has now, or, where engines use physical addresses, as
     * DxgkDdiRender and DxgkDdiPatch write it, to a place in a memory segment or an aperture. VidmmRunUserWork asks, and so does the
     * verifier behind each of the two.
     */
    VIDMM_TRANSLATION (*Translate)(HANDLE hAdapter, UINT NodeOrdinal, D3DGPU_VIRTUAL_ADDRESS Address, BOOLEAN Write,
                                   UINT *SegmentId, UINT64 *Offset);
    /*
     * Decodes an entry of a page table, as it is in memory. May be NULL: then entries are judged by what is accessed through
     * them. The second entry is of the 64 KiB side of a table with dual entries.
     */
    BOOLEAN (*ReadPageTableEntry)(HANDLE hAdapter, UINT SegmentId, UINT64 TableOffset, UINT Level, BOOLEAN Is64KB, UINT Index,
                                  DXGK_PTE *Entry, DXGK_PTE *Entry64KB);
    /*
     * The number of the page of system memory that a page of an aperture segment shows; FALSE if it shows none. NULL if there is no
     * aperture, or none that Translate leads to.
     */
    BOOLEAN (*ReadAperturePage)(HANDLE hAdapter, UINT SegmentId, UINT64 Page, UINT64 *SystemPage);
    /*
     * TRUE: pages that work of users writes may be compressed, and the driver makes them plain by VidmmDecompressPage before
     * the CPU sees them. The private data of an allocation tells its surface then.
     */
    BOOLEAN Compresses;
    /*
     * Above 1: the hardware has a queue. The driver is handed so many packets of an engine at once, and each call of Run executes the
     * oldest of them.
     */
    UINT NumQueuedPackets;
    /*
     * The page of a memory segment that a page of the segment's CPU host aperture shows; FALSE if it shows none. NULL: mappings of the
     * aperture are not judged.
     */
    BOOLEAN (*ReadCpuHostAperturePage)(HANDLE hAdapter, UINT SegmentId, UINT32 Page, UINT64 *MemoryPage);
} VIDMM_GPU;

typedef struct _VIDMM_TEST_INTERFACE {
    UINT Version; /* VIDMM_TEST_INTERFACE_VERSION */
    /* Writes the private data from which CreateAllocation makes an allocation, and returns its size in bytes; 0 if Size is too
     * small or the driver has no allocation of the kind: then CreateAllocation is not called. */
    UINT (*GetAllocationPrivateData)(const VIDMM_ALLOCATION *Allocation, VOID *Data, UINT Size);
    const VIDMM_GPU *Gpu; /* NULL: none */
    /* The same for the resource that the allocation is all of; 0 if it is part of none. NULL: none ever is. */
    UINT (*GetResourcePrivateData)(const VIDMM_ALLOCATION *Allocation, VOID *Data, UINT Size);
    /* TRUE: the driver takes a VIRTUAL_TRANSFER from a memory segment to system memory for an allocation that stays in place (D37). */
    BOOLEAN TakesWriteBehind;
} VIDMM_TEST_INTERFACE;

/*
 * ---- The work of users ----
 *
 * vidmm is the user-mode driver. Where engines use physical addresses, DxgkDdiRender is given these commands, one behind the other,
 * and copies them into the DMA buffer; the model of the GPU hands the part that is submitted to VidmmRunUserWork. Each address has
 * a patch location, whose PatchOffset is that of VIDMM_USER_RANGE.Address: the driver writes 8 bytes there, whatever Translate
 * understands.
 */

typedef enum _VIDMM_USER_OPCODE {
    VIDMM_USER_STATE = 1, /* programs the state of the engine: behind each split point */
    VIDMM_USER_KERNEL = 2
} VIDMM_USER_OPCODE;

typedef struct _VIDMM_USER_COMMAND {
    UINT Opcode;
    UINT Size; /* bytes of the command, with these; a multiple of 8 */
} VIDMM_USER_COMMAND;

/* Behind it are the ranges that the kernel reads, and then those that it writes. */
typedef struct _VIDMM_USER_KERNEL_COMMAND {
    VIDMM_USER_COMMAND Command;
    UINT64 Number;
    UINT64 Nanoseconds;
    UINT64 IsRamp;
    UINT NumReads;
    UINT NumWrites;
} VIDMM_USER_KERNEL_COMMAND;

typedef struct _VIDMM_USER_RANGE {
    UINT64 Address;
    UINT64 NumPages; /* of 4 KiB; 0: the address is not used, and has no patch location */
    UINT64 Surface;  /* what is written is compressed, and pages that are marked are made plain when they are read; 0: plain */
    UINT64 FirstPage; /* the page of the allocation at Address */
} VIDMM_USER_RANGE;

/* Exported by the driver. */
const VIDMM_TEST_INTERFACE *VidmmGetTestInterface(VOID);

/*
 * ---- For the model of the GPU ----
 *
 * DeviceHandle is that of DXGKRNL_INTERFACE. Segment 0 is system memory. An access to no memory is reported (GPU-ACCESS), and
 * reads zeros.
 */

BOOLEAN VidmmReadMemory(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, VOID *Data, SIZE_T Size);
BOOLEAN VidmmWriteMemory(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, const VOID *Data, SIZE_T Size);
/* One page of 4 KiB each, at page borders: cheaper than to read and to write it where all its words are equal. */
BOOLEAN VidmmCopyPage(HANDLE DeviceHandle, UINT ToSegment, UINT64 ToOffset, UINT FromSegment, UINT64 FromOffset);
BOOLEAN VidmmFillPage(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, UINT Pattern);
/*
 * Compression: work of users that writes a page of an allocation with a surface stores it compressed, and marks the page.
 * This makes page number Page of the allocation, which is at Offset, plain where it is, if it is marked.
 */
BOOLEAN VidmmDecompressPage(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, UINT Surface, UINT64 Page);
/* The bytes of the DMA buffer at an address that SubmitCommand or SubmitCommandVirtual was given; NULL if there are none. */
const VOID *VidmmMapDmaBuffer(HANDLE DeviceHandle, UINT64 Address, SIZE_T Size);
/*
 * Executes the DMA buffer of a submission without Flags.Paging: a program of vidmm's, which asks Translate for each page. FALSE
 * if it has faulted: the address, and whether it was written.
 */
BOOLEAN VidmmRunUserWork(HANDLE DeviceHandle, UINT NodeOrdinal, UINT64 Address, SIZE_T Size, UINT64 *FaultAddress,
                         BOOLEAN *FaultIsWrite);
/* The hardware's interrupt: InterruptRoutine is called before this returns. */
VOID VidmmRaiseInterrupt(HANDLE DeviceHandle, ULONG MessageNumber);

EXTERN_C_END

#endif
