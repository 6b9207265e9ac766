//! One engine: its queue, and where it is in the packet that it runs.

use std::collections::VecDeque;

use vidmm::Nanoseconds;
use vidmm::contract::{EngineFence, Packet};

use crate::device::Begun;
use crate::encoding::{Command, DecodeError, Decoder};
use crate::translation::AddressSpace;

/// An engine. It runs its packets in the order in which they came, each once its waits are over.
#[derive(Debug, Default)]
pub struct Engine {
    queue: VecDeque<Queued>,
    /// What it does now, and when that ends.
    pub state: State,
    /// The address space of its commands. It outlives the packet that set it.
    pub space: Option<AddressSpace>,
    /// The last fence that it has signalled.
    pub completed_fence: u64,
    free_since: Nanoseconds,
}

#[derive(Debug)]
struct Queued {
    packet: Packet,
    submitted_at: Nanoseconds,
}

/// What an engine does.
#[derive(Debug, Default)]
pub enum State {
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
        begun: Begun,
        /// When it ends.
        until: Nanoseconds,
    },
}

/// A packet under way.
#[derive(Debug)]
pub struct Running {
    /// The packet.
    pub packet: Packet,
    /// What is left of its commands.
    pub commands: VecDeque<Result<Command, DecodeError>>,
    /// When it began.
    pub started_at: Nanoseconds,
}

impl Engine {
    /// Appends `packet`, which was submitted at `now`.
    pub fn push(&mut self, packet: Packet, now: Nanoseconds) {
        self.queue.push_back(Queued { packet, submitted_at: now });
    }

    /// The waits of the packet that is next, if the engine has nothing else to do.
    pub fn next_waits(&self) -> Option<&[EngineFence]> {
        match self.state {
            State::Idle => self.queue.front().map(|queued| queued.packet.waits.as_slice()),
            _ => None,
        }
    }

    /// The waits of the next packet are over at `now`: it begins as soon as the engine is free and it was submitted.
    pub fn schedule(&mut self, now: Nanoseconds) {
        if let Some(queued) = self.queue.front() {
            self.state = State::Starting(now.max(self.free_since).max(queued.submitted_at));
        }
    }

    /// Takes the first packet, to run it from `now` on.
    pub fn start(&mut self, now: Nanoseconds) -> Option<Box<Running>> {
        let Queued { packet, .. } = self.queue.pop_front()?;
        let commands = Decoder::new(&packet.preamble).chain(Decoder::new(packet.buffer.commands())).collect();
        Some(Box::new(Running { packet, commands, started_at: now }))
    }

    /// The packet that signals `fence_id` has ended, one way or the other.
    pub fn end_packet(&mut self, fence_id: u64, now: Nanoseconds) {
        self.state = State::Idle;
        self.completed_fence = fence_id;
        self.free_since = now;
    }

    /// When the engine has something to do next.
    pub fn next_step_at(&self) -> Option<Nanoseconds> {
        match self.state {
            State::Idle => None,
            State::Starting(at) => Some(at),
            State::Preparing { until, .. } | State::Executing { until, .. } => Some(until),
        }
    }
}
