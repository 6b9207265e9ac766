//! The functions that the driver and its GPU's model call: Dxgkrnl's functions, and those of the shim's host.
//!
//! Each is called by C, so none may panic: a handle is looked up before it is believed.

use std::ffi::{CStr, c_char};

use vidmm::GpuVirtualAddress;
use vidmm::contract::{DmaPageFaulted, FaultErrorCode, KmdProcessHandle, NotifyInterrupt, PageFaultFlags};

use crate::abi::*;
use crate::adapter::{Adapter, DEVICE_LEVEL, Notification, Owes, is_of_this_thread, no_such_adapter, of_handle};
use crate::inbox;
use crate::library;
use crate::memory::from_driver;
use crate::reports::report;
use crate::user_work;

/// The table that the shim is given.
pub(crate) static HOST: VIDMM_HOST = VIDMM_HOST {
    Version: VIDMM_HOST_VERSION,
    Report: shim_report,
    Initialize: library::initialize,
    ReadMemory: read_memory,
    WriteMemory: write_memory,
    CopyPage: copy_page,
    FillPage: fill_page,
    DecompressPage: decompress_page,
    MapDmaBuffer: map_dma_buffer,
    RunUserWork: run_user_work,
    RaiseInterrupt: raise_interrupt,
};

/// Dxgkrnl's table for an adapter. Functions that there are not are null.
pub(crate) fn interface(device_handle: HANDLE) -> DXGKRNL_INTERFACE {
    DXGKRNL_INTERFACE {
        Size: size_of::<DXGKRNL_INTERFACE>() as u32,
        Version: 0x11007,
        DeviceHandle: device_handle,
        DxgkCbGetDeviceInformation: Some(get_device_information),
        DxgkCbGetHandleData: Some(get_handle_data),
        DxgkCbNotifyInterrupt: Some(notify_interrupt),
        DxgkCbNotifyDpc: Some(notify_dpc),
        DxgkCbQueueDpc: Some(queue_dpc),
        DxgkCbSynchronizeExecution: Some(synchronize_execution),
        ..DXGKRNL_INTERFACE::zeroed()
    }
}

/// Runs `action` for the adapter of a handle.
fn with<T>(handle: HANDLE, otherwise: T, action: impl FnOnce(&Adapter) -> T) -> T {
    // SAFETY: the reference ends with this call, in which the adapter's owner waits for the driver.
    unsafe { of_handle(handle) }.map_or(otherwise, action)
}

unsafe extern "C" fn shim_report(rule: *const c_char, message: *const c_char) {
    // SAFETY: the shim passes two strings with an end.
    let (rule, message) = unsafe { (CStr::from_ptr(rule), CStr::from_ptr(message)) };
    report(&rule.to_string_lossy(), message.to_string_lossy());
}

// ---- Dxgkrnl ----

unsafe extern "C" fn get_device_information(handle: HANDLE, info: *mut DXGK_DEVICE_INFO) -> NTSTATUS {
    if info.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    with(handle, STATUS_INVALID_PARAMETER, |adapter| {
        let device_info = DXGK_DEVICE_INFO {
            MiniportDeviceContext: adapter.handle(),
            SystemMemorySize: vidmm_soft::SYSTEM_MEMORY_BYTES,
            HighestPhysicalAddress: vidmm_soft::SYSTEM_MEMORY_BYTES - 1,
            ..DXGK_DEVICE_INFO::zeroed()
        };
        // SAFETY: not null; the driver passes a whole struct.
        unsafe { info.write(device_info) };
        STATUS_SUCCESS
    })
}

/// Dxgkrnl has no handle in this call: the adapter that was called last is meant.
unsafe extern "C" fn get_handle_data(data: *const DXGKARGCB_GETHANDLEDATA) -> HANDLE {
    // SAFETY: null, or a whole struct.
    let Some(data) = (unsafe { data.as_ref() }) else { return std::ptr::null_mut() };
    crate::adapter::with_last(|adapter| {
        let handles = adapter.handle_data.borrow();
        (data.hObject as usize).checked_sub(1).and_then(|at| handles.get(at).copied())
    })
    .unwrap_or(std::ptr::null_mut())
}

