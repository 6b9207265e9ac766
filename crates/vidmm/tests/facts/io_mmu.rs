//! Adapters whose addresses the IOMMU translates: what the host maps and unmaps, and when (GVA-02, PGV-20, U-17, NTF-04, I29).

use std::collections::BTreeSet;

use crate::transcript::*;
use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

const MODELS: [AddressingModel; 2] = [AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal];

fn io_mmu(model: AddressingModel) -> (World, Client) {
    let mut world = World::new(Config::integrated(model, 256));
    let client = world.client();
    (world, client)
}

/// The mappings of the IOMMU, without the paging process's windows.
fn mapped(world: &World) -> Vec<(IoMmuDomain, u64, u64)> {
    let mapping = |(&(domain, address), mapping): (&(IoMmuDomain, u64), &IoMmuMapping)| (domain, address, mapping.size);
    let all = world.host.io_mmu.iter().map(mapping);
    all.filter(|&(domain, address, _)| !world.is_window(domain, GpuVirtualAddress(address))).collect()
}

fn host_steps(world: &World, since: usize) -> Vec<Step> {
    let is_host = |step: &Step| matches!(step, Step::HostMap { .. } | Step::HostUnmap { .. });
    transcript(world, since).into_iter().filter(is_host).collect()
}

/// PGV-20, GVA-02: no page tables, no memory segment, and nothing to write them or move in it.
#[test]
fn an_adapter_behind_an_io_mmu_has_no_page_tables_and_moves_nothing() {
    for model in MODELS {
        let (mut world, client) = io_mmu(model);
        for place in [Place::System, Place::Aperture] {
            let (a, at) = world.create_resident(client, place, 20, BOTH);
            world.submit(client, &[Access::Write(at, 1), Access::Read(at)]);
            world.evict(client, &[a], SOON).unwrap();
            world.run_all();
        }
        let is_known = |operation: &PagingOperation| {
            matches!(
                operation,
                PagingOperation::NotifyAlloc(_)
                    | PagingOperation::MapApertureSegment(_)
                    | PagingOperation::UnmapApertureSegment(_)
            )
        };
        assert!(world.driver.operations.iter().all(is_known), "{:?}", world.driver.operations);
        assert_eq!(world.read, [1, 1]);
        world.tear_down();
    }
}

/// GVA-02, PGV-20: a report of what such an adapter cannot have is refused at its start.
#[test]
fn impossible_reports_are_refused() {
    for model in MODELS {
        let broken = |change: fn(&mut AdapterInfo)| {
            let mut driver = Driver::new(&Config::integrated(model, 64));
            change(&mut driver.info);
            let options = AdapterOptions::default();
            let started = VidMm::start_adapter(options, &mut driver, &mut Ledger::default());
            started.err().map(|error| error.broken_rules).unwrap_or_default()
        };
        assert_eq!(broken(|_| {}), []);
        let memory = |info: &mut AdapterInfo| info.segments.push(Config::pages(4).info().segments[0]);
        let moved = |info: &mut AdapterInfo| {
            info.segments.push(SegmentDescriptor { base_address: 1 << 30, ..Config::pages(4).info().segments[0] });
        };
        assert!(broken(memory).contains(&BrokenRule::MemorySegmentBehindIoMmu(2)));
        assert_eq!(broken(moved), [BrokenRule::MemorySegmentBehindIoMmu(2)]);
        let levels = |info: &mut AdapterInfo| info.page_table_levels = Config::default().info().page_table_levels;
        assert_eq!(broken(levels), [BrokenRule::LevelsWithoutGpuMmu(3)]);
        for bits in [0, 31, 64, u32::MAX] {
            let mut driver = Driver::new(&Config::integrated(model, 64));
            driver.info.gpu_mmu.virtual_address_bit_count = bits;
            let started = VidMm::start_adapter(AdapterOptions::default(), &mut driver, &mut Ledger::default());
            assert_eq!(started.err().unwrap().broken_rules, [BrokenRule::IoMmuAddressBits(bits)]);
        }
    }
}

