//! The table: a block for each input, a line for each size and policy.

use std::io::{self, Write};

use vidmm_trace::ByteSize;

use super::row::{self, Row};
use crate::{
    args::ListsArg,
    style::{BAD, BOLD, GOOD, counted, number},
};

/// Writes all rows; those that differ only in the seed that the command draws are one line. Behind them is what was `left_out`.
pub fn write(out: &mut impl Write, rows: &[Row], left_out: &[String]) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "this shard has no combination: there are fewer of them than shards");
    }
    for rows in rows.chunk_by(|one, other| one.input == other.input) {
        write_input(out, rows)?;
    }
    for reason in left_out {
        writeln!(out, "{BAD}left out{BAD:#}    {reason}")?;
    }
    let checked = rows.iter().filter_map(|row| row.pages_checked);
    if checked.clone().next().is_some() {
        let findings: u64 = rows.iter().filter_map(|row| row.findings).sum();
        let style = if findings == 0 { GOOD } else { BAD };
        let (pages, runs) = (number(checked.sum()), counted(rows.len() as u64, "run", "runs"));
        writeln!(out, "{style}checked{style:#}     {pages} pages in {runs}; {} findings", number(findings))?;
    }
    Ok(())
}

fn write_input(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    let first = &rows[0];
    write!(out, "{BOLD}{}{BOLD:#}: footprint {}", first.input, ByteSize(first.footprint_bytes))?;
    if let (Some(objects), Some(submissions)) = (first.objects, first.submissions) {
        write!(
            out,
            ", {} in {}",
            counted(objects, "object", "objects"),
            counted(submissions, "submission", "submissions")
        )?;
    }
    write!(out, "{}", parameters(first))?;
    let head = format!(
        "  {:<22}{:<24}{:>11}{:>11}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "local memory", "policy", "in", "out", "misses", "bytes", "by MIN", "by whole", "by work", "by plan"
    );
    writeln!(out, "\n{BOLD}{head}{BOLD:#}")?;
    let mut before = None;
    for rows in rows.chunk_by(|one, other| name(one) == name(other)) {
        let size = if before == Some(&rows[0].local_memory) {
            String::new()
        } else {
            size(&rows[0].local_memory, rows[0].local_memory_bytes)
        };
        before = Some(&rows[0].local_memory);
        write_line(out, &size, rows)?;
    }
    Ok(())
}

/// The parameters that are not what they are by default.
fn parameters(row: &Row) -> String {
    let given = [
        (row.lists == Some(ListsArg::Kept)).then(|| "lists kept".to_owned()),
        (row.batch > 1).then(|| format!("{} requests each", row.batch)),
        (row.iterations > 1).then(|| format!("{} iterations", row.iterations)),
        (row.in_flight != 2).then(|| format!("{} in flight", row.in_flight)),
        (row.warm_up > 0).then(|| format!("{} left out to warm up", number(row.warm_up))),
    ];
    given.into_iter().flatten().map(|parameter| format!(", {parameter}")).collect()
}

fn name(row: &Row) -> (&str, String) {
    (&row.local_memory, row.policy_name())
}

/// A size of memory as it was asked for, and in bytes where that was a share.
pub fn size(asked: &str, bytes: u64) -> String {
    let bytes = ByteSize(bytes).to_string();
    if asked == bytes { bytes } else { format!("{asked} = {bytes}") }
}

/// The mean of some runs that differ only in the seed, and how far it is from those.
struct Mean {
    mean: f64,
    deviation: f64,
}

impl Mean {
    fn of(rows: &[Row], value: impl Fn(&Row) -> Option<f64>) -> Option<Self> {
        let values: Vec<f64> = rows.iter().map(value).collect::<Option<_>>()?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() < 2 { 0.0 } else { (squares / (values.len() - 1) as f64).sqrt() };
        Some(Self { mean, deviation })
    }
}

fn write_line(out: &mut impl Write, size: &str, rows: &[Row]) -> io::Result<()> {
    let ratio = |of: &dyn Fn(&Row) -> Option<(u64, u64)>, factor: f64, unit: &str| {
        let quotient = |row: &Row| of(row).map(|of| row::quotient(of) * factor);
        Mean::of(rows, quotient).map_or_else(|| "-".to_owned(), |Mean { mean, .. }| format!("{mean:.2}{unit}"))
    };
    let bytes = |value: fn(&Row) -> u64| {
        let mean = Mean::of(rows, |row| Some(value(row) as f64)).map_or(0.0, |mean| mean.mean);
        ByteSize(mean.round() as u64).to_string()
    };
    write!(
        out,
        "  {size:<22}{:<24}{:>11}{:>11}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        name(&rows[0]).1,
        bytes(|row| row.bytes_in),
        bytes(|row| row.bytes_out),
        ratio(&|row| Some((row.misses?, row.uses?)), 100.0, " %"),
        ratio(&|row| Some((row.bytes_in, row.bytes_used?)), 100.0, " %"),
        ratio(&|row| Some((row.bytes_in, row.optimum?.split_bytes_in)), 1.0, ""),
        ratio(&|row| Some((row.bytes_in, row.optimum?.whole_bytes_in)), 1.0, ""),
        ratio(&|row| (row.work_ns > 0).then_some((row.virtual_ns, row.work_ns)), 1.0, ""),
        ratio(&|row| Some((row.virtual_ns, row.optimum?.virtual_ns)), 1.0, ""),
    )?;
    if let Some(Mean { mean, deviation }) = Mean::of(rows, |row| Some(row.bytes_in as f64)).filter(|_| rows.len() > 1) {
        let percent = if mean > 0.0 { deviation / mean * 100.0 } else { 0.0 };
        write!(out, "  +- {percent:.2} % in {} seeds", rows.len())?;
    }
    writeln!(out)
}
