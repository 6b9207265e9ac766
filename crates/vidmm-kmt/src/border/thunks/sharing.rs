//! Shared resources and fences. A descriptor stands for shared objects: a file in memory with their handles. Each process has a manager of
//! its own, so a descriptor of another process opens nothing.

use std::ffi::c_void;

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::{elements, fence_address};
use crate::border::client;
use crate::border::private_data::PrivateData;
use crate::call::{Call, Reply};
use crate::status::Status;

/// The first word of a file of handles: "VidmmShr".
const MAGIC: u64 = u64::from_le_bytes(*b"VidmmShr");

/// Bytes of the caller's.
///
/// # Safety
///
/// `data` is null, or has `size` bytes.
unsafe fn bytes(data: *const c_void, size: u32) -> Vec<u8> {
    // SAFETY: the caller says so.
    unsafe { elements(data.cast::<u8>(), size) }
}

/// The private data of a resource that is created.
///
/// # Safety
///
/// The private data of the structs are readable.
pub unsafe fn private_data_of(
    args: &wdk::D3DKMT_CREATEALLOCATION,
    infos: &[wdk::D3DDDI_ALLOCATIONINFO2],
) -> PrivateData {
    // SAFETY: the caller says so, and the kinds of the union are one pointer.
    unsafe {
        PrivateData {
            runtime: bytes(args.pPrivateRuntimeData, args.PrivateRuntimeDataSize),
            resource: bytes(args.Anonymous1.pPrivateDriverData, args.PrivateDriverDataSize),
            allocations: infos.iter().map(|info| bytes(info.pPrivateDriverData, info.PrivateDriverDataSize)).collect(),
        }
    }
}

/// Copies bytes to where the caller has room for `room` bytes.
///
/// # Safety
///
/// `to` is null, or has `room` bytes.
unsafe fn give(data: &[u8], to: *mut c_void, room: u32) {
    if !to.is_null() {
        // SAFETY: no more is copied than there is room for.
        unsafe { to.cast::<u8>().copy_from_nonoverlapping(data.as_ptr(), data.len().min(room as usize)) };
    }
}

/// The first of the objects that a descriptor stands for; 0 if the descriptor is of another process, or of something else.
fn shared_object(descriptor: *mut c_void) -> u32 {
    let mut file = [0_u8; 16];
    // SAFETY: sixteen bytes have room; a descriptor that is none is answered with an error.
    let read = unsafe { libc::pread(descriptor.addr() as i32, file.as_mut_ptr().cast(), file.len(), 0) };
    let word = |at: usize| u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]]);
    let is_ours = read == 16 && file[..8] == MAGIC.to_le_bytes() && word(8) == std::process::id();
    if is_ours { word(12) } else { 0 }
}

/// The sizes of the private data of a shared resource: of the runtime, of all allocations together, of the resource; and the number of
/// allocations.
fn resource_info(device: u32, resource: u32) -> (Reply, [u32; 4]) {
    let reply = client::call(Call::QueryResourceInfo { device, resource });
    let sizes = client::with(|client| {
        let private = client.private_data(resource);
        [private.runtime.len(), private.total(), private.resource.len()].map(|size| size as u32)
    });
    let [runtime, total, of_resource] = sizes.unwrap_or_default();
    let count = reply.value() as u32;
    (reply, [runtime, total, of_resource, count])
}

/// The room for what is opened: the private data of the runtime, of the resource, and of all allocations.
type Rooms = [(*mut c_void, u32); 3];

/// Opens a shared resource. `set` gets the number of each allocation, the handle, and the private data in the caller's memory.
///
/// # Safety
///
/// The rooms are as large as they say, or null.
unsafe fn open(
    device: u32,
    resource: u32,
    rooms: Rooms,
    mut set: impl FnMut(usize, u32, (*const c_void, u32)),
) -> Reply {
    let reply = client::call(Call::OpenResource { device, resource });
    let Some((&opened, handles)) = reply.handles.split_first() else { return reply };
    client::with(|client| {
        let private = client.private_data(resource);
        let [runtime, of_resource, (total, mut room)] = rooms;
        // SAFETY: the caller says how much room there is.
        unsafe {
            give(&private.runtime, runtime.0, runtime.1);
            give(&private.resource, of_resource.0, of_resource.1);
        }
        let mut at = total.cast::<u8>();
        for (number, &handle) in handles.iter().enumerate() {
            let data = private.allocations.get(number).map_or(&[][..], Vec::as_slice);
            let size = (data.len() as u32).min(room);
            // SAFETY: there is that much room left.
            unsafe { give(data, at.cast(), room) };
            set(number, handle, (at.cast_const().cast(), size));
            (at, room) = (at.wrapping_add(size as usize), room - size);
        }
        client.share_again(resource, opened);
    });
    reply
}

