/*
 * A small GPU with physical addresses: one engine, one memory segment, and a bus over which it copies; with WITH_APERTURE, a range of
 * addresses that shows pages of system memory. It knows nothing of WDDM but the types.
 */
#ifndef GPU_H
#define GPU_H

#include "vidmm_test.h"

#ifdef WITHOUT_MEMORY
#define GPU_MEMORY_SEGMENT 0 /* none */
#else
#define GPU_MEMORY_SEGMENT 1
#endif
#ifdef WITH_SMALL_MEMORY
#define GPU_MEMORY_BYTES (4ull << 20)
#else
#define GPU_MEMORY_BYTES (128ull << 20)
#endif
/* Where the engine addresses its memory, and page 0 of system memory, which the copy commands alone reach. */
#define GPU_MEMORY_BASE (1ull << 32)
#define GPU_SYSTEM_BASE (1ull << 63)

/* So many packets the engine queues. */
#ifdef WITH_QUEUE
#define GPU_QUEUE 4
#else
#define GPU_QUEUE 1
#endif

#define GPU_APERTURE_SEGMENT (GPU_MEMORY_SEGMENT + 1)
#define GPU_APERTURE_BASE (GPU_MEMORY_BASE + GPU_MEMORY_BYTES)
#define GPU_APERTURE_PAGES (16u << 10)
#define GPU_APERTURE_BYTES ((UINT64)GPU_APERTURE_PAGES << 12)

#ifdef WITH_MORE_MEMORY
/* A second memory segment, behind the aperture. */
#define GPU_MORE_MEMORY_SEGMENT (GPU_APERTURE_SEGMENT + 1)
#define GPU_MORE_MEMORY_BASE (GPU_APERTURE_BASE + GPU_APERTURE_BYTES)
#define GPU_MORE_MEMORY_BYTES (64ull << 20)
#endif

/* A command: its code, and four words. */
typedef enum GPU_OPCODE {
    GPU_COPY = 1, /* from, to, bytes */
    GPU_FILL = 2, /* to, bytes, pattern */
    GPU_SHOW = 3  /* first page of the aperture, how many, the page of system memory that all of them show */
} GPU_OPCODE;

typedef struct GPU_COMMAND {
    UINT64 Opcode;
    UINT64 Words[4];
} GPU_COMMAND;

/* The packet that the engine runs: the commands from Start to End of a DMA buffer. */
typedef struct GPU_PACKET {
    UINT64 Address;
    UINT Start;
    UINT End;
    UINT FenceId;
    BOOLEAN IsUserWork;
} GPU_PACKET;

typedef enum GPU_STATUS {
    GPU_IDLE = 0,
    GPU_COMPLETED = 1,
    GPU_BAD_COMMAND = 2,
    GPU_PAGE_FAULT = 3,
    GPU_YIELDED = 4
} GPU_STATUS;

/* What an interrupt is about. */
typedef struct GPU_EVENT {
    GPU_STATUS Status;
    UINT FenceId;
    UINT LastCompletedFenceId;
} GPU_EVENT;

#define GPU_EVENTS 16

typedef struct GPU {
    HANDLE DeviceHandle;
    BOOLEAN IsAsleep; /* the engine runs nothing */
    /* The queue, oldest first, and the packet that the engine ran last. */
    GPU_PACKET Packets[GPU_QUEUE];
    UINT PacketCount;
    GPU_PACKET Packet;
    /* The registers that the interrupt routine reads. */
    GPU_STATUS Status;
    UINT FenceId;
    UINT64 FaultAddress;
    BOOLEAN FaultIsWrite;
    UINT LastCompletedFenceId;
#ifdef WITH_REPORTER
    /* The hardware keeps what its interrupts are about until the driver takes the events. */
    GPU_EVENT Events[GPU_EVENTS];
    volatile LONG Raised, Taken;
#endif
    /* The engine is to yield, and has not reported that it has. */
    BOOLEAN IsToYield;
#ifdef WITH_APERTURE
    UINT64 Shown[GPU_APERTURE_PAGES]; /* the page of system memory, plus 1; 0 is none */
#endif
} GPU;

void GpuStart(GPU *Gpu, HANDLE DeviceHandle);
void GpuSubmit(GPU *Gpu, const GPU_PACKET *Packet);
/* Runs the packet that was submitted, and raises the interrupt. */
void GpuRun(GPU *Gpu);
/* Lets the engine yield behind the packet that it has: then it raises the interrupt once more. */
void GpuYield(GPU *Gpu);
/* Takes the oldest event that the driver has not taken; FALSE if there is none. */
BOOLEAN GpuTakeEvent(GPU *Gpu, GPU_EVENT *Event);
/* Whether the driver has events to take. */
BOOLEAN GpuHasEvents(const GPU *Gpu);
/* The fence of the packet that the engine has, or had last. */
UINT GpuCurrentFenceId(const GPU *Gpu);
/* Forgets the packets. */
void GpuResetEngine(GPU *Gpu);
/* Lets the engine sleep, or wakes the engine: either clears the registers. */
void GpuSleep(GPU *Gpu, BOOLEAN IsAsleep);
/* Forgets everything. */
void GpuReset(GPU *Gpu);
/* The page of system memory that a page of the aperture shows; FALSE if it shows none. */
BOOLEAN GpuShown(const GPU *Gpu, UINT64 Page, UINT64 *SystemPage);
/* The place of an address of the engine's; FALSE if it is none. */
BOOLEAN GpuPlace(UINT64 Address, UINT *Segment, UINT64 *Offset);

#endif
