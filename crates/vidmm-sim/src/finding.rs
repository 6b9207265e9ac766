//! The findings of a run.

use std::fmt;

use serde::Serialize;
use vidmm::MemorySegmentGroup;

use crate::accounts::Touched;

/// A finding of a run: a check that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum Finding {
    /// A kernel read a wrong page.
    WrongPage {
        /// The kernel.
        kernel: usize,
        /// Its process.
        process: String,
        /// The buffer, as the workload names it.
        buffer: u64,
        /// The allocation that holds it.
        allocation: Option<String>,
        /// The page, counted from 0.
        page: u64,
        /// The digest that it must have.
        expected: u64,
        /// The digest that it had.
        found: u64,
        /// Wrong pages in all inputs of the kernel.
        wrong: u64,
        /// The number of the event that recorded the finding.
        event: u64,
    },
    /// The CPU sees a wrong page of an evicted buffer.
    WrongSystemPage {
        /// The buffer, as the workload names it.
        buffer: u64,
        /// The allocation that holds it.
        allocation: String,
        /// The page, counted from 0.
        page: u64,
        /// Its address in system memory, in bytes.
        address: u64,
        /// The digest that it must have.
        expected: u64,
        /// The digest that it has.
        found: u64,
        /// Wrong pages of the allocation.
        wrong: u64,
        /// The number of the last event.
        event: u64,
    },
    /// Work accessed memory where nothing is resident.
    PageFault {
        /// The address.
        virtual_address: u64,
        /// Whether it was a write.
        write: bool,
        /// The engine.
        engine: u32,
        /// The allocation that the client has mapped there.
        allocation: Option<String>,
        /// Which page of it, counted from 0.
        page: u64,
        /// The owner of that allocation, and the event log's answer about it; none if the run kept no accounts.
        touched: Option<Touched>,
        /// The number of the last event.
        event: u64,
    },
    /// The driver or the GPU broke a rule.
    Violation {
        /// The rule, in words.
        rule: String,
        /// The number of the last event.
        event: u64,
    },
    /// Nothing runs, nothing is to come, and kernels are left: the manager is stuck.
    Stuck {
        /// Kernels that have ended.
        ended: usize,
        /// The number of the last event.
        event: u64,
    },
    /// The driver, the GPU or the manager panicked.
    Panic {
        /// The call of the driver or the GPU that it ended, in words; none if it was in neither.
        running: Option<String>,
        /// The message and the place.
        message: String,
        /// The number of the last event.
        event: u64,
    },
    /// The audit of the manager found a broken invariant.
    Audit {
        /// The broken invariants.
        broken: Vec<String>,
        /// The number of the last event.
        event: u64,
    },
}

impl Finding {
    /// The rule that is broken, as far as it has a name.
    pub fn rule(&self) -> &str {
        match self {
            Self::WrongPage { .. } | Self::WrongSystemPage { .. } => "I02",
            Self::PageFault { .. } => "I04",
            Self::Violation { rule, .. } => rule.split(':').next().unwrap_or(rule),
            Self::Stuck { .. } => "I32",
            Self::Panic { .. } => "PANIC",
            Self::Audit { .. } => "BOOKS",
        }
    }
}

impl fmt::Display for Finding {
    /// One line, and lines of details below it; the last names the event.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event = match self {
            Self::WrongPage { kernel, process, buffer, allocation, page, expected, found, wrong, event } => {
                let allocation = allocation.as_deref().unwrap_or("an allocation that is gone");
                writeln!(
                    f,
                    "kernel {kernel} of {process} read a wrong page: page {page} of {allocation} (buffer {buffer} of the workload)"
                )?;
                write_digests(f, *found, *expected, *wrong)?;
                event
            }
            Self::WrongSystemPage { buffer, allocation, page, address, expected, found, wrong, event } => {
                writeln!(
                    f,
                    "the CPU sees a wrong page: page {page} of {allocation} (buffer {buffer} of the workload), at {address:#x} of system memory"
                )?;
                write_digests(f, *found, *expected, *wrong)?;
                event
            }
            Self::PageFault { virtual_address, write, engine, allocation, page, touched, event } => {
                let access = if *write { "wrote to" } else { "read" };
                let part = allocation.as_deref().map(|allocation| format!(" (page {page} of {allocation})"));
                let part = part.unwrap_or_default();
                write!(f, "page fault: engine {engine} {access} {virtual_address:#x}{part}, ")?;
                match touched {
                    Some(touched) => write_touched(f, touched)?,
                    None if allocation.is_some() => writeln!(f, "which is mapped")?,
                    None => writeln!(f, "which is not mapped")?,
                }
                event
            }
            Self::Violation { rule, event } => {
                writeln!(f, "{rule}")?;
                event
            }
            Self::Stuck { ended, event } => {
                writeln!(f, "nothing runs and nothing is to come, after {ended} kernels")?;
                event
            }
            Self::Panic { running, message, event } => {
                writeln!(
                    f,
                    "a panic while {}",
                    running.as_deref().unwrap_or("neither the driver nor the GPU was called")
                )?;
                message.lines().try_for_each(|line| writeln!(f, "{line}"))?;
                event
            }
            Self::Audit { broken, event } => {
                writeln!(f, "the manager's books do not hold together")?;
                broken.iter().try_for_each(|line| writeln!(f, "{line}"))?;
                event
            }
        };
        write!(f, "event {event}")
    }
}

fn write_digests(f: &mut fmt::Formatter<'_>, found: u64, expected: u64, wrong: u64) -> fmt::Result {
    writeln!(f, "its digest is {found:#018x} and must be {expected:#018x}; {wrong} wrong pages in all")
}

/// The culprit when an allocation is mapped and not resident.
fn write_touched(f: &mut fmt::Formatter<'_>, touched: &Touched) -> fmt::Result {
    let Touched { process, group, is_listed, is_resident } = touched;
    let memory = if *group == MemorySegmentGroup::Local { "local" } else { "non-local" };
    let resident = if *is_resident { "resident" } else { "not resident" };
    let listed = if *is_listed { "was" } else { "was not" };
    writeln!(f, "which {process} has mapped")?;
    writeln!(
        f,
        "it is meant for {memory} memory, is {resident}, and {listed} on its device's list when the work was submitted"
    )?;
    f.write_str(match (is_listed, is_resident) {
        (false, _) => {
            "the client must make resident what its work uses before it submits it: nobody else knows (RES-05)\n"
        }
        (true, false) => "the manager must have in place what is on the list before the work runs (RES-11)\n",
        (true, true) => "the driver or the GPU did not do what the page tables were to say\n",
    })
}
