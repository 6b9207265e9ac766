//! The cache of the IOMMU in the test world's device. The host's changes do not reach it: only the driver's commands do.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::IoMmuDomain;
use vidmm::{PAGE_SIZE, PhysicalAddress};

use super::host::Ledger;

type Page = (IoMmuDomain, u64);

#[derive(Debug, Default)]
pub struct DeviceCache {
    entries: BTreeMap<Page, PhysicalAddress>,
    /// Pages that the driver was told are about to be unmapped: nothing may access them any more (NTF-04).
    announced: BTreeSet<Page>,
}

impl DeviceCache {
    /// Where `address` is, and whether it may only be read; none if access faults.
    pub fn translate(&self, domain: IoMmuDomain, address: u64, host: &Ledger) -> Option<(PhysicalAddress, bool)> {
        let page = (domain, address & !(PAGE_SIZE - 1));
        assert!(!self.announced.contains(&page), "I29: {page:x?} is accessed after its IoMmuUnmap");
        let mapped = host.translate(domain, page.1);
        if let Some(&cached) = self.entries.get(&page) {
            let now = mapped.map(|(at, _)| at);
            assert_eq!(now, Some(cached), "NTF-04: {page:x?} is used as the device has cached it, but was unmapped");
        }
        mapped
    }

    /// Nothing is cached any more.
    pub fn lose_power(&mut self) {
        *self = Self::default();
    }

    /// An engine has found `at` there, and remembers it.
    pub fn remember(&mut self, domain: IoMmuDomain, address: u64, at: PhysicalAddress) {
        self.entries.insert((domain, address & !(PAGE_SIZE - 1)), at);
    }

    /// The driver's command to forget a range.
    pub fn flush(&mut self, domain: IoMmuDomain, address: u64, size: u64) {
        let range = (domain, address)..(domain, address + size);
        let keys: Vec<Page> = self.entries.range(range).map(|(&key, _)| key).collect();
        keys.iter().for_each(|key| _ = self.entries.remove(key));
    }

    pub fn flush_all(&mut self) {
        self.entries.clear();
    }

    /// The driver was told that a range will be unmapped.
    pub fn announce(&mut self, domain: IoMmuDomain, address: u64, size: u64) {
        let pages = (address..address + size).step_by(PAGE_SIZE as usize);
        self.announced.extend(pages.map(|page| (domain, page)));
    }

    pub fn is_announced(&self, domain: IoMmuDomain, address: u64) -> bool {
        self.announced.contains(&(domain, address))
    }

    /// The host has unmapped a range: what is mapped there next is something else.
    pub fn unmapped(&mut self, domain: IoMmuDomain, address: u64, size: u64) {
        let range = (domain, address)..(domain, address + size);
        let keys: Vec<Page> = self.announced.range(range).copied().collect();
        keys.iter().for_each(|key| _ = self.announced.remove(key));
    }
}
