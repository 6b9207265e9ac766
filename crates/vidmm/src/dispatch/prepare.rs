//! Preparation: which portion of a DMA buffer runs next, and what it takes to bring it in (SPL-05 to SPL-10).
//!
//! A portion is a requirement like a device's list, with another lifetime (D3): from its decision until it has been
//! handed out its allocations are on its device's list. The next portion is decided when this one has been handed out.
//! An allocation that stays bound across the cut stays on the list, and so in its place.

use alloc::{collections::BTreeSet, vec::Vec};
use core::cmp::Reverse;

use crate::{
    budget::account::{Account, PerAccount},
    dispatch::portions,
    event::{SuspendReason, error::DeviceErrorReason},
    id::{AllocationIx, ContextIx, DeviceIx},
    objects::{
        Objects,
        context::{Context, Queued},
        split::{Cut, Portion, References},
        submission::Submission,
        turn::Activity,
    },
    placement::{self, Mark, Placement, Target, Transaction},
    plans::Plans,
    requests::Requests,
    residency::{place, views, weight},
    schedule::{stopping, turns},
    state::State,
    work::{self, Work},
};
/// The reason why a portion cannot be decided.
#[derive(Clone, Copy)]
enum Obstacle {
    /// It must wait until others have handed out what they have decided.
    Wait,
    /// It has no room beside device lists: these must yield to it.
    WaitForTurn,
    /// The allocations that are bound together at one split point do not fit (SPL-10).
    Impossible { offset: u32, bytes: u64 },
}

/// Contexts whose portions are decided one after another.
pub(crate) struct Round {
    contexts: alloc::vec::IntoIter<ContextIx>,
    /// A context has no room, and takes what becomes free.
    is_waited_for: bool,
}

/// The contexts whose next portion can be decided: those with more urgent work first, then those that were served longest ago.
pub(crate) fn begin_round(state: &mut State, work: &mut Work) -> Round {
    give_up_unbegun(state, work);
    let mut contexts: Vec<ContextIx> = Vec::new();
    let mut next = Queued::FIRST;
    while let Some(queued) = work.queued.next_from(next) {
        next = queued.next();
        contexts.extend(can_prepare(state, work, queued.context).then_some(queued.context));
    }
    contexts.sort_by_key(|&context| {
        let record = &state.objects[context];
        (Reverse(record.priority), record.served, context)
    });
    Round { contexts: contexts.into_iter(), is_waited_for: false }
}

/// A device that yields hands out nothing but the rest of DMA buffers that it has begun: what was decided for another is decided
/// anew in its turn.
fn give_up_unbegun(state: &mut State, work: &mut Work) {
    let is_unbegun = |context: &ContextIx| {
        let Context { device, ref portion, ref queue, .. } = state.objects[*context];
        let is_begun = queue.front().is_some_and(Submission::is_begun);
        portion.is_some() && !is_begun && !state.objects[device].is_active()
    };
    for context in Vec::from_iter(work.queued.iter().map(|queued| queued.context).filter(is_unbegun)) {
        work.give_up_portion(state, context);
        state.moment.request_poll();
    }
}

/// Decides portions until one cannot be brought in at all: its device is to be put in error, and the round goes on. The first
/// context that has no room is waited for; only the DMA buffer that is being split goes on before it, so that it ends.
pub(crate) fn prepare(
    state: &mut State,
    plans: &mut Plans,
    requests: &mut Requests,
    work: &mut Work,
    round: &mut Round,
) -> Option<(DeviceIx, DeviceErrorReason)> {
    for context in round.contexts.by_ref() {
        // Another context may have put this one's device in error, or have taken its engine.
        let may_go = !round.is_waited_for || work.patching.splitting == Some(context);
        if may_go && can_prepare(state, work, context) {
            match prepare_next(state, plans, requests, work, context) {
                Ok(others_may_go) => round.is_waited_for |= !others_may_go,
                Err(failure) => return Some(failure),
            }
        }
    }
    None
}

