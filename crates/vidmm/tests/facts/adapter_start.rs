//! Adapter start: whatever a driver reports is checked, and each broken rule is named (U-1, sections 1 and 4).

use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

fn start(driver: &mut Driver, host: &mut Ledger) -> Result<VidMm, Vec<BrokenRule>> {
    VidMm::start_adapter(AdapterOptions { events: true, ..AdapterOptions::default() }, driver, host)
        .map_err(|error| error.broken_rules)
}

/// The rules that the report of a usual adapter breaks after `change`.
fn broken(change: impl FnOnce(&mut AdapterInfo)) -> Vec<BrokenRule> {
    broken_of(Config::default(), change)
}

fn broken_of(config: Config, change: impl FnOnce(&mut AdapterInfo)) -> Vec<BrokenRule> {
    let mut driver = Driver::new(&config);
    change(&mut driver.info);
    start(&mut driver, &mut Ledger::default()).err().unwrap_or_default()
}

/// Engines use physical addresses.
fn make_physical(info: &mut AdapterInfo) {
    info.addressing_model = AddressingModel::Physical;
    info.page_table_levels.clear();
    info.patching.max_allocation_list_slot_id = 4;
}

/// The size of the paging process's windows (U-16).
fn paging_va_size(config: Config) -> u64 {
    let mut vidmm = start(&mut Driver::new(&config), &mut Ledger::default()).unwrap();
    let started = vidmm.events().drain().find_map(|numbered| match numbered.event {
        Event::AdapterStarted { paging_va_size, .. } => Some(paging_va_size),
        _ => None,
    });
    started.unwrap()
}

fn nine_bits(segment_mib: u64) -> Config {
    Config { segment_bytes: segment_mib << 20, level_bits: vec![9, 9, 9], ..Config::default() }
}

#[test]
fn a_usual_report_breaks_no_rule() {
    assert_eq!(broken(|_| {}), []);
    assert_eq!(broken_of(Config::pages_64kb(16, true), |_| {}), []);
    assert_eq!(broken_of(Config { tables_in_system: false, ..Config::default() }, |_| {}), []);
}

/// GVA-11, GVA-15, GVA-16: the root of two levels may have nothing at first, and is as large as its driver says for all the entries
/// that addresses have.
#[test]
fn the_driver_says_how_large_the_root_of_two_levels_is() {
    let table_bytes = |root_bytes| {
        let mut driver = Driver::new(&Config { level_bits: vec![4, 9], first_root_bits: Some(0), ..Config::default() });
        driver.root_bytes = root_bytes;
        let started = start(&mut driver, &mut Ledger::default());
        assert_eq!(driver.roots_asked, [512]);
        let table_bytes = |event| match event {
            Event::AdapterStarted { table_bytes, .. } => Some(table_bytes),
            _ => None,
        };
        started.map(|mut vidmm| vidmm.events().drain().find_map(|numbered| table_bytes(numbered.event)).unwrap())
    };
    assert_eq!(table_bytes(Some(4096)), Ok(vec![4096, 4096]));
    let too_small = |size| Err(vec![BrokenRule::TableSize { level: 1, size, entries: 512 }]);
    assert_eq!(table_bytes(Some(4000)), too_small(4000));
    assert_eq!(table_bytes(None), too_small(0));
    let mut of_three_levels = Driver::new(&Config::default());
    start(&mut of_three_levels, &mut Ledger::default()).unwrap();
    assert_eq!(of_three_levels.roots_asked, [0; 0]);
}

/// SEG-05: 1 to 32 segments.
#[test]
fn the_number_of_segments_is_bounded() {
    assert_eq!(broken(|info| info.segments.clear()), [BrokenRule::SegmentCount(0)]);
    let many = |info: &mut AdapterInfo| info.segments = vec![info.segments[1]; 33];
    assert_eq!(broken(many), [BrokenRule::SegmentCount(33)]);
}

