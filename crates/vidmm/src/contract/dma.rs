//! DMA buffers: bytes that an engine executes (D1).

use alloc::{boxed::Box, vec::Vec};

/// A value of an engine's own fence: its n-th submission has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EngineFence {
    /// The engine's ordinal.
    pub engine: u32,
    /// The submission fence id, which rises by one with each submission to the engine (SYN-13).
    #[doc(alias = "SubmissionFenceId")]
    pub fence_id: u64,
}

/// A packet for an engine: run it once all waits are over, then signal.
///
/// Waits are only on fences that were handed out before, so a GPU needs no host between two packets that depend on each
/// other (D7). An engine runs its packets in the order in which they were handed to it.
#[derive(Debug)]
pub struct Packet {
    /// The fences that must have been reached before.
    pub waits: Vec<EngineFence>,
    /// The engine that runs it, and the fence that its end signals.
    pub signal: EngineFence,
    /// The driver's commands before the buffer: page tables of the context.
    pub preamble: Vec<u8>,
    /// The commands.
    pub buffer: DmaBuffer,
}

/// A DMA buffer on its way to an engine and back. It is moved, never shared.
#[derive(Debug)]
pub enum DmaBuffer {
    /// The driver encoded it; it returns to the core's pool with its completion.
    Paging(PagingBuffer),
    /// The user-mode driver encoded it.
    User(Vec<u8>),
    /// The kernel-mode driver translated it (PAT-10).
    Rendered(Box<RenderedBuffer>),
}

/// A portion of a DMA buffer that a driver translated, or the whole. Behind a pointer, as paging buffers are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RenderedBuffer {
    /// The commands.
    pub commands: Vec<u8>,
    /// The private data of the whole DMA buffer (PAT-02).
    #[doc(alias = "pDmaBufferPrivateData")]
    pub private_data: Vec<u8>,
}

impl DmaBuffer {
    /// The commands in the buffer.
    pub fn commands(&self) -> &[u8] {
        match self {
            DmaBuffer::Paging(buffer) => buffer.commands(),
            DmaBuffer::User(commands) => commands,
            DmaBuffer::Rendered(buffer) => &buffer.commands,
        }
    }

    /// The private data that the driver keeps with them.
    #[doc(alias = "pDmaBufferPrivateData")]
    pub fn private_data(&self) -> &[u8] {
        match self {
            DmaBuffer::Paging(buffer) => buffer.private_data(),
            DmaBuffer::User(_) => &[],
            DmaBuffer::Rendered(buffer) => &buffer.private_data,
        }
    }
}

/// A paging buffer: memory of a fixed size in which a driver encodes paging operations (SEG-35).
#[derive(Debug)]
pub struct PagingBuffer(Box<Contents>);

// Behind a pointer, so that packets are small: most are of users, and all are moved.
#[derive(Debug)]
struct Contents {
    dma: Vec<u8>,
    dma_used: usize,
    private: Vec<u8>,
    private_used: usize,
}

impl PagingBuffer {
    /// A buffer of `size` bytes with `private_data_size` bytes of private data, zeroed once (SEG-35).
    pub fn new(size: usize, private_data_size: usize) -> Self {
        let (dma, private) = (alloc::vec![0; size], alloc::vec![0; private_data_size]);
        Self(Box::new(Contents { dma, dma_used: 0, private, private_used: 0 }))
    }

    /// The commands that the driver wrote.
    pub fn commands(&self) -> &[u8] {
        &self.0.dma[..self.0.dma_used]
    }

    /// The private data that goes with them.
    pub fn private_data(&self) -> &[u8] {
        &self.0.private[..self.0.private_used]
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.0.dma_used == 0
    }

    /// Whether it was made with these sizes.
    pub(crate) fn has_sizes(&self, size: usize, private_data_size: usize) -> bool {
        self.0.dma.len() == size && self.0.private.len() == private_data_size
    }

    /// Bytes written so far.
    pub(crate) fn write_offset(&self) -> usize {
        self.0.dma_used
    }

    /// The free parts of the buffer for the driver: commands and private data.
    pub(crate) fn remaining(&mut self) -> (&mut [u8], &mut [u8]) {
        let Contents { dma, dma_used, private, private_used } = &mut *self.0;
        (&mut dma[*dma_used..], &mut private[*private_used..])
    }

    /// Adds the bytes that the driver says it wrote; `None` when it claims more than there was room for (I21).
    pub(crate) fn advance(&mut self, dma: usize, private: usize) -> Option<()> {
        let contents = &mut *self.0;
        let dma_used = contents.dma_used.checked_add(dma).filter(|&end| end <= contents.dma.len())?;
        let private_used = contents.private_used.checked_add(private).filter(|&end| end <= contents.private.len())?;
        (contents.dma_used, contents.private_used) = (dma_used, private_used);
        Some(())
    }

    /// Empties the buffer for its next use; the private data keeps its bytes (SEG-35).
    pub(crate) fn reset(&mut self) {
        (self.0.dma_used, self.0.private_used) = (0, 0);
    }
}
