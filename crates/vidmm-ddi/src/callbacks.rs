//! The functions that the driver and its GPU's model call: Dxgkrnl's functions, and those of the shim's host.
//!
//! Each is called by C, so none may panic: a handle is looked up before it is believed.

use std::cell::Cell;
use std::ffi::{CStr, c_char};

use vidmm::contract::{DmaPageFaulted, EngineFence, FaultErrorCode, KmdProcessHandle, NotifyInterrupt, PageFaultFlags};
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PhysicalAddress};

use crate::abi::*;
use crate::adapter::{
    Adapter, DEVICE_LEVEL, DISPATCH_LEVEL, Notification, Owes, is_of_this_thread, no_such_adapter, of_handle, with_last,
};
use crate::inbox;
use crate::library;
use crate::loaded::Loaded;
use crate::memory::{RETIRED_PAGE, from_driver, highest_address, to_driver};
use crate::reports::{remark, report, report_stray};
use crate::targets::Access;
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
    ReadSystemPage: read_system_page,
    WriteSystemPage: write_system_page,
    PhysicalAddressOf: physical_address_of,
};

/// Dxgkrnl's table for an adapter. Functions that there are not are null.
pub(crate) fn interface(device_handle: HANDLE) -> DXGKRNL_INTERFACE {
    DXGKRNL_INTERFACE {
        Size: size_of::<DXGKRNL_INTERFACE>() as u32,
        Version: 0x11007,
        DeviceHandle: device_handle,
        DxgkCbGetDeviceInformation: Some(get_device_information),
        DxgkCbMapMemory: Some(map_memory),
        DxgkCbUnmapMemory: Some(unmap_memory),
        DxgkCbReadDeviceSpace: Some(read_device_space),
        DxgkCbWriteDeviceSpace: Some(write_device_space),
        DxgkCbSetPowerComponentActive: Some(set_power_component_active),
        DxgkCbSetPowerComponentIdle: Some(set_power_component_idle),
        DxgkCbPowerRuntimeControlRequest: Some(power_runtime_control_request),
        DxgkCbSetPowerComponentLatency: Some(set_power_component_limit),
        DxgkCbSetPowerComponentResidency: Some(set_power_component_limit),
        DxgkCbCompleteFStateTransition: Some(complete_f_state_transition),
        DxgkCbGetHandleData: Some(get_handle_data),
        DxgkCbAcquireHandleData: Some(acquire_handle_data),
        DxgkCbReleaseHandleData: Some(release_handle_data),
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

thread_local! {
    /// Translated work was dropped without a word to the driver.
    static HAS_DROPPED: Cell<bool> = const { Cell::new(false) };
}

/// Lets the shim report leaks. No document says how a driver without cancellations frees pool of work that was dropped.
pub(crate) fn with_dropped_work(has_dropped: bool, report_leaks: impl FnOnce()) {
    HAS_DROPPED.set(has_dropped);
    report_leaks();
    HAS_DROPPED.set(false);
}

unsafe extern "C" fn shim_report(rule: *const c_char, message: *const c_char) {
    // SAFETY: the shim passes two strings with an end.
    let (rule, message) = unsafe { (CStr::from_ptr(rule), CStr::from_ptr(message)) };
    let (rule, message) = (rule.to_string_lossy(), message.to_string_lossy());
    let is_of_work = ["DxgkDdiRender", "DxgkDdiPresent"].iter().any(|call| message.ends_with(call));
    if HAS_DROPPED.get() && rule == "SHIM-POOL-LEAK" && is_of_work {
        let call = message.rsplit(' ').next().unwrap_or_default();
        let why = "the work was never submitted, and the driver has no CancelCommandAware";
        return remark("DRV-13", format!("pool blocks of {call} are left: {why}"));
    }
    report(&rule, message);
}

// ---- Dxgkrnl ----

unsafe extern "C" fn get_device_information(handle: HANDLE, info: *mut DXGK_DEVICE_INFO) -> NTSTATUS {
    if info.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    with(handle, STATUS_INVALID_PARAMETER, |adapter| {
        let device_info = DXGK_DEVICE_INFO {
            MiniportDeviceContext: adapter.handle(),
            SystemMemorySize: highest_address() / 2 + 1,
            HighestPhysicalAddress: highest_address(),
            // SAFETY: the function has no arguments, and returns a static table.
            TranslatedResourceList: unsafe { (adapter.driver().shim().GetResources)() },
            ..DXGK_DEVICE_INFO::zeroed()
        };
        // SAFETY: not null; the driver passes a whole struct.
        unsafe { info.write(device_info) };
        STATUS_SUCCESS
    })
}

/// Registers are memory of the shim's.
unsafe extern "C" fn map_memory(
    handle: HANDLE,
    address: u64,
    length: u32,
    _in_io_space: BOOLEAN,
    _to_user_mode: BOOLEAN,
    _cache_type: u32,
    mapped: *mut HANDLE,
) -> NTSTATUS {
    let Some(driver) = inbox::driver(handle.addr()).filter(|_| !mapped.is_null()) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: the function takes numbers, and returns memory of the shim's or null.
    let registers = unsafe { (driver.shim().MapRegisters)(address, length as usize) };
    // SAFETY: not null; the driver passes a whole variable.
    unsafe { mapped.write(registers) };
    if registers.is_null() { STATUS_NO_MEMORY } else { STATUS_SUCCESS }
}

unsafe extern "C" fn unmap_memory(_handle: HANDLE, _mapped: HANDLE) -> NTSTATUS {
    STATUS_SUCCESS
}

/// The space of the bus has zeros.
///
/// # Safety
///
/// `data` is null or has `length` bytes; `read` is null or to be written.
unsafe extern "C" fn read_device_space(
    _handle: HANDLE,
    _kind: u32,
    data: *mut u8,
    _offset: u32,
    length: u32,
    read: *mut u32,
) -> NTSTATUS {
    if data.is_null() || read.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: not null; the driver passes a buffer of `length` bytes and a whole variable.
    unsafe {
        data.write_bytes(0, length as usize);
        read.write(length);
    }
    STATUS_SUCCESS
}

/// # Safety
///
/// `written` is null or to be written.
unsafe extern "C" fn write_device_space(
    _handle: HANDLE,
    _kind: u32,
    _data: *const u8,
    _offset: u32,
    length: u32,
    written: *mut u32,
) -> NTSTATUS {
    if written.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: not null; the driver passes a whole variable.
    unsafe { written.write(length) };
    STATUS_SUCCESS
}

/// Windows waits for the end of a transition before a component is active.
unsafe extern "C" fn set_power_component_active(handle: HANDLE, component: u32) -> NTSTATUS {
    let is_in_transition = |adapter: &Adapter| {
        adapter.progress().running().is_some_and(|running| running.function == "DxgkDdiSetPowerComponentFState")
    };
    if is_of_this_thread(handle) && with(handle, false, is_in_transition) {
        let message = "is called in DxgkDdiSetPowerComponentFState: the two may wait for each other";
        report("DDI-COMPONENT", format!("DxgkCbSetPowerComponentActive of component {component} {message}"));
    }
    STATUS_SUCCESS
}

unsafe extern "C" fn set_power_component_idle(_handle: HANDLE, _component: u32) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "C" fn set_power_component_limit(_handle: HANDLE, _component: u32, _limit: u64) -> NTSTATUS {
    STATUS_SUCCESS
}

/// No plug-in manages power here, so no request is known.
unsafe extern "C" fn power_runtime_control_request(
    _handle: HANDLE,
    _request: *const [u32; 4],
    _data: *mut std::ffi::c_void,
    _size: usize,
    _answer: *mut std::ffi::c_void,
    _room: usize,
    returned: *mut usize,
) -> NTSTATUS {
    if !returned.is_null() {
        // SAFETY: not null; the driver passes a whole variable.
        unsafe { returned.write(0) };
    }
    STATUS_NOT_SUPPORTED
}

unsafe extern "C" fn complete_f_state_transition(handle: HANDLE, component: u32) {
    if !inbox::add_transition(handle.addr(), component) {
        no_such_adapter();
    }
}

/// Dxgkrnl has no handle in such calls: the adapter is the only adapter.
unsafe extern "C" fn get_handle_data(data: *const DXGKARGCB_GETHANDLEDATA) -> HANDLE {
    must_be_called_below(DISPATCH_LEVEL, "DxgkCbGetHandleData");
    // SAFETY: null, or a whole struct.
    let Some(data) = (unsafe { data.as_ref() }) else { return std::ptr::null_mut() };
    inbox::object(data.hObject).unwrap_or(std::ptr::null_mut())
}

/// Each acquisition has a release of its own (DRV-10).
unsafe extern "C" fn acquire_handle_data(data: *const DXGKARGCB_GETHANDLEDATA, release: *mut HANDLE) -> HANDLE {
    must_be_called_below(DISPATCH_LEVEL, "DxgkCbAcquireHandleData");
    // SAFETY: null, or a whole struct.
    let Some(data) = (unsafe { data.as_ref() }) else { return std::ptr::null_mut() };
    let null = std::ptr::null_mut();
    let (object, handle) = inbox::acquire(data.hObject).unwrap_or((null, null));
    if !release.is_null() {
        // SAFETY: not null; the driver passes a whole variable.
        unsafe { release.write(handle) };
    }
    object
}

unsafe extern "C" fn release_handle_data(data: DXGKARGCB_RELEASEHANDLEDATA) {
    must_be_called_below(DISPATCH_LEVEL, "DxgkCbReleaseHandleData");
    if let Err(mistake) = inbox::release(data.ReleaseHandle) {
        report("SHIM-HANDLE", format!("the handle in DxgkCbReleaseHandleData {mistake} (DRV-10)"));
    }
}

/// Reports a callback at too high a level of interrupts, from any thread.
fn must_be_called_below(level: u8, function: &str) {
    let irql = inbox::any_driver().map_or(0, |driver| irql(&driver));
    if irql >= level {
        report("SHIM-IRQL", format!("{function} is called at level {irql}: only levels below {level} are allowed"));
    }
}

/// The level of interrupts of this thread.
fn irql(driver: &Loaded) -> u8 {
    // SAFETY: the function has no arguments.
    unsafe { (driver.shim().GetIrql)() }
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
    let Some(driver) = inbox::driver(handle.addr()) else { return no_such_adapter() };
    if irql(&driver) < DEVICE_LEVEL {
        let level = "below the level of the device: outside of the interrupt routine use DxgkCbSynchronizeExecution";
        report("SHIM-IRQL", format!("DxgkCbNotifyInterrupt is called {level}"));
    }
    if is_of_this_thread(handle) {
        with(handle, (), |adapter| {
            let function = adapter.progress().running().map_or("no call", |running| running.function);
            adapter.owes.set(Owes::QueueDpc);
            adapter.take_reports_of_threads();
            adapter.note(notification, function);
        });
    } else {
        inbox::add(handle.addr(), notification);
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
    if let Some(driver) = inbox::driver(handle.addr()) {
        let irql = irql(&driver);
        if irql != DISPATCH_LEVEL {
            report("SHIM-IRQL", format!("DxgkCbNotifyDpc is called at level {irql}: DISPATCH_LEVEL is right (DRV-09)"));
        }
    }
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

/// The routine is called at once, in this thread, while the interrupt routine does not run.
unsafe extern "C" fn synchronize_execution(
    handle: HANDLE,
    routine: Option<unsafe extern "C" fn(HANDLE) -> BOOLEAN>,
    context: HANDLE,
    _message_number: u32,
    result: *mut BOOLEAN,
) -> NTSTATUS {
    let (Some(routine), Some(driver)) = (routine, inbox::driver(handle.addr())) else {
        return STATUS_INVALID_PARAMETER;
    };
    let is_unconnected = is_of_this_thread(handle) && with(handle, false, |adapter| !adapter.is_started());
    if is_unconnected {
        return STATUS_UNSUCCESSFUL;
    }
    let (begin, before) = (driver.shim().BeginCall, irql(&driver));
    if before > DISPATCH_LEVEL {
        report("SHIM-IRQL", "DxgkCbSynchronizeExecution is called above DISPATCH_LEVEL (DRV-09)");
    }
    let returned = inbox::synchronized(|| {
        // SAFETY: the function takes a number, and a name or null.
        unsafe { begin(DEVICE_LEVEL, std::ptr::null()) };
        // SAFETY: the driver asks for its own function to be called with its own context.
        let returned = unsafe { routine(context) };
        // SAFETY: as above.
        unsafe { begin(before, std::ptr::null()) };
        returned
    });
    if !result.is_null() {
        // SAFETY: not null; the driver passes a BOOLEAN.
        unsafe { result.write(returned) };
    }
    STATUS_SUCCESS
}

// ---- The GPU's model ----

const RETIRED: &str = "a page of an MDL whose packet has ended (lifetime assumed, DRV-03)";

fn in_memory(handle: HANDLE, what: &str, segment: u32, offset: u64, is_there: bool) -> BOOLEAN {
    if !is_there && !with(handle, false, |adapter| adapter.targets.is_reported()) {
        let running = with(handle, None, |adapter| adapter.progress().running());
        let running = running.map(|running| format!(", in {}", running.function)).unwrap_or_default();
        let is_retired = segment == 0 && offset / PAGE_SIZE == RETIRED_PAGE;
        let why = match is_retired {
            true => RETIRED,
            false => "where no memory is",
        };
        report("GPU-ACCESS", format!("the GPU {what} segment {segment} + {offset:#x}, {why}{running}"));
    }
    is_there.into()
}

/// The hardware writes bytes. Outside of the pages of the operations in the running buffer the write is a finding, and names the
/// culprit before the victim's content is compared.
fn note_write(adapter: &Adapter, segment: u32, offset: u64, size: u64) {
    for page in offset / PAGE_SIZE..=offset.saturating_add(size.saturating_sub(1)) / PAGE_SIZE {
        if let Some(place) = from_driver(segment, page.saturating_mul(PAGE_SIZE)) {
            judge(adapter, place, adapter.targets.write(place), "writes");
        }
    }
}

/// The hardware copies a page.
fn note_copy(adapter: &Adapter, (to, to_offset): (u32, u64), (from, from_offset): (u32, u64)) {
    note_write(adapter, to, to_offset, PAGE_SIZE);
    if let Some(place) = from_driver(from, from_offset / PAGE_SIZE * PAGE_SIZE) {
        judge(adapter, place, adapter.targets.read(place), "reads");
    }
}

/// Reports an access beside the pages of an operation: a translation has led the access astray, or the operation's own commands.
fn judge(adapter: &Adapter, place: PhysicalAddress, access: Access, deed: &str) {
    if access == Access::Right {
        return;
    }
    let pages = adapter.targets.pages(access).into_iter();
    let mut others = pages.filter(|&(_, asked)| asked != place);
    if let Some((address, asked)) = others.find(|&(address, _)| user_work::translated(adapter, address) == Some(place))
    {
        user_work::report_translation(adapter, address, asked, place);
        adapter.targets.set_reported();
    } else if let Access::Astray(culprit) = access {
        let (segment, offset) = to_driver(place);
        let page = offset / PAGE_SIZE;
        let why = if page == RETIRED_PAGE { RETIRED } else { "outside of the pages of the operation" };
        let name =
            |fence: EngineFence| format!(", {} of engine {}", adapter.fences.name(fence.fence_id as u32), fence.engine);
        let packet = adapter.targets.packet().map(name).unwrap_or_default();
        let told = format!("{culprit}{packet}, {deed} page {page:#x} of segment {segment}, {why}");
        report_stray(culprit.kind.fact(), told);
        adapter.targets.set_reported();
    }
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
    let write = |adapter: &Adapter| {
        note_write(adapter, segment, offset, size as u64);
        adapter.memory().is_some_and(|m| m.write(segment, offset, data))
    };
    let is_there = with(handle, false, write);
    in_memory(handle, "writes", segment, offset, is_there)
}

unsafe extern "C" fn copy_page(handle: HANDLE, to: u32, to_offset: u64, from: u32, from_offset: u64) -> BOOLEAN {
    let copy = |adapter: &Adapter| {
        note_copy(adapter, (to, to_offset), (from, from_offset));
        adapter.memory().is_some_and(|m| m.copy_page((to, to_offset), (from, from_offset)))
    };
    let is_there = with(handle, false, copy);
    in_memory(handle, &format!("copies segment {from} + {from_offset:#x} to"), to, to_offset, is_there)
}

unsafe extern "C" fn fill_page(handle: HANDLE, segment: u32, offset: u64, pattern: u32) -> BOOLEAN {
    let fill = |adapter: &Adapter| {
        note_write(adapter, segment, offset, PAGE_SIZE);
        adapter.memory().is_some_and(|m| m.fill_page((segment, offset), pattern))
    };
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
    with(handle, null, |adapter| adapter.dma.at(address, size).unwrap_or(null))
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

/// # Safety
///
/// `data` has a page.
unsafe extern "C" fn read_system_page(page: u64, data: *mut u8) -> BOOLEAN {
    // SAFETY: the shim's buffer has a page, and nothing else refers to it during the call.
    let data = unsafe { std::slice::from_raw_parts_mut(data, PAGE_SIZE as usize) };
    data.fill(0);
    with_last(|adapter| adapter.memory()?.read(0, page.checked_mul(PAGE_SIZE)?, data).then_some(1)).unwrap_or(0)
}

/// # Safety
///
/// `data` has a page.
unsafe extern "C" fn write_system_page(page: u64, data: *const u8) -> BOOLEAN {
    // SAFETY: the shim's buffer has a page, which does not change during the call.
    let data = unsafe { std::slice::from_raw_parts(data, PAGE_SIZE as usize) };
    with_last(|adapter| adapter.memory()?.write(0, page.checked_mul(PAGE_SIZE)?, data).then_some(1)).unwrap_or(0)
}

unsafe extern "C" fn physical_address_of(pointer: *const u8) -> u64 {
    with_last(|adapter| adapter.dma.address_of(pointer)).unwrap_or_default()
}

unsafe extern "C" fn raise_interrupt(handle: HANDLE, message_number: u32) {
    with(handle, (), |adapter| adapter.interrupt(message_number));
}
