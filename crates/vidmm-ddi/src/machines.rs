//! Machines of a driver in C, for everything that asks a factory.

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vidmm::contract::{AdapterInfo, AddressingModel, EngineKind, SegmentDescriptor, SegmentFlags, WddmVersion};
use vidmm_runtime::{AllocationDesc, AllocationSegments, CpuAccess, FaultSwitch, Machine, Umd};
use vidmm_sim::{Bench, Features, MachineDesc, MachineFactory};
use vidmm_soft::{CostModel, IoMmu, ModelGpuFaults, SoftHost, SystemMemory, semantic_machine};

use crate::adapter::{Adapter, Surroundings};
use crate::description::{self, Sizes};
use crate::dice::Dice;
use crate::gpu::DdiGpu;
use crate::iommu;
use crate::kmd::DdiKmd;
use crate::library::Driver;
use crate::memory::{Memory, PageNumbers};
use crate::several::{Described, MOST_FAILURES};
use crate::umd::{DataSource, DdiUmd, Recorded};

/// Machines of a driver in C, one at a time.
///
/// The driver reports its own adapter, and never sees that it has less memory than that: the sizes that a run asks for are those
/// that the manager is told.
pub struct DriverMachines {
    driver: Driver,
    name: String,
    lacks: Features,
    info: AdapterInfo,
    splits: bool,
    has_allocations: bool,
    has_threads: bool,
    highest_acceptable_address: Option<u64>,
    source: DataSource,
    fail_at: AtomicU64,
    seed: AtomicU64,
    is_racing: AtomicBool,
    fences_wrap: AtomicBool,
    /// The lack of the adapter for the last asked machine.
    lack: Mutex<Option<String>>,
}

impl DriverMachines {
    /// Machines of `driver`, called `name`. Where there is `recorded` private data, all allocations are created from it.
    ///
    /// # Errors
    ///
    /// If the driver does not start, its adapter is of a model that is not tried here, or it creates nothing from what is recorded.
    pub fn new(driver: Driver, name: impl Into<String>, recorded: Vec<Vec<u8>>) -> Result<Self, String> {
        let address_bits_min = *PageNumbers::ADDRESS_BITS.start();
        let surroundings =
            Surroundings { seed: 0, address_bits: address_bits_min, is_racing: false, fences_wrap: false };
        let adapter = Adapter::start(Arc::clone(&driver.0), surroundings, iommu::ask)?;
        let info = description::describe(&adapter)?;
        let (resets_engines, splits) = (adapter.resets_engines.get(), adapter.splits.get());
        let highest_acceptable_address = adapter.highest_acceptable_address.get();
        if let Some(limit) = highest_acceptable_address.filter(|&limit| address_bits(limit) < LEAST_ADDRESS_BITS) {
            return Err(format!(
                "HighestAcceptableAddress is {limit:#x}: vidmm has no machine without pages above (DRV-08)"
            ));
        }
        let mut kmd = DdiKmd::new(Rc::clone(&adapter), info.clone(), true);
        let recorded = recorded.into_iter().map(|data| Recorded::new(&mut kmd, data));
        let recorded = recorded.collect::<Result<Arc<[_]>, _>>()?;
        let source = DataSource::of(&driver.0, recorded).ok_or(
            "nothing says the private data of allocations: the table lacks DxgkDdiGetStandardAllocationDriverData, and \
             there is no GetAllocationPrivateData and nothing recorded",
        )?;
        let mut lacks = lacks(&driver, &info, &source, resets_engines);
        let has_threads = driver.0.counts().Threads > 0;
        let mut has_allocations = true;
        if source.names_segments() {
            let umd = DdiUmd::new(adapter, source.clone());
            let kinds = [AllocationSegments::Local, AllocationSegments::System, AllocationSegments::LocalOrSystem];
            has_allocations = kinds
                .into_iter()
                .any(|segments| umd.has(&AllocationDesc { segments, ..AllocationDesc::local(1 << 16) }));
            lacks |= lacking_kinds(&umd, lacks);
        }
        drop(kmd);
        Ok(Self {
            driver,
            name: name.into(),
            lacks,
            info,
            splits,
            has_allocations,
            has_threads,
            highest_acceptable_address,
            source,
            fail_at: AtomicU64::new(0),
            seed: AtomicU64::new(0),
            is_racing: AtomicBool::new(false),
            fences_wrap: AtomicBool::new(false),
            lack: Mutex::new(None),
        })
    }

