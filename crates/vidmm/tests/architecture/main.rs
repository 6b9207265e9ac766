//! The architecture, held by a test: the parts of the core stand in the order of `lib.rs`, and nothing that one part
//! imports or calls stands above it. The table of parts in `ARCHITECTURE.md` is re-made by `UPDATE_EXPECTED=1 cargo
//! test -p vidmm --test architecture`.

mod writers;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// The files in which `impl VidMm` may stand: the manager, its loop, its calls, and the audit.
const MANAGER: &[&str] = &["manager", "poll", "calls", "check"];

/// The parts with the manager's border and log: not counted as lines of the manager.
const DESCRIBING: &[&str] = &["contract", "event"];

/// A source file without comments and unit tests.
struct Source {
    /// The path below `src`.
    path: String,
    /// The top folder or file: the part that it belongs to.
    part: String,
    code: String,
}

/// A function of the core.
struct Function<'s> {
    name: &'s str,
    /// The type whose method it is.
    of: Option<&'s str>,
    is_visible: bool,
    changes_self: bool,
    parameters: &'s str,
    body: &'s str,
}

fn manifest() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    sources_of("src")
}

/// The sources in a folder.
fn sources_of(root: &str) -> Vec<Source> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, found),
                false => found.push(path),
            }
        }
    }
    let root = manifest().join(root);
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    let source = |path: &PathBuf| {
        let relative = path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
        let part = relative.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        let text = fs::read_to_string(path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let code = text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
        Source { path: relative, part, code }
    };
    // The example is read as documentation.
    let is_code = |source: &Source| !["example_driver.rs", "/tests.rs"].iter().any(|end| source.path.ends_with(end));
    paths.iter().map(source).filter(is_code).collect()
}

/// The parts in the order in which they stand on one another, and where each name of the crate's root comes from.
fn order(sources: &[Source]) -> (Vec<&str>, BTreeMap<String, String>) {
    let root = &sources.iter().find(|source| source.path == "lib.rs").unwrap().code;
    let parts = root.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
    let reexports = uses(root, "pub use ").into_iter().filter_map(|path| {
        let (part, _) = path.split_once("::")?;
        Some((path.rsplit("::").next()?.to_owned(), part.to_owned()))
    });
    (parts.collect(), reexports.collect())
}

/// All paths of the `use` items that begin with `prefix`, written out.
fn uses(code: &str, prefix: &str) -> Vec<String> {
    fn expand(before: &str, tree: &str, paths: &mut Vec<String>) {
        let Some((head, inner)) = tree.split_once('{') else {
            return paths.extend((!tree.trim().is_empty()).then(|| format!("{before}{}", tree.trim())));
        };
        let inner = &inner[..inner.rfind('}').unwrap()];
        let (mut depth, mut start) = (0, 0);
        for (at, letter) in inner.char_indices().chain([(inner.len(), ',')]) {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&format!("{before}{}", head.trim()), &inner[start..at], paths);
                    start = at + 1;
                }
                _ => {}
            }
        }
    }
    let mut paths = Vec::new();
    for item in code.split(prefix).skip(1) {
        expand("", item.split(';').next().unwrap(), &mut paths);
    }
    paths
}

/// The functions of a file, in its order.
fn functions(code: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    let mut of = None;
    let starts = code.match_indices('\n').map(|(at, _)| at + 1);
    for start in std::iter::once(0).chain(starts) {
        let line = code[start..].lines().next().unwrap_or_default();
        if (line.starts_with("impl") || line.starts_with("pub trait")) && line.ends_with('{') {
            let named = line.trim_end_matches('{').trim().rsplit(' ').next().unwrap();
            of = Some(named.split('<').next().unwrap());
        } else if line.starts_with('}') {
            of = None;
        }
        let indent = line.len() - line.trim_start().len();
        let item = line.trim_start();
        let after_visibility =
            item.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ").trim_start_matches("pub ");
        let Some(rest) = after_visibility.trim_start_matches("const ").strip_prefix("fn ") else { continue };
        let name = rest.split(['(', '<']).next().unwrap();
        let end = code[start..].find(&format!("\n{}}}", " ".repeat(indent))).map_or(code.len(), |end| start + end);
        let whole = &code[start..end];
        let (signature, body) = whole.split_once("{\n").unwrap_or((whole, ""));
        found.push(Function {
            name,
            of: of.filter(|_| indent > 0),
            is_visible: item.starts_with("pub"),
            changes_self: signature.contains("&mut self"),
            parameters: signature,
            body,
        });
    }
    found
}

/// The part struct of each part: the type that holds its state.
fn structs<'s>(sources: &'s [Source], parts: &[&str]) -> BTreeMap<&'s str, String> {
    let state = &sources.iter().find(|source| source.path == "state.rs").unwrap().code;
    let manager = &sources.iter().find(|source| source.path == "manager.rs").unwrap().code;
    let fields = state.lines().chain(manager.lines()).filter_map(|line| {
        let (field, of_type) =
            line.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub ").split_once(": ")?;
        parts.contains(&field).then(|| (of_type.trim_end_matches(','), field.to_owned()))
    });
    fields.chain([("VidMm", "manager".to_owned())]).collect()
}

