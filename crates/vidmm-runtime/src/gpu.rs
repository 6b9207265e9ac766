//! The GPU: executes bytes.

use std::ops::Range;

use vidmm::contract::{
    CpuVirtualAddress, DmaBuffer, EngineFence, KmdAllocationHandle, KmdProcessHandle, Packet, ResetEngineError,
    RestartError, ReturnedBuffers,
};
use vidmm::{GpuVirtualAddress, Nanoseconds, PhysicalAddress};

use crate::kernel::Content;
use crate::probe::Probe;
use crate::verifier::WrongEffect;

/// A GPU that executes DMA buffers, in virtual time or in its own.
///
/// An engine runs its packets in the order of [`submit`](Self::submit), each once all its waits are over; engines run
/// side by side. The GPU never calls back: it reports by events.
///
/// An engine whose packet faults stops, and keeps all buffers that it has, until it is reset.
pub trait Gpu {
    /// Hands `packet` to its engine at time `now`.
    fn submit(&mut self, now: Nanoseconds, packet: Packet);

    /// The time of the next event; `None` when nothing runs or everything waits.
    fn next_event_at(&self) -> Option<Nanoseconds>;

    /// Runs until `now`, or until a packet has ended, whichever is first, and appends the events, in order of time. It is
    /// called again as long as [`next_event_at`](Self::next_event_at) is not behind `now`. Between two calls nothing begins: a
    /// [`Verifier`](crate::Verifier) looks then.
    fn advance(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>);

    /// The digest of the bytes of one page of memory. In system memory these are the bytes that the CPU sees, in an
    /// aperture segment those of the page that is mapped there. `None` if there is no memory.
    fn page_digest(&self, address: PhysicalAddress) -> Option<u64>;

    /// Whether it caches translations of addresses, so that FLUSH_TLB has something to do.
    fn caches_translations(&self) -> bool {
        true
    }

    /// Whether it executes the commands that the driver encodes. A GPU that carries out operations as documented instead
    /// leaves the driver's effects unchecked, and reports must say so.
    fn executes_commands(&self) -> bool {
        true
    }

    /// Lets a verifier see what commands did; none if the GPU shows no more than [`page_digest`](Self::page_digest) does.
    fn probe(&self) -> Option<&dyn Probe> {
        None
    }

    /// Writes one page of memory as the CPU does, with the words of a kernel with `content` for `seed`. `false` if the
    /// CPU reaches no memory there.
    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        let _ = (address, content, seed);
        false
    }

    /// Takes the adapter's power: the content of its memory, its aperture's mappings and its caches are lost. No packet
    /// is under way.
    fn lose_power(&mut self) {}

    /// Asks `engine` to end the packet that it runs and to begin no other, then to give back the packets that it has
    /// not begun and to report [`Preempted`](GpuEvent::Preempted). An engine that runs nothing reports it at once, as
    /// an event of [`advance`](Self::advance). From then on it runs later packets.
    ///
    /// A GPU that cannot be preempted never answers, and neither does an engine that hangs or has stopped.
    #[doc(alias = "DxgkDdiPreemptCommand")]
    fn preempt(&mut self, now: Nanoseconds, engine: u32, preemption_fence_id: u64) {
        let _ = (now, engine, preemption_fence_id);
    }

    /// Asks `engine` to abort its packet, to give back all buffers that it has, and to report
    /// [`EngineReset`](GpuEvent::EngineReset). A request to preempt it is forgotten.
    ///
    /// A GPU whose engines cannot be reset one by one never answers.
    #[doc(alias = "DxgkDdiResetEngine")]
    fn reset_engine(&mut self, now: Nanoseconds, engine: u32) {
        let _ = (now, engine);
    }

    /// Asks all engines to stop and to give back all buffers; the content of local memory, the aperture and caches is
    /// lost. Reported as [`ResetFromTimeout`](GpuEvent::ResetFromTimeout). Each engine's fence is then that of the last
    /// packet submitted to it (FLT-25), and nothing runs until [`restart_from_timeout`](Self::restart_from_timeout).
    /// Earlier requests are not answered any more.
    ///
    /// A GPU that cannot be reset never answers.
    #[doc(alias = "DxgkDdiResetFromTimeout")]
    fn reset_from_timeout(&mut self, now: Nanoseconds) {
        let _ = now;
    }

    /// Asks the engines to run again, as reported by [`RestartedFromTimeout`](GpuEvent::RestartedFromTimeout).
    ///
    /// A GPU that cannot be reset never answers.
    #[doc(alias = "DxgkDdiRestartFromTimeout")]
    fn restart_from_timeout(&mut self, now: Nanoseconds) {
        let _ = now;
    }

    /// The bytes that commands of the driver decompressed so far; 0 for a GPU without compression.
    fn bytes_decompressed(&self) -> u64 {
        0
    }
}

/// The CPU's page tables: the memory behind the addresses that the host has handed out.
pub trait CpuView {
    /// The memory behind `address`; none if no memory is mapped there.
    fn shown(&self, address: CpuVirtualAddress) -> Option<PhysicalAddress>;
}

/// A CPU without mappings.
impl CpuView for () {
    fn shown(&self, _: CpuVirtualAddress) -> Option<PhysicalAddress> {
        None
    }
}

