//! Semaphores: the synchronization objects of the time before monitored fences.

use vidmm::{CreateMonitoredFenceDesc, FenceValueDesc};

use super::invalid;
use crate::call::Reply;
use crate::objects::{Context, Device, Object, Semaphore};
use crate::session::{Answer, Session};

impl Session {
    pub(super) fn create_semaphore(&mut self, device: u32, initial_count: u64) -> Answer {
        let of = self.object::<Device>(device)?.id;
        let desc = CreateMonitoredFenceDesc { device: Some(of), initial_fence_value: initial_count };
        let id = self.runtime.vidmm().create_monitored_fence(desc).map_err(invalid)?;
        let semaphore = Semaphore { device, id, signalled: initial_count, waited: 0 };
        Ok(Reply::created([self.insert(Object::Semaphore(semaphore))]))
    }

    /// The end of the context's work so far signals each semaphore once.
    pub(super) fn signal_semaphores(&mut self, context: u32, semaphores: &[u32]) -> Answer {
        let mut signals = Vec::new();
        for &handle in semaphores {
            let semaphore = self.object::<Semaphore>(handle)?;
            semaphore.signalled += 1;
            signals.push(FenceValueDesc { fence: semaphore.id, value: semaphore.signalled });
        }
        self.queue(context, Vec::new(), signals)
    }

    /// The context's next work takes one signal of each semaphore.
    pub(super) fn wait_for_semaphores(&mut self, context: u32, semaphores: &[u32]) -> Answer {
        for &handle in semaphores {
            let semaphore = self.object::<Semaphore>(handle)?;
            semaphore.waited += 1;
            let wait = FenceValueDesc { fence: semaphore.id, value: semaphore.waited };
            self.object::<Context>(context)?.waits.push(wait);
        }
        Ok(Reply::default())
    }
}
