//! Adapters with several memory segments, or without an aperture.

use crate::common::patching::*;
use crate::common::*;
use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{AllocationDesc, AllocationSegments, Content, Gpu, MemoryKind, SegmentOrder, Umd};
use vidmm_soft::*;

const STORE: u64 = 16 << 20;
const PAGES: u64 = 8;
const MORE: [MemoryConfig; 2] =
    [MemoryConfig { bytes: 8 << 20, cpu_visible: true }, MemoryConfig { bytes: 2 << 20, cpu_visible: false }];

/// Local memory, the aperture, and two more memory segments.
fn several() -> SoftAdapterConfig {
    SoftAdapterConfig { more_memory: MORE.into(), ..config() }
}

fn without_aperture() -> SoftAdapterConfig {
    SoftAdapterConfig { aperture_bytes: 0, wddm_version: WddmVersion::WDDM1_3, ..several() }
}

fn at(segment: u8, offset: u64) -> PhysicalAddress {
    PhysicalAddress { segment: SegmentId(segment), offset }
}

/// Kinds of memory by number: memory segments from 1, system memory 0.
fn order(numbers: &[u8]) -> Option<SegmentOrder> {
    SegmentOrder::new(numbers.iter().map(|&number| match number {
        0 => MemoryKind::System,
        number => MemoryKind::Memory(number),
    }))
}

fn ordered(numbers: &[u8]) -> AllocationSegments {
    AllocationSegments::Ordered(order(numbers).unwrap())
}

fn create(kmd: &mut SoftKmd, segments: AllocationSegments) -> Result<(u32, [u8; 5], u32), CreateAllocationError> {
    let desc = AllocationDesc { segments, ..AllocationDesc::local(PAGE) };
    let info = kmd.create_allocation(&SoftUmd.allocation_private_data(&desc))?;
    Ok((info.supported_segment_set.0, info.preferred_segment.segment_ids.map(|segment| segment.0), info.alignment))
}

#[test]
fn memory_segments_follow_the_aperture() {
    let reported = |config: SoftAdapterConfig| -> Vec<_> {
        let segments = SoftKmd::new(config).query_adapter_info().segments;
        segments.iter().map(|segment| (segment.base_address, segment.size, segment.flags)).collect()
    };
    let memory = SegmentFlags::APPLICATION_TARGET | SegmentFlags::LOCAL_BUDGET_GROUP;
    let visible = memory | SegmentFlags::CPU_VISIBLE;
    let aperture = SegmentFlags::APERTURE | SegmentFlags::NON_LOCAL_BUDGET_GROUP;
    let behind = LOCAL_BYTES + APERTURE_BYTES;
    let segments = [
        (0, LOCAL_BYTES, memory),
        (LOCAL_BYTES, APERTURE_BYTES, aperture),
        (behind, 8 << 20, visible),
        (behind + (8 << 20), 2 << 20, memory),
    ];
    assert_eq!(reported(several()), segments);
    let segments =
        [(0, LOCAL_BYTES, visible), (LOCAL_BYTES, 8 << 20, visible), (LOCAL_BYTES + (8 << 20), 2 << 20, memory)];
    assert_eq!(reported(SoftAdapterConfig { local_memory_cpu_visible: true, ..without_aperture() }), segments);
    let large = SoftAdapterConfig { more_memory: MORE.into(), ..SoftAdapterConfig::default() };
    assert_eq!(reported(large)[2].2, visible | SegmentFlags::USE_64KB_PAGES);
}

