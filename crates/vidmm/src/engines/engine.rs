//! An engine, seen from the host: what was handed to it and has not come back.

use alloc::{collections::VecDeque, vec::Vec};

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
    /// Packets under way, oldest first: an engine runs them in this order.
    pub in_flight: VecDeque<InFlight>,
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
    /// Notes a packet that is handed to it. Returns its fence.
    pub fn push(&mut self, waits: Vec<EngineFence>, work: PacketWork) -> u64 {
        self.submitted += 1;
        self.in_flight.push_back(InFlight { fence_id: self.submitted, waits, work });
        self.submitted
    }

    /// Whether a packet is under way.
    #[inline]
    pub fn has(&self, fence_id: u64) -> bool {
        self.in_flight.iter().any(|packet| packet.fence_id == fence_id)
    }

    /// Whether a paging buffer is under way that signals `fence_id`.
    pub fn has_paging(&self, fence_id: u64) -> bool {
        let is_paging = |packet: &InFlight| matches!(packet.work, PacketWork::Paging { .. });
        self.in_flight.iter().any(|packet| packet.fence_id == fence_id && is_paging(packet))
    }

    /// Takes the oldest packet out, if its fence is at most `fence_id`.
    pub fn pop_up_to(&mut self, fence_id: u64) -> Option<InFlight> {
        self.in_flight.front().filter(|packet| packet.fence_id <= fence_id)?;
        let packet = self.in_flight.pop_front()?;
        self.retired = packet.fence_id;
        self.running_since = None;
        Some(packet)
    }
}
