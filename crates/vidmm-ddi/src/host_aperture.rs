//! The CPU host aperture: a window of pages through which the CPU reaches pages of a memory segment (SEG-37).
//!
//! The aperture is usable right after the segments are described (DRV-13). Pages of the window and of the segment have the size of the
//! segment's pages.

use std::collections::BTreeMap;

use vidmm::PAGE_SIZE;
use vidmm::contract::WddmVersion;

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::dice::Dice;
use crate::progress::Entry;
use crate::reports::report;

/// So many pages are mapped in a call at most.
const PAGES_MAX: u64 = 16;

/// So many calls are made.
const CALLS: usize = 6;

/// Stands behind the last entry of a list: a driver that reads on maps pages that there are not.
const NO_PAGE: u32 = 0xDEAD_0000;

/// Judges what the driver says of a segment, and maps and unmaps pages if the segment has a window.
pub(crate) fn try_segment(adapter: &Adapter, id: u16, segment: &DXGK_SEGMENTDESCRIPTOR4) {
    let has = |flag| segment.Flags & flag != 0;
    let told = |message: &str| report("DDI-HOST-APERTURE", format!("segment {id}: {message}"));
    if has(SEGMENT_CACHED_CPU_HOST_APERTURE) && !has(SEGMENT_CPU_HOST_APERTURE) {
        told("SupportsCachedCpuHostAperture is set without SupportsCpuHostAperture");
    }
    if !has(SEGMENT_CPU_HOST_APERTURE) {
        return;
    }
    if has(SEGMENT_CPU_VISIBLE) {
        told("SupportsCpuHostAperture and CpuVisible exclude each other (SEG-37)");
    }
    let ddi = adapter.ddi();
    if ddi.DxgkDdiMapCpuHostAperture.is_none() || ddi.DxgkDdiUnmapCpuHostAperture.is_none() {
        return told("the driver's table lacks DxgkDdiMapCpuHostAperture or DxgkDdiUnmapCpuHostAperture");
    }
    let [_, window] = segment.CpuHostAperture;
    let page_size = if has(SEGMENT_USE_64KB_PAGES) { 16 * PAGE_SIZE } else { PAGE_SIZE };
    let (window, pages) = (u64::from(window as u32), segment.Size as u64 / page_size);
    if window == 0 {
        return told("CpuHostAperture.SizeInPages is 0");
    }
    if ddi.Version >= WddmVersion::WDDM2_0.0 {
        Window { adapter, id, window, pages, shown: BTreeMap::new() }.try_out();
    }
}

/// A window whose pages are mapped.
struct Window<'a> {
    adapter: &'a Adapter,
    id: u16,
    /// Pages of the window, and of the segment.
    window: u64,
    pages: u64,
    /// The page of the segment that each page of the window is to show.
    shown: BTreeMap<u32, u64>,
}

impl Window<'_> {
    fn try_out(&mut self) {
        let dice = Dice::new(self.adapter.component_dice.below(u64::MAX));
        for call in 0..CALLS {
            let count = 1 + dice.below(PAGES_MAX.min(self.window).min(self.pages));
            let is_done = match call % 2 {
                0 => self.map(&dice, count),
                _ => self.unmap(count as usize),
            };
            if !is_done {
                break;
            }
            self.compare();
        }
        self.unmap(usize::MAX);
        self.compare();
    }

    /// Maps pages of the window that show nothing to pages of the segment, neither of which follow each other.
    fn map(&mut self, dice: &Dice, count: u64) -> bool {
        let Some(function) = self.adapter.ddi().DxgkDdiMapCpuHostAperture else { return false };
        let (window, first) = (dice.below(self.window), dice.below(self.pages));
        let places = (0..count).map(|at| (((window + at * 3) % self.window) as u32, (first + at * 5) % self.pages));
        let mut places = Vec::from_iter(places.filter(|(page, _)| !self.shown.contains_key(page)));
        places.sort_unstable();
        places.dedup_by_key(|place| place.0);
        if places.is_empty() {
            return true;
        }
        let (mut window, mut memory): (Vec<u32>, Vec<u64>) = places.iter().copied().unzip();
        window.push(NO_PAGE);
        memory.push(NO_PAGE.into());
        // Page tables have no allocation that the driver knows.
        let mut args = DXGKARG_MAPCPUHOSTAPERTURE {
            SegmentId: self.id,
            NumberOfPages: places.len() as u64,
            pCpuHostAperturePages: window.as_ptr(),
            pMemorySegmentPages: memory.as_ptr(),
            ..DXGKARG_MAPCPUHOSTAPERTURE::zeroed()
        };
        // SAFETY: the struct and the lists live for the call.
        let status =
            self.adapter.call_with(Entry::DxgkDdiMapCpuHostAperture, PASSIVE_LEVEL, &mut args, |args| unsafe {
                function(self.adapter.handle(), args)
            });
        let is_done = must_succeed(status, Entry::DxgkDdiMapCpuHostAperture);
        if is_done {
            self.shown.extend(places);
        }
        is_done
    }

    /// Unmaps the first pages.
    fn unmap(&mut self, count: usize) -> bool {
        let Some(function) = self.adapter.ddi().DxgkDdiUnmapCpuHostAperture else { return false };
        let mut pages = Vec::from_iter(self.shown.keys().copied().take(count));
        if pages.is_empty() {
            return true;
        }
        let mut args = DXGKARG_UNMAPCPUHOSTAPERTURE {
            NumberOfPages: pages.len() as u64,
            SegmentId: self.id,
            ..DXGKARG_UNMAPCPUHOSTAPERTURE::zeroed()
        };
        pages.push(NO_PAGE);
        args.pCpuHostAperturePages = pages.as_ptr();
        // SAFETY: the struct and the list live for the call.
        let status =
            self.adapter.call_with(Entry::DxgkDdiUnmapCpuHostAperture, PASSIVE_LEVEL, &mut args, |args| unsafe {
                function(self.adapter.handle(), args)
            });
        let is_done = must_succeed(status, Entry::DxgkDdiUnmapCpuHostAperture);
        if is_done {
            pages.iter().for_each(|page| _ = self.shown.remove(page));
        }
        is_done
    }

    /// Compares each page that is to show something with the model of the GPU.
    fn compare(&self) {
        let gpu = self.adapter.driver().gpu();
        let Some(read) = gpu.and_then(|gpu| gpu.ReadCpuHostAperturePage) else { return };
        for (&page, &expected) in &self.shown {
            let mut memory_page = u64::MAX;
            // SAFETY: the model writes the number that it is given.
            let is_there = self.adapter.call(Entry::GpuReadCpuHostAperturePage, PASSIVE_LEVEL, || unsafe {
                read(self.adapter.handle(), self.id.into(), page, &mut memory_page)
            });
            if is_there == 0 || memory_page != expected {
                let shows = if is_there == 0 { "nothing".to_owned() } else { format!("page {memory_page:#x}") };
                let message = format!("page {page:#x} is to show page {expected:#x} of the segment, and shows {shows}");
                return report("DDI-HOST-APERTURE", format!("segment {}: {message}", self.id));
            }
        }
    }
}

fn must_succeed(status: NTSTATUS, entry: Entry) -> bool {
    match status {
        0.. => true,
        STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES => false,
        _ => {
            report("DDI-HOST-APERTURE", format!("{entry:?} failed with status {status:#x}: it must not fail"));
            false
        }
    }
}
