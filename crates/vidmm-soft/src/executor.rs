//! Where the bytes are that commands move: the one part of the model GPU that another GPU can take over (D26).
//!
//! The model GPU decides what a command means, which memory its addresses lead to and how long it takes. An [`Executor`]
//! moves the bytes. So every GPU that executes the commands of the reference driver in virtual time does the same at the
//! same times, and only its memory is another (D15).

use std::fmt::Debug;
use std::ops::Range;

use vidmm::contract::{KmdProcessHandle, RootPageTable};
use vidmm::{GpuVirtualAddress, PhysicalAddress, SegmentId};
use vidmm_runtime::{Content, PageRange};

use crate::digest::KernelState;
use crate::physical::{Memories, PhysicalRun};
use crate::translation::Translation;

/// The bytes of a GPU's memories.
///
/// Every range that it is given was translated and is inside of its memory. A page that is
/// [nowhere](crate::Place::Zero) reads as zero, and writes to it are dropped.
pub trait Executor: Debug {
    /// The bytes that a command has read and is to write when it ends.
    type Bytes: Debug;

    /// The memories that page tables are walked in, whose sizes bound every access.
    fn memories(&self) -> &Memories;

    /// The memories that page tables are walked in, to be written.
    fn memories_mut(&mut self) -> &mut Memories;

    /// Takes note that mappings have changed. A GPU that binds memory itself does that in [`bind`](Self::bind).
    fn note(&mut self, change: MappingChange) {
        let _ = change;
    }

    /// Kernels are about to access addresses: mappings that have changed are to hold now.
    fn bind(&mut self, translation: &Translation) {
        let _ = translation;
    }

    /// The first half of a transfer or of a decompression: the content of `runs`.
    fn read(&mut self, runs: &[PhysicalRun]) -> Self::Bytes;

    /// The second half of a transfer: writes `bytes` to `runs`, which are as long or shorter.
    fn write(&mut self, bytes: &Self::Bytes, runs: &[PhysicalRun]);

    /// Fills `runs` with `pattern`, little-endian, repeated (U-12).
    fn fill(&mut self, runs: &[PhysicalRun], pattern: u32);

    /// Inverts bit `bit`, below 32768, of the page at `address`.
    fn flip_bit(&mut self, address: PhysicalAddress, bit: u32);

    /// A kernel reads `view`: the digest of each of its pages. Those in `marked`, counted from the first, are in order
    /// and compressed; they are decompressed on the way.
    fn digests(&mut self, view: &View<'_>, marked: &[Range<u64>]) -> Vec<u64>;

    /// A kernel in `state` writes `view`, its output number `output`, with `content`; compressed where it has a surface.
    fn write_output(&mut self, view: &View<'_>, content: Content, state: KernelState, output: u64);

    /// The second half of a decompression: makes the pages of `view`, all of them compressed, plain. `bytes` are
    /// those that were read of them, or begin with them.
    fn write_plain(&mut self, bytes: &Self::Bytes, view: &View<'_>);

    /// Commands of the user's own, which `token` names, change `runs`: the bytes of an allocation from `offset` on.
    fn run_foreign(&mut self, token: u32, runs: &[PhysicalRun], offset: u64) {
        let _ = (token, runs, offset);
    }

    /// The digest of the page at `address`, whose words are first combined with `key` by exclusive or; through the
    /// aperture if it is there. `None` if there is no such page.
    fn page_digest(&self, address: PhysicalAddress, key: u64) -> Option<u64>;

    /// The CPU writes the page at `address` with `content`; `false` if it reaches no page there.
    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool;

    /// Memory segments and apertures lose what they hold; system memory keeps it.
    fn lose_power(&mut self);
}

/// A range of a process's addresses, and the memory that it leads to.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The process; none on an adapter without GPU virtual addresses.
    pub process: Option<KmdProcessHandle>,
    /// The range.
    pub range: &'a PageRange,
    /// Where its pages are.
    pub runs: &'a [PhysicalRun],
}

/// Mappings that may lead elsewhere from now on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MappingChange {
    /// Entries of page tables were written.
    Entries {
        /// The process whose they are.
        process: KmdProcessHandle,
        /// The addresses that they map.
        addresses: Range<GpuVirtualAddress>,
    },
    /// An engine enters the address space of a process.
    Entered {
        /// The process.
        process: KmdProcessHandle,
        /// Its root table, with the entries that it has by now.
        root: RootPageTable,
    },
    /// Pages of an aperture show other memory.
    Aperture {
        /// The segment.
        segment: SegmentId,
        /// Its pages, from its start.
        pages: Range<u64>,
    },
}
