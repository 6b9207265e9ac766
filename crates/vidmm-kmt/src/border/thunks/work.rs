//! Submissions, monitored fences and waits.

use std::time::{Duration, Instant};

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::{bits, elements, fence_address, fences, not_supported, pointer};
use crate::border::{blobs, client};
use crate::call::{Call, FenceValue, Reply};
use crate::status::Status;

/// A wait that nothing is to end goes on for so long in real time: another thread may still make a call.
const REAL_PATIENCE: Duration = Duration::from_secs(2);

/// `D3DDDI_MONITORED_FENCE`.
const MONITORED_FENCE: i32 = 5;

/// `D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS`: other devices may open the object.
const SHARED: u32 = 1 << 0;

/// `D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS`: one of the fences is enough.
const WAIT_ANY: u32 = 1 << 0;

thunks! {
    /// Queues work.
    D3DKMTSubmitCommand(args: wdk::D3DKMT_SUBMITCOMMAND) {
        if args.BroadcastContextCount != 1 {
            return not_supported(format!("D3DKMTSubmitCommand to {} contexts", args.BroadcastContextCount)).status.0;
        }
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
            return not_supported(format!("D3DKMTCreateSynchronizationObject2 of type {}", args.Info.Type)).status.0;
        }
        // SAFETY: the type says which kind of the union this is.
        let initial_value = unsafe { args.Info.Anonymous.MonitoredFence.InitialFenceValue };
        let is_shared = bits(&args.Info.Flags) & SHARED != 0;
        let reply = client::call(Call::CreateMonitoredFence { device: args.hDevice, initial_value, is_shared });
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
        match contexts[..] {
            [context] => client::call(Call::SignalFromGpu { context, fences }),
            _ => not_supported(format!("D3DKMTSignalSynchronizationObjectFromGpu2 of {} contexts", contexts.len())),
        }
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
            let call = Call::SignalEventFromFences { device: args.hDevice, fences: fences.clone(), any };
            let reply = client::call(call);
            if reply.status.is_success() {
                client::with(|client| client.signal_event(event, fences, any));
            }
            return reply.status.0;
        }
        wait(args.hDevice, fences, any)
    }
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
