/*
 * A small GPU with physical addresses: one engine, one memory segment, and a bus over which it copies. It knows nothing of WDDM
 * but the types.
 */
#ifndef GPU_H
#define GPU_H

#include "vidmm_test.h"

#define GPU_MEMORY_SEGMENT 1
#define GPU_MEMORY_BYTES (128ull << 20)
/* Where the engine addresses its memory, and page 0 of system memory, which the copy commands alone reach. */
#define GPU_MEMORY_BASE (1ull << 32)
#define GPU_SYSTEM_BASE (1ull << 63)

/* A command: its code, and four words. */
typedef enum GPU_OPCODE {
    GPU_COPY = 1, /* from, to, bytes */
    GPU_FILL = 2  /* to, bytes, pattern */
} GPU_OPCODE;

typedef struct GPU_COMMAND {
    UINT64 Opcode;
    UINT64 Words[4];
} GPU_COMMAND;

/* What the engine runs: the commands from Start to End of a DMA buffer. */
typedef struct GPU_PACKET {
    UINT64 Address;
    UINT Start;
    UINT End;
    UINT FenceId;
    BOOLEAN IsUserWork;
} GPU_PACKET;

typedef enum GPU_STATUS { GPU_IDLE = 0, GPU_COMPLETED = 1, GPU_BAD_COMMAND = 2, GPU_PAGE_FAULT = 3 } GPU_STATUS;

typedef struct GPU {
    HANDLE DeviceHandle;
    GPU_PACKET Packet;
    BOOLEAN IsSubmitted;
    /* The registers that the interrupt routine reads. */
    GPU_STATUS Status;
    UINT FenceId;
    UINT64 FaultAddress;
    BOOLEAN FaultIsWrite;
} GPU;

void GpuStart(GPU *Gpu, HANDLE DeviceHandle);
void GpuSubmit(GPU *Gpu, const GPU_PACKET *Packet);
/* Runs the packet that was submitted, and raises the interrupt. */
void GpuRun(GPU *Gpu);
/* Forgets the packet. */
void GpuReset(GPU *Gpu);
/* The place of an address of the engine's; FALSE if it is none. */
BOOLEAN GpuPlace(UINT64 Address, UINT *Segment, UINT64 *Offset);

#endif
