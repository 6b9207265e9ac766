//! Audits an event log: `cargo run -p vidmm-trace --example audit_log FILE.jsonl` prints the findings. With `--damaged` behind the
//! file, a log is read that is not whole, up to the first bad line. A file whose name ends with `.gz` is decompressed.
//!
//! Exit status: 0 the log holds together, 1 something was found, 2 the log cannot be read.

use std::{error::Error, ffi::OsString, path::Path, process::ExitCode};

use vidmm_trace::{Audit, AuditFinding, EventsLevel, LogReader, log};

const USAGE: &str = "usage: audit_log FILE.jsonl [--damaged]; write the file with `vidmm run --events FILE.jsonl`";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (path, damaged) = match &arguments[..] {
        [path] => (path, false),
        [path, word] if word == "--damaged" => (path, true),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match audit(Path::new(path), damaged) {
        Ok((events, findings)) => report(events, &findings),
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            ExitCode::from(2)
        }
    }
}

/// The number of events in a log, and the findings.
fn audit(path: &Path, damaged: bool) -> Result<(u64, Vec<AuditFinding>), Box<dyn Error>> {
    let log = LogReader::new(log::open(path)?)?;
    let mut log = if damaged { log.damaged() } else { log };
    let level = log.header().level;
    let (mut audit, mut events) = (Audit::of(level), 0);
    for event in &mut log {
        audit.event(&event?);
        events += 1;
    }
    if let Some(damage) = log.damage() {
        eprintln!("note: the log is read up to here: {damage}");
    }
    if level == EventsLevel::Decisions {
        println!("the log has decisions alone: {}", Audit::UNSEEN_IN_DECISIONS);
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