thunks! {
    /// Says what a shared resource has, by the handle that all have in common.
    D3DKMTQueryResourceInfo(args: wdk::D3DKMT_QUERYRESOURCEINFO) {
        let (reply, [runtime, total, resource, count]) = resource_info(args.hDevice, args.hGlobalShare);
        (args.PrivateRuntimeDataSize, args.TotalPrivateDriverDataSize) = (runtime, total);
        (args.ResourcePrivateDriverDataSize, args.NumAllocations) = (resource, count);
        reply
    }

    /// Says what a shared resource has, by a descriptor.
    D3DKMTQueryResourceInfoFromNtHandle(args: wdk::D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE) {
        let (reply, [runtime, total, resource, count]) =
            resource_info(args.hDevice, shared_object(args.hNtHandle));
        (args.PrivateRuntimeDataSize, args.TotalPrivateDriverDataSize) = (runtime, total);
        (args.ResourcePrivateDriverDataSize, args.NumAllocations) = (resource, count);
        reply
    }

    /// Opens a shared resource on a device, by the handle that all have in common.
    D3DKMTOpenResource(args: wdk::D3DKMT_OPENRESOURCE) {
        let rooms = [
            (args.pPrivateRuntimeData, args.PrivateRuntimeDataSize),
            (args.pResourcePrivateDriverData, args.ResourcePrivateDriverDataSize),
            (args.pTotalPrivateDriverDataBuffer, args.TotalPrivateDriverDataBufferSize),
        ];
        // SAFETY: the kinds of the union are one pointer.
        let infos = unsafe { args.Anonymous.pOpenAllocationInfo };
        let count = args.NumAllocations as usize;
        let set = |at: usize, handle, (data, size)| {
            if at < count {
                // SAFETY: the array has so many elements.
                let info = unsafe { &mut *infos.add(at) };
                (info.hAllocation, info.pPrivateDriverData, info.PrivateDriverDataSize) = (handle, data, size);
            }
        };
        // SAFETY: the caller says how large its buffers are.
        let reply = unsafe { open(args.hDevice, args.hGlobalShare, rooms, set) };
        args.hResource = reply.handle();
        reply
    }

    /// Opens a shared resource on a device, by a descriptor.
    D3DKMTOpenResourceFromNtHandle(args: wdk::D3DKMT_OPENRESOURCEFROMNTHANDLE) {
        let rooms = [
            (args.pPrivateRuntimeData, args.PrivateRuntimeDataSize),
            (args.pResourcePrivateDriverData, args.ResourcePrivateDriverDataSize),
            (args.pTotalPrivateDriverDataBuffer, args.TotalPrivateDriverDataBufferSize),
        ];
        let (infos, count) = (args.pOpenAllocationInfo2, args.NumAllocations as usize);
        let set = |at: usize, handle, (data, size)| {
            if at < count {
                // SAFETY: the array has so many elements.
                let info = unsafe { &mut *infos.add(at) };
                (info.hAllocation, info.pPrivateDriverData, info.PrivateDriverDataSize) = (handle, data, size);
            }
        };
        // SAFETY: the caller says how large its buffers are.
        let reply = unsafe { open(args.hDevice, shared_object(args.hNtHandle), rooms, set) };
        args.hResource = reply.handle();
        reply
    }

    /// Opens a shared fence on a device, by a descriptor.
    D3DKMTOpenSyncObjectFromNtHandle2(args: wdk::D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2) {
        let fence = shared_object(args.hNtHandle);
        let reply = client::call(Call::OpenSyncObject { device: args.hDevice, fence });
        if reply.status.is_success() {
            args.hSyncObject = reply.handle();
            args.Anonymous.MonitoredFence.FenceValueCPUVirtualAddress = fence_address(reply.value());
            args.Anonymous.MonitoredFence.FenceValueGPUVirtualAddress = reply.address;
        }
        reply
    }
}

/// Makes a descriptor that stands for objects. The first is what the functions open.
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
    let mut file = MAGIC.to_le_bytes().to_vec();
    file.extend([std::process::id()].iter().chain(&objects).flat_map(|word| word.to_le_bytes()));
    let reply = client::call(Call::ShareObjects { objects });
    if reply.status.is_success() {
        // SAFETY: the name is a C string.
        let descriptor = unsafe { libc::memfd_create(c"vidmm shared".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: the bytes are there; a descriptor that is none is answered with an error.
        if unsafe { libc::write(descriptor, file.as_ptr().cast(), file.len()) } != file.len() as isize {
            return Status::INSUFFICIENT_RESOURCES.0;
        }
        // SAFETY: the caller's pointer is to a handle.
        unsafe { shared.write(std::ptr::without_provenance_mut(descriptor as usize)) };
    }
    reply.status.0
}
