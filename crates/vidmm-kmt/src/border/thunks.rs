//! The functions of `d3dkmthk.h`: each reads a struct of the caller's, makes a call, and writes the answer into the struct.
//!
//! A function that is not here is answered with `STATUS_NOT_SUPPORTED`, and counted in the log.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::client::{self, TrimCallback};
use super::{blobs, dxcore};
use crate::call::{Call, FenceValue, Reply};
use crate::status::Status;

/// A wait that nothing is to end goes on for so long in real time: another thread may still make a call.
const REAL_PATIENCE: Duration = Duration::from_secs(2);

/// Kinds of `KMTQUERYADAPTERINFOTYPE`.
const ADAPTER_TYPE: i32 = 15;
const QUERY_REGISTRY: i32 = 48;

/// `D3DKMT_ADAPTERTYPE`: the adapter renders, and computes only.
const RENDERS: u32 = 1 << 0;
const COMPUTES_ONLY: u32 = 1 << 11;

/// `D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH`.
const DRIVER_STORE_PATH: u32 = 2;

/// Words before the value's type in `D3DDDI_QUERYREGISTRY_INFO`: two numbers, and a name of 260 characters of four bytes each.
const REGISTRY_NAME_WORDS: usize = 2 + 260;

/// `D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW`.
const BUFFER_OVERFLOW: u32 = 1;

/// `D3DDDI_MONITORED_FENCE`.
const MONITORED_FENCE: i32 = 5;

/// `D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS`: one of the fences is enough.
const WAIT_ANY: u32 = 1 << 0;

/// `D3DKMT_CREATEALLOCATIONFLAGS`: a resource is created.
const CREATE_RESOURCE: u32 = 1 << 0;

/// The elements of an array of the caller's.
///
/// # Safety
///
/// `array` is null, or has `count` elements.
unsafe fn elements<T: Copy>(array: *const T, count: u32) -> Vec<T> {
    if array.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller says so.
    (0..count as usize).map(|at| unsafe { array.add(at).read_unaligned() }).collect()
}

/// The flags of a struct, which are a union of bits and a number of 32 bits.
fn bits<T>(flags: &T) -> u32 {
    const { assert!(size_of::<T>() == 4) };
    // SAFETY: each bit pattern of the four bytes is a number.
    unsafe { std::ptr::from_ref(flags).cast::<u32>().read_unaligned() }
}

/// The pointer at the begin of a union.
fn pointer<T, P>(union: &T) -> *const P {
    const { assert!(size_of::<T>() >= size_of::<*const P>()) };
    // SAFETY: the union is at least as large as a pointer, and each bit pattern is one.
    unsafe { std::ptr::from_ref(union).cast::<*const P>().read_unaligned() }
}

/// Fences with their values.
///
/// # Safety
///
/// Both arrays have `count` elements, or are null.
unsafe fn fences(handles: *const u32, values: *const u64, count: u32) -> Vec<FenceValue> {
    // SAFETY: the caller says so.
    let (handles, values) = unsafe { (elements(handles, count), elements(values, count)) };
    handles.into_iter().zip(values).map(|(fence, value)| FenceValue { fence, value }).collect()
}

/// Defines functions that read one struct. The body answers a [`Reply`]; its status is the function's.
macro_rules! thunks {
    ($($(#[$doc:meta])* $name:ident($args:ident: $type:ty) $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The struct, and the arrays in it, are as the function's page says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($args: *mut $type) -> i32 {
            // SAFETY: the caller gives a struct, or null.
            let Some($args) = (unsafe { $args.as_mut() }) else { return Status::INVALID_PARAMETER.0 };
            let reply: Reply = $body;
            reply.status.0
        }
    )*};
}

