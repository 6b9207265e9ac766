//! What a process of a workload is: what its buffers are asked for, and how it behaves.

use serde::Deserialize;
use vidmm::{GpuVirtualAddress, Nanoseconds, PriorityBand, Visibility};
use vidmm_runtime::{AllocationDesc, AllocationSegments, PageRange, Surface};

use super::kind::ClientKind;

/// How a process behaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientDesc {
    /// What reports call it.
    pub name: String,
    /// When it begins, in nanoseconds: before, it has no allocation.
    pub start: Nanoseconds,
    /// Kernels that may be submitted and not ended, beyond the one that runs.
    pub ahead: usize,
    /// What each buffer's allocation is asked for.
    pub buffers: BufferDesc,
    /// What it does about its residency list.
    pub residency: ResidencyPolicy,
    /// What it does with a buffer behind its last use.
    pub lifetimes: Lifetimes,
    /// How important it is to the user.
    pub band: PriorityBand,
    /// What the user sees of it.
    pub visibility: Visibility,
    /// It is paced by what it shows: what cannot be submitted in time delays all that follows, and while it is minimised
    /// nothing arrives.
    pub paced: bool,
    /// When its device is in error through no fault of its own, it creates another, loads again what it needs, and goes on.
    pub recovers: bool,
    /// What it does wrong, again and again; it goes on after it, as one that recovers.
    pub misbehaviour: Option<Misbehaviour>,
}

/// What a process does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misbehaviour {
    /// What.
    pub misdeed: Misdeed,
    /// How long after the last time, in nanoseconds.
    pub every: Nanoseconds,
}

/// Something that no process may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misdeed {
    /// A kernel reads where nothing is mapped.
    PageFault,
    /// A kernel never ends.
    Hang,
}

impl Default for ClientDesc {
    /// Eight kernels ahead, on a list that has what the next of them needs.
    fn default() -> Self {
        Self {
            name: String::new(),
            start: 0,
            ahead: 8,
            buffers: BufferDesc::default(),
            residency: ResidencyPolicy::default(),
            lifetimes: Lifetimes::default(),
            band: PriorityBand::default(),
            visibility: Visibility::default(),
            paced: false,
            recovers: false,
            misbehaviour: None,
        }
    }
}

impl ClientDesc {
    /// The client whose habits it has, if that is one that exists.
    pub fn kind(&self) -> Option<ClientKind> {
        match self.residency {
            ResidencyPolicy::Modelled(kind) => Some(kind),
            ResidencyPolicy::EachKernel | ResidencyPolicy::Kept | ResidencyPolicy::EvictedAtOnce => None,
        }
    }

    /// Where its buffers may be, all together.
    pub(crate) fn segments(&self) -> AllocationSegments {
        match self.buffers.segments {
            AllocationSegments::Local if self.kind().is_some_and(ClientKind::has_two_groups) => {
                AllocationSegments::LocalOrSystem
            }
            segments => segments,
        }
    }

    /// Where the buffer of that number may be.
    pub(super) fn segments_of(&self, buffer: u32) -> AllocationSegments {
        match self.kind() {
            Some(kind) if kind.wants_system(buffer) => AllocationSegments::System,
            _ => self.buffers.segments,
        }
    }

    /// What the allocation of a buffer of `size` bytes is asked for.
    pub(super) fn allocation(&self, buffer: u32, size: u64) -> AllocationDesc {
        AllocationDesc { segments: self.segments_of(buffer), ..self.buffers.allocation(buffer, size) }
    }
}

/// What a process does about its residency list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResidencyPolicy {
    /// MakeResident before each kernel, Evict behind it: the manager chooses what stays, and evicts only if necessary.
    #[default]
    EachKernel,
    /// What was used stays on the list, until MakeResident is refused or a notification asks for it: then what was used least
    /// recently is evicted.
    Kept,
    /// MakeResident before each kernel, Evict behind it, and at once: what a driver did that knew nothing better.
    EvictedAtOnce,
    /// As a client that exists.
    #[serde(skip)]
    Modelled(ClientKind),
}

/// What a process does with a buffer behind its last use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifetimes {
    /// It destroys it.
    #[default]
    Destroy,
    /// It offers it, and reclaims it for the next buffer of its size.
    Offer,
    /// It keeps it to the end, as one who does not know which use is the last.
    Ignore,
}

/// What a client asks of each buffer's allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BufferDesc {
    /// Where it may be.
    pub segments: AllocationSegments,
    /// Whether it has a compression surface, through which kernels read and write it.
    pub compression: bool,
    /// Whether the driver wants to know before it is evicted (NTF-02).
    pub notify_eviction: bool,
    /// Whether the driver wants to know before it is unmapped from the IOMMU (NTF-04).
    pub notify_io_mmu_unmap: bool,
}

impl BufferDesc {
    /// The allocation of a buffer: its surface, if it has one, bears the buffer's number.
    fn allocation(&self, buffer: u32, size: u64) -> AllocationDesc {
        AllocationDesc {
            segments: self.segments,
            surface: self.compression.then_some(buffer),
            notify_eviction: self.notify_eviction,
            notify_io_mmu_unmap: self.notify_io_mmu_unmap,
            ..AllocationDesc::local(size)
        }
    }

    /// What kernels read and write of a buffer that is mapped at an address.
    pub(super) fn range(&self, buffer: u32, virtual_address: GpuVirtualAddress, num_pages: u64) -> PageRange {
        let surface = self.compression.then_some(Surface { number: buffer, first_page: 0 });
        PageRange { virtual_address, num_pages, surface }
    }
}
