//! Strict mode: work must not use what its device has evicted or offered, although the content is still there.

use std::fmt;

use serde::Serialize;
use vidmm_trace::EndOfRight;

/// A use that nobody has a right to. It changes no decision, and is a finding of strict mode only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UseFinding {
    /// The line of the step that submitted the work, counted from 1.
    pub line: usize,
    /// The work.
    pub work: String,
    /// Its device.
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
        write!(
            f,
            "line {line}, {work}: {}: submission {submission} of {device} uses {allocation}, but {ended}",
            ended.fact()
        )?;
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
