//! The subject of a sentence is a named noun: no comment, test name or message begins with a word that stands for one.

use std::{
    fs,
    path::{Path, PathBuf},
};

const HEADLESS: [&str; 5] = ["Who", "What", "Whoever", "Whatever", "Nobody"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn is_headless(text: &str) -> bool {
    let first = text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
    HEADLESS.contains(&first) && !text.trim_end().ends_with('?')
}

/// The faults of a line: a comment that begins so, a string that begins so, or a function named so.
fn is_at_fault(line: &str) -> bool {
    let line = line.trim_start();
    let comment = ["//! ", "/// ", "// "].iter().find_map(|start| line.strip_prefix(start));
    let name = line.split_once("fn ").map(|(_, name)| name.split('_').next().unwrap());
    let is_named = name.is_some_and(|first| HEADLESS.iter().any(|word| word.to_lowercase() == first));
    comment.is_some_and(is_headless)
        || is_named
        || line.split('"').skip(1).step_by(2).any(|text| text.contains(' ') && is_headless(text))
}

#[test]
fn sentences_have_a_named_subject() {
    assert!(is_at_fault("/// What a driver does."));
    assert!(is_at_fault("    fn whoever_waits_is_told() {"));
    assert!(is_at_fault(r#"    #[error("Nobody has asked for {0}")]"#));
    assert!(!is_at_fault("/// The work of a driver; what it does."));
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    sources(crates, &mut files);
    files.sort();
    assert!(files.len() > 500, "{} files", files.len());
    let mut found = Vec::new();
    for path in files.iter().filter(|path| !path.ends_with(file!().rsplit('/').next().unwrap())) {
        let text = fs::read_to_string(path).unwrap();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| is_at_fault(line)) {
            found.push(format!("{}:{}: {}", path.strip_prefix(crates).unwrap().display(), number + 1, line.trim()));
        }
    }
    assert!(found.is_empty(), "{} lines without a named subject:\n{}", found.len(), found.join("\n"));
}
