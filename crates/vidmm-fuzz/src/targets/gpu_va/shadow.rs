//! The taken addresses of a process as a plain list, and the answers of calls that follow from it.

use vidmm::{PAGE_SIZE, PAGE_SIZE_64K, VaRangeError};

/// A range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub base: u64,
    pub size: u64,
}

impl Range {
    fn overlaps(self, other: Self) -> bool {
        self.base < other.base + other.size && other.base < self.base + self.size
    }

    fn holds(self, other: Self) -> bool {
        self.base <= other.base && other.base + other.size <= self.base + self.size
    }
}

/// Shows pages of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub range: Range,
    /// The number of the allocation.
    pub allocation: usize,
    pub first_page: u64,
    /// It was freed, or its allocation destroyed, and earlier work may still use it. So it is not freed once more where
    /// addresses are reserved.
    pub ending: Option<Reason>,
}

impl Mapping {
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// The part of it in a range; none if that is empty.
    fn part(&self, base: u64, end: u64) -> Option<Self> {
        let (base, end) = (base.max(self.range.base), end.min(self.range.base + self.range.size));
        let first_page = self.first_page + base.saturating_sub(self.range.base) / PAGE_SIZE;
        (base < end).then(|| Self { range: Range { base, size: end - base }, first_page, ..*self })
    }
}

/// The legal answers of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Done,
    Refused(Reason),
    /// Either answer: it depends on whether an earlier mapping has come to its end.
    Either(Reason),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    Invalid,
    InUse,
    Exhausted,
    NotFound,
    HasMappings,
}

impl From<VaRangeError> for Reason {
    fn from(error: VaRangeError) -> Self {
        match error {
            VaRangeError::Invalid { .. } => Self::Invalid,
            VaRangeError::InUse => Self::InUse,
            VaRangeError::Exhausted { .. } => Self::Exhausted,
            VaRangeError::NotFound => Self::NotFound,
            VaRangeError::HasMappings => Self::HasMappings,
        }
    }
}

/// The addresses of one process.
#[derive(Debug)]
pub struct Shadow {
    pub first: u64,
    pub end: u64,
    pub reserved: Vec<Range>,
    pub mapped: Vec<Mapping>,
}

impl Shadow {
    pub fn new(first: u64, end: u64) -> Self {
        Self { first, end, reserved: Vec::new(), mapped: Vec::new() }
    }

    fn is_valid(&self, range: Range, unit: u64) -> bool {
        let is_inside =
            range.base >= self.first && range.base.checked_add(range.size).is_some_and(|end| end <= self.end);
        range.size > 0 && is_inside && range.base.is_multiple_of(unit) && range.size.is_multiple_of(unit)
    }

    fn reservation_around(&self, range: Range) -> Option<Range> {
        self.reserved.iter().copied().find(|reserved| reserved.holds(range))
    }

    /// The answer to taking a valid range. Only freed mappings may or may not be in the way.
    fn room(&self, range: Range, may_be_reserved: bool) -> Answer {
        let reserved = self.reserved.iter().filter(|_| !may_be_reserved).any(|reserved| reserved.overlaps(range));
        let mut mapped = self.mapped.iter().filter(|mapping| mapping.range.overlaps(range)).peekable();
        match (reserved, mapped.peek().is_some(), mapped.all(|mapping| mapping.is_ending())) {
            (false, false, _) => Answer::Done,
            (false, true, true) => Answer::Either(Reason::InUse),
            _ => Answer::Refused(Reason::InUse),
        }
    }

    /// The answer to a reservation at an address.
    pub fn reserves_at(&self, range: Range) -> Answer {
        if !self.is_valid(range, PAGE_SIZE_64K) {
            return Answer::Refused(Reason::Invalid);
        }
        self.room(range, false)
    }

    /// The answer to a mapping at an address, whose size is one of whole pages.
    pub fn maps_at(&self, range: Range) -> Answer {
        if !self.is_valid(range, PAGE_SIZE) {
            return Answer::Refused(Reason::Invalid);
        }
        self.room(range, self.reservation_around(range).is_some())
    }

    /// The answer to freeing a range.
    pub fn frees(&self, range: Range) -> Answer {
        if !self.is_valid(range, PAGE_SIZE) {
            return Answer::Refused(Reason::Invalid);
        }
        let there = || self.mapped.iter().filter(|mapping| mapping.range.overlaps(range));
        let around = there().find(|mapping| mapping.range.holds(range));
        if around.is_some_and(|mapping| !mapping.is_ending()) {
            return Answer::Done;
        }
        match (self.reservation_around(range), there().next(), there().all(Mapping::is_ending)) {
            (None, ..) => Answer::Refused(Reason::NotFound),
            (_, None, _) => Answer::Done,
            (_, _, false) => Answer::Refused(Reason::HasMappings),
            // A mapping that is ending may be over, and its addresses are then free.
            _ => Answer::Either(around.and_then(|mapping| mapping.ending).unwrap_or(Reason::HasMappings)),
        }
    }

    /// Records that a range was freed.
    pub fn free(&mut self, range: Range) {
        let end = range.base + range.size;
        let around = self.mapped.iter().position(|mapping| !mapping.is_ending() && mapping.range.holds(range));
        if let Some(at) = around {
            let whole = self.mapped.swap_remove(at);
            let freed = whole.part(range.base, end).map(|part| Mapping { ending: Some(Reason::HasMappings), ..part });
            let rests = [whole.part(0, range.base), freed, whole.part(end, u64::MAX)];
            return self.mapped.extend(rests.into_iter().flatten());
        }
        self.take(range);
        let at = self.reserved.iter().position(|reserved| reserved.holds(range)).expect("it was reserved");
        let whole = self.reserved.swap_remove(at);
        let rests = [(whole.base, range.base), (end, whole.base + whole.size)];
        let rests = rests.into_iter().filter(|(base, end)| base < end);
        self.reserved.extend(rests.map(|(base, end)| Range { base, size: end - base }));
    }

    /// Whether `size` bytes that are aligned to `unit` are free somewhere outside reservations.
    pub fn has_room(&self, size: u64, unit: u64) -> bool {
        let mut taken: Vec<Range> = self.reserved.clone();
        taken.extend(self.mapped.iter().map(|mapping| mapping.range));
        taken.sort_by_key(|range| range.base);
        let mut start = self.first;
        for range in taken.into_iter().chain([Range { base: self.end, size: 0 }]) {
            if start.next_multiple_of(unit).checked_add(size).is_some_and(|end| end <= range.base) {
                return true;
            }
            start = start.max(range.base + range.size);
        }
        false
    }

    /// Takes a range: the mappings that were ending there are over.
    pub fn take(&mut self, range: Range) {
        self.mapped.retain(|mapping| !mapping.is_ending() || !mapping.range.overlaps(range));
    }

    /// Records that all work has ended, and all ending mappings with it.
    pub fn settle(&mut self) {
        self.mapped.retain(|mapping| !mapping.is_ending());
    }
}
