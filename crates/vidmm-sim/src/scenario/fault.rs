//! Errors that are made on purpose.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use vidmm_runtime::{GpuFault, InterruptFault};

/// An error to be made on purpose, and when: the n-th time, counted from 1, or as the kind of fault says.
///
/// It is written as its name, and `@N` after it for the n-th time only: `skip-tlb-flush`, `drop-page-out@3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// When: the n-th time, counted from 1. None is every time, or as the kind says.
    pub nth: Option<u64>,
}

/// What can go wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A bit of a transfer flips.
    FlipBitInTransfer,
    /// A TLB flush is left out.
    SkipTlbFlush,
    /// A transfer of evicted pages to system memory is left out.
    DropPageOut,
    /// What a notification of eviction asks for is left out, so that what is compressed stays so.
    SkipDecompression,
    /// A chunk of a notification that is not the first is taken for the first.
    IgnoreChunkOffset,
    /// What a notification asks for is encoded with the next operation only.
    LateNotification,
    /// The range is unmapped from the IOMMU when the notification is built, before its commands have run.
    EarlyIoMmuUnmap,
    /// The device's cache of IOMMU translations is not flushed when an IOMMU unmap is notified.
    SkipCacheFlush,
    /// The paging process's addresses are used again without the flush that goes before.
    ReusePagingVa,
    /// A portion of a DMA buffer is not patched.
    SkipPatch,
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
    /// The GPU does not do what it is asked, or reports what is not so.
    Gpu(GpuFault),
    /// The driver reports a page fault wrongly.
    Interrupt(InterruptFault),
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

impl FaultKind {
    /// Every kind of fault.
    pub const ALL: [Self; 31] = [
        Self::FlipBitInTransfer,
        Self::SkipTlbFlush,
        Self::DropPageOut,
        Self::SkipDecompression,
        Self::IgnoreChunkOffset,
        Self::LateNotification,
        Self::EarlyIoMmuUnmap,
        Self::SkipCacheFlush,
        Self::ReusePagingVa,
        Self::SkipPatch,
        Self::HangPacket,
        Self::HangPagingBuffer,
        Self::ForgePageFault,
        Self::ForgePagingFault,
        Self::LieAboutEngineReset,
        Self::Gpu(GpuFault::IgnorePreempt),
        Self::Gpu(GpuFault::FailEngineReset),
        Self::Gpu(GpuFault::IgnoreEngineReset),
        Self::Gpu(GpuFault::FailRestart),
        Self::Gpu(GpuFault::LoseInterrupt),
        Self::Gpu(GpuFault::DelayInterrupt),
        Self::Gpu(GpuFault::RepeatInterrupt),
        Self::Gpu(GpuFault::ForgeInterrupt),
        Self::Gpu(GpuFault::SwapInterrupts),
        Self::Gpu(GpuFault::ForgeStatus),
        Self::Interrupt(InterruptFault::HideFaultedFence),
        Self::Interrupt(InterruptFault::RequireAdapterReset),
        Self::Interrupt(InterruptFault::RequireNoReset),
        Self::Interrupt(InterruptFault::ReportFatalError),
        Self::Interrupt(InterruptFault::GarbleFaultedFence),
        Self::Interrupt(InterruptFault::GarbleFaultedEngine),
    ];

    /// Its name, as scenarios and the command line write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FlipBitInTransfer => "flip-bit-in-transfer",
            Self::SkipTlbFlush => "skip-tlb-flush",
            Self::DropPageOut => "drop-page-out",
            Self::SkipDecompression => "skip-decompression",
            Self::IgnoreChunkOffset => "ignore-chunk-offset",
            Self::LateNotification => "late-notification",
            Self::EarlyIoMmuUnmap => "early-io-mmu-unmap",
            Self::SkipCacheFlush => "skip-cache-flush",
            Self::ReusePagingVa => "reuse-paging-va",
            Self::SkipPatch => "skip-patch",
            Self::HangPacket => "hang-packet",
            Self::HangPagingBuffer => "hang-paging-buffer",
            Self::ForgePageFault => "forge-page-fault",
            Self::ForgePagingFault => "forge-paging-fault",
            Self::LieAboutEngineReset => "lie-about-engine-reset",
            Self::Gpu(fault) => fault.name(),
            Self::Interrupt(fault) => fault.name(),
        }
    }
}

impl Fault {
    /// The names of all faults, for people.
    fn names() -> String {
        FaultKind::ALL.map(|kind| format!("`{}`", kind.name())).join(", ")
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

    /// Reads a fault's name, and `@N` if it follows.
    ///
    /// # Errors
    ///
    /// Returns [`FaultError::Unknown`], which lists the names, or [`FaultError::When`].
    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (name, nth) = text.split_once('@').map_or((text, None), |(name, nth)| (name, Some(nth)));
        let known = FaultKind::ALL.into_iter().find(|known| known.name() == name);
        let kind = known.ok_or_else(|| FaultError::Unknown(text.to_owned()))?;
        let number = |nth: &str| nth.parse().ok().filter(|&nth| nth > 0);
        let nth = nth.map(|nth| number(nth).ok_or_else(|| FaultError::When(text.to_owned()))).transpose()?;
        Ok(Self { kind, nth })
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
        match self.nth {
            Some(nth) => write!(f, "{}@{nth}", self.kind.name()),
            None => f.write_str(self.kind.name()),
        }
    }
}

/// Reads the faults, and checks that each is named once.
pub(super) fn faults<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Fault>, D::Error> {
    let faults = Vec::deserialize(deserializer)?;
    Fault::check_list(&faults).map_err(D::Error::custom)?;
    Ok(faults)
}
