//
// A display miniport driver in C++, in the style of the samples of the Windows Driver Kit. The objects are classes, which are
// allocated from pool; a thread looks after the interrupts; pointers to DMA buffers are kept from one call to the next.
//
#pragma once

extern "C" {
#include "dispmprt.h"
}
#include "hardware.hpp"

constexpr ULONG POOL_TAG = 'kdwV';
constexpr UINT MAX_SLOT = 0; // split points are not used

// What placement the user-mode driver asks for: the private data of an allocation.
struct AllocationPrivateData {
    UINT64 Size;
    BOOLEAN MayBeLocal;
    BOOLEAN MayBeSystem;
    UINT Priority;
    UINT Flags;
    UINT Magic;
};
constexpr UINT PRIVATE_DATA_MAGIC = 0x57444B31;

class PoolObject {
public:
    static void *operator new(size_t size) {
        return ExAllocatePool2(POOL_FLAG_NON_PAGED, size, POOL_TAG);
    }
    static void operator delete(void *object) {
        ExFreePoolWithTag(object, POOL_TAG);
    }
};

class SpinLockGuard {
public:
    explicit SpinLockGuard(KSPIN_LOCK *lock) : m_lock(lock) {
        KeAcquireSpinLock(m_lock, &m_irql);
    }
    ~SpinLockGuard() {
        KeReleaseSpinLock(m_lock, m_irql);
    }

private:
    KSPIN_LOCK *m_lock;
    KIRQL m_irql;
};

class Allocation : public PoolObject {
public:
    UINT64 Size;
};

// An allocation as a device has it open.
class OpenedAllocation : public PoolObject {
public:
    Allocation *Opened;
    DXGKARG_RELEASE_HANDLE Release;
};

// The private data of a DMA buffer: the pointer is left where it is, so all of the data stays.
struct DmaBufferData {
    BYTE *DmaBuffer; // as DxgkDdiRender has it: DxgkDdiPatch writes there
    PHYSICAL_ADDRESS Address;
    UINT Size;
};

class Adapter : public PoolObject {
public:
    NTSTATUS Start(_In_ PDXGKRNL_INTERFACE dxgkrnl);
    void Stop();

    NTSTATUS QueryAdapterInfo(_In_ const DXGKARG_QUERYADAPTERINFO *query);
    NTSTATUS BuildPagingBuffer(_Inout_ DXGKARG_BUILDPAGINGBUFFER *build);
    NTSTATUS Submit(_In_ const HwPacket &packet);
    void Preempt(_In_ UINT preemptionFenceId);
    UINT ResetEngine();
    BOOLEAN Interrupt();

    // With the hardware's interrupt held off.
    template <typename Routine> BOOLEAN Synchronize(Routine routine) {
        BOOLEAN returned = FALSE;
        auto call = [](PVOID context) -> BOOLEAN { return (*static_cast<Routine *>(context))(); };
        m_dxgkrnl.DxgkCbSynchronizeExecution(m_dxgkrnl.DeviceHandle, call, &routine, 0, &returned);
        return returned;
    }

    const DXGKRNL_INTERFACE &Dxgkrnl() const {
        return m_dxgkrnl;
    }
    Hardware &Gpu() {
        return m_hardware;
    }
    void RunHardware();

private:
    static VOID ThreadRoutine(PVOID context);
    void ReportYield();
    NTSTATUS QuerySegments(PVOID output);
    NTSTATUS BuildTransfer(DXGKARG_BUILDPAGINGBUFFER *build);
    NTSTATUS BuildMap(DXGKARG_BUILDPAGINGBUFFER *build);
    NTSTATUS UpdatePageTable(DXGKARG_BUILDPAGINGBUFFER *build);
    BOOLEAN Append(DXGKARG_BUILDPAGINGBUFFER *build, const HwCommand &command);

    DXGKRNL_INTERFACE m_dxgkrnl;
    Hardware m_hardware;
    KSPIN_LOCK m_lock;
    KEVENT m_wake;
    KEVENT m_reported;
    PVOID m_thread;
    volatile BOOLEAN m_isStopping;
    BOOLEAN m_isToYield;
    UINT m_preemptionFenceId;
    UINT m_lastCompletedFenceId;
};

class Device : public PoolObject {
public:
    Adapter *Owner;
};

class Context : public PoolObject {
public:
    Device *Owner;
    D3DGPU_PHYSICAL_ADDRESS Root;
};

DXGKDDI_RENDER DdiRender;
DXGKDDI_PATCH DdiPatch;
DXGKDDI_SUBMITCOMMAND DdiSubmitCommand;
DXGKDDI_SUBMITCOMMANDVIRTUAL DdiSubmitCommandVirtual;
