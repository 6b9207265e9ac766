//! Cached backing stores, and who has the GPU snoop the CPU's caches: CACHED (2.2), CacheCoherent of entries (4.2, 4.4)
//! and of the aperture (BPB-30).

use crate::judge::found;
use crate::world::*;
use vidmm::contract::*;
use vidmm::*;
use vidmm_trace::Invariant;

const CACHED: AllocationFlags = AllocationFlags::CACHED.union(AllocationFlags::CPU_VISIBLE);
const UNCACHED: AllocationFlags = AllocationFlags::CPU_VISIBLE;

/// An allocation in system memory, and one that comes into the memory segment and leaves it with news.
fn comes_and_goes(has_cache_coherent: bool, flags: AllocationFlags) -> World {
    let mut world = World::new(Config { has_cache_coherent, ..Config::discrete(16, 256) });
    let client = world.client();
    let in_system = world.create_flagged(client, Place::System, 4, flags).unwrap();
    let local = world.create_flagged(client, Place::Local, 16, flags).unwrap();
    world.map(client, in_system);
    let at = world.map(client, local);
    world.bring_in(client, &[in_system, local]);
    world.submit(client, &[Access::Write(at, 7)]);
    world.run_all();
    world.evict(client, &[local], EvictFlags::empty()).unwrap();
    world.run_all();
    let (other, _) = world.create_resident(client, Place::Local, 16, SILENT);
    world.evict(client, &[other], EvictFlags::empty()).unwrap();
    world.run_all();
    world.bring_in(client, &[local]);
    world
}

/// The leaf entries that show an allocation: whether in system memory, whether in a window, and whether they are
/// coherent.
fn shown(world: &World) -> Vec<(bool, bool, bool)> {
    let paging_process = world.events.iter().find_map(|event| match event {
        Event::AdapterStarted { paging_process, .. } => Some(*paging_process),
        _ => None,
    });
    let leaves = world.driver.operations.iter().filter_map(|operation| match operation {
        PagingOperation::UpdatePageTable(op) if op.page_table_level == 0 && op.allocation.is_some() => {
            let Pte { flags, address } = op.page_table_entries.first;
            flags.contains(PteFlags::VALID).then(|| {
                let is_coherent = flags.contains(PteFlags::CACHE_COHERENT);
                (address.segment.is_system(), Some(op.process) == paging_process, is_coherent)
            })
        }
        _ => None,
    });
    leaves.collect()
}

/// 4.2, 2.2: entries that show cached memory in system memory say so where they can, and no others do: neither those of
/// the memory segment, nor any of memory that is write-combined. It is so in the paging process's windows, too.
#[test]
fn entries_of_cached_memory_are_coherent_in_system_memory() {
    for (has_cache_coherent, flags) in [(true, CACHED), (true, UNCACHED), (false, CACHED), (false, UNCACHED)] {
        let world = comes_and_goes(has_cache_coherent, flags);
        let entries = shown(&world);
        let is_possible = has_cache_coherent && flags == CACHED;
        for (in_system, in_window) in [(true, false), (true, true), (false, false), (false, true)] {
            let of_these = entries.iter().filter(|entry| (entry.0, entry.1) == (in_system, in_window));
            let coherent: Vec<bool> = of_these.map(|entry| entry.2).collect();
            assert!(!coherent.is_empty(), "there are none: {in_system} {in_window}");
            assert!(coherent.iter().all(|&is_so| is_so == (is_possible && in_system)), "{flags:?}: {entries:?}");
        }
        world.tear_down();
    }
}

/// BPB-30: the flag says that cacheable memory comes into a cache-coherent aperture.
#[test]
fn only_cached_memory_is_mapped_cache_coherent() {
    for (aperture_is_coherent, flags) in [(true, CACHED), (true, UNCACHED), (false, CACHED), (false, UNCACHED)] {
        let config = Config { aperture_is_coherent, ..Config::integrated(AddressingModel::GpuMmu, 64) };
        let mut world = World::new(config);
        let client = world.client();
        let flags = flags | AllocationFlags::ACCESSED_PHYSICALLY;
        let allocation = world.create_flagged(client, Place::Aperture, 4, flags).unwrap();
        world.map(client, allocation);
        world.bring_in(client, &[allocation]);
        let maps = world.driver.operations.iter().filter_map(|operation| match operation {
            PagingOperation::MapApertureSegment(op) => Some(op.flags.contains(MapApertureFlags::CACHE_COHERENT)),
            _ => None,
        });
        let is_cached = flags.contains(AllocationFlags::CACHED);
        assert_eq!(maps.collect::<Vec<_>>(), [aperture_is_coherent && is_cached]);
        let mut wrong = world.events.clone();
        world.tear_down();
        let map = wrong.iter_mut().find_map(|event| match event {
            Event::PagingOperation { operation: PagingOperation::MapApertureSegment(op), .. } => Some(op),
            _ => None,
        });
        map.expect("it is mapped").flags ^= MapApertureFlags::CACHE_COHERENT;
        assert_eq!(found(&wrong), [Invariant::I24]);
    }
}

/// 2.2: what the CPU never sees has no use for its caches.
#[test]
fn cached_memory_is_visible_to_the_cpu() {
    let (mut world, client) = World::with_pages(8);
    let refused = CreateError::Violation(Violation::AllocationInfo { rule: AllocationInfoRule::Cached });
    assert_eq!(world.create_flagged(client, Place::Local, 4, AllocationFlags::CACHED), Err(refused));
    assert!(world.create_flagged(client, Place::Local, 4, CACHED).is_ok());
}

/// The auditor finds each entry that says the wrong thing about caches.
#[test]
fn the_auditor_finds_entries_that_are_coherent_by_mistake() {
    for flags in [CACHED, UNCACHED] {
        let world = comes_and_goes(true, flags);
        let events = world.events.clone();
        world.tear_down();
        assert_eq!(found(&events), []);
        let shows = |event: &Event| match event {
            Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => {
                op.allocation.is_some() && op.page_table_entries.first.flags.contains(PteFlags::VALID)
            }
            _ => false,
        };
        let places: Vec<usize> = (0..events.len()).filter(|&at| shows(&events[at])).collect();
        assert!(places.len() > 4, "{places:?}");
        for at in places {
            let mut wrong = events.clone();
            let Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } = &mut wrong[at] else {
                unreachable!()
            };
            op.page_table_entries.first.flags ^= PteFlags::CACHE_COHERENT;
            assert!(found(&wrong).contains(&Invariant::I04), "{:?}", found(&wrong));
        }
    }
}
