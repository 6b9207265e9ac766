//! Slices that are not written yet: a later one may turn out to have waited for them.

use std::collections::{BTreeMap, VecDeque};

use vidmm::contract::EngineFence;
use vidmm::{Nanoseconds, PagingQueueId};

use super::output::Subject;
use super::proto::{DebugAnnotation, TrackEvent};
use crate::timeline::record::Operation;

/// The slices that are kept before the first is written.
const SLICES_KEPT: usize = 1 << 14;

/// The fence that a slice signals at its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fence {
    /// That of a packet.
    Packet(EngineFence),
    /// A value of a paging fence.
    Paging(PagingQueueId, u64),
}

/// A slice, and those inside it.
#[derive(Clone, Debug)]
pub struct Slice {
    pub subject: Subject,
    /// The name of its track.
    pub track: String,
    pub from: Nanoseconds,
    pub to: Nanoseconds,
    pub event: TrackEvent,
    /// The operations of a paging packet.
    pub operations: Vec<Operation>,
    pub signals: Option<Fence>,
    /// The fence that it waited for, and that a flow is to come from.
    pub waited_for: Option<Fence>,
}

/// The slices that are kept, by their numbers.
#[derive(Debug, Default)]
pub struct Window {
    slices: VecDeque<Slice>,
    /// The number of the first that is kept.
    first: u64,
    signalling: BTreeMap<Fence, u64>,
    /// The slices that wait for a fence of which no slice has come.
    waiting: BTreeMap<Fence, Vec<u64>>,
    flows: u64,
}

impl Window {
    /// A number for a flow.
    pub fn next_flow(&mut self) -> u64 {
        self.flows += 1;
        self.flows
    }

    /// Takes a slice, joins it by flows with those that it waited for and that waited for it, and returns the oldest if
    /// there are too many.
    ///
    /// A flow has both of its ends or none: a slice that has been written gets no flow any more.
    pub fn push(&mut self, slice: Slice) -> Option<Slice> {
        let number = self.first + self.slices.len() as u64;
        let (signals, waited_for) = (slice.signals, slice.waited_for);
        self.slices.push_back(slice);
        if let Some(fence) = waited_for {
            match self.signalling.get(&fence) {
                Some(&source) => self.join(source, number),
                None => self.waiting.entry(fence).or_default().push(number),
            }
        }
        if let Some(fence) = signals {
            self.signalling.insert(fence, number);
            for waiter in self.waiting.remove(&fence).unwrap_or_default() {
                self.join(number, waiter);
            }
        }
        (self.slices.len() > SLICES_KEPT).then(|| self.pop()).flatten()
    }

    /// Returns the oldest slice, which gets no flow any more.
    pub fn pop(&mut self) -> Option<Slice> {
        let slice = self.slices.pop_front()?;
        let number = self.first;
        self.first += 1;
        if let Some(fence) = slice.signals {
            self.signalling.remove(&fence);
        }
        if let Some(fence) = slice.waited_for
            && let Some(waiting) = self.waiting.get_mut(&fence)
        {
            waiting.retain(|&waiter| waiter != number);
            if waiting.is_empty() {
                self.waiting.remove(&fence);
            }
        }
        Some(slice)
    }

    /// Joins two slices, if the second begins behind the first.
    fn join(&mut self, source: u64, sink: u64) {
        let (source, sink) = ((source - self.first) as usize, (sink - self.first) as usize);
        if self.slices[source].from < self.slices[sink].from {
            let flow = self.next_flow();
            self.slices[source].event.flow_ids.push(flow);
            self.slices[sink].event.terminating_flow_ids.push(flow);
        }
    }
}

/// A fact beside a slice.
pub fn number(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), uint_value: Some(value), string_value: None }
}

/// A fact beside a slice, in words.
pub fn words(name: &str, value: impl ToString) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), uint_value: None, string_value: Some(value.to_string()) }
}