/// SEG-06.
#[test]
fn a_segment_is_made_of_whole_pages() {
    for size in [0, 1, 4097] {
        let resize = |info: &mut AdapterInfo| {
            (info.segments[0].size, info.segments[0].commit_limit) = (size, size);
        };
        assert_eq!(broken(resize), [BrokenRule::SegmentSize { segment: 1, size, page_size: 4096 }]);
    }
    let odd = |info: &mut AdapterInfo| {
        (info.segments[0].size, info.segments[0].commit_limit) = (68 << 10, 68 << 10);
    };
    let broken = broken_of(Config::pages_64kb(4, false), odd);
    assert_eq!(broken, [BrokenRule::SegmentSize { segment: 1, size: 68 << 10, page_size: 64 << 10 }]);
}

/// SEG-05.
#[test]
fn segments_lie_apart_and_inside_the_address_space() {
    assert_eq!(broken(|info| info.segments[1].base_address = u64::MAX - 10), [BrokenRule::SegmentOverflow(2)]);
    assert_eq!(broken(|info| info.segments[1].base_address = 4096), [BrokenRule::SegmentOverlap(1, 2)]);
}

/// A segment of 1 EiB is managed, a larger one is not.
#[test]
fn a_segment_beyond_all_reason_is_refused() {
    let resize = |size: u64| {
        move |info: &mut AdapterInfo| {
            info.segments.truncate(1);
            (info.segments[0].size, info.segments[0].commit_limit) = (size, size);
        }
    };
    assert_eq!(broken(resize(1 << 60)), []);
    let size = (1 << 60) + PAGE_SIZE;
    assert_eq!(broken(resize(size)), [BrokenRule::SegmentTooLarge { segment: 1, size }]);
}

/// SEG-30.
#[test]
fn a_memory_segment_can_be_committed_whole() {
    let limit = broken(|info| info.segments[0].commit_limit = 4096);
    assert_eq!(limit, [BrokenRule::CommitLimit { segment: 1, size: 64 * PAGE_SIZE, commit_limit: 4096 }]);
    assert_eq!(broken(|info| info.segments[1].commit_limit = 4096), [], "an aperture may have a lower limit");
}

/// SEG-10: WDDM 2 has exactly one aperture, WDDM 1 may have several; so may either of memory segments.
#[test]
fn there_is_one_aperture_at_most_and_several_memory_segments() {
    let more = |info: &mut AdapterInfo, index: usize, count: u64| {
        let segment = info.segments[index];
        let twin = |at| SegmentDescriptor { base_address: (1 + at) << 30, ..segment };
        info.segments.extend((0..count).map(twin));
    };
    assert_eq!(broken(|info| more(info, 1, 1)), [BrokenRule::ApertureCount(2)]);
    assert_eq!(broken(|info| more(info, 0, 9)), []);
    assert_eq!(broken(|info| more(info, 0, 10)), [BrokenRule::MemorySegmentCount(11)]);
    let old = |info: &mut AdapterInfo, count| {
        make_physical(info);
        info.wddm_version = WddmVersion::WDDM1_3;
        more(info, 1, count);
    };
    assert_eq!(broken(|info| old(info, 4)), []);
    assert_eq!(broken(|info| old(info, 5)), [BrokenRule::ApertureCount(6)]);
    assert_eq!(broken(|info| _ = info.segments.remove(0)), [], "without local memory there is the aperture alone");
}

/// SEG-10: an adapter without an aperture starts; from WDDM 2 on its driver's author is told.
#[test]
fn an_adapter_without_an_aperture_starts_with_a_finding() {
    for (version, findings) in
        [(WddmVersion::WDDM1_3, vec![]), (WddmVersion::WDDM2_0, vec![DriverFinding::NoApertureSegment])]
    {
        let mut driver = Driver::new(&Config::default());
        make_physical(&mut driver.info);
        driver.info.wddm_version = version;
        driver.info.segments.pop();
        let vidmm = start(&mut driver, &mut Ledger::default()).unwrap();
        assert_eq!(vidmm.driver_findings(), findings);
    }
}

