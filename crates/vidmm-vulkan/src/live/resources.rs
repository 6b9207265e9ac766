//! The worker's records of buffers and images: each is one or more allocations of the manager.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use vidmm::contract::KmdProcessHandle;
use vidmm::{AllocationId, DeviceId, PAGE_SIZE};
use vidmm_client::Managed;

use super::command::NamedRanges;

/// A buffer or an image: its ranges are an allocation each, and its addresses follow one another. An image has one range.
pub(super) struct ResourceRecord {
    pub device: DeviceId,
    pub process: KmdProcessHandle,
    /// The first page of its addresses.
    pub first: u64,
    pub bytes: u64,
    /// The bytes of each range but the last, which has the rest.
    pub range_bytes: u64,
    /// The allocations of the ranges, in order.
    pub allocations: Vec<AllocationId>,
    /// The names of these for the device's frames, from the first frame on that uses any.
    pub managed: Vec<Managed>,
    /// The allocations that the manager has.
    pub left: usize,
    /// The first token of the application's commands before its eviction.
    pub foreign: Option<u32>,
    /// How often it is on the application's own list.
    pub listed: u64,
    /// The content may be lost.
    pub is_offered: bool,
    /// No handle is left.
    pub is_dropped: bool,
    /// It was on the application's own list: uses of that may write it.
    pub was_listed: bool,
}

impl ResourceRecord {
    /// The bytes of a range, from the start of the resource.
    pub fn range(&self, number: usize) -> Range<u64> {
        let start = number as u64 * self.range_bytes;
        start..self.bytes.min(start + self.range_bytes)
    }

    /// How many bytes that is.
    pub fn range_size(&self, number: usize) -> u64 {
        let Range { start, end } = self.range(number);
        end - start
    }

    /// The bytes from the first of these ranges to the last, unless that is all.
    pub fn around(&self, numbers: &BTreeSet<usize>) -> Option<Range<u64>> {
        let (&first, &last) = (numbers.first()?, numbers.last()?);
        (numbers.len() < self.allocations.len()).then(|| self.range(first).start..self.range(last).end)
    }

    /// The pages of addresses of a range.
    pub fn pages(&self, number: usize) -> Range<u64> {
        let Range { start, end } = self.range(number);
        self.first + start / PAGE_SIZE..self.first + end / PAGE_SIZE
    }
}

/// All buffers and images. The name of each is that of its first allocation.
#[derive(Default)]
pub(super) struct Resources {
    records: BTreeMap<AllocationId, ResourceRecord>,
    /// The resource of each allocation that is not the first.
    owners: BTreeMap<AllocationId, AllocationId>,
}

impl Resources {
    /// Adds a resource, which has an allocation. Returns the name.
    pub fn insert(&mut self, record: ResourceRecord) -> AllocationId {
        let (resource, others) = (record.allocations[0], &record.allocations[1..]);
        self.owners.extend(others.iter().map(|&allocation| (allocation, resource)));
        self.records.insert(resource, record);
        resource
    }

    pub fn get(&self, resource: AllocationId) -> Option<&ResourceRecord> {
        self.records.get(&resource)
    }

    pub fn get_mut(&mut self, resource: AllocationId) -> Option<&mut ResourceRecord> {
        self.records.get_mut(&resource)
    }

    /// All, in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = (AllocationId, &ResourceRecord)> + Clone {
        self.records.iter().map(|(&resource, record)| (resource, record))
    }

    /// An allocation is gone. Returns the resource, if that was the last.
    pub fn forget(&mut self, allocation: AllocationId) -> Option<ResourceRecord> {
        let resource = self.owners.remove(&allocation).unwrap_or(allocation);
        let record = self.get_mut(resource)?;
        record.left -= 1;
        if record.left > 0 { None } else { self.records.remove(&resource) }
    }

    /// All allocations of resources, in order.
    pub fn allocations(&self, resources: &[AllocationId]) -> Vec<AllocationId> {
        let known = resources.iter().filter_map(|&resource| self.get(resource));
        known.flat_map(|record| &record.allocations).copied().collect()
    }

    /// All ranges of all: the allocation of each, the record, and the number there.
    pub fn all_ranges(&self) -> impl Iterator<Item = (AllocationId, &ResourceRecord, usize)> {
        self.records.values().flat_map(|record| {
            let numbered = record.allocations.iter().enumerate();
            numbered.map(move |(number, &allocation)| (allocation, record, number))
        })
    }

    /// All ranges of resources.
    pub fn whole(&self, resources: &[AllocationId]) -> Vec<NamedRanges> {
        let all = |&resource| Some(NamedRanges { resource, ranges: 0..self.get(resource)?.allocations.len() as u32 });
        resources.iter().filter_map(all).collect()
    }

    /// The allocations of named ranges, in order.
    pub fn of_ranges(&self, named: &[NamedRanges]) -> Vec<AllocationId> {
        let known = named.iter().filter_map(|named| Some((self.get(named.resource)?, &named.ranges)));
        known
            .flat_map(|(record, named)| &record.allocations[named.start as usize..named.end as usize])
            .copied()
            .collect()
    }

    /// The ranges of a device that are on the application's own list and known to frames, each with its bytes.
    pub fn listed_and_managed(&self, device: DeviceId) -> Vec<(Managed, u64)> {
        let listed = self.records.values().filter(|record| record.device == device && record.listed > 0);
        listed
            .flat_map(|record| record.managed.iter().copied().zip((0..).map(|number| record.range_size(number))))
            .collect()
    }
}
