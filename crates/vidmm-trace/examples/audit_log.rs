//! Audits an event log: `cargo run -p vidmm-trace --example audit_log FILE.jsonl` prints the findings. With `--damaged` behind the
//! file, a log is read that is not whole, up to the first bad line.
//!
//! Exit status: 0 the log holds together, 1 something was found, 2 the log cannot be read.

use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

use vidmm_trace::{Audit, AuditFinding, LogReader};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(path), damaged, None) = (arguments.next(), arguments.next(), arguments.next()) else {
        eprintln!("usage: audit_log FILE.jsonl [--damaged]; write the file with `vidmm run --events FILE.jsonl`");
        return ExitCode::from(2);
    };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) => return unreadable(&path, &error),
    };
    match audit(BufReader::new(file), damaged.is_some_and(|word| word == "--damaged")) {
        Ok((events, findings)) => report(events, &findings),
        Err(error) => unreadable(&path, &error),
    }
}

/// The number of events in a log, and the findings.
fn audit(file: BufReader<File>, damaged: bool) -> Result<(u64, Vec<AuditFinding>), vidmm_trace::LogError> {
    let (mut audit, mut events) = (Audit::new(), 0);
    let log = LogReader::new(file)?;
    let mut log = if damaged { log.damaged() } else { log };
    for event in &mut log {
        audit.event(&event?);
        events += 1;
    }
    if let Some(damage) = log.damage() {
        eprintln!("note: the log is read up to here: {damage}");
    }
    Ok((events, audit.finish()))
}

fn report(events: u64, findings: &[AuditFinding]) -> ExitCode {
    for finding in findings {
        println!("{finding}");
    }
    println!("{events} events, {} findings", findings.len());
    ExitCode::from(u8::from(!findings.is_empty()))
}

fn unreadable(path: &std::ffi::OsStr, error: &dyn std::error::Error) -> ExitCode {
    eprintln!("{}: {error}", path.display());
    ExitCode::from(2)
}
