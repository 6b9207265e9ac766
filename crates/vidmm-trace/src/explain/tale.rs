//! What is told so far.

use std::collections::BTreeMap;

use vidmm::{AllocationId, DeviceId};

/// What a step is, whatever its numbers are: steps of equal kind repeat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Shape(String);

/// One step.
#[derive(Clone, Debug)]
pub(super) struct Sentence {
    pub number: u64,
    pub at: u64,
    pub text: String,
    pub shape: Shape,
    /// For whom it was done.
    pub wanted_by: Option<DeviceId>,
    /// Who came into its room.
    pub takers: Vec<Taker>,
}

/// Who took room that was given up.
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

/// All steps, and sums over them.
#[derive(Debug, Default)]
pub(super) struct Tale {
    number: u64,
    at: u64,
    pub sentences: Vec<Sentence>,
    pub sums: Sums,
}

/// What is counted.
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
    /// For whom it left, and who came into its room: how often.
    pub wanted_by: BTreeMap<DeviceId, u64>,
    pub takers: BTreeMap<Taker, u64>,
}

impl Tale {
    /// The event that is looked at.
    pub fn now(&mut self, number: u64, at: u64) {
        (self.number, self.at) = (number, at);
    }

    /// The time of the event that is looked at.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Tells a step. Returns its position.
    pub fn tell(&mut self, text: impl Into<String>) -> usize {
        self.tell_for(text, None)
    }

    /// Tells a step that was done for a device.
    pub fn tell_for(&mut self, text: impl Into<String>, wanted_by: Option<DeviceId>) -> usize {
        let text = text.into();
        let shape = Shape::of(&text);
        let takers = Vec::new();
        self.sentences.push(Sentence { number: self.number, at: self.at, text, shape, wanted_by, takers });
        self.sentences.len() - 1
    }

    /// Tells a step in other words.
    pub fn tell_anew(&mut self, position: usize, text: String) {
        self.sentences[position].shape = Shape::of(&text);
        self.sentences[position].text = text;
    }
}

impl Shape {
    /// The words, without numbers and without what is said in brackets.
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
