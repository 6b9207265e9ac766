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

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Parser;

use args::{Args, Command};

/// The status if a check did not hold.
const DID_NOT_HOLD: u8 = 1;

/// The status if the input or the arguments are wrong.
const WRONG_INPUT: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Explain(args) => explain::explain(&args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DID_NOT_HOLD),
        Err(error) => {
            let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
            anstream::eprintln!("{red}error:{red:#} {error}");
            ExitCode::from(WRONG_INPUT)
        }
    }
}
