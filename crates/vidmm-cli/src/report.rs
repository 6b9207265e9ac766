//! The summary that a person reads.

use std::io::{self, Write};

use vidmm_sim::{Fault, Features, Figures, Finding, Report, TurnWait};
use vidmm_trace::{ByteSize, Workload};

use crate::{
    held_up,
    known::Known,
    processes, strict,
    style::{BAD, BOLD, GOOD, counted, number},
    table,
};

/// The number of processes that are named because their devices were in error.
const MOST_LOST: usize = 6;

/// The number of faults that are told.
const MOST_FAULTS: usize = 6;

/// Prints the figures and the findings of a run with `faults` in it, on a machine that lacks `lacks`. `other` is a run to
/// compare with, `known` the findings that do not fail it, `replay` the command that shows a finding again.
pub fn print(
    name: &str,
    workload: &Workload,
    report: &Report,
    other: Option<&Report>,
    (faults, lacks): (&[Fault], Features),
    known: &Known,
    replay: Option<&str>,
) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let written = write(&mut out, name, workload, report, other, (known, replay)).and_then(|()| match faults {
        [] => Ok(()),
        _ if !report.all_held() || report.figures.engine_resets + report.figures.adapter_resets > 0 => Ok(()),
        _ => writeln!(out, "  note        nothing that was read shows the mistakes made on purpose: they changed nothing, or nothing that mattered"),
    });
    unless_closed(written.and_then(|()| write_not_judged(&mut out, lacks, "  ")))
}

/// Names what was not judged, for what the machine lacks.
pub fn write_not_judged(out: &mut impl Write, lacks: Features, indent: &str) -> io::Result<()> {
    lacks.not_judged().iter().try_for_each(|subject| writeln!(out, "{indent}{:<12}{subject}", "not judged"))
}

/// Names the devices that waited long for their turn.
pub fn write_turn_waits(out: &mut impl Write, waits: &[TurnWait], indent: &str) -> io::Result<()> {
    waits.iter().try_for_each(|wait| writeln!(out, "{indent}{:<12}{wait}", "waited"))
}

/// Ignores the error that the reader of the output, such as `head`, has closed it.
pub fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn write(
    out: &mut impl Write,
    name: &str,
    workload: &Workload,
    report: &Report,
    other: Option<&Report>,
    (known, replay): (&Known, Option<&str>),
) -> io::Result<()> {
    let size = |bytes: u64| ByteSize(bytes).to_string();
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let seconds = |nanoseconds: u64| format!("{:.3} s", nanoseconds as f64 / 1e9);
    let r = report;

    writeln!(
        out,
        "{BOLD}{name}{BOLD:#}: {} kernels and {} uploads of {}, on {} buffers",
        number(r.kernels),
        number(r.uploads),
        counted(workload.processes().len() as u64, "process", "processes"),
        number(r.buffers),
    )?;
    let amount = |bytes: u64| format!("{} ({:.0} %)", size(bytes), share(bytes, r.footprint_bytes));
    let local = if r.local_memory_bytes == 0 {
        "no local memory".to_owned()
    } else {
        format!("local memory {}", amount(r.local_memory_bytes))
    };
    let system = r.system_memory_bytes.map(|bytes| format!(", system memory {}", amount(bytes))).unwrap_or_default();
    writeln!(out, "  memory      footprint {}, {local}{system}", size(r.footprint_bytes))?;
    let ahead = match r.figures.bytes_cleaned {
        0 => String::new(),
        bytes => format!(" ({} of it ahead)", size(bytes)),
    };
    writeln!(
        out,
        "  paging      {} in, {} out{}, {} filled{}; {} evictions, {} of them with a copy",
        size(r.figures.bytes_paged_in),
        size(r.figures.bytes_paged_out),
        ahead,
        size(r.figures.bytes_filled),
        match r.figures.bytes_prefetched {
            0 => String::new(),
            bytes => format!(", {} came ahead", size(bytes)),
        },
        number(r.figures.evictions),
        number(r.figures.evictions_copied),
    )?;
    writeln!(
        out,
        "  operations  {} transfers, {} fills, {} page-table updates, {} TLB flushes",
        number(r.figures.virtual_transfers),
        number(r.figures.virtual_fills),
        number(r.figures.update_page_tables),
        number(r.figures.flush_tlbs),
    )?;
    write_notifications(out, &r.figures)?;
    writeln!(
        out,
        "              in {} plans and {} paging buffers; the driver was called {} times",
        number(r.figures.plans),
        number(r.figures.paging_buffers),
        number(r.figures.build_calls),
    )?;
    writeln!(
        out,
        "  fences      {} paging fences signalled, {} submissions, {} events",
        number(r.figures.paging_fences),
        number(r.figures.submissions),
        number(r.figures.events),
    )?;
    writeln!(
        out,
        "  time        {} virtual: {} of work, {} of paging",
        seconds(r.time.virtual_ns),
        seconds(r.time.work_ns),
        seconds(r.time.paging_ns),
    )?;
    writeln!(
        out,
        "              {:.1} % of the paging was hidden behind work; {:.1} % of the time was lost to the rest",
        share(r.time.hidden_ns, r.time.paging_ns),
        share(r.time.lost_ns(), r.time.virtual_ns),
    )?;
    if r.time.bus_ns > 0 {
        writeln!(
            out,
            "              {} of the work was lost to access over the bus",
            vidmm_trace::explain::words::time(r.time.bus_ns)
        )?;
    }
    write_recovery(out, r)?;
    processes::write(out, &r.processes, r.time)?;
    let style = if r.all_held() { GOOD } else { BAD };
    writeln!(
        out,
        "  {style}checked{style:#}     {} pages read by {} of {} kernels: {style}{} wrong{style:#}",
        number(r.pages_checked),
        number(r.kernels_ended),
        number(r.kernels + r.uploads),
        number(r.pages_wrong),
    )?;
    if r.system_pages_checked > 0 {
        writeln!(
            out,
            "              {} pages of evicted buffers as the CPU sees them: {style}{} wrong{style:#}",
            number(r.system_pages_checked),
            number(r.system_pages_wrong),
        )?;
    }
    table::write(out, &r.rows)?;
    other.map_or(Ok(()), |other| write_comparison(out, r, other))?;
    for check in &r.checks {
        let (style, word) = if check.held { (GOOD, "held") } else { (BAD, "missed") };
        writeln!(out, "  {style}{word:<12}{style:#}{}", check.text)?;
    }
    write_faults(out, r)?;
    held_up::write(out, &r.held_up, "  ")?;
    strict::write(out, &r.illegal_uses, known, "  ")?;
    for finding in &r.findings {
        write_finding(out, finding)?;
    }
    write_turn_waits(out, &r.turn_waits, "  ")?;
    match replay {
        Some(command) => writeln!(out, "  replay      {command}"),
        None => Ok(()),
    }
}

