//! The content that every page of every allocation must hold, by the kernels that have run.

use std::collections::BTreeMap;

use vidmm_runtime::PageRange;

use crate::prediction::{Content, KernelState};

/// Numbers from here on are not those of kernels, but of what the CPU writes.
const CPU_WRITES: u64 = 1 << 63;

/// The digests that the pages of all allocations must have; none where work that was aborted may have written or not, until
/// somebody reads or writes the page.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    allocations: BTreeMap<String, Vec<Option<u64>>>,
}

/// The pages of an allocation that a mapping shows.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub allocation: String,
    pub first_page: u64,
    pub pages: u64,
}

/// The reads and writes of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub number: u64,
    pub content: Content,
    /// Reservations of which it reads pages after all else, and which: they read as zero.
    pub zeros: Vec<(String, PageRange)>,
    pub reads: Vec<Part>,
    pub writes: Vec<Part>,
}

/// The outcome of a comparison of digests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub pages: u64,
    pub wrong: u64,
    pub first: Option<Difference>,
}

/// A page that does not hold what it must.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub allocation: String,
    pub page: u64,
    pub expected: u64,
    /// None if nothing was there.
    pub found: Option<u64>,
}

impl Ledger {
    /// An allocation begins with pages of zeros (CRE-42), whose digest is 0.
    pub fn create(&mut self, allocation: &str, pages: u64) {
        self.allocations.insert(allocation.to_owned(), vec![Some(0); pages as usize]);
    }

    /// Compares what a kernel read with what it must have read, and goes on to what it must have written. Pages of an
    /// allocation of which `is_past` says that it is no more are not compared, nor those that are asked for later.
    pub fn run(&mut self, work: &Work, inputs: &[Vec<u64>], is_past: impl Fn(&str) -> bool) -> Comparison {
        let mut state = KernelState::new(work.number);
        let mut comparison = Comparison::default();
        for (number, part) in work.reads.iter().enumerate() {
            let found = inputs.get(number).map_or(&[][..], Vec::as_slice);
            if is_past(&part.allocation) {
                found.iter().for_each(|&digest| state.read(digest));
                continue;
            }
            comparison.add(self.compare(part, |page| found.get(page as usize).copied()));
            for (page, expected) in self.expected_mut(part).iter_mut().enumerate() {
                // A page that could be either is what it was found to be.
                let digest = *expected.get_or_insert_with(|| found.get(page).copied().unwrap_or(0));
                state.read(digest);
            }
        }
        for ((reservation, range), found) in work.zeros.iter().zip(inputs.iter().skip(work.reads.len())) {
            if !is_past(reservation) {
                comparison.add(compare_zeros(reservation, range.num_pages, found));
            }
            found.iter().for_each(|&digest| state.read(digest));
        }
        for (number, part) in (0..).zip(&work.writes) {
            let seed = state.output(number);
            if is_past(&part.allocation) {
                continue;
            }
            for (page, digest) in (0..).zip(self.expected_mut(part)) {
                *digest = Some(seed.digest(work.content, page));
            }
        }
        comparison
    }

    /// The CPU writes every page of an allocation. Returns what each is filled from.
    pub fn cpu_write(&mut self, allocation: &str, number: u64) -> Vec<u64> {
        let seed = KernelState::new(CPU_WRITES + number).output(0);
        let pages = self.allocations.get_mut(allocation).expect("only allocations that exist are locked");
        let seeds: Vec<u64> = (0..pages.len() as u64).map(|page| seed.of_page(page)).collect();
        for (page, digest) in (0..).zip(pages) {
            *digest = Some(seed.digest(Content::Ramp, page));
        }
        seeds
    }

    /// The content of an allocation is lost: it reads as zero (U-36).
    pub fn discard(&mut self, allocation: &str) {
        self.allocations.get_mut(allocation).expect("only allocations that exist are offered").fill(Some(0));
    }

    /// The content of an allocation is unknown.
    pub fn forget(&mut self, allocation: &str) {
        self.allocations.get_mut(allocation).expect("only allocations that exist are written").fill(None);
    }

    /// A kernel that was to write there was aborted: nobody knows how far it came.
    pub fn aborted(&mut self, work: &Work) {
        work.writes.iter().for_each(|part| self.expected_mut(part).fill(None));
    }

