//! The names of the objects that steps create: reading, writing, and text.

use std::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::list::list;

/// The longest name, in characters.
const MAX_NAME: usize = 40;

/// A name, one that may be left out, or a list of which one name is short for itself.
pub(super) trait Named: Serialize + Sized {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }

    /// In a sentence.
    fn in_words(&self) -> String;
}

/// Reads names.
pub(super) fn deserialize<'de, T: Named, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer)
}

/// Writes names.
pub(super) fn serialize<T: Named, S: Serializer>(names: &T, serializer: S) -> Result<S::Ok, S::Error> {
    names.write(serializer)
}

impl Named for String {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        check_name(String::deserialize(deserializer)?)
    }

    fn in_words(&self) -> String {
        self.clone()
    }
}

impl Named for Option<String> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::read(deserializer).map(Some)
    }

    fn in_words(&self) -> String {
        self.clone().unwrap_or_default()
    }
}

impl Named for Vec<String> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NamesVisitor)
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self[..] {
            [name] => serializer.serialize_str(name),
            names => serializer.collect_seq(names),
        }
    }

    fn in_words(&self) -> String {
        list(self)
    }
}

pub(super) fn check_name<E: Error>(name: String) -> Result<String, E> {
    let plain = |character: char| character.is_alphanumeric() || "_-.'".contains(character);
    if (1..=MAX_NAME).contains(&name.chars().count()) && name.chars().all(plain) {
        return Ok(name);
    }
    Err(E::custom(format!("`{name}` is no name; a name has 1 to {MAX_NAME} letters, digits, `-`, `_`, `.` or `'`")))
}

struct NamesVisitor;

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name, or a list of names")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(vec![check_name(text.to_owned())?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element()? {
            names.push(check_name(name)?);
        }
        Ok(names)
    }
}
