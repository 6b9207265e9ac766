//! Faults of the model GPU and its host that can be made on purpose.

use vidmm::GpuVirtualAddress;
use vidmm_runtime::Occasions;

/// The address that a forged page fault names: nothing is ever mapped below 64 KiB.
pub const FORGED_FAULT_ADDRESS: GpuVirtualAddress = GpuVirtualAddress(0x1000);

/// Errors to be made on purpose, so that tests can see that they are found.
#[derive(Clone, Debug, Default)]
pub struct ModelGpuFaults {
    /// In these transfer commands one bit of one destination page flips.
    pub flip_bit_in_transfer: Option<Occasions>,
    /// These packets never end: their first command that does more than to choose an address space hangs.
    pub hang_packets: Vec<PacketHits>,
    /// These packets fault at [`FORGED_FAULT_ADDRESS`] instead of that command.
    pub forge_page_faults: Vec<PacketHits>,
    /// These resets of an engine are answered as if they had worked. The engine runs nothing any more, and does
    /// not answer preemption, until the adapter is reset; further resets of it are answered the same way.
    pub lie_about_engine_reset: Option<Occasions>,
    /// The host has no memory for these requests of backing store, once the adapter has started.
    pub fail_commit: Option<Occasions>,
    /// The host has no addresses for these requests to show the CPU something.
    pub fail_user_mode_va_mapping: Option<Occasions>,
}

/// Some of the packets of an engine.
#[derive(Clone, Debug)]
pub struct PacketHits {
    /// The engine. Packets of work on an adapter's only engine count as those of the engine of kernels.
    pub engine: u32,
    /// Which packets, in the order in which it begins them.
    pub occasions: Occasions,
}

/// The fate of a packet that is hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mishap {
    /// It never ends.
    Hang,
    /// It faults at [`FORGED_FAULT_ADDRESS`].
    PageFault,
}

impl ModelGpuFaults {
    /// The fault that befalls the packet that `engine` begins.
    pub(crate) fn mishap(&mut self, engine: u32) -> Option<Mishap> {
        let is_hit = |packets: &mut Vec<PacketHits>| {
            let mut is_hit = false;
            for packets in packets.iter_mut().filter(|packets| packets.engine == engine) {
                // Each of them has its occasion, also when another hits.
                is_hit |= packets.occasions.strike();
            }
            is_hit
        };
        match (is_hit(&mut self.hang_packets), is_hit(&mut self.forge_page_faults)) {
            (true, _) => Some(Mishap::Hang),
            (false, true) => Some(Mishap::PageFault),
            (false, false) => None,
        }
    }
}

/// Whether it hits now.
pub(crate) fn strikes(occasions: &mut Option<Occasions>) -> bool {
    occasions.as_mut().is_some_and(Occasions::strike)
}
