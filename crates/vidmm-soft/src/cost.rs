//! How long the model GPU takes.

use vidmm::Nanoseconds;
use vidmm::contract::MemoryTransferDirection;
use vidmm_runtime::mixed;

use crate::encoding::{Command, Work};

/// The cost of commands in virtual time. Kernels bring their own duration: that of a kernel with all memory at hand.
///
/// Engines compete for the [bus](crate::Bus) alone. A kernel accesses system memory over the bus while the kernel computes, and
/// ends when both are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CostModel {
    /// Bytes a second from system to local memory.
    pub bus_to_device_bytes_per_second: u64,
    /// Bytes a second from local to system memory.
    pub bus_to_host_bytes_per_second: u64,
    /// Bytes a second at which kernels read system memory; none is at no cost, as where CPU and GPU share one memory.
    pub kernel_read_bytes_per_second: Option<u64>,
    /// Bytes a second at which kernels write system memory; none is at no cost.
    pub kernel_write_bytes_per_second: Option<u64>,
    /// Bytes a second of copies inside local memory, and of fills.
    pub local_bytes_per_second: u64,
    /// Nanoseconds before the first command of a packet.
    pub packet_nanoseconds: u64,
    /// From what it is drawn how much longer each packet takes before its first command, up to 64 times as long; none is never.
    pub latency_seed: Option<u64>,
    /// Nanoseconds that every command takes, whatever else it costs.
    pub command_nanoseconds: u64,
    /// Picoseconds for each entry of a page table or of the aperture.
    pub pte_picoseconds: u64,
    /// Nanoseconds of a flush.
    pub flush_nanoseconds: u64,
    /// Bytes a second that are made plain, wherever they are.
    pub decompress_bytes_per_second: u64,
    /// Nanoseconds of a reset of an engine, of a reset of the adapter, and of its restart.
    pub reset_nanoseconds: u64,
}

impl Default for CostModel {
    /// A GPU on 16 lanes of PCIe 4.
    fn default() -> Self {
        Self {
            bus_to_device_bytes_per_second: 25_000_000_000,
            bus_to_host_bytes_per_second: 25_000_000_000,
            kernel_read_bytes_per_second: Some(25_000_000_000),
            kernel_write_bytes_per_second: Some(25_000_000_000),
            local_bytes_per_second: 800_000_000_000,
            packet_nanoseconds: 2_000,
            latency_seed: None,
            command_nanoseconds: 200,
            pte_picoseconds: 500,
            flush_nanoseconds: 500,
            decompress_bytes_per_second: 25_000_000_000,
            reset_nanoseconds: 1_000_000,
        }
    }
}

impl CostModel {
    /// How long the `nth` packet that `engine` begins takes before its first command.
    pub fn packet_latency(&self, engine: u32, nth: u64) -> Nanoseconds {
        let more = self.latency_seed.map_or(0, |seed| {
            let drawn = mixed(mixed(seed) ^ mixed(u64::from(engine) << 48 ^ nth));
            // Half of the packets are hardly late, so that an engine can overtake another by many of them.
            if drawn & 1 == 0 { 0 } else { (drawn >> 1) % (64 * self.packet_nanoseconds).max(1) }
        });
        self.packet_nanoseconds.saturating_add(more)
    }

    /// How long a kernel needs the bus to read `bytes` of system memory. The time is rounded down: a kernel that takes the time of its
    /// bytes anyway, such as an upload, loses nothing.
    pub fn kernel_read(&self, bytes: u64) -> Nanoseconds {
        self.kernel_read_bytes_per_second.map_or(0, |rate| rounded_down(bytes, rate))
    }

    /// How long a kernel needs the bus to write `bytes` of system memory.
    pub fn kernel_write(&self, bytes: u64) -> Nanoseconds {
        self.kernel_write_bytes_per_second.map_or(0, |rate| rounded_down(bytes, rate))
    }

    /// How long `command` takes with the bus to itself, and without the accesses of a kernel to system memory.
    pub fn duration(&self, command: &Command) -> Nanoseconds {
        let own = match command.work() {
            Work::Nothing => 0,
            Work::Transfer { bytes, direction } => at_rate(bytes, self.bandwidth(direction)),
            Work::Fill { bytes } => at_rate(bytes, self.local_bytes_per_second),
            Work::Entries(count) => count.saturating_mul(self.pte_picoseconds).div_ceil(1_000),
            Work::Decompress { bytes } => at_rate(bytes, self.decompress_bytes_per_second),
            Work::Flush => self.flush_nanoseconds,
            Work::Kernel(nanoseconds) => nanoseconds,
        };
        self.command_nanoseconds.saturating_add(own)
    }

    fn bandwidth(&self, direction: MemoryTransferDirection) -> u64 {
        match direction {
            MemoryTransferDirection::LocalToSystem => self.bus_to_host_bytes_per_second,
            MemoryTransferDirection::SystemToLocal => self.bus_to_device_bytes_per_second,
            MemoryTransferDirection::LocalToLocal => self.local_bytes_per_second,
        }
    }
}

/// How long `bytes` take at `rate` bytes a second, rounded up. A rate of 0 counts as 1.
fn at_rate(bytes: u64, rate: u64) -> Nanoseconds {
    let nanoseconds = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

/// The same, rounded down.
fn rounded_down(bytes: u64, rate: u64) -> Nanoseconds {
    let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::CostModel;

    #[test]
    fn latencies_follow_from_the_seed_alone() {
        let drawn = |seed| {
            let cost = CostModel { latency_seed: seed, ..CostModel::default() };
            (0..3).flat_map(|engine| (1..50).map(move |nth| cost.packet_latency(engine, nth))).collect::<Vec<_>>()
        };
        assert!(drawn(None).iter().all(|&latency| latency == 2_000), "without a seed all are alike");
        assert_eq!(drawn(Some(7)), drawn(Some(7)));
        assert_ne!(drawn(Some(7)), drawn(Some(8)));
        let longest = drawn(Some(7)).into_iter().max().unwrap_or(0);
        assert!(drawn(Some(7)).contains(&2_000) && (64_000..=130_000).contains(&longest), "{longest}");
    }
}
