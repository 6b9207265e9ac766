//! A hole: a link of the chain by place, and of a list by size.

use super::run::Run;

/// The index of a hole.
pub(super) type HoleIndex = u32;

/// A range of free pages.
#[derive(Clone, Debug)]
pub(super) struct Hole {
    pub run: Run,
    /// The holes before and behind it in the segment.
    pub before: HoleIndex,
    pub after: HoleIndex,
    pub link: Link,
}

/// A hole's neighbours in its list.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Link {
    pub previous: HoleIndex,
    pub next: HoleIndex,
}
