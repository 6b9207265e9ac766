//! Power components, and the states between which Windows moves the components of an idle adapter: F0 is full power (DRV-17).
//!
//! A driver takes part with `DXGK_DRIVERCAPS.SupportRuntimePowerManagement`, from WDDM 1.2 on.

use vidmm::contract::WddmVersion;

use crate::abi::*;
use crate::adapter::{Adapter, Component, DISPATCH_LEVEL, PASSIVE_LEVEL};
use crate::guards::{BEHIND, Damage, GUARD};
use crate::inbox;
use crate::progress::Entry;
use crate::reports::{remark, report};
use crate::segments::query;

/// WDDM 1.2 has power components.
const WDDM1_2: WddmVersion = WddmVersion(0x300E);

/// More components no adapter has.
const COMPONENTS_MAX: u32 = 256;

/// Bytes for the answer to a request, in turn.
const REQUEST_BYTES: [usize; 3] = [0, 0, 64];

/// Asks for the components, and moves each component from F0 to another state and back.
pub(crate) fn start(adapter: &Adapter, caps: &DXGK_DRIVERCAPS) {
    if caps.SupportRuntimePowerManagement == 0 || adapter.ddi().Version < WDDM1_2.0 {
        return;
    }
    let components = described(adapter);
    if components.iter().any(|component| component.num_states > 1)
        && adapter.ddi().DxgkDdiSetPowerComponentFState.is_none()
    {
        let message = "a component has several states, and the driver's table lacks DxgkDdiSetPowerComponentFState";
        report("DDI-COMPONENT", message);
    }
    adapter.components.replace(components);
    for (request, bytes) in POWER_REQUESTS.iter().zip(REQUEST_BYTES) {
        ask(adapter, request, bytes);
    }
    sleep_and_wake(adapter);
}

/// The components as the driver describes the components.
fn described(adapter: &Adapter) -> Vec<Component> {
    let mut count = 0u32;
    if query(adapter, DXGKQAITYPE_NUMPOWERCOMPONENTS, &(), &mut count) < 0 || count > COMPONENTS_MAX {
        let message = "DXGKQAITYPE_NUMPOWERCOMPONENTS has no number of components, read as none";
        remark("DRV-17", format!("SupportRuntimePowerManagement is set, and {message}"));
        return Vec::new();
    }
    let mut mappings = Vec::new();
    let mut components = Vec::new();
    for index in 0..count {
        let mut info = DXGK_POWER_RUNTIME_COMPONENT::zeroed();
        let status = query(adapter, DXGKQAITYPE_POWERCOMPONENTINFO, &index, &mut info);
        match status {
            STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES => return Vec::new(),
            ..0 => {
                let message = format!("DXGKQAITYPE_POWERCOMPONENTINFO fails with status {status:#x}");
                report("DDI-COMPONENT", format!("component {index} of {count}: {message}"));
                return Vec::new();
            }
            _ => {}
        }
        let wrong = wrong_in(&info, count, &mappings);
        wrong.inspect(|wrong| report("DDI-COMPONENT", format!("component {index} of {count}: {wrong}")));
        mappings.push(info.ComponentMapping);
        components.push(Component {
            num_states: info.StateCount.min(DXGK_MAX_F_STATES as u32),
            is_completed_by_driver: info.Flags & POWER_DRIVER_COMPLETES_TRANSITION != 0,
        });
    }
    components
}

/// The mistake in the description of a component behind others.
fn wrong_in(info: &DXGK_POWER_RUNTIME_COMPONENT, count: u32, before: &[[u32; 2]]) -> Option<String> {
    let &DXGK_POWER_RUNTIME_COMPONENT { StateCount, ComponentMapping, ProviderCount, ref Providers, .. } = info;
    if !(1..=DXGK_MAX_F_STATES).contains(&(StateCount as usize)) {
        return Some(format!("StateCount is {StateCount}: a component has 1 to {DXGK_MAX_F_STATES} states"));
    }
    let Some(providers) = Providers.get(..ProviderCount as usize) else {
        return Some(format!(
            "ProviderCount is {ProviderCount}: there are at most {DXGK_MAX_POWER_COMPONENT_PROVIDERS}"
        ));
    };
    if let Some(provider) = providers.iter().find(|&&provider| provider >= count) {
        return Some(format!("it needs component {provider}, which there is not"));
    }
    let [kind, of] = ComponentMapping;
    let is_twice = POWER_COMPONENTS_OF_ONE.contains(&kind) && before.contains(&ComponentMapping);
    is_twice.then(|| format!("it is mapped to number {of} of type {kind}, as a component before it is"))
}

