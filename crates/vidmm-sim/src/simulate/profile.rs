//! The kinds of worlds.

use std::fmt;
use std::str::FromStr;

/// The worlds that a seed may draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// Every kind: half of them with mistakes of programs, drivers and engines.
    #[default]
    Any,
    /// No program, driver or engine makes a mistake.
    Calm,
    /// Processes sleep in turns for long, while allocations fill the memory; mistakes as in [`Any`](Self::Any).
    Sleepers,
    /// Processes reserve memory, change their bands, and evict allocations only if necessary; mistakes as in [`Any`](Self::Any).
    Rivals,
    /// Programs submit work without a pause, or in turn, while memory becomes free and is reserved; mistakes as in
    /// [`Any`](Self::Any).
    Streams,
    /// 64 allocations on a discrete GPU: the world for measurements of speed.
    Speed,
}

impl Profile {
    const ALL: [(&'static str, Self); 6] = [
        ("any", Self::Any),
        ("calm", Self::Calm),
        ("sleepers", Self::Sleepers),
        ("rivals", Self::Rivals),
        ("streams", Self::Streams),
        ("speed", Self::Speed),
    ];
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|(name, _)| *name == text);
        let names = Self::ALL.map(|(name, _)| format!("`{name}`")).join(", ");
        known.map(|(_, profile)| profile).ok_or_else(|| format!("`{text}` is no profile; the profiles are {names}"))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::ALL.into_iter().find(|(_, profile)| profile == self);
        f.write_str(known.map_or("", |(name, _)| name))
    }
}
