//! Allocations: created, destroyed, locked, offered.

use std::ffi::c_void;

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::sharing::private_data_of;
use super::{bits, elements, pointer};
use crate::border::{blobs, client};
use crate::call::{Call, Reply};
use crate::status::Status;

/// `D3DKMT_CREATEALLOCATIONFLAGS`: a resource is created.
const CREATE_RESOURCE: u32 = 1 << 0;

/// Others may open the resource, and do so by a descriptor and not by a handle that all have in common (CRE-41).
const CREATE_SHARED: u32 = 1 << 1;
const NT_SECURITY_SHARING: u32 = 1 << 6;

thunks! {
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
        let flags = bits(&args.Flags);
        let (creates_resource, is_shared) = (flags & CREATE_RESOURCE != 0, flags & CREATE_SHARED != 0);
        let (device, resource) = (args.hDevice, args.hResource);
        let reply = client::call(Call::CreateAllocation { device, resource, creates_resource, is_shared, allocations });
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
            if is_shared {
                // SAFETY: the kinds of the union are one pointer; the caller's private data have so many bytes.
                let private = unsafe { private_data_of(args, &infos) };
                client::with(|client| client.share(resource, private));
                args.hGlobalShare = if flags & NT_SECURITY_SHARING == 0 { resource } else { 0 };
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
