/*
 * The tables that the shim in a driver's library and vidmm give each other. Not for drivers.
 */
#ifndef VIDMM_HOST_H
#define VIDMM_HOST_H

#include "dispmprt.h"
#include "vidmm_test.h"

#define VIDMM_HOST_VERSION 9

/* vidmm's functions. */
typedef struct _VIDMM_HOST {
    UINT Version;
    VOID (*Report)(const char *Rule, const char *Message);
    NTSTATUS (*Initialize)(const DRIVER_INITIALIZATION_DATA *Data);
    BOOLEAN (*ReadMemory)(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, VOID *Data, SIZE_T Size);
    BOOLEAN (*WriteMemory)(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, const VOID *Data, SIZE_T Size);
    BOOLEAN (*CopyPage)(HANDLE DeviceHandle, UINT ToSegment, UINT64 ToOffset, UINT FromSegment, UINT64 FromOffset);
    BOOLEAN (*FillPage)(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, UINT Pattern);
    BOOLEAN (*DecompressPage)(HANDLE DeviceHandle, UINT SegmentId, UINT64 Offset, UINT Surface, UINT64 Page);
    const VOID *(*MapDmaBuffer)(HANDLE DeviceHandle, UINT64 Address, SIZE_T Size);
    BOOLEAN (*RunUserWork)(HANDLE DeviceHandle, UINT NodeOrdinal, UINT64 Address, SIZE_T Size, UINT64 *FaultAddress,
                           BOOLEAN *FaultIsWrite);
    VOID (*RaiseInterrupt)(HANDLE DeviceHandle, ULONG MessageNumber);
    /* A page of system memory by the number that the driver knows. FALSE if there is no such page: it reads as zeros. */
    BOOLEAN (*ReadSystemPage)(UINT64 Page, VOID *Data);
    BOOLEAN (*WriteSystemPage)(UINT64 Page, const VOID *Data);
    /* The physical address of a byte of a DMA buffer; 0 if it is in none. */
    UINT64 (*PhysicalAddressOf)(const VOID *Address);
} VIDMM_HOST;

/* The shim's counts. */
typedef struct _VIDMM_SHIM_COUNTS {
    UINT64 Allocations;     /* of pool, threads, keys and work items, ever */
    UINT64 PoolBlocks;      /* now */
    UINT64 PoolBytes;       /* now */
    UINT64 LocksHeld;       /* now, by the thread that asks */
    UINT64 OpenHandles;     /* now */
    UINT64 Threads;         /* of the driver's own, now */
    UINT64 WorkItems;       /* that are not freed, now */
    UINT64 Timers;          /* that are set, now */
} VIDMM_SHIM_COUNTS;

/* What is drawn in a share of the checks. */
#define VIDMM_DRAWN_TRIM 1u  /* pageable pool is paged out at each rise to DISPATCH_LEVEL */
#define VIDMM_DRAWN_STACK 2u /* the driver's stack is measured */

/* The shim's functions. */
typedef struct _VIDMM_SHIM {
    UINT Version;
    VOID (*GetCounts)(VIDMM_SHIM_COUNTS *Counts);
    /* Checks the bytes behind all blocks. */
    VOID (*CheckPool)(VOID);
    /* Lets the n-th allocation from now on fail; 0: none. */
    VOID (*FailAt)(UINT64 Number);
    /* A call of the driver begins at a level of interrupts: its name; NULL for a part of a call, which has no end of its own. */
    VOID (*BeginCall)(KIRQL Irql, const char *Name);
    /* It has returned: DPCs run, and behind the outermost call work items too. */
    VOID (*EndCall)(BOOLEAN IsOutermost);
    /* So many nanoseconds have passed in the world: timers fire. */
    VOID (*SetTime)(UINT64 Nanoseconds);
    KIRQL (*GetIrql)(VOID);
    /* Forgets DPCs, work items and timers: the adapter has gone. */
    VOID (*Forget)(VOID);
    /* Adds a value to the registry. */
    VOID (*SetRegistryValue)(const char *Name, const char *Value);
    /* An MDL of a paging operation is over: mappings of its pages end. */
    VOID (*RetireMdl)(PMDL Mdl);
    /* The CM_RESOURCE_LIST of the device. */
    const VOID *(*GetResources)(VOID);
    /* The registers at a physical address; NULL without memory. */
    VOID *(*MapRegisters)(UINT64 Address, SIZE_T Size);
    /* The seed of the turns of threads, the highest address of the machine's memory; without turns the threads race. */
    VOID (*SetMachine)(UINT64 Seed, UINT64 HighestAddress, BOOLEAN IsRacing, UINT Drawn);
    /* Where the shim writes why the process ends. */
    VOID (*SetLastWords)(char *Buffer, SIZE_T Size);
    /* Where the shim writes which locks are held: each a kind, from 1, in the high 16 bits, and the place of the acquisition in the
     * library; 0 is none. */
    VOID (*SetHeldLocks)(UINT64 *Places, UINT Count);
    /* Reports pool that was allocated behind so many allocations, and is left. */
    VOID (*ReportLeaks)(UINT64 After);
    /* The driver's threads go on, if need be by a wait that ends within so many nanoseconds. FALSE if nothing has run. */
    BOOLEAN (*StepThreads)(UINT64 Nanoseconds);
    /* A copy of a struct between two pages without access: at the end of its memory, or at the beginning. NULL without memory.
     * Number 0 is DXGKRNL_INTERFACE, and 1 is DXGK_START_INFO. The copy lives until the next call with the same number. */
    VOID *(*GuardedCopy)(UINT Number, const VOID *Object, SIZE_T Size, BOOLEAN IsAtEnd);
    /* Callbacks of this table take no stack of the driver, if that is measured. */
    VOID (*PauseInCallbacks)(DXGKRNL_INTERFACE *Interface);
    /* The bytes of stack that the deepest call since the last one has taken, and its name; 0 if none was measured. */
    UINT64 (*TakeDeepest)(const char **Name);
    /* A copy that no access reaches: 0 of commands, 1 of a list. NULL without memory. It lives until the next call with the number. */
    VOID *(*VanishedCopy)(UINT Number, const VOID *Bytes, SIZE_T Size);
    /* A copy whose bytes change at a moment of the next call, in the place of a vanished copy. */
    VOID *(*ChangingCopy)(UINT Number, const VOID *Bytes, SIZE_T Size);
    /* The moment, from 1 on, of all or of those at which a copy of the C library begins; 0 is never. */
    VOID (*SetChange)(UINT64 Moment, BOOLEAN IsOfCopies);
    /* The moments of the last call. */
    UINT64 (*CountMoments)(BOOLEAN OfCopies);
    /* Memory for the MDL of one operation; NULL without. Behind the operation's end it is hidden, and an access is reported. All is
     * freed with the adapter. */
    VOID *(*NewMdlMemory)(SIZE_T Size);
    VOID (*HideMdlMemory)(VOID *Address);
    VOID (*FreeMdlMemory)(VOID);
    /* Whether each thread of the driver waits, without a limit, for events that are not set, and nothing is deferred. */
    BOOLEAN (*ThreadsAreIdle)(VOID);
} VIDMM_SHIM;

EXTERN_C_START

/* Called once, before DriverEntry. NULL if the versions differ. */
const VIDMM_SHIM *VidmmConnect(const VIDMM_HOST *Host);

EXTERN_C_END

#endif
