//! The command line of vidmm, for any machine and any policy.
//!
//! A crate with a driver and a GPU of its own gives its [`MachineFactory`] to [`main`], and has `run`, `sim`, `explain`, `report`
//! and `replay` for its own machine, and `check` for drivers in C. `examples/own_machine.rs` is such a crate. Policies of eviction
//! that are given beside the factory have names for `--policy`, as `examples/own_policy.rs` shows. The binary `vidmm` is the same with
//! the [`ModelGpu`].
//!
//! Exit status: 0 all that was checked held; 1 something did not, or nothing was judged; 2 the input or the arguments are
//! wrong, or the machine lacks what the scenario needs.

mod args;
mod style;
mod output;
mod known;
mod progress;
mod sarif;
mod processes;
mod table;
mod report;
mod residency;
mod soft;
mod vulkan;
mod doctor;
mod portions;
mod explicit;
mod workload;
mod sweep;
mod run;
mod planted;
mod sim;
mod statistics;
mod strict;
mod held_up;
mod explain;
mod page;
mod export;
mod install;
mod layer;
mod exec;
mod replay;
mod check;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Parser;
use vidmm::policy::PolicyKind;
use vidmm_runtime::Machine;
use vidmm_sim::{
    Benched, MachineDesc, MachineFactory,
    policies::{self, PolicyReport},
};
use vidmm_vulkan::Validation;

use args::{Args, Command};
use style::BAD;

pub use vulkan::VulkanGpu;

/// The status if a check did not hold.
const DID_NOT_HOLD: u8 = 1;

/// The status if the input or the arguments are wrong.
const WRONG_INPUT: u8 = 2;

/// The most characters of a line of an error.
const LINE_CHARS: usize = 300;

/// The most characters of a word of a line that is too long, such as a path.
const WORD_CHARS: usize = 100;

/// The text of an error. A line that would fill the screen is cut in the middle: first its long words, of which the end is kept with
/// the name of a file, and then the line, of which the end has the remedy.
fn shown(error: &str) -> String {
    let lines = error.lines().map(|line| {
        let words = || line.split(' ').map(|word| vidmm_view::cut(word, WORD_CHARS)).collect::<Vec<_>>().join(" ");
        let is_long = line.chars().nth(LINE_CHARS).is_some();
        style::printable(&if is_long { vidmm_view::cut(&words(), LINE_CHARS) } else { line.to_owned() })
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The model GPU, which has all features: the machine of the binary `vidmm`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelGpu;

impl MachineFactory for ModelGpu {
    fn name(&self) -> &str {
        "soft"
    }

    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        soft::machine(desc)
    }
}

/// Runs on the GPU that is called `name`: the one of `factory`, or a Vulkan device.
fn on_gpu(
    name: Option<&str>,
    factory: &dyn MachineFactory,
    run: impl FnOnce(&dyn MachineFactory) -> Result<bool, Box<dyn Error>>,
) -> Result<bool, Box<dyn Error>> {
    match name {
        None => run(factory),
        Some(name) if name == factory.name() => run(factory),
        Some(VulkanGpu::NAME) => {
            let vulkan = VulkanGpu::open(Validation::Off)?;
            vidmm_vulkan::caught(|| run(&vulkan))?
        }
        Some(name) => Err(format!(
            "`--gpu {name}`: this program has two GPUs, which are `{}` and `{}`",
            factory.name(),
            VulkanGpu::NAME
        )
        .into()),
    }
}

/// Carries out the command line of this process on machines of `factory`'s. `--policy` takes the policies by their names, too.
pub fn main(factory: &dyn MachineFactory, policies: &[&PolicyKind]) -> ExitCode {
    let outcome =
        policies.iter().try_for_each(|kind| policies::register(kind).map(drop)).map_err(Box::<dyn Error>::from);
    let outcome = outcome.and_then(|()| {
        let args = Args::parse();
        // A program around the library has signals of its own.
        if matches!(args.command, Command::Sim(_)) {
            sim::heed_signals()?;
        }
        let called = carry_out(&args, factory)?;
        let mut out = anstream::stdout().lock();
        called.broken.iter().try_for_each(|report| {
            report::unless_closed(writeln!(out, "{BAD}finding{BAD:#}     {}", style::printable(&report.to_string())))
        })?;
        Ok(called.holds)
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DID_NOT_HOLD),
        Err(error) => {
            let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
            anstream::eprintln!("{red}error:{red:#} {}", shown(&error.to_string()));
            ExitCode::from(WRONG_INPUT)
        }
    }
}

/// The findings of a command.
#[derive(Debug)]
pub struct Called {
    /// All that was checked held, and no policy of a user broke a rule.
    pub holds: bool,
    /// The rules that policies of users broke.
    pub broken: Vec<PolicyReport>,
}

/// Carries out a command line inside of another program, such as `["replay", "trace.csv"]`. All output goes to the standard output.
/// With `--jobs 1` the calling thread calls all policies.
///
/// # Errors
///
/// If the input or the arguments are wrong.
pub fn call(words: &[&str], factory: &dyn MachineFactory) -> Result<Called, String> {
    let args = Args::try_parse_from(["vidmm"].iter().chain(words)).map_err(|error| error.to_string())?;
    let outcome = carry_out(&args, factory).map_err(|error| shown(&error.to_string()));
    // Further output of the program comes behind.
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    outcome
}

/// Carries out a command.
fn carry_out(args: &Args, factory: &dyn MachineFactory) -> Result<Called, Box<dyn Error>> {
    let holds = match &args.command {
        Command::Run(args) => {
            on_gpu(args.gpu.as_deref(), factory, |factory| run::run(args, &Benched { factory, bench: args.bench() }))
        }
        Command::Sim(args) => {
            on_gpu(args.gpu.as_deref(), factory, |factory| sim::run(args, &Benched { factory, bench: args.bench() }))
        }
        Command::Doctor(args) => doctor::run(args),
        Command::Exec(args) => exec::run(args),
        Command::Replay(args) => replay::run(args, factory),
        Command::Explain(args) => explain::explain(args),
        Command::Report(args) => page::write(args),
        Command::Export(args) => export::export(args),
        Command::Completions(args) => install::completions(args),
        Command::Check(args) => check::run(args),
        Command::Man(args) => install::man(args),
    };
    let broken = policies::take_reports();
    match holds {
        Ok(holds) => Ok(Called { holds: holds && broken.is_empty(), broken }),
        // The mistake of a policy may be the reason.
        Err(error) => Err(broken.iter().fold(error.to_string(), |text, report| format!("{text}; {report}")).into()),
    }
}
