//! The state of processes as time passes, as a table.

use std::io::{self, Write};

use vidmm::{PriorityBand, Visibility};
use vidmm_sim::{NonLocal, Row, Standing};
use vidmm_trace::ByteSize;

use crate::style::{BOLD, number};

/// Writes the rows; those of one time stand together.
pub fn write(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let head = format!(
        "  {:<7}{:<12}{:<7}{:<10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>10}{:>10}",
        "time", "process", "band", "seen", "budget", "usage", "list", "evicted", "answers", "mean", "worst"
    );
    writeln!(out, "{BOLD}{head}{BOLD:#}")?;
    let mut last = None;
    for row in rows {
        let time = if last == Some(row.at_ns) { String::new() } else { format!("{:.1} s", row.at_ns as f64 / 1e9) };
        last = Some(row.at_ns);
        write_row(out, &time, row)?;
    }
    Ok(())
}

fn write_row(out: &mut impl Write, time: &str, row: &Row) -> io::Result<()> {
    let Some(standing) = row.standing else {
        return writeln!(out, "  {time:<7}{:<12}-", row.process);
    };
    let Standing { band, visibility, is_suspended, budget, current_usage, requested, non_local } = standing;
    let size = |bytes: u64| ByteSize(bytes).to_string();
    let ms = |ns: u64| if row.answers == 0 { "-".to_owned() } else { format!("{:.1} ms", ns as f64 / 1e6) };
    let state = if is_suspended { "  suspended" } else { "" };
    writeln!(
        out,
        "  {time:<7}{:<12}{:<7}{:<10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>10}{:>10}{state}",
        row.process,
        band_name(band),
        visibility_name(visibility),
        size(budget),
        size(current_usage),
        size(requested),
        size(row.evicted_bytes),
        number(row.answers),
        ms(row.mean_ns),
        ms(row.worst_ns),
    )?;
    let Some(NonLocal { budget, current_usage, requested }) = non_local else { return Ok(()) };
    writeln!(
        out,
        "  {:<26}{:<10}{:>10}{:>10}{:>10}",
        "",
        "non-local",
        size(budget),
        size(current_usage),
        size(requested)
    )
}

fn band_name(band: PriorityBand) -> &'static str {
    match band {
        PriorityBand::Dwm => "dwm",
        PriorityBand::Focus => "focus",
        PriorityBand::Normal => "normal",
    }
}

fn visibility_name(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Minimized => "minimized",
        Visibility::Occluded => "occluded",
        Visibility::Visible => "visible",
    }
}