    /// Compares pages with what they must hold; `found` gives the digest of a page of the part, counted from its first.
    pub fn compare(&self, part: &Part, found: impl Fn(u64) -> Option<u64>) -> Comparison {
        let mut comparison = Comparison { pages: part.pages, ..Comparison::default() };
        for (page, &expected) in (0..).zip(self.expected(part)) {
            let (Some(expected), found) = (expected, found(page)) else { continue };
            if found != Some(expected) {
                comparison.wrong += 1;
                let allocation = part.allocation.clone();
                let page = part.first_page + page;
                comparison.first.get_or_insert(Difference { allocation, page, expected, found });
            }
        }
        comparison
    }

    /// The content that the pages of a part must have. Of pages that an allocation does not have nothing is known.
    fn expected(&self, part: &Part) -> &[Option<u64>] {
        self.allocations[&part.allocation].get(part.range()).unwrap_or_default()
    }

    fn expected_mut(&mut self, part: &Part) -> &mut [Option<u64>] {
        let pages = self.allocations.get_mut(&part.allocation).expect("only allocations that exist are mapped");
        pages.get_mut(part.range()).unwrap_or_default()
    }
}

/// Compares pages of a reservation with zeros, whose digest is 0.
fn compare_zeros(reservation: &str, pages: u64, found: &[u64]) -> Comparison {
    let mut comparison = Comparison { pages, ..Comparison::default() };
    for page in 0..pages {
        let found = found.get(page as usize).copied();
        if found != Some(0) {
            comparison.wrong += 1;
            let allocation = reservation.to_owned();
            comparison.first.get_or_insert(Difference { allocation, page, expected: 0, found });
        }
    }
    comparison
}

impl Part {
    fn range(&self) -> std::ops::Range<usize> {
        self.first_page as usize..(self.first_page + self.pages) as usize
    }
}

impl Comparison {
    /// Adds a later comparison.
    pub fn add(&mut self, later: Comparison) {
        self.pages += later.pages;
        self.wrong += later.wrong;
        self.first = self.first.take().or(later.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first_page: u64, pages: u64) -> Part {
        Part { allocation: "A".to_owned(), first_page, pages }
    }

    fn work(number: u64, reads: Vec<Part>, writes: Vec<Part>) -> Work {
        Work { number, content: Content::Ramp, zeros: Vec::new(), reads, writes }
    }

    #[test]
    fn a_kernel_that_writes_a_part_leaves_the_rest() {
        let mut ledger = Ledger::default();
        ledger.create("A", 4);
        ledger.run(&work(1, vec![], vec![part(1, 2)]), &[], |_| false);
        let expected = ledger.expected(&part(0, 4)).to_owned();
        assert_eq!((expected[0], expected[3]), (Some(0), Some(0)));
        assert!(expected[1] != Some(0) && expected[2] != Some(0) && expected[1] != expected[2]);
    }

    #[test]
    fn the_pages_that_a_kernel_read_decide_its_writes() {
        let write_after = |before: u64| {
            let mut ledger = Ledger::default();
            ledger.create("A", 1);
            ledger.run(&work(before, vec![], vec![part(0, 1)]), &[], |_| false);
            let input = ledger.expected(&part(0, 1)).to_owned();
            let comparison = ledger.run(
                &work(9, vec![part(0, 1)], vec![part(0, 1)]),
                &[input.into_iter().flatten().collect()],
                |_| false,
            );
            assert_eq!((comparison.pages, comparison.wrong), (1, 0));
            ledger.expected(&part(0, 1))[0]
        };
        assert_ne!(write_after(1), write_after(2));
    }

    #[test]
    fn a_wrong_page_is_named_with_its_place_in_the_allocation() {
        let mut ledger = Ledger::default();
        ledger.create("A", 4);
        let comparison = ledger.run(&work(1, vec![part(2, 2)], vec![]), &[vec![0, 7]], |_| false);
        let first = comparison.first.expect("a page is wrong");
        assert_eq!((comparison.wrong, first.page, first.expected, first.found), (1, 3, 0, Some(7)));
        let missing = ledger.run(&work(2, vec![part(0, 2)], vec![]), &[vec![0]], |_| false);
        assert_eq!((missing.wrong, missing.first.and_then(|first| first.found)), (1, None));
    }
}
