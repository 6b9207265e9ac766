//! Reserved addresses read as zero where nothing is mapped, if entries can say so (GVA-20, GVA-52).
//!
//! The highest entries that lie wholly in a reservation say it, so that a reservation needs no more tables than those in which it
//! ends. A mapping there has tables of its own, and what it does not show stays zero. A mapping that is not shown faults (U-21).
//!
//! Plans that write such entries of a process enter the stream in the order in which they were decided.

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    addresses::Unreserved,
    event::{Event, ReclaimReason},
    gpu_va::{Mapping, PageTables, TableKey},
    id::{AllocationIx, DeviceIx, PlanNo, ProcessIx},
    objects::Objects,
    placement::satisfy,
    plans::{
        Plans, Retire, ZeroRange,
        draft::{self, Draft},
    },
    state::State,
    units::{Extent, GpuVirtualAddress},
};

impl Plans {
    /// Plans that reserved addresses read as zero, but where something is mapped by now. Returns the plans that see to that.
    pub(crate) fn show_reservation(
        &mut self,
        state: &mut State,
        device: DeviceIx,
        process: ProcessIx,
        range: Extent,
    ) -> Vec<PlanNo> {
        let mut draft = self.begin(device, state.objects.next_request(device));
        let keys = PageTables::cut_by(&state.adapter, range).collect();
        let mut numbers = self.plan_tables(state, &mut draft, process, keys);
        state.objects[process].space.show(range, true);
        draft.plan.reserved.push(ZeroRange { process, range, reads_zero: true });
        let mut at = range.offset;
        for mapped in made_in(&state.objects, process, range) {
            self.plan_zero(&mut state.objects, &mut draft, process, at..mapped.offset, true);
            at = mapped.end();
        }
        self.plan_zero(&mut state.objects, &mut draft, process, at..range.end(), true);
        numbers.extend(self.decide(&mut state.moment, &state.objects, draft));
        numbers
    }

    /// Plans that reserved addresses which were given back are not zero any more, as there is room for the tables of the rest.
    pub(crate) fn hide_reservations(&mut self, state: &mut State) {
        for unreserved in state.addresses.take_unreserved() {
            let Unreserved { process, part, around } = unreserved;
            let keys = tables_of_rests(&state.adapter, &around, part);
            let has_room = satisfy::has_room_for_tables(state, process, keys.iter().copied());
            // A reservation that is not shown yet is shown first.
            if !has_room || !state.objects[process].space.is_shown(part) {
                state.addresses.note_unreserved(unreserved);
                continue;
            }
            let mut draft = Draft::default();
            self.plan_tables(state, &mut draft, process, keys);
            state.objects[process].space.show(part, false);
            draft.plan.reserved.push(ZeroRange { process, range: part, reads_zero: false });
            for device in Vec::from_iter(state.objects[process].devices.iter().copied()) {
                draft::plan_wait(&state.objects, &mut draft, device, state.objects[device].dispatched());
            }
            self.plan_zero(&mut state.objects, &mut draft, process, part.offset..part.end(), false);
            draft::plan_retire(&mut draft, Retire::Reservation(unreserved));
            self.decide(&mut state.moment, &state.objects, draft);
        }
    }

    /// A part of a reservation is not zero any more: its addresses are free.
    pub(crate) fn end_reservation(&self, state: &mut State, unreserved: &Unreserved) {
        let &Unreserved { process, part, around } = unreserved;
        state.objects[process].space.release(part);
        let keys = Vec::from_iter(PageTables::cut_by(&state.adapter, around));
        state.addresses.release_tables(&state.adapter, &mut state.objects, process, keys);
        let process = state.objects.processes.id(process);
        let (virtual_address, size, reason) = (GpuVirtualAddress(part.offset), part.size, ReclaimReason::Freed);
        state.moment.record(|| Event::GpuVirtualAddressReclaimed { process, virtual_address, size, reason });
    }

    /// Writes into `draft` that the addresses of a mapping, if they are reserved, read as zero, or no longer; none leaves that as it is.
    pub(crate) fn plan_zero_of(
        &self,
        adapter: &Adapter,
        objects: &mut Objects,
        draft: &mut Draft,
        mapping: &Mapping,
        reads_zero: Option<bool>,
    ) {
        let &Mapping { process, virtual_address, size, .. } = mapping;
        if !adapter.has_zero || !objects[process].space.is_in_reservation(virtual_address, size) {
            return;
        }
        self.follow_zero(objects, draft, process);
        let is_shown = objects[process].space.is_shown(Extent { offset: virtual_address, size });
        if let Some(reads_zero) = reads_zero.filter(|_| is_shown) {
            self.plan_zero(objects, draft, process, virtual_address..mapping.end(), reads_zero);
        }
    }

    /// Writes into `draft`, for a process whose tables are written again, what reads as zero: not what is mapped, since nothing is
    /// resident.
    pub(crate) fn plan_zero_again(&self, objects: &mut Objects, draft: &mut Draft, process: ProcessIx) {
        let record = &mut objects[process];
        record.tables.let_read_zero_again(record.space.shown());
        for shown in Vec::from_iter(objects[process].space.shown()) {
            for mapped in made_in(objects, process, shown) {
                self.plan_zero(objects, draft, process, mapped.offset..mapped.end(), false);
            }
        }
    }

    /// Makes `draft` follow what was planned before for reservations of a process.
    fn follow_zero(&self, objects: &mut Objects, draft: &mut Draft, process: ProcessIx) {
        self.plan_after(draft, objects[process].reserved_by);
        objects[process].reserved_by = self.stream.next_number();
        draft.decided = true;
    }

    fn plan_zero(
        &self,
        objects: &mut Objects,
        draft: &mut Draft,
        process: ProcessIx,
        addresses: core::ops::Range<u64>,
        reads_zero: bool,
    ) {
        if addresses.is_empty() {
            return;
        }
        self.follow_zero(objects, draft, process);
        let range = Extent { offset: addresses.start, size: addresses.end - addresses.start };
        draft.plan.zero.push(ZeroRange { process, range, reads_zero });
    }
}

/// The tables in which what is left of a reservation ends.
pub(crate) fn tables_of_rests(adapter: &Adapter, around: &Extent, part: Extent) -> Vec<TableKey> {
    let mut keys: Vec<TableKey> = around.without(part).flat_map(|rest| PageTables::cut_by(adapter, rest)).collect();
    // A table is planned after its parent.
    keys.sort_by_key(|key| core::cmp::Reverse(key.level));
    keys
}

/// The mappings in a range of a process that were granted and whose ends are not planned.
fn made_in(objects: &Objects, process: ProcessIx, range: Extent) -> Vec<Extent> {
    let mapped = objects[process].space.mapped_in(range);
    let is_made = |&(start, _, allocation): &(u64, u64, AllocationIx)| {
        let is_around = |mapping: Mapping| mapping.is_around(process, start);
        !objects.is_dead(allocation) && objects[allocation].mappings().any(is_around)
    };
    mapped.filter(is_made).map(|(offset, size, _)| Extent { offset, size }).collect()
}