/// GVA-63.
#[test]
fn one_engine_of_a_sane_number_runs_paging_buffers() {
    let none = broken(|info| info.engines.clear());
    assert_eq!(none, [BrokenRule::EngineCount(0), BrokenRule::PagingEngineCount(0)]);
    let many = broken(|info| info.engines.resize(65, EngineDesc { kind: EngineKind::Copy }));
    assert_eq!(many, [BrokenRule::EngineCount(65)]);
    assert_eq!(broken(|info| _ = info.engines.remove(0)), [BrokenRule::PagingEngineCount(0)]);
    let two = broken(|info| info.engines.push(EngineDesc { kind: EngineKind::Paging }));
    assert_eq!(two, [BrokenRule::PagingEngineCount(2)]);
}

/// GVA-01: GPU virtual addresses begin with WDDM 2.0; engines that use physical addresses are as old as WDDM.
#[test]
fn an_older_driver_has_no_gpu_virtual_addresses() {
    assert_eq!(broken(|info| info.wddm_version = WddmVersion(0x5022)), [BrokenRule::Version(0x5022)]);
    let physical = |info: &mut AdapterInfo| {
        make_physical(info);
        info.wddm_version = WddmVersion(0x5022);
    };
    assert_eq!(broken(physical), []);
    assert_eq!(broken(|info| info.wddm_version = WddmVersion(0xFFFF)), []);
}

/// BPB-34, C-18: MAP_APERTURE_SEGMENT2 begins with WDDM 2.9, whatever finds memory.
#[test]
fn an_older_driver_has_no_second_form_of_mapping_the_aperture() {
    let with_cap = |version: WddmVersion, physical: bool| {
        broken(|info| {
            if physical {
                make_physical(info);
            }
            info.wddm_version = version;
            info.memory_management_caps = VidMmCaps::MAP_APERTURE2_SUPPORTED;
        })
    };
    let just_older = WddmVersion(WddmVersion::WDDM2_9.0 - 1);
    for (version, physical) in [(WddmVersion::WDDM2_0, false), (just_older, false), (WddmVersion::WDDM1_3, true)] {
        assert_eq!(with_cap(version, physical), [BrokenRule::MapAperture2(version.0)]);
    }
    for version in [WddmVersion::WDDM2_9, WddmVersion::WDDM3_2] {
        assert_eq!(with_cap(version, false), []);
    }
}

/// GVA-11.
#[test]
fn there_are_two_to_six_levels() {
    for levels in [0, 1, 7] {
        let resize = |info: &mut AdapterInfo| {
            let level = info.page_table_levels[0];
            info.page_table_levels.resize(levels, level);
        };
        assert_eq!(broken(resize), [BrokenRule::LevelCount(levels)]);
    }
    for bits in [vec![9, 9], vec![4, 2, 2, 2, 2, 8]] {
        assert_eq!(broken_of(Config { level_bits: bits, ..Config::default() }, |_| {}), []);
    }
}

/// GVA-12: the root takes the bits that remain, and some must.
#[test]
fn address_bits_and_levels_go_together() {
    for va_bits in [0, 12, 20, 64, u32::MAX] {
        let broken = broken(|info| info.gpu_mmu.virtual_address_bit_count = va_bits);
        assert_eq!(broken, [BrokenRule::AddressBits { va_bits, below_root: 20 }]);
    }
    let empty = broken(|info| info.page_table_levels[0].page_table_index_bit_count = 0);
    assert_eq!(empty, [BrokenRule::AddressBits { va_bits: 28, below_root: 16 }]);
    let huge = broken(|info| info.page_table_levels[0].page_table_index_bit_count = u32::MAX);
    assert_eq!(huge, [BrokenRule::AddressBits { va_bits: 28, below_root: 16 + u64::from(u32::MAX) }]);
}

