/*
 * Mistakes that can be planted in this driver, one at a time: `make PLANTED=BUG_NO_PREPATCH`. Each has a test which says that
 * `vidmm check` finds it, and by which rule. A driver of yours has no such file.
 */
#ifndef BUGS_H
#define BUGS_H

#include <stdlib.h>

enum {
    BUG_NONE,
    BUG_TRANSFER_REPORTS_SUCCESS,  /* a transfer that finds no room in the buffer is dropped, and is answered with success */
    BUG_SWAPPED_TRANSFER,          /* source and destination are taken for one another */
    BUG_SHORT_TRANSFER,            /* the last page is not copied */
    BUG_TRANSFER_OFFSET_IGNORED,   /* each part of an allocation begins at its start, on the side of the segment */
    BUG_MDL_OFFSET_IGNORED,        /* each part begins at the first page of its list */
    BUG_FIRST_PAGE_COUNTED_ON,     /* the pages of a list are taken to follow its first one */
    BUG_BASE_ADDRESS_ADDED,        /* the segment's BaseAddress is added to SegmentAddress, which has it already */
    BUG_MULTIPASS_FROM_START,      /* a transfer that goes on in another buffer begins again at its first page, without an end */
    BUG_MULTIPASS_SKIPS_ONE,       /* a transfer that goes on in another buffer leaves one page out */
    BUG_FILL_PATTERN_IGNORED,      /* every fill writes 0xFF */
    BUG_HALF_FILL,                 /* the size of a fill is halved */
    BUG_FILL_TOO_FAR,              /* a fill writes a page behind its allocation */
    BUG_BUSY_FILL,                 /* a fill is answered with busy */
    BUG_UNKNOWN_IS_SUCCESS,        /* operations that the driver does not know are answered with success */
    BUG_NO_PREPATCH,               /* addresses that are known to Render are not written there */
    BUG_ALLOCATION_OFFSET_IGNORED, /* Patch writes the address of the allocation's start */
    BUG_PATCH_ONCE,                /* Patch leaves addresses alone that Render has written */
    BUG_PATCH_ALL,                 /* Patch writes the addresses of the whole list, not of the part that is submitted */
    BUG_PATCH_FROM_START,          /* Patch takes offsets from the start of the part, not of the buffer */
    BUG_KNOWN_NOT_LISTED,          /* references whose addresses are known to Render are left out of its list */
    BUG_STAYS_BOUND,               /* a slot that holds its allocation already is not bound again at a split point */
    BUG_SPLIT_BEHIND_STATE,        /* split points are behind the command that programs the state */
    BUG_LIST_NOT_CHECKED,          /* Render believes the list of the user-mode driver */
    BUG_INDEX_NOT_CHECKED,         /* Render believes AllocationIndex */
    BUG_SLOT_NOT_CHECKED,          /* Render believes SlotId */
    BUG_PATCH_OFFSET_NOT_CHECKED,  /* Render believes PatchOffset */
    BUG_ALLOCATION_OFFSET_NOT_CHECKED, /* Render believes AllocationOffset */
    BUG_ADDRESS_NOT_CHECKED,       /* Render believes addresses that no patch location covers */
    BUG_LIST_NOT_ADVANCED,         /* pPatchLocationListOut is set to the middle of an entry */
    BUG_RENDER_TOO_FAR,            /* pDmaBuffer is set behind the end of the buffer */
    BUG_PRIVATE_DATA_TOO_FAR,      /* pDmaBufferPrivateData is set behind the end of its data */
    BUG_RENDER_STATUS,             /* Render refuses what it does not understand with STATUS_UNSUCCESSFUL */
    BUG_PATCH_FAILS,               /* Patch fails */
    BUG_START_IGNORED,             /* the hardware is told to begin at the start of the DMA buffer */
    BUG_SUBMIT_FAILS,              /* SubmitCommand fails for a part that is not the first */
    BUG_PATCH_LOOKS_AT_CONTEXT,    /* Patch looks into the context of a paging buffer, which has none */
    BUG_PAGING_HAS_DEVICE,         /* SubmitCommand looks into the context of a paging buffer, which has none */
    BUG_RESET_TRANSFER_REFUSED,    /* the transfer of no bytes after a reset of the adapter is refused */
    BUG_WRONG_ABORTED_FENCE,       /* ResetEngine names the packet before the one that was aborted */
    BUG_RESTART_FAILS,             /* RestartFromTimeout fails */
    BUG_CLOSE_LEAK,                /* CloseAllocation frees nothing */
    BUG_FORGED_IN_BUILD,           /* BuildPagingBuffer reports the end of a packet that is not submitted */
    BUG_FORGED_AT_SUBMISSION,      /* SubmitCommand reports the end of its packet, which the hardware has not run */
    BUG_MDL_KEPT,                  /* the list of the first transfer serves all later ones */
    BUG_MDL_READ_LATE,             /* a transfer reads the size of the list of the transfer before */
    BUG_PATCH_LAST_RENDERED,       /* Patch writes into the DMA buffer of the last call of Render */
    BUG_HANDLE_NOT_RELEASED,       /* the data of an allocation is acquired, and never released */
    BUG_HANDLE_RELEASED_TWICE,     /* data that was acquired twice is released twice by the first handle */
    BUG_HANDLE_STALE,              /* the data of an allocation is released when the next allocation is opened, or never */
    BUG_HANDLE_CONFUSED,           /* the name of the allocation is taken for the handle of the release */
    BUG_DPC_IN_INTERRUPT,          /* the interrupt routine calls DxgkCbNotifyDpc */
    BUG_PAGE_16_BITS,              /* page numbers of transfers have 16 bits */
    BUG_ADDRESS_32_BITS,           /* addresses of system memory have 32 bits */
    BUG_ADDRESS_40_BITS,           /* addresses of system memory have 40 bits */
    BUG_FENCE_8_BITS,              /* the hardware has 8 bits for a fence */
    BUG_REGISTERS_32_BITS,         /* the address of the registers has 32 bits */
    BUG_FAR_BEHIND,                /* BuildPagingBuffer writes 1,100 bytes behind the end of the DMA buffer */
    BUG_EARLIER_CHANGED,           /* BuildPagingBuffer changes the first operation of a buffer with several */
    BUG_BEFORE_BUFFER,             /* Render writes the byte before pDmaBuffer */
    BUG_BEFORE_PRIVATE_DATA,       /* Render writes 8 bytes before pDmaBufferPrivateData */
    BUG_STRUCT_OVERRUN,            /* Render writes behind DXGKARG_RENDER */
    BUG_OUTPUT_OVERRUN,            /* QueryAdapterInfo writes behind OutputDataSize */
    BUG_INTERFACE_READ_BEHIND,     /* StartDevice reads behind DXGKRNL_INTERFACE */
    BUG_USER_MEMORY_BELIEVED,      /* Render reads the user's memory without __try */
    BUG_RESOURCE_ANEW,             /* an allocation that is added to a resource gets a resource of its own */
    BUG_MISSED_FENCE,              /* QueryCurrentFence does not report an end whose interrupt was lost */
    BUG_COMPONENT_STATES,          /* a power component has more states than there are */
    BUG_COMPONENT_ACTIVE_INSIDE,   /* SetPowerComponentFState makes the component active */
    BUG_COMPONENT_NOT_COMPLETED,   /* the end of a transition is not told */
    BUG_COMPONENT_SLEEPS_ON,       /* the engine is not woken */
    BUG_COMPONENT_FORGETS,         /* the registers of the engine are lost in its sleep */
    BUG_REQUEST_OVERRUN,           /* PowerRuntimeControlRequest writes behind OutBufferSize */
    BUG_CANCEL_FAILS,              /* CancelCommand fails */
    BUG_CANCEL_LEAK,               /* CancelCommand leaves what the driver keeps for the DMA buffer */
    BUG_PRESENT_UNLISTED,          /* Present leaves the destination out of its list */
    BUG_PRESENT_TOO_FAR,           /* Present writes behind the end of the DMA buffer */
    BUG_PRESENT_FROM_START,        /* Present begins again at the first rectangle when it goes on in another buffer */
    BUG_PRESENT_NOT_PATCHED,       /* Patch leaves presentations alone */
    BUG_USER_MEMORY_READ_TWICE,    /* Render checks the user's memory, and copies it afterwards */
    BUG_YIELD_REPORTED_TWICE,      /* the interrupt of a preemption is reported twice */
    /* With WITH_KEPT_POINTERS=1: */
    BUG_PAGING_DATA_TOO_FAR,       /* pDmaBufferPrivateData of a paging buffer is set behind the end of the data */
    /* With WITH_REPORTER=1: */
    BUG_EVENT_SET_IN_INTERRUPT,    /* the interrupt routine sets an event */
    BUG_REPORTER_LEFT,             /* the driver's thread waits on behind RemoveDevice, for an event that is freed */
    /* With WITH_QUEUE=1: */
    BUG_NEWEST_FIRST,              /* the hardware runs the newest packet of its queue first */
    /* With WITH_PARTS=1: */
    BUG_PARTS_FROM_START,          /* Render begins again at the first command when it goes on in another buffer */
    BUG_PARTS_IN_FIRST_BUFFER,     /* Render writes the rest of the commands into the first DMA buffer */
    BUG_PARTS_OFFSETS,             /* offsets in a later DMA buffer count from the start of the commands */
    /* With WITH_APERTURE=1: */
    BUG_SHORT_MAP,                 /* the last page of a mapping is left as it was */
    BUG_MAP_COUNTS_ON,             /* the pages of a list are taken to follow its first one */
    BUG_RESOURCE_LEAK,             /* DestroyAllocation leaves the resource that it is to destroy */
    BUG_COMMAND_GARBLED,           /* a byte of the user's commands is lost on the way: the number of its first kernel */
    BUG_MAP_16_BITS,               /* page numbers of mappings have 16 bits */
    BUG_MAP_OFFSET_IGNORED,        /* a mapping begins at the first page of its list */
    BUG_NO_DUMMY_PAGE              /* pages that are unmapped go on to show what they did */
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