/// SEG-10, BPB-30: apertures show system memory each at its own pages.
#[test]
fn further_apertures_come_last_and_show_pages_of_their_own() {
    let more = vec![ApertureConfig { bytes: 1 << 20, commit_limit_bytes: Some(64 << 10), cache_coherent: true }];
    let config = SoftAdapterConfig { more_apertures: more, wddm_version: WddmVersion::WDDM1_3, ..several() };
    let mut kmd = SoftKmd::new(config.clone());
    let last = *kmd.query_adapter_info().segments.last().unwrap();
    let flags = SegmentFlags::APERTURE | SegmentFlags::NON_LOCAL_BUDGET_GROUP | SegmentFlags::CACHE_COHERENT;
    let base = LOCAL_BYTES + APERTURE_BYTES + (10 << 20);
    assert_eq!((last.base_address, last.size, last.commit_limit, last.flags), (base, 1 << 20, 64 << 10, flags));
    let either = SegmentOrder::new([MemoryKind::Aperture(2), MemoryKind::System]).unwrap();
    assert_eq!(create(&mut kmd, AllocationSegments::Ordered(either)), Ok((0b10010, [5, 2, 0, 0, 0], PAGE as u32)));
    assert_eq!(config.aperture(3), None);
    let no_first = SoftAdapterConfig { aperture_bytes: 0, ..config };
    assert_eq!(no_first.check(), Err(ConfigError::MoreAperturesWithoutFirst));
}

#[test]
fn an_adapter_without_any_segment_is_a_contradiction() {
    let none = SoftAdapterConfig { local_memory_bytes: 0, aperture_bytes: 0, ..config() };
    assert_eq!(none.check(), Err(ConfigError::NoMemory));
    let no_local = SoftAdapterConfig { local_memory_bytes: 0, ..several() };
    assert_eq!(no_local.check(), Err(ConfigError::MoreMemoryWithoutLocal));
    let odd = vec![MemoryConfig { bytes: PAGE, cpu_visible: false }];
    let odd = SoftAdapterConfig { more_memory: odd, ..SoftAdapterConfig::default() };
    assert!(matches!(odd.check(), Err(ConfigError::NotAMultiple { field: "more_memory", .. })));
    assert_eq!(without_aperture().check(), Ok(()));
}

#[test]
fn an_allocation_may_live_in_the_segments_of_an_order() {
    let mut kmd = SoftKmd::new(several());
    assert_eq!(create(&mut kmd, ordered(&[2, 0, 1])), Ok((0b111, [3, 2, 1, 0, 0], PAGE as u32)));
    assert_eq!(create(&mut kmd, ordered(&[3])), Ok((0b1000, [4, 0, 0, 0, 0], PAGE as u32)));
    assert_eq!(create(&mut kmd, AllocationSegments::LocalOrSystem), Ok((0b11, [1, 2, 0, 0, 0], PAGE as u32)));
    let refused = Err(CreateAllocationError::InvalidParameter);
    for numbers in [&[4][..], &[1, 10]] {
        assert_eq!(create(&mut kmd, ordered(numbers)), refused, "{numbers:?}");
    }
    let mut kmd = SoftKmd::new(SoftAdapterConfig { more_memory: MORE.into(), ..SoftAdapterConfig::default() });
    assert_eq!(create(&mut kmd, ordered(&[0, 2])), Ok((0b110, [2, 3, 0, 0, 0], 64 << 10)));
}

#[test]
fn without_an_aperture_nothing_may_live_in_system_memory() {
    let mut kmd = SoftKmd::new(without_aperture());
    let refused = Err(CreateAllocationError::InvalidParameter);
    assert_eq!(create(&mut kmd, AllocationSegments::System), refused);
    assert_eq!(create(&mut kmd, ordered(&[1, 0])), refused);
    assert_eq!(create(&mut kmd, AllocationSegments::LocalOrSystem), Ok((0b1, [1, 0, 0, 0, 0], PAGE as u32)));
    assert_eq!(create(&mut kmd, ordered(&[3, 1, 2])), Ok((0b111, [3, 1, 2, 0, 0], PAGE as u32)));
}

