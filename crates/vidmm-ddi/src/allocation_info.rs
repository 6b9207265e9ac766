//! The driver's decisions about an allocation, in the manager's words.

use vidmm::PAGE_SIZE;
use vidmm::contract::{
    AllocationFlags, AllocationFlags2, AllocationInfo, Direction, KmdAllocationHandle, SegmentBankPreference,
    SegmentPreference, SegmentSet,
};

use crate::abi::*;

/// The driver's decisions about the allocation of a number. An allocation is read and written in the same segments: those in both sets.
/// Of an adapter with `hidden` segments the decisions are those without the segments.
pub(crate) fn allocation_info(number: u64, info: &DXGK_ALLOCATIONINFO, hidden: u32) -> AllocationInfo {
    let hint = info.HintedBank;
    let bank = |at: u32| (hint >> (8 * at)) as u8;
    AllocationInfo {
        allocation: KmdAllocationHandle(number),
        size: info.Size as u64,
        // Below a page it is a page (DRV-06).
        alignment: if info.Alignment < PAGE_SIZE as u32 { 0 } else { info.Alignment },
        supported_segment_set: SegmentSet(info.SupportedReadSegmentSet & info.SupportedWriteSegmentSet & !hidden),
        preferred_segment: without(preference(info.PreferredSegment), SegmentSet(hidden)),
        hinted_bank: SegmentBankPreference {
            banks: std::array::from_fn(|at| bank(at as u32) & 0x7F),
            directions: std::array::from_fn(|at| direction(bank(at as u32) >> 7 != 0)),
        },
        eviction_segment_set: SegmentSet(info.EvictionSegmentSet & !hidden),
        allocation_priority: info.AllocationPriority,
        flags: AllocationFlags::from_bits_truncate(info.Flags),
        flags2: AllocationFlags2::from_bits_truncate(info.Flags2),
    }
}

fn direction(from_end: bool) -> Direction {
    if from_end { Direction::FromEnd } else { Direction::FromStart }
}

/// Five ids of five bits, each with its direction (SEG-42).
fn preference(bits: u32) -> SegmentPreference {
    let field = |at: usize| bits >> (6 * at);
    SegmentPreference {
        segment_ids: std::array::from_fn(|at| vidmm::SegmentId((field(at) & 0x1F) as u8)),
        directions: std::array::from_fn(|at| direction(field(at) >> 5 & 1 != 0)),
    }
}

/// A preference without the segments of a set: later segments move up.
fn without(preference: SegmentPreference, hidden: SegmentSet) -> SegmentPreference {
    let SegmentPreference { segment_ids, directions } = preference;
    let mut left = SegmentPreference::default();
    let seen = segment_ids.into_iter().zip(directions).filter(|&(segment, _)| !hidden.contains(segment));
    for (at, (segment, direction)) in seen.enumerate() {
        (left.segment_ids[at], left.directions[at]) = (segment, direction);
    }
    left
}

pub(crate) fn preference_bits(preference: SegmentPreference) -> u32 {
    let ids = preference.segment_ids.iter().zip(&preference.directions);
    ids.enumerate().fold(0, |bits, (at, (id, &from))| {
        bits | (u32::from(id.0 & 0x1F) | u32::from(from == Direction::FromEnd) << 5) << (6 * at)
    })
}
