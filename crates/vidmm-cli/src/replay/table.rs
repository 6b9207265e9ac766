//! The table: a block for each input, a line for each size and policy.

use std::io::{self, Write};

use vidmm_replay::Link;
use vidmm_trace::ByteSize;

use super::row::{self, Row};
use crate::{
    args::ListsArg,
    style::{BAD, BOLD, GOOD, counted, number, printable},
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
    let reading = if first.reading.is_empty() { String::new() } else { format!("{}; ", printable(&first.reading)) };
    write!(out, "{BOLD}{}{BOLD:#}: {reading}footprint {}", first.input, ByteSize(first.footprint_bytes))?;
    if let (Some(objects), Some(submissions)) = (first.objects, first.submissions) {
        write!(
            out,
            ", {} in {}",
            counted(objects, "object", "objects"),
            counted(submissions, "submission", "submissions")
        )?;
    }
    write!(out, "{}", parameters(first))?;
    for remark in &first.remarks {
        write!(out, "\n  {remark}")?;
    }
    let head = format!(
        "  {:<22}{:<24}{:>11}{:>11}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "local memory", "policy", "in", "out", "misses", "bytes", "by MIN", "by whole", "by work", "by plan"
    );
    let fairness = if has_several(first) { format!("{:>10}", "fairness") } else { String::new() };
    writeln!(out, "\n{BOLD}{head}{fairness}{BOLD:#}")?;
    let mut before = None;
    for rows in rows.chunk_by(|one, other| name(one) == name(other)) {
        let size = if before == Some(&rows[0].local_memory) {
            String::new()
        } else {
            size(&rows[0].local_memory, rows[0].local_memory_bytes)
        };
        let mut size = Some(size);
        if before != Some(&rows[0].local_memory)
            && let Some(optimum) = optimum(&rows[0])
        {
            write_line(out, &size.take().unwrap_or_default(), "(MIN)", &[optimum])?;
        }
        before = Some(&rows[0].local_memory);
        write_line(out, &size.unwrap_or_default(), &rows[0].policy_name(), rows)?;
    }
    Ok(())
}

/// Whether a row is of several processes, which have a fairness.
fn has_several(row: &Row) -> bool {
    row.processes.is_some_and(|processes| processes > 1)
}

/// MIN on bytes, as a row.
fn optimum(row: &Row) -> Option<Row> {
    let split = row.optimum?.split;
    Some(Row {
        passed: None,
        bytes_prefetched: None,
        sample_error: None,
        fairness: None,
        misses: Some(split.misses),
        bytes_in: Some(split.bytes_in),
        bytes_out: Some(split.bytes_out),
        virtual_ns: Some(split.virtual_ns),
        uses: Some(split.uses),
        bytes_used: Some(split.bytes_used),
        work_ns: Some(split.work_ns),
        ..row.clone()
    })
}

/// The parameters that are not what they are by default.
fn parameters(row: &Row) -> String {
    let given = [
        row.processes.filter(|&processes| processes > 1).map(|processes| format!("{} processes", number(processes))),
        (row.lists == Some(ListsArg::Kept)).then(|| "lists kept".to_owned()),
        (row.batch > 1).then(|| format!("{} requests each", row.batch)),
        (row.iterations > 1).then(|| format!("{} iterations", row.iterations)),
        (row.page_bytes != vidmm_replay::PAGE).then(|| format!("pages of {}", ByteSize(row.page_bytes))),
        row.sample.map(|millionths| format!("a sample of {} % of the objects", millionths as f64 / 1e4)),
        (row.in_flight != 2).then(|| format!("{} in flight", row.in_flight)),
        row.link.filter(|&link| link != Link::default()).map(|link| {
            let [inward, outward] = [link.bytes_in_per_second, link.bytes_out_per_second].map(|of| of as f64 / 1e9);
            format!("{inward} GB/s in and {outward} GB/s out")
        }),
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
pub struct Mean {
    pub mean: f64,
    deviation: f64,
}

/// Student's factors of a 95 % interval, by the number of values less one, from 1; above the last the normal factor is near.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

impl Mean {
    /// Half the width of the 95 % interval of the mean of `count` values.
    pub fn interval(&self, count: usize) -> f64 {
        let factor = STUDENT.get(count.saturating_sub(2)).copied().unwrap_or(1.96);
        factor * self.deviation / (count.max(1) as f64).sqrt()
    }

    pub fn of(rows: &[Row], value: impl Fn(&Row) -> Option<f64>) -> Option<Self> {
        let values: Vec<f64> = rows.iter().map(value).collect::<Option<_>>()?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() < 2 { 0.0 } else { (squares / (values.len() - 1) as f64).sqrt() };
        Some(Self { mean, deviation })
    }
}

fn write_line(out: &mut impl Write, size: &str, name: &str, rows: &[Row]) -> io::Result<()> {
    let ratio = |of: &dyn Fn(&Row) -> Option<(u64, u64)>, factor: f64, unit: &str| {
        let quotient = |row: &Row| of(row).map(|of| row::quotient(of) * factor);
        Mean::of(rows, quotient).map_or_else(|| "-".to_owned(), |Mean { mean, .. }| format!("{mean:.2}{unit}"))
    };
    let bytes = |value: fn(&Row) -> Option<u64>| {
        let mean = Mean::of(rows, |row| value(row).map(|value| value as f64));
        mean.map_or_else(|| "-".to_owned(), |Mean { mean, .. }| ByteSize(mean.round() as u64).to_string())
    };
    write!(
        out,
        "  {size:<22}{name:<24}{:>11}{:>11}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        bytes(|row| row.bytes_in),
        bytes(|row| row.bytes_out),
        ratio(&|row| Some((row.misses?, row.uses?)), 100.0, " %"),
        ratio(&|row| Some((row.bytes_in?, row.bytes_used?)), 100.0, " %"),
        ratio(&|row| Some((row.bytes_in?, row.optimum?.split.bytes_in)), 1.0, ""),
        ratio(&|row| Some((row.bytes_in?, row.optimum?.whole.bytes_in)), 1.0, ""),
        ratio(&|row| Some((row.virtual_ns?, row.work_ns.filter(|&work| work > 0)?)), 1.0, ""),
        ratio(&|row| Some((row.virtual_ns?, row.optimum?.whole.virtual_ns)), 1.0, ""),
    )?;
    if has_several(&rows[0]) {
        let mean = Mean::of(rows, |row| row.fairness);
        write!(out, "{:>10}", mean.map_or_else(|| "-".to_owned(), |Mean { mean, .. }| format!("{mean:.2}")))?;
    }
    let in_seeds = Mean::of(rows, |row| row.bytes_in.map(|bytes| bytes as f64)).filter(|_| rows.len() > 1);
    if let Some(mean) = in_seeds {
        let percent = if mean.mean > 0.0 { mean.interval(rows.len()) / mean.mean * 100.0 } else { 0.0 };
        write!(out, "  +- {percent:.2} % (95 % interval of {} seeds)", rows.len())?;
    }
    if let Some(error) = rows[0].sample_error {
        write!(out, "  bytes +- {:.2} % (95 % interval of the sample)", error * 196.0)?;
    }
    if let Some(bytes) = rows[0].bytes_prefetched.filter(|&bytes| bytes > 0) {
        write!(out, "  {} of it in ahead", ByteSize(bytes))?;
    }
    if let Some(passed) = rows[0].passed.filter(|&passed| passed > 0) {
        write!(out, "  {} passed by", counted(passed, "request", "requests"))?;
    }
    writeln!(out)
}
