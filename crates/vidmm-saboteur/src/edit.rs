//! Edits: how a mistake is put beside what is right.

use std::{error::Error, fmt, ops::Range};

use crate::{BUGS, Bug};

/// A change of a source. Its `right` text occurs once in the file; spaces and line breaks do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edit {
    /// Another expression.
    Expression {
        /// The right text.
        right: &'static str,
        /// The mistake.
        wrong: &'static str,
    },
    /// Other statements.
    Statement {
        /// The right text.
        right: &'static str,
        /// The mistake.
        wrong: &'static str,
    },
    /// Statements that are left out.
    Without(&'static str),
    /// Statements that come before others.
    Before {
        /// The right text.
        right: &'static str,
        /// The mistake.
        wrong: &'static str,
    },
}

impl Edit {
    /// The text that must be there.
    const fn right(self) -> &'static str {
        match self {
            Self::Expression { right, .. }
            | Self::Statement { right, .. }
            | Self::Without(right)
            | Self::Before { right, .. } => right,
        }
    }

    /// The text that takes the place of `right` as it stands in the file.
    fn replacement(self, number: usize, right: &str) -> String {
        let is_planted = format!("::vidmm_saboteur::is_planted({number})");
        match self {
            Self::Expression { wrong, .. } => format!("(if {is_planted} {{ {wrong} }} else {{ {right} }})"),
            Self::Statement { wrong, .. } => format!("if {is_planted} {{ {wrong} }} else {{ {right} }}"),
            Self::Without(_) => format!("if !{is_planted} {{ {right} }}"),
            Self::Before { wrong, .. } => format!("if {is_planted} {{ {wrong} }} {right}"),
        }
    }
}

/// An edit that does not fit its file any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MisfitError {
    /// The bug.
    pub bug: &'static str,
    /// The file, below the core's `src`.
    pub file: &'static str,
    /// How often the text that is right stands there.
    pub times: usize,
}

impl fmt::Display for MisfitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bug, file, times } = self;
        write!(f, "the text that `{bug}` changes stands {times} times in {file}, not once: change its edit in bugs.rs")
    }
}

impl Error for MisfitError {}

/// The source of a file of the core, with all of its bugs.
///
/// # Errors
///
/// If an edit does not fit: the core has changed where the bug is made.
pub fn sabotage(file: &str, source: &str) -> Result<String, MisfitError> {
    let mut source = source.to_owned();
    for (bug, number) in BUGS.iter().zip(1..).filter(|(bug, _)| bug.file == file) {
        let range = place_of(bug, &source)?;
        let replacement = bug.edit.replacement(number, &source[range.clone()]);
        source.replace_range(range, &replacement);
    }
    Ok(source)
}

/// Where the text is that a bug changes.
fn place_of(bug: &Bug, source: &str) -> Result<Range<usize>, MisfitError> {
    let is_text = |&(_, char): &(usize, char)| !char.is_whitespace();
    let right: Vec<char> = bug.edit.right().chars().filter(|char| !char.is_whitespace()).collect();
    let text: Vec<(usize, char)> = source.char_indices().filter(is_text).collect();
    let matches = |window: &&[(usize, char)]| window.iter().map(|&(_, char)| char).eq(right.iter().copied());
    let places: Vec<&[(usize, char)]> = text.windows(right.len()).filter(matches).collect();
    let [place] = places[..] else {
        return Err(MisfitError { bug: bug.name, file: bug.file, times: places.len() });
    };
    let (last, char) = place[place.len() - 1];
    Ok(place[0].0..last + char.len_utf8())
}
