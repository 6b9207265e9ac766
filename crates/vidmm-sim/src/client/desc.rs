//! A process of a workload: the properties of its buffers, and its behaviour.

use serde::Deserialize;
use vidmm::{GpuVirtualAddress, Nanoseconds, PriorityBand, Visibility};
use vidmm_runtime::{AllocationDesc, AllocationSegments, PageRange, Surface};

use super::kind::ClientKind;

/// The behaviour of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientDesc {
    /// The name in reports.
    pub name: String,
    /// The time at which it begins, in nanoseconds; it has no allocation before.
    pub start: Nanoseconds,
    /// The number of kernels that may be submitted and not ended, beyond the one that runs.
    pub ahead: usize,
    /// The number of kernels whose buffers it announces, behind the last submitted kernel.
    pub announces: usize,
    /// The properties of each buffer's allocation.
    pub buffers: BufferDesc,
    /// The treatment of its residency list.
    pub residency: ResidencyPolicy,
    /// The treatment of a buffer behind its last use.
    pub lifetimes: Lifetimes,
    /// Its priority band.
    pub band: PriorityBand,
    /// Its visibility to the user.
    pub visibility: Visibility,
    /// Whether it is paced by its display: a frame that cannot be submitted in time delays all that follow, and while
    /// the process is minimised no frame arrives.
    pub paced: bool,
    /// Whether it creates another device when its own is in error through no fault of its own, loads its content again,
    /// and goes on.
    pub recovers: bool,
    /// The mistake that it makes again and again; it goes on after each, as one that recovers.
    pub misbehaviour: Option<Misbehaviour>,
}

/// The mistake that a process makes on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misbehaviour {
    /// The kind.
    pub misdeed: Misdeed,
    /// The time between two mistakes, in nanoseconds.
    pub every: Nanoseconds,
}

/// The mistakes of processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misdeed {
    /// A kernel reads where nothing is mapped.
    PageFault,
    /// A kernel never ends.
    Hang,
}

impl Default for ClientDesc {
    /// Eight kernels ahead, on a list that has the allocations of the next of them.
    fn default() -> Self {
        Self {
            name: String::new(),
            start: 0,
            ahead: 8,
            announces: 0,
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
    /// The real client whose habits it has; none if it has those of no such client.
    pub fn kind(&self) -> Option<ClientKind> {
        match self.residency {
            ResidencyPolicy::Modelled(kind) => Some(kind),
            ResidencyPolicy::EachKernel | ResidencyPolicy::Kept | ResidencyPolicy::EvictedAtOnce => None,
        }
    }

    /// The segments where its buffers may be, all together.
    pub fn segments(&self) -> AllocationSegments {
        match self.buffers.segments {
            AllocationSegments::Local if self.kind().is_some_and(ClientKind::has_two_groups) => {
                AllocationSegments::LocalOrSystem
            }
            segments => segments,
        }
    }

    /// The segments where the buffer of that number may be.
    pub(super) fn segments_of(&self, buffer: u32) -> AllocationSegments {
        match self.kind() {
            Some(kind) if kind.wants_system(buffer) => AllocationSegments::System,
            _ => self.buffers.segments,
        }
    }

    /// The properties of the allocation of a buffer of `size` bytes.
    pub(super) fn allocation(&self, buffer: u32, size: u64) -> AllocationDesc {
        AllocationDesc { segments: self.segments_of(buffer), ..self.buffers.allocation(buffer, size) }
    }
}

/// The treatment of a process's residency list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResidencyPolicy {
    /// MakeResident before each kernel, Evict behind it, only if necessary: the manager chooses the allocations that
    /// stay.
    #[default]
    EachKernel,
    /// Used allocations stay on the list until MakeResident is refused or a notification asks to trim. Then the least
    /// recently used ones are evicted.
    Kept,
    /// MakeResident before each kernel, Evict behind it, and at once: the habit of a driver without a policy.
    EvictedAtOnce,
    /// The policy of a real client.
    #[serde(skip)]
    Modelled(ClientKind),
}

/// The treatment of a buffer behind its last use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifetimes {
    /// The process destroys it.
    #[default]
    Destroy,
    /// The process offers it, and reclaims it for the next buffer of its size.
    Offer,
    /// The process keeps it to the end, as one that does not know the last use.
    Ignore,
}

/// The properties of each buffer's allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BufferDesc {
    /// The segments where it may be.
    pub segments: AllocationSegments,
    /// Whether it has a compression surface, through which kernels read and write it.
    pub compression: bool,
    /// Whether the driver asks to be notified before it is evicted (NTF-02).
    pub notify_eviction: bool,
    /// Whether the driver asks to be notified before it is unmapped from the IOMMU (NTF-04).
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

    /// The pages that kernels read and write of a buffer that is mapped at an address.
    pub(super) fn range(&self, buffer: u32, virtual_address: GpuVirtualAddress, num_pages: u64) -> PageRange {
        let surface = self.compression.then_some(Surface { number: buffer, first_page: 0 });
        PageRange { virtual_address, num_pages, surface }
    }
}