unsafe extern "C" fn notify_interrupt(handle: HANDLE, data: *const DXGKARGCB_NOTIFY_INTERRUPT_DATA) {
    // SAFETY: null, or a whole struct; it lives for the call.
    let Some(data) = (unsafe { data.as_ref() }) else { return };
    // SAFETY: the type says which member of the union the driver has written; every bit pattern is a value of each.
    let notification = unsafe {
        match data.InterruptType {
            DXGK_INTERRUPT_DMA_COMPLETED => {
                let DMA_COMPLETED { SubmissionFenceId: fence_id, NodeOrdinal: node_ordinal, .. } =
                    data.Data.DmaCompleted;
                Notification::Completed { node_ordinal, fence_id }
            }
            DXGK_INTERRUPT_DMA_PREEMPTED => {
                let DMA_PREEMPTED {
                    PreemptionFenceId: fence_id,
                    LastCompletedFenceId: last_completed,
                    NodeOrdinal: node_ordinal,
                    ..
                } = data.Data.DmaPreempted;
                Notification::Preempted { node_ordinal, fence_id, last_completed }
            }
            DXGK_INTERRUPT_DMA_FAULTED => {
                let DMA_FAULTED { FaultedFenceId, NodeOrdinal: node_ordinal, .. } = data.Data.DmaFaulted;
                let interrupt = NotifyInterrupt::DmaFaulted { faulted_fence_id: FaultedFenceId.into(), node_ordinal };
                Notification::Faulted { interrupt }
            }
            DXGK_INTERRUPT_DMA_PAGE_FAULTED => {
                let fault = page_fault(&data.Data.DmaPageFaulted);
                Notification::Faulted { interrupt: NotifyInterrupt::DmaPageFaulted(fault) }
            }
            other => {
                report(
                    "DDI-INTERRUPT",
                    format!("DxgkCbNotifyInterrupt of type {other}, which nothing was done to cause"),
                );
                return;
            }
        }
    };
    if is_of_this_thread(handle) {
        with(handle, (), |adapter| {
            if adapter.irql() < DEVICE_LEVEL {
                let level =
                    "below the level of the device: outside of the interrupt routine use DxgkCbSynchronizeExecution";
                report("SHIM-IRQL", format!("DxgkCbNotifyInterrupt is called {level}"));
            }
            adapter.owes.set(Owes::QueueDpc);
            adapter.notifications.borrow_mut().push(notification);
        });
    } else if !inbox::add(handle.addr(), notification) {
        no_such_adapter();
    }
}

fn page_fault(fault: &DMA_PAGE_FAULTED) -> DmaPageFaulted {
    let process = fault.FaultedProcessHandle;
    DmaPageFaulted {
        faulted_fence_id: fault.FaultedFenceId.into(),
        faulted_primitive_api_sequence_number: fault.FaultedPrimitiveAPISequenceNumber,
        faulted_pipeline_stage: fault.FaultedPipelineStage,
        faulted_bind_table_entry: fault.FaultedBindTableEntry,
        page_fault_flags: PageFaultFlags::from_bits_truncate(fault.PageFaultFlags),
        faulted_virtual_address: GpuVirtualAddress(fault.FaultedVirtualAddress),
        node_ordinal: fault.NodeOrdinal,
        page_table_level: fault.PageTableLevel,
        fault_error_code: FaultErrorCode(fault.FaultErrorCode),
        faulted_process: (!process.is_null()).then(|| KmdProcessHandle(process.addr() as u64)),
    }
}

unsafe extern "C" fn notify_dpc(handle: HANDLE) {
    if is_of_this_thread(handle) {
        with(handle, (), |adapter| {
            if adapter.owes.get() == Owes::NotifyDpc {
                adapter.owes.set(Owes::Nothing);
            }
        });
    }
}

unsafe extern "C" fn queue_dpc(handle: HANDLE) -> BOOLEAN {
    if is_of_this_thread(handle) {
        return with(handle, 0, |adapter| {
            if adapter.owes.get() == Owes::QueueDpc {
                adapter.owes.set(Owes::NotifyDpc);
            }
            BOOLEAN::from(!adapter.dpc_is_queued.replace(true))
        });
    }
    let was_queued = inbox::queue_dpc(handle.addr());
    if was_queued.is_none() {
        no_such_adapter();
    }
    was_queued.unwrap_or_default().into()
}

/// The interrupt routine runs in the same thread, and never meanwhile: the routine is called at once.
unsafe extern "C" fn synchronize_execution(
    handle: HANDLE,
    routine: Option<unsafe extern "C" fn(HANDLE) -> BOOLEAN>,
    context: HANDLE,
    _message_number: u32,
    result: *mut BOOLEAN,
) -> NTSTATUS {
    let Some(routine) = routine else { return STATUS_INVALID_PARAMETER };
    with(handle, STATUS_INVALID_PARAMETER, |adapter| {
        // SAFETY: the driver asks for its own function to be called with its own context.
        let returned = adapter.at_device_level(|| unsafe { routine(context) });
        if !result.is_null() {
            // SAFETY: not null; the driver passes a BOOLEAN.
            unsafe { result.write(returned) };
        }
        STATUS_SUCCESS
    })
}

