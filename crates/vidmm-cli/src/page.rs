//! `vidmm report`.

use std::{
    error::Error,
    io::{self, BufWriter},
    path::Path,
};

use vidmm_view::{WholeFile, report::Report};

use crate::{args::ReportArgs, output::cannot_write, progress::read_log};

/// Reads the log and writes the page.
pub fn write(args: &ReportArgs) -> Result<bool, Box<dyn Error>> {
    let path = args.events.display();
    let report =
        read_log(&args.events, args.damaged, |log| Report::of(log).map_err(|error| format!("{path}: {error}")))?;
    let page = args.output.display();
    if same_file::is_same_file(&args.events, &args.output).unwrap_or(false) {
        return Err(format!("{page} is the log; name another file for the page").into());
    }
    write_to(&report, &args.output).map_err(|error| cannot_write(&args.output, &error))?;
    anstream::println!("{page} shows the run; open it in a browser");
    Ok(true)
}

fn write_to(report: &Report, path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(WholeFile::create(path)?);
    report.write(&mut file)?;
    file.into_inner()?.finish()
}
