//! A number of seven bytes, so that one byte beside it makes a word.

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct U56([u8; 7]);

impl U56 {
    /// # Panics
    ///
    /// If the number has more than 56 bits.
    pub fn new(number: u64) -> Self {
        let [low @ .., high] = number.to_le_bytes();
        assert!(high == 0, "{number:#x} has more than 56 bits");
        Self(low)
    }

    pub fn get(self) -> u64 {
        let [a, b, c, d, e, f, g] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, 0])
    }
}

impl core::fmt::Debug for U56 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.get().fmt(f)
    }
}
