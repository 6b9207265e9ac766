//! Blocks of local memory are vacated and given back to the device. With each frame some allocations of the emptiest block leave. The next
//! use brings an allocation back, to a hole in a different block.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use vidmm::{AllocationId, AllocationResidencyStatus, PAGE_SIZE};
use vidmm_soft::LOCAL_SEGMENT;

use super::super::error::Error;
use super::super::objects::AllocationRecord;
use super::Worker;
use crate::segment::PAGES_PER_BLOCK;

const BLOCK: u64 = PAGES_PER_BLOCK * PAGE_SIZE;

/// The most bytes for one frame, and the longest time of the worker.
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
    allocations: Vec<AllocationId>,
    /// A list of the application's own has an allocation in the block, or an allocation is offered.
    is_held: bool,
}

impl Worker {
    /// Vacates a part of a block, if more than one block is allocated above the limit, and further blocks have the room.
    pub(super) fn vacate(&mut self) -> Result<(), Error> {
        let started = Instant::now();
        let allocated = self.local_memory().allocated;
        let rests = self.vacating.rests_until.is_some_and(|until| started < until);
        if rests || self.limit.told().is_none_or(|limit| allocated <= limit + BLOCK) {
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
        let emptiest = blocks.into_values().filter(|block| !block.is_held).min_by_key(|block| block.bytes);
        let (started, mut left) = (Instant::now(), BYTES_MOST);
        for allocation in emptiest.map_or_else(Vec::new, |block| block.allocations) {
            let bytes = self.objects.allocations.get(&allocation).map_or(0, |record| record.bytes);
            if bytes > left || started.elapsed() >= TIME_MOST {
                break;
            }
            self.release(allocation, 0)?;
            left -= bytes;
        }
        self.vacating.vacated += BYTES_MOST - left;
        // The core decides the evictions before the next frame asks for the allocations.
        if left < BYTES_MOST { self.pump() } else { Ok(()) }
    }

    /// The blocks of local memory with allocations that stay.
    fn occupied_blocks(&self) -> BTreeMap<u64, Occupied> {
        let mut memory = self.paging.memory().borrow_mut();
        let mut blocks: BTreeMap<u64, Occupied> = BTreeMap::new();
        for (&allocation, record) in &self.objects.allocations {
            let residency = self.vidmm.query_allocation_residency(allocation);
            if residency != Ok(AllocationResidencyStatus::ResidentInGpuMemory) {
                continue;
            }
            let &AllocationRecord { process, first, bytes, listed, is_offered, .. } = record;
            for part in memory.space(process).parts(first..first + bytes / PAGE_SIZE) {
                let Some(target) = part.target.filter(|target| target.segment == LOCAL_SEGMENT) else { continue };
                let block = blocks.entry(target.page / PAGES_PER_BLOCK).or_default();
                block.bytes += (part.pages.end - part.pages.start) * PAGE_SIZE;
                block.is_held |= listed > 0 || is_offered;
                if block.allocations.last() != Some(&allocation) {
                    block.allocations.push(allocation);
                }
            }
        }
        blocks
    }
}
