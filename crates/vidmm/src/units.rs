//! Units: pages, addresses and time.

use core::fmt;

pub use vidmm_linear::{Extent, PAGE_SIZE};

/// Bytes in a page of a 64 KiB pool (GVA-40).
pub const PAGE_SIZE_64K: u64 = 64 << 10;

/// A point in time, in nanoseconds, on whatever clock the caller of [`poll`](crate::VidMm::poll) uses.
///
/// The core reads no clock: virtual time and wall time look the same to it.
pub type Nanoseconds = u64;

/// A number of bytes for people, exact: in the largest unit without a fraction, or, where that would be a long number, as a sum of
/// units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
        const LONG: u64 = 1_000_000;
        let Bytes(mut rest) = *self;
        let whole = UNITS.into_iter().find(|&(unit, _)| rest.is_multiple_of(unit) && rest / unit < LONG);
        match whole {
            _ if rest == 0 => f.write_str("0"),
            Some((unit, name)) => write!(f, "{} {name}", rest / unit),
            None => {
                let mut plus = "";
                for (unit, name) in UNITS {
                    if rest >= unit {
                        write!(f, "{plus}{} {name}", rest / unit)?;
                        plus = " + ";
                    }
                    rest %= unit;
                }
                Ok(())
            }
        }
    }
}

/// The size of the pages that a segment hands out (GVA-40).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum PageSize {
    /// 4 KiB pages.
    Kib4,
    /// 64 KiB pages.
    Kib64,
}

impl PageSize {
    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            PageSize::Kib4 => PAGE_SIZE,
            PageSize::Kib64 => PAGE_SIZE_64K,
        }
    }
}

/// An address in the GPU virtual address space of one process, in bytes.
#[doc(alias = "D3DGPU_VIRTUAL_ADDRESS")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GpuVirtualAddress(pub u64);

impl GpuVirtualAddress {
    /// The address `bytes` further on.
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl fmt::Debug for GpuVirtualAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for GpuVirtualAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A memory segment of the adapter: 1-based in the order in which the driver reports them (SEG-05).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SegmentId(pub u8);

impl SegmentId {
    /// System memory. The driver never reports it and never names it in a segment set (SEG-11, C-1).
    pub const SYSTEM: SegmentId = SegmentId(0);

    /// Whether this is system memory.
    pub const fn is_system(self) -> bool {
        self.0 == 0
    }
}

/// A place in physical memory: a segment and an offset from its start, in bytes (SEG-15).
///
/// In system memory the offset is the address that the [`Host`](crate::contract::Host) handed out.
#[doc(alias = "D3DGPU_PHYSICAL_ADDRESS")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PhysicalAddress {
    /// The segment; [`SegmentId::SYSTEM`] is system memory.
    pub segment: SegmentId,
    /// Bytes from the start of the segment.
    pub offset: u64,
}

impl PhysicalAddress {
    /// The address `bytes` further on in the same segment.
    pub const fn offset_by(self, bytes: u64) -> Self {
        Self { segment: self.segment, offset: self.offset + bytes }
    }
}
