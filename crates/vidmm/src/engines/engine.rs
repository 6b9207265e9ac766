//! An engine, seen from the host: what was handed to it and has not come back.

use alloc::{
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};

use crate::{
    contract::{EngineFence, KmdAllocationHandle},
    id::{ContextIx, SubmissionNo},
    objects::submission::FenceValueDesc,
    units::Nanoseconds,
};

/// An engine.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    /// The fence of the last packet handed to it.
    pub submitted: u64,
    /// The fence of the last packet that ended.
    pub retired: u64,
    /// Packets under way, oldest first: an engine runs them in this order. Their fences ascend.
    in_flight: VecDeque<InFlight>,
    /// Each awaited fence, and the fence of the waiting packet.
    waits: BTreeSet<(EngineFence, u64)>,
    /// Since when the first of them has had nothing to wait for but the engine.
    pub running_since: Option<Nanoseconds>,
    /// The fence of the last request to preempt it.
    pub preemption_fence_id: u64,
    /// The fence of the last one that it has answered, or that a reset has made void.
    pub last_answered: u64,
}

/// A packet under way.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub fence_id: u64,
    /// The fences that it waits for on the GPU.
    pub waits: Vec<EngineFence>,
    pub work: PacketWork,
}

/// The work of a packet.
#[derive(Debug)]
pub(crate) enum PacketWork {
    /// A paging buffer, and the allocations that its operations name.
    Paging { allocations: Vec<KmdAllocationHandle> },
    /// A submission of a context.
    User {
        context: ContextIx,
        submission: SubmissionNo,
        signals: Vec<FenceValueDesc>,
        /// Of a portion, its first byte in the DMA buffer and the first that is not in it.
        offsets: Option<(u32, u32)>,
    },
}

impl Engine {
    /// The packets under way, oldest first.
    #[inline]
    pub fn in_flight(&self) -> &VecDeque<InFlight> {
        &self.in_flight
    }

    /// Notes a packet that is handed to it. Returns its fence.
    pub fn push(&mut self, waits: Vec<EngineFence>, work: PacketWork) -> u64 {
        self.submitted += 1;
        self.push_again(InFlight { fence_id: self.submitted, waits, work });
        self.submitted
    }

    /// Notes a packet that is handed out again.
    pub fn push_again(&mut self, packet: InFlight) {
        debug_assert!(self.in_flight.back().is_none_or(|last| last.fence_id < packet.fence_id), "fences ascend");
        self.waits.extend(packet.waits.iter().map(|&wait| (wait, packet.fence_id)));
        self.in_flight.push_back(packet);
    }

    fn place(&self, fence_id: u64) -> Option<usize> {
        self.in_flight.binary_search_by_key(&fence_id, |packet| packet.fence_id).ok()
    }

    /// Whether a packet is under way.
    #[inline]
    pub fn has(&self, fence_id: u64) -> bool {
        self.place(fence_id).is_some()
    }

    /// Whether a paging buffer is under way that signals `fence_id`.
    pub fn has_paging(&self, fence_id: u64) -> bool {
        let is_paging = |at: usize| matches!(self.in_flight[at].work, PacketWork::Paging { .. });
        self.place(fence_id).is_some_and(is_paging)
    }

    /// Packets under way with a wait for the fence `from` or a later fence of the same engine, and the awaited fence; the latest fence first.
    #[inline]
    pub fn waiting(&self, from: EngineFence) -> impl Iterator<Item = (u64, &InFlight)> {
        let last = EngineFence { fence_id: u64::MAX, ..from };
        // Nearly always empty.
        let waits = (!self.waits.is_empty()).then(|| self.waits.range((from, 0)..=(last, u64::MAX)).rev());
        waits.into_iter().flatten().map(|&(wait, fence_id)| {
            let at = self.place(fence_id).expect("who waits is under way");
            (wait.fence_id, &self.in_flight[at])
        })
    }

    /// Takes the oldest packet out, if its fence is at most `fence_id`.
    pub fn pop_up_to(&mut self, fence_id: u64) -> Option<InFlight> {
        self.in_flight.front().filter(|packet| packet.fence_id <= fence_id)?;
        let packet = self.in_flight.pop_front()?;
        self.retired = packet.fence_id;
        self.has_left(&packet);
        Some(packet)
    }

    /// Takes out an ended or returned packet.
    pub fn take(&mut self, fence_id: u64) -> Option<InFlight> {
        let packet = self.in_flight.remove(self.place(fence_id)?)?;
        self.has_left(&packet);
        Some(packet)
    }

    /// Nothing is under way any more, and no answer is outstanding.
    pub fn end_all(&mut self) {
        self.retired = self.submitted;
        self.answer(self.preemption_fence_id);
    }

    /// The engine has answered a request to preempt, or a reset has made the request void.
    pub fn answer(&mut self, preemption_fence_id: u64) {
        self.last_answered = preemption_fence_id;
    }

    /// The first packet waits for other engines.
    pub fn wait(&mut self) {
        self.running_since = None;
    }

    /// The first packet runs. Returns the time since when.
    pub fn run(&mut self, now: Nanoseconds) -> Nanoseconds {
        *self.running_since.get_or_insert(now)
    }

    fn has_left(&mut self, packet: &InFlight) {
        packet.waits.iter().for_each(|&wait| _ = self.waits.remove(&(wait, packet.fence_id)));
        self.wait();
    }
}
