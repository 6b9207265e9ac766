//! Hardware queues.

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::{elements, fence_address, fences, not_supported};
use crate::border::client;
use crate::call::{Call, Reply};
use crate::status::Status;

thunks! {
    /// Creates a hardware queue with a progress fence.
    D3DKMTCreateHwQueue(args: wdk::D3DKMT_CREATEHWQUEUE) {
        let reply = client::call(Call::CreateHwQueue { context: args.hHwContext });
        if let [queue, fence] = reply.handles[..] {
            (args.hHwQueue, args.hHwQueueProgressFence) = (queue, fence);
            args.HwQueueProgressFenceCPUVirtualAddress = fence_address(reply.value());
            args.HwQueueProgressFenceGPUVirtualAddress = reply.address;
        }
        reply
    }

    /// Destroys a hardware queue and the progress fence.
    D3DKMTDestroyHwQueue(args: wdk::D3DKMT_DESTROYHWQUEUE) {
        client::call(Call::DestroyHwQueue { hw_queue: args.hHwQueue })
    }

    /// Queues work.
    D3DKMTSubmitCommandToHwQueue(args: wdk::D3DKMT_SUBMITCOMMANDTOHWQUEUE) {
        client::call(Call::SubmitCommandToHwQueue {
            hw_queue: args.hHwQueue,
            commands: args.CommandBuffer,
            progress_fence_value: args.HwQueueProgressFenceId,
        })
    }

    /// Lets a queue's next work wait for fences.
    D3DKMTSubmitWaitForSyncObjectsToHwQueue(args: wdk::D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE) {
        // SAFETY: both arrays have so many elements.
        let fences = unsafe { fences(args.ObjectHandleArray, args.FenceValueArray, args.ObjectCount) };
        client::call(Call::SubmitWaitForSyncObjectsToHwQueue { hw_queue: args.hHwQueue, fences })
    }

    /// Signals fences behind a queue's work.
    D3DKMTSubmitSignalSyncObjectsToHwQueue(args: wdk::D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE) {
        // SAFETY: both arrays have so many elements.
        let fences = unsafe { fences(args.ObjectHandleArray, args.FenceValueArray, args.ObjectCount) };
        // SAFETY: as above.
        let queues = unsafe { elements(args.BroadcastHwQueueArray, args.BroadcastHwQueueCount) };
        match queues[..] {
            [hw_queue] => client::call(Call::SubmitSignalSyncObjectsToHwQueue { hw_queue, fences }),
            _ => not_supported(format!("D3DKMTSubmitSignalSyncObjectsToHwQueue of {} queues", queues.len())),
        }
    }
}
