//! The reference driver, its command encoding, and the model GPU that executes it.
//!
//! Four parts make a machine for [`vidmm`]; [`machine`] builds them to fit each other:
//!
//! - [`SoftKmd`] and [`SoftUmd`], the two halves of a driver. They turn paging operations and kernels into bytes, and patch
//!   them where there are no GPU virtual addresses; [`CommandBuffer`] is what the latter writes then.
//! - [`encoding`], what these bytes mean. Another GPU may execute them as well.
//! - [`ModelGpu`], which does: in virtual time, on content that is really there (D13). Page tables lie in its memory and
//!   are walked, a TLB goes stale unless it is flushed, and an access to an unmapped address faults. A wrong order of paging
//!   shows up as a wrong byte or a fault.
//!   Its bytes are moved by an [`Executor`], of which [`Memories`] is the model GPU's own (D26).
//! - [`SoftHost`], the system memory that allocations are kept in while they are not in local memory, and the host's side of
//!   the [`IoMmu`].
//!
//! [`semantic_machine`] is for a driver whose encoding nobody executes: the model GPU carries out what the driver is
//! asked for.
//!
//! The model has: page tables that the GPU or the driver writes ([`SoftAdapterConfig::page_table_update_mode`]), engines that run side by side and wait for each other's fences, the page-table layouts of
//! [`SoftAdapterConfig`], 4 KiB and 64 KiB pages, dual level-1 entries, a TLB for each process that may or may not cache
//! invalid entries, read-only and zero entries, the aperture, an IOMMU behind a cache of the device's own, physical addresses
//! and engine state that other work on the GPU clobbers, compression, what things cost ([`CostModel`]), and what goes wrong: faults that stop an engine, kernels that never end, preemption between
//! packets, resets of one engine and of the adapter, and errors made on purpose ([`ModelGpuFaults`]).
//!
//! It does not have: preemption inside a packet, CPU access, large pages, and engines that slow each other down.

mod aperture;
mod both_ways;
mod bus;
mod command_buffer;
mod config;
mod cost;
mod cpu_addresses;
mod device;
mod digest;
mod driver;
pub mod encoding;
mod engine;
mod executor;
mod faults;
mod gpu;
mod half;
mod host;
mod io_mmu;
mod io_mmu_cache;
mod layout;
mod memory;
mod memory_executor;
mod mmu;
mod physical;
mod physical_addresses;
mod private_data;
mod probe;
mod programmed_state;
mod semantic;
mod status;
mod surface;
mod system;
mod table;
mod tlb;
mod translation;
mod umd;

pub use bus::Bus;
pub use command_buffer::{CommandBuffer, SoftCommands, UserCommandEncoding};
pub use config::{
    ApertureConfig, ConfigError, LOCAL_SEGMENT, LinkedAdapterConfig, MemoryConfig, SegmentKind, SoftAdapterConfig,
};
pub use cost::CostModel;
pub use cpu_addresses::CpuAddresses;
pub use device::{CommandCounts, ModelGpuCounters};
pub use digest::{KernelState, PageWords, RAMP_STEP, WORDS_PER_PAGE, mix, ramp_words, uniform_digest, words_digest};
pub use driver::{COPY_ENGINE, PAGING_ENGINE, RENDER_ENGINE, SoftKmd};
pub use executor::{Executor, MappingChange, View};
pub use faults::{FORGED_FAULT_ADDRESS, ModelGpuFaults, PacketHits};
pub use gpu::ModelGpu;
pub use host::SoftHost;
pub use io_mmu::{IoMmu, IoMmuMisuse, IoMmuMisuseKind};
pub use layout::{HardwareEntry, PageTableLayout};
pub use memory::{PageContents, SparseMemory};
pub use physical::{Memories, PhysicalMemory, PhysicalRun, Place};
pub use physical_addresses::{PhysicalAddressMap, SYSTEM_MEMORY_ADDRESS, UNPATCHED_ADDRESS};
pub use private_data::AllocationPrivateData;
pub use semantic::{SemanticError, semantic_machine};
pub use status::{StatusKind, StatusRegisters};
pub use surface::{SurfaceBook, page_key};
pub use system::{SYSTEM_MEMORY_BYTES, SystemMemory};
pub use translation::Translation;
pub use umd::SoftUmd;

use vidmm_runtime::{FaultSwitch, Machine};

/// A driver, a GPU and a host that fit each other.
#[derive(Debug)]
pub struct SoftMachine {
    /// The kernel-mode half of the driver.
    pub kmd: SoftKmd,
    /// The user-mode half of the driver.
    pub umd: SoftUmd,
    /// The GPU.
    pub gpu: ModelGpu,
    /// The host.
    pub host: SoftHost,
}

impl From<SoftMachine> for Machine {
    fn from(SoftMachine { kmd, umd, gpu, host }: SoftMachine) -> Self {
        Self {
            cpu: Box::new(host.cpu_addresses().clone()),
            kmd: Box::new(kmd),
            umd: Box::new(umd),
            gpu: Box::new(gpu),
            host: Box::new(host),
            fault_switch: FaultSwitch::default(),
        }
    }
}

/// Builds a machine for the adapter that `config` describes. `commit_limit` bounds the backing store, in bytes.
///
/// # Panics
///
/// If [`SoftAdapterConfig::check`] finds an error.
pub fn machine(
    config: &SoftAdapterConfig,
    cost: CostModel,
    faults: ModelGpuFaults,
    commit_limit: Option<u64>,
) -> SoftMachine {
    let (system, io_mmu) = (SystemMemory::new(), IoMmu::new());
    let kmd = SoftKmd::new(config.clone()).with_memory(system.clone());
    SoftMachine {
        umd: SoftUmd,
        host: SoftHost::new(system.clone(), io_mmu.clone(), commit_limit).with_faults(&faults),
        gpu: ModelGpu::new(config, cost, faults, system, io_mmu).with_surface_book(kmd.surface_book()),
        kmd,
    }
}
