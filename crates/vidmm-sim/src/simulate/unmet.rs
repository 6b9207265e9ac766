//! The points that random worlds do not come to, and why.

/// A point of a campaign's coverage, and the reason why no world gets there.
pub const UNMET: &[(&str, &str)] = &[("answer any", "no call gives it")];
