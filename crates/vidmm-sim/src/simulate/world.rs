//! A world: the machine, the number of programs, and their mistakes.

use vidmm::contract::AddressingModel;
use vidmm::policy::PolicyChoice;
use vidmm::{NotificationRevision, PAGE_SIZE, PreparationKnobs};
use vidmm_runtime::{DriverFault, GpuFault, InterruptFault};
use vidmm_trace::{ByteSize, LocalMemory};

use super::dice::Dice;
use super::habits::Habits;
use super::profile::Profile;
use crate::features::Features;
use crate::policies;
use crate::scenario::{
    AdapterSettings, CostSettings, Duration, EngineName, ExplicitScenario, Fault, FaultKind, JudgedBy, LinkedAdapter,
    MoreAperture, MoreMemory, PageSize, PageTables, PagingVa, UpdateMode, VerifierSettings, Wddm, When,
    WriteBehindSettings,
};

/// The draws of a seed before the first step.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// The machine and its faults, without steps.
    pub scenario: ExplicitScenario,
    /// The number of processes that may live at one time.
    pub max_processes: usize,
    /// The number of allocations that may live at one time.
    pub max_allocations: usize,
    /// In percent, how often a program makes a mistake.
    pub misuse: u64,
    /// Whether processes are killed and suspended, and the adapter loses power.
    pub has_upheavals: bool,
    /// Whether the driver hears where in memory segments allocations are (BPB-51).
    pub tells_residency: bool,
    /// Whether engines address some allocations physically that lie among pages in a memory segment.
    pub has_ranges: bool,
    /// The moves that programs make often, and those that they never make.
    pub habits: Habits,
    /// The features that the machine lacks.
    pub lacks: Features,
    /// The bytes of the largest allocation that its driver creates; none if it creates any.
    pub largest_allocation: Option<u64>,
}

/// The mistakes that a right manager survives: those of engines, of their interrupts, of programs' kernels, and answers of a driver
/// that no document allows.
const SURVIVED: [FaultKind; 28] = [
    FaultKind::HangPacket,
    FaultKind::HangPagingBuffer,
    FaultKind::ForgePageFault,
    FaultKind::ForgePagingFault,
    FaultKind::LieAboutEngineReset,
    FaultKind::Gpu(GpuFault::IgnorePreempt),
    FaultKind::Gpu(GpuFault::FailEngineReset),
    FaultKind::Gpu(GpuFault::IgnoreEngineReset),
    FaultKind::Gpu(GpuFault::FailRestart),
    FaultKind::Gpu(GpuFault::LoseInterrupt),
    FaultKind::Gpu(GpuFault::DelayInterrupt),
    FaultKind::Gpu(GpuFault::RepeatInterrupt),
    FaultKind::Gpu(GpuFault::ForgeInterrupt),
    FaultKind::Gpu(GpuFault::SwapInterrupts),
    FaultKind::Gpu(GpuFault::ForgeStatus),
    FaultKind::Interrupt(InterruptFault::HideFaultedFence),
    FaultKind::Interrupt(InterruptFault::RequireAdapterReset),
    FaultKind::Interrupt(InterruptFault::RequireNoReset),
    FaultKind::Interrupt(InterruptFault::ReportFatalError),
    FaultKind::Interrupt(InterruptFault::GarbleFaultedFence),
    FaultKind::Interrupt(InterruptFault::GarbleFaultedEngine),
    FaultKind::Driver(DriverFault::NoMemory),
    FaultKind::Driver(DriverFault::StandStill),
    FaultKind::Driver(DriverFault::StayBusy),
    FaultKind::Driver(DriverFault::AnswerNotSupported),
    FaultKind::Driver(DriverFault::ReverseSplitOffsets),
    FaultKind::FailCommit,
    FaultKind::FailUserModeVaMapping,
];

/// Mistakes that are drawn beside the others, so that the draws of those stay as they were.
const LATER_FAULTS: [FaultKind; 4] = [
    FaultKind::Driver(DriverFault::SlotBeyondTable),
    FaultKind::Driver(DriverFault::PatchAcrossSplit),
    FaultKind::Gpu(GpuFault::AbortEndedPacket),
    FaultKind::Gpu(GpuFault::RepeatAnswer),
];

