//! The timetable of a run: changes that are due, rows of the table, and checks.

use std::collections::BTreeMap;

use serde::Serialize;
use vidmm::{MemorySegmentGroup, Nanoseconds, PriorityBand, VideoMemoryInfo, Visibility};
use vidmm_runtime::{AllocationSegments, Runtime};

use crate::{
    accounts::Accounts,
    client::{Answer, Client, ClientError},
    exact::exact,
    scenario::{Change, Check, Script},
    timeline::Shares,
};

/// One process at one time: a row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The time in nanoseconds.
    pub at_ns: Nanoseconds,
    /// The process.
    pub process: String,
    /// Its priority band; none before it began and after its end.
    pub standing: Option<Standing>,
    /// Bytes of it that left local memory since the row before.
    pub evicted_bytes: u64,
    /// Answers since the row before. The kernels that arrived together, such as those of a frame, are one answer.
    pub answers: u64,
    /// The average duration of these answers, in nanoseconds.
    pub mean_ns: Nanoseconds,
    /// The duration of the longest, in nanoseconds.
    pub worst_ns: Nanoseconds,
}

/// The state of a process in the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Its priority band.
    pub band: PriorityBand,
    /// Its visibility to the user.
    pub visibility: Visibility,
    /// Whether its device is suspended.
    pub is_suspended: bool,
    /// Its budget of local memory, in bytes.
    pub budget: u64,
    /// Its usage of local memory, in bytes.
    pub current_usage: u64,
    /// The bytes of local memory that its list names.
    pub requested: u64,
    /// The same of non-local memory; none if all buffers of the run are in local memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub non_local: Option<NonLocal>,
}

/// The non-local memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NonLocal {
    /// Its budget, in bytes.
    pub budget: u64,
    /// Its usage, in bytes.
    pub current_usage: u64,
    /// The bytes that its list names.
    pub requested: u64,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The check in words, with the figures that were found.
    pub text: String,
    /// Whether it held.
    pub held: bool,
}

/// A change, a row or a check that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    Change(usize),
    Row,
    Away(usize),
    Back(usize),
    End,
}

/// A script in play.
pub(crate) struct Play<'a> {
    script: &'a Script,
    due: BTreeMap<Nanoseconds, Vec<Due>>,
    pub rows: Vec<Row>,
    /// For each process of the table, its evicted bytes and its answers at the last row.
    shown: Vec<(u64, usize)>,
    /// For each check of lost memory: the missing bytes of the list when some should be missing, and when none should
    /// be.
    missing: BTreeMap<usize, [Option<u64>; 2]>,
}

impl<'a> Play<'a> {
    pub fn new(script: &'a Script) -> Self {
        let mut due: BTreeMap<Nanoseconds, Vec<Due>> = BTreeMap::new();
        let mut plan = |at: Nanoseconds, what| due.entry(at).or_default().push(what);
        for (number, check) in script.checks.iter().enumerate() {
            if let Check::BroughtBack { away, back, .. } = check {
                plan(away.ns, Due::Away(number));
                plan(back.ns, Due::Back(number));
            }
        }
        if let Some(table) = &script.table {
            plan(table.every.ns, Due::Row);
        }
        script.changes.iter().enumerate().for_each(|(number, change)| plan(change.at.ns, Due::Change(number)));
        script.end.iter().for_each(|end| plan(end.ns, Due::End));
        let shown = script.table.as_ref().map_or(0, |table| table.processes.len());
        Self { script, due, rows: Vec::new(), shown: vec![(0, 0); shown], missing: BTreeMap::new() }
    }

    /// The time of the next thing that is due.
    pub fn next(&self) -> Option<Nanoseconds> {
        self.due.keys().next().copied()
    }

    /// Whether the run lasts until a time that is still to come.
    pub fn lasts(&self) -> bool {
        self.script.end.is_some() && !self.due.is_empty()
    }

