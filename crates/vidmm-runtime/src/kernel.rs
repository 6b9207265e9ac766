//! Kernels: user work whose result can be judged.
//!
//! A kernel reads every page of its inputs and writes every page of its outputs through its process's address space.
//! Its output is a function of all pages that it read and of the kernel, so one wrong page spreads to every page
//! computed from it. These words fix the function for all that execute or predict it:
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

/// Content that fills the pages that a kernel writes.
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
    /// The compression surface that the pages belong to: writes are stored compressed, and compressed pages are
    /// decompressed for reads. None reads and writes memory as it is.
    pub surface: Option<Surface>,
}

impl PageRange {
    /// `num_pages` pages from `virtual_address` on, without compression.
    pub fn plain(virtual_address: GpuVirtualAddress, num_pages: u64) -> Self {
        Self { virtual_address, num_pages, surface: None }
    }
}

/// The start of a range in a compression surface.
///
/// A surface is the GPU's record of which pages of an allocation hold compressed bytes; page n of the surface is page n of
/// the allocation, wherever that is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Surface {
    /// The surface's number. The user-mode driver chooses it when it creates the allocation.
    pub number: u32,
    /// The surface's page that the first page of the range is.
    pub first_page: u64,
}

/// A kernel to be encoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelCommand {
    /// Its number; its outputs depend on it.
    pub kernel: u64,
    /// Its duration in nanoseconds.
    pub nanoseconds: u64,
    /// Content that fills its outputs.
    pub content: Content,
    /// The ranges that it reads, in order.
    pub inputs: Vec<PageRange>,
    /// The ranges that it writes, in order.
    pub outputs: Vec<PageRange>,
}
