//! A process: an address space, and the tables that show it to the GPU.

use super::{PageTables, VaSpace};
use crate::{
    budget::Standing,
    contract::KmdProcessHandle,
    id::{Slots, kind},
    ordered_set::OrderedSet,
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
    pub devices: OrderedSet<u32>,
    /// What it means to the user.
    pub standing: Standing,
}
