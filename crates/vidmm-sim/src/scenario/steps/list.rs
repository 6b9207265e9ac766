//! Lists of names in a sentence.

/// Names with commas between them. Four or more that are numbered one after another are the first and the last.
pub(super) fn list(names: &[String]) -> String {
    let mut parts = Vec::new();
    let mut rest = names;
    while let Some(first) = rest.first() {
        let length = 1 + rest.windows(2).take_while(|pair| follows(&pair[0], &pair[1])).count();
        let (run, after) = rest.split_at(length);
        if length >= 4 {
            parts.push(format!("{first} to {}", run[length - 1]));
        } else {
            parts.extend(run.iter().cloned());
        }
        rest = after;
    }
    parts.join(", ")
}

/// Whether `next` is `name` with the next number behind it.
fn follows(name: &str, next: &str) -> bool {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (stem, number) = name.split_at(name.len() - digits);
    let after = number.parse::<u64>().ok().and_then(|number| number.checked_add(1));
    after.is_some_and(|after| next == format!("{stem}{after}"))
}

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn long_runs_of_numbered_names_are_shortened() {
        let listed = |names: &[&str]| list(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(listed(&[]), "");
        assert_eq!(listed(&["A", "B", "C", "D"]), "A, B, C, D");
        assert_eq!(listed(&["A1", "A2", "A3"]), "A1, A2, A3");
        assert_eq!(listed(&["B", "A8", "A9", "A10", "A11", "A1"]), "B, A8 to A11, A1");
        assert_eq!(listed(&["A1", "A2", "A3", "A4", "B5", "B6"]), "A1 to A4, B5, B6");
    }
}
