//! The mappings of a machine in lockstep, as the model GPU's page tables have them.

use std::collections::BTreeMap;
use std::ops::Range;

use vidmm::PAGE_SIZE;
use vidmm::contract::{KmdProcessHandle, RootPageTable};
use vidmm_soft::{MappingChange, Memories, PhysicalMemory, Place, Translation};

use crate::mapped::Target;
use crate::memory::VulkanMemory;
use crate::report::Rules;
use crate::space::joined;

/// What may lead elsewhere since the last look at the page tables.
pub(crate) struct Tables {
    processes: BTreeMap<KmdProcessHandle, Changed>,
    /// Pages that an address space has.
    num_pages: u64,
}

/// The changes of a process.
#[derive(Default)]
struct Changed {
    /// Pages of addresses whose entries were written.
    pages: Vec<Range<u64>>,
    /// Pages whose entries lead to pages of an aperture that show nothing yet.
    unshown: Vec<Range<u64>>,
    root: Option<RootPageTable>,
}

impl Tables {
    /// Those of address spaces of so many pages.
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
            // Another root may lead anywhere, and one that has grown leads where its entries beyond its end did not.
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

    /// Looks at the entries that were written, and tells the memory where they lead: the last entry of an address wins, since the tables
    /// hold no other.
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

/// The targets of a range, as they are found.
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

    /// Adds a run, widened to whole units of the device. The memory beside it in its first and last unit is never accessed
    /// there: an access is checked against the page tables before. A run that does not lie in the units of its memory, or
    /// whose first unit is another's, is left out as far as that.
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
