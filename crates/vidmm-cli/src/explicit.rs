//! Running steps one by one, and showing what the manager asked for.

use std::{
    error::Error,
    io::{self, Write},
};

use vidmm::NumberedEvent;
use vidmm_sim::{ExplicitReport, ExplicitScenario, Line, MachineFactory, Observer, run_explicit};
use vidmm_trace::{ByteSize, LogHeader};

use crate::{
    args::{RunArgs, replay_command, settings},
    held_up,
    known::Known,
    output::{Files, check_apart},
    portions,
    report::{unless_closed, write_not_judged, write_turn_waits},
    sarif, strict,
    style::{BAD, BOLD, GOOD, VERB, counted, number},
    workload::tell_caps,
};

/// How wide the column of verbs is.
const VERB_WIDTH: usize = 12;

/// Runs a scenario's steps, prints the sequence, and writes what was asked for. Returns whether all that was checked held.
pub fn run(args: &RunArgs, scenario: &ExplicitScenario, factory: &dyn MachineFactory) -> Result<bool, Box<dyn Error>> {
    check_apart(&args.outputs(), &Vec::from_iter(args.inputs().into_iter().chain(args.known.clone())))?;
    tell_caps(&scenario.adapter.caps(scenario.aperture_bytes, scenario.aperture_commit_limit_bytes));
    let known = Known::read(args.known.as_deref())?;
    let mut header = LogHeader::new(&scenario.name, scenario.seed);
    header.level = args.events_level.into();
    header.settings = settings(&scenario.faults, scenario.seed, scenario.adapter.buggify);
    header.settings.insert("local memory".to_owned(), ByteSize(scenario.local_memory_bytes).to_string());
    header.settings.insert("policy".to_owned(), scenario.adapter.policy.to_string());
    let files = Files::create(args.events.as_deref(), args.summary.as_deref(), &args.inputs(), header)?;
    let files = files.with_statistics(args.statistics);
    let mut watcher = Watcher { files, lines: Vec::new() };
    let run = run_explicit(scenario, factory, &mut watcher);
    let Watcher { mut files, lines } = watcher;
    // A log that cannot be written must not hide what was found.
    let log = files.finish_log();
    let run = run?;
    let all_held = run.all_held() && strict::all_known(&run.illegal_uses, &known);
    let replay = (!all_held).then(|| replay_command(scenario.seed, &scenario.faults));
    let mut out = anstream::stdout().lock();
    unless_closed(write(&mut out, &scenario.name, &lines, &run, &known, replay.as_deref()))?;
    let shows_faults = run.shows_faults || scenario.tells_of_faults();
    if all_held && !scenario.faults.is_empty() && !shows_faults {
        unless_closed(writeln!(out, "note        nothing that was checked shows the mistakes made on purpose"))?;
    }
    unless_closed(write_not_judged(&mut out, factory.lacks(), ""))?;
    unless_closed(files.write_statistics(&mut out))?;
    files.write_summary(&run)?;
    if let (Some(sarif), Some(path)) = (&args.sarif, &args.scenario) {
        sarif::write(sarif, path, &entries(&run, &known))?;
    }
    log?;
    Ok(all_held)
}

/// The findings of a run, for other tools.
fn entries(run: &ExplicitReport, known: &Known) -> Vec<sarif::Entry> {
    let of_steps = run.findings.iter().map(|finding| {
        let rule = finding.rule.unwrap_or("EXPECT").to_owned();
        let key = format!("{rule} line {}", finding.line);
        sarif::Entry { rule, message: finding.problem.clone(), line: finding.line, key, is_known: false }
    });
    strict::entries(&run.illegal_uses, known).into_iter().chain(of_steps).collect()
}

/// Keeps the lines, and writes the event log.
struct Watcher {
    files: Files,
    lines: Vec<Line>,
}

impl Observer for Watcher {
    fn event(&mut self, event: &NumberedEvent) {
        self.files.event(event);
    }

    fn line(&mut self, line: &Line) {
        self.lines.push(line.clone());
    }
}

fn write(
    out: &mut impl Write,
    name: &str,
    lines: &[Line],
    run: &ExplicitReport,
    known: &Known,
    replay: Option<&str>,
) -> io::Result<()> {
    writeln!(out, "{BOLD}{name}{BOLD:#}")?;
    for line in lines {
        match line {
            Line::Adapter { verb, text } => writeln!(out, "{VERB}{verb:<VERB_WIDTH$}{VERB:#}{text}")?,
            Line::Step { text, answer: None } => writeln!(out, "\n{BOLD}{text}{BOLD:#}")?,
            Line::Step { text, answer: Some(answer) } => writeln!(out, "\n{BOLD}{text}{BOLD:#} -> {answer}")?,
            // Names of operations are longer than the column.
            Line::Asked { verb, text } if verb.len() >= VERB_WIDTH => writeln!(out, "  {VERB}{verb}{VERB:#}  {text}")?,
            Line::Asked { verb, text } => writeln!(out, "  {VERB}{verb:<VERB_WIDTH$}{VERB:#}{text}")?,
        }
    }
    if let Some(portions) = &run.portions {
        portions::write(out, portions)?;
    }
    let style = if run.all_held() { GOOD } else { BAD };
    let seen = [
        (run.pages_checked, "read by kernels"),
        (run.system_pages_checked, "seen by the CPU"),
        (run.aperture_pages_checked, "of the aperture"),
    ];
    let seen: Vec<String> = seen
        .iter()
        .filter(|(pages, _)| *pages > 0)
        .map(|(pages, place)| format!("{} {place}", counted(*pages, "page", "pages")))
        .collect();
    let pages = if seen.is_empty() {
        String::new()
    } else {
        format!("; {}: {} wrong", seen.join(", "), number(run.pages_wrong))
    };
    writeln!(out, "\n{style}checked{style:#}     {} of {} steps{pages}", number(run.steps_done), number(run.steps))?;
    held_up::write(out, &run.held_up, "")?;
    strict::write(out, &run.illegal_uses, known, "")?;
    for finding in &run.findings {
        writeln!(out, "{BAD}finding{BAD:#}     {finding}")?;
        writeln!(out, "            event {}", finding.event)?;
    }
    write_turn_waits(out, &run.turn_waits, "")?;
    match replay {
        Some(command) => writeln!(out, "replay      {command}"),
        None => Ok(()),
    }
}