thunks! {
    /// Opens the adapter.
    D3DKMTOpenAdapterFromLuid(args: wdk::D3DKMT_OPENADAPTERFROMLUID) {
        let luid = args.AdapterLuid;
        if u64::from(luid.LowPart) | (luid.HighPart as u64) << 32 != dxcore::LUID {
            return Status::INVALID_PARAMETER.0;
        }
        let reply = client::call(Call::OpenAdapter);
        args.hAdapter = reply.handle();
        reply
    }

    /// Closes an adapter.
    D3DKMTCloseAdapter(args: wdk::D3DKMT_CLOSEADAPTER) {
        client::call(Call::CloseAdapter { adapter: args.hAdapter })
    }

    /// Lists the adapter, open.
    D3DKMTEnumAdapters2(args: wdk::D3DKMT_ENUMADAPTERS2) {
        if args.pAdapters.is_null() {
            args.NumAdapters = 1;
            return Status::SUCCESS.0;
        }
        if args.NumAdapters == 0 {
            return Status::INVALID_PARAMETER.0;
        }
        let reply = client::call(Call::OpenAdapter);
        args.NumAdapters = 1;
        // SAFETY: the caller's array has an element.
        let info = unsafe { &mut *args.pAdapters };
        info.hAdapter = reply.handle();
        info.AdapterLuid.LowPart = dxcore::LUID as u32;
        info.AdapterLuid.HighPart = 0;
        (info.NumOfSources, info.bPrecisePresentRegionsPreferred) = (0, 0);
        reply
    }

    /// Says what the adapter is.
    D3DKMTQueryAdapterInfo(args: wdk::D3DKMT_QUERYADAPTERINFO) {
        let reply = client::call(Call::QueryAdapterInfo { adapter: args.hAdapter, info_type: args.Type });
        if reply.status.is_success() {
            // SAFETY: the caller's buffer has so many bytes.
            unsafe { adapter_info(args.Type, args.pPrivateDriverData.cast(), args.PrivateDriverDataSize as usize / 4) };
        }
        reply
    }

    /// Creates a device.
    D3DKMTCreateDevice(args: wdk::D3DKMT_CREATEDEVICE) {
        // SAFETY: both kinds of the union begin with a handle of 32 bits on Linux.
        let reply = client::call(Call::CreateDevice { adapter: unsafe { args.Anonymous.hAdapter } });
        args.hDevice = reply.handle();
        reply
    }

    /// Destroys a device.
    D3DKMTDestroyDevice(args: wdk::D3DKMT_DESTROYDEVICE) {
        let reply = client::call(Call::DestroyDevice { device: args.hDevice });
        client::with(|client| client.free_memory());
        reply
    }

    /// Says whether a device is in error.
    D3DKMTGetDeviceState(args: wdk::D3DKMT_GETDEVICESTATE) {
        let reply = client::call(Call::GetDeviceState { device: args.hDevice });
        // SAFETY: the first member of each kind of the union is a number.
        unsafe { (&raw mut args.Anonymous).cast::<u32>().write(reply.value() as u32) };
        reply
    }

    /// Creates a paging queue.
    D3DKMTCreatePagingQueue(args: wdk::D3DKMT_CREATEPAGINGQUEUE) {
        let reply = client::call(Call::CreatePagingQueue { device: args.hDevice, priority: args.Priority });
        if let [queue, fence] = reply.handles[..] {
            (args.hPagingQueue, args.hSyncObject) = (queue, fence);
            args.FenceValueCPUVirtualAddress = fence_address(reply.value());
        }
        reply
    }

    /// Destroys a paging queue.
    D3DKMTDestroyPagingQueue(args: wdk::D3DDDI_DESTROYPAGINGQUEUE) {
        client::call(Call::DestroyPagingQueue { paging_queue: args.hPagingQueue })
    }

    /// Creates a context.
    D3DKMTCreateContextVirtual(args: wdk::D3DKMT_CREATECONTEXTVIRTUAL) {
        let call = Call::CreateContext { device: args.hDevice, node_ordinal: args.NodeOrdinal };
        let reply = client::call(call);
        args.hContext = reply.handle();
        reply
    }

    /// Destroys a context.
    D3DKMTDestroyContext(args: wdk::D3DKMT_DESTROYCONTEXT) {
        client::call(Call::DestroyContext { context: args.hContext })
    }

    /// Sets the priority of a context's work.
    D3DKMTSetContextSchedulingPriority(args: wdk::D3DKMT_SETCONTEXTSCHEDULINGPRIORITY) {
        client::call(Call::SetContextSchedulingPriority { context: args.hContext, priority: args.Priority })
    }

    /// Creates allocations.
    D3DKMTCreateAllocation2(args: wdk::D3DKMT_CREATEALLOCATION) {
        // SAFETY: the function is for this kind of the union.
        let infos = unsafe { elements(args.Anonymous2.pAllocationInfo2, args.NumAllocations) };
        let mut allocations = Vec::new();
        for info in &infos {
            // SAFETY: the caller's private data has so many bytes.
            let words = unsafe { blobs::words(info.pPrivateDriverData, info.PrivateDriverDataSize) };
            let Some(allocation) = blobs::allocation(&words) else { return Status::INVALID_PARAMETER.0 };
            allocations.push(allocation);
        }
        let creates_resource = bits(&args.Flags) & CREATE_RESOURCE != 0;
        let call =
            Call::CreateAllocation { device: args.hDevice, resource: args.hResource, creates_resource, allocations };
        let reply = client::call(call);
        if let Some((&resource, handles)) = reply.handles.split_first() {
            args.hResource = resource;
            for (at, (&handle, info)) in handles.iter().zip(&infos).enumerate() {
                // SAFETY: the array has an element for each allocation.
                unsafe { (*args.Anonymous2.pAllocationInfo2.add(at)).hAllocation = handle };
                let memory: *const c_void = pointer(&info.Anonymous1);
                if !memory.is_null() {
                    client::with(|client| client.give_memory(handle, memory.cast_mut()));
                }
            }
        }
        reply
    }

    /// Destroys allocations.
    D3DKMTDestroyAllocation2(args: wdk::D3DKMT_DESTROYALLOCATION2) {
        // SAFETY: the array has so many elements.
        let allocations = unsafe { elements(args.phAllocationList, args.AllocationCount) };
        let flags = bits(&args.Flags);
        let call = Call::DestroyAllocation { device: args.hDevice, resource: args.hResource, allocations, flags };
        let reply = client::call(call);
        client::with(|client| client.free_memory());
        reply
    }

    /// Sets the priorities of allocations.
    D3DKMTSetAllocationPriority(args: wdk::D3DKMT_SETALLOCATIONPRIORITY) {
        // SAFETY: both arrays have so many elements.
        let (allocations, priorities) = unsafe {
            (elements(args.phAllocationList, args.AllocationCount), elements(args.pPriorities, args.AllocationCount))
        };
        client::call(Call::SetAllocationPriority { device: args.hDevice, allocations, priorities })
    }

    /// Says where allocations are resident.
    D3DKMTQueryAllocationResidency(args: wdk::D3DKMT_QUERYALLOCATIONRESIDENCY) {
        // SAFETY: the array has so many elements.
        let allocations = unsafe { elements(args.phAllocationList, args.AllocationCount) };
        let reply = client::call(Call::QueryAllocationResidency { device: args.hDevice, allocations });
        for (at, &status) in reply.values.iter().enumerate() {
            // SAFETY: the array has an element for each allocation.
            unsafe { args.pResidencyStatus.add(at).write(status as i32) };
        }
        reply
    }

    /// Reserves GPU virtual addresses.
    D3DKMTReserveGpuVirtualAddress(args: wdk::D3DDDI_RESERVEGPUVIRTUALADDRESS) {
        let (minimum, maximum) = (args.MinimumAddress, args.MaximumAddress);
        // SAFETY: both kinds of the union are a handle.
        let object = unsafe { args.Anonymous1.hPagingQueue };
        let call =
            Call::ReserveGpuVirtualAddress { object, base: args.BaseAddress, minimum, maximum, size: args.Size };
        let reply = client::call(call);
        args.VirtualAddress = reply.address;
        // SAFETY: the kinds of the union are numbers of 64 bits.
        unsafe { (&raw mut args.Anonymous4).cast::<u64>().write(reply.value()) };
        reply
    }

    /// Maps an allocation at GPU virtual addresses.
    D3DKMTMapGpuVirtualAddress(args: wdk::D3DDDI_MAPGPUVIRTUALADDRESS) {
        const PAGE: u64 = 4096;
        // SAFETY: the union is a number of 64 bits.
        let protection = unsafe { (&raw const args.Protection).cast::<u64>().read() };
        let reply = client::call(Call::MapGpuVirtualAddress {
            paging_queue: args.hPagingQueue,
            allocation: args.hAllocation,
            base: args.BaseAddress,
            minimum: args.MinimumAddress,
            maximum: args.MaximumAddress,
            offset: args.OffsetInPages.saturating_mul(PAGE),
            size: args.SizeInPages.saturating_mul(PAGE),
            protection,
            driver_protection: args.DriverProtection,
        });
        (args.VirtualAddress, args.PagingFenceValue) = (reply.address, reply.value());
        reply
    }

    /// Frees GPU virtual addresses.
    D3DKMTFreeGpuVirtualAddress(args: wdk::D3DKMT_FREEGPUVIRTUALADDRESS) {
        client::call(Call::FreeGpuVirtualAddress { adapter: args.hAdapter, base: args.BaseAddress, size: args.Size })
    }

    /// Makes allocations resident.
    D3DKMTMakeResident(args: wdk::D3DDDI_MAKERESIDENT) {
        // SAFETY: the array has so many elements.
        let allocations = unsafe { elements(args.AllocationList, args.NumAllocations) };
        let reply = client::call(Call::MakeResident {
            paging_queue: args.hPagingQueue,
            allocations,
            flags: bits(&args.Flags),
        });
        (args.PagingFenceValue, args.NumBytesToTrim) = (reply.value(), reply.num_bytes_to_trim);
        reply
    }

    /// Takes allocations off the device's list.
    D3DKMTEvict(args: wdk::D3DKMT_EVICT) {
        // SAFETY: the array has so many elements.
        let allocations = unsafe { elements(args.AllocationList, args.NumAllocations) };
        let reply = client::call(Call::Evict { device: args.hDevice, allocations, flags: bits(&args.Flags) });
        args.NumBytesToTrim = reply.num_bytes_to_trim;
        reply
    }

    /// Offers allocations.
    D3DKMTOfferAllocations(args: wdk::D3DKMT_OFFERALLOCATIONS) {
        // SAFETY: the array has so many elements.
        let allocations = unsafe { elements(args.HandleList, args.NumAllocations) };
        let priority = args.Priority as u32;
        client::call(Call::OfferAllocations { device: args.hDevice, allocations, priority })
    }

    /// Reclaims allocations.
    D3DKMTReclaimAllocations2(args: wdk::D3DKMT_RECLAIMALLOCATIONS2) {
        // SAFETY: the array has so many elements.
        let allocations = unsafe { elements(args.HandleList, args.NumAllocations) };
        let reply = client::call(Call::ReclaimAllocations { paging_queue: args.hPagingQueue, allocations });
        args.PagingFenceValue = reply.value();
        let results = pointer::<_, i32>(&args.Anonymous).cast_mut();
        for (at, &result) in reply.values.iter().skip(1).enumerate().filter(|_| !results.is_null()) {
            // SAFETY: the array has an element for each allocation.
            unsafe { results.add(at).write(result as i32) };
        }
        reply
    }

    /// Shows an allocation to the CPU.
    D3DKMTLock2(args: wdk::D3DKMT_LOCK2) {
        let reply = client::call(Call::Lock { device: args.hDevice, allocation: args.hAllocation });
        if reply.status.is_success() {
            let memory = client::with(|client| client.memory(args.hAllocation));
            args.pData = memory.unwrap_or(std::ptr::null_mut());
        }
        reply
    }

    /// Ends a lock.
    D3DKMTUnlock2(args: wdk::D3DKMT_UNLOCK2) {
        client::call(Call::Unlock { device: args.hDevice, allocation: args.hAllocation })
    }

    /// Queues work.
    D3DKMTSubmitCommand(args: wdk::D3DKMT_SUBMITCOMMAND) {
        // SAFETY: the caller's private data has so many bytes.
        let words = unsafe { blobs::words(args.pPrivateDriverData, args.PrivateDriverDataSize) };
        let (fence_address, fence_value) = blobs::fence_of_commands(&words);
        client::call(Call::SubmitCommand {
            context: args.BroadcastContext[0],
            commands: args.Commands,
            length: args.CommandLength,
            fence_address,
            fence_value,
        })
    }

    /// Creates a monitored fence.
    D3DKMTCreateSynchronizationObject2(args: wdk::D3DKMT_CREATESYNCHRONIZATIONOBJECT2) {
        if args.Info.Type != MONITORED_FENCE {
            let function = format!("D3DKMTCreateSynchronizationObject2 of type {}", args.Info.Type);
            return client::call(Call::NotSupported { function }).status.0;
        }
        // SAFETY: the type says which kind of the union this is.
        let initial_value = unsafe { args.Info.Anonymous.MonitoredFence.InitialFenceValue };
        let reply = client::call(Call::CreateMonitoredFence { device: args.hDevice, initial_value });
        if reply.status.is_success() {
            args.hSyncObject = reply.handle();
            args.Info.Anonymous.MonitoredFence.FenceValueCPUVirtualAddress = fence_address(reply.value());
            args.Info.Anonymous.MonitoredFence.FenceValueGPUVirtualAddress = reply.address;
        }
        reply
    }

    /// Destroys a monitored fence.
    D3DKMTDestroySynchronizationObject(args: wdk::D3DKMT_DESTROYSYNCHRONIZATIONOBJECT) {
        client::call(Call::DestroySynchronizationObject { fence: args.hSyncObject })
    }

    /// Signals fences at once.
    D3DKMTSignalSynchronizationObjectFromCpu(args: wdk::D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU) {
        // SAFETY: both arrays have so many elements.
        let fences = unsafe { fences(args.ObjectHandleArray, args.FenceValueArray, args.ObjectCount) };
        client::call(Call::SignalFromCpu { device: args.hDevice, fences })
    }

    /// Signals fences behind a context's work.
    D3DKMTSignalSynchronizationObjectFromGpu(args: wdk::D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU) {
        // SAFETY: both arrays have so many elements.
        let fences = unsafe { fences(args.ObjectHandleArray, pointer(&args.Anonymous), args.ObjectCount) };
        client::call(Call::SignalFromGpu { context: args.hContext, fences })
    }

    /// Signals fences behind a context's work.
    D3DKMTSignalSynchronizationObjectFromGpu2(args: wdk::D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2) {
        // SAFETY: both arrays have so many elements.
        let fences = unsafe { fences(args.ObjectHandleArray, pointer(&args.Anonymous), args.ObjectCount) };
        // SAFETY: as above.
        let contexts = unsafe { elements(args.BroadcastContextArray, args.BroadcastContextCount) };
        let Some(&context) = contexts.first() else { return Status::INVALID_PARAMETER.0 };
        client::call(Call::SignalFromGpu { context, fences })
    }

    /// Lets a context's next work wait for fences.
    D3DKMTWaitForSynchronizationObjectFromGpu(args: wdk::D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU) {
        // SAFETY: both arrays have so many elements.
        let fences = unsafe { fences(args.ObjectHandleArray, pointer(&args.Anonymous), args.ObjectCount) };
        client::call(Call::WaitFromGpu { context: args.hContext, fences })
    }

    /// Waits for fences, or lets an event be signalled when they have their values.
    D3DKMTWaitForSynchronizationObjectFromCpu(args: wdk::D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU) {
        // SAFETY: both arrays have so many elements.
        let fences = unsafe { fences(args.ObjectHandleArray, args.FenceValueArray, args.ObjectCount) };
        let any = bits(&args.Flags) & WAIT_ANY != 0;
        if !args.hAsyncEvent.is_null() {
            // A handle of an event is a descriptor here.
            let event = args.hAsyncEvent.addr() as i32;
            client::with(|client| client.signal_event(event, fences, any));
            return Status::SUCCESS.0;
        }
        wait(args.hDevice, fences, any)
    }

    /// Says what a process may keep resident, and does.
    D3DKMTQueryVideoMemoryInfo(args: wdk::D3DKMT_QUERYVIDEOMEMORYINFO) {
        let local = args.MemorySegmentGroup == wdk::D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL;
        let reply = client::call(Call::QueryVideoMemoryInfo { adapter: args.hAdapter, local });
        if let [budget, usage, reservation, available] = reply.values[..] {
            (args.Budget, args.CurrentUsage) = (budget, usage);
            (args.CurrentReservation, args.AvailableForReservation) = (reservation, available);
        }
        reply
    }

    /// Sets what a process cannot go without.
    D3DKMTChangeVideoMemoryReservation(args: wdk::D3DKMT_CHANGEVIDEOMEMORYRESERVATION) {
        let local = args.MemorySegmentGroup == wdk::D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL;
        client::call(Call::ChangeVideoMemoryReservation { adapter: args.hAdapter, local, bytes: args.Reservation })
    }

    /// Asks for notifications to trim.
    D3DKMTRegisterTrimNotification(args: wdk::D3DKMT_REGISTERTRIMNOTIFICATION) {
        let callback: *const c_void = pointer(&args.Callback);
        if callback.is_null() {
            return Status::INVALID_PARAMETER.0;
        }
        // SAFETY: the pointer is to the client's function.
        let callback = unsafe { std::mem::transmute::<*const c_void, TrimCallback>(callback) };
        let reply = client::call(Call::RegisterTrimNotification { device: args.hDevice });
        if reply.status.is_success() {
            args.Handle = std::ptr::without_provenance_mut(reply.handle() as usize);
            client::with(|client| client.register(reply.handle(), callback, args.Context));
        }
        reply
    }

    /// Ends notifications to trim.
    D3DKMTUnregisterTrimNotification(args: wdk::D3DKMT_UNREGISTERTRIMNOTIFICATION) {
        client::call(Call::UnregisterTrimNotification { notification: args.Handle.addr() as u32 })
    }
}