/// I29, U-17: a mapping is mapped while its allocation is resident, whole, with its access rights, and not otherwise.
#[test]
fn mappings_are_mapped_while_the_allocation_is_resident() {
    for model in MODELS {
        for place in [Place::System, Place::Aperture] {
            let (mut world, client) = io_mmu(model);
            let a = world.create(client, place, 16, SILENT);
            let whole = MapGpuVirtualAddress::whole(a);
            let part = MapGpuVirtualAddress { offset: 3 * PAGE_SIZE, size: 2 * PAGE_SIZE, write: false, ..whole };
            let first = world.try_map(client, &whole).unwrap().virtual_address.0;
            let second = world.try_map(client, &part).unwrap().virtual_address.0;
            world.run_all();
            assert_eq!(mapped(&world), []);
            world.bring_in(client, &[a]);
            let domain = world.config.domain(client.kmd_process);
            assert_eq!(mapped(&world), [(domain, first, 16 * PAGE_SIZE), (domain, second, 2 * PAGE_SIZE)]);
            assert!(world.pte(client, second).unwrap().flags.contains(PteFlags::READ_ONLY));
            assert!(!world.pte(client, first).unwrap().flags.contains(PteFlags::READ_ONLY));
            world.submit(client, &[Access::Write(first + 4 * PAGE_SIZE, 6), Access::Read(second + PAGE_SIZE)]);
            world.evict(client, &[a], SOON).unwrap();
            world.run_all();
            assert_eq!(world.read, [6], "both show the same memory");
            assert_eq!(mapped(&world), []);
            world.tear_down();
        }
    }
}

/// U-17: each process has addresses of its own.
#[test]
fn processes_have_domains_of_their_own() {
    let (mut world, client) = io_mmu(AddressingModel::GpuVaIoMmu);
    let other = world.client();
    let (_, at) = world.create_resident(client, Place::System, 4, SILENT);
    assert_eq!(world.translate(other, at), None, "I26: another process sees nothing there");
    let (_, other_at) = world.create_resident(other, Place::System, 4, SILENT);
    assert_eq!(at, other_at, "the same addresses, in two domains");
    world.submit(client, &[Access::Write(at, 1)]);
    world.submit(other, &[Access::Write(at, 2)]);
    world.run_all();
    assert_eq!((world.token(client, at), world.token(other, at)), (Some(1), Some(2)));
    let domains: BTreeSet<_> = mapped(&world).iter().map(|mapping| mapping.0).collect();
    let expected = [client, other].map(|client| IoMmuDomain::Process(client.kmd_process));
    assert_eq!(domains, BTreeSet::from(expected));
    world.tear_down();
}

/// U-17: in one domain no two processes, and not the paging process, use the same addresses.
#[test]
fn processes_share_the_global_domain() {
    let mut world = World::new(Config::integrated(AddressingModel::GpuVaIoMmuGlobal, 256));
    let mut taken = Vec::new();
    for _ in 0..8 {
        let client = world.client();
        for _ in 0..2 {
            let (_, at) = world.create_resident(client, Place::System, 4, BOTH);
            taken.push((at, at + 4 * PAGE_SIZE));
        }
    }
    taken.sort();
    assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{taken:x?}");
    assert!(taken.iter().all(|range| !world.is_window(IoMmuDomain::Global, GpuVirtualAddress(range.0))));
    assert!(mapped(&world).iter().all(|mapping| mapping.0 == IoMmuDomain::Global));
    world.tear_down();
}

/// U-17: a process cannot choose addresses that are another's, also the process's behind its own.
#[test]
fn addresses_of_another_process_cannot_be_chosen() {
    let (mut world, client) = io_mmu(AddressingModel::GpuVaIoMmuGlobal);
    let other = world.client();
    let [own, others] = [client, other].map(|client| {
        let allocation = world.create(client, Place::System, 16, SILENT);
        (allocation, world.map(client, allocation))
    });
    assert!(own.1 < others.1, "processes follow each other");
    for at in [0, 1 << 20] {
        let base_address = Some(GpuVirtualAddress(others.1 + at));
        let chosen =
            world.try_map(client, &MapGpuVirtualAddress { base_address, ..MapGpuVirtualAddress::whole(own.0) });
        assert!(matches!(chosen, Err(MapError::Range(_))), "{at:#x}: {chosen:?}");
    }
    world.tear_down();
}

/// U-17: the one address space has room for so many processes, and a destroyed one makes room.
#[test]
fn the_global_domain_is_full_at_some_point() {
    let config = Config::integrated(AddressingModel::GpuVaIoMmuGlobal, 256);
    let (mut driver, mut host) = (Driver::new(&config), Ledger::default());
    let mut vidmm = VidMm::start_adapter(config.options(), &mut driver, &mut host).unwrap();
    let mut processes = Vec::new();
    let error = loop {
        match vidmm.create_process(&mut driver, &mut host) {
            Ok(process) => processes.push(process),
            Err(error) => break error,
        }
    };
    assert_eq!((error, processes.len()), (CreateError::NoAddresses, 255));
    let handles = driver.live.len();
    assert_eq!(vidmm.create_process(&mut driver, &mut host), Err(CreateError::NoAddresses));
    assert_eq!(driver.live.len(), handles, "the driver has no process that failed");
    vidmm.destroy_process(&mut driver, &mut host, processes[100]).unwrap();
    vidmm.create_process(&mut driver, &mut host).unwrap();
    assert_eq!(vidmm.create_process(&mut driver, &mut host), Err(CreateError::NoAddresses));
}

