//! The properties that a machine must have; this crate names no GPU.

use vidmm::contract::{AddressingModel, EngineKind, PageTableUpdateMode, WddmVersion};
use vidmm::{Nanoseconds, PageSize, TdrOptions};
use vidmm_runtime::{Machine, TransferOffset, Verifier};

use crate::features::Features;
use crate::scenario::{
    AdapterSettings, CostSettings, Fault, FaultKind, MoreAperture, PageSize as PageSizeSetting, PageTables,
};

/// The machine that a run asks its factory for.
///
/// A factory *must obey* some fields, or the run asks a wrong question: it returns an error where it cannot. It *may ignore*
/// others, which only make runs more varied. A field that asks for more than the least is set only for a machine that has
/// the [feature](Features) which the field names; the default asks for no such feature but those of a discrete GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineDesc {
    /// How engines find memory. A factory must obey it; [`Features::of_model`] says which feature each model is.
    pub addressing_model: AddressingModel,
    /// The interface version that the driver declares. A factory must obey it. Before WDDM 3.2:
    /// [`Features::OLDER_VERSIONS`].
    pub wddm_version: WddmVersion,
    /// The most engines: those of paging, of kernels and of copies, in this order, and further ones of copies. A
    /// factory may ignore it and report fewer, or have more. One engine runs everything. [`Features::PAGING_ENGINE`],
    /// [`Features::COPY_ENGINE`].
    pub engines: u32,
    /// Bytes of local memory, a multiple of its page size; 0 is none. A factory must obey it. [`Features::LOCAL_MEMORY`].
    pub local_memory_bytes: u64,
    /// Whether the CPU sees all of local memory. A factory may ignore it: then allocations that are locked move.
    pub local_memory_cpu_visible: bool,
    /// Further memory segments: the bytes of each, and whether the CPU sees it. A factory must obey it.
    /// [`Features::MORE_SEGMENTS`].
    pub more_memory: Vec<(u64, bool)>,
    /// The pages of the memory segments. A factory must obey it. [`Features::PAGES_4KIB`], [`Features::PAGES_64KIB`].
    pub page_size: PageSize,
    /// Bytes of the aperture segment; 0 is none. A factory must obey it, but may ignore it if it lacks
    /// [`Features::APERTURE`]: then no allocation is meant for system memory.
    pub aperture_bytes: u64,
    /// Further aperture segments. A factory must obey it. [`Features::MORE_SEGMENTS`].
    pub more_apertures: Vec<ApertureDesc>,
    /// The most bytes that may be resident in the apertures and in implicit system memory together; none is the size of the
    /// apertures. A factory with an aperture must obey it.
    pub aperture_commit_limit_bytes: Option<u64>,
    /// Whether engines that read through the first aperture see what the CPU caches. A factory may ignore it.
    pub cache_coherent_aperture: bool,
    /// Whether the driver is sent MAP_APERTURE_SEGMENT2 in place of MAP_APERTURE_SEGMENT (BPB-34). A factory must obey it.
    /// [`Features::MAP_APERTURE2`].
    pub map_aperture2: bool,
    /// Bytes of the log buffers of hardware scheduling; none if the operating system schedules. A factory may ignore it.
    pub scheduling_log_buffer_bytes: Option<u64>,
    /// The other physical adapters of a link. A factory must obey it. [`Features::LINKED_ADAPTERS`].
    pub linked_adapters: Vec<LinkedAdapterDesc>,
    /// Bits in a virtual address; none is the GPU's own choice. A factory must obey it. [`Features::TABLE_SHAPE`].
    pub virtual_address_bits: Option<u32>,
    /// Index bits of the page-table levels below the root, leaf first; none is the GPU's own choice. A factory must obey it.
    /// [`Features::TABLE_SHAPE`].
    pub page_table_bits: Option<Vec<u32>>,
    /// Whether 64 KiB pages have page-table entries of their own (GVA-43). A factory may ignore it.
    pub dual_pte: bool,
    /// Whether invalid entries are never cached. A factory may ignore it.
    pub invalid_tlb_entries_not_cached: bool,
    /// Whether entries of page tables can say that the CPU's caches are snooped. A factory may ignore it.
    pub cache_coherent_memory: bool,
    /// Whether entries of page tables can read as zero (GVA-20). A factory may ignore it.
    pub zero_in_pte: bool,
    /// Whether entries of level 1 can show memory, as much as a leaf table covers (GVA-21). A factory may ignore it.
    pub large_pages: bool,
    /// Whether large pages may begin at any page, not only at multiples of their size. A factory may ignore it.
    pub large_pages_anywhere: bool,
    /// Whether large pages may be in system memory. A factory may ignore it.
    pub large_pages_in_system_memory: bool,
    /// Whether page tables live in system memory instead of local memory. A factory must obey it.
    /// [`Features::SYSTEM_PAGE_TABLES`].
    pub page_tables_in_system_memory: bool,
    /// The writer of page tables, and where it finds them (GVA-10). A factory must obey it. [`Features::CPU_TABLES`],
    /// [`Features::VIRTUAL_TABLES`].
    pub page_table_update_mode: PageTableUpdateMode,
    /// Bytes of a paging buffer. A factory may ignore it.
    pub paging_buffer_bytes: u32,
    /// The most bytes that one command of the driver covers. A factory may ignore it.
    pub max_command_bytes: u64,
    /// The driver's answer for the size of the paging process's address space, in MiB; none if it fails the query. A factory
    /// must obey a size that is not 0. [`Features::PAGING_VA_SIZE`].
    pub paging_va_mib: Option<u32>,
    /// The driver answers busy to every n-th notification that does not promise an idle allocation. A factory must obey it.
    /// [`Features::BUSY_ANSWERS`].
    pub busy_notify_every: Option<u32>,
    /// The driver answers busy to every n-th transfer, or discarding of content, that does not promise an idle
    /// allocation. A factory must obey it. [`Features::BUSY_ANSWERS`].
    pub busy_every: Option<u32>,
    /// The slots of a DMA buffer's resource table (SPL-02). Without GPU virtual addresses only, as the next two. A factory
    /// must obey it, or have more.
    pub num_slots: u32,
    /// Whether engines keep their state between packets (SPL-07). A factory may ignore it.
    pub preemption_aware: bool,
    /// Whether the paging engine copies in both directions at the same time. A factory may ignore it.
    pub copies_both_ways: bool,
    /// Where the banks of local memory end, in bytes from its start (SEG-31). A factory must obey it.
    /// [`Features::PLACEMENT`].
    pub bank_range_table: Vec<u64>,
    /// Groups of engines of which the reset of one harms the others (FLT-26). A factory must obey it.
    /// [`Features::DEPENDENT_ENGINES`].
    pub dependent_engines: Vec<Vec<EngineKind>>,
    /// How long a reset of an engine takes, a reset of the adapter, and its restart, in nanoseconds. A factory may ignore it
    /// and the next four if it lacks [`Features::COSTS`].
    pub reset_nanoseconds: u64,
    /// Bandwidth of the bus each way, in bytes a second.
    pub bus_bytes_per_second: u64,
    /// Bandwidths at which kernels read and write system memory, in bytes a second; none is no cost.
    pub kernel_bytes_per_second: [Option<u64>; 2],
    /// Bandwidth of local memory, in bytes a second.
    pub local_bytes_per_second: u64,
    /// The seed of the delays after which packets begin; none is no delay.
    pub latency_seed: Option<u64>,
    /// The mistakes of driver and GPU. A factory makes those inside of the GPU and the host, if it has
    /// [`Features::INNER_FAULTS`]; the simulator wraps driver and GPU in all others.
    pub faults: Vec<Fault>,
    /// The seed of the faults that hit at random. A factory that makes faults must obey it.
    pub fault_seed: u64,
}

