//! A segment's memory: blocks, each made when something of it is first written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vidmm::PAGE_SIZE;

use crate::block::{Block, Purpose};
use crate::device::VulkanDevice;
use crate::error::VulkanError;
use crate::recorder::{Place, Recorder};

/// Pages of a block: 16 MiB. Every allocation of memory costs the driver; most segments of tests are smaller.
pub(crate) const PAGES_PER_BLOCK: u64 = 4096;

/// The memory of a segment.
pub(crate) struct Segment {
    purpose: Purpose,
    blocks: BTreeMap<u64, Block>,
    /// The pattern that memory holds that nobody has written.
    fresh: u32,
}

/// Pages of one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// The first page in the segment.
    pub(crate) page: u64,
    /// How many.
    pub(crate) pages: u64,
}

impl Segment {
    /// A segment that reads as zero.
    pub(crate) fn new(purpose: Purpose) -> Self {
        Self { purpose, blocks: BTreeMap::new(), fresh: 0 }
    }

    /// The bytes of its blocks.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.blocks.len() as u64 * PAGES_PER_BLOCK * PAGE_SIZE
    }

    /// Where `page` is; none if nothing of its block was ever written.
    pub(crate) fn find(&self, page: u64) -> Option<Place<'_>> {
        let block = self.blocks.get(&(page / PAGES_PER_BLOCK))?;
        Some(Place { block, offset: page % PAGES_PER_BLOCK * PAGE_SIZE })
    }

    /// The pattern in memory that nobody has written.
    pub(crate) fn fresh(&self) -> u32 {
        self.fresh
    }

    /// Whether the block of `page` is still to be made.
    pub(crate) fn is_fresh(&self, page: u64) -> bool {
        !self.blocks.contains_key(&(page / PAGES_PER_BLOCK))
    }

    /// Makes the block of `page`, filled as the segment says.
    pub(crate) fn make(
        &mut self,
        device: &Arc<VulkanDevice>,
        recorder: &mut Recorder,
        page: u64,
    ) -> Result<(), VulkanError> {
        let block = Block::new(device, self.purpose, PAGES_PER_BLOCK * PAGE_SIZE)?;
        recorder.fill(Place { block: &block, offset: 0 }, block.bytes(), self.fresh)?;
        self.blocks.insert(page / PAGES_PER_BLOCK, block);
        Ok(())
    }

    /// Takes the blocks that are not among those that are in use.
    pub(crate) fn take_unused(&mut self, in_use: &BTreeSet<u64>) -> Vec<Block> {
        let unused: Vec<u64> = self.blocks.keys().copied().filter(|block| !in_use.contains(block)).collect();
        unused.iter().filter_map(|block| self.blocks.remove(block)).collect()
    }

    /// All of it holds `pattern` from now on.
    #[cfg(feature = "lockstep")]
    pub(crate) fn spoil(&mut self, recorder: &mut Recorder, pattern: u32) -> Result<(), VulkanError> {
        self.fresh = pattern;
        for block in self.blocks.values() {
            recorder.fill(Place { block, offset: 0 }, block.bytes(), pattern)?;
        }
        Ok(())
    }
}

/// Cuts pages at the borders of blocks.
pub(crate) fn pieces(first: u64, pages: u64) -> impl Iterator<Item = Piece> {
    let (mut page, end) = (first, first + pages);
    std::iter::from_fn(move || {
        let pages = (end - page).min(PAGES_PER_BLOCK - page % PAGES_PER_BLOCK);
        let piece = Piece { page, pages };
        page += pages;
        (pages > 0).then_some(piece)
    })
}
