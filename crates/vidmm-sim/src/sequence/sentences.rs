//! Events about memory and its use, as sentences: places, lists, budgets, offers, errors.

use vidmm::contract::CpuVirtualAddress;
use vidmm::event::{PrefetchReason, ResumeReason, SuspendReason};
use vidmm::{Event, MemorySegmentGroup, NumberedEvent, SegmentId};

use super::names::Names;
use super::words::{addresses, content, part, reason, trim_flags};
use crate::exact::exact;
use vidmm_trace::ByteSize;

/// The verb and the rest; none of an event that has another sentence, or no sentence.
pub(super) fn sentence(numbered: &NumberedEvent, names: &Names) -> Option<(&'static str, String)> {
    let at = || format!(" (at {} ms)", numbered.at / 1_000_000);
    Some(match &numbered.event {
        Event::DeviceYielded { device, reason, wanted_by } => {
            let whom = wanted_by.map_or_else(String::new, |whom| format!(", for {}", names.device(whom)));
            ("yield", format!("{} stops: {}{whom}{}", names.device(*device), why_yielded(*reason), at()))
        }
        Event::DeviceSuspended { device } => (
            "suspend",
            format!("{}: nothing of it is in flight, its list is not required{}", names.device(*device), at()),
        ),
        Event::DeviceResumed { device, reason, plans } => {
            let back = match plans.len() {
                0 => "nothing must be brought back".to_owned(),
                1 => "one plan brings its list back".to_owned(),
                count => format!("{count} plans bring its list back"),
            };
            ("resume", format!("{}: {}; {back}{}", names.device(*device), why_resumed(*reason), at()))
        }
        Event::DeviceHeldUp { device, behind, since } => {
            let (device, behind, since) = (names.device(*device), names.device(*behind), since / 1_000_000);
            ("held up", format!("{device} waits behind {behind}, which keeps its memory, since {since} ms{}", at()))
        }
        Event::IoMmuMapped { domain, virtual_address, allocation, allocation_offset, size, window, .. } => {
            let shown = part(&names.allocation(*allocation), *allocation_offset, *size);
            let (whose, range) = (names.domain(*domain, *window), addresses(virtual_address.0, *size));
            ("host", format!("maps {whose} {range} <- {shown} in the IOMMU"))
        }
        Event::IoMmuUnmapped { domain, virtual_address, size, window, .. } => {
            let (whose, range) = (names.domain(*domain, *window), addresses(virtual_address.0, *size));
            ("host", format!("unmaps {whose} {range} from the IOMMU"))
        }
        Event::Evicted { allocation, segment, copied, discarded, reason: why, .. } => {
            let copied = match (*copied, *discarded) {
                (true, _) => ", with a copy",
                (false, true) => ", its content is discarded",
                (false, false) => "",
            };
            let (allocation, place) = (names.allocation(*allocation), names.place(*segment));
            ("out", format!("{allocation} leaves {place}{copied}: {}", reason(*why)))
        }
        Event::Cleaned { allocation, offset, size, is_last, ahead, watermark, .. } => {
            let (what, end) =
                (part(&names.allocation(*allocation), *offset, *size), if *is_last { ", the last part" } else { "" });
            let (ahead, watermark) = (ByteSize(*ahead), ByteSize(*watermark));
            ("clean", format!("{what} is copied out ahead{end}: {ahead} of the {watermark} at the cold end go before"))
        }
        Event::Prefetched { allocation, reason, .. } => {
            let why = match reason {
                PrefetchReason::Announced { device } => format!("{} announced it", names.device(*device)),
                PrefetchReason::Policy => "the policy expects a use".to_owned(),
            };
            ("ahead", format!("{} comes ahead of a MakeResident: {why}", names.allocation(*allocation)))
        }
        Event::Placed { allocation, segment, content: source, .. } => {
            let (allocation, place) = (names.allocation(*allocation), names.place(*segment));
            ("in", format!("{allocation} goes to {place}: {}", content(*source)))
        }
        Event::PageFault { signal, virtual_address, write, allocation, .. } => {
            let access = if *write { "wrote to" } else { "read" };
            let mapped = allocation.map_or_else(String::new, |id| format!(" of {}", names.allocation(id)));
            let packet = names.packet(*signal);
            ("error", format!("{packet} {access} {virtual_address}{mapped}, where nothing is resident"))
        }
        Event::IllegalCommand { signal } => {
            ("error", format!("{} holds a command that means nothing to the GPU", names.packet(*signal)))
        }
        Event::DeviceInError { device, reason } => {
            ("error", format!("{} is in error: {reason}", names.device(*device)))
        }
        Event::AdapterInError { violation } => ("error", violation.to_string()),
        Event::ProcessResumed { process, by_submission: true } => {
            ("wake", format!("{}: it has submitted work", names.process(*process)))
        }
        Event::TrimNotified { device, flags, group, num_bytes_to_trim, .. } => {
            let bytes = if *num_bytes_to_trim > 0 { format!(", {}", exact(*num_bytes_to_trim)) } else { String::new() };
            let of = group.map(|group| format!(" of the {} group", group_name(group)));
            let bytes = bytes + &of.unwrap_or_default();
            ("trim", format!("{} is notified: {}{bytes}{}", names.device(*device), trim_flags(*flags), at()))
        }
        Event::BudgetChanged { process, group, budget, requested } => {
            let (process, group) = (names.process(*process), group_name(*group));
            (
                "budget",
                format!(
                    "{process} may use {} of the {group} group; its lists name {}",
                    exact(*budget),
                    exact(*requested)
                ),
            )
        }
        Event::BackingStoreRefused { size } => ("host", format!("has no backing store of {}", exact(*size))),
        Event::Decommitted { allocation } => {
            ("gone", format!("{}: its backing store is returned until it is reclaimed", names.allocation(*allocation)))
        }
        Event::Locked { allocation, address, segment, .. } => {
            ("host", format!("shows the CPU {}", seen(names, *address, *segment, &names.allocation(*allocation))))
        }
        Event::Rotated { allocation, address, extents, .. } if extents.is_empty() => {
            ("host", format!("shows the CPU nothing at {address}: {} is on its way", names.allocation(*allocation)))
        }
        Event::Rotated { allocation, address, segment, .. } => {
            let seen = seen(names, *address, *segment, &names.allocation(*allocation));
            ("host", format!("still shows the CPU {seen}"))
        }
        Event::Unlocked { allocation, locks: 0 } => {
            ("host", format!("does not show the CPU {} any more", names.allocation(*allocation)))
        }
        Event::AllocationOwnershipTransferred { allocation, device, process } => {
            let (device, process) = (names.device(*device), names.process(*process));
            ("owner", format!("{} belongs to {device} of {process} now", names.allocation(*allocation)))
        }
        Event::PoweredDown => ("power", "everything is in system memory; the adapter loses its power".to_owned()),
        Event::PoweredUp => ("power", "the adapter has power again; its memory holds nothing".to_owned()),
        Event::ProcessTerminated { process } => {
            ("end", format!("process {}: its queued work is dropped", names.process(*process)))
        }
        Event::ProcessDestroyed { process } => ("gone", format!("process {}", names.process(*process))),
        _ => return None,
    })
}

