//! The synchronization objects of the time before monitored fences: semaphores and mutexes.

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::not_supported;
use crate::border::client;
use crate::call::{Call, Reply};
use crate::status::Status;

/// `D3DDDI_SYNCHRONIZATION_MUTEX` and `D3DDDI_SEMAPHORE`.
const MUTEX: i32 = 1;
const SEMAPHORE: i32 = 2;

thunks! {
    /// Creates a semaphore or a mutex.
    D3DKMTCreateSynchronizationObject(args: wdk::D3DKMT_CREATESYNCHRONIZATIONOBJECT) {
        // SAFETY: the type says which kind of the union this is.
        let initial_count = unsafe {
            match args.Info.Type {
                MUTEX => u64::from(args.Info.Anonymous.SynchronizationMutex.InitialState == 0),
                SEMAPHORE => u64::from(args.Info.Anonymous.Semaphore.InitialCount),
                kind => {
                    return not_supported(format!("D3DKMTCreateSynchronizationObject of type {kind}")).status.0;
                }
            }
        };
        let reply = client::call(Call::CreateSemaphore { device: args.hDevice, initial_count });
        args.hSyncObject = reply.handle();
        reply
    }

    /// Signals semaphores behind a context's work.
    D3DKMTSignalSynchronizationObject(args: wdk::D3DKMT_SIGNALSYNCHRONIZATIONOBJECT) {
        let semaphores = args.ObjectHandleArray.iter().take(args.ObjectCount as usize).copied().collect();
        client::call(Call::SignalSemaphores { context: args.hContext, semaphores })
    }

    /// Lets a context's next work wait for semaphores.
    D3DKMTWaitForSynchronizationObject(args: wdk::D3DKMT_WAITFORSYNCHRONIZATIONOBJECT) {
        let semaphores = args.ObjectHandleArray.iter().take(args.ObjectCount as usize).copied().collect();
        client::call(Call::WaitForSemaphores { context: args.hContext, semaphores })
    }
}