/// Makes a descriptor that stands for objects. Other processes have adapters of their own, so nobody can open the objects.
///
/// # Safety
///
/// The array has so many handles, and the last pointer is to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn D3DKMTShareObjects(
    count: u32,
    objects: *const u32,
    _attributes: *const c_void,
    _access: u32,
    shared: *mut *mut c_void,
) -> i32 {
    // SAFETY: the array has so many elements.
    let objects = unsafe { elements(objects, count) };
    let reply = client::call(Call::ShareObjects { objects });
    if reply.status.is_success() {
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(c"vidmm shared".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Status::INSUFFICIENT_RESOURCES.0;
        }
        // SAFETY: the caller's pointer is to a handle.
        unsafe { shared.write(std::ptr::without_provenance_mut(file as usize)) };
    }
    reply.status.0
}

/// The client's address of a fence's value.
fn fence_address(slot: u64) -> *mut c_void {
    client::with(|client| client.fence_address(slot as usize)).unwrap_or(std::ptr::null_mut())
}

/// Waits for fences. Between two looks, other threads of the client make their calls.
fn wait(device: u32, fences: Vec<FenceValue>, any: bool) -> Reply {
    let begin = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let reply = client::call(Call::WaitFromCpu { device, fences: fences.clone(), any });
        if reply.status != Status::IO_TIMEOUT {
            return reply;
        }
        if begin.elapsed() > REAL_PATIENCE {
            return client::call(Call::GiveUpWaiting { fences });
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(50));
    }
}

