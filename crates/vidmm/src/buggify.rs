//! Choices that are legal and unlikely, made at random: what follows from them is then not rare where it is looked for.
//!
//! Each stands as one condition where it is made. A seed says which of the choices there are at all, and when each is
//! made, so that the same inputs still have the same outputs. Without the feature `buggify` that condition is constant
//! and nothing of it is compiled.

/// An unlikely choice.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unlikely {
    /// A window of the paging process shows no more than 64 KiB.
    CutWindow,
    /// A paging buffer is submitted after an operation, however much room it has left.
    CloseBuffer,
    /// One more allocation goes than room is wanted for.
    EvictMore,
    /// Work that could be handed to its engine is so a moment later.
    HoldPacket,
    /// Requests that could be granted are so a moment later.
    HoldRequests,
    /// A part of a transfer between physical places has no more than 64 KiB.
    CutTransfer,
}

/// How much later, in nanoseconds, a request that is held back is looked at again.
pub(crate) const MOMENT: u64 = 1_000;

/// One of so many times a choice is made that there is.
#[cfg(feature = "buggify")]
const RARITY: u64 = 8;

/// When unlikely choices are made; never without the feature.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Buggify {
    /// None is never.
    #[cfg(feature = "buggify")]
    pub drawn: Option<Drawn>,
}

/// The choices that are drawn from a seed.
#[cfg(feature = "buggify")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    choices: u64,
    state: u64,
}

#[cfg(feature = "buggify")]
impl Drawn {
    pub fn new(seed: u64) -> Self {
        let mut drawn = Self { choices: 0, state: (seed ^ 0x9E37_79B9_7F4A_7C15).max(1) };
        // The first numbers of small seeds are much alike.
        (0..8).for_each(|_| drawn.choices = drawn.next());
        drawn
    }

    /// Xorshift.
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

impl Buggify {
    /// Whether `choice` is made this time.
    #[inline]
    pub fn makes(&mut self, choice: Unlikely) -> bool {
        #[cfg(feature = "buggify")]
        return self.drawn.as_mut().is_some_and(|drawn| {
            let is_possible = drawn.choices >> (32 + choice as u32) & 1 == 1;
            is_possible && drawn.next() >> 32 & (RARITY - 1) == 0
        });
        #[cfg(not(feature = "buggify"))]
        {
            _ = choice;
            false
        }
    }
}