    /// Lets the n-th pool allocation of each adapter fail, counted from when it has started; 0 is none.
    pub fn set_failing(&self, number: u64) {
        self.fail_at.store(number, Ordering::Relaxed);
    }

    /// Sets the seed from the next adapter on: of addresses, of the order of buffers, and of turns of threads.
    pub fn set_seed(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
    }

    /// Lets the driver's threads race from the next adapter on, or run in turns by the seed.
    pub fn set_racing(&self, is_racing: bool) {
        self.is_racing.store(is_racing, Ordering::Relaxed);
    }

    /// Lets fences begin just below 2^32 from the next adapter on, or not.
    pub fn set_fences_wrap(&self, fences_wrap: bool) {
        self.fences_wrap.store(fences_wrap, Ordering::Relaxed);
    }

    fn note_lack(&self, lack: &str) {
        self.lack.lock().unwrap_or_else(PoisonError::into_inner).replace(lack.to_owned());
    }

    /// Takes the adapter's lack for the last asked machine: no machine was made for want of the lack.
    pub fn take_lack(&self) -> Option<String> {
        self.lack.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// An adapter in a machine whose addresses have as many bits as the seed says.
    fn adapter(&self) -> Result<Rc<Adapter>, String> {
        let most = self.highest_acceptable_address.map_or(u32::MAX, address_bits).min(*PageNumbers::ADDRESS_BITS.end());
        let least = most.min(*PageNumbers::ADDRESS_BITS.start());
        let dice = Dice::new(self.seed.load(Ordering::Relaxed).rotate_left(32));
        self.adapter_in(least + dice.below((most - least + 1).into()) as u32)
    }

    fn adapter_in(&self, address_bits: u32) -> Result<Rc<Adapter>, String> {
        let (seed, is_racing) = (self.seed.load(Ordering::Relaxed), self.is_racing.load(Ordering::Relaxed));
        let fences_wrap = self.fences_wrap.load(Ordering::Relaxed);
        let surroundings = Surroundings { seed, address_bits, is_racing, fences_wrap };
        Adapter::start(Arc::clone(&self.driver.0), surroundings, iommu::ask)
    }

    fn fail_at(&self, number: u64) {
        // SAFETY: the function takes a number.
        unsafe { (self.driver.0.shim().FailAt)(number) };
    }

    /// Starts an adapter in the machine with the highest addresses of all, and stops the adapter. Windows does not load a driver on a
    /// machine with pages above HighestAcceptableAddress: the check has a lack then (DRV-08).
    ///
    /// # Errors
    ///
    /// If the driver does not start.
    pub fn start_in_largest_machine(&self) -> Result<(), String> {
        self.fail_at(0);
        if let Some(limit) = self.highest_acceptable_address {
            self.note_lack(&format!("a machine without pages above HighestAcceptableAddress {limit:#x} (DRV-08)"));
            return Ok(());
        }
        description::describe(&*self.adapter_in(*PageNumbers::ADDRESS_BITS.end())?).map(drop)
    }

    /// Starts an adapter, asks it for a paging operation with a number that no version of WDDM has, and stops it. An answer of
    /// success is reported: the driver would claim to have carried out what it does not know.
    ///
    /// # Errors
    ///
    /// If the driver does not start.
    pub fn ask_unknown_operation(&self) -> Result<(), String> {
        self.fail_at(0);
        let adapter = self.adapter()?;
        let info = description::describe(&adapter)?;
        DdiKmd::new(adapter, info, true).ask_unknown_operation();
        Ok(())
    }

    /// Starts an adapter, lets it create, open, close and destroy several allocations in one call each, and stops it. Each allocation
    /// of pool in these calls fails once: what the driver keeps then is reported.
    ///
    /// # Errors
    ///
    /// If the driver does not start.
    pub fn create_several(&self) -> Result<(), String> {
        self.fail_at(0);
        let adapter = self.adapter()?;
        let info = description::describe(&adapter)?;
        let mut kmd = DdiKmd::new(Rc::clone(&adapter), info, true);
        let segments = plain_segments(self.lacks);
        if !self.has_allocations {
            return Ok(());
        }
        let largest = self.source.largest_allocation().unwrap_or(u64::MAX);
        let described: Described = std::array::from_fn(|at| {
            let size = ((at as u64 + 1) << 16).min(largest);
            let desc = AllocationDesc { segments, ..AllocationDesc::local(size) };
            // Standard allocations come in turn: each is of the first kind, so that they are parts of one resource.
            let data = DdiUmd::new(Rc::clone(&adapter), self.source.clone()).allocation_private_data(&desc);
            let wanted = adapter.wanted.borrow().get(&data).cloned().unwrap_or_default();
            (data, wanted)
        });
        kmd.try_several(&described);
        Ok(())
    }

    /// Starts an adapter, lets the driver present one allocation in another, and stops the adapter. A driver without presentations of
    /// physical addresses is a lack.
    ///
    /// # Errors
    ///
    /// If the driver does not start.
    pub fn try_present(&self) -> Result<(), String> {
        self.fail_at(0);
        if self.info.addressing_model != AddressingModel::Physical {
            self.note_lack("physical addresses: DxgkDdiPresent has patch locations there alone");
            return Ok(());
        }
        if self.driver.0.ddi.DxgkDdiPresent.is_none() {
            self.note_lack("DxgkDdiPresent in the driver's table");
            return Ok(());
        }
        let adapter = self.adapter()?;
        let info = description::describe(&adapter)?;
        let mut kmd = DdiKmd::new(Rc::clone(&adapter), info, true);
        let segments = plain_segments(self.lacks);
        let umd = DdiUmd::new(Rc::clone(&adapter), self.source.clone());
        let size = self.source.largest_allocation().unwrap_or(u64::MAX).min(1 << 16);
        let desc = AllocationDesc { segments, ..AllocationDesc::local(size) };
        let data: [Vec<u8>; 2] = std::array::from_fn(|_| umd.allocation_private_data(&desc));
        let pixels = adapter.wanted.borrow().get(&data[1]).and_then(|wanted| wanted.pixels).unwrap_or((16, 16));
        if kmd.try_present(data.each_ref().map(Vec::as_slice), pixels).is_err() {
            self.note_lack("allocations that can be presented");
        }
        Ok(())
    }

    /// Starts an adapter, lets it describe itself, and stops it. Then the same again and again, and each allocation in it fails once: what
    /// the driver keeps then is reported.
    ///
    /// # Errors
    ///
    /// If the driver does not start although nothing fails.
    pub fn start_and_stop(&self) -> Result<(), String> {
        let start = || description::describe(&*self.adapter()?).map(drop);
        self.fail_at(0);
        start()?;
        for number in 1..=MOST_FAILURES {
            let before = self.driver.0.counts().Allocations;
            self.fail_at(number);
            // It is right that it does not start.
            let _ = start();
            if self.driver.0.counts().Allocations - before < number {
                break;
            }
        }
        self.fail_at(0);
        Ok(())
    }

    /// The driver's report.
    pub fn info(&self) -> &AdapterInfo {
        &self.info
    }

    /// Bytes of the first memory segment and of the first aperture; 0 where there is none.
    pub fn memory(&self) -> (u64, u64) {
        let size = |is_aperture| self.first_segment(is_aperture).map_or(0, |segment| segment.size);
        (size(false), size(true))
    }

    /// Whether the CPU sees the first memory segment.
    pub fn is_memory_cpu_visible(&self) -> bool {
        self.first_segment(false).is_some_and(|segment| segment.flags.contains(SegmentFlags::CPU_VISIBLE))
    }

    /// Whether the driver reports a second memory segment or a second aperture.
    pub fn has_more_segments(&self) -> bool {
        [false, true].into_iter().any(|is_aperture| self.segments(is_aperture).count() > 1)
    }

    fn first_segment(&self, is_aperture: bool) -> Option<&SegmentDescriptor> {
        self.segments(is_aperture).next()
    }

    fn segments(&self, is_aperture: bool) -> impl Iterator<Item = &SegmentDescriptor> {
        let segments = self.info.segments.iter();
        segments.filter(move |segment| segment.flags.contains(SegmentFlags::APERTURE) == is_aperture)
    }

    /// Whether the driver's user-mode half has allocations of any kind.
    pub fn has_allocations(&self) -> bool {
        self.has_allocations
    }

    /// The functions that Windows would call, and that the driver's table lacks: nothing of these is judged (DRV-13).
    pub fn lacking_functions(&self) -> Vec<&'static str> {
        let ddi = &self.driver.0.ddi;
        let of_timeouts = [
            ("DxgkDdiQueryCurrentFence", ddi.DxgkDdiQueryCurrentFence.is_none()),
            ("DxgkDdiCollectDbgInfo", ddi.DxgkDdiCollectDbgInfo.is_none()),
            ("DxgkDdiSetPowerState", ddi.DxgkDdiSetPowerState.is_none()),
        ];
        let has_engine_resets = !self.lacks.contains(Features::ENGINE_RESET);
        let is_standard = matches!(self.source, DataSource::Standard);
        let further = [
            ("DxgkDdiQueryEngineStatus", ddi.DxgkDdiQueryEngineStatus.is_none() && has_engine_resets),
            ("DxgkDdiDescribeAllocation", ddi.DxgkDdiDescribeAllocation.is_none() && is_standard),
        ];
        let lacking = of_timeouts.into_iter().filter(|_| self.has_gpu()).chain(further);
        lacking.filter(|&(_, is_lacking)| is_lacking).map(|(name, _)| name).collect()
    }