/// A further aperture segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApertureDesc {
    /// Its bytes.
    pub bytes: u64,
    /// The most bytes that may be mapped in it; none is its size.
    pub commit_limit_bytes: Option<u64>,
    /// Whether engines that read through it see what the CPU caches.
    pub cache_coherent: bool,
}

/// Another physical adapter of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkedAdapterDesc {
    /// Bytes of local memory; 0 is none.
    pub local_memory_bytes: u64,
    /// Bytes of its aperture segment.
    pub aperture_bytes: u64,
    /// The driver's answer for the size of the paging process's address space, in MiB; none if it fails the query.
    pub paging_va_mib: Option<u32>,
}

/// The sizes of a machine's memory; some scenarios give them as shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySizes {
    /// Bytes of local memory; 0 is none.
    pub local_memory_bytes: u64,
    /// Bytes of the aperture segment.
    pub aperture_bytes: u64,
    /// The most bytes of system memory that may be resident; none is the aperture's size.
    pub aperture_commit_limit_bytes: Option<u64>,
}

impl MachineDesc {
    /// The machine of a scenario, whose memory has these sizes.
    pub fn new(adapter: &AdapterSettings, cost: &CostSettings, memory: MemorySizes, faults: &[Fault]) -> Self {
        let MemorySizes { local_memory_bytes, aperture_bytes, aperture_commit_limit_bytes } = memory;
        let linked = adapter.linked_adapters.iter().map(|linked| LinkedAdapterDesc {
            local_memory_bytes: linked.local_memory.bytes(),
            aperture_bytes: linked.aperture.bytes(),
            paging_va_mib: linked.paging_va_mib.answer(),
        });
        Self {
            addressing_model: adapter.addressing_model,
            wddm_version: adapter.wddm.version(),
            engines: adapter.engines,
            local_memory_bytes,
            local_memory_cpu_visible: adapter.local_memory_cpu_visible,
            more_memory: adapter.more_memory.iter().map(|memory| (memory.size.bytes(), memory.cpu_visible)).collect(),
            page_size: match adapter.page_size {
                // Without page tables a segment has no pages larger than the host's.
                _ if adapter.is_physical() => PageSize::Kib4,
                PageSizeSetting::Kib4 => PageSize::Kib4,
                PageSizeSetting::Kib64 => PageSize::Kib64,
            },
            aperture_bytes,
            more_apertures: adapter.more_apertures.iter().map(MoreAperture::desc).collect(),
            aperture_commit_limit_bytes,
            cache_coherent_aperture: adapter.cache_coherent_aperture,
            map_aperture2: adapter.map_aperture2,
            scheduling_log_buffer_bytes: adapter.scheduling_log.map(|log| log.bytes()),
            linked_adapters: linked.collect(),
            virtual_address_bits: Some(adapter.virtual_address_bits()),
            page_table_bits: Some(adapter.page_table_bits()),
            dual_pte: adapter.dual_pte(),
            invalid_tlb_entries_not_cached: adapter.invalid_tlb_entries_not_cached,
            cache_coherent_memory: adapter.cache_coherent_memory,
            zero_in_pte: adapter.zero_in_pte,
            large_pages: adapter.large_pages,
            large_pages_anywhere: adapter.large_pages_anywhere,
            large_pages_in_system_memory: adapter.large_pages_in_system_memory,
            page_tables_in_system_memory: adapter.page_tables() == PageTables::System,
            page_table_update_mode: adapter.update_mode.into(),
            paging_buffer_bytes: adapter.paging_buffer.bytes() as u32,
            max_command_bytes: adapter.max_command.bytes(),
            paging_va_mib: adapter.paging_va_mib.answer(),
            busy_notify_every: adapter.busy_notify_every,
            busy_every: adapter.busy_every,
            num_slots: adapter.slots,
            preemption_aware: adapter.preemption_aware,
            copies_both_ways: adapter.copies_both_ways,
            bank_range_table: adapter.banks.iter().map(|end| end.bytes()).collect(),
            dependent_engines: adapter
                .dependent_engines
                .iter()
                .map(|group| group.iter().map(|&name| name.into()).collect())
                .collect(),
            reset_nanoseconds: cost.reset.ns,
            bus_bytes_per_second: cost.bus_bytes_per_second(),
            kernel_bytes_per_second: cost.kernel_bytes_per_second(local_memory_bytes > 0),
            local_bytes_per_second: cost.local_bytes_per_second(),
            latency_seed: cost.latency_seed,
            faults: faults.to_owned(),
            fault_seed: 0,
        }
    }
}