fn seen(names: &Names, address: CpuVirtualAddress, segment: SegmentId, allocation: &str) -> String {
    let place = if segment.is_system() { "system memory".to_owned() } else { names.place(segment) };
    format!("{allocation} at {address}: in {place}")
}

fn group_name(group: MemorySegmentGroup) -> &'static str {
    match group {
        MemorySegmentGroup::Local => "local",
        MemorySegmentGroup::NonLocal => "non-local",
    }
}

fn why_yielded(reason: SuspendReason) -> &'static str {
    match reason {
        SuspendReason::IdleOverBudget => "its process is above its budget, and it is idle",
        SuspendReason::SliceOver => "its process is above its budget, and its time slice is over",
        SuspendReason::Idle => "it is idle",
        SuspendReason::Asleep => "its process is asleep",
        SuspendReason::Exchange => "its process has slept for long, and its memory is another's home",
        SuspendReason::ExchangeEnds => "a process has woken that had given it memory",
        SuspendReason::Starvation => "another has waited too long",
        SuspendReason::WaitsForRoom => "its list has grown, and must wait for room",
        SuspendReason::Replace => "its allocations are to be elsewhere",
        SuspendReason::ProcessSuspended => "its process is suspended",
        SuspendReason::PowerDown => "the adapter is about to lose power",
    }
}

fn why_resumed(reason: ResumeReason) -> &'static str {
    match reason {
        ResumeReason::HasWork => "it has work",
        ResumeReason::PressureFell => "there is room again",
    }
}
