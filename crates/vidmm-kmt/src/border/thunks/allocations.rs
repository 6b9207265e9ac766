//! Allocations: created, destroyed, locked, offered.

use std::ffi::c_void;

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::{bits, bytes, elements, not_supported, pointer};
use crate::border::private_data::PrivateData;
use crate::border::{blobs, client};
use crate::call::{Call, Reply};
use crate::status::Status;

/// `D3DKMT_CREATEALLOCATIONFLAGS`: a resource is created.
const CREATE_RESOURCE: u32 = 1 << 0;

/// Others may open the resource, and do so by a descriptor and not by a handle that all have in common (CRE-41).
const CREATE_SHARED: u32 = 1 << 1;
const NT_SECURITY_SHARING: u32 = 1 << 6;

/// The properties of `D3DDDI_UPDATEALLOCPROPERTY` that are changed (CRE-50).
const SET_SUPPORTED_SEGMENT_SET: u32 = 1 << 1;
const SET_PREFERRED_SEGMENT: u32 = 1 << 2;

/// The fields of a new allocation that both structs have: the private data, and the client's own memory.
struct Info {
    data: *const c_void,
    size: u32,
    memory: *const c_void,
}

/// Creates allocations. `set` gets the number of each allocation, and the handle.
///
/// # Safety
///
/// The private data of the structs are readable.
unsafe fn create(args: &mut wdk::D3DKMT_CREATEALLOCATION, infos: &[Info], set: impl Fn(usize, u32)) -> Reply {
    // SAFETY: the caller says so.
    let words = infos.iter().map(|info| unsafe { blobs::words(info.data, info.size) });
    let Some(allocations) = words.map(|words| blobs::allocation(&words)).collect() else {
        return Reply::refused(Status::INVALID_PARAMETER, "the format of the private data is unknown");
    };
    let flags = bits(&args.Flags);
    let (creates_resource, is_shared) = (flags & CREATE_RESOURCE != 0, flags & CREATE_SHARED != 0);
    let (device, resource) = (args.hDevice, args.hResource);
    let reply = client::call(Call::CreateAllocation { device, resource, creates_resource, is_shared, allocations });
    let Some((&resource, handles)) = reply.handles.split_first() else { return reply };
    args.hResource = resource;
    for (at, (&handle, info)) in handles.iter().zip(infos).enumerate() {
        set(at, handle);
        if !info.memory.is_null() {
            client::with(|client| client.give_memory(handle, info.memory.cast_mut()));
        }
    }
    if is_shared {
        // SAFETY: the caller says so, and the kinds of the union are one pointer.
        let private = unsafe {
            PrivateData {
                runtime: bytes(args.pPrivateRuntimeData, args.PrivateRuntimeDataSize),
                resource: bytes(args.Anonymous1.pPrivateDriverData, args.PrivateDriverDataSize),
                allocations: infos.iter().map(|info| bytes(info.data, info.size)).collect(),
            }
        };
        client::with(|client| client.share(resource, private));
        args.hGlobalShare = if flags & NT_SECURITY_SHARING == 0 { resource } else { 0 };
    }
    reply
}

/// The segments of `D3DDDI_SEGMENTPREFERENCE`: five bits each, and a bit for the direction of the search.
fn segments(preference: u32) -> [u8; 5] {
    std::array::from_fn(|at| (preference >> (6 * at) & 31) as u8)
}

thunks! {
    /// Creates allocations.
    D3DKMTCreateAllocation2(args: wdk::D3DKMT_CREATEALLOCATION) {
        // SAFETY: the function is for this kind of the union.
        let (array, count) = (unsafe { args.Anonymous2.pAllocationInfo2 }, args.NumAllocations);
        // SAFETY: the array has so many elements.
        let infos = unsafe { elements(array, count) }.into_iter().map(|info| Info {
            data: info.pPrivateDriverData,
            size: info.PrivateDriverDataSize,
            memory: pointer(&info.Anonymous1),
        });
        // SAFETY: as above, and the caller's private data have so many bytes.
        unsafe { create(args, &Vec::from_iter(infos), |at, handle| (*array.add(at)).hAllocation = handle) }
    }

    /// Creates allocations, by the struct of the time before GPU virtual addresses.
    D3DKMTCreateAllocation(args: wdk::D3DKMT_CREATEALLOCATION) {
        // SAFETY: the function is for this kind of the union.
        let (array, count) = (unsafe { args.Anonymous2.pAllocationInfo }, args.NumAllocations);
        // SAFETY: the array has so many elements.
        let infos = unsafe { elements(array, count) }.into_iter().map(|info| Info {
            data: info.pPrivateDriverData,
            size: info.PrivateDriverDataSize,
            memory: info.pSystemMem,
        });
        // SAFETY: as above, and the caller's private data have so many bytes.
        unsafe { create(args, &Vec::from_iter(infos), |at, handle| (*array.add(at)).hAllocation = handle) }
    }

    /// Destroys allocations, without flags.
    D3DKMTDestroyAllocation(args: wdk::D3DKMT_DESTROYALLOCATION) {
        // SAFETY: the array has so many elements.
        let allocations = unsafe { elements(args.phAllocationList, args.AllocationCount) };
        client::call(Call::DestroyAllocation { device: args.hDevice, resource: args.hResource, allocations, flags: 0 })
    }

    /// Changes the segments of an allocation.
    D3DKMTUpdateAllocationProperty(args: wdk::D3DDDI_UPDATEALLOCPROPERTY) {
        let set = bits(&args.Anonymous);
        if set & !(SET_SUPPORTED_SEGMENT_SET | SET_PREFERRED_SEGMENT) != 0 {
            return not_supported(format!("D3DKMTUpdateAllocationProperty of properties {set:#x}")).status.0;
        }
        let reply = client::call(Call::UpdateAllocationProperty {
            paging_queue: args.hPagingQueue,
            allocation: args.hAllocation,
            supported_segment_set: (set & SET_SUPPORTED_SEGMENT_SET != 0).then_some(args.SupportedSegmentSet),
            preferred_segments: (set & SET_PREFERRED_SEGMENT != 0).then(|| segments(bits(&args.PreferredSegment))),
        });
        args.PagingFenceValue = reply.value();
        reply
    }

    /// Lets the GPU see what the CPU has written, and the other way round.
    D3DKMTInvalidateCache(args: wdk::D3DKMT_INVALIDATECACHE) {
        let (offset, length) = (args.Offset as u64, args.Length as u64);
        client::call(Call::InvalidateCache { device: args.hDevice, allocation: args.hAllocation, offset, length })
    }

    /// Destroys allocations.
    D3DKMTDestroyAllocation2(args: wdk::D3DKMT_DESTROYALLOCATION2) {
        // SAFETY: the array has so many elements.
        let allocations = unsafe { elements(args.phAllocationList, args.AllocationCount) };
        let flags = bits(&args.Flags);
        let call = Call::DestroyAllocation { device: args.hDevice, resource: args.hResource, allocations, flags };
        client::call(call)
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
}