    /// Whether a started driver has threads of its own.
    pub fn has_threads(&self) -> bool {
        self.has_threads
    }

    /// Whether DMA buffers may be split.
    pub fn splits(&self) -> bool {
        self.splits
    }

    /// Whether the driver brings a model of its GPU.
    pub fn has_gpu(&self) -> bool {
        self.driver.0.gpu().is_some()
    }
}

/// The bits of the addresses of the largest machine without pages above an address.
fn address_bits(highest: u64) -> u32 {
    (u128::from(highest) + 1).ilog2()
}

/// Addresses of fewer bits leave no room for the system memory of programs.
const LEAST_ADDRESS_BITS: u32 = 32;

/// The segments of plain allocations: local memory, where machines have local memory.
fn plain_segments(lacks: Features) -> AllocationSegments {
    if lacks.contains(Features::LOCAL_MEMORY) { AllocationSegments::System } else { AllocationSegments::Local }
}

/// The features of the kinds of allocations that the driver's user-mode half does not have.
fn lacking_kinds(umd: &DdiUmd, lacks: Features) -> Features {
    const SIZE: u64 = 1 << 16;
    let segments = plain_segments(lacks);
    let with = |cpu| umd.has(&AllocationDesc { cpu, segments, ..AllocationDesc::local(SIZE) });
    let system = |cpu| AllocationDesc { cpu, segments: AllocationSegments::System, ..AllocationDesc::local(SIZE) };
    let mut lacking = Features::empty();
    lacking.set(Features::CPU_ACCESS, !with(CpuAccess::Visible));
    lacking.set(Features::NAMED_SEGMENTS, !with(CpuAccess::None));
    if !lacks.contains(Features::APERTURE) {
        let kinds = [CpuAccess::PermanentSysMem, CpuAccess::ExistingSysMem];
        lacking.set(Features::SYSTEM_COPIES, kinds.into_iter().any(|cpu| !umd.has(&system(cpu))));
        lacking.set(Features::NAMED_SEGMENTS, !with(CpuAccess::None) || !umd.has(&system(CpuAccess::None)));
    }
    lacking
}

