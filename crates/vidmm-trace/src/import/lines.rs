//! The lines of a trace, and errors that point at them.

use super::ImportError;

/// The most characters of a line that an error quotes.
const EXCERPT_CHARS: usize = 60;

/// The lines of a trace that are not blank.
pub(super) struct Lines<'a> {
    /// The name of the trace.
    pub(super) name: &'a str,
    first: Line<'a>,
    text: &'a str,
}

/// One line of a trace.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    /// Its number, counted from 1.
    pub(super) number: usize,
    /// Its text without white space around it.
    pub(super) text: &'a str,
    name: &'a str,
}

impl<'a> Lines<'a> {
    /// Takes the bytes as lines of text.
    pub(super) fn new(name: &'a str, bytes: &'a [u8]) -> Result<Self, ImportError> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let good = &bytes[..error.valid_up_to()];
            let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
            ImportError::NotText { name: name.to_owned(), line }
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match numbered(name, text).next() {
            Some(first) => Ok(Self { name, first, text }),
            None => Err(ImportError::Empty { name: name.to_owned() }),
        }
    }

    /// Returns the first line.
    pub(super) fn first(&self) -> Line<'a> {
        self.first
    }

    /// Returns all lines in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Line<'a>> {
        numbered(self.name, self.text)
    }

    /// The error that the first line has no known format.
    pub(super) fn unknown(&self) -> ImportError {
        let Line { number: line, text, name } = self.first;
        ImportError::Unknown { name: name.to_owned(), line, found: excerpt(text) }
    }
}

impl Line<'_> {
    /// The error that other text was expected in place of the quoted text.
    pub(super) fn expected(&self, found: &str, expected: &str) -> ImportError {
        let found = if found.is_empty() { "nothing".to_owned() } else { format!("`{}`", excerpt(found)) };
        self.garbled(found, expected.to_owned())
    }

    /// The error that this line has `found` in place of `expected`.
    pub(super) fn garbled(&self, found: String, expected: String) -> ImportError {
        ImportError::Line { name: self.name.to_owned(), line: self.number, found, expected }
    }

    /// The error that this line changes a property of a tensor.
    pub(super) fn changed(&self, change: Change) -> ImportError {
        let Change { tensor, what, was, now, first_line } = change;
        let name = self.name.to_owned();
        ImportError::Changed { name, line: self.number, tensor, what, now, was, first_line }
    }
}

/// The difference between two lines that name one tensor.
pub(super) struct Change {
    pub(super) tensor: u64,
    pub(super) what: &'static str,
    pub(super) was: u64,
    pub(super) now: u64,
    pub(super) first_line: usize,
}

/// Numbers the lines from 1 and leaves out the blank ones.
fn numbered<'a>(name: &'a str, text: &'a str) -> impl Iterator<Item = Line<'a>> {
    let lines = text.lines().map(str::trim).zip(1..);
    lines.filter(|(text, _)| !text.is_empty()).map(move |(text, number)| Line { number, text, name })
}

/// The start of the text, with control characters escaped.
fn excerpt(text: &str) -> String {
    let start: String = text.chars().take(EXCERPT_CHARS).collect();
    let dots = if start.len() < text.len() { "..." } else { "" };
    let escaped: String = start.chars().map(escape).collect();
    format!("{escaped}{dots}")
}

/// The character itself, or its escape where it would not print.
fn escape(c: char) -> String {
    if c.is_control() { c.escape_default().to_string() } else { c.to_string() }
}