impl World {
    /// Draws the world of a seed, for a machine that lacks these features.
    ///
    /// # Errors
    ///
    /// Returns the features without which no world of the profile can be drawn.
    pub fn draw(seed: u64, profile: Profile, lacks: Features, dice: &mut Dice) -> Result<Self, Features> {
        let is_speed = profile == Profile::Speed;
        let models = if is_speed { &MODELS[..1] } else { &MODELS };
        let models = Vec::from_iter(models.iter().copied().filter(|&(_, model)| has_model(lacks, model)));
        let addressing_model = match models[..] {
            [] => return Err(lacks),
            _ if is_speed => AddressingModel::GpuMmu,
            _ => dice.weighted(&models),
        };
        let mut adapter = adapter(addressing_model, lacks, dice);
        let has_local_memory = adapter.has_local_memory();
        let local_memory = match adapter.page_size {
            _ if is_speed => 16 << 20,
            PageSize::Kib64 => dice.log_within(2, 24) << 20,
            PageSize::Kib4 => dice.log_within(8, 512) << 16,
        };
        let aperture = dice.log_within(16, 512) << 14;
        let aperture = if has_local_memory { aperture } else { aperture.max(1 << 20) };
        let aperture_commit_limit_bytes = dice.chance(25).then(|| (aperture / 2).max(1 << 16) & !0xFFFF);
        let mut aside = Dice::aside(seed);
        let has = |features| !lacks.intersects(features);
        if !is_speed && has_local_memory && has(Features::MORE_SEGMENTS) && aside.chance(20) {
            adapter.more_memory = more_memory(local_memory, &mut aside);
            adapter.local_memory_cpu_visible = aside.chance(30);
        }
        let may_have_none = !is_speed && has_local_memory && adapter.is_physical() && has(Features::OLDER_VERSIONS);
        let has_no_aperture = !has(Features::APERTURE) || may_have_none && aside.chance(15);
        if has_no_aperture && adapter.is_physical() {
            adapter.wddm = Wddm::V1_3;
        }
        let may_have_more = adapter.is_physical() && has(Features::MORE_SEGMENTS.union(Features::OLDER_VERSIONS));
        if !is_speed && may_have_more && !has_no_aperture && aside.chance(20) {
            adapter.wddm = Wddm::V1_3;
            adapter.more_apertures = more_apertures(aperture, &mut aside);
        }
        let knows_residency = adapter.is_physical() && adapter.wddm != Wddm::V1_3;
        let tables_are_elsewhere =
            addressing_model == AddressingModel::GpuMmu && adapter.page_tables() == PageTables::System;
        let may_have_ranges = !is_speed && has_local_memory && tables_are_elsewhere && has(Features::PLACEMENT);
        let mut has_ranges = may_have_ranges && aside.chance(60);
        let tells_residency = !is_speed && knows_residency && has(Features::NOTIFICATIONS) && aside.chance(25);
        let has_tables = addressing_model == AddressingModel::GpuMmu && adapter.page_tables() == PageTables::Local;
        if !is_speed && has_tables && aside.chance(25) {
            adapter.page_table_area = page_table_area(local_memory, adapter.page_size, &mut aside);
            has_ranges = has(Features::PLACEMENT);
        }
        adapter.policy = if is_speed { PolicyChoice::LRU } else { policy(seed) };
        let may_have_second_form = !is_speed && adapter.wddm == Wddm::V3_2 && has(Features::MAP_APERTURE2);
        adapter.map_aperture2 = may_have_second_form && aside.chance(40);
        // Drawn last, so that the other draws of a seed stay as they were.
        if !is_speed && has(Features::PAGING_ENGINE) && aside.chance(10) {
            adapter.engines = 1;
            adapter.dependent_engines.clear();
        }
        if !is_speed && tables_are_elsewhere && has(Features::CPU_TABLES) && aside.chance(60) {
            adapter.update_mode = UpdateMode::CpuVirtual;
        }
        let may_have_views =
            addressing_model == AddressingModel::GpuMmu && adapter.update_mode == UpdateMode::GpuPhysical;
        if !is_speed && may_have_views && has(Features::VIRTUAL_TABLES) && aside.chance(20) {
            adapter.update_mode = UpdateMode::GpuVirtual;
        }
        if !is_speed && aside.chance(15) {
            adapter.verifier = verifier(&mut aside);
        }
        // Processes that sleep give their memory away after moments in most worlds, so that some do.
        if !is_speed && aside.chance(60) {
            adapter.exchange_after = Duration { ns: aside.log_within(1 << 18, 1 << 30) };
        }
        let is_host_short = aside.chance(18);
        let aperture = if has_no_aperture { 0 } else { aperture };
        let aperture_commit_limit_bytes = aperture_commit_limit_bytes.filter(|_| !has_no_aperture);
        let is_calm = matches!(profile, Profile::Calm | Profile::Speed) || dice.chance(50);
        let mut faults = if is_calm { Vec::new() } else { faults(lacks, dice) };
        // A host with little memory refuses again and again: once is seldom enough to find something offered that can go for it.
        let may_refuse = !is_calm && !FaultKind::FailCommit.needs().intersects(lacks);
        if may_refuse && is_host_short && !faults.iter().any(|fault| fault.kind == FaultKind::FailCommit) {
            let when = When::OneIn(aside.log_within(3, 48));
            faults.push(Fault { kind: FaultKind::FailCommit, when });
        }
        adapter.cache_coherent_memory = !is_speed && aside.chance(50);
        let may_be_by_cpu = match adapter.update_mode {
            UpdateMode::CpuVirtual => false,
            UpdateMode::GpuVirtual => true,
            UpdateMode::GpuPhysical => tables_are_elsewhere,
        };
        adapter.paging_tables_by_cpu = !is_speed && may_be_by_cpu && has(Features::CPU_TABLES) && aside.chance(25);
        if !is_speed && aside.chance(8) {
            let budgets =
                [&mut adapter.verifier.restrict_budget_local, &mut adapter.verifier.restrict_budget_non_local];
            for (restricted, bytes) in budgets.into_iter().zip([local_memory, aperture]) {
                *restricted = aside.chance(60).then(|| ByteSize(aside.log_within(1, bytes.max(2))));
            }
        }
        // Programs whose work hangs end before they have hung often.
        if !is_speed && !is_calm && aside.chance(25) {
            adapter.tdr.limit_count = aside.within(1, 3) as u32;
            // So long that resets of an adapter which hangs again and again come to an end.
            adapter.tdr.limit_time = Duration { ns: aside.within(30, 60) * 1_000_000_000 };
        }
        if !is_calm && aside.chance(25) {
            let kind = aside.pick(&LATER_FAULTS).filter(|kind: &FaultKind| !kind.needs().intersects(lacks));
            faults.extend(kind.map(|kind| Fault { kind, when: When::OneIn(aside.log_within(1, 16)) }));
        }
        // Those in system memory, which the CPU sets up, have the same shape and are pages (GVA-33).
        let all_are_local = adapter.page_table_area.bytes() > 0 && adapter.update_mode != UpdateMode::GpuVirtual;
        if !is_speed && all_are_local && has(Features::TABLE_SHAPE) && aside.chance(40) {
            draw_larger_tables(&mut adapter, local_memory);
        }
        // So short that kernels of worlds run for longer, or no longer than the time between two looks at them.
        if !is_speed && has(Features::PREEMPTION) && aside.chance(20) {
            adapter.tdr.quantum = Duration { ns: aside.log_within(10_000, 50_000_000) };
        }
        if adapter.is_physical() && has_local_memory && has(Features::PLACEMENT) && aside.chance(30) {
            adapter.banks = banks(local_memory, &mut aside);
        }
        // So short that work which runs for long counts as hung, and ends while its engine is reset.
        if !is_speed && !is_calm && aside.chance(12) {
            adapter.tdr.delay = Duration { ns: aside.log_within(100_000, 100_000_000) };
        }
        // So slow that what was under way before is reported amid the reset, if it is reported late.
        let slow_reset =
            (!is_speed && !is_calm && aside.chance(15)).then(|| aside.log_within(100_000_000, 3_000_000_000));
        let latency_seed = (!is_speed && aside.chance(50)).then(|| aside.within(1, i64::MAX as u64));
        // Of a segment of more than 64 MiB, large holes are kept apart.
        let may_be_large = has_local_memory && has(Features::MORE_SEGMENTS);
        let is_large = !is_speed && may_be_large && aside.chance(4);
        let local_memory = if is_large { local_memory.max(aside.within(72, 160) << 20) } else { local_memory };
        adapter.zero_in_pte = !is_speed && aside.chance(60);
        let may_have_shapes = addressing_model == AddressingModel::GpuMmu && has(Features::TABLE_SHAPE);
        if !is_speed && may_have_shapes && aside.chance(40) {
            draw_large_pages(&mut adapter, &mut aside);
        }
        if !is_speed && may_have_shapes && aside.chance(15) {
            draw_two_levels(&mut adapter, &mut aside);
        }
        // A small segment in the CPU's sight comes before a larger segment.
        if !adapter.more_memory.is_empty() && aside.chance(75) {
            adapter.local_memory_cpu_visible = true;
            adapter.more_memory[0] = larger_memory(local_memory, &mut aside);
        }
        // Engines ignore requests to yield, and end their packets shortly before or after the delay.
        if !is_speed && !is_calm && has(Features::PREEMPTION) && aside.chance(15) {
            adapter.tdr.quantum = Duration { ns: aside.log_within(10_000, 1_000_000) };
            adapter.tdr.delay = Duration { ns: aside.log_within(100_000, 10_000_000) };
            if adapter.engines > 1 && has(Features::DEPENDENT_ENGINES) {
                adapter.dependent_engines = vec![vec![EngineName::Render, EngineName::Copy]];
            }
            let ignores = FaultKind::Gpu(GpuFault::IgnorePreempt);
            if !ignores.needs().intersects(lacks) && !faults.iter().any(|fault| fault.kind == ignores) {
                faults.push(Fault { kind: ignores, when: When::OneIn(aside.log_within(1, 8)) });
            }
        }
        let (max_processes, max_allocations) = match profile {
            Profile::Speed => (4, 64),
            // Page tables stay as long as their process, and take up to half a MiB of pages of 64 KiB. So a list that
            // was admitted before need not fit beside the tables of many more processes (a known limit).
            _ => {
                let most = if has_local_memory { (local_memory >> 21).clamp(1, 64) } else { 64 };
                (dice.log_within(1, most) as usize, dice.log_within(2, 64) as usize)
            }
        };
        let habits = Habits::draw(seed, profile);
        let spills = habits.spills;
        // Two processes, of which the first sleeps, leave little room to the tables of further processes.
        let max_processes =
            if spills && (!has_tables || local_memory >= 4 << 20) { max_processes.max(2) } else { max_processes };
        // Enough allocations to fill local memory, and beside full local memory room in system memory.
        let max_allocations =
            if spills { max_allocations.max(2 * habits.largest_part as usize) } else { max_allocations };
        let aperture = if spills && aperture > 0 { aperture.max(local_memory) } else { aperture };
        if spills {
            // Long kernels seldom yield: yields would take most steps.
            adapter.tdr.quantum.ns = adapter.tdr.quantum.ns.max(habits.kernel.1);
            adapter.exchange_after = Duration { ns: aside.log_within(1 << 18, 1 << 28) };
        }
        // Only of local memory with page tables; elsewhere the manager copies nothing ahead.
        let is_likely = if habits.lazy_evictions > 50 { 90 } else { 30 };
        if !is_speed && has_local_memory && aside.chance(is_likely) {
            let (watermark, link) = (aside.within(1, 100) as u8, aside.within(1, 100) as u8);
            adapter.write_behind = WriteBehindSettings { watermark, link };
        }
        adapter.copies_both_ways = !is_speed && aside.chance(30);
        let bus_gb_per_s = dice.pick(&[1.0, 12.0, 25.0, 100.0]).unwrap_or(25.0);
        // Work comes between the parts of a copy ahead only where a part takes long.
        let copies_slowly = adapter.write_behind.watermark > 0 && aside.chance(40);
        let bus_gb_per_s = if copies_slowly { 0.05 } else { bus_gb_per_s };
        let reset = dice.log_within(1000, 100_000_000);
        let scenario = ExplicitScenario {
            shows: None,
            name: format!("seed-{seed}"),
            seed,
            fault_at_seed: None,
            adapter,
            cost: CostSettings {
                bus_gb_per_s,
                kernel_read_gb_per_s: None,
                kernel_write_gb_per_s: None,
                local_gb_per_s: 800.0,
                reset: Duration { ns: slow_reset.unwrap_or(reset) },
                latency_seed,
            },
            faults,
            local_memory_bytes: if has_local_memory { local_memory } else { 0 },
            aperture_bytes: aperture,
            aperture_commit_limit_bytes,
            judged_by: JudgedBy::Rules,
            strict: false,
            steps: Vec::new(),
        };
        // A program's mistake may end with a fault.
        let misuse = if is_calm || !has(Features::RECOVERY) { 0 } else { dice.within(0, 8) };
        let has_upheavals = !is_speed && dice.chance(50);
        Ok(Self {
            scenario,
            max_processes,
            max_allocations,
            misuse,
            has_upheavals,
            tells_residency,
            has_ranges,
            habits,
            lacks,
            largest_allocation: None,
        })
    }
}

