//! `vidmm exec`: an unmodified program under a layer of Vulkan, which watches with `--trace`.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    ffi::OsString,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use VkLayer_vidmm::{LAYER_NAME, TRACE_VARIABLE, manifest, of_process};
use vidmm_trace::ByteSize;

use crate::style::{BAD, counted};

/// The library, as a build leaves it.
const LIBRARY: &str = "libVkLayer_vidmm.so";

/// Runs the program under the layer, ends the trace of each of its processes, and prints what the traces have. Returns whether the program
/// ended well.
pub fn watch(trace: &Path, program: &[OsString]) -> Result<bool, Box<dyn Error>> {
    remove(trace)?;
    let status = run(program, [(TRACE_VARIABLE, env::current_dir()?.join(trace).into_os_string())])?;
    if !trace.exists() {
        let name = program[0].display();
        return Err(format!(
            "{name} ended ({status}) and made no instance through Vulkan's loader, so there is no trace"
        )
        .into());
    }
    for file in files(trace) {
        let name = file.display();
        Counts::end(&file).map_err(|error| format!("{name}: {error}"))?.tell(&file);
    }
    if !status.success() {
        anstream::println!("program     {BAD}{status}{BAD:#}");
    }
    Ok(status.success())
}

/// Runs a program under the layer, with variables for the layer.
pub fn run(
    program: &[OsString],
    variables: impl IntoIterator<Item = (&'static str, OsString)>,
) -> Result<ExitStatus, Box<dyn Error>> {
    let library = library(LIBRARY, "vidmm-layer")?;
    let folder = tempfile::tempdir()?;
    let path = library.canonicalize()?;
    let path = path.to_str().ok_or("the path of the layer's library is no text, which a manifest of Vulkan needs")?;
    fs::write(folder.path().join("VkLayer_vidmm.json"), manifest(path))?;
    let status = Command::new(&program[0])
        .args(&program[1..])
        .envs(variables)
        .env("VK_ADD_LAYER_PATH", before(folder.path().into(), "VK_ADD_LAYER_PATH"))
        .env("VK_INSTANCE_LAYERS", before(LAYER_NAME.into(), "VK_INSTANCE_LAYERS"))
        .status();
    Ok(status.map_err(|error| format!("{}: {error}", program[0].display()))?)
}

/// Removes the files that an earlier run has left.
pub fn remove(path: &Path) -> Result<(), Box<dyn Error>> {
    for file in files(path) {
        fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// The library of a package, beside this program or in the folder of `VIDMM_LAYER_PATH`.
pub fn library(name: &str, package: &str) -> Result<PathBuf, Box<dyn Error>> {
    let program = env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new("."));
    // Beside a program that cargo has built, the library of the same build is among the dependencies.
    let beside = [folder.join("deps").join(name), folder.join(name)];
    let named = env::var_os("VIDMM_LAYER_PATH").map(|folder| Path::new(&folder).join(name));
    let missing = || format!("{} is not there; `cargo build -p {package}` makes it", folder.join(name).display());
    beside.into_iter().chain(named).find(|path| path.exists()).ok_or_else(|| missing().into())
}

/// An item in front of those of a variable, which are apart by colons.
fn before(item: OsString, variable: &str) -> OsString {
    let others = env::var_os(variable).filter(|others| !others.is_empty());
    others.map_or(item.clone(), |others| OsString::from_iter([item, ":".into(), others]))
}

/// The files of the program: each process that makes an instance has a trace, and each device a log.
fn files(trace: &Path) -> impl Iterator<Item = PathBuf> {
    (1..).map(|process| of_process(trace, process)).take_while(|file| file.exists())
}

/// The counts of a trace.
#[derive(Default)]
struct Counts {
    events: BTreeMap<String, u64>,
    uncovered: BTreeMap<String, u64>,
    bytes: u64,
}

impl Counts {
    /// Counts the lines of a trace, and appends the last one: the program has ended, in whatever way.
    fn end(file: &Path) -> std::io::Result<Self> {
        let mut counts = Self::default();
        for line in BufReader::new(File::open(file)?).lines() {
            let line = line?;
            let words = Vec::from_iter(line.split(' '));
            match words[..] {
                [_, "uncovered", what] => *counts.uncovered.entry(what.replace('-', " ")).or_default() += 1,
                [_, event, ..] => *counts.events.entry(event.to_owned()).or_default() += 1,
                _ => {}
            }
            if let [_, "memory", _, _, bytes, _] = words[..] {
                counts.bytes += bytes.parse().unwrap_or(0);
            }
        }
        fs::OpenOptions::new().append(true).open(file)?.write_all(b"end\n")?;
        Ok(counts)
    }

    fn tell(&self, file: &Path) {
        let count = |event, one, several| counted(self.events.get(event).copied().unwrap_or(0), one, several);
        anstream::println!(
            "watched     {}: {} of {} together, {}, {}",
            file.display(),
            count("memory", "allocation", "allocations"),
            ByteSize(self.bytes),
            count("buffer", "buffer", "buffers"),
            count("submit", "submission", "submissions"),
        );
        anstream::println!("replay      vidmm replay {} --local-memory 50%", file.display());
        let uncovered = Vec::from_iter(self.uncovered.iter().map(|(what, count)| format!("{count} {what}")));
        if !uncovered.is_empty() {
            anstream::eprintln!("note: the trace does not cover {}", uncovered.join(", "));
        }
    }
}
