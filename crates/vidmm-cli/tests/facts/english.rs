//! Plain English, held by two tests.
//!
//! The subject of a sentence is a named noun: no comment, function name or message begins with a word that stands for a noun.
//!
//! No file, document or crate gets worse. `english/counts.txt` has a line for each file: its pronoun-like words, its words, its
//! sentences with four or more pronoun-like words, its sentences ([`measure`] says how they are counted). Two shares follow: of
//! pronoun-like words among words, and of many-pronoun sentences among sentences. **A file is worse if a count is above all of**
//!
//! - the recorded share of the words (or sentences) of today: a file may grow by text no worse than its own;
//! - the recorded count, and the goal's share of added words (or sentences): good text may be added to any file, and any text may
//!   be removed. All text of a file without a line is added text, so a new file meets the goal;
//! - for pronoun-like words, the same and one more: an ordinary pronoun in a small file or in a changed sentence is no failure.
//!
//! The goal of a document is 5 % and 2 %, of a source file 8 % and 5 %. A crate is judged as one file, with the sums of its files.
//!
//! `UPDATE_EXPECTED=1 cargo test -p vidmm-cli --test facts english` writes the lower shares of better files, adds new files and
//! removes lost files; an update never raises a share. If `counts.txt` is empty or missing, the same command records every file as
//! it is. Such a new baseline is for the merge of many branches: made once, and reviewed.

mod measure;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use walkdir::WalkDir;

use self::measure::{Counts, counts, pronouns, sentences};
use crate::common::workspace;

const HEADLESS: [&str; 5] = ["Who", "What", "Whoever", "Whatever", "Nobody"];
const FOLDERS: [&str; 5] = ["crates", "docs", "fuzz", "peers", "scenarios"];
const LIST: &str = "crates/vidmm-cli/tests/facts/english/counts.txt";
const UPDATE: &str = "UPDATE_EXPECTED";

/// The files of the project with text that is read, by their paths in the workspace; no links to files.
fn files() -> Vec<PathBuf> {
    let root = workspace();
    let of_folder = |folder: &str| {
        let entries = WalkDir::new(root.join(folder)).into_iter();
        // A fuzzer or a build of C may have left files beside the sources.
        entries.filter_entry(|entry| entry.file_name() != "target" && entry.file_name() != "build")
    };
    let below = FOLDERS.iter().flat_map(|folder| of_folder(folder));
    let all = below.chain(WalkDir::new(&root).max_depth(1)).map(|entry| entry.expect("the folder can be read"));
    let all = all.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path);
    let mut found: Vec<_> = all.map(|path| path.strip_prefix(&root).expect("it is below").to_owned()).collect();
    found.sort();
    found
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
    let sources =
        files().into_iter().filter(|path| path.starts_with("crates") && path.extension().is_some_and(|e| e == "rs"));
    let sources = Vec::from_iter(sources.filter(|path| !Path::new(file!()).ends_with(path)));
    assert!(sources.len() > 500, "{} files", sources.len());
    let mut found = Vec::new();
    for path in &sources {
        let text = fs::read_to_string(workspace().join(path)).unwrap();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| is_at_fault(line)) {
            found.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
        }
    }
    assert!(found.is_empty(), "{} lines without a named subject:\n{}", found.len(), found.join("\n"));
}

/// Percents: pronoun-like words of the words, and many-pronoun sentences of the sentences.
#[derive(Clone, Copy)]
struct Goal {
    pronouns: usize,
    many: usize,
}

const DOCUMENT: Goal = Goal { pronouns: 5, many: 2 };
const SOURCE: Goal = Goal { pronouns: 8, many: 5 };

fn goal(path: &str) -> Goal {
    if path.ends_with(".md") { DOCUMENT } else { SOURCE }
}

/// The most pronoun-like words and many-pronoun sentences with which a file of these words and sentences is no worse than its record.
fn allowed(recorded: Counts, now: Counts, goal: Goal) -> (usize, usize) {
    let most = |count: usize, of: usize, of_now: usize, percent: usize, free: usize| {
        let by_share = count * of_now / of.max(1);
        by_share.max(count + of_now.saturating_sub(of) * percent / 100 + free)
    };
    (
        most(recorded.pronouns, recorded.words, now.words, goal.pronouns, 1),
        most(recorded.many, recorded.sentences, now.sentences, goal.many, 0),
    )
}

fn is_worse(recorded: Counts, now: Counts, goal: Goal) -> bool {
    let (pronouns, many) = allowed(recorded, now, goal);
    now.pronouns > pronouns || now.many > many
}

/// The record of a file that is no worse: a share falls or stays.
fn lowered(recorded: Counts, now: Counts) -> Counts {
    let mut lowered = recorded;
    if recorded.words == 0 || now.pronouns * recorded.words <= recorded.pronouns * now.words {
        (lowered.pronouns, lowered.words) = (now.pronouns, now.words);
    }
    if recorded.sentences == 0 || now.many * recorded.sentences <= recorded.many * now.sentences {
        (lowered.many, lowered.sentences) = (now.many, now.sentences);
    }
    lowered
}

