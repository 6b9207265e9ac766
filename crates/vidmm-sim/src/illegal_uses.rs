//! Strict mode: work must not use what its device has evicted or offered, although the content is still there.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use vidmm::{AllocationId, DeviceId, Event, NumberedEvent};
use vidmm_trace::{EndOfRight, IllegalUse, Rights};

/// A use that nobody has a right to. It changes no decision, and is a finding of strict mode only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UseFinding {
    /// The line of the step that submitted the work, counted from 1; none for a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The work.
    pub work: String,
    /// Its device; of a workload its process, which has one device at a time.
    pub device: String,
    /// The number of the submission within the device.
    pub submission: u64,
    /// The allocation.
    pub allocation: String,
    /// The end of the device's right to it.
    #[serde(flatten)]
    pub ended: EndOfRight,
    /// The number of the event that tells of the submission.
    pub event: u64,
    /// The number of submissions that use it so, of which this is the first.
    pub times: u64,
}

impl UseFinding {
    /// The part that stays the same when a program changes elsewhere: findings with one key are one mistake.
    pub fn key(&self) -> String {
        format!("{} {} {}", self.ended.fact(), self.device, self.allocation)
    }
}

impl fmt::Display for UseFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, work, device, submission, allocation, ended, times, .. } = self;
        if let Some(line) = line {
            write!(f, "line {line}, ")?;
        }
        write!(f, "{work}: {}: submission {submission} of {device} uses {allocation}, but {ended}", ended.fact())?;
        if *times > 1 { write!(f, "; {times} submissions do") } else { Ok(()) }
    }
}

/// The illegal uses of a run, each mistake once.
#[derive(Debug, Default)]
pub(crate) struct IllegalUses(Vec<UseFinding>);

impl IllegalUses {
    pub fn add(&mut self, found: UseFinding) {
        let key = found.key();
        match self.0.iter_mut().find(|known| known.key() == key) {
            Some(known) => known.times += 1,
            None => self.0.push(found),
        }
    }

    pub fn into_findings(self) -> Vec<UseFinding> {
        self.0
    }
}

/// The uses that a submission of a workload declares.
#[derive(Debug)]
pub(crate) struct Declared {
    pub process: usize,
    pub device: DeviceId,
    pub submission: u64,
    pub kernel: usize,
    /// The allocations, each with the name of its buffer.
    pub uses: Vec<(AllocationId, u64)>,
}

/// Strict mode for a workload: the rights of its processes to what their kernels use.
#[derive(Debug, Default)]
pub(crate) struct StrictWorkload {
    rights: Rights,
    /// Submissions that no event has told of yet.
    declared: BTreeMap<(DeviceId, u64), Declared>,
    illegal_uses: IllegalUses,
}

impl StrictWorkload {
    /// Takes note of what submissions use, before their events are observed.
    pub fn declare(&mut self, declared: impl IntoIterator<Item = Declared>) {
        for declared in declared {
            let Declared { device, submission, ref uses, .. } = declared;
            self.rights.declare(device, submission, uses.iter().map(|&(allocation, _)| allocation));
            self.declared.insert((device, submission), declared);
        }
    }

    /// Judges the submission that an event tells of; `names` has the name of each process.
    pub fn observe(&mut self, event: &NumberedEvent, names: &[String]) {
        let Event::Submitted { device, submission, .. } = event.event else {
            self.rights.observe(event);
            return;
        };
        let declared = self.declared.remove(&(device, submission));
        for IllegalUse { allocation, ended, event, .. } in self.rights.observe(event) {
            let Declared { process, kernel, uses, .. } =
                declared.as_ref().expect("no use is illegal but declared ones");
            let buffer = uses.iter().find(|(of, _)| *of == allocation).map(|(_, buffer)| buffer);
            self.illegal_uses.add(UseFinding {
                line: None,
                work: format!("kernel {kernel}"),
                device: names[*process].clone(),
                submission,
                allocation: format!("buffer {}", buffer.expect("it was declared")),
                ended,
                event,
                times: 1,
            });
        }
    }

    pub fn into_findings(self) -> Vec<UseFinding> {
        self.illegal_uses.into_findings()
    }
}
