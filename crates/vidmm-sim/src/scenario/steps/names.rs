//! Names that steps give to what they create.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::ser::Serializer;

/// The longest name, in characters.
const MAX_NAME: usize = 40;

/// Reads a name.
pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    check_name(String::deserialize(deserializer)?)
}

/// Reads a name that may be left out.
pub(super) fn optional_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    name(deserializer).map(Some)
}

/// Reads one name, or a list of them.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_any(NamesVisitor)
}

/// Writes one name, or a list of them.
pub(super) fn serialize<S: Serializer>(names: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    match names {
        [name] => serializer.serialize_str(name),
        names => serializer.collect_seq(names),
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