fn line(path: &str, counts: Counts) -> String {
    let Counts { pronouns, words, many, sentences } = counts;
    format!("{path} {pronouns} {words} {many} {sentences}\n")
}

fn read_list(text: &str) -> BTreeMap<String, Counts> {
    let of_line = |line: &str| {
        let mut parts = line.split(' ');
        let path = parts.next().expect("a line begins with a path").to_owned();
        let mut number = || parts.next().and_then(|part| part.parse().ok()).unwrap_or_else(|| panic!("{LIST}: {line}"));
        (path, Counts { pronouns: number(), words: number(), many: number(), sentences: number() })
    };
    text.lines().map(of_line).collect()
}

/// The faults of a file or crate that is worse than its record, and its sentences with the most pronoun-like words.
fn told(name: &str, recorded: Counts, now: Counts, goal: Goal, sentences: &[String]) -> String {
    let (pronouns_allowed, many_allowed) = allowed(recorded, now, goal);
    let mut text = format!(
        "{name}: {} pronoun-like words of {} (at most {pronouns_allowed}), {} of {} sentences with four or more (at most {many_allowed})\n",
        now.pronouns, now.words, now.many, now.sentences
    );
    let mut heavy = Vec::from_iter(sentences.iter().map(|sentence| (pronouns(sentence), sentence)));
    heavy.retain(|&(count, _)| count > 1);
    heavy.sort_by_key(|&(count, _)| std::cmp::Reverse(count));
    for (count, sentence) in heavy.iter().take(5) {
        let _ = writeln!(text, "    {count}  {}", sentence.trim());
    }
    text
}

/// The crate of a file, if there is one.
fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/").and_then(|inside| inside.split('/').next())
}

/// The texts of files that are worse, and of crates whose files together are worse.
fn worse(recorded: &BTreeMap<String, Counts>, files: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut found = Vec::new();
    let mut crates = BTreeMap::<&str, (Counts, Counts)>::new();
    for (path, sentences) in files {
        let before = recorded.get(path).copied().unwrap_or_default();
        let now = counts(sentences);
        if is_worse(before, now, goal(path)) {
            found.push(told(path, before, now, goal(path), sentences));
        }
        if let Some(name) = crate_of(path) {
            let sums = crates.entry(name).or_default();
            *sums = ([sums.0, before].into_iter().sum(), [sums.1, now].into_iter().sum());
        }
    }
    let of_crates = crates.into_iter().filter(|&(_, (before, now))| is_worse(before, now, SOURCE));
    found.extend(
        of_crates.map(|(name, (before, now))| told(&format!("crate {name}, all files"), before, now, SOURCE, &[])),
    );
    found
}

#[test]
fn no_file_or_crate_reads_worse_than_recorded() {
    let root = workspace();
    let measured = files().into_iter().filter_map(|path| {
        let text = fs::read_to_string(root.join(&path)).ok()?;
        Some((path.to_str()?.replace('\\', "/"), sentences(&path, &text)?))
    });
    let measured: BTreeMap<_, _> = measured.collect();
    assert!(measured.len() > 1_000, "{} files are measured", measured.len());
    let list = root.join(LIST);
    let text = fs::read_to_string(&list).unwrap_or_default();
    let is_update = std::env::var_os(UPDATE).is_some();
    let mut recorded = read_list(&text);
    if recorded.is_empty() && is_update {
        recorded = measured.iter().map(|(path, sentences)| (path.clone(), counts(sentences))).collect();
    }
    let found = worse(&recorded, &measured);
    assert!(
        found.is_empty(),
        "{} files or crates read worse than {LIST} says; {UPDATE}=1 does not raise a share, so name things again, and say less:\n{}",
        found.len(),
        found.join("")
    );
    if is_update {
        let anew = measured.iter().map(|(path, sentences)| {
            line(path, lowered(recorded.get(path).copied().unwrap_or_default(), counts(sentences)))
        });
        fs::write(list, anew.collect::<String>()).expect("the list can be written");
    }
}

fn measured(name: &str, text: &str) -> Counts {
    counts(&sentences(Path::new(name), text).expect("such files are measured"))
}