/// A mapping that is added while the allocation is resident shows it, without a paging buffer.
#[test]
fn a_mapping_that_is_added_while_resident_is_mapped() {
    for model in MODELS {
        let (mut world, client) = io_mmu(model);
        let (a, at) = world.create_resident(client, Place::System, 8, BOTH);
        world.submit(client, &[Access::Write(at, 5)]);
        world.run_all();
        let since = world.journal.len();
        let second = world.map(client, a);
        world.run_all();
        let domain = world.config.domain(client.kmd_process);
        let at_store = world.machine.known[&world.handle(a)].backing_store;
        let size = 8 * PAGE_SIZE;
        let expected = Step::HostMap { domain, address: second, size, at: at_store, read_only: false };
        assert_eq!(host_steps(&world, since), [expected]);
        assert_eq!(world.token(client, second), Some(5));
        world.tear_down();
    }
}

/// U-15: the addresses of a freed mapping are used again when the host has unmapped them, and not before.
#[test]
fn addresses_are_used_again_after_they_are_unmapped() {
    for model in MODELS {
        for flags2 in [SILENT, IO_MMU_UNMAP] {
            let (mut world, client) = io_mmu(model);
            let (_, at) = world.create_resident(client, Place::System, 8, flags2);
            world.submit(client, &[Access::Write(at, 5)]);
            world.free(client, at, 8).unwrap();
            let (_, while_used) = world.create_resident(client, Place::System, 8, flags2);
            assert_ne!(while_used, at, "work that was submitted before may use the addresses");
            assert!(world.host.translate(world.config.domain(client.kmd_process), at).is_some());
            world.run_all();
            assert!(world.host.translate(world.config.domain(client.kmd_process), at).is_none());
            let (c, again) = world.create_resident(client, Place::System, 8, flags2);
            assert_eq!(again, at);
            world.submit(client, &[Access::Read(again)]);
            world.run_all();
            assert_eq!(world.read, [0], "and show the new allocation");
            assert!(world.translate(client, again).is_some());
            world.destroy(c);
            world.tear_down();
        }
    }
}

/// NTF-04: the host unmaps when the paging operations that were under way have ended.
#[test]
fn the_host_unmaps_when_paging_has_ended() {
    for model in MODELS {
        for flags2 in [IO_MMU_UNMAP, BOTH] {
            let (mut world, client) = io_mmu(model);
            let other = world.client();
            let (a, at) = world.create_resident(client, Place::System, 8, flags2);
            let b = world.create(other, Place::Aperture, 8, BOTH);
            let _: Residency = world.make_resident(other, &[b]).unwrap();
            world.evict(client, &[a], SOON).unwrap();
            world.poll();
            let domain = world.config.domain(client.kmd_process);
            // All that was built before and with the notice is under way until it was executed.
            let is_notice = |operation: &PagingOperation| kind(operation) == "io mmu unmap";
            while world.can_complete(PAGING) {
                let is_under_way = world.driver.operations[world.executed..].iter().any(is_notice);
                let was_announced = world.driver.operations[..world.executed].iter().any(is_notice);
                if is_under_way || !was_announced {
                    assert!(world.host.translate(domain, at).is_some(), "{model:?}: unmapped under paging operations");
                }
                world.complete(PAGING);
            }
            assert!(world.host.translate(domain, at).is_none());
            world.run_all();
            world.tear_down();
        }
    }
}

/// I29: unmapped exactly once, whatever was mapped how often; the host of this world accepts nothing else.
#[test]
fn every_mapping_is_unmapped_once() {
    for model in MODELS {
        let (mut world, client) = io_mmu(model);
        let a = world.create(client, Place::System, 16, BOTH);
        let mut all: Vec<u64> = (0..5).map(|_| world.map(client, a)).collect();
        let since = world.journal.len();
        for round in 0..5 {
            world.bring_in(client, &[a]);
            world.submit(client, &[Access::Write(all[0], round), Access::Read(*all.last().unwrap())]);
            let freed = all.pop().unwrap();
            world.free(client, freed, 16).unwrap();
            if round % 2 == 0 {
                world.evict(client, &[a], SOON).unwrap();
                world.run_all();
            }
            all.insert(0, world.map(client, a));
        }
        world.destroy(a);
        world.run_all();
        let steps = host_steps(&world, since);
        let is_user = |domain: IoMmuDomain, address| !world.is_window(domain, GpuVirtualAddress(address));
        let maps = |step: &&Step| matches!(**step, Step::HostMap { domain, address, .. } if is_user(domain, address));
        let unmaps =
            |step: &&Step| matches!(**step, Step::HostUnmap { domain, address, .. } if is_user(domain, address));
        assert_eq!(steps.iter().filter(maps).count(), steps.iter().filter(unmaps).count());
        assert_eq!(mapped(&world), []);
        assert_eq!(world.read, [0, 1, 2, 3, 4]);
        world.tear_down();
    }
}