/// U-1: an adapter without GPU virtual addresses may report any number of bits for them.
#[test]
fn address_bits_mean_nothing_without_gpu_virtual_addresses() {
    for va_bits in [0, 48, 64, u32::MAX] {
        let broken = broken(|info| {
            info.addressing_model = AddressingModel::Physical;
            info.page_table_levels.clear();
            info.patching.max_allocation_list_slot_id = 4;
            info.gpu_mmu.virtual_address_bit_count = va_bits;
        });
        assert_eq!(broken, []);
    }
}

/// The rules that a patching adapter breaks after `change`.
fn broken_without_addresses(change: impl FnOnce(&mut AdapterInfo)) -> Vec<BrokenRule> {
    broken(|info| {
        info.addressing_model = AddressingModel::Physical;
        info.page_table_levels.clear();
        info.patching.max_allocation_list_slot_id = 4;
        change(info);
    })
}

/// U-1: page tables are of no use where nothing has GPU virtual addresses.
#[test]
fn levels_without_gpu_virtual_addresses_are_refused() {
    let level = PageTableLevelDesc {
        page_table_index_bit_count: 4,
        page_table_segment_id: SegmentId::SYSTEM,
        paging_process_page_table_segment_id: SegmentId::SYSTEM,
        page_table_size_in_bytes: 4096,
        page_table_alignment_in_bytes: 0,
    };
    for count in [1, 3] {
        let broken = broken_without_addresses(|info| info.page_table_levels = vec![level; count]);
        assert_eq!(broken, [BrokenRule::LevelsWithoutGpuMmu(count)]);
    }
}

/// SEG-05: where allocations are one range each, a segment is no larger than ranges reach.
#[test]
fn a_segment_of_ranges_is_bounded() {
    for (size, is_refused) in
        [(vidmm_linear::MAX_SEGMENT_SIZE, false), (vidmm_linear::MAX_SEGMENT_SIZE + PAGE_SIZE, true)]
    {
        let broken = broken_without_addresses(|info| {
            info.segments[0] = SegmentDescriptor { size, commit_limit: size, ..info.segments[0] };
            info.segments[1].base_address = 1 << 50;
        });
        assert_eq!(broken.contains(&BrokenRule::LinearSegmentSize(size)), is_refused, "{broken:?}");
        assert_eq!(broken.len(), usize::from(is_refused), "{broken:?}");
    }
}

/// SEG-43: banks end inside the segment, one behind the other, at whole pages.
#[test]
fn banks_follow_one_another_inside_their_segment() {
    let banks = |pages: Vec<u64>| {
        let bytes = pages.iter().map(|page| page * PAGE_SIZE).collect();
        broken_without_addresses(|info| info.patching.bank_range_table = bytes)
    };
    for fine in [vec![], vec![64], vec![8, 16, 63]] {
        assert_eq!(banks(fine), []);
    }
    for wrong in [vec![0, 8], vec![8, 8], vec![16, 8], vec![65]] {
        let count = wrong.len();
        assert_eq!(banks(wrong), [BrokenRule::Banks { count }]);
    }
    let odd = broken_without_addresses(|info| info.patching.bank_range_table = vec![PAGE_SIZE + 1]);
    assert_eq!(odd, [BrokenRule::Banks { count: 1 }]);
}

/// GVA-15.
#[test]
fn tables_have_room_for_their_entries_and_a_place_to_live() {
    for size in [0, 2048, 4097] {
        let broken = broken(|info| info.page_table_levels[0].page_table_size_in_bytes = size);
        assert!(broken.contains(&BrokenRule::TableSize { level: 0, size, entries: 16 }), "{broken:?}");
    }
    let system = broken_of(Config::pages_64kb(4, false), |info| {
        info.page_table_levels[1].page_table_size_in_bytes = 8192;
    });
    assert!(system.contains(&BrokenRule::SystemTableSize { level: 1, size: 8192 }), "{system:?}");
    let in_segment = Config { tables_in_system: false, ..Config::pages(256) };
    let large = broken_of(in_segment.clone(), |info| info.page_table_levels[1].page_table_size_in_bytes = 8192);
    assert_eq!(large, [BrokenRule::TableBeyondPage { size: 8192, page_size: 4096 }]);
    let aligned = broken_of(in_segment, |info| info.page_table_levels[1].page_table_alignment_in_bytes = 8192);
    assert_eq!(aligned, [BrokenRule::TableAlignment { alignment: 8192, table_size: 4096 }]);
    for segment in [2, 3, 255] {
        let broken = broken(|info| info.page_table_levels[2].page_table_segment_id = SegmentId(segment));
        assert_eq!(broken, [BrokenRule::TableSegment { level: 2, segment }]);
    }
}