#[test]
fn counts_are_those_of_known_sentences() {
    let two = r"The driver that encodes it is the one which the manager calls. The manager evicts the LRU victim.";
    let expected = Counts { pronouns: 4, words: 18, many: 1, sentences: 2 };
    assert_eq!(measured("a.md", two), expected);
    for line in two.split_inclusive(". ") {
        assert!(pronouns(line) == 4 || pronouns(line) == 0, "{line}");
    }
    let comment = two.replace(' ', "\n/// ");
    assert_eq!(measured("a.rs", &format!("/// {comment}\nfn f() {{}}\n")), expected);
    assert_eq!(measured("a.c", &format!("/* {two} */ int f;")), expected);
    assert_eq!(measured("a.toml", &format!("# {}\nkey = '#'", two.replace(". ", ".\n# "))), expected);
    assert_eq!(measured("a.rs", &format!("fn f() {{ g(\"{}\") }}", two.replace(". ", ". \\\n       "))), expected);
    assert_eq!(sentences(Path::new("a.png"), ""), None);
}

#[test]
fn documents_are_read_by_their_format() {
    let text = r"# What that is which it was
- It is that of which it says so,
  then and there.
- The adapter has [a segment that is local](https://it.that/which/it/those) here.

| it is what that was then | the driver | Patch writes an address into \| the buffer |
|---|---|---|
<!-- it is what that was then -->
```
it is what that was then
```
   ```text
   it is what that was then
   ```
Short text.
";
    let found = sentences(Path::new("a.md"), text).unwrap();
    let pronouns = Vec::from_iter(found.iter().map(|sentence| pronouns(sentence)));
    assert_eq!(pronouns, [7, 1, 4, 0], "{found:#?}");
}

#[test]
fn sources_are_read_by_their_tokens() {
    let text = r##"//! The first paragraph is here.
//!
//! ```
//! it is what that was then
//! ```
/// The second one has a link to [`that`](crate::that::it) here.
#[error("the {that} segment has no room, \"it says\", for that")]
fn a_name_that_tests_have(a: &'static str, b: char) {
    let url = "http://a.b/it//that"; // The remark that follows some code.
    let (c, d, e) = ('"', '\'', b'"');
    r#"it is what that "was" then"#; "it\n is what that was then"
}
"##;
    let found = sentences(Path::new("a.rs"), text).unwrap();
    let pronouns = Vec::from_iter(found.iter().map(|sentence| pronouns(sentence)));
    assert_eq!(pronouns, [0, 2, 2, 1, 1, 3], "{found:#?}");
}

#[test]
fn a_planted_worse_file_is_found() {
    let good = "The manager evicts the LRU victim of the segment. The driver encodes the transfer of each page. ";
    let bad = r"It is that of which they say what those others were then. ";
    let path = "crates/a/src/a.rs".to_owned();
    let comments = |text: &str| sentences(Path::new("a.rs"), &format!("// {text}\n")).unwrap();
    let before = BTreeMap::from([(path.clone(), counts(&comments(&(good.repeat(40) + &bad.repeat(10)))))]);
    let is_found = |text: &str| !worse(&before, &BTreeMap::from([(path.clone(), comments(text))])).is_empty();
    assert!(!is_found(&(good.repeat(40) + &bad.repeat(10))), "the file as recorded");
    assert!(is_found(&(good.repeat(40) + &bad.repeat(11))), "bad text added");
    assert!(is_found(&(good.repeat(39) + &bad.repeat(11))), "bad text in place of good");
    assert!(!is_found(&(good.repeat(99) + &bad.repeat(10))), "good text added");
    assert!(!is_found(&(good.repeat(20) + &bad.repeat(10))), "good text removed");
    assert!(!is_found(&(good.repeat(40) + &bad.repeat(10) + "The manager asks for it.")), "an ordinary pronoun");
    // A new file, and a crate of which each file got better while its worst file grew.
    let new = |text: &str| worse(&before, &BTreeMap::from([("docs/new.md".to_owned(), comments(text))]));
    assert!(new(&good.repeat(9)).is_empty() && new("The manager asks for it.").is_empty());
    assert_eq!(new(&(good.repeat(9) + bad)).len(), 1);
    let other = "crates/a/src/b.rs".to_owned();
    let of_crate = |many: usize| {
        let files =
            [(path.clone(), good.repeat(40) + &bad.repeat(10)), (other.clone(), (good.to_owned() + bad).repeat(many))];
        BTreeMap::from(files.map(|(path, text)| (path, comments(&text))))
    };
    let recorded = of_crate(10).into_iter().map(|(path, sentences)| (path, counts(&sentences))).collect();
    let found = worse(&recorded, &of_crate(30));
    assert!(found.len() == 1 && found[0].starts_with("crate a, all files: "), "{found:?}");
}

#[test]
fn an_update_never_raises_a_share() {
    let recorded = Counts { pronouns: 10, words: 100, many: 2, sentences: 10 };
    let with = |pronouns, words, many, sentences| Counts { pronouns, words, many, sentences };
    assert_eq!(lowered(recorded, with(12, 150, 2, 12)), with(12, 150, 2, 12));
    assert_eq!(lowered(recorded, with(8, 50, 1, 5)), with(10, 100, 1, 5));
    assert_eq!(lowered(Counts::default(), recorded), recorded);
}