/// Writes what the adapter is into a buffer of words.
///
/// # Safety
///
/// The buffer has `words` words.
unsafe fn adapter_info(info_type: i32, buffer: *mut u32, words: usize) {
    if buffer.is_null() {
        return;
    }
    let set = |at: usize, word: u32| {
        if at < words {
            // SAFETY: the word is in the buffer.
            unsafe { buffer.add(at).write_unaligned(word) };
        }
    };
    match info_type {
        ADAPTER_TYPE => set(0, RENDERS | COMPUTES_ONLY),
        QUERY_REGISTRY => {
            let path = client::settings().driver_store.display().to_string();
            let path = Vec::from_iter(path.chars().map(u32::from).chain([0]));
            // The type of the value, the index of the adapter, the size of the value, the status; then the value, aligned to eight bytes.
            let (size, status) = (REGISTRY_NAME_WORDS + 2, REGISTRY_NAME_WORDS + 3);
            let value = (REGISTRY_NAME_WORDS + 4).next_multiple_of(2);
            // SAFETY: the first word of the buffer is the kind of the query.
            let is_store = words > status && unsafe { buffer.read_unaligned() } == DRIVER_STORE_PATH;
            set(size, if is_store { path.len() as u32 * 4 } else { 0 });
            let has_room = value + path.len() <= words;
            set(status, if is_store && has_room { 0 } else { BUFFER_OVERFLOW });
            if is_store && has_room {
                path.into_iter().enumerate().for_each(|(at, word)| set(value + at, word));
            }
        }
        // The driver's own struct: the helper makes its tokens, whatever is in the struct.
        _ => (0..words).for_each(|at| set(at, 0)),
    }
}

/// Defines functions that are not supported.
macro_rules! not_supported {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "` is not supported.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> i32 {
            client::call(Call::NotSupported { function: stringify!($name).to_owned() }).status.0
        }
    )*};
}

not_supported! {
    D3DKMTCreateAllocation
    D3DKMTDestroyAllocation
    D3DKMTCreateSynchronizationObject
    D3DKMTSignalSynchronizationObject
    D3DKMTWaitForSynchronizationObject
    D3DKMTOpenSyncObjectFromNtHandle2
    D3DKMTOpenSyncObjectNtHandleFromName
    D3DKMTEscape
    D3DKMTQueryResourceInfo
    D3DKMTQueryResourceInfoFromNtHandle
    D3DKMTOpenResource
    D3DKMTOpenResourceFromNtHandle
    D3DKMTUpdateGpuVirtualAddress
    D3DKMTCreateHwQueue
    D3DKMTDestroyHwQueue
    D3DKMTSubmitCommandToHwQueue
    D3DKMTQueryStatistics
    D3DKMTQueryClockCalibration
    D3DKMTEnumAdapters3
    D3DKMTUpdateAllocationProperty
    D3DKMTInvalidateCache
}
