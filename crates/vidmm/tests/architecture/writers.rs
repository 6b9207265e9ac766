//! Each datum has one writer: only the part with a field or a flag changes the field or the flag.
//!
//! A write is an assignment, a mutable borrow, or a call of a method of a collection that changes the collection. A visible field is
//! known by name, and a name in two structs is left out. A file with a private field of that name writes the private field. A part is
//! no datum: other parts call the methods of a part.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, order, sources};

/// The methods that change a collection, an option or a flag word.
const CHANGING: &[&str] = &[
    "insert",
    "remove",
    "push",
    "pop",
    "push_back",
    "push_front",
    "pop_front",
    "pop_back",
    "pop_first",
    "pop_last",
    "take",
    "replace",
    "retain",
    "clear",
    "extend",
    "append",
    "drain",
    "truncate",
    "entry",
    "get_or_insert",
    "get_or_insert_with",
    "get_mut",
    "iter_mut",
    "values_mut",
    "as_mut",
    "last_mut",
    "set",
];

/// The flags of a record, by the type of the flags.
const FLAGS: &[&str] = &["AllocationState", "EntryFlags"];

/// The visible fields with a name that occurs in one struct of the core.
fn fields(sources: &[Source]) -> BTreeSet<&str> {
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    for line in sources.iter().filter(|source| !is_public_face(source)).flat_map(|source| source.code.lines()) {
        let field = line.trim().strip_prefix("pub ").or_else(|| line.trim().strip_prefix("pub(crate) "));
        let name = field.and_then(|field| field.split_once(": ")).map(|(name, _)| name);
        if let Some(name) = name.filter(|name| name.chars().all(|letter| letter == '_' || letter.is_alphanumeric())) {
            *known.entry(name).or_default() += 1;
        }
    }
    let (parts, _) = order(sources);
    let is_one = |&(name, number): &(&str, u32)| number == 1 && !parts.contains(&name);
    known.into_iter().filter(is_one).map(|(name, _)| name).collect()
}

/// The private fields of the structs in a file.
fn private_fields(code: &str) -> BTreeSet<&str> {
    let mut is_in_struct = false;
    let mut private = BTreeSet::new();
    for line in code.lines() {
        match line.trim_end() {
            line if line.contains("struct ") && line.ends_with('{') => is_in_struct = true,
            "}" => is_in_struct = false,
            line if is_in_struct && !line.trim().starts_with("pub") => {
                private.extend(line.trim().split_once(": ").map(|(name, _)| name));
            }
            _ => {}
        }
    }
    private
}

/// Whether a file describes values of callers, without an owner.
fn is_public_face(source: &Source) -> bool {
    ["contract", "event"].contains(&source.part.as_str())
}

/// The text behind an index, if the text begins with an index.
fn behind_index(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('[') else { return text };
    let mut depth = 1;
    for (at, letter) in inner.char_indices() {
        depth += match letter {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        if depth == 0 {
            return &inner[at + 1..];
        }
    }
    text
}

/// Whether the text behind a field, or behind an item of a field, changes the field.
fn changes(behind: &str) -> bool {
    let behind = behind_index(behind);
    let is_called = behind.trim_start().strip_prefix('.').is_some_and(|call| {
        let name = identifier(call);
        CHANGING.contains(&name) && call[name.len()..].starts_with('(')
    });
    let assigned = behind.trim_start();
    let is_assigned = assigned.strip_prefix(['=']).is_some_and(|rest| !rest.starts_with(['=', '>']))
        || ["+=", "-=", "|=", "&=", "*="].iter().any(|operator| assigned.starts_with(operator));
    is_called || is_assigned
}

/// The identifier at the beginning of a text.
fn identifier(text: &str) -> &str {
    text.split(|letter: char| letter != '_' && !letter.is_alphanumeric()).next().unwrap()
}

/// The fields that a file writes.
fn written_fields<'s>(code: &'s str, fields: &'s BTreeSet<&str>) -> impl Iterator<Item = String> + 's {
    let private = private_fields(code);
    let written = move |(at, _): (usize, &str)| {
        let name = identifier(&code[at + 1..]);
        if private.contains(name) || code[at + 1 + name.len()..].starts_with('(') {
            return None;
        }
        let path = code[..at].rsplit(|letter: char| letter.is_whitespace() || letter == '(').next().unwrap();
        let is_borrowed = code[..at - path.len()].trim_end().ends_with("&mut");
        let is_written = is_borrowed || changes(&code[at + 1 + name.len()..]);
        (fields.contains(name) && is_written).then(|| name.to_owned())
    };
    code.match_indices('.').filter_map(written)
}

/// The flags that a file sets, or takes away.
fn written_flags(code: &str) -> impl Iterator<Item = String> {
    const WRITES: &[&str] = &["|=", "-=", ".set(", ".replace("];
    let written =
        |statement: &str| WRITES.iter().find_map(|write| statement.split_once(write)).map(|(_, to)| to.to_owned());
    let flags = |to: String| {
        let of = |flags: &&str| {
            let prefix = format!("{flags}::");
            let names = to.split(&prefix).skip(1).map(|rest| identifier(rest).to_owned());
            let is_flag = |name: &String| name.chars().all(|letter| letter == '_' || letter.is_uppercase());
            Vec::from_iter(names.filter(is_flag).map(|name| prefix.clone() + &name))
        };
        Vec::from_iter(FLAGS.iter().flat_map(of))
    };
    code.split(';').filter_map(written).flat_map(flags)
}

/// The parts that write each field and each flag.
fn writers(sources: &[Source]) -> BTreeMap<String, BTreeSet<&str>> {
    let fields = fields(sources);
    let mut writers: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        for name in written_fields(&source.code, &fields).chain(written_flags(&source.code)) {
            writers.entry(name).or_default().insert(&source.part);
        }
    }
    writers
}

#[test]
fn each_datum_has_one_writer() {
    let sources = sources();
    let found = writers(&sources).into_iter().filter(|(_, parts)| parts.len() > 1);
    let found = BTreeSet::from_iter(found.map(|(name, parts)| (name, Vec::from_iter(parts))));
    let found = Vec::from_iter(found);
    assert!(found.is_empty(), "several parts write these: {found:#?}");
}
