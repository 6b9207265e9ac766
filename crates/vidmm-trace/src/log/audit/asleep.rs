//! Processes of which nothing is in flight (D36).

use super::Audit;

/// A process with nothing in flight is awake for so long at least, in nanoseconds.
const AWAKE: u64 = 250_000_000;

/// It is awake for so many times its longest gap of this time.
const AWAKE_PER_GAP: u64 = 4;
const GAP_MEMORY: u64 = 2_000_000_000;

/// The gaps between the packets of a process, and between its grants.
#[derive(Debug, Default)]
pub(super) struct Stillness {
    in_flight: u64,
    since: u64,
    /// The beginnings and ends of the gaps of late.
    gaps: Vec<(u64, u64)>,
}

impl Stillness {
    pub fn new(at: u64) -> Self {
        Self { since: at, ..Self::default() }
    }

    pub fn begin(&mut self, at: u64) {
        if self.in_flight == 0 && at.saturating_sub(self.since) > AWAKE / AWAKE_PER_GAP {
            self.gaps.retain(|&(_, end)| is_late(end, at));
            self.gaps.push((self.since, at));
        }
        self.in_flight += 1;
    }

    pub fn end(&mut self, at: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.since = at;
    }

    /// Whether nothing has been in flight for the longest of 250 ms and four times the longest gap of the last 2 s.
    pub fn is_asleep(&self, at: u64) -> bool {
        let gaps = self.gaps.iter().filter(|&&(_, end)| is_late(end, at));
        let longest = gaps.map(|(begin, end)| end - begin).max().unwrap_or(0);
        self.in_flight == 0 && at.saturating_sub(self.since) >= AWAKE.max(longest.saturating_mul(AWAKE_PER_GAP))
    }
}

/// Whether a gap that ended at a time is one of the last 2 s.
fn is_late(end: u64, at: u64) -> bool {
    end.saturating_add(GAP_MEMORY) > at
}

impl Audit {
    /// Work of a device begins or ends, or a request of it is granted.
    pub(super) fn note_stillness(&mut self, device: vidmm::DeviceId, note: impl FnOnce(&mut Stillness, u64)) {
        let process = self.process_of(device);
        if let Some(process) = process.and_then(|process| self.processes.get_mut(&process)) {
            note(&mut process.stillness, self.at);
        }
    }
}
