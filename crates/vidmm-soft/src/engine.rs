//! One engine: its queue, and where it is in the packet that it runs.

use std::collections::VecDeque;

use vidmm::Nanoseconds;
use vidmm::contract::{DmaBuffer, EngineFence, Packet};

use crate::device::Begun;
use crate::encoding::{Command, DecodeError, Decoder};
use crate::faults::Mishap;
use crate::translation::AddressSpace;

/// When something happens that never does.
pub const NEVER: Nanoseconds = Nanoseconds::MAX;

/// An engine. An engine runs packets in the order of their submissions, each once the packet's waits are over.
#[derive(Debug)]
pub struct Engine<H> {
    queue: VecDeque<Queued>,
    /// Its activity, and when that ends.
    pub state: State<H>,
    /// The address space of its commands. It outlives the packet that set it.
    pub space: Option<AddressSpace>,
    /// The last fence that it has signalled.
    pub completed_fence: u64,
    /// Whether only a reset of the adapter helps: a reset of the engine has lied.
    pub is_dead: bool,
    submitted_fence: u64,
    /// How many packets have begun.
    pub num_begun: u64,
    free_since: Nanoseconds,
    preemption: Option<Preemption>,
}

#[derive(Debug)]
struct Queued {
    packet: Packet,
    submitted_at: Nanoseconds,
}

/// A request to give back what has not begun.
#[derive(Clone, Copy, Debug)]
struct Preemption {
    fence_id: u64,
    requested_at: Nanoseconds,
}

/// An engine's activity.
#[derive(Debug, Default)]
pub enum State<H> {
    /// Nothing: there is no packet, or it waits.
    #[default]
    Idle,
    /// The first packet of the queue begins at this time.
    Starting(Nanoseconds),
    /// The packet gets ready; its first command begins at `until`.
    Preparing {
        /// The packet.
        running: Box<Running>,
        /// When its first command begins.
        until: Nanoseconds,
    },
    /// A command is under way; it ends at `until`.
    Executing {
        /// The packet.
        running: Box<Running>,
        /// The command, half done.
        begun: Begun<H>,
        /// When it began.
        began_at: Nanoseconds,
        /// When it ends; [`NEVER`] if it hangs.
        until: Nanoseconds,
    },
    /// A packet has faulted; only a reset helps.
    Stopped(Packet),
    /// The engine is being reset until `until`.
    Resetting {
        /// The packet that was under way.
        aborted: Option<Packet>,
        /// When it is done.
        until: Nanoseconds,
    },
}

/// A packet under way.
#[derive(Debug)]
pub struct Running {
    /// The packet.
    pub packet: Packet,
    /// The rest of its commands.
    pub commands: VecDeque<Result<Command, DecodeError>>,
    /// The earliest possible begin. Of a packet with waits for fences, the begin.
    pub ready_at: Nanoseconds,
    /// When it began.
    pub started_at: Nanoseconds,
    /// The fault that befalls it.
    pub mishap: Option<Mishap>,
}

impl<H> Default for Engine<H> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            state: State::Idle,
            space: None,
            completed_fence: 0,
            is_dead: false,
            submitted_fence: 0,
            num_begun: 0,
            free_since: 0,
            preemption: None,
        }
    }
}

impl<H> Engine<H> {
    /// Appends `packet`, which was submitted at `now`.
    pub fn push(&mut self, packet: Packet, now: Nanoseconds) {
        self.submitted_fence = self.submitted_fence.max(packet.signal.fence_id);
        self.queue.push_back(Queued { packet, submitted_at: now });
    }

    /// The waits of the packet that is next, if the engine has nothing else to do.
    pub fn next_waits(&self) -> Option<&[EngineFence]> {
        match self.state {
            State::Idle if self.preemption.is_none() && !self.is_dead => {
                self.queue.front().map(|queued| queued.packet.waits.as_slice())
            }
            _ => None,
        }
    }

    /// The waits of the next packet are over at `now`: it begins as soon as the engine is free and it was submitted.
    pub fn schedule(&mut self, now: Nanoseconds) {
        if let Some(queued) = self.queue.front() {
            self.state = State::Starting(now.max(self.free_since).max(queued.submitted_at));
        }
    }

    /// Takes the first packet, to run it from `now` on; `mishap` tells what befalls it, by whether it is a paging buffer.
    pub fn start(&mut self, now: Nanoseconds, mishap: impl FnOnce(bool) -> Option<Mishap>) -> Option<Box<Running>> {
        let Queued { packet, submitted_at } = self.queue.pop_front()?;
        self.num_begun += 1;
        let commands = Decoder::new(&packet.preamble).chain(Decoder::new(packet.buffer.commands())).collect();
        let mishap = mishap(matches!(packet.buffer, DmaBuffer::Paging(_)));
        let ready_at = if packet.waits.is_empty() { submitted_at } else { now };
        Some(Box::new(Running { packet, commands, ready_at, started_at: now, mishap }))
    }

    /// The packet that signals `fence_id` has ended at `now`, one way or the other.
    pub fn end_packet(&mut self, fence_id: u64, now: Nanoseconds) {
        self.completed_fence = self.completed_fence.max(fence_id);
        self.free_since = now;
    }

    /// At `now` it is asked to give back what it has not begun. A later request takes the place of an earlier one.
    pub fn preempt(&mut self, fence_id: u64, now: Nanoseconds) {
        self.preemption = Some(Preemption { fence_id, requested_at: now });
        if let State::Starting(_) = self.state {
            self.state = State::Idle;
        }
    }

    /// The request that the engine answers now, since it runs nothing.
    pub fn take_preemption(&mut self) -> Option<u64> {
        self.preemption.take().map(|preemption| preemption.fence_id)
    }

    /// Forgets all that it was asked for, and stops: the packet that was under way, and its command if one was.
    pub fn stop(&mut self) -> (Option<Packet>, Option<Begun<H>>) {
        self.preemption = None;
        match std::mem::take(&mut self.state) {
            State::Idle | State::Starting(_) => (None, None),
            State::Preparing { running, .. } => (Some(running.packet), None),
            State::Executing { running, begun, .. } => (Some(running.packet), Some(begun)),
            State::Stopped(packet) => (Some(packet), None),
            State::Resetting { aborted, .. } => (aborted, None),
        }
    }

    /// Takes all packets that have not begun, oldest first.
    pub fn take_queue(&mut self) -> impl Iterator<Item = Packet> {
        std::mem::take(&mut self.queue).into_iter().map(|queued| queued.packet)
    }

    /// The adapter was reset: whatever was submitted counts as done (FLT-25).
    pub fn forget(&mut self, now: Nanoseconds) {
        (self.space, self.is_dead) = (None, false);
        self.end_packet(self.submitted_fence, now);
    }

    /// Whether no packet is under way.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// When the engine has something to do next.
    pub fn next_step_at(&self) -> Option<Nanoseconds> {
        let at = match self.state {
            State::Idle if self.is_dead => None,
            State::Idle => self.preemption.map(|preemption| preemption.requested_at.max(self.free_since)),
            State::Starting(at) => Some(at),
            State::Preparing { until, .. } | State::Executing { until, .. } | State::Resetting { until, .. } => {
                Some(until)
            }
            State::Stopped(_) => None,
        };
        at.filter(|&at| at != NEVER)
    }
}
