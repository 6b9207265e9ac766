//! The command line of vidmm.
//!
//! Exit status: 0 all checks held; 1 a check did not hold; 2 the input or the arguments are wrong.

mod args;
mod style;
mod output;
mod processes;
mod table;
mod report;
mod soft;
mod portions;
mod explicit;
mod workload;
mod sweep;
mod run;
mod planted;
mod sim;
mod explain;
mod replay;

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Parser;

use args::{Args, Command};

/// The status if a check did not hold.
const DID_NOT_HOLD: u8 = 1;

/// The status if the input or the arguments are wrong.
const WRONG_INPUT: u8 = 2;

/// The most characters of a line of an error.
const LINE_CHARS: usize = 300;

/// The text of an error: what a file said in it fills no screen.
fn shown(error: &str) -> String {
    let lines = error.lines().map(|line| {
        let is_long = line.chars().nth(LINE_CHARS).is_some();
        let cut: String = line.chars().take(LINE_CHARS).chain(is_long.then_some('…')).collect();
        style::printable(&cut)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Explain(args) => explain::explain(&args),
    };
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