/// Sends a request. An error is a right answer to every request.
fn ask(adapter: &Adapter, request: &[u32; 4], bytes: usize) {
    let Some(function) = adapter.ddi().DxgkDdiPowerRuntimeControlRequest else { return };
    let mut buffer = vec![GUARD; BEHIND + bytes + BEHIND];
    let out = if bytes == 0 { std::ptr::null_mut() } else { buffer[BEHIND..].as_mut_ptr().cast() };
    let mut returned = 0;
    // SAFETY: the request, the buffer and the number live for the call; beside the buffer are bytes of ours.
    let status =
        adapter.call_with(Entry::DxgkDdiPowerRuntimeControlRequest, PASSIVE_LEVEL, &mut returned, |returned| unsafe {
            function(adapter.handle(), request, std::ptr::null_mut(), 0, out, bytes, returned)
        });
    let damage = Damage::find(&buffer[..BEHIND], &buffer[BEHIND + bytes..]);
    let why = damage.map(|damage| damage.to_string());
    let too_many = (status >= 0 && returned > bytes).then(|| format!("BytesReturned is {returned}"));
    if let Some(why) = why.or(too_many) {
        let message = format!("DxgkDdiPowerRuntimeControlRequest has {bytes} bytes for the answer, and {why}");
        report("DDI-COMPONENT", message);
    }
}

/// Lets each component of the idle adapter sleep and wake: the driver saves what the component loses.
pub(crate) fn sleep_and_wake(adapter: &Adapter) {
    let components = adapter.components.borrow().clone();
    for (index, component) in (0..).zip(components).filter(|(_, component)| component.num_states > 1) {
        let state = 1 + adapter.component_dice.below((component.num_states - 1).into()) as u32;
        set_state(adapter, index, component, state);
        set_state(adapter, index, component, 0);
    }
}

fn set_state(adapter: &Adapter, index: u32, component: Component, state: u32) {
    let Some(function) = adapter.ddi().DxgkDdiSetPowerComponentFState else { return };
    let address = std::ptr::from_ref(adapter).addr();
    // Windows asks at either level.
    let irql = if adapter.component_dice.below(2) == 0 { PASSIVE_LEVEL } else { DISPATCH_LEVEL };
    inbox::take_transitions(address);
    // SAFETY: the context is what AddDevice returned.
    let status = adapter
        .call(Entry::DxgkDdiSetPowerComponentFState, irql, || unsafe { function(adapter.handle(), index, state) });
    let to = format!("DxgkDdiSetPowerComponentFState of component {index} to F{state}");
    match status {
        STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES => return,
        ..0 => return report("DDI-COMPONENT", format!("{to} failed with status {status:#x}")),
        _ => {}
    }
    adapter.wait_for_threads(|| inbox::has_transitions(address));
    let completed = inbox::take_transitions(address);
    match &completed[..] {
        [] if !component.is_completed_by_driver => {}
        [] if adapter.driver().counts().Timers > 0 => remark("DRV-17", "the end of a transition waits for a timer"),
        [] => {
            let message = "DriverCompletesFStateTransition is set, and DxgkCbCompleteFStateTransition was not called";
            report("DDI-COMPONENT", format!("{to}: {message}, for which Windows waits for ever"));
        }
        [_] if !component.is_completed_by_driver => {
            let message =
                "DxgkCbCompleteFStateTransition is called for a component without DriverCompletesFStateTransition";
            remark("DRV-17", message);
        }
        [one] if *one == index => {}
        [other] => {
            report("DDI-COMPONENT", format!("{to}: the end of a transition of component {other} is told instead"));
        }
        more => report("DDI-COMPONENT", format!("{to}: the end is told {} times", more.len())),
    }
}
