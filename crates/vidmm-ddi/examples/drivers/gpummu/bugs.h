/*
 * Mistakes that can be planted in this driver, one at a time: `make PLANTED=BUG_SKIP_FLUSH`. Each has a test which says that
 * `vidmm check` finds it, and by which rule. A driver of yours has no such file.
 */
#ifndef BUGS_H
#define BUGS_H

#include <stdlib.h>

enum {
    BUG_NONE,
    BUG_TRANSFER_REPORTS_SUCCESS, /* a transfer that finds no room in the buffer is dropped, and is answered with success */
    BUG_SWAPPED_TRANSFER,         /* source and destination are taken for one another */
    BUG_SHORT_TRANSFER,           /* the last page is not copied */
    BUG_OFFSET_ADDED,             /* AllocationOffsetInBytes is added to the addresses, which have it already */
    BUG_FILL_PATTERN_IGNORED,     /* every fill writes 0xFF */
    BUG_HALF_FILL,                /* the size of a fill is halved */
    BUG_FILL_SYSTEM_RESIDENT,     /* a fill writes to the source address of the last transfer */
    BUG_FILL_TOO_FAR,             /* a fill writes a page behind its end */
    BUG_TRANSFER_TOO_FAR,         /* a transfer copies a page more than it is asked for */
    BUG_TRANSFER_TOO_EARLY,       /* a transfer begins a page too early */
    BUG_TABLE_OVERRUN,            /* the entries of an update begin a table too far */
    BUG_SKIP_FLUSH,               /* FLUSH_TLB is answered with success, and nothing is encoded */
    BUG_FLUSH_WRONG_PROCESS,      /* another address space is flushed */
    BUG_FLUSH_32_BITS,            /* the addresses of a flush have 32 bits */
    BUG_FIRST_ENTRY_REPEATED,     /* every entry is written as the first one */
    BUG_FIRST_ENTRY_COUNTED_UP,   /* the first entry plus i is written in place of entry i */
    BUG_REPEAT_IGNORED,           /* Flags.Repeat is not looked at: entries are read behind the only one */
    BUG_START_INDEX_IGNORED,      /* entries are written from index 0 on */
    BUG_READ_ONLY_DROPPED,        /* entries allow writes */
    BUG_SEGMENT_DROPPED,          /* entries lead to the memory segment, whatever their segment is */
    BUG_LAST_ENTRY_LOST,          /* the last entry of an update is not written */
    BUG_MULTIPASS_FROM_START,     /* an update that goes on in another buffer begins again at its first entry, without an end */
    BUG_MULTIPASS_SKIPS_ONE,      /* an update that goes on in another buffer leaves one entry out */
    BUG_POINTER_NOT_ADVANCED,     /* pDmaBuffer is left where it was */
    BUG_POINTER_ADVANCED_TOO_FAR, /* pDmaBuffer is set behind the end of the buffer */
    BUG_BUFFER_OVERRUN,           /* bytes are written without a look at DmaSize */
    BUG_OVERFLOW_CHECK,           /* the check of DmaSize looks for an overflow that cannot be */
    BUG_UNKNOWN_IS_SUCCESS,       /* operations that the driver does not know are answered with success */
    BUG_UNSUCCESSFUL,             /* a full buffer is answered with STATUS_UNSUCCESSFUL */
    BUG_ALWAYS_FULL,              /* a transfer never fits */
    BUG_BUSY_TRANSFER,            /* a virtual transfer is answered with busy */
    BUG_ALLOCATION_LEAK,          /* DestroyAllocation frees nothing */
    BUG_FIRST_DESTROYED,          /* DestroyAllocation frees the first allocation of several only */
    BUG_EARLIER_KEPT,             /* CreateAllocation keeps those that it has created when a later one of several fails */
    BUG_DOUBLE_FREE,              /* DestroyAllocation frees twice */
    BUG_FREE_ON_FAILURE,          /* CreateAllocation frees what it does not have when the pool fails */
    BUG_NO_CHECK_OF_POOL,         /* CreateAllocation does not look whether the pool failed */
    BUG_POOL_OVERRUN,             /* CreateAllocation writes behind its block */
    BUG_LOCK_LEFT,                /* CreateProcess returns with the lock held when the pool fails */
    BUG_CONTEXT_LEAK,             /* DestroyContext frees nothing */
    BUG_FIRST_ROOT,               /* every context has the root table of the first one */
    BUG_ROOT_ENTRIES,             /* the hardware is not told how many entries the root table has */
    BUG_WRONG_ABORTED_FENCE,      /* ResetEngine names the packet before the one that was aborted */
    BUG_PREEMPTION_IGNORED,       /* PreemptCommand does nothing, and no preemption is reported */
    BUG_WRONG_LAST_COMPLETED,     /* the report of a preemption names the packet before the last one that has ended */
    BUG_RESTART_FAILS,            /* RestartFromTimeout fails */
    BUG_RESET_TRANSFER_REFUSED,   /* the transfer of no bytes after a reset of the adapter is refused */
    BUG_NO_INTERRUPT,             /* the interrupt routine does not report that a packet has ended */
    BUG_WRONG_FENCE,              /* it reports the fence before */
    BUG_SIZE_IN_PAGES,            /* CreateAllocation reports pages for bytes */
    BUG_PRIORITY_ZERO,            /* CreateAllocation leaves the priority 0 */
    BUG_NO_SEGMENT,               /* CreateAllocation leaves SupportedWriteSegmentSet 0 */
    BUG_NO_SURFACES,              /* the table lacks the function that describes standard allocations */
    BUG_SURFACE_NOT_VISIBLE,      /* a shadow surface, to which programs draw with the CPU, is not CpuVisible */
    BUG_EXISTING_IGNORED,         /* an allocation of the program's own memory has no Flags.ExistingSysMem */
    BUG_SURFACE_ROW_LOST,         /* a standard allocation is a row smaller than its surface */
    BUG_SURFACE_DATA_TOO_SMALL,   /* the private data of one is written behind the size that was told */
    BUG_NOTIFICATION_IGNORED,     /* NOTIFY_ALLOC is answered with success, and nothing is encoded */
    BUG_HALF_NOTIFICATION,        /* the first half of a chunk is made plain */
    BUG_STAYS_COMPRESSED,         /* content leaves the memory of the GPU compressed */
    BUG_FILL_KEEPS_MARKS,         /* pages that are filled go on to be marked as compressed */
    BUG_KEY_LEFT_OPEN,            /* StartDevice leaves a key of the registry open */
    BUG_NO_DPC,                   /* no DPC is queued behind the report of an interrupt */
    BUG_DPC_IS_SILENT,            /* the DPC does not call DxgkCbNotifyDpc */
    BUG_NOTIFY_AT_PASSIVE,        /* a work item reports interrupts at PASSIVE_LEVEL */
    BUG_FENCE_12_BITS,            /* the hardware has 12 bits for a fence */
    BUG_FENCE_BY_SIZE,            /* a packet whose fence is not larger than the fence before is dropped */
    BUG_ENTRY_20_BITS,            /* an entry has 20 bits for the number of a page */
    BUG_FAULT_AS_END,             /* the interrupt routine reports a page fault as the end of the packet */
    BUG_WRONG_FAULTED_FENCE,      /* it reports the fault for the packet behind */
    BUG_WRONG_NODE,               /* the end of a packet is reported for the first engine, whatever engine ran it */
    BUG_WAIT_IN_DPC,              /* a DPC waits */
    BUG_WORK_ITEM_TWICE,          /* a work item is queued twice */
    BUG_WORK_ITEM_LEFT,           /* StopDevice does not free the work item */
    BUG_FREE_ON_FAILED_START,     /* StartDevice frees what RemoveDevice frees when it fails */
    BUG_TIMER_LEFT,               /* StopDevice does not cancel the timer */
    BUG_THREAD_AT_PASSIVE,        /* the driver's thread reports interrupts at PASSIVE_LEVEL */
    BUG_THREADS_UNLOCKED,         /* two threads change a number without a lock */
    BUG_THREAD_LEFT,              /* the driver's thread runs on after StopDevice */
    BUG_CRASH,                    /* a transfer follows a null pointer */
    BUG_ASSERTION,                /* a transfer fails an assertion */
    BUG_BUG_CHECK,                /* a transfer calls KeBugCheckEx */
    BUG_DEATHS,                   /* a transfer ends the process, in one of four ways */
    BUG_EXIT,                     /* a transfer ends the process */
    BUG_HANG,                     /* a transfer does not return */
    BUG_HANG_UNHEARD,             /* a transfer closes standard output, and does not return */
    BUG_EXIT_OF_PARENT,           /* a transfer ends the process, and a child of it goes on */
    BUG_SMASHED_STACK,            /* a transfer writes behind an array on the stack */
    BUG_MISSED_FENCE,             /* QueryCurrentFence does not report an end whose interrupt was lost */
    BUG_WRONG_CURRENT_FENCE,      /* it names the fence before */
    BUG_STATUS_REFUSED,           /* QueryEngineStatus fails */
    BUG_DEBUG_OVERRUN,            /* CollectDbgInfo writes without a look at BufferSize */
    BUG_POWER_REFUSED,            /* SetPowerState fails on the way to D3 */
    BUG_SLEEPS_ON,                /* SetPowerState leaves the hardware without power on the way to D0 */
    BUG_DESCRIBED_IN_BYTES,       /* DescribeAllocation names the bytes of a row for its pixels */
    BUG_PARENT_KILLED,            /* a transfer kills the parent of its process */
    BUG_PARENT_STOPPED,           /* a transfer stops the parent of its process */
    BUG_GROUP_KILLED,             /* a transfer kills the group of its process */
    BUG_ALL_KILLED,               /* a transfer kills every process that it can, if no others are among them */
    BUG_DAEMON,                   /* a transfer starts a process in a session of its own, which goes on */
    BUG_FORKS,                    /* a transfer starts processes that start processes */
    BUG_PRINTS,                   /* a transfer prints 8 MiB */
    BUG_SLOW_TRANSFER,            /* a transfer takes 0.7 s */
    BUG_CONSTRUCTOR_SPINS,        /* the library's initialisation does not end */
    BUG_HANG_WITH_LOCK,           /* a transfer does not return, and holds a spin lock */
    BUG_DEEP_STACK,               /* a transfer has 32 KiB of local variables */
    BUG_PAGED_AT_DISPATCH,        /* an allocation in pageable pool is read with a spin lock held */
    BUG_PAGED_LOCK,               /* a spin lock is in pageable pool */
    BUG_PAGED_EVENT,              /* an event is in pageable pool */
    BUG_PAGED_TIMER,              /* a timer is in pageable pool */
    BUG_PAGED_ALLOCATED_LATE,     /* pageable pool is allocated with a spin lock held */
    BUG_TIMER_NOT_FLUSHED,        /* StopDevice cancels the timer, and does not wait for its DPC */
    BUG_ISOLATION_NOT_SUPPORTED,  /* isolation by an IOMMU is required, and not supported */
    /* With WITH_HOST_APERTURE=1: */
    BUG_WINDOW_SHORT,             /* the last page of a mapping is left as it was */
    BUG_WINDOW_COUNTS_ON,         /* the pages of a mapping are taken to follow its first one */
    BUG_WINDOW_UNMAPS_ALL,        /* all mappings end with one */
    BUG_WINDOW_UNMAP_FAILS,       /* UnmapCpuHostAperture fails */
    /* With WITHOUT_ENTRIES=1: */
    BUG_ENTRY_OF_NEIGHBOUR        /* the last of several entries leads to the page behind */
};

/* `make PLANTED=FROM_ENVIRONMENT`: the number of the mistake is in the variable VIDMM_PLANTED. Tests build one driver for all mistakes. */
#define FROM_ENVIRONMENT planted_in_environment()

static inline int planted_in_environment(void)
{
    static int planted = -1;

    if (planted < 0) {
        const char *number = getenv("VIDMM_PLANTED");

        planted = number ? atoi(number) : BUG_NONE;
    }
    return planted;
}

#ifndef PLANTED
#define PLANTED BUG_NONE
#endif
#define BUG(name) (PLANTED == BUG_##name)

#endif
