//! The fuzzer: `cargo run --profile fuzz -p vidmm-fuzz -- all --seconds 60`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use vidmm_fuzz::fuzzer::{Campaign, Found, LONGEST, Until, be_quiet};
use vidmm_fuzz::{TARGETS, Target};

/// Feeds arbitrary bytes to what reads files and to the manager, and keeps what fails.
#[derive(Parser)]
struct Args {
    /// A target, or `all`.
    #[arg(default_value = "all")]
    target: String,
    /// How long to go on, all targets together.
    #[arg(long, conflicts_with = "executions")]
    seconds: Option<u64>,
    /// How many inputs to make for each target.
    #[arg(long)]
    executions: Option<u64>,
    /// The number that the inputs follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Feeds this file to the target, and nothing else.
    #[arg(long)]
    input: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether no target failed.
fn run(args: &Args) -> Result<bool, Box<dyn std::error::Error>> {
    let targets: Vec<&'static Target> =
        TARGETS.iter().filter(|target| args.target == "all" || args.target == target.name).collect();
    if targets.is_empty() {
        let names = TARGETS.map(|target| target.name).join(", ");
        return Err(format!("`{}` is no target; the targets are all, {names}", args.target).into());
    }
    if let Some(file) = &args.input {
        let input = std::fs::read(file)?;
        // A failure says where it is, as any panic does.
        targets.iter().for_each(|target| (target.run)(&input));
        return Ok(true);
    }
    be_quiet();
    let until = match (args.executions, args.seconds) {
        (Some(executions), _) => Until::Executions(executions),
        (None, seconds) => Until::Elapsed(Duration::from_secs(seconds.unwrap_or(60)) / targets.len() as u32),
    };
    let mut all_held = true;
    for target in targets {
        all_held &= fuzz(target, args.seed, until)?;
    }
    Ok(all_held)
}

fn fuzz(target: &'static Target, seed: u64, until: Until) -> std::io::Result<bool> {
    let hung = move |file: PathBuf| {
        println!("{:<16} an execution takes more than {} s", target.name, LONGEST.as_secs());
        println!("  {}", replay(target, &file));
        std::process::exit(1)
    };
    let start = Instant::now();
    let mut campaign = Campaign::new(target, seed, hung)?;
    let found = campaign.run(until)?;
    let (executions, seconds) = (campaign.executions, start.elapsed().as_secs_f64());
    println!(
        "{:<16} {executions} executions in {seconds:.1} s, {:.0} a second",
        target.name,
        executions as f64 / seconds
    );
    if let Some(Found { said, file }) = &found {
        println!("  {}\n  {}", said.replace('\n', "\n  "), replay(target, file));
    }
    Ok(found.is_none())
}

fn replay(target: &Target, file: &std::path::Path) -> String {
    format!("cargo run --profile fuzz -p vidmm-fuzz -- {} --input {}", target.name, file.display())
}
