//! Faults of the system that a client meets by request.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use vidmm_runtime::{FaultSwitch, Hits, Occasions, mixed};
use vidmm_sim::When;

/// A fault and its occasions. A fault is written as its name, with `@N` for the N-th occasion, or `@1/N` for one occasion of N, drawn by
/// the seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// The occasions.
    pub when: When,
}

/// The kinds of faults. Each is legal: a driver has to live with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    /// A MakeResident without CantTrimFurther is refused, with the size of its list for NumBytesToTrim (RES-13).
    Refuse,
    /// A MakeResident with CantTrimFurther, and without MustSucceed, is refused.
    RefuseFinal,
    /// A call on a paging queue that is done at once answers PENDING, with a fence value for later (RES-11).
    Pending,
    /// A MakeResident that would answer PENDING lasts until all is resident, and answers fence value 0 (RES-16).
    AtOnce,
    /// The value of a paging queue's fence comes later, by up to 5 ms.
    Late,
    /// At a submission, devices that asked for notifications are asked to trim half of their lists (RES-40).
    Trim,
    /// At a submission, the process is suspended for 10 ms (RES-71).
    Suspend,
    /// A packet of the render engine hangs, and the device is lost (FLT-20).
    Hang,
    /// A packet of the render engine faults, and the device is lost (FLT-04).
    PageFault,
}

impl FaultKind {
    /// All kinds, with their names.
    const ALL: [(Self, &str); 9] = [
        (Self::Refuse, "refuse"),
        (Self::RefuseFinal, "refuse-final"),
        (Self::Pending, "pending"),
        (Self::AtOnce, "at-once"),
        (Self::Late, "late"),
        (Self::Trim, "trim"),
        (Self::Suspend, "suspend"),
        (Self::Hang, "hang"),
        (Self::PageFault, "page-fault"),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|&&(kind, _)| kind == self).map_or("", |&(_, name)| name)
    }
}

impl Fault {
    /// The occasions that the fault hits in a session of `seed`.
    pub(crate) fn occasions(self, seed: u64, switch: &FaultSwitch) -> Occasions {
        let hits: Hits = self.when.hits(mixed(seed) ^ self.kind as u64);
        Occasions::new(hits, switch)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, when) = text.split_once('@').map_or((text, None), |(name, when)| (name, Some(when)));
        let names = FaultKind::ALL.map(|(_, name)| name).join(", ");
        let known = FaultKind::ALL.iter().find(|&&(_, known)| known == name);
        let &(kind, _) = known.ok_or_else(|| format!("`{name}` is no fault; the faults are {names}"))?;
        let when = when.map_or(Some(When::Always), When::read);
        let when = when.ok_or_else(|| format!("`{text}` does not say when; write `{name}@3`, or `{name}@1/3`"))?;
        Ok(Self { kind, when })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.name(), self.when)
    }
}

impl TryFrom<String> for Fault {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> Self {
        fault.to_string()
    }
}
