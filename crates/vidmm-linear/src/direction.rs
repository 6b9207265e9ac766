//! From which end room is looked for.

/// The end of a segment, or of a bank, from which room is looked for (SEG-42, SEG-44).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Direction {
    /// The lowest addresses first.
    #[default]
    FromStart,
    /// The highest first.
    #[doc(alias = "FromEndOfSegment")]
    FromEnd,
}
