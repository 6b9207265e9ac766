//! Writes the page of a log: `cargo run -p vidmm-view --example write_report EVENTS PAGE`.

use std::{error::Error, fs::File, path::PathBuf};

use vidmm_trace::{LogReader, log};
use vidmm_view::report::Report;

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let (events, page) = paths.next().zip(paths.next()).ok_or("name the log of a run, and the page")?;
    let report = Report::of(&mut LogReader::new(log::open(&events)?)?)?;
    report.write(&mut File::create(page)?)?;
    Ok(())
}
