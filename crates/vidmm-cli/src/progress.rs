//! The progress of long commands, on standard error, if standard error is a terminal.

use std::{fs::File, io::BufRead, path::Path, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use vidmm_trace::{LogReader, log};

use crate::style::printable;

/// A bar of `count` things, which are called `unit`.
pub fn bar(message: &'static str, count: u64, unit: &str) -> ProgressBar {
    styled(message, count, &format!("[{{bar:27}}] {{pos}}/{{len}} {unit}, "))
}

/// The time that something takes whose end is not known.
pub fn clock(message: &'static str) -> ProgressBar {
    styled(message, 0, "")
}

fn styled(message: &'static str, count: u64, position: &str) -> ProgressBar {
    let form = format!("{{msg:>12.cyan.bold}} {position}{{elapsed}}");
    let style = ProgressStyle::with_template(&form).expect("the template is right").progress_chars("=> ");
    let bar = ProgressBar::new(count).with_style(style).with_message(message);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Reads a log with `read`, under a bar. A log that may be damaged is read up to the first bad line, and a note says so.
///
/// # Errors
///
/// Returns the error with the path of the log if the log cannot be read, and that of `read`.
pub fn read_log<T>(
    path: &Path,
    may_be_damaged: bool,
    read: impl FnOnce(&mut LogReader<Box<dyn BufRead>>) -> Result<T, String>,
) -> Result<T, String> {
    let shown = path.display();
    let cannot_read = |error| format!("{shown}: cannot read: {error}");
    let file = File::open(path).map_err(cannot_read)?;
    let bytes = file.metadata().map_or(0, |file| file.len());
    let bar = styled("Reading", bytes, "[{bar:27}] {bytes}/{total_bytes}, ");
    let log = log::plain(path, bar.wrap_read(file)).map_err(cannot_read)?;
    let mut log = LogReader::new(log).map_err(|error| format!("{shown}: {error}"))?;
    if may_be_damaged {
        log = log.damaged();
    }
    let outcome = read(&mut log)?;
    bar.finish_and_clear();
    if let Some(damage) = log.damage() {
        anstream::eprintln!("note: {shown} is read up to here: {}", printable(&damage.to_string()));
    }
    Ok(outcome)
}