/// GVA-44.
#[test]
fn the_64_kib_leaf_table_has_a_size() {
    for size in [0, 100] {
        let broken = broken_of(Config::pages_64kb(16, true), |info| {
            info.gpu_mmu.leaf_page_table_size_for_64k_pages_in_bytes = size;
        });
        assert!(
            matches!(broken[..], [BrokenRule::LeafTableSize64Kb { size: found, .. }] if found == size),
            "{broken:?}"
        );
    }
    let unused = broken(|info| info.gpu_mmu.leaf_page_table_size_for_64k_pages_in_bytes = 100);
    assert_eq!(unused, [], "the size means nothing without dual entries");
}

/// SEG-35, D14.
#[test]
fn a_paging_buffer_has_a_sane_size() {
    for (size, private_data_size) in [(u32::MAX, 0), (4096, u32::MAX)] {
        let broken = broken(|info| info.paging_buffer = PagingBufferDesc { size, private_data_size });
        assert_eq!(broken, [BrokenRule::PagingBufferSize { size, private_data_size }]);
    }
    for size in [0, 1, 4095] {
        let broken = broken(|info| info.paging_buffer = PagingBufferDesc { size, private_data_size: 0 });
        assert_eq!(broken, [], "U-4: rounded up to a page");
    }
}

/// GVA-33: the CPU writes the paging process's tables only where it sees them.
#[test]
fn the_cpu_writes_tables_in_system_memory_only() {
    let options = AdapterOptions { paging_tables_by_cpu: true, ..AdapterOptions::default() };
    let broken_rules = |tables_in_system| {
        let mut driver = Driver::new(&Config { tables_in_system, ..Config::pages(64) });
        let started = VidMm::start_adapter(options, &mut driver, &mut Ledger::default());
        started.err().map_or_else(Vec::new, |refused| refused.broken_rules)
    };
    assert_eq!(broken_rules(true), []);
    assert_eq!(broken_rules(false), [BrokenRule::PagingTablesByCpu(1)]);
}

/// GVA-33: the CPU sets up the tables through which all others are written.
#[test]
fn tables_are_written_through_those_in_system_memory() {
    let update_mode = PageTableUpdateMode::GpuVirtual;
    assert_eq!(broken_of(Config { update_mode, ..Config::default() }, |_| {}), []);
    let local = Config { update_mode, tables_in_system: false, ..Config::pages(64) };
    assert_eq!(broken_of(local.clone(), |_| {}), [BrokenRule::PagingTablesBeyondCpu(1)]);
    let others_are_local = |info: &mut AdapterInfo| {
        let levels = info.page_table_levels.iter_mut();
        levels.for_each(|level| level.paging_process_page_table_segment_id = SegmentId::SYSTEM);
    };
    assert_eq!(broken_of(local, others_are_local), []);
}