    /// Does all that is due now.
    pub fn act(
        &mut self,
        runtime: &mut Runtime,
        client: &mut Client<'_>,
        accounts: &Accounts,
    ) -> Result<(), ClientError> {
        while let Some(entry) = self.due.first_entry().filter(|entry| *entry.key() <= runtime.now()) {
            let (at, mut all) = entry.remove_entry();
            // Nothing is due any more after the end.
            all.sort_by_key(|due| matches!(due, Due::End));
            for due in all {
                match due {
                    Due::Change(number) => change(&self.script.changes[number], runtime, client)?,
                    Due::Row => self.add_rows(at, runtime, client, accounts),
                    Due::Away(number) => self.look(number, 0, runtime, client),
                    Due::Back(number) => self.look(number, 1, runtime, client),
                    Due::End => {
                        self.due.clear();
                        client.exit_all(runtime);
                    }
                }
            }
        }
        Ok(())
    }

    fn add_rows(&mut self, at: Nanoseconds, runtime: &mut Runtime, client: &Client<'_>, accounts: &Accounts) {
        let Some(table) = &self.script.table else { return };
        for (name, shown) in table.processes.iter().zip(&mut self.shown) {
            let Some(process) = client.process_named(name) else { continue };
            let (evicted, answers) = (accounts.figures(process).bytes_evicted, client.answers(process));
            let (evicted_before, answers_before) = std::mem::replace(shown, (evicted, answers.len()));
            let lasted: Vec<Nanoseconds> = answers[answers_before..].iter().map(|answer| answer.ns()).collect();
            self.rows.push(Row {
                at_ns: at,
                process: name.clone(),
                standing: client.is_alive(process).then(|| standing(process, runtime, client, accounts)),
                evicted_bytes: evicted - evicted_before,
                answers: lasted.len() as u64,
                mean_ns: lasted.iter().sum::<u64>() / (lasted.len() as u64).max(1),
                worst_ns: lasted.iter().copied().max().unwrap_or(0),
            });
        }
        self.due.entry(at + table.every.ns).or_default().push(Due::Row);
    }

    /// Records how many bytes of a process's list are missing.
    fn look(&mut self, number: usize, which: usize, runtime: &mut Runtime, client: &Client<'_>) {
        let Check::BroughtBack { process, .. } = &self.script.checks[number] else { return };
        let Some(process) = client.process_named(process) else { return };
        let info = memory_info(process, MemorySegmentGroup::Local, runtime, client);
        self.missing.entry(number).or_default()[which] = Some(info.requested.saturating_sub(info.current_usage));
    }

    /// The results of the checks, without those that need another run.
    pub fn judge(&self, client: &Client<'_>, accounts: &Accounts, time: Shares) -> Vec<CheckReport> {
        let judged = self.script.checks.iter().enumerate().filter_map(|(number, check)| match check {
            Check::ForegroundKeeps => Some(foreground_keeps(accounts)),
            Check::Answers { process, answer, than, at_most } => {
                let answers = client.process_named(process).map_or(&[][..], |process| client.answers(process));
                Some(compare_answers(process, answers, *answer, *than, *at_most))
            }
            Check::BroughtBack { process, away, back } => {
                let missing = self.missing.get(&number).copied().unwrap_or_default();
                Some(brought_back(process, away.ns, back.ns, missing))
            }
            Check::Errors { process, exactly } => {
                let errors = client.process_named(process).map(|process| accounts.figures(process).device_errors);
                let text = format!(
                    "the device of {process} was in error {} times, exactly {exactly} are wanted",
                    errors.unwrap_or(0)
                );
                Some(CheckReport { text, held: errors == Some(*exactly) })
            }
            Check::Useful { at_least } => {
                let useful = 100.0 * time.work_ns as f64 / time.virtual_ns.max(1) as f64;
                let text = format!("a kernel ran in {useful:.1} % of the time, at least {at_least} % is wanted");
                Some(CheckReport { text, held: useful >= *at_least })
            }
            Check::Copied { .. } | Check::KeepsUp { .. } => None,
        });
        judged.collect()
    }
}