/// The ends of two to four banks of local memory, the last of which may be left out (SEG-31).
fn banks(local_memory: u64, dice: &mut Dice) -> Vec<ByteSize> {
    let most = (local_memory / vidmm::PAGE_SIZE - 1).min(3);
    let count = dice.within(1, most.max(1));
    let mut ends: Vec<u64> = (0..count).map(|_| dice.within(1, local_memory / vidmm::PAGE_SIZE - 1)).collect();
    ends.sort_unstable();
    ends.dedup();
    ends.extend(dice.chance(50).then_some(local_memory / vidmm::PAGE_SIZE));
    ends.into_iter().map(|end| ByteSize(end * vidmm::PAGE_SIZE)).collect()
}

/// The addressing models, and how often each is drawn.
const MODELS: [(u32, AddressingModel); 4] = [
    (5, AddressingModel::GpuMmu),
    (2, AddressingModel::GpuVaIoMmu),
    (1, AddressingModel::GpuVaIoMmuGlobal),
    (3, AddressingModel::Physical),
];

/// Whether a machine that lacks these features has an addressing model, and memory and pages for it.
fn has_model(lacks: Features, model: AddressingModel) -> bool {
    let pages = Features::PAGES_4KIB | Features::PAGES_64KIB;
    let has = |features| !lacks.intersects(features);
    if !has(Features::of_model(model)) {
        return false;
    }
    match model {
        AddressingModel::GpuMmu => has(Features::APERTURE) || has(Features::LOCAL_MEMORY) && !lacks.contains(pages),
        // Without an aperture a driver that patches is one of WDDM 1.3 (SEG-10).
        AddressingModel::Physical => {
            has(Features::APERTURE) || has(Features::LOCAL_MEMORY.union(Features::OLDER_VERSIONS))
        }
        AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal => has(Features::APERTURE),
    }
}

