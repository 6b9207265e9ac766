//! The sentences so far.

use std::collections::BTreeMap;

use vidmm::event::BusAccess;
use vidmm::{AllocationId, DeviceId};

/// The words of a sentence without its numbers: steps of equal shape repeat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Shape(String);

/// One step.
#[derive(Clone, Debug)]
pub(super) struct Sentence {
    pub number: u64,
    pub at: u64,
    pub text: String,
    pub shape: Shape,
    /// The device that it was done for.
    pub wanted_by: Option<DeviceId>,
    /// The allocations and tables that took its room.
    pub takers: Vec<Taker>,
}

/// An allocation or a table that took room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Taker {
    Allocation(AllocationId),
    /// A page table.
    PageTable,
}

impl std::fmt::Display for Taker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Taker::Allocation(id) => id.fmt(f),
            Taker::PageTable => f.write_str("a page table"),
        }
    }
}

/// All sentences, and sums over them.
#[derive(Debug, Default)]
pub(super) struct Tale {
    number: u64,
    at: u64,
    pub sentences: Vec<Sentence>,
    pub sums: Sums,
    /// Whether further steps are only counted.
    pub is_full: bool,
    /// Steps that were not told because of that.
    pub untold: u64,
}

/// The sums.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub came_in: u64,
    pub bytes_in: u64,
    pub left: u64,
    pub bytes_out: u64,
    pub discarded: u64,
    pub refused: u64,
    /// Nanoseconds from calls to their fences.
    pub waited: u64,
    pub longest_wait: u64,
    /// Kernels with time lost to access over the bus, the bytes of the allocation, and the lost nanoseconds.
    pub bus_kernels: u64,
    pub bus_bytes: u64,
    pub bus_ns: u64,
    /// How often it left for each device, and how often each allocation took its room.
    pub wanted_by: BTreeMap<DeviceId, u64>,
    pub takers: BTreeMap<Taker, u64>,
}

impl Sums {
    /// A kernel lost time to access over the bus.
    pub fn over_bus(&mut self, access: &BusAccess) {
        self.bus_kernels += 1;
        self.bus_bytes = self.bus_bytes.saturating_add(access.bytes);
        self.bus_ns = self.bus_ns.saturating_add(access.lost_ns);
    }
}

/// The position of a step that was not told.
const UNTOLD: usize = usize::MAX;

impl Tale {
    /// Sets the number and the time of the present event.
    pub fn now(&mut self, number: u64, at: u64) {
        (self.number, self.at) = (number, at);
    }

    /// The time of the present event.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Tells a step. Returns its position.
    pub fn tell(&mut self, text: impl Into<String>) -> usize {
        self.tell_for(text, None)
    }

    /// Tells a step that was done for a device.
    pub fn tell_for(&mut self, text: impl Into<String>, wanted_by: Option<DeviceId>) -> usize {
        if self.is_full {
            self.untold += 1;
            return UNTOLD;
        }
        let text = text.into();
        let shape = Shape::of(&text);
        let takers = Vec::new();
        self.sentences.push(Sentence { number: self.number, at: self.at, text, shape, wanted_by, takers });
        self.sentences.len() - 1
    }

    /// Replaces the text of a step.
    pub fn tell_anew(&mut self, position: usize, text: String) {
        if let Some(sentence) = self.sentences.get_mut(position) {
            sentence.shape = Shape::of(&text);
            sentence.text = text;
        }
    }

    /// Adds an allocation or a table that took the room which a step gave up.
    pub fn taken_by(&mut self, position: usize, taker: Taker) {
        let sentence = self.sentences.get_mut(position);
        if sentence.as_ref().is_some_and(|sentence| sentence.takers.contains(&taker)) {
            return;
        }
        if let Some(sentence) = sentence {
            sentence.takers.push(taker);
        }
        *self.sums.takers.entry(taker).or_default() += 1;
    }
}

impl Shape {
    /// The words, without numbers and without brackets and their content.
    fn of(text: &str) -> Self {
        let (mut words, mut depth) = (String::new(), 0u32);
        for letter in text.chars() {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ if depth > 0 || letter.is_ascii_digit() || letter == '.' => {}
                _ => words.push(letter),
            }
        }
        Self(words)
    }
}