fn change(change: &Change, runtime: &mut Runtime, client: &mut Client<'_>) -> Result<(), ClientError> {
    let Some(process) = client.process_named(&change.process) else { return Ok(()) };
    if change.band.is_some() || change.visibility.is_some() {
        client.set_priority(runtime, process, change.band, change.visibility);
    }
    if change.trim {
        client.trim_all(runtime, process)?;
    }
    if change.exit {
        client.exit(runtime, process);
    }
    Ok(())
}

/// The manager's answer about a process's memory of a group.
fn memory_info(
    process: usize,
    group: MemorySegmentGroup,
    runtime: &mut Runtime,
    client: &Client<'_>,
) -> VideoMemoryInfo {
    let (id, ..) = client.processes().nth(process).expect("it is one of them");
    let info = runtime.vidmm().query_video_memory_info(id, group);
    info.expect("processes live as long as the run")
}

fn standing(process: usize, runtime: &mut Runtime, client: &Client<'_>, accounts: &Accounts) -> Standing {
    let (_, _, desc) = client.processes().nth(process).expect("it is one of them");
    let (band, visibility) = (desc.band, desc.visibility);
    let mut info = |group| memory_info(process, group, runtime, client);
    let VideoMemoryInfo { budget, current_usage, requested, .. } = info(MemorySegmentGroup::Local);
    let uses_system = client.processes().any(|(.., desc)| desc.segments() != AllocationSegments::Local);
    let non_local = uses_system.then(|| {
        let VideoMemoryInfo { budget, current_usage, requested, .. } = info(MemorySegmentGroup::NonLocal);
        NonLocal { budget, current_usage, requested }
    });
    let is_suspended = accounts.is_suspended(process);
    Standing { band, visibility, is_suspended, budget, current_usage, requested, non_local }
}

fn foreground_keeps(accounts: &Accounts) -> CheckReport {
    let evicted: u64 = accounts.all_figures().map(|figures| figures.foreground_bytes_evicted).sum();
    let evicted_bytes = if evicted == 0 { "0 bytes".to_owned() } else { exact(evicted) };
    let text =
        format!("{evicted_bytes} on the lists of processes in focus were evicted within their budgets, 0 are allowed");
    CheckReport { text, held: evicted == 0 }
}

fn compare_answers(process: &str, answers: &[Answer], answer: u32, than: u32, at_most: f64) -> CheckReport {
    let ns = |number: u32| answers.get((number as usize).wrapping_sub(1)).map(|answer| answer.ns());
    let (Some(later), Some(earlier)) = (ns(answer), ns(than)) else {
        let text = format!("{process} gave {} answers, and not number {}", answers.len(), answer.max(than));
        return CheckReport { text, held: false };
    };
    let (ratio, ms) = (later as f64 / earlier.max(1) as f64, |ns: u64| ns as f64 / 1e6);
    let text = format!(
        "answer {answer} of {process} took {:.1} ms, {ratio:.2} times the {:.1} ms of answer {than}, at most {at_most} is allowed",
        ms(later),
        ms(earlier)
    );
    CheckReport { text, held: ratio <= at_most }
}

fn brought_back(process: &str, away: Nanoseconds, back: Nanoseconds, missing: [Option<u64>; 2]) -> CheckReport {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let [Some(gone), Some(left)] = missing else {
        return CheckReport { text: format!("the run ended before {:.1} s", seconds(back)), held: false };
    };
    let text = format!(
        "{process} had lost {} of its list by {:.1} s, and {} were missing at {:.1} s",
        exact(gone),
        seconds(away),
        exact(left),
        seconds(back)
    );
    CheckReport { text, held: gone > 0 && left == 0 }
}