/// The features that machines of a driver lack.
fn lacks(driver: &Driver, info: &AdapterInfo, source: &DataSource, resets_engines: bool) -> Features {
    let has = |flag| info.segments.iter().any(|segment| segment.flags.contains(flag));
    let is_memory = |flags: SegmentFlags| !flags.contains(SegmentFlags::APERTURE);
    let has_memory = info.segments.iter().any(|segment| is_memory(segment.flags));
    let has_engine = |kind| info.engines.iter().any(|engine| engine.kind == kind);
    let ddi = &driver.0.ddi;
    let is_physical = info.addressing_model == AddressingModel::Physical;
    let mut lacks = Features::models_except(info.addressing_model)
        | Features::MORE_SEGMENTS
        | Features::LINKED_ADAPTERS
        | Features::DEPENDENT_ENGINES
        | Features::MAP_APERTURE2
        | Features::PAGING_VA_SIZE
        | Features::BUSY_ANSWERS
        | Features::PLACEMENT
        | Features::COSTS
        | Features::INNER_FAULTS
        | Features::ILLEGAL_COMMANDS
        | Features::MODEL_OCCASIONS
        | Features::TABLE_SHAPE;
    lacks.set(Features::LOCAL_MEMORY, !has_memory);
    lacks.set(Features::APERTURE, !has(SegmentFlags::APERTURE));
    // Worlds of older versions are those without an aperture (SEG-10). A driver that chooses the segments knows of it.
    let is_told = source.names_segments();
    let may_have_none = !has(SegmentFlags::APERTURE) || is_told && description::may_leave_out_aperture(info);
    lacks.set(Features::OLDER_VERSIONS, !is_physical || !may_have_none);
    lacks.set(Features::PAGES_4KIB, has(SegmentFlags::USE_64KB_PAGES));
    lacks.set(Features::PAGES_64KIB, !has(SegmentFlags::USE_64KB_PAGES));
    lacks.set(Features::SYSTEM_PAGE_TABLES, !description::has_tables_in_system_memory(info));
    lacks |= Features::CPU_TABLES | Features::VIRTUAL_TABLES;
    lacks.set(Features::PAGING_ENGINE, info.engines.len() < 2);
    lacks.set(Features::COPY_ENGINE, !has_engine(EngineKind::Copy));
    // Dxgkrnl knows of no private data that asks for notices, and allocations of older versions have no such flags (CRE-07).
    let is_notified = is_told && !is_physical && info.wddm_version >= WddmVersion::WDDM3_2;
    lacks.set(Features::NOTIFICATIONS, !is_notified);
    lacks.set(Features::COMPRESSION, !is_notified || driver.0.gpu().is_none_or(|gpu| gpu.Compresses == 0));
    if !is_told {
        lacks |= Features::NAMED_SEGMENTS | Features::SYSTEM_COPIES;
        // Recorded private data does not say whether the CPU sees the allocation.
        lacks.set(Features::CPU_ACCESS, source.is_recorded());
    }
    if driver.0.gpu().is_none() {
        lacks |= Features::OWN_COMMANDS | Features::PROBE;
    } else {
        lacks.set(Features::ENGINE_RESET, !resets_engines || ddi.DxgkDdiResetEngine.is_none());
        lacks.set(
            Features::ADAPTER_RESET,
            ddi.DxgkDdiResetFromTimeout.is_none() || ddi.DxgkDdiRestartFromTimeout.is_none(),
        );
        lacks.set(Features::FAULT_REPORTS, ddi.DxgkDdiInterruptRoutine.is_none());
    }
    lacks
}

