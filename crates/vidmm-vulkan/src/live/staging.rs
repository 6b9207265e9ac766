//! Memory for bytes on their way between the host and buffers.

use std::sync::Arc;

use crate::block::{Block, Purpose};
use crate::device::VulkanDevice;
use crate::error::VulkanError;

/// The smallest block, in bytes.
const SMALLEST: u64 = 64 << 10;

/// Blocks that nothing uses at the moment. They are kept for the life of the adapter: as many as were ever used at once.
pub(super) struct Staging {
    device: Arc<VulkanDevice>,
    free: Vec<Block>,
}

impl Staging {
    pub fn new(device: Arc<VulkanDevice>) -> Self {
        Self { device, free: Vec::new() }
    }

    /// A block of at least `bytes` bytes: the smallest that is free, or a new one.
    pub fn take(&mut self, bytes: u64) -> Result<Block, VulkanError> {
        let large = self.free.iter().enumerate().filter(|(_, block)| block.bytes() >= bytes);
        match large.min_by_key(|(_, block)| block.bytes()).map(|(index, _)| index) {
            Some(index) => Ok(self.free.swap_remove(index)),
            None => Block::new(&self.device, Purpose::Staging, bytes.next_power_of_two().max(SMALLEST)),
        }
    }

    /// Takes back a block that nothing uses any more.
    pub fn give(&mut self, block: Block) {
        self.free.push(block);
    }
}
