//
// A GPU behind registers and a ring of packets: one engine. With WITH_GPU_MMU the engine has page tables.
//
#pragma once

#include "ntddk.h"
#include "vidmm_test.h"

constexpr UINT RING_SIZE = 4;
constexpr UINT64 HARDWARE_MEMORY_BYTES = 64ull << 20;
constexpr UINT64 HARDWARE_APERTURE_PAGES = 8192;
// Physical addresses of the engine: its memory, its aperture, and system memory, which copies alone reach.
constexpr UINT64 HARDWARE_MEMORY_BASE = 0x400000000ull;
constexpr UINT64 HARDWARE_APERTURE_BASE = 0x800000000ull;
constexpr UINT64 HARDWARE_SYSTEM_BASE = 1ull << 62;
// The kernel's numbers of the segments.
constexpr UINT SEGMENT_MEMORY = 1;
constexpr UINT SEGMENT_APERTURE = 2;

constexpr int TABLE_LEVELS = 3;
constexpr UINT TABLE_INDEX_BITS = 9;
constexpr UINT TABLE_ENTRIES = 1u << TABLE_INDEX_BITS;
constexpr UINT TABLE_BYTES = TABLE_ENTRIES * sizeof(UINT64);
constexpr UINT64 ENTRY_VALID = 1;
constexpr UINT64 ENTRY_READ_ONLY = 2;

inline UINT64 MakeEntry(UINT64 page, UINT segment, UINT64 flags) {
    return page << 12 | static_cast<UINT64>(segment) << 4 | flags;
}

enum class Opcode : UINT64 { Copy = 1, Fill = 2, Show = 3, Flush = 4 };

struct HwCommand {
    Opcode Code;
    UINT64 Destination; // or the first page of the aperture
    UINT64 Source;      // or the pattern, or the page of system memory
    UINT64 Bytes;       // or how many pages
};

struct HwPacket {
    UINT64 Address;
    UINT Bytes;
    UINT FenceId;
    BOOLEAN IsUserWork;
    UINT RootSegment;
    UINT64 RootOffset;
};

enum class HwStatus : ULONG { Idle = 0, Completed = 1, Faulted = 2 };

class Hardware {
public:
    void Start(HANDLE deviceHandle, PVOID registers);

    // With the driver's lock held. FALSE: the ring is full.
    BOOLEAN Push(const HwPacket &packet);
    void KeepFirst();
    void Clear();
    ULONG Count() const {
        return m_count;
    }
    UINT FirstFenceId() const {
        return m_count != 0 ? m_ring[0].FenceId : m_lastFenceId;
    }

    // Runs the oldest packet of the ring, and sets the registers.
    void RunOne();
    VIDMM_TRANSLATION Translate(UINT64 address, BOOLEAN write, UINT *segment, UINT64 *offset);
    BOOLEAN ReadEntry(UINT segment, UINT64 table, UINT index, UINT64 *entry);
    BOOLEAN ShownPage(UINT64 page, UINT64 *systemPage) const;

    // The registers.
    HwStatus Status() const;
    UINT FenceId() const;
    UINT64 FaultAddress() const {
        return m_faultAddress;
    }
    BOOLEAN FaultIsWrite() const {
        return m_faultIsWrite;
    }
    void Acknowledge();

private:
    BOOLEAN Execute(const HwCommand &command);
    BOOLEAN Fault(UINT64 address, BOOLEAN write);
    BOOLEAN BytesAt(UINT64 address, BOOLEAN write, UINT *segment, UINT64 *offset);

    HANDLE m_deviceHandle;
    volatile ULONG *m_registers; // status, fence
    HwPacket m_ring[RING_SIZE];
    ULONG m_count;
    HwPacket m_running;
    UINT m_lastFenceId;
    UINT64 m_faultAddress;
    BOOLEAN m_faultIsWrite;
    UINT64 m_shown[HARDWARE_APERTURE_PAGES]; // the page of system memory, plus 1
};
