//! Columns and values of tables.

use std::borrow::Cow;

use super::about::about;

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The kind of its values. Each may be missing.
    pub kind: Kind,
}

/// A kind of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Integers of 64 bits.
    Integer,
    /// Text, of which few different ones are repeated often.
    Name,
    /// Text.
    Text,
}

impl Column {
    /// The meaning of the column; none if nobody has described the name.
    pub fn about(&self) -> Option<&'static str> {
        about(self.name)
    }

    /// A column of integers.
    pub const fn integer(name: &'static str) -> Self {
        Self { name, kind: Kind::Integer }
    }

    /// A column of names.
    pub const fn name(name: &'static str) -> Self {
        Self { name, kind: Kind::Name }
    }

    /// A column of text.
    pub const fn text(name: &'static str) -> Self {
        Self { name, kind: Kind::Text }
    }
}

/// A value of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// No value.
    Missing,
    /// An integer. Files have those up to 2^63 - 1, and that one for all above.
    Integer(u64),
    /// A name or a text.
    Text(Cow<'a, str>),
}

impl Value<'_> {
    /// The value with a text of its own.
    pub(super) fn into_owned(self) -> Value<'static> {
        match self {
            Self::Missing => Value::Missing,
            Self::Integer(integer) => Value::Integer(integer),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
        }
    }

    /// The integer that files have.
    pub(super) fn signed(integer: u64) -> i64 {
        i64::try_from(integer).unwrap_or(i64::MAX)
    }
}

impl From<u64> for Value<'_> {
    fn from(integer: u64) -> Self {
        Self::Integer(integer)
    }
}

impl From<u32> for Value<'_> {
    fn from(integer: u32) -> Self {
        Self::Integer(integer.into())
    }
}

impl From<bool> for Value<'_> {
    fn from(is: bool) -> Self {
        Self::Integer(is.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl<K> From<vidmm::Id<K>> for Value<'_> {
    fn from(id: vidmm::Id<K>) -> Self {
        Self::Integer(id.to_bits())
    }
}
