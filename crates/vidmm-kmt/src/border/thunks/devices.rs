//! Devices, paging queues, contexts, and notifications to trim.

use std::ffi::c_void;

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::{bits, fence_address, pointer};
use crate::border::client::{self, TrimCallback};
use crate::call::{Call, Reply};
use crate::status::Status;

thunks! {
    /// Creates a device.
    D3DKMTCreateDevice(args: wdk::D3DKMT_CREATEDEVICE) {
        // SAFETY: both kinds of the union begin with a handle of 32 bits on Linux.
        let reply = client::call(Call::CreateDevice { adapter: unsafe { args.Anonymous.hAdapter } });
        args.hDevice = reply.handle();
        reply
    }

    /// Destroys a device.
    D3DKMTDestroyDevice(args: wdk::D3DKMT_DESTROYDEVICE) {
        client::call(Call::DestroyDevice { device: args.hDevice })
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
        let flags = bits(&args.Flags);
        let reply = client::call(Call::CreateContext { device: args.hDevice, node_ordinal: args.NodeOrdinal, flags });
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
