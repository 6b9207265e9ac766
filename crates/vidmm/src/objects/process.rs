//! A process: an address space, and the tables that show it to the GPU.

use crate::{
    budget::{Standing, account::PerAccount},
    contract::KmdProcessHandle,
    data::ordered_set::OrderedSet,
    gpu_va::{PageTables, VaSpace},
    id::{AllocationIx, DeviceIx, PlanNo, Slots, kind},
    objects::{traffic::Traffic, turn::Stillness},
};

pub(crate) type Processes = Slots<kind::Process, Process>;

/// One process.
#[derive(Debug)]
pub(crate) struct Process {
    /// The driver's name of it.
    pub handle: KmdProcessHandle,
    pub space: VaSpace,
    pub tables: PageTables,
    /// Its devices.
    pub devices: OrderedSet<DeviceIx>,
    /// Whether none of its work is handed out until its packets in flight have ended and a page is cut.
    pub is_paused: bool,
    /// The plan that cuts its last page; 0 before the first. Work waits for it.
    pub cut_by: PlanNo,
    /// The last plan that writes entries of reserved addresses, or of mappings there; 0 before the first. Another follows it.
    pub reserved_by: PlanNo,
    /// Its importance to the user.
    pub standing: Standing,
    /// Its offered allocations.
    pub offered: OrderedSet<AllocationIx>,
    /// When nothing of it is in flight.
    pub stillness: Stillness,
    /// The bytes of its allocations that have gone through each memory.
    pub traffic: PerAccount<Traffic>,
}
