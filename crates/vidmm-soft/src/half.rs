//! The part that a command has written when it is stopped half-way: the first half of its pages or entries.

use vidmm::PAGE_SIZE;
use vidmm_runtime::{KernelCommand, PageRange};

use crate::device::Begun;
use crate::encoding::{Command, Decompress, Fill, MapAperture, Transfer, UnmapAperture, WritePtes};

impl<H> Begun<H> {
    /// The command that would write the first half, rounded down. A command that writes no memory is as before.
    pub fn first_half(self) -> Self {
        match self {
            Self::Transfer(transfer, bytes, from_system) => {
                Self::Transfer(Transfer { bytes: half(transfer.bytes), ..transfer }, bytes, from_system)
            }
            Self::Kernel(kernel, state, in_system) => {
                let outputs = first_half(&kernel.outputs);
                Self::Kernel(KernelCommand { outputs, ..kernel }, state, in_system)
            }
            Self::Decompress(decompress, mut marked) => {
                let bytes = half(decompress.bytes);
                marked.retain(|(part, _)| part.start < bytes / PAGE_SIZE);
                marked.iter_mut().for_each(|(part, _)| part.end = part.end.min(bytes / PAGE_SIZE));
                Self::Decompress(Decompress { bytes, ..decompress }, marked)
            }
            Self::Other(command) => Self::Other(match command {
                Command::Fill(fill) => Command::Fill(Fill { bytes: half(fill.bytes), ..fill }),
                Command::WritePtes(ptes) => Command::WritePtes(WritePtes { count: ptes.count / 2, ..ptes }),
                Command::MapAperture(map) => Command::MapAperture(MapAperture { num_pages: map.num_pages / 2, ..map }),
                Command::UnmapAperture(unmap) => {
                    Command::UnmapAperture(UnmapAperture { num_pages: unmap.num_pages / 2, ..unmap })
                }
                other => other,
            }),
        }
    }
}

/// Half of some pages, in bytes. A size that is no multiple of a page stays so, and is refused like the whole.
fn half(bytes: u64) -> u64 {
    bytes / PAGE_SIZE / 2 * PAGE_SIZE + bytes % PAGE_SIZE
}

/// The first half of the pages of `outputs`.
fn first_half(outputs: &[PageRange]) -> Vec<PageRange> {
    let total = outputs.iter().fold(0, |sum: u64, output| sum.saturating_add(output.num_pages));
    let mut left = total / 2;
    let cut = |output: &PageRange| {
        let num_pages = output.num_pages.min(left);
        left -= num_pages;
        PageRange { num_pages, ..*output }
    };
    outputs.iter().map(cut).collect()
}
