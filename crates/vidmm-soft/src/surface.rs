//! Compression: which pages hold compressed bytes, and what becomes of the words of such a page.
//!
//! The format is that of [`encoding`](crate::encoding).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use vidmm::contract::KmdAllocationHandle;
use vidmm_runtime::Surface;

use crate::digest::mix;

/// The key that the words of page `page` of surface `number` are combined with when they are compressed.
pub fn page_key(number: u32, page: u64) -> u64 {
    mix(u64::from(number) + 1, page) | 1
}

/// The surfaces of allocations: a handle that the driver and the GPU share, for whoever looks into the GPU.
#[derive(Clone, Debug, Default)]
pub struct SurfaceBook(Arc<Mutex<BTreeMap<KmdAllocationHandle, u32>>>);

impl SurfaceBook {
    /// The number of an allocation's surface; none if it has none.
    pub fn get(&self, allocation: KmdAllocationHandle) -> Option<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&allocation).copied()
    }

    /// The allocation that has a surface.
    pub fn allocation_of(&self, number: u32) -> Option<KmdAllocationHandle> {
        let surfaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        surfaces.iter().find(|&(_, &of)| of == number).map(|(&allocation, _)| allocation)
    }

    /// Notes the surface of an allocation; none takes the note back.
    pub fn set(&self, allocation: KmdAllocationHandle, surface: Option<u32>) {
        let mut surfaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match surface {
            Some(surface) => _ = surfaces.insert(allocation, surface),
            None => _ = surfaces.remove(&allocation),
        }
    }
}

/// Which pages of which surfaces are marked: as runs, since allocations are written and decompressed by whole ranges.
#[derive(Debug, Default)]
pub struct Surfaces {
    /// By surface and first page of a run, the first page after it. Runs neither overlap nor touch.
    runs: BTreeMap<(u32, u64), u64>,
}

impl Surfaces {
    /// Marks `num_pages` pages from `first` on.
    pub fn mark(&mut self, first: Surface, num_pages: u64) {
        let Range { mut start, mut end } = pages(first, num_pages);
        let touching: Vec<_> = self.runs_in(first.number, start.saturating_sub(1), end.saturating_add(1)).collect();
        for run in touching {
            self.runs.remove(&(first.number, run.start));
            (start, end) = (start.min(run.start), end.max(run.end));
        }
        if start < end {
            self.runs.insert((first.number, start), end);
        }
    }

    /// Takes the marks of `num_pages` pages from `first` on away.
    pub fn clear(&mut self, first: Surface, num_pages: u64) {
        let Range { start, end } = pages(first, num_pages);
        if start == end {
            return;
        }
        let overlapping: Vec<_> = self.runs_in(first.number, start, end).collect();
        for run in overlapping {
            self.runs.remove(&(first.number, run.start));
            if run.start < start {
                self.runs.insert((first.number, run.start), start);
            }
            if end < run.end {
                self.runs.insert((first.number, end), run.end);
            }
        }
    }

    /// Which of `num_pages` pages from `first` on are marked, counted from `first`.
    pub fn marked(&self, first: Surface, num_pages: u64) -> impl Iterator<Item = Range<u64>> {
        let Range { start, end } = pages(first, num_pages);
        self.runs_in(first.number, start, end).map(move |run| run.start.max(start) - start..run.end.min(end) - start)
    }

    /// The runs of surface `number` that have a page from `start` to before `end`, in order.
    fn runs_in(&self, number: u32, start: u64, end: u64) -> impl Iterator<Item = Range<u64>> {
        let before = self.runs.range((number, 0)..(number, start)).next_back();
        let before = before.filter(move |&(_, &run_end)| run_end > start);
        let inside = self.runs.range((number, start)..(number, end.max(start)));
        before.into_iter().chain(inside).map(|(&(_, run_start), &run_end)| run_start..run_end)
    }
}

fn pages(first: Surface, num_pages: u64) -> Range<u64> {
    first.first_page..first.first_page + num_pages
}
