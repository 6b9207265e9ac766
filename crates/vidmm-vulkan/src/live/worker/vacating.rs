//! Blocks of local memory are vacated and given back to the device. With each use some allocations of the emptiest block leave, and come
//! back to holes in different blocks: allocations of frames with their next use, allocations on a list of the application's own at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use vidmm::{AllocationId, AllocationResidencyStatus, DeviceId, EvictFlags, MakeResidentFlags, PAGE_SIZE};
use vidmm_client::Managed;

use super::super::driver::LOCAL_SEGMENT;
use super::super::error::Error;
use super::super::resources::ResourceRecord;
use super::Worker;
use crate::segment::PAGES_PER_BLOCK;

const BLOCK: u64 = PAGES_PER_BLOCK * PAGE_SIZE;

/// The most bytes for one use, and the longest time of the worker.
const BYTES_MOST: u64 = 16 << 20;
const TIME_MOST: Duration = Duration::from_millis(1);

/// The time between two looks at all blocks, in times of a look.
const REST: u32 = 16;

/// The progress towards a limit.
#[derive(Default)]
pub(super) struct Vacating {
    /// The least allocated bytes under this limit.
    allocated: Option<u64>,
    /// The bytes that have left since.
    vacated: u64,
    /// The earliest time of the next look: with many allocations a look takes time.
    rests_until: Option<Instant>,
}

/// A block with allocations that stay.
#[derive(Default)]
struct Occupied {
    bytes: u64,
    allocations: Vec<Movable>,
    /// An allocation is offered, and leaves when memory is wanted.
    has_offers: bool,
}

/// An allocation in a block.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Movable {
    allocation: AllocationId,
    /// The name for frames.
    managed: Option<Managed>,
    device: DeviceId,
    bytes: u64,
    /// How often the application's own list has it.
    listed: u64,
}

impl Worker {
    /// Vacates a part of a block, if more than one block is allocated above the limit, and further blocks have the room.
    pub(super) fn vacate(&mut self) -> Result<(), Error> {
        let allocated = self.local_memory().allocated;
        if self.limit.told().is_none_or(|limit| allocated <= limit + BLOCK) {
            return Ok(());
        }
        let started = Instant::now();
        if self.vacating.rests_until.is_some_and(|until| started < until) {
            return Ok(());
        }
        let blocks = self.occupied_blocks();
        let used: u64 = blocks.values().map(|block| block.bytes).sum();
        let vacating = &mut self.vacating;
        vacating.rests_until = Some(started + REST * started.elapsed());
        if vacating.allocated.is_none_or(|least| allocated < least) {
            (vacating.allocated, vacating.vacated) = (Some(allocated), 0);
        }
        // All bytes have moved without a block given back: the holes are too small.
        if used + BLOCK > allocated || vacating.vacated > used {
            return Ok(());
        }
        let emptiest = blocks.into_values().filter(|block| !block.has_offers).min_by_key(|block| block.bytes);
        let (started, mut left, mut listed) = (Instant::now(), BYTES_MOST, Vec::new());
        for Movable { allocation, managed, device, bytes, listed: count } in
            emptiest.map_or_else(Vec::new, |block| block.allocations)
        {
            if bytes > left || started.elapsed() >= TIME_MOST {
                break;
            }
            let counts = vec![allocation; count as usize];
            if !counts.is_empty() {
                let evicted = self.vidmm.evict(device, &counts, EvictFlags::empty());
                evicted.map_err(|error| Error::Lost(error.to_string()))?;
                listed.push((device, counts));
            } else {
                self.let_go(device, allocation, managed, 0)?;
            }
            left -= bytes;
        }
        self.vacating.vacated += BYTES_MOST - left;
        // The core decides the evictions before the next frame asks for the allocations.
        if left < BYTES_MOST {
            self.pump()?;
        }
        // Uses begun later wait for the way back, as for each MakeResident.
        for (device, counts) in listed {
            let Some(queue) = self.objects.devices.get(&device).map(|record| record.queue) else { continue };
            // The list fitted before, and is no longer.
            let back = self.vidmm.make_resident(queue, &counts, MakeResidentFlags::CANT_TRIM_FURTHER);
            back.map(drop).map_err(|error| Error::Lost(error.to_string()))?;
        }
        Ok(())
    }

    /// The blocks of local memory with allocations that stay.
    fn occupied_blocks(&self) -> BTreeMap<u64, Occupied> {
        let mut memory = self.paging.memory().borrow_mut();
        let mut blocks: BTreeMap<u64, Occupied> = BTreeMap::new();
        for (allocation, record, number) in self.objects.resources.all_ranges() {
            let residency = self.vidmm.query_allocation_residency(allocation);
            if residency != Ok(AllocationResidencyStatus::ResidentInGpuMemory) {
                continue;
            }
            let &ResourceRecord { device, process, listed, is_offered, .. } = record;
            let (managed, bytes) = (record.managed.get(number).copied(), record.range_size(number));
            let movable = Movable { allocation, managed, device, bytes, listed };
            for part in memory.space(process).parts(record.pages(number)) {
                let Some(target) = part.target.filter(|target| target.segment == LOCAL_SEGMENT) else { continue };
                let block = blocks.entry(target.page / PAGES_PER_BLOCK).or_default();
                block.bytes += (part.pages.end - part.pages.start) * PAGE_SIZE;
                block.has_offers |= is_offered;
                if block.allocations.last() != Some(&movable) {
                    block.allocations.push(movable);
                }
            }
        }
        blocks
    }
}
