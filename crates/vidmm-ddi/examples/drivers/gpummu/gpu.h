/*
 * A small GPU with page tables: one engine or two, one memory segment or two, a TLB. The GPU knows nothing of WDDM but the types.
 */
#ifndef GPU_H
#define GPU_H

#include "ntddk.h"
#include "vidmm_test.h"

#define GPU_MEMORY_SEGMENT 1
#define GPU_MEMORY_BYTES (128ull << 20)
#define GPU_APERTURE_SEGMENT 2
#define GPU_APERTURE_BYTES (256ull << 20)
#ifdef WITH_MORE_MEMORY
#define GPU_MORE_MEMORY_SEGMENT 3
#define GPU_MORE_MEMORY_BYTES (64ull << 20)
#define GPU_SEGMENTS 3
#else
#define GPU_SEGMENTS 2
#endif

#ifdef WITH_HOST_APERTURE
/* The window of the CPU: pages of 64 KiB. */
#define GPU_WINDOW_ADDRESS (3ull << 36)
#define GPU_WINDOW_PAGES 64
#endif

/* Page tables: three levels of 512 entries of 8 bytes. */
#define GPU_LEVELS 3
#define GPU_LEVEL_BITS 9
#define GPU_ENTRIES (1u << GPU_LEVEL_BITS)
#define GPU_TABLE_BYTES (GPU_ENTRIES * 8)
#define GPU_ADDRESS_BITS (12 + GPU_LEVELS * GPU_LEVEL_BITS)

/* An entry: flags, the segment, the number of a page. */
#define GPU_ENTRY_VALID 0x1ull
#define GPU_ENTRY_ZERO 0x2ull
#define GPU_ENTRY_READ_ONLY 0x4ull
#define GPU_ENTRY_SEGMENT(entry) ((UINT)((entry) >> 4 & 0x1F))
/* The highest address of system memory in an entry. */
#ifdef WITH_FEW_ADDRESS_BITS
#define GPU_HIGHEST_ADDRESS ((1ll << 36) - 1)
#else
#define GPU_HIGHEST_ADDRESS ((1ll << 52) - 1)
#endif
#define GPU_ENTRY_PAGE(entry) ((entry) >> 12)
#define GPU_ENTRY(page, segment, flags) ((UINT64)(page) << 12 | (UINT64)(segment) << 4 | (flags))

/* A command: its code, and four words. GPU_WRITE_ENTRIES is followed by the entries. */
typedef enum GPU_OPCODE {
    GPU_COPY = 1,          /* from, to, bytes */
    GPU_FILL = 2,          /* to, bytes, pattern */
    GPU_WRITE_ENTRIES = 3, /* segment of the table, its offset, the first index, how many */
    GPU_FLUSH = 4,         /* address space, first address, address behind the last; 0 and 0 is everything */
    GPU_DECOMPRESS = 5     /* address, bytes, surface, the page of the surface at the address */
} GPU_OPCODE;

typedef struct GPU_COMMAND {
    UINT64 Opcode;
    UINT64 Words[4];
} GPU_COMMAND;

#ifdef WITH_COPY_ENGINE
#define GPU_ENGINES 2 /* the second one copies, and does the paging */
#else
#define GPU_ENGINES 1
#endif

/* The packet that an engine runs: commands in an address space. */
typedef struct GPU_PACKET {
    UINT64 Address;
    UINT Bytes;
    UINT FenceId;
    BOOLEAN IsUserWork;
    UINT64 AddressSpace; /* a number that no other one ever had */
    D3DGPU_PHYSICAL_ADDRESS Root;
    UINT RootEntries;
} GPU_PACKET;

typedef enum GPU_STATUS {
    GPU_IDLE = 0,
    GPU_COMPLETED = 1,
    GPU_BAD_COMMAND = 2,
    GPU_PAGE_FAULT = 3,
    GPU_YIELDED = 4
} GPU_STATUS;

#define GPU_TLB_SLOTS 256

typedef struct GPU_ENGINE {
    GPU_PACKET Packet;
    BOOLEAN IsSubmitted;
    /* The registers that the interrupt routine reads. */
    GPU_STATUS Status;
    UINT FenceId;
    UINT64 FaultAddress;
    BOOLEAN FaultIsWrite;
    UINT LastCompletedFenceId;
    /* The engine is to yield, and has not reported that it has. */
    BOOLEAN IsToYield;
} GPU_ENGINE;

typedef struct GPU {
    HANDLE DeviceHandle;
    BOOLEAN IsAsleep; /* without power */
#ifdef WITH_HOST_APERTURE
    UINT64 Window[GPU_WINDOW_PAGES]; /* the page of memory that the CPU reaches, plus 1; 0 is none */
#endif
#ifdef WITH_THREAD
    KEVENT Interrupt; /* the hardware's; a thread of the driver waits for it */
    KEVENT IsTaken;
    /* The interrupts that were raised so far, and the last one of those that the thread has taken. */
    LONG Raised;
    LONG Taken;
    UINT Users; /* for a mistake */
#endif
    GPU_ENGINE Engines[GPU_ENGINES];
    struct {
        UINT64 AddressSpace;
        UINT64 Page;
        UINT64 Entry; /* 0: the slot is free */
    } Tlb[GPU_TLB_SLOTS];
} GPU;

#ifdef WITH_THREAD
/* For a mistake: two threads share a part of the GPU without a lock. */
void GpuShare(GPU *Gpu);
#endif
void GpuStart(GPU *Gpu, HANDLE DeviceHandle);
void GpuSubmit(GPU *Gpu, UINT Node, const GPU_PACKET *Packet);
/* Runs the packet that was submitted to an engine, and raises the interrupt. */
void GpuRun(GPU *Gpu, UINT Node);
/* Lets an engine yield behind the packet that it has: then it raises the interrupt once more. */
void GpuYield(GPU *Gpu, UINT Node);
/* Raises the interrupt. */
void GpuInterrupt(GPU *Gpu);
/* Switches the power off, or on: then all is as after a reset. */
void GpuSetPower(GPU *Gpu, BOOLEAN IsOn);
/* Lets an engine forget its packet, and all of them the translations that are cached. */
void GpuReset(GPU *Gpu, UINT Node);
VIDMM_TRANSLATION GpuTranslate(GPU *Gpu, UINT Node, UINT64 Address, BOOLEAN Write, UINT *Segment, UINT64 *Offset);

#endif
