//! Shared resources and fences. A descriptor stands for shared objects: a file in memory with their handles. Each process has a manager of
//! its own, so what opens a descriptor of another process is not supported.

use std::ffi::c_void;

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::{elements, fence_address, not_supported};
use crate::border::client;
use crate::call::{Call, Reply};
use crate::status::Status;

/// The first word of a file of handles: "VidmmShr".
const MAGIC: u64 = u64::from_le_bytes(*b"VidmmShr");

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

/// The first of the objects that a descriptor stands for; 0 if the descriptor is of something else. A descriptor of another process is
/// refused.
fn shared_object(descriptor: *mut c_void) -> Result<u32, Reply> {
    let mut file = [0_u8; 16];
    // SAFETY: sixteen bytes have room; a descriptor that is none is answered with an error.
    let read = unsafe { libc::pread(descriptor.addr() as i32, file.as_mut_ptr().cast(), file.len(), 0) };
    let word = |at: usize| u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]]);
    if read != 16 || file[..8] != MAGIC.to_le_bytes() {
        return Ok(0);
    }
    let is_ours = word(8) == std::process::id();
    if is_ours { Ok(word(12)) } else { Err(not_supported("A descriptor of another process")) }
}

/// Says what a shared resource has, in the struct of either function.
macro_rules! tell_resource {
    ($args:ident, $resource:expr) => {{
        let reply = client::call(Call::QueryResourceInfo { device: $args.hDevice, resource: $resource });
        client::with(|client| {
            let private = client.private_data($resource);
            $args.PrivateRuntimeDataSize = private.runtime.len() as u32;
            $args.TotalPrivateDriverDataSize = private.total() as u32;
            $args.ResourcePrivateDriverDataSize = private.resource.len() as u32;
            $args.NumAllocations = reply.value() as u32;
        });
        reply
    }};
}

/// Opens a shared resource, by the struct of either function.
macro_rules! open_resource {
    ($args:ident, $resource:expr, $infos:expr) => {{
        let rooms = [
            ($args.pPrivateRuntimeData, $args.PrivateRuntimeDataSize),
            ($args.pResourcePrivateDriverData, $args.ResourcePrivateDriverDataSize),
            ($args.pTotalPrivateDriverDataBuffer, $args.TotalPrivateDriverDataBufferSize),
        ];
        let (infos, count) = ($infos, $args.NumAllocations as usize);
        let set = |at: usize, handle, (data, size)| {
            if at < count {
                // SAFETY: the array has so many elements.
                let info = unsafe { &mut *infos.add(at) };
                (info.hAllocation, info.pPrivateDriverData, info.PrivateDriverDataSize) = (handle, data, size);
            }
        };
        // SAFETY: the caller says how large its buffers are.
        let reply = unsafe { open($args.hDevice, $resource, rooms, set) };
        $args.hResource = reply.handle();
        reply
    }};
}

/// The object of a descriptor; the function ends where the descriptor is refused.
macro_rules! shared_object {
    ($descriptor:expr) => {
        match shared_object($descriptor) {
            Ok(object) => object,
            Err(reply) => return reply.status.0,
        }
    };
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
        tell_resource!(args, args.hGlobalShare)
    }

    /// Says what a shared resource has, by a descriptor.
    D3DKMTQueryResourceInfoFromNtHandle(args: wdk::D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE) {
        let resource = shared_object!(args.hNtHandle);
        tell_resource!(args, resource)
    }

    /// Opens a shared resource on a device, by the handle that all have in common.
    D3DKMTOpenResource(args: wdk::D3DKMT_OPENRESOURCE) {
        // SAFETY: the kinds of the union are one pointer.
        open_resource!(args, args.hGlobalShare, unsafe { args.Anonymous.pOpenAllocationInfo })
    }

    /// Opens a shared resource on a device, by a descriptor.
    D3DKMTOpenResourceFromNtHandle(args: wdk::D3DKMT_OPENRESOURCEFROMNTHANDLE) {
        let resource = shared_object!(args.hNtHandle);
        open_resource!(args, resource, args.pOpenAllocationInfo2)
    }

    /// Opens a shared fence on a device, by a descriptor.
    D3DKMTOpenSyncObjectFromNtHandle2(args: wdk::D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2) {
        let fence = shared_object!(args.hNtHandle);
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