/// Whether the next portion of the DMA buffer in front of a context's queue can be decided now.
fn can_prepare(state: &State, work: &Work, index: ContextIx) -> bool {
    let context = &state.objects[index];
    let Some(front) = context.queue.front().filter(|next| next.is_prepared()) else { return false };
    let runs = match state.objects[context.device].turn.activity {
        Activity::Active => true,
        Activity::Yielding => front.is_begun(),
        Activity::Suspended => false,
    };
    // One portion is decided for each engine at a time: it will be handed out before another.
    let of_engine = |queued: &&Queued| state.objects[queued.context].engine == context.engine;
    let is_engine_free =
        work.queued.iter().filter(of_engine).all(|queued| state.objects[queued.context].portion.is_none());
    runs && is_engine_free
        && work.is_engine_open(&state.adapter, &state.objects, index)
        && work::is_front_unblocked(state, index)
}

/// Decides a context's next portion. Returns whether others may be considered, or the device that is to be put in error.
fn prepare_next(
    state: &mut State,
    plans: &mut Plans,
    requests: &mut Requests,
    work: &mut Work,
    index: ContextIx,
) -> Result<bool, (DeviceIx, DeviceErrorReason)> {
    let Context { device, ref mut queue, .. } = state.objects[index];
    let front = queue.front_mut().and_then(|front| front.references.take());
    let references = front.expect("it was found there");
    let decision = decide(state, work, index, &references);
    let (dma_buffer, fixed) = (references.number, references.progress.fixed.len());
    state.objects[index].queue.front_mut().expect("it was found there").references = Some(references);
    match decision {
        Ok((mut portion, placement)) => {
            // An allocation that is bound across the cut comes first, and is on the list from the portion before.
            let joining = &portion.required[fixed..];
            state.residency.note_joined(&state.objects, joining.iter().copied());
            let draft = plans.begin(device, None);
            portion.plans = plans.carry_out(state, draft, &portion.required, placement);
            require(state, device, joining);
            if portion.cut.is_some() {
                work.patching.begin_splitting(index);
            }
            state.objects[index].decide(portion);
            state.moment.request_poll();
            Ok(true)
        }
        Err(Obstacle::Wait) => Ok(false),
        Err(Obstacle::WaitForTurn) => {
            stopping::stop(state, device, SuspendReason::WaitsForRoom, None, false);
            state.objects[device].turn.set_takes_all(true);
            Ok(true)
        }
        Err(Obstacle::Impossible { offset, bytes }) => {
            state.objects[device].turn.set_takes_all(false);
            if !work.patching.knobs.expect_preparation_failure {
                return Err((device, DeviceErrorReason::PreparationFailed { dma_buffer, bytes }));
            }
            portions::drop_front(state, requests, work, index, offset, bytes);
            Ok(true)
        }
    }
}

/// The next portion, and where what it requires goes; if there is none, nothing has changed.
fn decide(
    state: &mut State,
    work: &Work,
    index: ContextIx,
    references: &References,
) -> Result<(Portion, Placement), Obstacle> {
    let mut transaction = Transaction::new(state.objects[state.objects[index].device].process, 0);
    match fill(state, work, index, references, &mut transaction) {
        Ok(portion) => Ok((portion, placement::conclude(&state.objects, &mut state.memory, transaction))),
        Err(obstacle) => {
            placement::undo(&mut state.memory, &mut transaction, Mark::START);
            Err(obstacle)
        }
    }
}