// ---- The GPU's model ----

fn in_memory(handle: HANDLE, what: &str, segment: u32, offset: u64, is_there: bool) -> BOOLEAN {
    if !is_there {
        let running = with(handle, None, |adapter| adapter.progress().running());
        let running = running.map(|running| format!(", in {}", running.function)).unwrap_or_default();
        report("GPU-ACCESS", format!("the GPU {what} segment {segment} + {offset:#x}, where no memory is{running}"));
    }
    is_there.into()
}

/// # Safety
///
/// `data` is null or has `size` bytes.
unsafe extern "C" fn read_memory(handle: HANDLE, segment: u32, offset: u64, data: *mut u8, size: usize) -> BOOLEAN {
    if data.is_null() {
        return 0;
    }
    // SAFETY: the caller's buffer has `size` bytes, and nothing else refers to it during the call.
    let data = unsafe { std::slice::from_raw_parts_mut(data, size) };
    data.fill(0);
    let is_there = with(handle, false, |adapter| adapter.memory().is_some_and(|m| m.read(segment, offset, data)));
    in_memory(handle, "reads", segment, offset, is_there)
}

/// # Safety
///
/// `data` is null or has `size` bytes.
unsafe extern "C" fn write_memory(handle: HANDLE, segment: u32, offset: u64, data: *const u8, size: usize) -> BOOLEAN {
    if data.is_null() {
        return 0;
    }
    // SAFETY: the caller's buffer has `size` bytes, which do not change during the call.
    let data = unsafe { std::slice::from_raw_parts(data, size) };
    let is_there = with(handle, false, |adapter| adapter.memory().is_some_and(|m| m.write(segment, offset, data)));
    in_memory(handle, "writes", segment, offset, is_there)
}

unsafe extern "C" fn copy_page(handle: HANDLE, to: u32, to_offset: u64, from: u32, from_offset: u64) -> BOOLEAN {
    let copy = |adapter: &Adapter| adapter.memory().is_some_and(|m| m.copy_page((to, to_offset), (from, from_offset)));
    let is_there = with(handle, false, copy);
    in_memory(handle, &format!("copies segment {from} + {from_offset:#x} to"), to, to_offset, is_there)
}

unsafe extern "C" fn fill_page(handle: HANDLE, segment: u32, offset: u64, pattern: u32) -> BOOLEAN {
    let fill = |adapter: &Adapter| adapter.memory().is_some_and(|m| m.fill_page((segment, offset), pattern));
    let is_there = with(handle, false, fill);
    in_memory(handle, "fills", segment, offset, is_there)
}

/// A page that is not marked is not touched, but must be there: the driver was told that all are.
unsafe extern "C" fn decompress_page(handle: HANDLE, segment: u32, offset: u64, surface: u32, page: u64) -> BOOLEAN {
    let decompress = |adapter: &Adapter| {
        let (memory, place) = (adapter.memory()?, from_driver(segment, offset)?);
        let key = adapter.compression.borrow_mut().clear(surface, page).unwrap_or_default();
        Some(memory.xor_page(place, key))
    };
    let is_there = with(handle, None, decompress) == Some(true);
    in_memory(handle, "decompresses a page at", segment, offset, is_there)
}

unsafe extern "C" fn map_dma_buffer(handle: HANDLE, address: u64, size: usize) -> *const u8 {
    let null = std::ptr::null();
    with(handle, null, |adapter| adapter.dma.borrow().at(address, size).unwrap_or(null))
}

/// # Safety
///
/// `fault_address` and `fault_is_write` are null or to be written.
unsafe extern "C" fn run_user_work(
    handle: HANDLE,
    node_ordinal: u32,
    address: u64,
    size: usize,
    fault_address: *mut u64,
    fault_is_write: *mut BOOLEAN,
) -> BOOLEAN {
    with(handle, 0, |adapter| match user_work::run(adapter, node_ordinal, address, size) {
        Ok(()) => 1,
        Err(fault) => {
            adapter.has_faulted.set(true);
            if !fault_address.is_null() && !fault_is_write.is_null() {
                // SAFETY: not null; the model passes whole variables.
                unsafe {
                    fault_address.write(fault.virtual_address);
                    fault_is_write.write(fault.is_write.into());
                }
            }
            0
        }
    })
}

unsafe extern "C" fn raise_interrupt(handle: HANDLE, message_number: u32) {
    with(handle, (), |adapter| adapter.interrupt(message_number));
}
