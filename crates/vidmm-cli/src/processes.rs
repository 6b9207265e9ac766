//! The figures of each process of a run, as a table, and the calls of those that have the habits of real clients.

use std::io::{self, Write};

use vidmm_sim::{ProcessFigures, Shares};
use vidmm_trace::ByteSize;

use crate::style::{BOLD, number};

/// The columns: the title and the width of each.
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

/// The columns of clients' calls.
const CLIENT_COLUMNS: [(&str, usize); 7] = [
    ("client", 16),
    ("submissions", 13),
    ("MakeResident", 14),
    ("refused", 9),
    ("Evict", 9),
    ("pages read", 12),
    ("wrong", 7),
];

/// The number of processes that are shown; small ones of many say nothing.
const MOST: usize = 16;

/// Writes the table of the busiest processes, if there are several, and the share of the time in which a kernel ran.
pub fn write(out: &mut impl Write, processes: &[ProcessFigures], time: Shares) -> io::Result<()> {
    if processes.is_empty() {
        return Ok(());
    }
    let useful = 100.0 * time.work_ns as f64 / time.virtual_ns.max(1) as f64;
    writeln!(out, "              {useful:.1} % of the time was useful: a kernel ran")?;
    let mut shown: Vec<&ProcessFigures> = processes.iter().collect();
    if shown.len() > MOST {
        shown.sort_by_key(|process| std::cmp::Reverse(process.work_ns));
        shown.truncate(MOST);
    }
    let rows: Vec<_> = shown.iter().map(|process| (&*process.name, cells(process))).collect();
    write_table(out, "processes", &COLUMNS, &rows)?;
    match processes.len() - shown.len() {
        0 => {}
        more => writeln!(out, "  and {} that did less", number(more as u64))?,
    }
    let clients: Vec<_> = shown.iter().filter_map(|process| Some((&*process.name, client_cells(process)?))).collect();
    if clients.is_empty() { Ok(()) } else { write_table(out, "clients", &CLIENT_COLUMNS, &clients) }
}

fn cells(process: &ProcessFigures) -> [String; 9] {
    let size = |bytes: u64| ByteSize(bytes).to_string();
    let seconds = |nanoseconds: u64| format!("{:.3} s", nanoseconds as f64 / 1e9);
    [
        number(process.kernels_ended),
        seconds(process.work_ns),
        size(process.bytes_paged_in),
        size(process.bytes_paged_out),
        size(process.bytes_filled),
        number(process.refusals),
        seconds(process.waited_ns),
        number(process.trims_to_budget + process.periodic_trims),
        number(process.suspensions),
    ]
}

/// None if the process models no client.
fn client_cells(process: &ProcessFigures) -> Option<[String; 7]> {
    Some([
        process.client?.name().to_owned(),
        number(process.kernels_ended),
        number(process.make_residents),
        number(process.refusals),
        number(process.evicts),
        number(process.pages_checked),
        number(process.pages_wrong),
    ])
}

/// Writes rows, each with the name of its process. A column grows with its longest value.
fn write_table<const N: usize>(
    out: &mut impl Write,
    title: &str,
    columns: &[(&str, usize); N],
    rows: &[(&str, [String; N])],
) -> io::Result<()> {
    let longest = |column: usize| rows.iter().map(|(_, cells)| cells[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(|column| columns[column].1.max(longest(column) + 1)).collect();
    write!(out, "  {BOLD}{title:<20}{BOLD:#}")?;
    columns.iter().zip(&widths).try_for_each(|((name, _), width)| write!(out, "{BOLD}{name:>width$}{BOLD:#}"))?;
    writeln!(out)?;
    for (name, cells) in rows {
        write!(out, "    {:<18}", vidmm_view::cut(name, 17))?;
        cells.iter().zip(&widths).try_for_each(|(cell, width)| write!(out, "{cell:>width$}"))?;
        writeln!(out)?;
    }
    Ok(())
}