impl fmt::Display for DriverMachines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |segment: &SegmentDescriptor| {
            let kind = if segment.flags.contains(SegmentFlags::APERTURE) { "aperture" } else { "memory" };
            format!("{} MiB of {kind}", segment.size >> 20)
        };
        let segments: Vec<String> = self.info.segments.iter().map(mib).collect();
        let engines = self.info.engines.len();
        let gpu = if self.has_gpu() { "a model of its GPU" } else { "no model of its GPU" };
        write!(f, "{:?}, {}, engines: {engines}, {gpu}", self.info.addressing_model, segments.join(", "))
    }
}

impl MachineFactory for DriverMachines {
    fn name(&self) -> &str {
        &self.name
    }

    fn lacks(&self) -> Features {
        self.lacks
    }

    fn largest_allocation(&self) -> Option<u64> {
        self.source.largest_allocation()
    }

    fn bench(&self) -> Bench {
        Bench { verify: true, ..Bench::default() }
    }

    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        self.fail_at(0);
        let adapter = self.adapter()?;
        let mut info = description::describe(&adapter)?;
        let sizes = Sizes {
            local: desc.local_memory_bytes,
            aperture: desc.aperture_bytes,
            aperture_commit_limit: desc.aperture_commit_limit_bytes,
            slots: desc.num_slots,
        };
        description::shrink(&adapter, &mut info, sizes).inspect_err(|lack| self.note_lack(lack))?;
        self.fail_at(self.fail_at.load(Ordering::Relaxed));
        let umd = Box::new(DdiUmd::new(Rc::clone(&adapter), self.source.clone()));
        if !self.has_gpu() {
            let kmd = Box::new(DdiKmd::new(adapter, info, true));
            let machine = semantic_machine(kmd, umd, CostModel::default(), ModelGpuFaults::default(), None);
            return machine.map_err(|error| error.to_string());
        }
        let system = SystemMemory::new();
        let host = SoftHost::new(system.clone(), IoMmu::new(), None);
        let memory = Rc::new(Memory::new(&info, system));
        adapter.set_memory(Rc::clone(&memory));
        let gpu = DdiGpu::new(Rc::clone(&adapter), memory, info.engines.len());
        Ok(Machine {
            kmd: Box::new(DdiKmd::new(adapter, info, false)),
            umd,
            gpu: Box::new(gpu),
            cpu: Box::new(host.cpu_addresses().clone()),
            host: Box::new(host),
            fault_switch: FaultSwitch::default(),
        })
    }
}
