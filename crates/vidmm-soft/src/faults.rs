//! What can go wrong in the model GPU on purpose.

use std::ops::RangeInclusive;

use vidmm::GpuVirtualAddress;

/// The address that a forged page fault names: nothing is ever mapped below 64 KiB.
pub const FORGED_FAULT_ADDRESS: GpuVirtualAddress = GpuVirtualAddress(0x1000);

/// Errors to be made on purpose, so that tests can see that they are found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ModelGpuFaults {
    /// In these transfer commands, counted from 1, one bit of one destination page flips.
    pub flip_bit_in_transfer: Option<RangeInclusive<u64>>,
    /// These packets never end: their first command that does more than to choose an address space hangs.
    pub hang_packets: Vec<PacketHits>,
    /// These packets fault at [`FORGED_FAULT_ADDRESS`] instead of that command.
    pub forge_page_faults: Vec<PacketHits>,
    /// These resets of an engine, counted from 1, are answered as if they had worked. The engine runs nothing any more, and does
    /// not answer preemption, until the adapter is reset; further resets of it are answered the same way.
    pub lie_about_engine_reset: Option<RangeInclusive<u64>>,
}

/// Some of the packets of an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketHits {
    /// The engine.
    pub engine: u32,
    /// Which packets, in the order in which it begins them, counted from 1.
    pub hits: RangeInclusive<u64>,
}

/// What becomes of a packet that is hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mishap {
    /// It never ends.
    Hang,
    /// It faults at [`FORGED_FAULT_ADDRESS`].
    PageFault,
}

impl ModelGpuFaults {
    /// What befalls packet number `nth` of `engine`.
    pub(crate) fn mishap(&self, engine: u32, nth: u64) -> Option<Mishap> {
        let is_hit = |packets: &[PacketHits]| {
            packets.iter().any(|packets| packets.engine == engine && packets.hits.contains(&nth))
        };
        match (is_hit(&self.hang_packets), is_hit(&self.forge_page_faults)) {
            (true, _) => Some(Mishap::Hang),
            (false, true) => Some(Mishap::PageFault),
            (false, false) => None,
        }
    }
}
