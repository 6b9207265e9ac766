//! The targets.

mod text;
mod scenario;
mod scenario_run;
mod trace;
mod requests;
mod event_log;
mod caps;
mod calls;
mod driver_answers;
mod patch_lists;
mod gpu_va;

/// A function that is fed with bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name on the command line and in the corpus.
    pub name: &'static str,
    /// Feeds it; it panics if a check does not hold.
    pub run: fn(&[u8]),
    /// Inputs to begin with, besides those of the corpus.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words of its language; none if its inputs are no text.
    pub words: &'static [&'static str],
    /// The longest input that is made, in bytes: longer ones tell nothing new, and take longer.
    pub max_len: usize,
}

/// All targets: first those that read files, then those that call the manager.
pub const TARGETS: [Target; 11] = [
    text::TARGET,
    scenario::TARGET,
    scenario_run::TARGET,
    trace::TARGET,
    requests::TARGET,
    event_log::TARGET,
    caps::TARGET,
    calls::TARGET,
    driver_answers::TARGET,
    patch_lists::TARGET,
    gpu_va::TARGET,
];

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }
}

/// No seeds: the choices of random bytes are as good as any.
fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

/// The scenario files of the repository.
fn scenario_files() -> Vec<Vec<u8>> {
    let mut folders = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios").into()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir::<std::path::PathBuf>(folder) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "toml" => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    files.iter().filter_map(|file| std::fs::read(file).ok()).collect()
}