#[test]
fn no_import_runs_up() {
    let sources = sources();
    let (parts, reexports) = order(&sources);
    let rank = |part: &str| parts.iter().position(|known| *known == part);
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| source.path != "lib.rs") {
        let own = rank(&source.part).unwrap_or_else(|| panic!("lib.rs does not name the part of {}", source.path));
        let inline = source
            .code
            .split("crate::")
            .skip(1)
            .map(|rest| rest.split(|c: char| c != '_' && !c.is_alphanumeric()).next().unwrap());
        let imported = uses(&source.code, "use crate::");
        let firsts = imported
            .iter()
            .map(|path| path.split("::").next().unwrap())
            .chain(inline)
            .filter(|first| !first.is_empty());
        for first in firsts {
            let part = reexports.get(first).map_or(first, |part| part);
            match rank(part) {
                Some(other) if other > own => {
                    faults.push(format!("{} imports {part}, which stands above it", source.path))
                }
                Some(_) => {}
                None => faults.push(format!("{} imports {first}, which is no part", source.path)),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Circles of imports between files, by crate. The list only shrinks.
const CIRCLES: &[(&str, &[&str])] = &[
    ("vidmm-cli", &["check::findings", "check::jobs"]),
    ("vidmm-cli", &["replay", "replay::row"]),
    ("vidmm-ddi", &["adapter", "callbacks", "inbox", "library", "user_work"]),
    ("vidmm-replay", &["requests", "trace"]),
];

/// The name of a file's module.
fn module(source: &Source) -> String {
    source.path.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::")
}

/// The modules in imports and paths of a file.
fn imports(source: &Source, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let own = module(source);
    let named = |prefix: &str| {
        let found = source.code.split(prefix).skip(1);
        let path =
            |rest: &str| rest.split(|c: char| c != '_' && c != ':' && !c.is_alphanumeric()).next().unwrap().to_owned();
        // A group of paths is written out by `uses`.
        Vec::from_iter(found.map(path).filter(|path| !path.is_empty()))
    };
    let absolute = uses(&source.code, "use crate::").into_iter().chain(named("crate::"));
    let above = own.rsplit_once("::").map_or("", |(above, _)| above);
    let relative = uses(&source.code, "use super::").into_iter().chain(named("super::"));
    let relative = relative.map(|path| match path.trim_start_matches("super::").len() == path.len() {
        true => format!("{above}::{path}"),
        false => format!(
            "{}::{}",
            above.rsplit_once("::").map_or("", |(above, _)| above),
            path.trim_start_matches("super::")
        ),
    });
    let inner = uses(&source.code, "use self::").into_iter().map(|path| format!("{own}::{path}"));
    let known = |path: String| {
        let parts = Vec::from_iter(path.trim_start_matches("::").split("::"));
        (1..=parts.len()).rev().map(|len| parts[..len].join("::")).find(|module| modules.contains(module))
    };
    absolute.chain(relative).chain(inner).filter_map(known).filter(|other| *other != own).collect()
}

/// The largest circles of imports.
fn circles(sources: &[Source]) -> BTreeSet<Vec<String>> {
    let modules = BTreeSet::from_iter(sources.iter().map(module));
    let edges: BTreeMap<String, BTreeSet<String>> =
        sources.iter().map(|source| (module(source), imports(source, &modules))).collect();
    let reached = |from: &String| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(edges[module].iter().filter(|&other| reached.insert(other.clone())));
        }
        reached
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = modules.iter().map(|module| (module, reached(module))).collect();
    let circle_of = |module: &String| {
        Vec::from_iter(reached[module].iter().filter(|&other| reached[other].contains(module)).cloned())
    };
    modules.iter().map(circle_of).filter(|circle| circle.len() > 1).collect()
}

#[test]
fn files_import_each_other_only_where_that_is_known() {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(manifest().join("..")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let circles = circles(&sources_of(&format!("../{name}/src")));
        found.extend(circles.into_iter().map(|circle| (name.clone(), circle)));
    }
    let known =
        CIRCLES.iter().map(|&(name, circle)| (name.to_owned(), circle.iter().map(|&file| file.to_owned()).collect()));
    let known = BTreeSet::from_iter(known);
    let new = Vec::from_iter(found.difference(&known));
    assert!(new.is_empty(), "files import each other: {new:#?}");
    let gone = Vec::from_iter(known.difference(&found));
    assert!(gone.is_empty(), "take these out of the list: {gone:#?}");
}

#[test]
fn no_method_call_runs_up() {
    let sources = sources();
    let (parts, _) = order(&sources);
    let structs = structs(&sources, &parts);
    let rank = |part: &str| parts.iter().position(|known| *known == part).unwrap();
    // The lowest part that defines a method of each name, and whether it is a method of a part's own struct.
    let mut lowest: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path != "lib.rs") {
        for function in functions(&source.code).into_iter().filter(|function| function.of.is_some()) {
            let entry = (rank(&source.part), function.of.is_some_and(|of| structs.contains_key(of)));
            lowest.entry(function.name).and_modify(|known| *known = entry.min(*known)).or_insert(entry);
        }
    }
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| source.path != "lib.rs") {
        for call in source.code.split('.').skip(1) {
            let name = call.split(|c: char| c != '_' && !c.is_alphanumeric()).next().unwrap();
            if !call[name.len()..].starts_with('(') {
                continue;
            }
            if let Some(&(other, true)) = lowest.get(name)
                && other > rank(&source.part)
            {
                faults.push(format!("{} calls {name}, a method of {}", source.path, parts[other]));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn only_the_manager_and_its_calls_are_methods_of_the_manager() {
    let wrong: Vec<String> = sources()
        .into_iter()
        .filter(|source| source.code.contains("impl VidMm {") && !MANAGER.contains(&source.part.as_str()))
        .map(|source| source.path)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The changes that a part makes in the parts below it, as its signatures and its calls say.
fn effects(
    functions: &[Function<'_>],
    structs: &BTreeMap<&str, String>,
    changing: &BTreeMap<&str, BTreeSet<&str>>,
) -> BTreeSet<String> {
    let mut effects = BTreeSet::new();
    for function in functions {
        for (of_type, part) in structs {
            let is_taken = function.parameters.contains(&format!(": &mut {of_type},"))
                || function.parameters.contains(&format!(": &mut {of_type})"))
                || function.body.contains(&format!("&mut state.{part}"))
                || function.body.contains(&format!("&mut self.state.{part}"));
            let is_called = function.body.split(&format!("{part}.")).skip(1).any(|call| {
                let name = call.split(|c: char| c != '_' && !c.is_alphanumeric()).next().unwrap();
                changing.get(of_type).is_some_and(|methods| methods.contains(name))
            });
            if is_taken || is_called {
                effects.insert(part.clone());
            }
        }
    }
    effects
}

/// Lines of code, without comments and tests.
fn num_lines(sources: &[&Source]) -> usize {
    sources.iter().map(|source| source.code.lines().filter(|line| !line.trim().is_empty()).count()).sum()
}

#[test]
fn the_table_of_parts_in_the_architecture_is_true() {
    let sources = sources();
    let (parts, _) = order(&sources);
    let structs = structs(&sources, &parts);
    let mut changing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in &sources {
        for function in functions(&source.code).into_iter().filter(|function| function.changes_self) {
            changing.entry(function.of.unwrap_or_default()).or_default().insert(function.name);
        }
    }
    let mut table = String::from("| part | face | changes |\n|---|---|---|\n");
    let first = parts.iter().position(|part| *part == "moment").unwrap();
    for part in &parts[first..] {
        let own: Vec<&Source> = sources.iter().filter(|source| source.part == *part).collect();
        let all: Vec<Function<'_>> = own.iter().flat_map(|source| functions(&source.code)).collect();
        let others: Vec<&Source> = sources.iter().filter(|source| source.part != *part).collect();
        let is_used = |name: &str| {
            let (method, function) = (format!(".{name}("), format!("::{name}("));
            others.iter().any(|source| source.code.contains(&method) || source.code.contains(&function))
        };
        let face: BTreeSet<&str> = all
            .iter()
            .filter(|function| function.is_visible && is_used(function.name))
            .map(|function| function.name)
            .collect();
        println!("{part}, {} lines: {}", num_lines(&own), Vec::from_iter(face.iter().copied()).join(", "));
        let mut effects = effects(&all, &structs, &changing);
        effects.remove(*part);
        effects.remove("state");
        let changes: Vec<&str> = parts.iter().copied().filter(|part| effects.contains(*part)).collect();
        writeln!(table, "| `{part}` | {} functions | {} |", face.len(), changes.join(", ")).unwrap();
    }
    let linear = sources_of("../vidmm-linear/src");
    let manager = sources.iter().filter(|source| !DESCRIBING.contains(&source.part.as_str())).chain(&linear);
    println!("sum with vidmm-linear, without {}: {} lines", DESCRIBING.join(", "), num_lines(&Vec::from_iter(manager)));
    print!("{table}");
    let path = manifest().join("../../ARCHITECTURE.md");
    let document = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- parts -->\n", "<!-- end of parts -->");
    let (before, rest) = document.split_once(begin).expect("the architecture marks its table of parts");
    let (shown, after) = rest.split_once(end).expect("the architecture marks the end of its table of parts");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        return fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
    }
    assert_eq!(shown, table, "re-make it with UPDATE_EXPECTED=1 cargo test -p vidmm --test architecture");
}
