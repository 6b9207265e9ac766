//! A process: an address space, and the tables that show it to the GPU.

use super::{PageTables, VaSpace};
use crate::{
    contract::KmdProcessHandle,
    id::{Slots, kind},
};

pub(crate) type Processes = Slots<kind::Process, Process>;

/// One process.
#[derive(Debug)]
pub(crate) struct Process {
    /// What the driver calls it.
    pub handle: KmdProcessHandle,
    pub space: VaSpace,
    pub tables: PageTables,
    /// Devices that it has.
    pub devices: u32,
}
