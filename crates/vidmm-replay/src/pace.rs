//! Virtual time without a GPU: copies one after the other on one engine, submissions on another.

use std::collections::VecDeque;

/// The speed of copies between local memory and system memory, in bytes a second, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// From system memory to local memory.
    pub bytes_in_per_second: u64,
    /// From local memory to system memory.
    pub bytes_out_per_second: u64,
}

impl Default for Link {
    /// 16 lanes of PCIe 4, as the model GPU has.
    fn default() -> Self {
        Self { bytes_in_per_second: 25_000_000_000, bytes_out_per_second: 25_000_000_000 }
    }
}

/// The bytes that copies have moved; bytes that pass by count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Moved {
    /// The bytes moved since an earlier count. Content of a new object may be counted late.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            bytes_in: self.bytes_in.saturating_sub(earlier.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(earlier.bytes_out),
        }
    }
}

/// When submissions end that wait for their copies. A program is so many submissions ahead; the copies of one begin when it is
/// submitted, and when those before have ended.
#[derive(Debug)]
pub(crate) struct Pace {
    link: Link,
    in_flight: usize,
    /// When the last submissions end, in nanoseconds.
    ends: VecDeque<u64>,
    copies_end: u64,
    last_end: u64,
}

impl Pace {
    pub fn new(link: Link, in_flight: u64) -> Self {
        Self { link, in_flight: in_flight.max(1) as usize, ends: VecDeque::new(), copies_end: 0, last_end: 0 }
    }

    /// A submission that waits for the copies, and keeps the GPU busy for so long.
    pub fn submit(&mut self, moved: Moved, nanoseconds: u64) {
        let submitted = if self.ends.len() < self.in_flight { 0 } else { self.ends.pop_front().unwrap_or(0) };
        if moved.bytes_in + moved.bytes_out > 0 {
            let takes = self.link.time_in(moved.bytes_in) + self.link.time_out(moved.bytes_out);
            self.copies_end = self.copies_end.max(submitted) + takes;
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

impl Link {
    /// The time of copies of so many bytes to local memory, in nanoseconds.
    pub fn time_in(&self, bytes_in: u64) -> u64 {
        copy_time(bytes_in, self.bytes_in_per_second)
    }

    /// The time of copies of so many bytes from local memory, in nanoseconds.
    pub fn time_out(&self, bytes_out: u64) -> u64 {
        copy_time(bytes_out, self.bytes_out_per_second)
    }
}

fn copy_time(bytes: u64, bytes_per_second: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second)) as u64
}

#[cfg(test)]
mod tests {
    use super::{Link, Moved, Pace};

    #[test]
    fn each_direction_takes_the_time_of_its_own_speed() {
        let link = Link { bytes_in_per_second: 2_000_000_000, bytes_out_per_second: 1_000_000_000 };
        let mut pace = Pace::new(link, 1);
        pace.submit(Moved { bytes_in: 2000, bytes_out: 500 }, 10);
        assert_eq!((pace.nanoseconds(), link.time_in(2000), link.time_out(500)), (1510, 1000, 500));
    }
}