/// GVA-35, BPB-40: what the driver demands and the core does not do is refused by name; a capability that is not used is not.
#[test]
fn demands_of_the_mmu_are_refused() {
    let idle = GpuMmuFlags::PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE;
    assert_eq!(broken(|info| info.gpu_mmu.flags |= idle), [BrokenRule::AddressSpaceIdle]);
    let in_transfers = LegacyBehaviors::SOURCE_PAGE_TABLE_VA_IN_TRANSFER;
    let legacy = broken(|info| info.gpu_mmu.legacy_behaviors = in_transfers);
    assert_eq!(legacy, [BrokenRule::PageTablesInTransfers]);
    let unused = GpuMmuFlags::all() - idle - GpuMmuFlags::DUAL_PTE_SUPPORTED;
    assert_eq!(broken(|info| info.gpu_mmu.flags |= unused), []);
    let behind_io_mmu = broken_of(Config::integrated(AddressingModel::GpuVaIoMmu, 256), |info| {
        (info.gpu_mmu.flags, info.gpu_mmu.legacy_behaviors) = (idle, in_transfers);
    });
    assert_eq!(behind_io_mmu, [], "there are no page tables");
}

/// GVA-10: the CPU writes no page table in local memory, whether it sees that or not: of a process, or of the paging process.
#[test]
fn the_cpu_writes_no_tables_in_local_memory() {
    let update_mode = PageTableUpdateMode::CpuVirtual;
    assert_eq!(broken_of(Config { update_mode, ..Config::default() }, |_| {}), []);
    for cpu_visible in [false, true] {
        let local = Config { update_mode, cpu_visible, tables_in_system: false, ..Config::pages(64) };
        assert_eq!(broken_of(local.clone(), |_| {}), [BrokenRule::CpuTablesInLocalMemory(1)]);
        let system = Config { tables_in_system: true, ..local };
        let of_paging_process = |info: &mut AdapterInfo| {
            info.page_table_levels.iter_mut().for_each(|level| level.paging_process_page_table_segment_id = LOCAL);
        };
        assert_eq!(broken_of(system, of_paging_process), [BrokenRule::CpuTablesInLocalMemory(1)]);
    }
}

/// PGV-04: tables that are pinned for ever must leave room for the rest.
#[test]
fn the_paging_tables_fit_into_the_segment() {
    let broken = broken_of(Config { tables_in_system: false, ..Config::pages(4) }, |_| {});
    assert!(matches!(broken[..], [BrokenRule::PagingTables { size: 8192, .. }]), "{broken:?}");
}

/// U-1: the driver's author sees all at once, and reads what is wrong.
#[test]
fn all_broken_rules_are_listed() {
    let mut driver = Driver::new(&Config::default());
    driver.info.wddm_version = WddmVersion(1);
    driver.info.segments[0].commit_limit = 0;
    driver.info.page_table_levels.clear();
    driver.info.gpu_mmu.flags |= GpuMmuFlags::PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE;
    let options = AdapterOptions::default();
    let error = VidMm::start_adapter(options, &mut driver, &mut Ledger::default()).err().unwrap();
    assert_eq!(error.broken_rules.len(), 4);
    let text = error.to_string();
    for fact in ["GVA-01", "SEG-30", "GVA-11", "GVA-35"] {
        assert!(text.contains(fact), "{text}");
    }
}

/// PGV-02: without a word of the driver, a quarter of local memory.
#[test]
fn the_paging_va_is_a_quarter_of_local_memory() {
    for paging_va_mib in [None, Some(0)] {
        assert_eq!(paging_va_size(Config { paging_va_mib, ..nine_bits(256) }), 64 << 20);
    }
    assert_eq!(paging_va_size(Config { paging_va_mib: Some(16), ..nine_bits(256) }), 16 << 20);
}

/// U-16: at least 4 MiB, rounded up to what a leaf table covers.
#[test]
fn the_paging_va_is_rounded_up_to_leaf_tables() {
    assert_eq!(paging_va_size(nine_bits(255)), 64 << 20);
    assert_eq!(paging_va_size(nine_bits(8)), 4 << 20);
    assert_eq!(paging_va_size(Config { paging_va_mib: Some(1), ..nine_bits(256) }), 4 << 20);
    assert_eq!(paging_va_size(Config { paging_va_mib: Some(5), ..nine_bits(256) }), 6 << 20);
}

