//! The trait of all steps.

use std::fmt;

use super::known::Known;

/// A step, by the keys of its table: its verb, and those that go with it. serde reads and writes them.
pub(super) trait Verb {
    /// The rest of its text for people, behind the verb.
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Shows all of its names, and checks what can be checked before the step is made.
    ///
    /// # Errors
    ///
    /// Returns the problem, and what to write instead.
    fn check(&mut self, known: &mut Known) -> Result<(), String>;
}

/// Defines steps that have no key but their verb, whose value is a name or a list. Each row has the verb, the step, its
/// field, and the kind of the names, as [`Known`] is shown them.
macro_rules! only_names {
    ($($(#[$doc:meta])* $verb:literal => $step:ident { $field:ident: $names:ty }, $shown:ident $kind:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
            #[serde(deny_unknown_fields)]
            pub struct $step {
                /// The names.
                #[serde(rename = $verb, with = "super::names")]
                pub $field: $names,
            }

            impl super::verb::Verb for $step {
                fn words(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    write!(f, " {}", super::names::Named::in_words(&self.$field))
                }

                fn check(&mut self, known: &mut super::known::Known) -> Result<(), String> {
                    known.$shown(super::known::Kind::$kind, &mut self.$field)
                }
            }
        )*
    };
}

pub(super) use only_names;