fn adapter(addressing_model: AddressingModel, lacks: Features, dice: &mut Dice) -> AdapterSettings {
    let has = |features| !lacks.intersects(features);
    let is_physical = addressing_model == AddressingModel::Physical;
    let is_behind_io_mmu = !matches!(addressing_model, AddressingModel::GpuMmu | AddressingModel::Physical);
    let has_pages = is_physical || !lacks.contains(Features::PAGES_4KIB | Features::PAGES_64KIB);
    let reaches_local = !is_behind_io_mmu && has(Features::LOCAL_MEMORY) && has_pages;
    let page_size = match (has(Features::PAGES_4KIB), has(Features::PAGES_64KIB)) {
        (true, true) if is_physical || dice.chance(50) => PageSize::Kib4,
        (_, true) if !is_physical => PageSize::Kib64,
        _ => PageSize::Kib4,
    };
    // The device caches what the IOMMU translates. Without the notification of today its driver could not flush that
    // cache.
    let has_device_cache = is_behind_io_mmu;
    let default = AdapterSettings::default();
    AdapterSettings {
        addressing_model,
        engines: lacks.engines_max(),
        local_memory: (!is_behind_io_mmu && !reaches_local).then_some(LocalMemory::Bytes(ByteSize(0))),
        page_size,
        dual_pte: (page_size == PageSize::Kib64 && dice.chance(30)).then_some(false),
        invalid_tlb_entries_not_cached: dice.chance(70),
        page_tables: (!reaches_local || has(Features::SYSTEM_PAGE_TABLES) && dice.chance(15))
            .then_some(PageTables::System),
        paging_buffer: ByteSize::kib(dice.pick(&[4, 4, 8, 64]).unwrap_or(64)),
        max_command: ByteSize::kib(dice.log_within(1, 1024) << 2),
        paging_va_mib: match dice.below(4) {
            0 => PagingVa::Fails,
            _ if !has(Features::PAGING_VA_SIZE) => PagingVa::Mib(0),
            1 => PagingVa::Mib(0),
            _ => PagingVa::Mib(dice.log_within(1, 64) as u32),
        },
        paging_va_without_local_memory: dice.chance(50),
        cache_coherent_aperture: dice.chance(50),
        scheduling_log: dice.chance(60).then(|| ByteSize::mib(dice.log_within(1, 16))),
        linked_adapters: match addressing_model {
            AddressingModel::GpuMmu if has(Features::LINKED_ADAPTERS) && dice.chance(5) => {
                vec![LinkedAdapter::default()]
            }
            _ => Vec::new(),
        },
        notification_revision: match !has_device_cache && dice.chance(15) {
            false => NotificationRevision::Current,
            true => NotificationRevision::August2024,
        },
        wddm: match has_device_cache || !has(Features::OLDER_VERSIONS) || dice.chance(80) {
            true => Wddm::V3_2,
            false => Wddm::V2_0,
        },
        busy_notify_every: (has(Features::BUSY_ANSWERS) && dice.chance(40)).then(|| dice.within(1, 9) as u32),
        busy_every: (has(Features::BUSY_ANSWERS) && dice.chance(40)).then(|| dice.within(1, 9) as u32),
        slots: if is_physical { dice.log_within(2, 32) as u32 } else { default.slots },
        preemption_aware: is_physical && dice.chance(30),
        preparation: if is_physical { preparation(dice) } else { PreparationKnobs::default() },
        buggify: dice.chance(40).then(|| dice.within(1, i64::MAX as u64)),
        dependent_engines: match dice.below(10) {
            _ if !has(Features::DEPENDENT_ENGINES) => Vec::new(),
            0 => vec![vec![EngineName::Render, EngineName::Copy]],
            1 => vec![vec![EngineName::Render, EngineName::Paging]],
            _ => Vec::new(),
        },
        ..default
    }
}

