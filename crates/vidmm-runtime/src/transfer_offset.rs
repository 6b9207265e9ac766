//! Two readings of TransferOffset, for drivers that obey the one or the other (D16).

use std::fmt;
use std::str::FromStr;

use vidmm::contract::{BuildPagingBuffer, BuildStatus, Kmd, PagingOperation, Transfer};

use crate::faults::encode;
use crate::hook::{HookedKmd, KmdHook};
use crate::runtime::Machine;

/// The addresses that a driver is given in a TRANSFER of a later part of an allocation (BPB-21).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransferOffset {
    /// They are those of the allocation, and the driver adds TransferOffset to that of the segment, MdlOffset to that of the
    /// page list: what the documents say.
    #[default]
    Documented,
    /// They are those of the part already, and the driver adds nothing.
    PreAdvanced,
}

impl TransferOffset {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Documented => "documented",
            Self::PreAdvanced => "preadvanced",
        }
    }
}

impl fmt::Display for TransferOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TransferOffset {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let readings = [Self::Documented, Self::PreAdvanced];
        let reading = readings.into_iter().find(|reading| reading.name() == name);
        reading.ok_or_else(|| format!("`{name}` is no reading of TransferOffset; they are documented, preadvanced"))
    }
}

impl Machine {
    /// The machine whose driver is given the addresses by this reading.
    pub fn with_transfer_offset(self, reading: TransferOffset) -> Self {
        match reading {
            TransferOffset::Documented => self,
            TransferOffset::PreAdvanced => Self { kmd: Box::new(HookedKmd::new(self.kmd, PreAdvance)), ..self },
        }
    }
}

/// Gives a driver the addresses of the part.
struct PreAdvance;

impl KmdHook for PreAdvance {
    fn build_paging_buffer(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let PagingOperation::Transfer(op) = *build.operation else { return driver.build_paging_buffer(build) };
        let advanced = Transfer { source: op.first_source(), destination: op.first_destination(), ..op };
        encode(driver, &PagingOperation::Transfer(advanced), build)
    }
}
