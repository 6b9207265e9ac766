//! A package has all files that its sources name, so that it can be built by itself.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use walkdir::WalkDir;

use crate::common::workspace;

/// The files of a package, as cargo packs them.
fn packed(package: &str) -> BTreeSet<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["package", "--list", "--allow-dirty", "--offline", "-p", package]).current_dir(workspace());
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("paths are text").lines().map(str::to_owned).collect()
}

/// The files that a source names, by their paths from it.
fn named(source: &str) -> impl Iterator<Item = &str> {
    ["include_str!(\"", "include_bytes!(\"", "#[path = \""]
        .into_iter()
        .flat_map(move |opening| source.split(opening).skip(1).filter_map(|rest| rest.split('"').next()))
}

/// A path without `..`, from the package's root; none if it leaves the package.
fn inside(folder: &Path, named: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.iter().map(|part| part.to_str().expect("paths are text")).collect();
    for part in named.split('/').filter(|&part| part != ".") {
        match part {
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[test]
fn packages_have_the_files_that_their_sources_name() {
    let (mut packages, mut files) = (0, 0);
    for entry in fs::read_dir(workspace().join("crates")).expect("there are crates") {
        let root = entry.expect("the folder can be read").path();
        let name = root.file_name().and_then(|name| name.to_str()).expect("names are text");
        let packed = packed(name);
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "Cargo.toml"] {
            assert!(packed.contains(file), "{name} lacks {file}");
        }
        // The list is of what the package has, so a link to a folder is followed as cargo does.
        for source in WalkDir::new(root.join("src")).follow_links(true) {
            let source = source.expect("the folder can be read").into_path();
            if source.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let path = source.strip_prefix(&root).expect("it is below");
            assert!(packed.contains(path.to_str().expect("paths are text")), "{name} lacks {}", path.display());
            let folder = path.parent().expect("a file is in a folder");
            for named in named(&fs::read_to_string(&source).expect("it is text")) {
                let found = inside(folder, named).is_some_and(|file| packed.contains(&file));
                assert!(found, "{name}: {} names {named}, which is not in the package", path.display());
                files += 1;
            }
        }
        packages += 1;
    }
    assert!(packages >= 9 && files >= 4, "{files} files that {packages} packages name");
}