/// Knobs that make the consequences of mistakes come at once: each in half of the worlds that have any.
fn verifier(dice: &mut Dice) -> VerifierSettings {
    VerifierSettings {
        force_synchronous_evict: dice.chance(50),
        never_defer_evictions: dice.chance(50),
        always_discard_offer: dice.chance(50),
        ..VerifierSettings::default()
    }
}

/// The documented order in half of the worlds.
fn policy(seed: u64) -> PolicyChoice {
    let mut dice = Dice::of_policy(seed);
    let drawn = if dice.chance(50) { None } else { dice.pick(&policies::all()) };
    drawn.unwrap_or_default().with_seed(seed)
}

/// An area with room for the tables of the paging process and of some others.
fn page_table_area(local_memory: u64, page_size: PageSize, dice: &mut Dice) -> ByteSize {
    let page = page_size.bytes();
    ByteSize(dice.log_within(16, local_memory / 2 / page) * page)
}

/// Tables of two pages in their area, which has room for as many as one of tables of a page has at the least (GVA-15).
fn draw_larger_tables(adapter: &mut AdapterSettings, local_memory: u64) {
    let table = 2 * PAGE_SIZE;
    let area = adapter.page_table_area.bytes().max(16 * table).next_multiple_of(table);
    if adapter.page_size == PageSize::Kib4 && area <= local_memory / 2 {
        adapter.page_table_area = ByteSize(area);
        adapter.page_table_bits = Some(vec![10, 9, 9]);
    }
}

