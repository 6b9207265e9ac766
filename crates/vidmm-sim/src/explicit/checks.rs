//! Looking at memory from outside: what the CPU sees, and what the aperture shows.

use vidmm::{AllocationId, Extent, PAGE_SIZE, SegmentId};
use vidmm_trace::ByteSize;

use super::ledger::Part;
use super::session::Session;
use crate::exact::exact;
use crate::scenario::steps::{
    ApertureShows, CheckAperture, CheckResidency, CheckSystem, CheckWaiting, QueryPagingVa, See, Undone,
};

impl Session<'_> {
    /// Compares what the CPU sees of allocations with what was written last.
    pub fn check_system(&mut self, names: &[String]) -> Result<(), Undone> {
        for name in names {
            let allocation = self.objects.allocation(name)?;
            let (id, pages) = (allocation.id, allocation.pages);
            let Ok(Some(copy)) = self.runtime.vidmm().system_copy(id) else {
                self.found(format!(
                    "system memory does not have the content of {name}: it is resident, or something is under way for it"
                ));
                continue;
            };
            let part = Part { allocation: name.clone(), first_page: 0, pages };
            let digest = |page: u64| self.runtime.page_digest(copy.offset_by(page * PAGE_SIZE));
            let comparison = self.ledger.compare(&part, digest);
            self.report.system_pages_checked += comparison.pages;
            self.compared(&comparison, "the CPU sees", &format!(" of {name}"));
        }
        Ok(())
    }

    /// An allocation that is nowhere resident is not shown where it was in the aperture: that is another's, or shows the dummy
    /// page (I24).
    pub fn check_left_aperture(&mut self, name: &str, id: AllocationId) {
        let names = &self.narrator.names;
        let (Some((range, pages)), Some(store)) = (names.aperture_range(id), names.backing_store(id)) else { return };
        let dummy = names.dummy_page.and_then(|page| self.runtime.page_digest(page));
        let is_shown = |page: &u64| {
            let stored = self.runtime.page_digest(store.offset_by(page * PAGE_SIZE));
            stored.is_some() && stored != dummy && stored == self.runtime.page_digest(range.offset_by(page * PAGE_SIZE))
        };
        if let Some(page) = (0..pages).find(is_shown) {
            self.broke("I24", format!("{name} has left the aperture, but page {page} of it is still seen there"));
        }
    }

    /// An allocation that engines address physically is one range, aligned as its driver asked (SEG-13, SEG-46).
    pub fn check_range(&mut self, allocation: AllocationId, segment: SegmentId, extents: &[Extent]) {
        let Some(name) = self.narrator.names.allocations.get(&allocation) else { return };
        let Some(known) = self.objects.allocations.get(name).filter(|known| known.is_one_range) else { return };
        let is_right = match extents {
            // A range of an aperture begins at a multiple of 64 KiB, whatever was asked.
            [range] => !self.truth.is_memory(segment) || range.offset.is_multiple_of(known.alignment.max(1)),
            _ => false,
        };
        if let Some(rules) = &mut self.rules {
            rules.banks.placed(&rules.audit, (name, known), segment, extents);
        }
        if !is_right {
            let wanted = known.alignment;
            self.broke(
                "SEG-46",
                format!("{name} is to be one range aligned to {wanted}, but is placed at {extents:?}"),
            );
        }
    }
}

impl See<Session<'_>> for CheckSystem {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        if session.rules.is_some() && self.allocations.iter().any(|name| session.is_in_use(name)) {
            return Err(Undone::Races);
        }
        session.check_system(&self.allocations)
    }
}

/// Looks at the pages of the aperture where allocations are, or were last.
impl See<Session<'_>> for CheckAperture {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        for name in &self.allocations {
            let id = session.objects.allocation(name)?.id;
            let names = &session.narrator.names;
            let (Some((range, pages)), Some(store), Some(dummy_page)) =
                (names.aperture_range(id), names.backing_store(id), names.dummy_page)
            else {
                session.found(format!("{name} was never mapped in the aperture"));
                continue;
            };
            let digest = |address| session.runtime.page_digest(address);
            let dummy = digest(dummy_page);
            let stored = |page: u64| digest(store.offset_by(page * PAGE_SIZE));
            if (0..pages).all(|page| stored(page) == dummy) {
                session.found(format!(
                    "{name} looks like the dummy page; let a kernel write it before the aperture is checked"
                ));
                continue;
            }
            let wrong = (0..pages).filter(|&page| {
                let expected = match self.shows {
                    ApertureShows::Allocation => stored(page),
                    ApertureShows::DummyPage => dummy,
                };
                digest(range.offset_by(page * PAGE_SIZE)) != expected
            });
            let wrong: Vec<u64> = wrong.collect();
            session.report.aperture_pages_checked += pages;
            session.report.pages_wrong += wrong.len() as u64;
            let shown = match self.shows {
                ApertureShows::Allocation => format!("the bytes of {name}"),
                ApertureShows::DummyPage => "the dummy page".to_owned(),
            };
            let (aperture, at) = (session.narrator.names.segments.name(range.segment), range.offset);
            let seen = format!("{pages} pages of {aperture} from {at:#x} on show {shown}, {} wrong", wrong.len());
            session.narrator.checked(seen);
            if let Some(first) = wrong.first() {
                session.found(format!("page {first} of {pages} in {aperture} from {at:#x} on does not show {shown}"));
            }
        }
        Ok(())
    }
}

/// Compares the size of the paging process's address space with what is expected.
impl See<Session<'_>> for QueryPagingVa {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        let adapter = self.adapter;
        let Some(&(answer, size)) = session.narrator.names.queried.get(&adapter) else {
            session.found(format!("physical adapter {adapter} was never asked for the size of its paging VA"));
            return Ok(());
        };
        let answer = answer.map_or_else(|| "fails the query".to_owned(), |mib| format!("answers {mib} MiB"));
        let in_words = |size: u64| if size == 0 { "none".to_owned() } else { exact(size) };
        session.narrator.checked(format!("the driver {answer}; the paging VA is {}", in_words(size)));
        if let Some(ByteSize(expected)) = self.size.filter(|expected| expected.bytes() != size) {
            session.found(format!("the paging VA is {}, but {} was expected", in_words(size), in_words(expected)));
        }
        Ok(())
    }
}

/// Compares where allocations are, by the event log, with where they must be.
impl See<Session<'_>> for CheckResidency {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        for name in &self.allocations {
            let found = session.truth.whereabouts(session.objects.allocation(name)?.id);
            if found != self.r#in {
                session.found(format!("{name} is {found}, but must be {}", self.r#in));
            }
        }
        Ok(())
    }
}

/// Checks that kernels have not begun to run.
impl See<Session<'_>> for CheckWaiting {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        for name in &self.kernels {
            if session.objects.last_kernel(name).is_none() || session.objects.has_begun(name) {
                session.found(format!("kernel {name} does not wait any more"));
            }
        }
        Ok(())
    }
}
