//! Choices that are legal and unlikely, made at random: what follows from them is then not rare where it is looked for.
//!
//! Each choice stands as one condition. A seed says which choices there are at all, and when each choice is made, so the
//! same inputs still have the same outputs. Without the feature `buggify` each condition is constant, and nothing of a
//! choice is compiled.

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
    /// The seed; none is never.
    #[cfg(feature = "buggify")]
    pub seed: Option<u64>,
}

/// Spreads the bits of a number over all bits (the finalizer of SplitMix64).
#[cfg(feature = "buggify")]
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

impl Buggify {
    /// Whether `choice` is made for an object at an occasion (D41): a hash of the seed and of the three, so a look more or a look
    /// less at one object changes no other draw.
    #[inline]
    pub fn makes(self, choice: Unlikely, object: u64, occasion: u64) -> bool {
        #[cfg(feature = "buggify")]
        return self.seed.is_some_and(|seed| {
            let drawn = mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15));
            let is_possible = drawn >> choice as u32 & 1 == 1;
            let of = [choice as u64, object, occasion];
            is_possible && of.iter().fold(drawn, |hash, &part| mix(hash ^ mix(!part))) % RARITY == 0
        });
        #[cfg(not(feature = "buggify"))]
        {
            _ = (choice, object, occasion);
            false
        }
    }
}
