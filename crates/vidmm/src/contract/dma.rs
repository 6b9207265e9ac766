//! DMA buffers: bytes that an engine executes (D1).

use alloc::{boxed::Box, vec::Vec};

/// A value of an engine's own fence: the engine's n-th submission has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EngineFence {
    /// The engine's ordinal.
    pub engine: u32,
    /// The submission fence id; rises by 1 with each submission to the engine (SYN-13).
    #[doc(alias = "SubmissionFenceId")]
    pub fence_id: u64,
}

/// A packet for an engine: run the packet once all waits are over, and signal.
///
/// Waits are only on fences of earlier packets, so a GPU needs no host between two dependent packets (D7). An engine runs
/// packets in the order of submission.
#[derive(Debug)]
pub struct Packet {
    /// The fences to wait for.
    pub waits: Vec<EngineFence>,
    /// The engine, and the fence signalled by the end of the packet.
    pub signal: EngineFence,
    /// The driver's commands before the buffer: page tables of the context.
    pub preamble: Vec<u8>,
    /// The commands.
    pub buffer: DmaBuffer,
}

/// A DMA buffer on the way to an engine and back. Moved, never shared.
#[derive(Debug)]
pub enum DmaBuffer {
    /// Encoded by the driver; returns to the core's pool with the completion.
    Paging(PagingBuffer),
    /// Encoded by the user-mode driver.
    User(Vec<u8>),
    /// Translated by the kernel-mode driver (PAT-10).
    Rendered(Box<RenderedBuffer>),
}

/// A portion of a translated DMA buffer, or the whole buffer. Behind a pointer, as paging buffers are.
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

    /// The driver's private data beside the commands.
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

// Behind a pointer, so that packets are small: most packets are users' work, and all packets are moved.
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

    /// The private data beside the commands.
    pub fn private_data(&self) -> &[u8] {
        &self.0.private[..self.0.private_used]
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.0.dma_used == 0
    }

    /// Whether the buffer was made with the given sizes.
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

    /// Adds the bytes of the driver's answer; `None` when the answer exceeds the room (I21).
    pub(crate) fn advance(&mut self, dma: usize, private: usize) -> Option<()> {
        let contents = &mut *self.0;
        let dma_used = contents.dma_used.checked_add(dma).filter(|&end| end <= contents.dma.len())?;
        let private_used = contents.private_used.checked_add(private).filter(|&end| end <= contents.private.len())?;
        (contents.dma_used, contents.private_used) = (dma_used, private_used);
        Some(())
    }

    /// Empties the buffer for the next use; the private data keeps the bytes (SEG-35).
    pub(crate) fn reset(&mut self) {
        (self.0.dma_used, self.0.private_used) = (0, 0);
    }
}
