//! `vidmm report`.

use std::{
    error::Error,
    fs::File,
    io::{BufWriter, Write},
};

use vidmm_trace::{LogReader, log};
use vidmm_view::report;

use crate::{args::ReportArgs, style::printable};

/// Reads the log and writes the page.
pub fn write(args: &ReportArgs) -> Result<bool, Box<dyn Error>> {
    let path = args.events.display();
    let log = log::open(&args.events).map_err(|error| format!("{path}: cannot read: {error}"))?;
    let mut log = LogReader::new(log).map_err(|error| format!("{path}: {error}"))?;
    if args.damaged {
        log = log.damaged();
    }
    let page = args.output.display();
    let file = File::create(&args.output).map_err(|error| format!("{page}: cannot write: {error}"))?;
    let mut file = BufWriter::new(file);
    report::write(&mut log, &mut file).map_err(|error| format!("{path}: {error}"))?;
    file.flush().map_err(|error| format!("{page}: cannot write: {error}"))?;
    if let Some(damage) = log.damage() {
        anstream::eprintln!("note: {path} is read up to here: {}", printable(&damage.to_string()));
    }
    anstream::println!("{page} shows the run; open it in a browser");
    Ok(true)
}
