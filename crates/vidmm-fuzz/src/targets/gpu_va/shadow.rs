//! Which addresses of a process are taken, by a plain list: what each call must answer.

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
    /// It was freed, or its allocation destroyed; work that was submitted before may still use it.
    pub is_ending: bool,
}

/// What a call may answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Done,
    Refused(Reason),
    /// Either: it depends on whether what was freed before is over.
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

    /// What stands against taking a range that is valid, which only what was freed may have left.
    fn room(&self, range: Range, may_be_reserved: bool) -> Answer {
        let reserved = self.reserved.iter().filter(|_| !may_be_reserved).any(|reserved| reserved.overlaps(range));
        let mut mapped = self.mapped.iter().filter(|mapping| mapping.range.overlaps(range)).peekable();
        match (reserved, mapped.peek().is_some(), mapped.all(|mapping| mapping.is_ending)) {
            (false, false, _) => Answer::Done,
            (false, true, true) => Answer::Either(Reason::InUse),
            _ => Answer::Refused(Reason::InUse),
        }
    }

    /// What a reservation at an address answers.
    pub fn reserves_at(&self, range: Range) -> Answer {
        if !self.is_valid(range, PAGE_SIZE_64K) {
            return Answer::Refused(Reason::Invalid);
        }
        self.room(range, false)
    }

    /// What a mapping at an address answers, whose size is one of whole pages.
    pub fn maps_at(&self, range: Range) -> Answer {
        if !self.is_valid(range, PAGE_SIZE) {
            return Answer::Refused(Reason::Invalid);
        }
        self.room(range, self.reservation_around(range).is_some())
    }

    /// What freeing a range answers.
    pub fn frees(&self, range: Range) -> Answer {
        if let Some(mapping) = self.mapped.iter().find(|mapping| mapping.range == range) {
            let answer = if mapping.is_ending { Answer::Refused(Reason::NotFound) } else { Answer::Done };
            // What is ending may be over, and the reservation that it filled is then free to go.
            return if mapping.is_ending { self.unreserves(range, answer) } else { answer };
        }
        self.unreserves(range, Answer::Refused(Reason::NotFound))
    }

    fn unreserves(&self, range: Range, otherwise: Answer) -> Answer {
        if !self.reserved.contains(&range) {
            return otherwise;
        }
        let mut mapped = self.mapped.iter().filter(|mapping| mapping.range.overlaps(range)).peekable();
        match (mapped.peek().is_some(), mapped.clone().all(|mapping| mapping.is_ending)) {
            (false, _) => Answer::Done,
            (true, true) if mapped.any(|mapping| mapping.range == range) => Answer::Either(Reason::NotFound),
            (true, true) => Answer::Either(Reason::HasMappings),
            (true, false) => Answer::Refused(Reason::HasMappings),
        }
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

    /// The range is taken: what was ending there is over.
    pub fn take(&mut self, range: Range) {
        self.mapped.retain(|mapping| !mapping.is_ending || !mapping.range.overlaps(range));
    }

    /// All work has ended, and so has what was freed.
    pub fn settle(&mut self) {
        self.mapped.retain(|mapping| !mapping.is_ending);
    }
}