/// Large pages, of leaf tables so small that allocations of worlds have some.
fn draw_large_pages(adapter: &mut AdapterSettings, dice: &mut Dice) {
    (adapter.large_pages, adapter.large_pages_anywhere) = (true, dice.chance(30));
    adapter.large_pages_in_system_memory = dice.chance(50);
    let mut bits = adapter.page_table_bits();
    // Of pages of 64 KiB each table takes one.
    let takes_large_pages = adapter.page_tables() == PageTables::Local && adapter.page_size == PageSize::Kib64;
    let leaf = if takes_large_pages { dice.within(7, 9) } else { dice.within(4, 6) } as u32;
    if let Some(more) = bits[0].checked_sub(leaf).filter(|&more| more > 0) {
        bits[0] = leaf;
        bits.push(more);
        adapter.page_table_bits = Some(bits);
    }
}

/// Two levels of tables, whose root grows (GVA-18), with a root as large as a page of where tables are.
fn draw_two_levels(adapter: &mut AdapterSettings, dice: &mut Dice) {
    let is_paged_large = adapter.page_tables() == PageTables::Local && adapter.page_size == PageSize::Kib64;
    let all_are_large = is_paged_large && adapter.update_mode != UpdateMode::GpuVirtual;
    let entries = if all_are_large { 13 } else { 9 };
    let leaf = adapter.page_table_bits()[0].min(entries - dice.below(2) as u32);
    let root = entries - u32::from(adapter.dual_pte());
    // Addresses for what worlds have, and for windows.
    if leaf + root >= 17 {
        adapter.page_table_bits = Some(vec![leaf]);
        adapter.virtual_address_bits = Some(12 + leaf + root);
    }
}

