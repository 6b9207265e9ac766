//! The mappings of a machine in lockstep, by the model GPU's page tables.

use std::collections::BTreeMap;
use std::ops::Range;

use vidmm::PAGE_SIZE;
use vidmm::contract::{KmdProcessHandle, RootPageTable};
use vidmm_soft::{MappingChange, Memories, PhysicalMemory, Place, Translation};

use crate::mapped::Target;
use crate::memory::VulkanMemory;
use crate::report::Rules;
use crate::space::joined;

/// The changes since the last look at the page tables.
pub(crate) struct Tables {
    processes: BTreeMap<KmdProcessHandle, Changed>,
    /// Pages that an address space has.
    num_pages: u64,
}

/// The changes of a process.
#[derive(Default)]
struct Changed {
    /// Pages of addresses with new entries.
    pages: Vec<Range<u64>>,
    /// Pages of addresses with entries for empty pages of an aperture.
    unshown: Vec<Range<u64>>,
    root: Option<RootPageTable>,
}

impl Tables {
    /// No changes, of address spaces with so many pages.
    pub(crate) fn new(num_pages: u64) -> Self {
        Self { processes: BTreeMap::new(), num_pages }
    }

    /// Mappings may lead elsewhere.
    pub(crate) fn note(&mut self, change: MappingChange, memory: &VulkanMemory) {
        match change {
            MappingChange::Entries { process, addresses } => {
                let pages = addresses.start.0 / PAGE_SIZE..addresses.end.0.div_ceil(PAGE_SIZE).min(self.num_pages);
                self.processes.entry(process).or_default().pages.push(pages);
            }
            // A new root may lead anywhere. A root that has grown has new entries.
            MappingChange::Entered { process, root } => {
                let changed = self.processes.entry(process).or_default();
                if changed.root.replace(root) != Some(root) {
                    changed.pages.push(0..self.num_pages);
                }
            }
            MappingChange::Aperture { segment, pages } => {
                for (&process, changed) in &mut self.processes {
                    changed.pages.extend(memory.through_aperture(process, segment, &pages));
                    changed.pages.append(&mut changed.unshown);
                }
            }
        }
    }

    /// The page tables are lost.
    pub(crate) fn forget_roots(&mut self) {
        self.processes.values_mut().for_each(|changed| changed.root = None);
    }

    /// Looks at the new entries, and tells the memory where the addresses lead. The last entry of an address wins: the tables hold only the
    /// last entry.
    pub(crate) fn look(&mut self, tables: &mut Memories, translation: &Translation, memory: &mut VulkanMemory) {
        let tables = tables.lock();
        let rules = memory.rules();
        for (&process, changed) in &mut self.processes {
            for pages in joined(in_units(std::mem::take(&mut changed.pages), rules.granule_pages())) {
                let mut targets = Targets::new(rules);
                translation.for_each_mapped(&tables, process, pages.clone(), |page, place, count| {
                    targets.add(&tables, page, place, count);
                });
                changed.unshown.extend(targets.unshown);
                memory.space(process).map_all(pages, &targets.found);
            }
        }
    }
}

/// The ranges, widened to whole units.
fn in_units(mut ranges: Vec<Range<u64>>, granule: u64) -> Vec<Range<u64>> {
    for range in &mut ranges {
        *range = range.start - range.start % granule..range.end.next_multiple_of(granule);
    }
    ranges
}

/// The targets of a range, as far as the search has come.
struct Targets {
    rules: Rules,
    found: Vec<(Range<u64>, Target)>,
    unshown: Vec<Range<u64>>,
}

impl Targets {
    fn new(rules: Rules) -> Self {
        Self { rules, found: Vec::new(), unshown: Vec::new() }
    }

    /// `count` pages from `page` on lead to `place`, which may be in an aperture.
    fn add(&mut self, memory: &PhysicalMemory<'_>, page: u64, place: Place, count: u64) {
        let Place::Segment { segment: named, page: first } = place else { return };
        let mut runs = Vec::new();
        if let Err(shown) = memory.append_runs(place, count, &mut runs) {
            self.unshown.push(page + shown..page + count);
        }
        let mut done = 0;
        for run in runs {
            if let Place::Segment { segment, page: there } = run.place
                && self.rules.binds(segment)
            {
                let aperture = (segment != named).then_some((named, first + done));
                self.push(page + done..page + done + run.pages, Target { segment, page: there, aperture });
            }
            done += run.pages;
        }
    }

    /// Adds a run, widened to whole units of the device. No access reaches the memory beside the run in the first and last unit: each access
    /// is checked against the page tables before. A run is left out if the memory's units and the addresses' units do not match; the first
    /// unit of a run is left out if an earlier run has the unit.
    fn push(&mut self, pages: Range<u64>, target: Target) {
        let granule = self.rules.granule_pages();
        let skew = pages.start % granule;
        if target.page < skew || !(target.page - skew).is_multiple_of(granule) {
            return;
        }
        let aperture = target.aperture.map(|(segment, page)| (segment, page.saturating_sub(skew)));
        let first = Target { page: target.page - skew, aperture, ..target };
        let wide = pages.start - skew..pages.end.next_multiple_of(granule);
        let Some((last, led)) = self.found.last_mut() else { return self.found.push((wide, first)) };
        let taken = last.end.saturating_sub(wide.start);
        let continued = led.later(wide.start - last.start);
        if taken > 0 && continued.segment == first.segment && continued.page == first.page {
            last.end = last.end.max(wide.end);
        } else if taken == 0 && last.end == wide.start && continued == first {
            last.end = wide.end;
        } else if last.end < wide.end {
            self.found.push((wide.start + taken..wide.end, first.later(taken)));
        }
    }
}
