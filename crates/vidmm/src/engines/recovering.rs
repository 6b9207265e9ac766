//! Engines that are asked to stop, and the reset of the adapter (section 6).
//!
//! An engine that does not come to an end with a packet is asked to yield; if it does not answer, it is reset; if that fails,
//! or does not help, the adapter is. The packets that the engines of one recovery give back are handed out again only when
//! all of them have answered: so no packet is left that waits for a fence which will never be signalled.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use crate::{
    contract::DmaBuffer,
    engines::engine::InFlight,
    event::{PreemptReason, error::DeviceErrorReason},
    units::Nanoseconds,
};

const MILLISECOND: Nanoseconds = 1_000_000;
const SECOND: Nanoseconds = 1000 * MILLISECOND;

/// How long things may take before they count as hung, in nanoseconds, and how often (6.4).
#[doc(alias = "TdrLevel")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TdrOptions {
    /// A packet that has run for so long is asked to yield its engine. Ours; 100 ms. The largest number means never: then
    /// nothing is found hung (TdrLevel 0).
    pub quantum: Nanoseconds,
    /// How long an engine may take to answer that: 2 s.
    #[doc(alias = "TdrDelay")]
    pub delay: Nanoseconds,
    /// How long the driver may take for a reset: 5 s.
    #[doc(alias = "TdrDdiDelay")]
    pub ddi_delay: Nanoseconds,
    /// How long engines that depend on one which is to be reset may take to yield (FLT-26): 500 ms.
    pub dependent_delay: Nanoseconds,
    /// How long a reset is remembered (FLT-31): 60 s.
    #[doc(alias = "TdrLimitTime")]
    pub limit_time: Nanoseconds,
    /// How many resets of the adapter may be remembered; one more stops it (FLT-31): 5. A process may cause one less engine
    /// timeouts, and loses the GPU with one more.
    #[doc(alias = "TdrLimitCount")]
    pub limit_count: u32,
}

impl Default for TdrOptions {
    fn default() -> Self {
        Self {
            quantum: 100 * MILLISECOND,
            delay: 2 * SECOND,
            ddi_delay: 5 * SECOND,
            dependent_delay: 500 * MILLISECOND,
            limit_time: 60 * SECOND,
            limit_count: 5,
        }
    }
}

/// The engines and the adapter, as far as they are being recovered.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// Engines that get nothing new until all of them have answered.
    pub engines: BTreeMap<u32, Phase>,
    /// Packets that they gave back.
    pub returned: Vec<Returned>,
    pub adapter: AdapterPhase,
    /// The last fence of the paging engine that work which was handed out waits for.
    pub awaited: u64,
    /// When the adapter was reset, as far as it is remembered.
    pub resets: VecDeque<Nanoseconds>,
    /// When the next time limit is over.
    pub due: Option<Nanoseconds>,
}

/// How far the recovery of an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It was asked to yield, and has until then.
    Preempting { until: Nanoseconds, reason: PreemptReason },
    /// It is to be reset, once the engines that depend on it have yielded: those that the driver names, a bit for each, once it was
    /// asked. `first` is the first packet that was under way.
    Condemned { reason: DeviceErrorReason, first: u64, dependents: Option<u64> },
    /// The driver resets it, and has until then.
    Resetting { reason: DeviceErrorReason, until: Nanoseconds },
    /// It has given back what it had.
    Answered,
}

/// A packet that an engine gave back.
#[derive(Debug)]
pub(crate) struct Returned {
    pub engine: u32,
    pub packet: InFlight,
    pub buffer: DmaBuffer,
}

/// Whether the adapter works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AdapterPhase {
    #[default]
    Working,
    /// The driver stops the GPU, and has until then (FLT-32).
    Resetting { until: Nanoseconds },
    /// It has; what was there is to be cleaned up.
    CleaningUp,
    /// The driver restarts the GPU, and has until then.
    Restarting { until: Nanoseconds },
}

impl Recovery {
    /// How far the recovery of an engine is, if it is being recovered. Nearly always none is.
    #[inline]
    pub fn phase(&self, engine: u32) -> Option<Phase> {
        if self.engines.is_empty() { None } else { self.engines.get(&engine).copied() }
    }

    /// Whether nothing may be handed to an engine, and nothing may be made to wait for it.
    #[inline]
    pub fn is_recovering(&self, engine: u32) -> bool {
        self.phase(engine).is_some()
    }

    /// Whether nothing is being recovered.
    pub fn is_over(&self) -> bool {
        self.engines.is_empty() && self.is_working()
    }

    /// Whether the adapter runs work.
    pub fn is_working(&self) -> bool {
        self.adapter == AdapterPhase::Working
    }

    /// Work that was handed out waits for a fence of the paging engine.
    pub fn await_paging(&mut self, fence_id: u64) {
        self.awaited = self.awaited.max(fence_id);
    }

    /// Nothing behind a fence of the paging engine is right: no work that was handed out waits for more.
    pub fn await_paging_at_most(&mut self, fence_id: u64) {
        self.awaited = self.awaited.min(fence_id);
    }

    /// No time limit matters.
    pub fn forget_due(&mut self) {
        self.due = None;
    }

    /// Time matters from then on.
    pub fn due_at(&mut self, time: Nanoseconds) {
        if time != Nanoseconds::MAX {
            self.due = Some(self.due.map_or(time, |due| due.min(time)));
        }
    }
}
