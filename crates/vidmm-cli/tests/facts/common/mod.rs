//! Runs of the program, for the tests of the whole.

pub mod c_driver;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use vidmm_sim::ScenarioFile;

/// The outcome of one run of the program.
pub struct Run {
    /// The command, to try it by hand in the root of the workspace.
    pub command: String,
    /// The exit status; none if a signal ended it.
    pub status: Option<i32>,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

/// The folder at which relative paths of a run start, with its scenarios.
pub fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is two folders up")
}

/// Runs `vidmm run` with these arguments.
pub fn vidmm_run(arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vidmm"));
    command.arg("run").args(arguments).current_dir(workspace());
    Run::new(format!("vidmm run {}", arguments.join(" ")), &command.output().expect("it starts"))
}

/// Runs a command that the program printed, as a shell takes it.
pub fn shell(line: &str) -> Run {
    let binary = Path::new(env!("CARGO_BIN_EXE_vidmm"));
    let folder = binary.parent().expect("it is in a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).expect("the paths had been joined before");
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("PATH", path).current_dir(workspace());
    Run::new(line.to_owned(), &command.output().expect("there is a shell"))
}

impl Run {
    pub fn new(command: String, output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).expect("the program prints text");
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        Self { command, status: output.status.code(), stdout, stderr }
    }

    /// Checks the exit status.
    #[track_caller]
    pub fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "{self}");
        self
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\nstatus {:?}\n{}{}", self.command, self.status, self.stdout, self.stderr)
    }
}

/// A folder for the files of a test. The end of the test removes the folder.
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes the folder.
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for temporary files"))
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).into_os_string().into_string().expect("the folder's name is text")
    }

    /// Writes a file in the folder, and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("the folder can be written to");
        path
    }
}

/// Reads a summary.
pub fn summary(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("there is a summary")).expect("a summary is JSON")
}

/// The scenarios of the repository that run a workload, by the paths that a user in the root of the workspace gives.
pub fn scenarios() -> Vec<String> {
    scenarios_in("scenarios")
}

/// Scenarios that run for several seconds, or write logs of a gigabyte. A single test compares their texts; shorter scenarios of the same
/// kinds go through all tests.
const LONG: [&str; 6] = [
    "scenarios/clients.toml",
    "scenarios/residency/comehome.toml",
    "scenarios/residency/home.toml",
    "scenarios/residency/p14-verify-random.toml",
    "scenarios/residency/ready-work-behind-a-page-in.toml",
    "scenarios/residency/wake-in-turn.toml",
];

/// Whether a scenario runs for several seconds.
pub fn is_long(scenario: &str) -> bool {
    LONG.contains(&scenario)
}

/// The exit status of a scenario of the repository: one that shows how a mistake is found must find it.
pub fn expected_status(scenario: &str) -> i32 {
    let shows = match ScenarioFile::load(&workspace().join(scenario)).expect("it is a scenario") {
        ScenarioFile::Workload(scenario) => scenario.shows,
        ScenarioFile::Explicit(scenario) => scenario.shows,
    };
    i32::from(shows.is_some())
}

/// The scenarios that run a workload, hold, and may be run again in other ways.
pub fn short_scenarios() -> Vec<String> {
    let mut scenarios = scenarios();
    scenarios.retain(|scenario| expected_status(scenario) == 0 && !is_long(scenario));
    scenarios
}

/// The scenarios about allocation notification: most are made of steps.
pub fn notification_scenarios() -> Vec<String> {
    [scenarios_in("scenarios/notification"), scenarios_in("scenarios/notification/p31")].concat()
}

/// The scenarios about residency.
pub fn residency_scenarios() -> Vec<String> {
    scenarios_in("scenarios/residency")
}

/// The scenarios about faults and resets.
pub fn fault_scenarios() -> Vec<String> {
    scenarios_in("scenarios/faults")
}

/// The scenarios about DMA buffers that are split.
pub fn splitting_scenarios() -> Vec<String> {
    scenarios_in("scenarios/splitting")
}

/// The scenarios about adapters of every shape.
pub fn segment_scenarios() -> Vec<String> {
    scenarios_in("scenarios/segments")
}

/// The scenarios about programs as people have them, beside one another.
pub fn program_scenarios() -> Vec<String> {
    scenarios_in("scenarios/programs")
}

/// The scenarios of a folder, by their paths.
fn scenarios_in(folder: &str) -> Vec<String> {
    let files = fs::read_dir(workspace().join(folder)).expect("there are scenarios");
    let names = files.map(|file| file.expect("the folder can be read").file_name().into_string().expect("text"));
    let mut paths: Vec<String> =
        names.filter(|name| name.ends_with(".toml")).map(|name| format!("{folder}/{name}")).collect();
    paths.sort();
    paths
}

/// Runs a scenario of steps.
pub fn steps(text: &str) -> Run {
    let scratch = Scratch::new();
    vidmm_run(&[&scratch.file("steps.toml", text)])
}

/// The command that a run prints, to show a finding again.
pub fn replay_command(run: &Run) -> String {
    let line = run.stdout.lines().find_map(|line| line.trim_start().strip_prefix("replay "));
    line.unwrap_or_else(|| panic!("no replay command in {run}")).trim().to_owned()
}
