//! A refusal for want of room, by what its caller can change.

use std::fmt;

use vidmm::{Bytes, DeviceId, NoMemoryReason};

use super::names::NamedAllocation;

/// The call that has no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeedsRoom {
    /// A frame of the device: the number counts the frames that were submitted or begun on the device, refused frames too, from 1.
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

/// There is no room for what a call names, though frames have given up all that they do not need now.
#[doc(alias = "STATUS_NO_MEMORY")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoRoom {
    /// The call.
    pub call: NeedsRoom,
    /// The allocations that it names, each once.
    pub allocations: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The largest of them, and its bytes.
    pub largest: (NamedAllocation, u64),
    /// Why there is none.
    pub reason: NoMemoryReason,
    /// The bytes to [evict](super::Device::evict) of the device's own list before the call is made again; 0 where that is not enough.
    pub num_bytes_to_trim: u64,
    /// The bytes on the device's own list that the call does not name.
    pub listed_bytes: u64,
    /// The largest allocation there, and its bytes.
    pub largest_listed: Option<(NamedAllocation, u64)>,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, allocations, bytes, reason, num_bytes_to_trim, listed_bytes, .. } = self;
        let (largest, largest_bytes) = &self.largest;
        write!(f, "{call} has no room ({reason}) for {} in {allocations} allocations, ", Bytes(*bytes))?;
        write!(f, "the largest is {largest} of {}: ", Bytes(*largest_bytes))?;
        let alone = match call {
            _ if *allocations < 2 => "create smaller buffers and images, or give the adapter more local memory",
            NeedsRoom::Frame { .. } => "submit the frame in parts",
            NeedsRoom::MakeResident => "make fewer resident at a time",
            NeedsRoom::Reclaim => "reclaim fewer at a time",
        };
        match &self.largest_listed {
            Some((listed, of)) if *num_bytes_to_trim > 0 => {
                write!(f, "evict at least {} of the {} ", Bytes(*num_bytes_to_trim), Bytes(*listed_bytes))?;
                write!(f, "that are on the device's own list beside, such as {listed} of {}", Bytes(*of))?;
                if *allocations > 1 {
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
