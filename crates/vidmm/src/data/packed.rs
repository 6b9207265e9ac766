//! Numbers of less than eight bytes, so that others beside them make a word.

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packed<const BYTES: usize>([u8; BYTES]);

/// A number of seven bytes.
pub(crate) type U56 = Packed<7>;

/// A number of six bytes.
pub(crate) type U48 = Packed<6>;

impl<const BYTES: usize> Packed<BYTES> {
    /// # Panics
    ///
    /// If the number has more bytes.
    pub fn new(number: u64) -> Self {
        let bytes = number.to_le_bytes();
        let (low, high) = bytes.split_at(BYTES);
        assert!(high.iter().all(|&byte| byte == 0), "{number:#x} has more than {BYTES} bytes");
        let mut packed = Self::default();
        packed.0.copy_from_slice(low);
        packed
    }

    pub fn get(self) -> u64 {
        let mut bytes = [0; size_of::<u64>()];
        bytes[..BYTES].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }
}

impl<const BYTES: usize> Default for Packed<BYTES> {
    fn default() -> Self {
        Self([0; BYTES])
    }
}

impl<const BYTES: usize> core::fmt::Debug for Packed<BYTES> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.get().fmt(f)
    }
}

/// A number of seven bytes behind a byte, in one load.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tagged([u8; 8]);

impl Tagged {
    pub fn new(number: u64, byte: u8) -> Self {
        let mut tagged = Self([byte; 8]);
        tagged.set_number(number);
        tagged
    }

    #[inline(always)]
    pub fn number(self) -> u64 {
        u64::from_le_bytes(self.0) >> u8::BITS
    }

    #[inline(always)]
    pub fn byte(self) -> u8 {
        self.0[0]
    }

    /// # Panics
    ///
    /// If the number has more than seven bytes.
    #[inline(always)]
    pub fn set_number(&mut self, number: u64) {
        assert!(number >> (u64::BITS - u8::BITS) == 0, "{number:#x} has more than 7 bytes");
        self.0 = (number << u8::BITS | u64::from(self.0[0])).to_le_bytes();
    }

    #[inline(always)]
    pub fn set_byte(&mut self, byte: u8) {
        self.0[0] = byte;
    }
}

impl core::fmt::Debug for Tagged {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (self.number(), self.byte()).fmt(f)
    }
}
