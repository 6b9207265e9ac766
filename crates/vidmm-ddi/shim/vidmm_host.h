/*
 * The tables that the shim in a driver's library and vidmm give each other. Not for drivers.
 */
#ifndef VIDMM_HOST_H
#define VIDMM_HOST_H

#include "dispmprt.h"
#include "vidmm_test.h"

#define VIDMM_HOST_VERSION 7

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

/* The shim's functions. */
typedef struct _VIDMM_SHIM {
    UINT Version;
    VOID (*GetCounts)(VIDMM_SHIM_COUNTS *Counts);
    /* Checks the bytes behind all blocks. */
    VOID (*CheckPool)(VOID);
    /* Lets the n-th allocation from now on fail; 0: none. */
    VOID (*FailAt)(UINT64 Number);
    /* A call of the driver begins at a level of interrupts. */
    VOID (*BeginCall)(KIRQL Irql);
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
    VOID (*SetMachine)(UINT64 Seed, UINT64 HighestAddress, BOOLEAN IsRacing);
    /* Where the shim writes why the process ends. */
    VOID (*SetLastWords)(char *Buffer, SIZE_T Size);
    /* The driver's threads go on, if need be by a wait that ends within so many nanoseconds. FALSE if nothing has run. */
    BOOLEAN (*StepThreads)(UINT64 Nanoseconds);
    /* A copy of a struct between two pages without access: at the end of its memory, or at the beginning. NULL without memory.
     * Number 0 is DXGKRNL_INTERFACE, and 1 is DXGK_START_INFO. The copy lives until the next call with the same number. */
    VOID *(*GuardedCopy)(UINT Number, const VOID *Object, SIZE_T Size, BOOLEAN IsAtEnd);
} VIDMM_SHIM;

EXTERN_C_START

/* Called once, before DriverEntry. NULL if the versions differ. */
const VIDMM_SHIM *VidmmConnect(const VIDMM_HOST *Host);

EXTERN_C_END

#endif
