//! Errors that are made on purpose.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};
use vidmm_runtime::{DriverFault, GpuFault, Hits, InterruptFault, mixed};

/// An error to be made on purpose, and when.
///
/// It is written as its name, with `@N` after it for the n-th time only, or `@1/N` for one time in N at random:
/// `skip-tlb-flush`, `drop-page-out@3`, `lose-interrupt@1/50`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Fault {
    /// The mistake.
    pub kind: FaultKind,
    /// The occasions.
    pub when: When,
}

/// The occasions of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Every time.
    Always,
    /// The n-th time, counted from 1.
    Nth(u64),
    /// One time in so many, which the seed of the run draws.
    OneIn(u64),
}

/// The kinds of mistakes that can be made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A bit of a transfer flips.
    FlipBitInTransfer,
    /// The n-th packet that the engine of kernels begins never ends.
    HangPacket,
    /// The n-th paging buffer that the paging engine begins never ends.
    HangPagingBuffer,
    /// The n-th packet that the engine of kernels begins faults.
    ForgePageFault,
    /// The n-th paging buffer that the paging engine begins faults.
    ForgePagingFault,
    /// A reset of an engine is answered as if it had worked, and the engine hangs until the adapter is reset.
    LieAboutEngineReset,
    /// The host has no memory for backing store. The adapter's own start is no occasion.
    FailCommit,
    /// The host has no addresses at which the CPU sees an allocation.
    FailUserModeVaMapping,
    /// The driver makes a mistake.
    Driver(DriverFault),
    /// The GPU does not do as it is asked, or reports what did not happen.
    Gpu(GpuFault),
    /// The driver reports a page fault wrongly.
    Interrupt(InterruptFault),
}

/// Why a fault is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// There is no such fault.
    #[error(
        "`{0}` is not a fault; the faults are {names}, each with `@N` for the n-th time only, or `@1/N` for one time in N",
        names = Fault::names()
    )]
    Unknown(String),
    /// The text behind the `@` is no number from 1 on.
    #[error(
        "`{0}` does not say when; write a whole number from 1 after the `@`, as in `skip-tlb-flush@3`, or `1/` and one, as in `lose-interrupt@1/50`"
    )]
    When(String),
    /// A fault is named twice.
    #[error("`{0}` is named twice; name each fault once")]
    Twice(&'static str),
}

impl FaultKind {
    /// The mistakes of the model GPU itself.
    const OF_MODEL: [Self; 8] = [
        Self::FlipBitInTransfer,
        Self::HangPacket,
        Self::HangPagingBuffer,
        Self::ForgePageFault,
        Self::ForgePagingFault,
        Self::LieAboutEngineReset,
        Self::FailCommit,
        Self::FailUserModeVaMapping,
    ];

    /// Every kind of fault.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_driver = DriverFault::ALL.map(Self::Driver);
        let of_gpu = GpuFault::ALL.map(Self::Gpu);
        let of_reports = InterruptFault::ALL.map(Self::Interrupt);
        Self::OF_MODEL.into_iter().chain(of_driver).chain(of_gpu).chain(of_reports)
    }

    /// Its name in scenarios and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::FlipBitInTransfer => "flip-bit-in-transfer",
            Self::HangPacket => "hang-packet",
            Self::HangPagingBuffer => "hang-paging-buffer",
            Self::ForgePageFault => "forge-page-fault",
            Self::ForgePagingFault => "forge-paging-fault",
            Self::LieAboutEngineReset => "lie-about-engine-reset",
            Self::FailCommit => "fail-commit",
            Self::FailUserModeVaMapping => "fail-user-mode-va-mapping",
            Self::Driver(fault) => fault.name(),
            Self::Gpu(fault) => fault.name(),
            Self::Interrupt(fault) => fault.name(),
        }
    }
}

impl When {
    /// The occasions that are hit, with a seed for the draws.
    pub fn hits(self, seed: u64) -> Hits {
        match self {
            Self::Always => Hits::Always,
            Self::Nth(nth) => Hits::Nth(nth),
            Self::OneIn(occasions) => Hits::OneIn { occasions, seed },
        }
    }

    /// Reads the text behind the `@`: `N` or `1/N`.
    pub fn read(text: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok().filter(|&number| number > 0);
        match text.strip_prefix("1/") {
            Some(times) => number(times).map(Self::OneIn),
            None => number(text).map(Self::Nth),
        }
    }
}

impl Fault {
    /// The occasions that it hits in a run of `seed`.
    pub fn hits(&self, seed: u64) -> Hits {
        let kind = FaultKind::all().position(|kind| kind == self.kind);
        self.when.hits(mixed(seed) ^ kind.map_or(0, |kind| kind as u64))
    }

    /// The names of all faults, for people.
    fn names() -> String {
        FaultKind::all().map(|kind| format!("`{}`", kind.name())).collect::<Vec<_>>().join(", ")
    }

    /// Checks that a list names each fault once.
    ///
    /// # Errors
    ///
    /// Returns [`FaultError::Twice`] for the first that it names again.
    pub fn check_list(faults: &[Self]) -> Result<(), FaultError> {
        for (at, fault) in faults.iter().enumerate() {
            if faults[..at].iter().any(|earlier| earlier.kind == fault.kind) {
                return Err(FaultError::Twice(fault.kind.name()));
            }
        }
        Ok(())
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    /// Reads a fault's name, and `@N` or `@1/N` if it follows.
    ///
    /// # Errors
    ///
    /// Returns [`FaultError::Unknown`], which lists the names, or [`FaultError::When`].
    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (name, when) = text.split_once('@').map_or((text, None), |(name, when)| (name, Some(when)));
        let known = FaultKind::all().find(|known| known.name() == name);
        let kind = known.ok_or_else(|| FaultError::Unknown(text.to_owned()))?;
        let when = when.map_or(Some(When::Always), When::read).ok_or_else(|| FaultError::When(text.to_owned()))?;
        Ok(Self { kind, when })
    }
}

impl TryFrom<String> for Fault {
    type Error = FaultError;

    fn try_from(text: String) -> Result<Self, FaultError> {
        text.parse()
    }
}

impl fmt::Display for When {
    /// Writes what follows the name of a fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => Ok(()),
            Self::Nth(nth) => write!(f, "@{nth}"),
            Self::OneIn(times) => write!(f, "@1/{times}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.name(), self.when)
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads the faults, and checks that each is named once.
pub(super) fn faults<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Fault>, D::Error> {
    let faults = Vec::deserialize(deserializer)?;
    Fault::check_list(&faults).map_err(D::Error::custom)?;
    Ok(faults)
}

/// Reads a fault without an occasion.
pub(super) fn fault_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FaultKind>, D::Error> {
    let Fault { kind, when } = Fault::deserialize(deserializer)?;
    match when {
        When::Always => Ok(Some(kind)),
        When::Nth(_) | When::OneIn(_) => Err(D::Error::custom(format!("the seed says when; write `{}`", kind.name()))),
    }
}
