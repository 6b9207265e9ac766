//! Texts for people.

/// The text with at most `most` characters. A longer text is cut in the middle: a third of the rest is the start, and two thirds are
/// the end, which has the ending of a name or the remedy of an error.
pub fn cut(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let (head, tail) = (most / 3, most - most / 3 - 1);
    text.chars().take(head).chain(['…']).chain(text.chars().skip(length - tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_long_text_keeps_its_start_and_its_end() {
        assert_eq!(cut("scenario.toml", 13), "scenario.toml");
        assert_eq!(cut("a-long-name-of-a-scenario.toml", 13), "a-lo…rio.toml");
        assert_eq!(cut("ääääääääääää", 4), "ä…ää");
    }
}
