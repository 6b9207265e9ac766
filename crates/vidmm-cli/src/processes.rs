//! What became of each process of a run, as a table, and what those did that have the habits of clients that exist.

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

/// The columns of what clients did.
const CLIENT_COLUMNS: [(&str, usize); 6] =
    [("submissions", 12), ("MakeResident", 14), ("refused", 9), ("Evict", 10), ("pages read", 13), ("wrong", 8)];

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
        0 => {}
        more => writeln!(out, "  and {} that did less", number(more as u64))?,
    }
    write_clients(out, &shown)
}

/// Writes what those of the processes did that have the habits of clients that exist.
fn write_clients(out: &mut impl Write, processes: &[&ProcessFigures]) -> io::Result<()> {
    let clients: Vec<_> = processes.iter().filter_map(|&process| Some((process, process.client?))).collect();
    if clients.is_empty() {
        return Ok(());
    }
    write!(out, "  {BOLD}{:<20}{:<16}{BOLD:#}", "clients", "")?;
    write_row(out, &CLIENT_COLUMNS.map(|(name, width)| (format!("{BOLD}{name:>width$}{BOLD:#}"), 0)))?;
    for (process, client) in clients {
        let figures = [
            process.kernels_ended,
            process.make_residents,
            process.refusals,
            process.evicts,
            process.pages_checked,
            process.pages_wrong,
        ];
        write!(out, "    {:<18}{:<16}", short(&process.name), client.name())?;
        let mut widths = CLIENT_COLUMNS.iter().map(|&(_, width)| width);
        write_row(out, &figures.map(|figure| (number(figure), widths.next().unwrap_or(0))))?;
    }
    Ok(())
}

/// Writes cells, each as wide as it says, and ends the line.
fn write_row(out: &mut impl Write, cells: &[(String, usize)]) -> io::Result<()> {
    cells.iter().try_for_each(|(cell, width)| write!(out, "{cell:>width$}"))?;
    writeln!(out)
}

/// The name of a process, as far as there is room.
fn short(name: &str) -> String {
    name.chars().take(17).collect()
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
    write!(out, "    {:<18}", short(&process.name))?;
    for (cell, (_, width)) in cells.iter().zip(COLUMNS) {
        write!(out, "{cell:>width$}")?;
    }
    writeln!(out)
}
