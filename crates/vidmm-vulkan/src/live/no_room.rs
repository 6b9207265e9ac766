//! A refusal for want of room, with the remedies of the caller.

use std::fmt;

use vidmm::{Bytes, DeviceId, NoMemoryReason, Room};

use super::names::NamedAllocation;

/// The answer to the question whether buffers and images fit on a device's list, beside all that frames hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListRoom {
    /// The manager's answer.
    pub room: Room,
    /// The bytes of the device's frames on the list. Before [`make_resident`](super::Device::make_resident) is refused, frames give up these
    /// bytes, but for what a frame of now uses.
    pub bytes_of_frames: u64,
}

/// The refused call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeedsRoom {
    /// A frame. The number counts the device's frames from 1, refused frames too.
    Frame {
        /// The device.
        device: DeviceId,
        /// The number.
        number: u64,
    },
    /// [`Device::make_resident`](super::Device::make_resident).
    MakeResident,
    /// [`Device::reclaim`](super::Device::reclaim).
    Reclaim,
}

impl fmt::Display for NeedsRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame { device, number } => write!(f, "frame {number} of {device}"),
            Self::MakeResident => f.write_str("make_resident"),
            Self::Reclaim => f.write_str("reclaim"),
        }
    }
}

/// No room for the allocations of a call, although frames have given up all allocations without a need for now.
#[doc(alias = "STATUS_NO_MEMORY")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoRoom {
    /// The call.
    pub call: NeedsRoom,
    /// The number of named buffers and images.
    pub allocations: usize,
    /// The number of named ranges: more than that for buffers of several ranges.
    pub ranges: usize,
    /// The bytes of these ranges.
    pub bytes: u64,
    /// The buffer or image with the most of these bytes, from the first named range to the last, and the bytes.
    pub largest: (NamedAllocation, u64),
    /// The reason.
    pub reason: NoMemoryReason,
    /// The bytes to [evict](super::Device::evict) of the device's own list before a second try; 0 where no eviction is enough.
    pub num_bytes_to_trim: u64,
    /// The bytes of further allocations on the device's own list.
    pub listed_bytes: u64,
    /// The largest further allocation on the list, and the size.
    pub largest_listed: Option<(NamedAllocation, u64)>,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, allocations, ranges, bytes, reason, num_bytes_to_trim, listed_bytes, .. } = self;
        let (largest, largest_bytes) = &self.largest;
        write!(f, "{call} has no room ({reason}) for {} in {allocations} allocations, ", Bytes(*bytes))?;
        write!(f, "the largest is {largest} of {}: ", Bytes(*largest_bytes))?;
        let alone = match call {
            _ if *ranges < 2 => "create smaller buffers and images, or give the adapter more local memory",
            NeedsRoom::Frame { .. } if *allocations < 2 => "name fewer of its ranges at a time",
            _ if *allocations < 2 => {
                "name ranges of it in frames, create smaller buffers, or give the adapter more local memory"
            }
            NeedsRoom::Frame { .. } => "submit the frame in parts",
            NeedsRoom::MakeResident => "make fewer resident at a time",
            NeedsRoom::Reclaim => "reclaim fewer at a time",
        };
        match &self.largest_listed {
            Some((listed, of)) if *num_bytes_to_trim > 0 => {
                write!(f, "evict at least {} of the {} ", Bytes(*num_bytes_to_trim), Bytes(*listed_bytes))?;
                write!(f, "that are on the device's own list beside, such as {listed} of {}", Bytes(*of))?;
                if *allocations > 1 || *ranges > 1 && matches!(call, NeedsRoom::Frame { .. }) {
                    write!(f, ", or {alone}")?;
                }
            }
            _ => f.write_str(alone)?,
        }
        let is_over_budget = matches!(
            reason,
            NoMemoryReason::OverBudget | NoMemoryReason::OverMaximumBudget | NoMemoryReason::OverShare
        );
        if is_over_budget && *call == NeedsRoom::MakeResident {
            f.write_str("; with nothing left to evict, pass CANT_TRIM_FURTHER")?;
        }
        if *reason == NoMemoryReason::HeldForNow {
            f.write_str("; or try again when work of other devices has ended")?;
        }
        Ok(())
    }
}

impl std::error::Error for NoRoom {}
