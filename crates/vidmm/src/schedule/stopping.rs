//! The end of a device's turn.

use crate::{
    event::{Event, SuspendReason},
    id::DeviceIx,
    objects::turn::Activity,
    state::State,
};

/// Nothing of the device is dispatched or granted from now on.
pub(crate) fn stop(
    state: &mut State,
    device: DeviceIx,
    reason: SuspendReason,
    wanted_by: Option<DeviceIx>,
    gives_way: bool,
) {
    let turn = &mut state.objects[device].turn;
    turn.gives_way |= gives_way;
    // A waiting device still waits for the same memory, whichever device has the turn.
    if turn.activity != Activity::Active {
        return;
    }
    turn.set_takes_all(false);
    state.shares.set_activity(&mut state.objects, device, Activity::Yielding);
    let (id, wanted_by) = (state.objects.device_id(device), wanted_by.map(|other| state.objects.device_id(other)));
    state.moment.record(|| Event::DeviceYielded { device: id, reason, wanted_by });
    state.moment.statistics_mut().yields += 1;
}
