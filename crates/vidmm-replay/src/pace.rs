//! Virtual time without a GPU: copies one after the other on one engine, submissions on another.

use std::collections::VecDeque;

/// Bytes a second in each direction, as of 16 lanes of PCIe 4; what the model GPU has.
const BYTES_PER_SECOND: u64 = 25_000_000_000;

/// When submissions end that wait for their copies. A program is so many submissions ahead; the copies of one begin when it is
/// submitted, and when those before have ended.
#[derive(Debug)]
pub(crate) struct Pace {
    in_flight: usize,
    /// When the last submissions end, in nanoseconds.
    ends: VecDeque<u64>,
    copies_end: u64,
    last_end: u64,
}

impl Pace {
    pub fn new(in_flight: u64) -> Self {
        Self { in_flight: in_flight.max(1) as usize, ends: VecDeque::new(), copies_end: 0, last_end: 0 }
    }

    /// A submission that needs so many bytes copied, and keeps the GPU busy for so long.
    pub fn submit(&mut self, bytes: u64, nanoseconds: u64) {
        let submitted = if self.ends.len() < self.in_flight { 0 } else { self.ends.pop_front().unwrap_or(0) };
        if bytes > 0 {
            let takes = u128::from(bytes) * 1_000_000_000 / u128::from(BYTES_PER_SECOND);
            self.copies_end = self.copies_end.max(submitted) + takes as u64;
            self.last_end = self.last_end.max(self.copies_end);
        }
        self.last_end = self.last_end.max(submitted) + nanoseconds;
        self.ends.push_back(self.last_end);
    }

    /// The end of the last submission.
    pub fn nanoseconds(&self) -> u64 {
        self.last_end
    }
}
