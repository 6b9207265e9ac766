//! Kernels: user work whose result can be judged.
//!
//! A kernel reads every page of its inputs and writes every page of its outputs through its process's address space. What it
//! writes is a function of all that it read and of the kernel, so one wrong page spreads to everything computed from it.
//! The function is fixed here, in words, for everyone who executes or predicts it:
//!
//! - All arithmetic is on 64-bit words, modulo 2^64. `mix(a, b)`: `x = (a ^ rotate_left(b, 32)) * 0x9E3779B97F4A7C15`;
//!   `x ^= x >> 29; x *= 0xBF58476D1CE4E5B9; x ^= x >> 32`; the result is `x + b`.
//! - The *digest* of a page of words `w[0..512]` (little-endian) is the sum of `w[i] * M^(511 - i)` with
//!   `M = 0xD6E8FEB86659FD93`: Horner's rule, so it has a closed form for a page whose words are equal or rise evenly.
//! - The *state* of a kernel begins as `mix(0x76_69_64_6D_6D, kernel)`; then for each input in order, for each page in order,
//!   `state = mix(state, digest(page))`.
//! - Page `p` of output `j` gets the *seed* `s = mix(mix(state, j + 1), p)`. With uniform content all its words are `s`; with
//!   ramp content word `i` is `s + i * 0x9E3779B97F4A7C15`.

use vidmm::GpuVirtualAddress;
use vidmm::contract::{Direction, SegmentBankPreference};

use crate::patching::{CommandStep, UserCommands};

/// What fills the pages that a kernel writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Content {
    /// All words of a page are equal. Large runs need it: such a page costs the model GPU a few bytes.
    #[default]
    Uniform,
    /// All words of a page differ, so that a page shifted or mixed inside is found too.
    Ramp,
}

/// A range of a kernel's address space, in whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRange {
    /// The first page's address.
    pub virtual_address: GpuVirtualAddress,
    /// Pages of 4 KiB.
    pub num_pages: u64,
    /// The compression surface that the pages belong to: what is written is stored compressed, what is read is decompressed
    /// first if it is compressed. None reads and writes memory as it is.
    pub surface: Option<Surface>,
}

impl PageRange {
    /// `num_pages` pages from `virtual_address` on, without compression.
    pub fn plain(virtual_address: GpuVirtualAddress, num_pages: u64) -> Self {
        Self { virtual_address, num_pages, surface: None }
    }
}

/// Where a range begins in a compression surface.
///
/// A surface is the GPU's record of which pages of an allocation hold compressed bytes; page n of the surface is page n of
/// the allocation, wherever that is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Surface {
    /// Which surface. The user-mode driver chooses it when it creates the allocation.
    pub number: u32,
    /// The surface's page that the first page of the range is.
    pub first_page: u64,
}

/// What a client asks of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationDesc {
    /// Bytes.
    pub size: u64,
    /// Where it may be resident.
    pub segments: AllocationSegments,
    /// Engines address it physically: in system memory it is mapped in the aperture (SEG-13).
    pub accessed_physically: bool,
    /// Its compression surface, if it has one.
    pub surface: Option<u32>,
    /// The driver wants to know before it is evicted (NTF-02).
    pub notify_eviction: bool,
    /// The driver wants to know before it is unmapped from the IOMMU (NTF-04).
    pub notify_io_mmu_unmap: bool,
    /// Its priority: larger stays longer (CRE-30). 0 leaves it to the driver.
    pub priority: u32,
    /// What the CPU may do with it.
    pub cpu: CpuAccess,
    /// Where in a segment it had better be.
    pub placement: Placement,
}

impl AllocationDesc {
    /// `size` bytes in local memory, without compression and notifications.
    pub fn local(size: u64) -> Self {
        Self {
            size,
            segments: AllocationSegments::Local,
            accessed_physically: false,
            surface: None,
            notify_eviction: false,
            notify_io_mmu_unmap: false,
            priority: 0,
            cpu: CpuAccess::None,
            placement: Placement::default(),
        }
    }
}

/// Where in a segment an allocation had better be, and how it leaves it: looked at without GPU virtual addresses only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// Its alignment in bytes, a power of two; 0 leaves it to the driver.
    pub alignment: u32,
    /// Room is looked for from the end of a segment (SEG-44).
    pub from_end_of_segment: bool,
    /// From which end of each of its segments room is looked for, in the order in which it prefers them (SEG-42).
    pub directions: [Direction; 5],
    /// The banks of its first segment where it had better be (SEG-43).
    pub hinted_bank: SegmentBankPreference,
    /// Its content leaves local memory through the aperture (SEG-45).
    pub evict_through_aperture: bool,
}

/// What the CPU may do with an allocation (2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CpuAccess {
    /// Nothing.
    #[default]
    None,
    /// It may lock it: CPU_VISIBLE.
    Visible,
    /// It may lock the copy in system memory, which is kept while the allocation is in local memory: PERMANENT_SYS_MEM.
    PermanentSysMem,
    /// As before, and the copy is the caller's own memory: EXISTING_SYS_MEM.
    ExistingSysMem,
}

/// Where an allocation may be resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AllocationSegments {
    /// In local memory.
    #[default]
    Local,
    /// In system memory: the driver names the aperture segment (SEG-11).
    System,
    /// In local memory by preference, else in system memory.
    LocalOrSystem,
}

/// A kernel to be encoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelCommand {
    /// Its number; part of what it computes.
    pub kernel: u64,
    /// How long it runs, in nanoseconds.
    pub nanoseconds: u64,
    /// What fills its outputs.
    pub content: Content,
    /// What it reads, in order.
    pub inputs: Vec<PageRange>,
    /// What it writes, in order.
    pub outputs: Vec<PageRange>,
}

/// The user-mode half of a driver: it encodes user work, and the private data of allocations.
pub trait Umd {
    /// Encodes a kernel into a DMA buffer.
    fn encode_kernel(&self, kernel: &KernelCommand) -> Vec<u8>;

    /// Encodes a command buffer for an adapter without GPU virtual addresses, with the patch locations that it needs (PAT-10).
    ///
    /// # Panics
    ///
    /// If a kernel names a slot that nothing is bound to, or an offset in an allocation beyond 4 GiB: a patch location has no
    /// room for it.
    fn encode_command_buffer(&self, steps: &[CommandStep]) -> UserCommands;

    /// The private data from which the kernel-mode half creates an allocation as `desc` asks.
    fn allocation_private_data(&self, desc: &AllocationDesc) -> Vec<u8>;
}
