//! A hook that unmaps from the IOMMU too early, so that checks can be seen to fail.

use std::collections::BTreeSet;

use vidmm::GpuVirtualAddress;
use vidmm::contract::{Host, IoMmuDomain};

use crate::host_hook::{HookedHost, HostHook};

/// The mappings that a driver has had unmapped before the core asks for it: domain and first address. The later request
/// is passed over.
#[derive(Default)]
pub struct EarlyUnmaps(BTreeSet<(IoMmuDomain, GpuVirtualAddress)>);

impl HookedHost<EarlyUnmaps> {
    /// Unmaps the range of one map call now. The range counts as early until the core asks to unmap it, so a second
    /// call does nothing.
    pub fn unmap_now(&self, domain: IoMmuDomain, address: GpuVirtualAddress, size: u64) {
        self.with(|host, early| {
            if early.0.insert((domain, address)) {
                host.unmap_io_mmu(domain, address, size);
            }
        });
    }
}

impl HostHook for EarlyUnmaps {
    fn unmap_io_mmu(&mut self, host: &mut dyn Host, domain: IoMmuDomain, address: GpuVirtualAddress, size: u64) {
        if !self.0.remove(&(domain, address)) {
            host.unmap_io_mmu(domain, address, size);
        }
    }
}