/// As many groups of patch locations as fit together, from where the last portion ended, with the members of `transaction`.
fn fill(
    state: &mut State,
    work: &Work,
    index: ContextIx,
    references: &References,
    transaction: &mut Transaction,
) -> Result<Portion, Obstacle> {
    // A DMA buffer is cut only where nobody keeps memory from it, so that it can always go on to its end.
    let obstacle = match others_pin(&state.objects, work, index) {
        true => Err(Obstacle::Wait),
        false if turns::lists_are_promised(&state.objects) => Err(Obstacle::WaitForTurn),
        false => Ok(()),
    };
    let size = state.objects[index].queue.front().expect("it was found there").desc.dma_buffer.len() as u32;
    let progress = &references.progress;
    let start = progress.start;
    let mut table = progress.table.clone();
    let mut required: Vec<AllocationIx> = Vec::new();
    for &fixed in &progress.fixed {
        let is_there = placement::try_member(state, transaction, fixed);
        debug_assert!(is_there, "what is pinned stays where it is");
        required.push(fixed);
    }
    let mut next = progress.next;
    let mut cut = None;
    let mut end = size;
    while let Some(offset) = references.split_offset(next) {
        let group = references.group(next);
        if work.patching.knobs.take_split_point && offset > start && offset < size {
            obstacle?;
            (cut, end) = (Some(Cut::TakeSplitPoint), offset);
            break;
        }
        let mark = transaction.mark();
        let bound = references.patch_locations[group.clone()].iter().filter_map(|at| references.bound_by(at));
        let mut missing = None;
        let mut members = Vec::new();
        for allocation in bound {
            if transaction.members.contains_key(&allocation) {
                continue;
            }
            if views::waits_for_unlock(&state.objects, allocation) {
                let device = state.objects[index].device;
                state.objects[device].turn.set_takes_all(false);
                return Err(Obstacle::Wait);
            }
            if !placement::try_member(state, transaction, allocation) {
                missing = Some(allocation);
                break;
            }
            members.push(allocation);
        }
        let Some(missing) = missing else {
            required.extend(members);
            table.apply(references, group.clone());
            next = group.end;
            continue;
        };
        placement::undo(&mut state.memory, transaction, mark);
        if offset > start && obstacle.is_ok() {
            (cut, end) = (Some(Cut::NoRoom { allocation: missing }), offset);
            break;
        }
        obstacle?;
        let bytes = bytes_together(&state.objects, references, &required, group);
        return Err(Obstacle::Impossible { offset, bytes });
    }
    if obstacle.is_err() && !fits_promises(state, state.objects[index].device, transaction) {
        obstacle?;
    }
    Ok(Portion { end, patch_locations: progress.next..next, required, table, plans: Vec::new(), cut })
}

/// Whether what a transaction's members take of each account is promised to nobody else.
fn fits_promises(state: &State, device: DeviceIx, transaction: &Transaction) -> bool {
    let mut added: PerAccount<u64> = state.memory.accounts().none();
    for (&index, target) in &transaction.members {
        let allocation = &state.objects[index];
        let is_listed =
            place::is_counted(&state.objects, index) || allocation.entry(device).is_none_or(|entry| entry.count > 0);
        let account = match target {
            Some(Target::Memory(account, _)) => *account,
            Some(Target::Aperture) => Account::SYSTEM,
            Some(Target::Pages) | None => allocation.place.expect("what stays is somewhere").account(),
        };
        added[account] += if is_listed { 0 } else { allocation.size };
    }
    state.shares.may_pin(&state.objects, &state.memory, device, &added)
}

/// Bytes that are bound together where a group of patch locations is applied to what is required already.
fn bytes_together(
    objects: &Objects,
    references: &References,
    required: &[AllocationIx],
    group: core::ops::Range<usize>,
) -> u64 {
    let bound = references.patch_locations[group].iter().filter_map(|at| references.bound_by(at));
    let together: BTreeSet<AllocationIx> = required.iter().copied().chain(bound).collect();
    together.into_iter().map(|index| objects[index].size).sum()
}

/// Whether other contexts have portions that are decided, or keep what is bound across a cut: they will go on.
fn others_pin(objects: &Objects, work: &Work, index: ContextIx) -> bool {
    let decided = work.queued.iter().any(|queued| queued.context != index && objects[queued.context].portion.is_some());
    decided || work.patching.splitting.is_some_and(|splitting| splitting != index)
}

/// Puts what a portion brings in on its device's list.
fn require(state: &mut State, device: DeviceIx, joining: &[AllocationIx]) {
    for &index in joining {
        let place = state.objects[index].place.expect("it has been given a place");
        state.set_home(index, place::home(&state.memory, place));
        let (account, size) = (place.account(), state.objects[index].size);
        let entry = state.objects[index].entry_mut(device);
        entry.count += 1;
        if entry.count == 1 {
            let (allocation, record) = state.objects.records(index, device);
            weight::note_listed(record, allocation, true);
            let bytes = state.objects[device].list[account].now() + size;
            state.shares.set_list_bytes(&mut state.objects, device, account, bytes);
        }
        // It is numbered when it is handed out, and what it writes is known.
        state.residency.join_granted(&mut state.objects, index, device, 0);
        state.shares.renew_promise(&mut state.objects, device);
    }
}
