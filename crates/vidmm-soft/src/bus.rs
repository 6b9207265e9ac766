//! The link between system memory and the device.

use vidmm::Nanoseconds;
use vidmm::contract::MemoryTransferDirection;

/// The link between system memory and the device, for all engines together. Each direction carries the bytes of one command
/// at a time, first come, first served.
///
/// A kernel asks for the reads at the kernel's start, and for the writes at the end of the computation. The writes flow from
/// the kernel's start on, behind all bytes before the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bus {
    to_device_free_at: Nanoseconds,
    to_host_free_at: Nanoseconds,
}

impl Bus {
    /// Carries bytes from `from` on, in `duration` without other traffic. Returns the time of the last byte.
    /// Bytes of local memory do not wait.
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
