//! Something in error, and whether that is expected.

/// Something that is in error, and whether a step expects that.
#[derive(Debug)]
pub(crate) struct InError<T> {
    pub why: T,
    pub is_expected: bool,
}

impl<T> InError<T> {
    pub fn unexpected(why: T) -> Self {
        Self { why, is_expected: false }
    }
}
