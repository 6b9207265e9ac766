//! Words for people: times, lists, reasons.

use std::borrow::Cow;

use vidmm::event::{EvictReason, SuspendReason};
use vidmm::{NoMemoryReason, PriorityBand, Visibility};

/// The number of items that a list names before it only counts.
const NAMED: usize = 4;

/// A time in nanoseconds, in the unit that fits, with three decimals at the most.
pub fn time(nanoseconds: u64) -> String {
    let (unit, name) = match nanoseconds {
        0..1_000 => return format!("{nanoseconds} ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let thousandths = (u128::from(nanoseconds) * 1000 / unit) % 1000;
    let fraction = format!("{thousandths:03}");
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction} {name}", u128::from(nanoseconds) / unit)
}

/// Items as people list them; of many only the first.
pub fn list<T: ToString>(items: &[T]) -> String {
    let named: Vec<String> = items.iter().take(NAMED).map(ToString::to_string).collect();
    let more = items.len() - named.len();
    match named.split_last() {
        None => "nothing".to_owned(),
        Some(_) if more > 0 => format!("{} and {more} more", named.join(", ")),
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

/// A count in words.
pub fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{count} times"),
    }
}

/// The text with a capital letter, for the start of a sentence.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The reason why an allocation leaves its place, as the rest of a sentence. `policy` chose among allocations of equal priority; none
/// is not known.
pub fn evict_reason(reason: EvictReason, policy: Option<&str>) -> Cow<'static, str> {
    let text = match reason {
        EvictReason::RoomWanted => {
            return match policy {
                None => "because its room was wanted and it was the next in the order of eviction".into(),
                Some("lru") => "because its room was wanted and it was the next by priority and age (lru)".into(),
                Some(policy) => {
                    format!("because its room was wanted and {policy} chose it among those of its priority").into()
                }
            };
        }
        EvictReason::EvictRequested => "because its last Evict had asked for that",
        EvictReason::Promoted => "because it was required in local memory",
        EvictReason::RangeWanted => "because its range of the aperture was wanted",
        EvictReason::Destroyed => "because it was destroyed",
        EvictReason::Offered => "because it was offered",
        EvictReason::DeviceSuspended => "because its room was wanted and only suspended devices required it",
        EvictReason::Locked => "because the CPU was to see it and could not there",
        EvictReason::PropertyUpdated => "because it may not be there any more",
        EvictReason::Moved => "to come back at another place, so that what else is wanted fits",
        EvictReason::BudgetRestricted => "because others, of whom the manager knows nothing, want its memory",
        EvictReason::PoweredDown => "because the adapter was about to lose power",
    };
    text.into()
}

/// The reason why a device yields, as a sentence without its start.
pub const fn suspend_reason(reason: SuspendReason) -> &'static str {
    match reason {
        SuspendReason::IdleOverBudget => "its process was above its budget and it had nothing to run",
        SuspendReason::SliceOver => "its process was above its budget and its time slice was over",
        SuspendReason::Idle => "it had nothing to run, and another device had waited for long",
        SuspendReason::Asleep => {
            "its process was asleep, with nothing in flight for 250 ms and four times its longest gap of late"
        }
        SuspendReason::Exchange => {
            "its process had slept for long, and a device within its budget had allocations away from home"
        }
        SuspendReason::ExchangeEnds => "a process had woken that had given it memory",
        SuspendReason::Starvation => "another device had waited for too long",
        SuspendReason::WaitsForRoom => "its own list had grown and had to wait for room",
        SuspendReason::Replace => "what it lists was to be placed elsewhere",
        SuspendReason::ProcessSuspended => "its process was suspended by a call",
        SuspendReason::PowerDown => "the adapter was about to lose power",
    }
}

/// The reason why a request was refused, as a sentence without its start.
pub const fn refusal(reason: NoMemoryReason) -> &'static str {
    match reason {
        NoMemoryReason::OverBudget => "memory was short and the process would have been above its budget",
        NoMemoryReason::OverMaximumBudget => "the process would have taken what others had reserved",
        NoMemoryReason::OverShare => {
            "memory was short and the process would have exceeded a fair share of a segment without a budget"
        }
        NoMemoryReason::DoesNotFit => "the list would not have fitted even alone",
        NoMemoryReason::HeldForNow => "the list would have fitted, but part of the list was held in place",
        NoMemoryReason::NoAssignment => "no assignment of the list to its segments was found",
        NoMemoryReason::Fragmented => "no hole of the aperture was large enough",
    }
}

/// A priority band.
pub const fn band(band: PriorityBand) -> &'static str {
    match band {
        PriorityBand::Dwm => "the compositor",
        PriorityBand::Focus => "in focus",
        PriorityBand::Normal => "normal",
    }
}

/// The visibility of a process.
pub const fn visibility(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Visible => "visible",
        Visibility::Occluded => "occluded",
        Visibility::Minimized => "minimized",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_unit_that_fits() {
        assert_eq!([0, 999, 1000, 18_570].map(time), ["0 ns", "999 ns", "1 us", "18.57 us"]);
        assert_eq!([1_000_001, 2_500_000_000].map(time), ["1 ms", "2.5 s"]);
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(list::<u8>(&[]), "nothing");
        assert_eq!(list(&[1]), "1");
        assert_eq!(list(&[1, 2, 3]), "1, 2 and 3");
        assert_eq!(list(&[1, 2, 3, 4, 5, 6]), "1, 2, 3, 4 and 2 more");
    }
}
