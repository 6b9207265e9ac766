//! Power-down and power-up: everything is saved, and page tables are built again (P60).

use alloc::vec::Vec;

use crate::{
    event::{Event, EvictReason},
    gpu_va::TableKey,
    id::{AllocationIx, ProcessIx},
    moment::{Moment, Output},
    objects::Objects,
    plans::{Plans, draft::Draft},
    schedule::{Schedule, waiting::Power},
    state::State,
};
impl Schedule {
    /// While power goes down: when all devices are suspended, whatever is resident leaves; when that is done, says so.
    pub(crate) fn save_all(&mut self, state: &mut State, plans: &mut Plans) {
        if self.turns.power != Power::GoingDown || !state.residency.evict_soon.is_empty() {
            return;
        }
        if !state.objects.devices.iter().all(|(_, device)| device.is_suspended()) {
            return;
        }
        let resident = |account| Vec::from_iter(state.residency.evictable[account].iter(&state.objects.allocations));
        let resident: Vec<AllocationIx> = state.memory.accounts().iter().flat_map(resident).collect();
        if resident.is_empty() {
            return self.lose_power(state, plans);
        }
        let mut draft = Draft::default();
        for index in resident {
            plans.plan_out(
                state,
                &mut draft,
                index,
                state.residency.reason(&state.objects, index, EvictReason::PoweredDown),
            );
            plans.park_if_full(&mut state.moment, &state.objects, &mut draft);
        }
        plans.decide(&mut state.moment, &state.objects, draft);
    }

    /// Nothing is resident; once nothing is under way either, and every engine that was reset has proved that it runs, power may
    /// go.
    fn lose_power(&mut self, state: &mut State, plans: &mut Plans) {
        let engines_idle = state.engines.engines.iter().all(|engine| engine.in_flight().is_empty());
        if !plans.stream.is_empty()
            || !plans.builder.steps.is_empty()
            || !engines_idle
            || !state.engines.recovery.is_over()
        {
            return;
        }
        self.turns.power = Power::Down;
        state.moment.record(|| Event::PoweredDown);
        self.renew_demands(state);
        state.moment.hand_out(Output::PoweredDown);
        if core::mem::take(&mut self.turns.power_up_wanted) {
            self.regain_power(state, plans);
        }
    }

    /// Power is back.
    pub(crate) fn regain_power(&mut self, state: &mut State, plans: &mut Plans) {
        self.turns.power = Power::Up;
        state.moment.record(|| Event::PoweredUp);
        self.renew_demands(state);
        write_all_tables_again(state, plans);
        for device in Vec::from_iter(state.objects.devices.iter().map(|(index, _)| index)) {
            self.let_run(&mut state.objects, device);
        }
    }

    fn renew_demands(&self, state: &mut State) {
        for process in Vec::from_iter(state.objects.processes.iter().map(|(index, _)| index)) {
            self.renew_demand(state, process);
        }
    }
}

/// The memory segment holds nothing: the tables of the paging process are written before anything else, then those of all
/// processes, in the places that they had.
pub(crate) fn write_all_tables_again(state: &mut State, plans: &mut Plans) {
    plans.builder.plan = 0;
    plans.initialise_paging_tables(&state.adapter);
    for process in Vec::from_iter(state.objects.processes.iter().map(|(index, _)| index)) {
        write_tables_again(&mut state.moment, &mut state.objects, plans, process);
    }
    for context in Vec::from_iter(state.objects.contexts.iter().map(|(index, _)| index)) {
        state.objects[context].note_root(0);
    }
}

fn write_tables_again(moment: &mut Moment, objects: &mut Objects, plans: &mut Plans, process: ProcessIx) {
    let tables = &objects[process].tables;
    let written = tables.iter().filter(|(_, table)| table.plan > 0).map(|(key, _)| key);
    let mut written: Vec<TableKey> = written.collect();
    // A table is linked from its parent, which is written first.
    written.sort_by_key(|key| core::cmp::Reverse(key.level));
    if written.is_empty() {
        return;
    }
    let mut draft = Draft::default();
    for key in written {
        plans.plan_table_content(objects, &mut draft, process, key);
    }
    plans.plan_zero_again(objects, &mut draft, process);
    plans.decide(moment, objects, draft);
}
