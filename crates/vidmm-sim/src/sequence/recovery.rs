//! Events about preemption and resets, as sentences.

use vidmm::event::PreemptReason;
use vidmm::{Event, NumberedEvent};

use super::names::Names;

/// The verb and the rest; none of an event that has another sentence, or no sentence.
pub(super) fn recovery(numbered: &NumberedEvent, names: &Names) -> Option<(&'static str, String)> {
    let at = || format!(" (at {} ms)", numbered.at / 1_000_000);
    Some(match &numbered.event {
        Event::PreemptRequested { engine, reason, .. } => {
            ("preempt", format!("{} is to yield: {}{}", names.engine(*engine), why_preempted(*reason), at()))
        }
        Event::Preempted { engine, returned, .. } => {
            let returned = match names.packets(*engine, returned) {
                none if none.is_empty() => "nothing comes back".to_owned(),
                packets => format!("what it has not begun comes back: {packets}"),
            };
            ("yield", format!("{} runs nothing; {returned}{}", names.engine(*engine), at()))
        }
        Event::PreemptTimedOut { engine, .. } => {
            ("time limit", format!("{} has not yielded in time{}", names.engine(*engine), at()))
        }
        Event::EngineResetBegun { engine, reason, .. } => {
            ("ResetEngine", format!("{}: {}{}", names.engine(*engine), reason, at()))
        }
        Event::EngineReset { engine, last_aborted_fence_id: None, .. } => {
            ("reset", format!("{}: the driver could not{}", names.engine(*engine), at()))
        }
        Event::EngineReset { engine, last_aborted_fence_id: Some(last), returned } => {
            let returned = match names.packets(*engine, returned) {
                none if none.is_empty() => String::new(),
                packets => format!(", buffers of {packets} come back"),
            };
            ("reset", format!("{}: the last aborted fence is {last}{returned}{}", names.engine(*engine), at()))
        }
        Event::Aborted { signal } => ("abort", format!("{} does not end", names.packet(*signal))),
        Event::Resubmitted { before, signal, .. } => {
            let fence = match before.fence_id == signal.fence_id {
                true => format!("with its fence {}", signal.fence_id),
                false => format!("with fence {} instead of {}", signal.fence_id, before.fence_id),
            };
            ("again", format!("{} goes to {} {fence}", names.packet(*signal), names.engine(signal.engine)))
        }
        Event::ProcessBlocked { process } => {
            ("blocked", format!("{} has hung engines too often, and loses the GPU", names.process(*process)))
        }
        Event::AdapterResetBegun { cause } => ("ResetFromTimeout", format!("{}{}", cause, at())),
        Event::PlanAbandoned { plan } => ("abandon", format!("plan {plan} is not carried out to its end")),
        Event::ContentLost { allocation, is_kept } => {
            let what = match is_kept {
                false => "the one right copy of its content was in local memory; it reads as zero",
                true => {
                    "the GPU's last writes are gone, or its driver could not put them right; its bytes in system memory are kept"
                }
            };
            ("lost", format!("{}: {what}", names.allocation(*allocation)))
        }
        Event::AdapterRestarted => ("RestartFromTimeout", format!("the GPU runs again; nothing is resident{}", at())),
        _ => return None,
    })
}

fn why_preempted(reason: PreemptReason) -> &'static str {
    match reason {
        PreemptReason::Quantum => "its packet has run for a quantum",
        PreemptReason::Dependent => "it depends on an engine that is to be reset",
        PreemptReason::WaitsForReset => "its packets wait for an engine that gives its own back",
        PreemptReason::Priority => "something more urgent is to run",
        PreemptReason::ReadyWork => "other work could run, and its packet waits for much paging",
        PreemptReason::AfterReset => "it was reset, and must show that it runs",
    }
}
