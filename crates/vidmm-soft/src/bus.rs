//! The link between system memory and the device.

use vidmm::Nanoseconds;
use vidmm::contract::MemoryTransferDirection;

/// The link between system memory and the device, which engines share. Each direction carries the bytes of one command at a
/// time, in the order in which commands ask; a later command waits for the bytes before its own.
///
/// A kernel asks for its reads when the kernel begins, and for its writes when the kernel has computed. The writes flow
/// from the kernel's begin on, behind whatever the direction has carried by then.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bus {
    to_device_free_at: Nanoseconds,
    to_host_free_at: Nanoseconds,
}

impl Bus {
    /// Carries bytes that are there at `from` and keep a direction busy for `duration`. Returns the time of the last byte.
    /// Bytes that stay in local memory do not wait.
    pub fn carry(
        &mut self,
        direction: MemoryTransferDirection,
        from: Nanoseconds,
        duration: Nanoseconds,
    ) -> Nanoseconds {
        let free_at = match direction {
            MemoryTransferDirection::SystemToLocal => &mut self.to_device_free_at,
            MemoryTransferDirection::LocalToSystem => &mut self.to_host_free_at,
            MemoryTransferDirection::LocalToLocal => return from.saturating_add(duration),
        };
        if duration == 0 {
            return from;
        }
        *free_at = from.max(*free_at).saturating_add(duration);
        *free_at
    }

    /// An engine was stopped at `now`: nothing is left to carry. Commands that had waited for the bus keep their times.
    pub fn stop(&mut self, now: Nanoseconds) {
        self.to_device_free_at = self.to_device_free_at.min(now);
        self.to_host_free_at = self.to_host_free_at.min(now);
    }
}
