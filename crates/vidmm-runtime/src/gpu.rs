//! The GPU: executes bytes.

use vidmm::contract::{
    CpuVirtualAddress, DmaBuffer, EngineFence, Packet, ResetEngineError, RestartError, ReturnedBuffers,
};
use vidmm::{Nanoseconds, PhysicalAddress};

use crate::kernel::Content;

/// A GPU that executes DMA buffers, in virtual time or in its own.
///
/// An engine runs its packets in the order of [`submit`](Self::submit), each once all its waits are over; engines run side by
/// side. The GPU never calls back: what it has to say are events.
///
/// An engine whose packet faults stops, and keeps all buffers that it has, until it is reset.
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

    /// `engine` is to end the packet that it runs and to begin no other, then to give back what it has not begun and to report
    /// [`Preempted`](GpuEvent::Preempted). An engine that runs nothing reports it at once, as an event of
    /// [`advance`](Self::advance). From then on it runs what is submitted.
    ///
    /// A GPU that cannot be preempted never answers, and neither does an engine that hangs or has stopped.
    #[doc(alias = "DxgkDdiPreemptCommand")]
    fn preempt(&mut self, now: Nanoseconds, engine: u32, preemption_fence_id: u64) {
        let _ = (now, engine, preemption_fence_id);
    }

    /// `engine` is to abort what it runs, to give back all buffers that it has, and to report
    /// [`EngineReset`](GpuEvent::EngineReset). A request to preempt it is forgotten.
    ///
    /// A GPU whose engines cannot be reset one by one never answers.
    #[doc(alias = "DxgkDdiResetEngine")]
    fn reset_engine(&mut self, now: Nanoseconds, engine: u32) {
        let _ = (now, engine);
    }

    /// All engines are to stop and to give back all buffers; what local memory, the aperture and caches hold is lost. Reported
    /// as [`ResetFromTimeout`](GpuEvent::ResetFromTimeout). Each engine's fence is then that of the last packet submitted to it
    /// (FLT-25), and nothing runs until [`restart_from_timeout`](Self::restart_from_timeout). Answers to earlier requests do
    /// not come any more.
    ///
    /// A GPU that cannot be reset never answers.
    #[doc(alias = "DxgkDdiResetFromTimeout")]
    fn reset_from_timeout(&mut self, now: Nanoseconds) {
        let _ = now;
    }

    /// The engines are to run again, as reported by [`RestartedFromTimeout`](GpuEvent::RestartedFromTimeout).
    ///
    /// A GPU that cannot be reset never answers.
    #[doc(alias = "DxgkDdiRestartFromTimeout")]
    fn restart_from_timeout(&mut self, now: Nanoseconds) {
        let _ = now;
    }

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

/// A GPU's reports.
#[derive(Debug)]
pub enum GpuEvent {
    /// A packet has ended; its buffer comes back.
    Completed {
        /// The fence that it signals.
        signal: EngineFence,
        /// When it began to run: its waits were over and the engine was free.
        started_at: Nanoseconds,
        /// When it ended.
        ended_at: Nanoseconds,
        /// Its buffer.
        buffer: DmaBuffer,
    },
    /// The GPU has something to say that only its driver understands: the bytes of its status registers, for
    /// [`interrupt_routine`](vidmm::contract::Kmd::interrupt_routine). A packet that faulted stays with its engine, which has
    /// stopped.
    Interrupt {
        /// The bytes.
        status: Vec<u8>,
        /// When.
        at: Nanoseconds,
    },
    /// An engine has ended what it ran, and gives back what it has not begun.
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
        /// When.
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
        /// When.
        at: Nanoseconds,
    },
    /// The adapter was reset and waits to be restarted.
    ResetFromTimeout {
        /// All packets that its engines had and did not end, engine by engine, oldest first.
        returned: Vec<(EngineFence, DmaBuffer)>,
        /// When.
        at: Nanoseconds,
    },
    /// The adapter runs again, or could not be restarted.
    RestartedFromTimeout {
        /// Which of both.
        result: Result<(), RestartError>,
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
