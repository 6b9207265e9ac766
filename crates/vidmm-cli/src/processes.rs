//! What became of each process of a run, as a table.

use std::io::{self, Write};

use vidmm_sim::{ProcessFigures, Shares};
use vidmm_trace::ByteSize;

use crate::style::{BOLD, number};

/// The columns: what each shows, and how wide it is.
const COLUMNS: [(&str, usize); 9] = [
    ("kernels", 8),
    ("work", 12),
    ("in", 10),
    ("out", 10),
    ("filled", 10),
    ("refused", 8),
    ("waited", 10),
    ("trims", 6),
    ("suspended", 10),
];

/// The most processes that are shown; small ones of many say nothing.
const MOST: usize = 16;

/// Writes the table of the processes that did most, if there are several, and which part of the time a kernel ran in.
pub fn write(out: &mut impl Write, processes: &[ProcessFigures], time: Shares) -> io::Result<()> {
    if processes.is_empty() {
        return Ok(());
    }
    let useful = 100.0 * time.work_ns as f64 / time.virtual_ns.max(1) as f64;
    writeln!(out, "              {useful:.1} % of the time was useful: a kernel ran")?;
    write!(out, "  {BOLD}{:<20}{BOLD:#}", "processes")?;
    COLUMNS.iter().try_for_each(|(name, width)| write!(out, "{BOLD}{name:>width$}{BOLD:#}"))?;
    writeln!(out)?;
    let mut shown: Vec<&ProcessFigures> = processes.iter().collect();
    if shown.len() > MOST {
        shown.sort_by_key(|process| std::cmp::Reverse(process.work_ns));
        shown.truncate(MOST);
    }
    for process in &shown {
        write_process(out, process)?;
    }
    match processes.len() - shown.len() {
        0 => Ok(()),
        more => writeln!(out, "  and {} that did less", number(more as u64)),
    }
}

fn write_process(out: &mut impl Write, process: &ProcessFigures) -> io::Result<()> {
    let size = |bytes: u64| ByteSize(bytes).to_string();
    let seconds = |nanoseconds: u64| format!("{:.3} s", nanoseconds as f64 / 1e9);
    let cells = [
        number(process.kernels_ended),
        seconds(process.work_ns),
        size(process.bytes_paged_in),
        size(process.bytes_paged_out),
        size(process.bytes_filled),
        number(process.refusals),
        seconds(process.waited_ns),
        number(process.trims_to_budget + process.periodic_trims),
        number(process.suspensions),
    ];
    write!(out, "    {:<18}", process.name.chars().take(17).collect::<String>())?;
    for (cell, (_, width)) in cells.iter().zip(COLUMNS) {
        write!(out, "{cell:>width$}")?;
    }
    writeln!(out)
}