/// A GPU's reports.
#[derive(Debug)]
pub enum GpuEvent {
    /// A packet has ended; its buffer comes back.
    Completed {
        /// The fence that it signals.
        signal: EngineFence,
        /// The time at which it began to run: its waits were over and the engine was free.
        started_at: Nanoseconds,
        /// The time at which it ended.
        ended_at: Nanoseconds,
        /// Its buffer.
        buffer: DmaBuffer,
    },
    /// An interrupt that only the driver understands: the bytes of the GPU's status registers, for
    /// [`interrupt_routine`](vidmm::contract::Kmd::interrupt_routine). A packet that faulted stays with its engine,
    /// which has stopped.
    Interrupt {
        /// The bytes.
        status: Vec<u8>,
        /// The time.
        at: Nanoseconds,
    },
    /// An engine has ended its packet, and gives back the packets that it has not begun.
    #[doc(alias = "DXGK_INTERRUPT_DMA_PREEMPTED")]
    Preempted {
        /// The engine.
        engine: u32,
        /// The request that this answers.
        preemption_fence_id: u64,
        /// The last packet that has ended.
        last_completed_fence_id: u64,
        /// The packets that it has not begun.
        returned: ReturnedBuffers,
        /// The time.
        at: Nanoseconds,
    },
    /// An engine was reset, or could not be.
    EngineReset {
        /// The engine.
        engine: u32,
        /// The packet that was aborted, or the last that has ended if none was under way: LastAbortedFenceId (FLT-21, FLT-24).
        /// An engine that could not be reset keeps its packets.
        result: Result<u64, ResetEngineError>,
        /// All packets that it had and did not end, the aborted one included.
        returned: ReturnedBuffers,
        /// The time.
        at: Nanoseconds,
    },
    /// The adapter was reset and waits to be restarted.
    ResetFromTimeout {
        /// All packets that its engines had and did not end, engine by engine, oldest first.
        returned: Vec<(EngineFence, DmaBuffer)>,
        /// The time.
        at: Nanoseconds,
    },
    /// The adapter runs again, or could not be restarted.
    RestartedFromTimeout {
        /// The result.
        result: Result<(), RestartError>,
        /// The time.
        at: Nanoseconds,
    },
    /// A kernel has accessed a page that the host had unmapped from the IOMMU, through what the device had cached: the
    /// driver has not flushed that when it was notified (NTF-04).
    LateAccess {
        /// The kernel's number, as its command gave it.
        kernel: u64,
        /// The first such page.
        virtual_address: GpuVirtualAddress,
        /// Whether it was written.
        write: bool,
    },
    /// A command has made the GPU forget cached translations. Precedes the completion of its packet. Told for a verifier only: see
    /// [`Sees::FLUSHES`](crate::Sees::FLUSHES).
    Flushed {
        /// The process; none is all of them.
        process: Option<KmdProcessHandle>,
        /// The addresses; from 0 to 0 are all (U-20).
        addresses: Range<GpuVirtualAddress>,
    },
    /// A kernel has written pages that follow each other. Precedes the completion of its packet. Told for a verifier only: a
    /// program that uses what it has not made resident may write what a paging operation moves or fills (RES-20).
    KernelWrote {
        /// The first page: never in an aperture, but in the memory that the aperture shows.
        address: PhysicalAddress,
        /// How many pages of 4 KiB.
        num_pages: u64,
        /// The allocation that they are compressed pages of, and the number of the first among its pages; none if they are plain.
        compressed: Option<(KmdAllocationHandle, u64)>,
    },
    /// A kernel has taken longer than the kernel computes, because of its accesses to system memory. Precedes the
    /// completion of its packet.
    AccessedOverBus {
        /// The kernel's number, as its command gave it.
        kernel: u64,
        /// The bytes in system memory of each input.
        read: Vec<u64>,
        /// The bytes in system memory of each output.
        written: Vec<u64>,
        /// How much longer it took.
        lost_ns: Nanoseconds,
    },
    /// A verifier has found that a driver's commands have not the documented effect.
    WrongEffect(Box<WrongEffect>),
    /// A kernel has read its inputs. Precedes the completion of its packet; an oracle judges the digests.
    KernelRead {
        /// The kernel's number, as its command gave it.
        kernel: u64,
        /// For each input, the digest of each of its pages, in order.
        inputs: Vec<Vec<u64>>,
    },
}

impl GpuEvent {
    /// The time at which it happened, by the GPU's clock; none of what no engine reports.
    pub fn occurred_at(&self) -> Option<Nanoseconds> {
        match *self {
            Self::Completed { ended_at: at, .. }
            | Self::Interrupt { at, .. }
            | Self::Preempted { at, .. }
            | Self::EngineReset { at, .. }
            | Self::ResetFromTimeout { at, .. }
            | Self::RestartedFromTimeout { at, .. } => Some(at),
            Self::KernelRead { .. }
            | Self::KernelWrote { .. }
            | Self::AccessedOverBus { .. }
            | Self::LateAccess { .. }
            | Self::Flushed { .. }
            | Self::WrongEffect(_) => None,
        }
    }
}
