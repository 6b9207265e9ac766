//! Words that a table names by numbers.

use std::borrow::Cow;

use serde_json::Value;

/// Words in the order in which they came, each once.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<Cow<'static, str>>);

impl Names {
    /// The number of a word.
    pub fn number(&mut self, name: impl Into<Cow<'static, str>>) -> u64 {
        let name = name.into();
        let known = self.0.iter().position(|other| *other == name);
        known.unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        }) as u64
    }

    pub fn into_value(self) -> Value {
        self.0.into()
    }
}
