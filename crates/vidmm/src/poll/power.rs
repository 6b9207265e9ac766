//! Power-down and power-up: everything is saved, and page tables are built again (P60).

use alloc::vec::Vec;

use super::draft::Draft;
use crate::{
    event::{Event, EvictReason},
    gpu_va::TableKey,
    id::{AllocationIx, ProcessIx},
    pool::Pool,
    state::{Output, VidMm},
    turn::Power,
};

impl VidMm {
    /// While power goes down: when all devices are suspended, whatever is resident leaves; when that is done, says so.
    pub(super) fn save_all(&mut self) {
        if self.turns.power != Power::GoingDown || !self.evict_soon.is_empty() {
            return;
        }
        if !self.devices.iter().all(|(_, device)| device.is_suspended()) {
            return;
        }
        let resident = |pool| Vec::from_iter(self.evictable[pool].iter(&self.allocations));
        let resident: Vec<AllocationIx> = Pool::ALL.into_iter().flat_map(resident).collect();
        if resident.is_empty() {
            return self.lose_power();
        }
        let mut draft = Draft::default();
        for index in resident {
            self.plan_out(&mut draft, index, self.reason(index, EvictReason::PoweredDown));
            self.park_if_full(&mut draft);
        }
        self.finish(draft);
        self.stirred = true;
    }

    /// Nothing is resident; once nothing is under way either, and every engine that was reset has proved that it runs, power may
    /// go.
    fn lose_power(&mut self) {
        let engines_idle = self.engines.iter().all(|engine| engine.in_flight.is_empty());
        if !self.stream.is_empty() || !self.builder.steps.is_empty() || !engines_idle || !self.recovery.is_over() {
            return;
        }
        self.turns.power = Power::Down;
        self.events.record(|| Event::PoweredDown);
        self.outputs.push_back(Output::PoweredDown);
        if core::mem::take(&mut self.turns.power_up_wanted) {
            self.regain_power();
        }
    }

    /// Power is back.
    pub(crate) fn regain_power(&mut self) {
        self.turns.power = Power::Up;
        self.events.record(|| Event::PoweredUp);
        self.write_all_tables_again();
        for device in Vec::from_iter(self.devices.iter().map(|(index, _)| index)) {
            self.let_run(device);
        }
        self.stirred = true;
    }

    /// The memory segment holds nothing: the tables of the paging process are written before anything else, then those of all
    /// processes, in the places that they had.
    pub(super) fn write_all_tables_again(&mut self) {
        self.builder.plan = 0;
        self.initialise_paging_tables();
        for process in Vec::from_iter(self.processes.iter().map(|(index, _)| index)) {
            self.write_tables_again(process);
        }
        for context in Vec::from_iter(self.contexts.iter().map(|(index, _)| index)) {
            self.contexts[context].root_is_set = false;
        }
    }

    fn write_tables_again(&mut self, process: ProcessIx) {
        let tables = &self.processes[process].tables;
        let written = tables.iter().filter(|(_, table)| table.plan > 0).map(|(key, _)| key);
        let mut written: Vec<TableKey> = written.collect();
        // A table is linked from its parent, which is written first.
        written.sort_by_key(|key| core::cmp::Reverse(key.level));
        if written.is_empty() {
            return;
        }
        let mut draft = Draft::default();
        for key in written {
            self.plan_table_content(&mut draft, process, key);
        }
        self.finish(draft);
    }
}
