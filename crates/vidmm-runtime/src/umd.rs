//! The user-mode half of a driver, and what it is asked for.

use vidmm::contract::{Direction, SegmentBankPreference};

use crate::{
    kernel::KernelCommand,
    patching::{CommandStep, UserCommands},
};

/// A client's wishes for an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AllocationDesc {
    /// Bytes.
    pub size: u64,
    /// Where it may be resident.
    pub segments: AllocationSegments,
    /// Engines address it physically: in system memory it is mapped in the aperture (SEG-13).
    pub accessed_physically: bool,
    /// The driver wants to know where in a memory segment it is, and when it leaves it (BPB-51).
    pub explicit_residency_notification: bool,
    /// Its compression surface, if it has one.
    pub surface: Option<u32>,
    /// The driver wants to know before it is evicted (NTF-02).
    pub notify_eviction: bool,
    /// The driver wants to know before it is unmapped from the IOMMU (NTF-04).
    pub notify_io_mmu_unmap: bool,
    /// Its priority: larger stays longer (CRE-30). 0 leaves it to the driver.
    pub priority: u32,
    /// The CPU's access to it.
    pub cpu: CpuAccess,
    /// Its backing store is in cacheable memory (2.2); only where the CPU may lock it.
    pub cached: bool,
    /// No entry above the leaves may show it (GVA-21).
    pub disable_large_page_mapping: bool,
    /// Where in a segment it had better be.
    pub placement: Placement,
}

impl AllocationDesc {
    /// `size` bytes in local memory, without compression and notifications.
    pub fn local(size: u64) -> Self {
        Self { size, ..Self::default() }
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

/// The CPU's access to an allocation (2.2).
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
    /// In these, the first by preference (SEG-42).
    Ordered(SegmentOrder),
}

/// A kind of memory that an allocation may be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    /// The memory segment of this number: 1 is local memory, the first one.
    Memory(u8),
    /// System memory, through the aperture where that is needed.
    System,
    /// System memory through the aperture of this number: 2 is the second one.
    Aperture(u8),
}

/// One to five kinds of memory, in order of preference (SEG-42).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentOrder(u32);

impl SegmentOrder {
    const BITS: u32 = 4;
    const MASK: u32 = (1 << Self::BITS) - 1;
    const SYSTEM: u32 = Self::MASK;

    /// The most memory segments that an order tells apart.
    pub const MEMORY_MAX: u8 = 10;
    /// The most apertures that an order tells apart.
    pub const APERTURES_MAX: u8 = 5;

    /// These kinds, if they are one to five different ones, and the numbers of segments are within what an order tells apart.
    pub fn new(kinds: impl IntoIterator<Item = MemoryKind>) -> Option<Self> {
        let (mut order, mut shift) = (0, 0);
        for kind in kinds {
            let code = match kind {
                MemoryKind::System => Self::SYSTEM,
                MemoryKind::Memory(number) => {
                    Some(u32::from(number)).filter(|_| (1..=Self::MEMORY_MAX).contains(&number))?
                }
                MemoryKind::Aperture(number) => {
                    let code = u32::from(Self::MEMORY_MAX) + u32::from(number) - 1;
                    Some(code).filter(|_| (2..=Self::APERTURES_MAX).contains(&number))?
                }
            };
            if shift == 5 * Self::BITS || Self(order).kinds().any(|before| before == kind) {
                return None;
            }
            order |= code << shift;
            shift += Self::BITS;
        }
        (order != 0).then_some(Self(order))
    }

    /// The order that [`code`](Self::code) stands for.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::new(Self(code).kinds()).filter(|order| order.0 == code)
    }

    /// A number below 2 to the 20th that stands for it.
    pub fn code(self) -> u32 {
        self.0
    }

    /// The kinds of memory, first choice first.
    pub fn kinds(self) -> impl Iterator<Item = MemoryKind> {
        let code = move |at: u32| self.0.checked_shr(at * Self::BITS).unwrap_or(0) & Self::MASK;
        (0..).map(code).take_while(|&code| code != 0).map(|code| match code {
            Self::SYSTEM => MemoryKind::System,
            code if code as u8 > Self::MEMORY_MAX => MemoryKind::Aperture(code as u8 - Self::MEMORY_MAX + 1),
            number => MemoryKind::Memory(number as u8),
        })
    }
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
