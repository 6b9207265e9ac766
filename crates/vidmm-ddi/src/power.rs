//! The adapter's power: the driver puts the hardware to sleep and wakes the hardware (DRV-13).

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::progress::Entry;
use crate::reports::report;

/// Lets the driver save the state of the hardware and switch the power off, loses what needs power, and lets the driver switch the
/// power on again. The manager has evicted all content before, and brings the content back behind.
pub(crate) fn lose_power(adapter: &Adapter, lose: impl FnOnce()) {
    const ACTIONS: [u32; 2] = [POWER_ACTION_SLEEP, POWER_ACTION_HIBERNATE];
    let number = adapter.losses_of_power.replace(adapter.losses_of_power.get() + 1);
    set_power_state(adapter, POWER_DEVICE_D3, ACTIONS[number % ACTIONS.len()]);
    lose();
    // The action of a return to full power means nothing.
    set_power_state(adapter, POWER_DEVICE_D0, ACTIONS[number / ACTIONS.len() % ACTIONS.len()]);
}

fn set_power_state(adapter: &Adapter, state: u32, action: u32) {
    let Some(function) = adapter.ddi().DxgkDdiSetPowerState else { return };
    // SAFETY: the context is what AddDevice returned.
    let status = adapter.call(Entry::DxgkDdiSetPowerState, PASSIVE_LEVEL, || unsafe {
        function(adapter.handle(), DISPLAY_ADAPTER_HW_ID, state, action)
    });
    if status < 0 {
        let state = state - POWER_DEVICE_D0;
        let message = "it must not fail (DRV-13)";
        report("DDI-POWER", format!("DxgkDdiSetPowerState to D{state} failed with status {status:#x}: {message}"));
    }
}