/// Nothing is read or written through a mapping that is read-only.
#[test]
#[should_panic(expected = "is read-only")]
fn a_read_only_mapping_takes_no_writes() {
    let (mut world, client) = io_mmu(AddressingModel::GpuVaIoMmu);
    let a = world.create(client, Place::System, 4, SILENT);
    let desc = MapGpuVirtualAddress { write: false, ..MapGpuVirtualAddress::whole(a) };
    let at = world.try_map(client, &desc).unwrap().virtual_address.0;
    world.bring_in(client, &[a]);
    world.submit(client, &[Access::Write(at, 1)]);
    world.run_all();
}

/// RES-11: the fence of a MakeResident says when the IOMMU shows it.
#[test]
fn the_paging_fence_comes_when_the_io_mmu_shows_it() {
    for model in MODELS {
        for place in [Place::System, Place::Aperture] {
            let (mut world, client) = io_mmu(model);
            let a = world.create(client, place, 8, BOTH);
            let at = world.map(client, a);
            world.run_all();
            let before = world.paging_fence(client);
            let answer = world.make_resident(client, &[a]).unwrap();
            let Residency::Pending { paging_fence_value } = answer else { panic!("the host has not mapped it yet") };
            assert_eq!(world.translate(client, at), None);
            assert!(world.paging_fence(client) == before && before < paging_fence_value);
            world.poll();
            while world.can_complete(PAGING) {
                assert_eq!(world.paging_fence(client), before, "the aperture does not show it yet");
                world.complete(PAGING);
            }
            assert_eq!(world.paging_fence(client), paging_fence_value);
            assert!(world.translate(client, at).is_some());
        }
    }
}

/// I28: a process that goes leaves nothing in the IOMMU.
#[test]
fn a_process_that_ends_leaves_its_domain_empty() {
    for model in MODELS {
        let (mut world, keeper) = io_mmu(model);
        let (_, kept) = world.create_resident(keeper, Place::System, 4, BOTH);
        let client = world.client();
        let (a, at) = world.create_resident(client, Place::System, 4, BOTH);
        world.submit(client, &[Access::Read(at)]);
        world.destroy(a);
        world.call(|vidmm, _, _| vidmm.destroy_paging_queue(client.queue)).unwrap();
        world.run_all();
        world.call(|vidmm, driver, _| vidmm.destroy_context(driver, client.context)).unwrap();
        world.call(|vidmm, driver, host| vidmm.destroy_device(driver, host, client.device)).unwrap();
        world.call(|vidmm, driver, host| vidmm.destroy_process(driver, host, client.process)).unwrap();
        let domain = world.config.domain(keeper.kmd_process);
        assert_eq!(mapped(&world), [(domain, kept, 4 * PAGE_SIZE)]);
    }
}

/// GVA-50, GVA-55: addresses can be chosen and reserved, as with page tables.
#[test]
fn addresses_can_be_chosen() {
    for model in MODELS {
        let (mut world, client) = io_mmu(model);
        let a = world.create(client, Place::System, 4, SILENT);
        let probe = world.map(client, a);
        let base = GpuVirtualAddress(probe + (1 << 24));
        let desc = MapGpuVirtualAddress { base_address: Some(base), ..MapGpuVirtualAddress::whole(a) };
        assert_eq!(world.try_map(client, &desc).unwrap().virtual_address, base);
        assert!(matches!(world.try_map(client, &desc), Err(MapError::Range(_))), "it is mapped already");
        // Outside what the process may use.
        for outside in [0, PAGE_SIZE, 1 << world.config.io_mmu_bits, !(PAGE_SIZE - 1)] {
            let desc = MapGpuVirtualAddress { base_address: Some(GpuVirtualAddress(outside)), ..desc };
            assert!(matches!(world.try_map(client, &desc), Err(MapError::Range(_))), "{outside:#x}");
        }
        world.bring_in(client, &[a]);
        assert!(world.translate(client, base.0).is_some() && world.translate(client, probe).is_some());
        world.tear_down();
    }
}
