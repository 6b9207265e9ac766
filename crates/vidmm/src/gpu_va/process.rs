//! A process: an address space, and the tables that show it to the GPU.

use alloc::collections::BTreeSet;

use super::{PageTables, VaSpace};
use crate::{
    budget::Standing,
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
    /// Its devices.
    pub devices: BTreeSet<u32>,
    /// What it means to the user.
    pub standing: Standing,
}
