//! Addresses that were freed show nothing any more (GVA-53, U-22).
//!
//! The rest of a mapping of which a part was freed shows what it did. Its entries stay as they are but those for a page of
//! 64 KiB that is cut: only one of the two sizes may be valid there (GVA-43), so its entry becomes invalid before those of the
//! smaller pages become valid, and no work of the process runs in between (GVA-42).

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    addresses,
    event::ReclaimReason,
    gpu_va::Mapping,
    id::{AllocationIx, DeviceIx, PlanNo},
    objects::{
        Objects,
        device::{DeferredAction, Freed},
    },
    placement::satisfy,
    plans::{
        Plans, Retire,
        draft::{self, Draft},
    },
    state::State,
};

/// Gets ready to carry out something that is due, and says whether that is done. Where a page is cut, there must be room for the
/// tables of its rest; then work of the process is held back until none is in flight, out of order or not. Of a page that another
/// call has cut meanwhile a part goes as any mapping does.
pub(crate) fn get_ready_for(state: &mut State, action: &DeferredAction) -> bool {
    let DeferredAction::Unmap { allocation, freed } = action else { return true };
    let Freed { process, rests, .. } = freed;
    if rests == &[None, None] {
        return true;
    }
    let is_cut = cuts_of(&state.objects, *allocation, freed).iter().any(|cut| cut.rests != [None, None]);
    let has_room = rests
        .iter()
        .flatten()
        .all(|rest| satisfy::has_room_for_tables(state, rest.process, addresses::tables_of(&state.adapter, rest)));
    let process = &mut state.objects.processes[*process];
    let is_in_flight = |&device: &DeviceIx| state.objects.devices[device].is_in_flight();
    process.is_paused = is_cut && has_room && process.devices.iter().any(is_in_flight);
    !is_cut || has_room && !process.is_paused
}

impl Plans {
    /// Writes into `draft` that what was freed of an allocation's mappings shows it no longer, and what is left of them does.
    pub(crate) fn plan_unmap(&mut self, state: &mut State, draft: &mut Draft, index: AllocationIx, freed: Freed) {
        let Freed { process, rests, .. } = freed;
        let cuts = cuts_of(&state.objects, index, &freed);
        debug_assert!(!cuts.is_empty(), "a mapping is freed once, and before its allocation is purged");
        let rests_now: Vec<Mapping> = cuts.iter().flat_map(|cut| cut.rests).flatten().collect();
        // The allocation itself may have to leave for them, as it is mapped up to now.
        for rest in &rests_now {
            let keys = addresses::tables_of(&state.adapter, rest).collect();
            self.plan_tables(state, draft, process, keys);
        }
        let touched = state.objects[index].take_mappings(|mapping| freed.meets(mapping));
        for (cut, whole) in cuts.iter().zip(&touched) {
            for kept in cut.kept.into_iter().chain(cut.rests).flatten() {
                let keys = addresses::tables_of(&state.adapter, &kept);
                addresses::hold_tables(&mut state.objects, process, keys);
                state.objects[index].add_mapping(kept);
            }
            let keys = addresses::tables_of(&state.adapter, &cut.freed);
            addresses::hold_tables(&mut state.objects, process, keys);
            let keys = addresses::tables_of(&state.adapter, whole);
            state.addresses.release_tables(&state.adapter, &mut state.objects, process, keys);
            // Decided first: the plan is the allocation's, also without entries to write, so that it outlives its mappings.
            draft::plan_retire(draft, Retire::Mapping { mapping: cut.freed, reason: ReclaimReason::Freed });
            self.plan_zero_of(&state.adapter, &mut state.objects, draft, &cut.freed, Some(true));
            self.plan_entries(&state.adapter, &mut state.objects, draft, index, cut.hidden, false);
        }
        for &rest in &rests_now {
            self.plan_entries(&state.adapter, &mut state.objects, draft, index, rest, true);
        }
        for rest in rests.iter().flatten() {
            let keys = addresses::tables_of(&state.adapter, rest);
            state.addresses.release_tables(&state.adapter, &mut state.objects, process, keys);
        }
        if !rests_now.is_empty() {
            // Nothing of the process is in flight.
            state.objects[process].cut_by = self.stream.next_number();
        }
    }

    /// Writes into `draft` that a mapping, which is on no list any more, shows its allocation no longer: its device has closed
    /// that.
    pub(crate) fn plan_mapping_away(
        &self,
        adapter: &Adapter,
        objects: &mut Objects,
        draft: &mut Draft,
        index: AllocationIx,
        mapping: Mapping,
    ) {
        let (allocation, device) = (objects.allocation_id(index), objects.device_id(mapping.device));
        let reason = ReclaimReason::Closed { allocation, device };
        draft::plan_retire(draft, Retire::Mapping { mapping, reason });
        self.plan_zero_of(adapter, objects, draft, &mapping, Some(true));
        self.plan_entries(adapter, objects, draft, index, mapping, false);
    }

    /// Work of a device that is not handed out yet waits for a plan.
    pub(crate) fn await_plan(&self, objects: &mut Objects, device: DeviceIx, plan: PlanNo) {
        let stream = &self.stream;
        let awaited = &mut objects[device].refreshes;
        awaited.retain(|&plan| !stream.is_retired(plan));
        awaited.push(plan);
    }
}

/// The mappings of an allocation of which a part is freed, cut there.
fn cuts_of(objects: &Objects, index: AllocationIx, freed: &Freed) -> Vec<Cut> {
    let (start, end) = (freed.virtual_address, freed.virtual_address + freed.size);
    let touched = objects[index].mappings().filter(|mapping| freed.meets(mapping));
    touched.map(|mapping| Cut::new(&mapping, start, end)).collect()
}

/// The parts of a mapping of which a part is freed.
struct Cut {
    /// The part that is freed.
    freed: Mapping,
    /// The mappings whose entries become invalid: also the rest of pages that are cut.
    hidden: Mapping,
    /// The parts before and after these, as they are.
    kept: [Option<Mapping>; 2],
    /// The rests of pages that are cut.
    rests: [Option<Mapping>; 2],
}

impl Cut {
    /// Frees what lies from `start` to `end` of a mapping, which is not nothing.
    fn new(mapping: &Mapping, start: u64, end: u64) -> Self {
        let (start, end) = (start.max(mapping.virtual_address), end.min(mapping.end()));
        let (first, last) = (mapping.page_of(start), mapping.page_end_of(end));
        let part = |start, end| mapping.part(start, end, mapping.pte_page_size);
        let some = |part: Option<Mapping>| part.expect("what is freed is not empty");
        Self {
            freed: some(part(start, end)),
            hidden: some(part(first, last)),
            kept: [part(mapping.virtual_address, first), part(last, mapping.end())],
            rests: [mapping.rest_before(start), mapping.rest_after(end)],
        }
    }
}
