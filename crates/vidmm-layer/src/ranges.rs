//! Ranges of bytes, and what a submission does to the content.

use std::collections::BTreeMap;
use std::ops::Range;

/// The access to the bytes of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The content is needed, and stays.
    Read,
    /// All bytes get new content, and the former content is not needed.
    Write,
    /// The content may be needed, and may change.
    Update,
}

impl Access {
    /// The word in a trace.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Update => "update",
        }
    }

    /// This access, and behind it another.
    pub fn then(self, next: Self) -> Self {
        match (self, next) {
            (Self::Write, _) => Self::Write,
            (Self::Read, Self::Read) => Self::Read,
            _ => Self::Update,
        }
    }
}

/// The ranges of a buffer that a submission uses. No two ranges have a byte in common.
#[derive(Clone, Debug, Default)]
pub struct Ranges(BTreeMap<u64, (u64, Access)>);

impl Ranges {
    /// Adds an access behind those before.
    pub fn add(&mut self, range: Range<u64>, access: Access) {
        if range.is_empty() {
            return;
        }
        self.split(range.start);
        self.split(range.end);
        let known = Vec::from_iter(self.0.range(range.clone()).map(|(&start, &(end, before))| (start, end, before)));
        let mut at = range.start;
        for (start, end, before) in known {
            if at < start {
                self.0.insert(at, (start, access));
            }
            self.0.insert(start, (end, before.then(access)));
            at = end;
        }
        if at < range.end {
            self.0.insert(at, (range.end, access));
        }
    }

    /// Ends a range at `at`, if a range goes on there.
    fn split(&mut self, at: u64) {
        if let Some((_, piece)) = self.0.range_mut(..at).next_back()
            && piece.0 > at
        {
            let behind = *piece;
            piece.0 = at;
            self.0.insert(at, behind);
        }
    }

    /// The ranges in ascending order. Neighbours differ in their access.
    pub fn joined(&self) -> Vec<(Range<u64>, Access)> {
        let mut joined: Vec<(Range<u64>, Access)> = Vec::new();
        for (&start, &(end, access)) in &self.0 {
            match joined.last_mut() {
                Some((last, same)) if last.end == start && *same == access => last.end = end,
                _ => joined.push((start..end, access)),
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Ranges};

    const ACCESSES: [Access; 3] = [Access::Read, Access::Write, Access::Update];

    /// Each byte by itself is the model.
    #[test]
    fn ranges_do_to_each_byte_what_was_added_in_order() {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let (mut ranges, mut bytes) = (Ranges::default(), [None; 24]);
            for _ in 0..draw(9) {
                let (start, length, access) = (draw(24), draw(12), ACCESSES[draw(3) as usize]);
                let end = (start + length).min(24);
                ranges.add(start..end, access);
                for byte in &mut bytes[start as usize..end as usize] {
                    *byte = Some(byte.map_or(access, |before: Access| before.then(access)));
                }
            }
            let mut told = [None; 24];
            let joined = ranges.joined();
            for (range, access) in &joined {
                told[range.start as usize..range.end as usize].fill(Some(*access));
            }
            assert_eq!(told, bytes);
            let is_apart =
                |pair: &[(std::ops::Range<u64>, Access)]| pair[0].0.end < pair[1].0.start || pair[0].1 != pair[1].1;
            assert!(joined.windows(2).all(is_apart), "{joined:?}");
        }
    }

    #[test]
    fn content_that_is_overwritten_first_is_not_needed() {
        assert_eq!(Access::Write.then(Access::Update), Access::Write);
        assert_eq!(Access::Read.then(Access::Write), Access::Update);
        assert_eq!(Access::Update.then(Access::Write), Access::Update);
    }
}
