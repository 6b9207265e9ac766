//! Where the virtual time of a run went: work, paging, and paging hidden behind work.

use serde::Serialize;
use vidmm::Nanoseconds;

/// The times at which engines ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    work: Vec<(Nanoseconds, Nanoseconds)>,
    paging: Vec<(Nanoseconds, Nanoseconds)>,
    lost_over_bus: Nanoseconds,
}

/// Shares of the virtual time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shares {
    /// From the first call to the last completion.
    pub virtual_ns: Nanoseconds,
    /// While at least one engine ran a user's work.
    pub work_ns: Nanoseconds,
    /// While the paging engine ran.
    pub paging_ns: Nanoseconds,
    /// While both did: paging hidden behind work.
    pub hidden_ns: Nanoseconds,
    /// How much longer kernels took because of their accesses to system memory, in sum: a part of the work.
    #[serde(skip_serializing_if = "is_zero")]
    pub bus_ns: Nanoseconds,
}

/// Whether a time is none.
pub(crate) fn is_zero(nanoseconds: &Nanoseconds) -> bool {
    *nanoseconds == 0
}

impl Shares {
    /// While only the paging engine ran: time lost to paging.
    pub fn lost_ns(&self) -> Nanoseconds {
        self.paging_ns - self.hidden_ns
    }
}

impl Timeline {
    /// A packet ran from `start` to `end`.
    pub fn ran(&mut self, paging: bool, start: Nanoseconds, end: Nanoseconds) {
        let intervals = if paging { &mut self.paging } else { &mut self.work };
        intervals.push((start, end));
    }

    /// A kernel took longer because of its accesses to system memory.
    pub fn lost_over_bus(&mut self, lost_ns: Nanoseconds) {
        self.lost_over_bus += lost_ns;
    }

    /// The shares of a run that took `virtual_ns`.
    pub fn shares(mut self, virtual_ns: Nanoseconds) -> Shares {
        let length = |intervals: &[(u64, u64)]| intervals.iter().map(|(start, end)| end - start).sum();
        unite(&mut self.work);
        unite(&mut self.paging);
        let (work_ns, paging_ns) = (length(&self.work), length(&self.paging));
        let mut either = self.work;
        either.append(&mut self.paging);
        unite(&mut either);
        Shares {
            virtual_ns,
            work_ns,
            paging_ns,
            hidden_ns: work_ns + paging_ns - length(&either),
            bus_ns: self.lost_over_bus,
        }
    }
}

/// Sorts intervals and joins those that touch.
fn unite(intervals: &mut Vec<(u64, u64)>) {
    intervals.sort_unstable();
    intervals.dedup_by(|next, before| {
        let touch = next.0 <= before.1;
        if touch {
            before.1 = before.1.max(next.1);
        }
        touch
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paging_is_hidden_while_work_runs() {
        let mut timeline = Timeline::default();
        timeline.ran(false, 0, 10);
        timeline.ran(false, 5, 12);
        timeline.ran(true, 8, 20);
        timeline.ran(true, 20, 22);
        let shares = timeline.shares(30);
        assert_eq!(shares, Shares { virtual_ns: 30, work_ns: 12, paging_ns: 14, hidden_ns: 4, bus_ns: 0 });
        assert_eq!(shares.lost_ns(), 10);
    }
}