#[test]
fn an_order_names_one_to_five_kinds_of_memory_each_once() {
    for wrong in [&[][..], &[1, 2, 1], &[0, 0], &[1, 2, 3, 4, 5, 6], &[11]] {
        assert_eq!(order(wrong), None, "{wrong:?}");
    }
    for right in [&[0][..], &[10, 0, 2], &[5, 4, 3, 2, 1]] {
        let desc = AllocationDesc { segments: ordered(right), ..AllocationDesc::local(1) };
        let data = AllocationPrivateData::from_bytes(&SoftUmd.allocation_private_data(&desc)).unwrap();
        assert_eq!(data.segments, ordered(right));
    }
    let desc = AllocationDesc { segments: ordered(&[1]), ..AllocationDesc::local(1) };
    let mut bytes = SoftUmd.allocation_private_data(&desc);
    let code = u32::from_le_bytes(bytes[28..32].try_into().unwrap());
    for wrong in [code | 1 << 4, code | 1 << 8, code & !0xF, code | 1 << 24] {
        bytes[28..32].copy_from_slice(&wrong.to_le_bytes());
        assert_eq!(
            AllocationPrivateData::from_bytes(&bytes),
            Err(CreateAllocationError::InvalidParameter),
            "{wrong:#x}"
        );
    }
}

#[test]
fn content_moves_between_all_segments_and_engines_find_it_there() {
    for (config, segments) in [(several(), [1, 3, 4]), (without_aperture(), [1, 2, 3])] {
        let mut rig = PatchRig::new(config);
        rig.rig.system.lock().write_pages(STORE / PAGE, PAGES, Content::Ramp, |page| 1000 + page);
        let content = rig.digests(system(STORE), PAGES);
        let [first, second, third] = segments.map(|segment| at(segment, 3 * PAGE));
        for (source, destination) in
            [(system(STORE), second), (second, third), (third, first), (first, system(2 * STORE))]
        {
            rig.transfer(source, destination, 0, PAGES);
            assert_eq!(rig.digests(destination, PAGES), content, "{source:?} to {destination:?}");
        }
        for place in [first, second, third] {
            assert_eq!(rig.read(place, PAGES), content, "{place:?}");
        }
        let counters = rig.rig.gpu.counters();
        let moved = (counters.bytes_from_system, counters.bytes_local, counters.bytes_to_system);
        assert_eq!(moved, (PAGES * PAGE, 2 * PAGES * PAGE, PAGES * PAGE));
        assert!(rig.rig.gpu.write_page(second, Content::Uniform, 9));
        assert_ne!(rig.digests(second, 1), content[..1]);
        assert_eq!(rig.digests(third, 1), content[..1]);
        rig.rig.gpu.lose_power();
        assert_ne!(rig.digests(third, 1), content[..1]);
    }
}

#[test]
fn addresses_end_where_the_last_segment_ends() {
    let map = PhysicalAddressMap::new(&several());
    let behind = LOCAL_BYTES + APERTURE_BYTES;
    assert_eq!(map.address(at(3, PAGE)), GpuVirtualAddress(behind + PAGE));
    assert_eq!(map.address(at(4, 0)), GpuVirtualAddress(behind + (8 << 20)));
    for nowhere in [at(3, 8 << 20), at(4, 2 << 20), at(5, 0)] {
        assert_eq!(map.address(nowhere), UNPATCHED_ADDRESS, "{nowhere:?}");
    }
    let map = PhysicalAddressMap::new(&without_aperture());
    assert_eq!(map.address(at(2, 0)), GpuVirtualAddress(LOCAL_BYTES));
}

#[test]
fn page_tables_point_into_all_segments() {
    let mut rig = Rig::new(SoftAdapterConfig {
        local_memory_bytes: 256 << 20,
        more_memory: MORE.into(),
        ..SoftAdapterConfig::with_4kib_pages()
    });
    let process = rig.process();
    for (address, segment) in [(1 << 21, 3), (2 << 21, 4)] {
        let pte = Pte { flags: PteFlags::VALID, address: at(segment, 5 * PAGE) };
        let commands = rig.map(process, address, pte, PAGES, PageSize::Kib4);
        rig.run_well(process, commands);
        rig.run_well(process, kernel(u64::from(segment), 0, &[], &[range(address, PAGES)]));
        let seed = KernelState::new(segment.into()).seed(0, 2);
        assert_eq!(rig.gpu.page_digest(at(segment, 7 * PAGE)), Some(uniform_digest(seed)));
    }
}
