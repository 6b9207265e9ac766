//! Errors that are made on purpose.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// An error to be made on purpose, and when: the n-th time, counted from 1, or as the kind of fault says.
///
/// It is written as its name, and `@N` after it for the n-th time only: `skip-tlb-flush`, `drop-page-out@3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Fault {
    /// One bit of the n-th transfer flips; one of every transfer if there is no n.
    FlipBitInTransfer(Option<u64>),
    /// The n-th TLB flush is left out; every one if there is no n.
    SkipTlbFlush(Option<u64>),
    /// The n-th transfer of evicted pages to system memory is left out; every one if there is no n.
    DropPageOut(Option<u64>),
}

/// Why a fault is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// There is no such fault.
    #[error(
        "`{0}` is not a fault; the faults are {names}, each with `@N` for the n-th time only",
        names = Fault::names()
    )]
    Unknown(String),
    /// What follows the `@` is not a number from 1 on.
    #[error("`{0}` does not say when; write a whole number from 1 after the `@`, as in `skip-tlb-flush@3`")]
    When(String),
    /// A fault is named twice.
    #[error("`{0}` is named twice; name each fault once")]
    Twice(&'static str),
}

impl Fault {
    /// Every kind of fault.
    const ALL: [Self; 3] = [Self::FlipBitInTransfer(None), Self::SkipTlbFlush(None), Self::DropPageOut(None)];

    /// The names of all faults, for people.
    fn names() -> String {
        Self::ALL.map(|fault| format!("`{fault}`")).join(", ")
    }

    /// The fault's name, without the `@N`.
    pub fn name(self) -> &'static str {
        match self {
            Self::FlipBitInTransfer(_) => "flip-bit-in-transfer",
            Self::SkipTlbFlush(_) => "skip-tlb-flush",
            Self::DropPageOut(_) => "drop-page-out",
        }
    }

    /// The same fault at another time.
    fn at(self, nth: Option<u64>) -> Self {
        match self {
            Self::FlipBitInTransfer(_) => Self::FlipBitInTransfer(nth),
            Self::SkipTlbFlush(_) => Self::SkipTlbFlush(nth),
            Self::DropPageOut(_) => Self::DropPageOut(nth),
        }
    }

    /// When it happens: the n-th time, counted from 1. What none means depends on the fault.
    pub fn nth(self) -> Option<u64> {
        match self {
            Self::FlipBitInTransfer(nth) | Self::SkipTlbFlush(nth) | Self::DropPageOut(nth) => nth,
        }
    }

    /// Checks that a list names each fault once.
    ///
    /// # Errors
    ///
    /// Returns [`FaultError::Twice`] for the first that it names again.
    pub fn check_list(faults: &[Self]) -> Result<(), FaultError> {
        for (at, fault) in faults.iter().enumerate() {
            if faults[..at].iter().any(|earlier| earlier.name() == fault.name()) {
                return Err(FaultError::Twice(fault.name()));
            }
        }
        Ok(())
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    /// Reads a fault's name, and `@N` if it follows.
    ///
    /// # Errors
    ///
    /// Returns [`FaultError::Unknown`], which lists the names, or [`FaultError::When`].
    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (name, nth) = text.split_once('@').map_or((text, None), |(name, nth)| (name, Some(nth)));
        let known = Self::ALL.into_iter().find(|known| known.name() == name);
        let fault = known.ok_or_else(|| FaultError::Unknown(text.to_owned()))?;
        let number = |nth: &str| nth.parse().ok().filter(|&nth| nth > 0);
        let nth = nth.map(|nth| number(nth).ok_or_else(|| FaultError::When(text.to_owned()))).transpose()?;
        Ok(fault.at(nth))
    }
}

impl TryFrom<String> for Fault {
    type Error = FaultError;

    fn try_from(text: String) -> Result<Self, FaultError> {
        text.parse()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nth() {
            Some(nth) => write!(f, "{}@{nth}", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

/// Reads the faults, and checks that each is named once.
pub(super) fn faults<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Fault>, D::Error> {
    let faults = Vec::deserialize(deserializer)?;
    Fault::check_list(&faults).map_err(D::Error::custom)?;
    Ok(faults)
}
