//! `vidmm check`: a driver in a shared library, tried by everything there is.
//!
//! The driver runs in a worker, which a supervisor starts: a driver that kills or stops its parent meets the supervisor, and this process
//! replaces both. This process names the call in which a worker died.

mod args;
mod bug_checks;
mod catalogue;
mod findings;
mod rules;
mod jobs;
mod worker;
mod containment;
mod supervisor;
mod output;

use std::{error::Error, io::Write};

pub use args::CheckArgs;

use crate::{known::Known, output::write_file, report::unless_closed};
use args::FormatArg;
use findings::{Limit, Report, is_key};
use jobs::Job;
use rules::RULES;

/// Tries the driver, and prints what was found. Returns whether there is nothing new.
pub fn run(args: &CheckArgs) -> Result<bool, Box<dyn Error>> {
    if let Some(process) = args.supervisor {
        containment::supervise(process)?;
        return Ok(true);
    }
    if let Some(progress) = &args.worker {
        worker::serve(args, progress)?;
        return Ok(true);
    }
    let mut out = anstream::stdout().lock();
    if args.list {
        RULES.iter().try_for_each(|(rule, about)| unless_closed(writeln!(out, "{rule:<18} {about}")))?;
        return Ok(true);
    }
    let driver = args.driver.as_deref().ok_or("name the driver's library, as in `vidmm check ./driver.so`")?;
    if !driver.is_file() {
        return Err(format!("there is no file {}; build the driver with `-shared -fPIC`", driver.display()).into());
    }
    let known = Known::read(args.known.as_deref())?;
    known.must_be(is_key).map_err(|(line, key)| {
        let file = args.known.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
        format!("line {line} of {file}: `{key}` is no rule, and no rule and operation, as in `BPB-40 VIRTUAL_TRANSFER`")
    })?;
    let jobs = match &args.replay {
        Some(name) => vec![Job::parse(name).ok_or_else(|| format!("`{name}` is no check; as in `world-17`"))?],
        None => Job::all(args)?,
    };
    let limit = Limit::new(args, &known);
    let outcomes = match args.in_process {
        true => worker::run_here(args, driver, &jobs, limit)?,
        false => supervisor::run(args, driver, &jobs, limit)?,
    };
    let report = Report::new(outcomes, args, &known);
    let text = match args.format {
        FormatArg::Text => output::text(&report, args)?,
        FormatArg::Json => output::json(&report, args)?,
        FormatArg::Junit => output::junit(&report, args),
        FormatArg::Sarif => output::sarif(&report, driver)?,
    };
    match &args.out {
        Some(path) => write_file(path, text)?,
        None => unless_closed(out.write_all(text.as_bytes()))?,
    }
    Ok(report.groups.iter().all(|group| group.is_known) && report.has_judged())
}
