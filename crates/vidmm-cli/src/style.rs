//! Colours, and numbers for people.

use anstyle::{AnsiColor, Color, Style};

pub const GOOD: Style = Style::new().bold().fg_color(Some(Color::Ansi(AnsiColor::Green)));
pub const BAD: Style = Style::new().bold().fg_color(Some(Color::Ansi(AnsiColor::Red)));
pub const BOLD: Style = Style::new().bold();
pub const VERB: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Cyan)));

/// A number with its thousands apart.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits are ASCII")).collect();
    groups.join(",")
}

/// A count with its noun.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// A text on one line of a terminal: a name that a file or a folder gave moves no cursor.
pub fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::{counted, number};

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(number));
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(counted(1, "process", "processes"), "1 process");
        assert_eq!(counted(1000, "process", "processes"), "1,000 processes");
    }
}
