//! The GPU: executes bytes.

use vidmm::contract::{CpuVirtualAddress, DmaBuffer, EngineFence, Packet};
use vidmm::{GpuVirtualAddress, Nanoseconds, PhysicalAddress};

use crate::kernel::Content;

/// A GPU that executes DMA buffers, in virtual time or in its own.
///
/// An engine runs its packets in the order of [`submit`](Self::submit), each once all its waits are over; engines run side by
/// side. The GPU never calls back: what it has to say are events.
pub trait Gpu {
    /// Hands `packet` to its engine at time `now`.
    fn submit(&mut self, now: Nanoseconds, packet: Packet);

    /// When the next event is due; `None` when nothing runs or everything waits.
    fn next_event_at(&self) -> Option<Nanoseconds>;

    /// Runs until `now` and appends what happened, in order of time.
    fn advance(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>);

    /// The digest of the bytes of one page as they are in memory: in system memory what the CPU sees, in an aperture
    /// segment what the page shows at present. `None` if nothing is there.
    fn page_digest(&self, address: PhysicalAddress) -> Option<u64>;

    /// Writes one page of memory as the CPU does: what a kernel with `content` writes for `seed`. `false` if the CPU reaches
    /// nothing there.
    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        let _ = (address, content, seed);
        false
    }

    /// The adapter loses its power: nothing of its own memory, of what the aperture shows and of what it caches remains. No
    /// packet is under way.
    fn lose_power(&mut self) {}

    /// Bytes that commands of the driver decompressed so far; 0 for a GPU without compression.
    fn bytes_decompressed(&self) -> u64 {
        0
    }
}

/// The CPU's page tables: what the addresses show that the host has handed out.
pub trait CpuView {
    /// The memory behind `address`; none if nothing is shown there.
    fn shown(&self, address: CpuVirtualAddress) -> Option<PhysicalAddress>;
}

/// A CPU that is shown nothing.
impl CpuView for () {
    fn shown(&self, _: CpuVirtualAddress) -> Option<PhysicalAddress> {
        None
    }
}

/// What a GPU reports.
#[derive(Debug)]
pub enum GpuEvent {
    /// A packet has ended; its buffer comes back.
    Completed {
        /// What it signals.
        signal: EngineFence,
        /// When it began to run: its waits were over and the engine was free.
        started_at: Nanoseconds,
        /// When it ended.
        ended_at: Nanoseconds,
        /// Its buffer.
        buffer: DmaBuffer,
    },
    /// A packet accessed an address that nothing is mapped at; it has been aborted and its engine was reset.
    PageFault {
        /// The packet that faulted.
        signal: EngineFence,
        /// The address.
        virtual_address: GpuVirtualAddress,
        /// Whether it was a write.
        write: bool,
        /// Its buffer.
        buffer: DmaBuffer,
        /// When.
        at: Nanoseconds,
    },
    /// A packet holds a command that means nothing to the GPU; it has been aborted and its engine was reset.
    IllegalCommand {
        /// The packet.
        signal: EngineFence,
        /// Its buffer.
        buffer: DmaBuffer,
        /// When.
        at: Nanoseconds,
    },
    /// A kernel has read its inputs. Precedes the completion of its packet, and is what an oracle judges.
    KernelRead {
        /// The kernel's number, as its command gave it.
        kernel: u64,
        /// For each input, the digest of each of its pages, in order.
        inputs: Vec<Vec<u64>>,
    },
}
