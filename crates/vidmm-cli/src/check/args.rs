//! The arguments of `vidmm check`.

use std::{ffi::CString, ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::{ValueEnum, ValueHint};

use super::rules::is_rule;
use crate::args::seeds;

/// Try a driver in C or C++, and name the rule that each mistake breaks
///
/// The driver is a shared library with a `DriverEntry`, built with the headers of `vidmm-ddi`. It runs in a process of its own: a
/// crash, an exit or a hang is a finding, with the operation that was running.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  vidmm check ./driver.so\n  vidmm check ./driver.so --replay world-17    one check again\n  gdb --args vidmm check ./driver.so --in-process --replay world-17\n  vidmm check --list    the rules\n\nExit status: 0 nothing new was found, 1 something was or no paging operation was judged, 2 the arguments are wrong"
)]
pub struct CheckArgs {
    /// The driver's library
    #[arg(value_name = "DRIVER.so", value_hint = ValueHint::FilePath)]
    pub driver: Option<PathBuf>,

    /// The seeds of random worlds, the last included
    #[arg(long, value_name = "A..B", default_value = "1..100", value_parser = seeds)]
    pub seeds: RangeInclusive<u64>,

    /// Steps of each world before everything is to end
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub steps: u64,

    /// Begin no further check after so many seconds, or such a time: `20`, `20s`, `500 ms`
    #[arg(long, value_name = "SECONDS", value_parser = time)]
    pub time: Option<Duration>,

    /// Print the rules, and what each is about
    #[arg(long)]
    pub list: bool,

    /// Show findings of these rules only
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = rule)]
    pub rule: Vec<String>,

    /// Show no findings of these rules
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = rule)]
    pub skip: Vec<String>,

    /// Create all allocations from this private data, as a user-mode driver has written it; one file for each kind of allocation
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub allocation: Vec<PathBuf>,

    /// A value of the registry: a REG_DWORD if it is a number, and a REG_SZ otherwise
    #[arg(long, value_name = "NAME=VALUE", value_parser = registry_value)]
    pub registry: Vec<(CString, CString)>,

    /// Findings that are known do not fail: a file with a rule and an operation on each line, as the report has them
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub known: Option<PathBuf>,

    /// Run one check again
    #[arg(long, value_name = "CHECK")]
    pub replay: Option<String>,

    /// Run the driver in this process, for a debugger
    #[arg(long)]
    pub in_process: bool,

    /// A call of the driver that takes so many seconds, or such a time, is a hang
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = time)]
    pub hang: Duration,

    /// Stop when the driver has ended its process, or has hung, in so many checks
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_deaths: u32,

    /// Stop after N mistakes that are new and shown; findings of a rule about an operation count as a single mistake
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_failures: Option<u64>,

    /// The form of the report
    #[arg(long, value_enum, value_name = "FORM", default_value_t = FormatArg::Text)]
    pub format: FormatArg,

    /// Write the report to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,

    /// Be the process that has the driver
    #[arg(long, value_name = "FILE", hide = true)]
    pub worker: Option<PathBuf>,

    /// Be the process that starts the process that has the driver, for the process with this number
    #[arg(long, value_name = "PROCESS", hide = true, requires = "worker")]
    pub supervisor: Option<u32>,
}

impl CheckArgs {
    /// Whether the report shows findings of this rule.
    pub fn shows(&self, rule: &String) -> bool {
        (self.rule.is_empty() || self.rule.contains(rule)) && !self.skip.contains(rule)
    }
}

/// Reads a time: a number of seconds, or a number with its unit.
fn time(text: &str) -> Result<Duration, String> {
    let time = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => Duration::from_nanos(text.parse::<vidmm_sim::Duration>()?.ns),
    };
    if time.is_zero() { Err("write a time above 0".to_owned()) } else { Ok(time) }
}

/// Reads the name of a rule.
fn rule(text: &str) -> Result<String, &'static str> {
    if is_rule(text) { Ok(text.to_owned()) } else { Err("there is no such rule; `vidmm check --list` has the rules") }
}

/// Reads a value of the registry.
fn registry_value(text: &str) -> Result<(CString, CString), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let c_string = |text| CString::new(text).map_err(|error| error.to_string());
    Ok((c_string(name)?, c_string(value)?))
}

/// The form of a report.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    Text,
    Json,
    Junit,
    Sarif,
}