impl Default for MachineDesc {
    /// 8 GiB of local memory in 64 KiB pages, behind a PCIe 4 bus.
    fn default() -> Self {
        let memory =
            MemorySizes { local_memory_bytes: 8 << 30, aperture_bytes: 256 << 20, aperture_commit_limit_bytes: None };
        Self::new(&AdapterSettings::default(), &CostSettings::default(), memory, &[])
    }
}

/// Makes machines, and says what they lack. A closure from a [`MachineDesc`] to a machine that lacks nothing is one.
pub trait MachineFactory: Sync {
    /// The name of the machine on the command line and in reports.
    fn name(&self) -> &str {
        "machine"
    }

    /// The features that its machines lack: they are asked for none of these.
    fn lacks(&self) -> Features {
        Features::empty()
    }

    /// The bytes of the largest allocation that its drivers create; none if they create any.
    fn largest_allocation(&self) -> Option<u64> {
        None
    }

    /// How the drivers of its machines are tried.
    fn bench(&self) -> Bench {
        Bench::default()
    }

    /// Whether a panic during a run is a finding about the driver or the GPU. If not, `vidmm run` ends with it.
    fn panics_are_findings(&self) -> bool {
        true
    }

    /// Builds the machine that `desc` asks for; the documentation of each field says what it must obey.
    ///
    /// # Errors
    ///
    /// Returns why the machine cannot be built.
    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String>;
}

