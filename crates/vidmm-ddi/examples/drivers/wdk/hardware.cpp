#include "hardware.hpp"

constexpr UINT REGISTER_STATUS = 0;
constexpr UINT REGISTER_FENCE = 1;

void Hardware::Start(HANDLE deviceHandle, PVOID registers) {
    RtlZeroMemory(static_cast<VOID *>(this), sizeof(*this));
    m_deviceHandle = deviceHandle;
    m_registers = static_cast<volatile ULONG *>(registers);
    Acknowledge();
}

HwStatus Hardware::Status() const {
    return static_cast<HwStatus>(READ_REGISTER_ULONG(m_registers + REGISTER_STATUS));
}

UINT Hardware::FenceId() const {
    return READ_REGISTER_ULONG(m_registers + REGISTER_FENCE);
}

void Hardware::Acknowledge() {
    WRITE_REGISTER_ULONG(m_registers + REGISTER_STATUS, static_cast<ULONG>(HwStatus::Idle));
}

BOOLEAN Hardware::Push(const HwPacket &packet) {
    if (m_count == RING_SIZE) {
        return FALSE;
    }
    m_ring[m_count++] = packet;
    return TRUE;
}

void Hardware::KeepFirst() {
    m_count = m_count > 1 ? 1 : m_count;
}

void Hardware::Clear() {
    m_count = 0;
    Acknowledge();
}

BOOLEAN Hardware::Fault(UINT64 address, BOOLEAN write) {
    m_faultAddress = address;
    m_faultIsWrite = write;
    return FALSE;
}

BOOLEAN Hardware::ReadEntry(UINT segment, UINT64 table, UINT index, UINT64 *entry) {
    return VidmmReadMemory(m_deviceHandle, segment, table + index * sizeof(*entry), entry, sizeof(*entry));
}

#ifdef WITH_GPU_MMU

VIDMM_TRANSLATION Hardware::Translate(UINT64 address, BOOLEAN write, UINT *segment, UINT64 *offset) {
    UINT64 page = address >> PAGE_SHIFT, entry = 0;
    UINT at = m_running.RootSegment;
    UINT64 table = m_running.RootOffset;
    if (page >> (TABLE_LEVELS * TABLE_INDEX_BITS) != 0) {
        return VIDMM_TRANSLATION_FAULT;
    }
    for (int level = TABLE_LEVELS - 1; level >= 0; level--) {
        UINT index = static_cast<UINT>(page >> (level * TABLE_INDEX_BITS)) & (TABLE_ENTRIES - 1);
        if (!ReadEntry(at, table, index, &entry) || (entry & ENTRY_VALID) == 0) {
            return VIDMM_TRANSLATION_FAULT;
        }
        at = static_cast<UINT>(entry >> 4 & 0x1F);
        table = entry >> PAGE_SHIFT << PAGE_SHIFT;
    }
    if (write && (entry & ENTRY_READ_ONLY) != 0) {
        return VIDMM_TRANSLATION_FAULT;
    }
    *segment = at;
    *offset = table;
    return VIDMM_TRANSLATION_MAPPED;
}

#else

VIDMM_TRANSLATION Hardware::Translate(UINT64 address, BOOLEAN write, UINT *segment, UINT64 *offset) {
    UNREFERENCED_PARAMETER(write);
    if (address >= HARDWARE_SYSTEM_BASE) {
        *segment = 0;
        *offset = address - HARDWARE_SYSTEM_BASE;
    } else if (address - HARDWARE_APERTURE_BASE < HARDWARE_APERTURE_PAGES * PAGE_SIZE) {
        *segment = SEGMENT_APERTURE;
        *offset = address - HARDWARE_APERTURE_BASE;
    } else if (address - HARDWARE_MEMORY_BASE < HARDWARE_MEMORY_BYTES) {
        *segment = SEGMENT_MEMORY;
        *offset = address - HARDWARE_MEMORY_BASE;
    } else {
        return VIDMM_TRANSLATION_FAULT;
    }
    return VIDMM_TRANSLATION_MAPPED;
}

#endif

BOOLEAN Hardware::ShownPage(UINT64 page, UINT64 *systemPage) const {
    if (page >= HARDWARE_APERTURE_PAGES || m_shown[page] == 0) {
        return FALSE;
    }
    *systemPage = m_shown[page] - 1;
    return TRUE;
}

BOOLEAN Hardware::BytesAt(UINT64 address, BOOLEAN write, UINT *segment, UINT64 *offset) {
    UINT64 page;
    if (Translate(address, write, segment, offset) != VIDMM_TRANSLATION_MAPPED) {
        return Fault(address, write);
    }
#ifndef WITH_GPU_MMU
    if (*segment == SEGMENT_APERTURE) {
        if (!ShownPage(*offset >> PAGE_SHIFT, &page)) {
            return Fault(address, write);
        }
        *segment = 0;
        *offset = page << PAGE_SHIFT;
    }
#else
    UNREFERENCED_PARAMETER(page);
#endif
    return TRUE;
}

BOOLEAN Hardware::Execute(const HwCommand &command) {
    UINT toSegment, fromSegment;
    UINT64 to, from;
    if (command.Code == Opcode::Flush) {
        // The engine caches no translation.
        return TRUE;
    }
    if (command.Code == Opcode::Show) {
        for (UINT64 at = 0; at < command.Bytes && command.Destination + at < HARDWARE_APERTURE_PAGES; at++) {
            m_shown[command.Destination + at] = command.Source + 1;
        }
        return TRUE;
    }
    for (UINT64 at = 0; at < command.Bytes; at += PAGE_SIZE) {
        if (!BytesAt(command.Destination + at, TRUE, &toSegment, &to)) {
            return FALSE;
        }
        if (command.Code == Opcode::Fill) {
            VidmmFillPage(m_deviceHandle, toSegment, to, static_cast<UINT>(command.Source));
        } else if (BytesAt(command.Source + at, FALSE, &fromSegment, &from)) {
            VidmmCopyPage(m_deviceHandle, toSegment, to, fromSegment, from);
        } else {
            return FALSE;
        }
    }
    return TRUE;
}

void Hardware::RunOne() {
    BOOLEAN isRight = TRUE;
    if (m_count == 0) {
        return;
    }
    m_running = m_ring[0];
    m_lastFenceId = m_running.FenceId;
    m_count--;
    for (ULONG at = 0; at < m_count; at++) {
        m_ring[at] = m_ring[at + 1];
    }
    if (m_running.IsUserWork) {
        isRight = VidmmRunUserWork(m_deviceHandle, 0, m_running.Address, m_running.Bytes, &m_faultAddress, &m_faultIsWrite);
    } else if (m_running.Bytes != 0) {
        const HwCommand *commands =
            static_cast<const HwCommand *>(VidmmMapDmaBuffer(m_deviceHandle, m_running.Address, m_running.Bytes));
        for (UINT at = 0; isRight && at < m_running.Bytes / sizeof(HwCommand); at++) {
            isRight = commands != nullptr && Execute(commands[at]);
        }
    }
    WRITE_REGISTER_ULONG(m_registers + REGISTER_FENCE, m_running.FenceId);
    WRITE_REGISTER_ULONG(m_registers + REGISTER_STATUS,
                         static_cast<ULONG>(isRight ? HwStatus::Completed : HwStatus::Faulted));
}
