//! Sizes, ranges and places in words.

use vidmm::TrimFlags;
use vidmm::contract::{NotifyAllocFlags, TransferFlags};
use vidmm::event::{ContentSource, EvictReason};

use crate::exact::exact;

/// A range of addresses.
pub(super) fn addresses(start: u64, size: u64) -> String {
    format!("{start:#x} +{}", exact(size))
}

/// A part of an allocation.
pub(super) fn part(allocation: &str, offset: u64, size: u64) -> String {
    format!("{allocation} [{}, {})", exact(offset), exact(offset + size))
}

/// The number of a chunk among several; nothing if there is only one.
pub(super) fn chunk(offset: u64, allocation: Option<u64>, window: u64) -> String {
    match allocation {
        Some(size) if window > 0 && size > window => {
            format!(", chunk {} of {}", offset / window + 1, size.div_ceil(window))
        }
        _ => String::new(),
    }
}

/// The part of an allocation's way that a transfer is, and its promises; nothing if the transfer is the whole way.
pub(super) fn transfer_part(flags: TransferFlags) -> String {
    let ends = TransferFlags::TRANSFER_START | TransferFlags::TRANSFER_END;
    let part = match flags & ends {
        both if both == ends => "",
        TransferFlags::TRANSFER_START => ", TransferStart",
        TransferFlags::TRANSFER_END => ", TransferEnd",
        _ => ", between",
    };
    let idle = if flags.contains(TransferFlags::ALLOCATION_IS_IDLE) { ", AllocationIsIdle" } else { "" };
    format!("{part}{idle}")
}

pub(super) fn notification(flags: NotifyAllocFlags) -> &'static str {
    if flags == NotifyAllocFlags::EVICTION {
        "Eviction"
    } else if flags == NotifyAllocFlags::IO_MMU_UNMAP {
        "IoMmuUnmap"
    } else {
        "with other flags than one"
    }
}

/// The requests to a process, by WDDM's names; nothing if there is no flag.
pub(crate) fn trim_flags(flags: TrimFlags) -> String {
    let names = [
        (TrimFlags::PERIODIC_TRIM, "PeriodicTrim"),
        (TrimFlags::RESTART_PERIODIC_TRIM, "RestartPeriodicTrim"),
        (TrimFlags::TRIM_TO_BUDGET, "TrimToBudget"),
    ];
    let set: Vec<&str> = names.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| *name).collect();
    set.join(" and ")
}

pub(super) fn reason(reason: EvictReason) -> &'static str {
    match reason {
        EvictReason::RoomWanted => "its room is wanted",
        EvictReason::EvictRequested => "its Evict asked for it",
        EvictReason::Promoted => "there is room in local memory again",
        EvictReason::RangeWanted => "its range of the aperture is wanted",
        EvictReason::Destroyed => "it was destroyed",
        EvictReason::Offered => "it is offered",
        EvictReason::DeviceSuspended => "its device is suspended",
        EvictReason::Locked => "the CPU is to see it",
        EvictReason::PropertyUpdated => "it may not be there any more",
        EvictReason::Moved => "it comes back at another place",
        EvictReason::BudgetRestricted => "others want its memory",
        EvictReason::PoweredDown => "the adapter is about to lose power",
    }
}

pub(super) fn content(source: ContentSource) -> &'static str {
    match source {
        ContentSource::Fill => "filled with zeros",
        ContentSource::BackingStore => "copied from its backing store",
        ContentSource::InPlace => "its bytes stay where they are",
    }
}

#[cfg(test)]
mod tests {
    use super::chunk;

    #[test]
    fn chunks_are_counted_only_where_there_are_several() {
        assert_eq!(chunk(0, Some(16), 16), "");
        assert_eq!(chunk(16, Some(33), 16), ", chunk 2 of 3");
        assert_eq!(chunk(32, Some(33), 16), ", chunk 3 of 3");
        assert_eq!(chunk(0, Some(33), 0), "");
    }
}