/// Writes the resets, if there were any, and the processes whose devices were in error for them.
fn write_recovery(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let Figures { preemptions, engine_resets, adapter_resets, .. } = report.figures;
    let lost: Vec<_> = report.processes.iter().filter(|process| process.device_errors > 0).collect();
    if engine_resets + adapter_resets == 0 && lost.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "  recovery    {}, {}; engines were asked to yield {} times",
        counted(engine_resets, "engine reset", "engine resets"),
        counted(adapter_resets, "adapter reset", "adapter resets"),
        number(preemptions),
    )?;
    let shown = lost.iter().take(MOST_LOST);
    let names: Vec<String> =
        shown.map(|process| format!("{} {}", process.name, number(process.device_errors))).collect();
    let more = match lost.len().saturating_sub(MOST_LOST) {
        0 => String::new(),
        more => format!(", and {more} others"),
    };
    writeln!(out, "              devices in error: {}{more}", names.join(", "))
}

/// Writes the reports about the first devices in error and the first resets.
fn write_faults(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for fault in report.faults.iter().take(MOST_FAULTS) {
        let mut lines = fault.lines();
        writeln!(out, "  {BAD}fault{BAD:#}       {}", lines.next().unwrap_or_default())?;
        lines.try_for_each(|line| writeln!(out, "              {}", line.trim_start()))?;
    }
    match report.faults.len().saturating_sub(MOST_FAULTS) as u64 + report.more_faults {
        0 => Ok(()),
        more => writeln!(out, "  and {} of faults and resets", counted(more, "more report", "more reports")),
    }
}

/// The outcome of the run in which the processes behave otherwise.
fn write_comparison(out: &mut impl Write, report: &Report, other: &Report) -> io::Result<()> {
    let useful = |report: &Report| 100.0 * report.time.work_ns as f64 / report.time.virtual_ns.max(1) as f64;
    let copied = |report: &Report| ByteSize(report.figures.bytes_paged_in + report.figures.bytes_paged_out);
    writeln!(
        out,
        "  otherwise   {:.1} % of the time useful instead of {:.1} %; {} copied in and out instead of {}; {} wrong pages",
        useful(other),
        useful(report),
        copied(other),
        copied(report),
        number(other.pages_wrong),
    )
}

/// Writes the figures of particular machines and allocations.
fn write_notifications(out: &mut impl Write, figures: &Figures) -> io::Result<()> {
    let size = ByteSize(figures.eviction_notification_bytes);
    let chunks = counted(figures.eviction_notification_chunks, "chunk", "chunks");
    let lines = [
        (
            figures.eviction_notifications,
            format!("{} eviction notifications in {chunks} of {size}", number(figures.eviction_notifications)),
        ),
        (figures.bytes_decompressed, format!("{} decompressed", ByteSize(figures.bytes_decompressed))),
        (
            figures.io_mmu_unmap_notifications,
            format!("{} IOMMU unmap notifications", number(figures.io_mmu_unmap_notifications)),
        ),
        (figures.aperture_operations, format!("{} aperture operations", number(figures.aperture_operations))),
        (
            figures.demotions + figures.promotions,
            format!("{} demotions, {} promotions", number(figures.demotions), number(figures.promotions)),
        ),
    ];
    let mut shown = lines.iter().filter(|(count, _)| *count > 0);
    shown.try_for_each(|(_, text)| writeln!(out, "              {text}"))
}

/// The problems of a run, a text each.
pub fn problems(report: &Report) -> impl Iterator<Item = String> {
    let uses = report.illegal_uses.iter().map(ToString::to_string);
    let unheld = report.checks.iter().filter(|check| !check.held).map(|check| check.text.clone());
    uses.chain(report.findings.iter().map(ToString::to_string)).chain(unheld)
}

/// The first problem that fails a run, in a line. A run that shows how a mistake is found must have problems, and all of them
/// must contain `shows`.
pub fn first_of(problems: impl Iterator<Item = String>, shows: Option<&str>) -> Option<String> {
    let mut problems = problems.peekable();
    let problem = match shows {
        None => problems.next(),
        Some(words) if problems.peek().is_none() => Some(format!("nothing was found, but `{words}` must be")),
        Some(words) => problems.find(|problem| !problem.contains(words)),
    };
    problem.map(|problem| problem.lines().next().unwrap_or_default().to_owned())
}

fn write_finding(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    let text = finding.to_string();
    let mut lines = text.lines();
    writeln!(out, "  {BAD}finding{BAD:#}     {}", lines.next().unwrap_or_default())?;
    lines.try_for_each(|line| writeln!(out, "              {line}"))
}