/// U-16: an absurd answer costs no absurd tables.
#[test]
fn an_absurd_paging_va_is_bounded() {
    assert!(paging_va_size(Config { paging_va_mib: Some(u32::MAX), ..nine_bits(64) }) <= 64 << 20);
    let narrow = Config { level_bits: vec![9, 5], segment_bytes: 64 << 20, ..Config::default() };
    let size = paging_va_size(Config { paging_va_mib: Some(u32::MAX), ..narrow });
    assert!(2 * size < 64 << 20, "both windows of {size} bytes fit into 26 bits");
}

/// GVA-12, GVA-61: the smallest space that levels allow is too small for two windows, or it works.
#[test]
fn a_root_of_two_entries_is_refused_or_works() {
    let config = Config { level_bits: vec![9, 1], segment_bytes: 1 << 20, ..Config::default() };
    if !broken_of(config.clone(), |_| {}).is_empty() {
        return;
    }
    let mut world = World::new(config);
    let client = world.client();
    let allocation = world.allocate(client, 1);
    world.bring_in(client, &[allocation]);
    assert_eq!(world.paging_fence(client), 1);
}

/// SEG-05, PGV-04: the core's work for a segment of any size is bounded by what fits into it, not by its number.
#[test]
fn a_segment_of_an_exbibyte_is_no_trouble() {
    let mut driver = Driver::new(&nine_bits(1 << 40));
    driver.info.page_table_levels = vec![driver.info.page_table_levels[0]; 5];
    driver.info.gpu_mmu.virtual_address_bit_count = 57;
    let mut host = Ledger { limit: Some(1 << 30), ..Ledger::default() };
    _ = start(&mut driver, &mut host);
}

/// P54, GVA-62: a start that fails leaves nothing with the driver or the host.
#[test]
fn a_failed_start_leaves_nothing_behind() {
    // The host fails at each of its tables, and then at the dummy page, when the driver has a process and a context already.
    for host_fails in [false, true] {
        let mut failures = 0;
        loop {
            let (mut driver, mut host) = (Driver::new(&Config::default()), Ledger::default());
            (driver.fails_after, host.fails_after) =
                if host_fails { (None, Some(failures)) } else { (Some(failures), None) };
            let Err(broken) = start(&mut driver, &mut host) else { break };
            failures += 1;
            assert_eq!(broken, [BrokenRule::SystemProcess]);
            assert!(driver.live.is_empty(), "the driver still has {:?}", driver.live);
            assert!(host.live.is_empty(), "the host still has {:?}", host.live);
        }
        assert!(failures >= 2);
    }
}

/// SEG-50: the apertures and implicit system memory together hold no more than the least of what their segments can commit
/// and the adapter's limit.
#[test]
fn the_shared_limit_is_the_least_that_the_driver_names() {
    let limit = |of_adapter: u64, of_segment: Option<u64>| {
        let mut driver = Driver::new(&Config::default());
        driver.info.aperture_segment_commit_limit = of_adapter;
        let aperture = &mut driver.info.segments[1];
        aperture.commit_limit = of_segment.unwrap_or(aperture.size);
        let size = aperture.size;
        let mut vidmm = start(&mut driver, &mut Ledger::default()).unwrap();
        let started = vidmm.events().drain().find_map(|numbered| match numbered.event {
            Event::AdapterStarted { system_commit_limit, .. } => Some(system_commit_limit),
            _ => None,
        });
        (started.unwrap(), size)
    };
    let (all, size) = limit(u64::MAX, None);
    assert_eq!(all, size);
    assert_eq!(limit(8 * PAGE_SIZE + 1, None).0, 8 * PAGE_SIZE);
    assert_eq!(limit(u64::MAX, Some(4 * PAGE_SIZE)).0, 4 * PAGE_SIZE);
    assert_eq!(limit(8 * PAGE_SIZE, Some(16 * PAGE_SIZE)).0, 8 * PAGE_SIZE);
}