/// One or two further memory segments, some smaller than local memory.
fn more_memory(local_memory: u64, dice: &mut Dice) -> Vec<MoreMemory> {
    let one = |dice: &mut Dice| MoreMemory {
        size: ByteSize(dice.log_within(1, (local_memory >> 16).max(2)) << 16),
        cpu_visible: dice.chance(50),
    };
    let count = 1 + dice.below(2);
    (0..count).map(|_| one(dice)).collect()
}

/// A memory segment that is larger than local memory, hidden from the CPU.
fn larger_memory(local_memory: u64, dice: &mut Dice) -> MoreMemory {
    MoreMemory { size: ByteSize(local_memory * dice.within(2, 16)), cpu_visible: false }
}

/// One or two further apertures, each of about the size of the first one.
fn more_apertures(first: u64, dice: &mut Dice) -> Vec<MoreAperture> {
    let one = |dice: &mut Dice| {
        let size = dice.log_within(1, (first >> 14).max(2)) << 16;
        let commit_limit = dice.chance(25).then(|| ByteSize((size / 2).max(1 << 16)));
        MoreAperture { size: ByteSize(size), commit_limit, cache_coherent: dice.chance(50) }
    };
    let count = 1 + dice.below(2);
    (0..count).map(|_| one(dice)).collect()
}

fn preparation(dice: &mut Dice) -> PreparationKnobs {
    PreparationKnobs {
        take_split_point: dice.chance(15),
        never_prepatch: dice.chance(20),
        always_repatch: dice.chance(20),
        expect_preparation_failure: dice.chance(20),
        accept_max_slot_id: false,
    }
}

/// A few mistakes, each at one of its first occasions, or again and again.
fn faults(lacks: Features, dice: &mut Dice) -> Vec<Fault> {
    let survived = Vec::from_iter(SURVIVED.into_iter().filter(|kind| !kind.needs().intersects(lacks)));
    let kinds = dice.some(&survived, 3);
    // Resets and faults are seldom: what happens at them has few occasions.
    let is_seldom = |kind| {
        use GpuFault::{FailEngineReset, FailRestart, IgnoreEngineReset};
        matches!(kind, FaultKind::Interrupt(_) | FaultKind::Gpu(FailRestart | FailEngineReset | IgnoreEngineReset))
    };
    let when = |kind, dice: &mut Dice| match dice.chance(60) {
        true if is_seldom(kind) => When::Nth(dice.within(1, 2)),
        true => When::Nth(dice.log_within(1, 200)),
        false => When::OneIn(dice.log_within(1, if is_seldom(kind) { 2 } else { 500 })),
    };
    let mut faults: Vec<Fault> = kinds.iter().map(|&kind| Fault { kind, when: when(kind, dice) }).collect();
    // A restart can fail only where the adapter is reset, as it is for a paging buffer that hangs.
    let (fails, hangs) = (FaultKind::Gpu(GpuFault::FailRestart), FaultKind::HangPagingBuffer);
    if kinds.contains(&fails) && survived.contains(&hangs) && !kinds.contains(&hangs) {
        faults.push(Fault { kind: hangs, when: When::Nth(dice.within(1, 40)) });
    }
    faults
}