impl<F: Fn(&MachineDesc) -> Result<Machine, String> + Sync> MachineFactory for F {
    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        self(desc)
    }
}

/// How a driver is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bench {
    /// Whether a [`Verifier`] compares the effect of each paging operation with the documented one.
    pub verify: bool,
    /// The addresses that the driver is given for a later part of an allocation.
    pub transfer_offset: TransferOffset,
}

/// Machines of a factory whose drivers are tried in another way.
#[derive(Clone, Copy)]
pub struct Benched<'a> {
    /// Makes the machines.
    pub factory: &'a dyn MachineFactory,
    /// How their drivers are tried.
    pub bench: Bench,
}

impl MachineFactory for Benched<'_> {
    fn name(&self) -> &str {
        self.factory.name()
    }

    fn lacks(&self) -> Features {
        self.factory.lacks()
    }

    fn largest_allocation(&self) -> Option<u64> {
        self.factory.largest_allocation()
    }

    fn bench(&self) -> Bench {
        self.bench
    }

    fn panics_are_findings(&self) -> bool {
        self.factory.panics_are_findings()
    }

    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        self.factory.machine(desc)
    }
}

/// Builds a machine, with the faults that are not made inside of it. A verifier stands between a faulty driver and the core, and
/// between a faulty GPU and what is right in it.
///
/// # Errors
///
/// If the factory cannot build it.
pub(crate) fn build(factory: &dyn MachineFactory, desc: &MachineDesc) -> Result<Machine, String> {
    let bench = factory.bench();
    let machine = factory.machine(desc)?.with_transfer_offset(bench.transfer_offset);
    if !machine.gpu.executes_commands() && !factory.lacks().contains(Features::OWN_COMMANDS) {
        return Err(
            "its GPU does not execute the driver's commands, and the factory does not say that it lacks that".into()
        );
    }
    if !bench.verify {
        return Ok(with_faults(machine, desc));
    }
    let (machine, verifier) = Verifier::watch_gpu(machine);
    Ok(verifier.watch_driver(with_faults(machine, desc)))
}

fn with_faults(machine: Machine, desc: &MachineDesc) -> Machine {
    desc.faults.iter().fold(machine, |machine, fault| {
        let hits = fault.hits(desc.fault_seed);
        match fault.kind {
            FaultKind::Driver(fault) => machine.with_fault(fault, hits),
            FaultKind::Gpu(fault) => machine.with_gpu_fault(fault, hits),
            FaultKind::Interrupt(fault) => machine.with_interrupt_fault(fault, hits),
            FaultKind::FlipBitInTransfer
            | FaultKind::HangPacket
            | FaultKind::HangPagingBuffer
            | FaultKind::ForgePageFault
            | FaultKind::ForgePagingFault
            | FaultKind::LieAboutEngineReset
            | FaultKind::FailCommit
            | FaultKind::FailUserModeVaMapping => machine,
        }
    })
}

/// The time limits for a machine that lacks these features: packets of engines that cannot yield or be reset never run for
/// too long.
pub(crate) fn limits_without(lacks: Features, limits: TdrOptions) -> TdrOptions {
    match lacks.intersects(Features::RECOVERY) {
        true => TdrOptions { quantum: Nanoseconds::MAX, ..limits },
        false => limits,
    }
}
