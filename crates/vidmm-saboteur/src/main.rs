//! Writes a copy of the workspace with all bugs in its manager, and lets cargo do there what the arguments say.

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use vidmm_saboteur::{BUGS, sabotage};

/// The files and folders that cargo needs to build the workspace.
const COPIED: [&str; 5] = ["Cargo.toml", "Cargo.lock", "README.md", "crates", "scenarios"];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.is_empty() {
        eprintln!("usage: cargo run -p vidmm-saboteur -- CARGO-COMMAND [ARGUMENT]...");
        return ExitCode::from(2);
    }
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("vidmm-saboteur: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let copy = target.join("sabotaged");
    let mut written = BTreeSet::new();
    for name in COPIED {
        write_copy(&workspace, Path::new(name), &copy, &mut written)?;
    }
    remove_others(&copy, &written)?;
    // Dependencies are built once for both. Programs have names of their own.
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(arguments)
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", fs::canonicalize(&target)?)
        .status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Writes a file of the workspace, or all files of a folder, below `copy`. Files that have not changed are not written:
/// cargo builds them once.
fn write_copy(
    workspace: &Path,
    path: &Path,
    copy: &Path,
    written: &mut BTreeSet<PathBuf>,
) -> Result<(), Box<dyn Error>> {
    let from = workspace.join(path);
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            write_copy(workspace, &path.join(entry?.file_name()), copy, written)?;
        }
        return Ok(());
    }
    let content = match fs::read(&from) {
        Ok(content) => edited(path, content)?,
        Err(error) => return Err(format!("{} cannot be read: {error}", from.display()).into()),
    };
    let to = copy.join(path);
    if fs::read(&to).ok().as_ref() != Some(&content) {
        fs::create_dir_all(to.parent().expect("a copied file is in the copy"))?;
        fs::write(&to, content)?;
    }
    written.insert(to);
    Ok(())
}

/// The content of the copy of a file.
fn edited(path: &Path, content: Vec<u8>) -> Result<Vec<u8>, Box<dyn Error>> {
    if let Some(bug) = BUGS.iter().find(|bug| path == Path::new("crates").join(bug.file)) {
        return Ok(sabotage(bug.file, &String::from_utf8(content)?)?.into_bytes());
    }
    let (after, added) = match path.to_str() {
        Some("crates/vidmm/Cargo.toml" | "crates/vidmm-linear/Cargo.toml") => {
            ("[dependencies]\n", "vidmm-saboteur = { path = \"../vidmm-saboteur\", features = [\"at-work\"] }\n")
        }
        Some("Cargo.toml") => ("[workspace.lints.rust]\n", "unused_parens = \"allow\"\n"),
        Some("crates/vidmm-cli/Cargo.toml") => ("name = \"vidmm", "-sabotaged"),
        _ => return Ok(content),
    };
    let manifest = String::from_utf8(content)?;
    let at = manifest.rfind(after).ok_or_else(|| format!("{} has no `{}`", path.display(), after.trim_end()))?;
    let (before, rest) = manifest.split_at(at + after.len());
    Ok(format!("{before}{added}{rest}").into_bytes())
}

/// Removes what an earlier copy had.
fn remove_others(folder: &Path, written: &BTreeSet<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, written)?;
        } else if !written.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
