//! `vidmm report`.

use std::{
    error::Error,
    io::{self, BufWriter},
    path::Path,
};

use vidmm_trace::{LogReader, log};
use vidmm_view::{WholeFile, report::Report};

use crate::{args::ReportArgs, style::printable};

/// Reads the log and writes the page.
pub fn write(args: &ReportArgs) -> Result<bool, Box<dyn Error>> {
    let path = args.events.display();
    let log = log::open(&args.events).map_err(|error| format!("{path}: cannot read: {error}"))?;
    let mut log = LogReader::new(log).map_err(|error| format!("{path}: {error}"))?;
    if args.damaged {
        log = log.damaged();
    }
    let report = Report::of(&mut log).map_err(|error| format!("{path}: {error}"))?;
    let page = args.output.display();
    if same_file::is_same_file(&args.events, &args.output).unwrap_or(false) {
        return Err(format!("{page} is the log; name another file for the page").into());
    }
    write_to(&report, &args.output).map_err(|error| format!("{page}: cannot write: {error}"))?;
    if let Some(damage) = log.damage() {
        anstream::eprintln!("note: {path} is read up to here: {}", printable(&damage.to_string()));
    }
    anstream::println!("{page} shows the run; open it in a browser");
    Ok(true)
}

fn write_to(report: &Report, path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(WholeFile::create(path)?);
    report.write(&mut file)?;
    file.into_inner()?.finish()
}
