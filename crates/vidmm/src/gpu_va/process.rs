//! A process: an address space, and the tables that show it to the GPU.

use super::{PageTables, VaSpace};
use crate::{
    budget::Standing,
    contract::KmdProcessHandle,
    id::{DeviceIx, Slots, kind},
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
    pub devices: OrderedSet<DeviceIx>,
    /// Nothing more of it is handed out until nothing of it is in flight, and a page was cut.
    pub is_paused: bool,
    /// What it means to the user.
    pub standing: Standing,
}
