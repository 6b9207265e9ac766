//! The aperture segment: who is mapped there, where, and what its pages show (SEG-12, SEG-13, BPB-30 to BPB-35, SEG-50).

use crate::transcript::*;
use crate::world::*;
use vidmm::contract::*;
use vidmm::event::EvictReason;
use vidmm::*;

const MODELS: [AddressingModel; 3] =
    [AddressingModel::GpuMmu, AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal];

/// Pages in what a range of the aperture is aligned to: 64 KiB.
const UNIT: u64 = 16;

fn integrated(model: AddressingModel, aperture_pages: u64) -> (World, Client) {
    of(Config::integrated(model, aperture_pages))
}

fn of(config: Config) -> (World, Client) {
    let mut world = World::new(config);
    let client = world.client();
    (world, client)
}

fn physical(world: &mut World, client: Client, pages: u64) -> AllocationId {
    world.create(client, Place::Aperture, pages, SILENT)
}

/// The pages of the aperture that show an allocation.
fn shown(world: &World, allocation: AllocationId) -> Vec<u64> {
    world.machine.aperture.pages_of(world.handle(allocation))
}

fn count(world: &World, of: &str) -> usize {
    world.driver.operations.iter().filter(|operation| kind(operation) == of).count()
}

/// SEG-13, SEG-15: contiguous, whole, its own memory, whenever it is resident; entries point to the aperture.
#[test]
fn physically_accessed_allocations_are_mapped_while_they_are_resident() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 256);
        let (a, at) = world.create_resident(client, Place::Aperture, 20, SILENT);
        let pages = shown(&world, a);
        assert_eq!(pages, (pages[0]..pages[0] + 20).collect::<Vec<_>>());
        let store = world.machine.known[&world.handle(a)].backing_store;
        for (number, &page) in (0..).zip(&pages) {
            assert_eq!(world.machine.aperture.shows(page), Some(store.offset_by(number * PAGE_SIZE)));
        }
        if model == AddressingModel::GpuMmu {
            let segment = world.config.aperture();
            let first = PhysicalAddress { segment, offset: pages[0] * PAGE_SIZE };
            assert_eq!(world.translate(client, at), Some(first));
        }
        world.submit(client, &[Access::Write(at + 19 * PAGE_SIZE, 4)]);
        world.evict(client, &[a], SOON).unwrap();
        world.run_all();
        assert_eq!(shown(&world, a), [0u64; 0]);
        assert_eq!(world.machine.read(store.offset_by(19 * PAGE_SIZE), &world.host), 4, "it stays where it is");
        assert_eq!(world.statistics_of_copies(), (0, 0), "nothing moves");
        world.tear_down();
    }
}

/// SEG-12, BPB-35: an allocation that is not accessed physically takes no range and is not mapped.
#[test]
fn implicit_system_memory_takes_no_aperture() {
    for model in MODELS {
        let config = Config { aperture_commit_limit: Some(80 * PAGE_SIZE), ..Config::integrated(model, 16) };
        let (mut world, client) = of(config);
        let (_, at) = world.create_resident(client, Place::System, 64, SILENT);
        assert_eq!(count(&world, "map aperture"), 0);
        let (b, _) = world.create_resident(client, Place::Aperture, 16, SILENT);
        assert_eq!(shown(&world, b).len(), 16, "the whole aperture is free for it");
        if model == AddressingModel::GpuMmu {
            assert_eq!(world.translate(client, at).map(|at| at.segment), Some(SegmentId::SYSTEM));
        }
        world.tear_down();
    }
}

/// BPB-33, P52: unmapped pages show the dummy page, which belongs to nobody.
#[test]
fn unmapped_pages_show_the_dummy_page() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 256);
        let announced = world.events.iter().find_map(|event| match event {
            Event::AdapterStarted { dummy_page, .. } => Some(*dummy_page),
            _ => None,
        });
        let (a, _) = world.create_resident(client, Place::Aperture, 20, SILENT);
        let pages = shown(&world, a);
        world.evict(client, &[a], SOON).unwrap();
        world.run_all();
        for page in pages {
            assert_eq!(world.machine.aperture.shows(page), announced, "page {page}");
        }
        let dummy = announced.unwrap();
        assert!(world.host.holds(dummy.offset));
        assert_eq!(world.machine.owner(dummy), None, "it is no allocation's");
    }
}

/// BPB-33: stray access finds the dummy page, and the world finds stray access.
#[test]
#[should_panic(expected = "an access finds the dummy page")]
fn stray_access_is_found() {
    let (mut world, client) = integrated(AddressingModel::GpuMmu, 256);
    let (a, _) = world.create_resident(client, Place::Aperture, 4, SILENT);
    let page = shown(&world, a)[0];
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    let stray = PhysicalAddress { segment: world.config.aperture(), offset: page * PAGE_SIZE };
    world.machine.read(stray, &world.host);
}

/// SEG-50, U-6: an allocation that is resident outside local memory counts against one limit, wherever it is.
#[test]
fn the_commit_limit_counts_both_places() {
    for model in MODELS {
        for places in [[Place::System, Place::Aperture], [Place::Aperture, Place::System]] {
            let config = Config { aperture_commit_limit: Some(48 * PAGE_SIZE), ..Config::integrated(model, 256) };
            let (mut world, client) = of(config);
            let (first, _) = world.create_resident(client, places[0], 32, SILENT);
            let second = world.create(client, places[1], 32, SILENT);
            world.map(client, second);
            let before = world.fingerprint();
            let answer = world.make_resident(client, &[second]);
            let system = MemoryAccount { segment: SegmentId::SYSTEM, group: Some(MemorySegmentGroup::Local) };
            assert_eq!(answer, Err(refused_in(system, 16 * PAGE_SIZE, NoMemoryReason::DoesNotFit)), "{model:?}");
            assert_eq!(world.fingerprint(), before, "RES-11");
            world.evict(client, &[first], SOON).unwrap();
            world.bring_in(client, &[second]);
            world.tear_down();
        }
    }
}

/// SEG-50: an allocation beyond the limit exists; it is its residency that does not fit.
#[test]
fn an_allocation_may_exceed_what_can_be_resident() {
    for model in MODELS {
        for place in [Place::System, Place::Aperture] {
            let (mut world, client) = integrated(model, 32);
            let a = world.create(client, place, 33, SILENT);
            let answer = world.make_resident(client, &[a]);
            assert!(matches!(answer, Err(MakeResidentError::NoMemory { .. })), "{answer:?}");
            let (_, at) = world.create_resident(client, place, 32, SILENT);
            assert_eq!(world.token(client, at), Some(0), "nothing of the refused one is held");
        }
    }
}

/// 1.7: of the machine's memory half is for graphics, and 64 MiB at least.
#[test]
fn the_commit_limit_is_half_of_the_machines_memory() {
    const MIB: u64 = 1 << 20;
    let config = Config::integrated(AddressingModel::GpuMmu, 1 << 20);
    for (total, expected) in
        [(16 * MIB, 64 * MIB), (128 * MIB, 64 * MIB), (1000 * MIB, 500 * MIB), (1 << 50, 4096 * MIB)]
    {
        let mut host = Ledger { system_memory: Some(total), ..Ledger::default() };
        let mut vidmm = VidMm::start_adapter(config.options(), &mut Driver::new(&config), &mut host).unwrap();
        let limit = vidmm.events().drain().find_map(|numbered| match numbered.event {
            Event::AdapterStarted { system_commit_limit, .. } => Some(system_commit_limit),
            _ => None,
        });
        assert_eq!(limit, Some(expected), "of {total}");
    }
}

/// SEG-13: ranges are promised when a request is admitted, so that a grant finds its hole whatever comes between.
#[test]
fn a_range_is_assigned_at_admission() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 4 * UNIT);
        let other = world.client();
        // Granted when the work that uses the first ends.
        let (a, at) = world.create_resident(client, Place::Aperture, 2 * UNIT, SILENT);
        world.submit(client, &[Access::Read(at)]);
        world.evict(client, &[a], SOON).unwrap();
        let b = physical(&mut world, client, 2 * UNIT);
        let b_at = world.map(client, b);
        let _: Residency = world.make_resident(client, &[b]).unwrap();
        let c = physical(&mut world, other, 2 * UNIT);
        let answer = world.make_resident(other, &[c]);
        let is_refused = matches!(answer, Err(MakeResidentError::NoMemory { .. }));
        world.run_all();
        assert_eq!(world.token(client, b_at), Some(0), "{model:?}: what was admitted is granted");
        if is_refused {
            let _: Residency = world.make_resident(other, &[c]).unwrap();
        }
        world.run_all();
        assert_eq!((shown(&world, b).len(), shown(&world, c).len()), (2 * UNIT as usize, 2 * UNIT as usize));
        world.tear_down();
    }
}

/// I08, SEG-13: in an aperture without a hole that is large enough, trimming what is said makes one, whichever allocations
/// the caller trims.
#[test]
fn trimming_what_is_said_makes_a_hole() {
    for from_the_end in [false, true] {
        for wanted in 2..=8 {
            let (mut world, client) = integrated(AddressingModel::GpuMmu, 8 * UNIT);
            let mut listed: Vec<AllocationId> =
                (0..8).map(|_| world.create_resident(client, Place::Aperture, UNIT, SILENT).0).collect();
            for number in [6, 4, 2, 0] {
                let hole = listed.remove(number);
                world.evict(client, &[hole], SOON).unwrap();
            }
            world.run_all();
            let large = physical(&mut world, client, wanted * UNIT);
            if let Err(error) = world.make_resident(client, &[large]) {
                let MakeResidentError::NoMemory { num_bytes_to_trim, .. } = error else { panic!("{error}") };
                assert!(num_bytes_to_trim <= 8 * UNIT * PAGE_SIZE, "not absurd: {num_bytes_to_trim}");
                let count = num_bytes_to_trim.div_ceil(UNIT * PAGE_SIZE) as usize;
                assert!(count <= listed.len(), "no more than there is: {num_bytes_to_trim} for {wanted}");
                if from_the_end {
                    listed.reverse();
                }
                for &victim in &listed[..count] {
                    world.evict(client, &[victim], SOON).unwrap();
                }
                let _: Residency = world.make_resident(client, &[large]).expect("I08: what was said was trimmed");
            }
            world.run_all();
            assert_eq!(shown(&world, large).len() as u64, wanted * UNIT);
            world.tear_down();
        }
    }
}

/// An allocation that nobody requires gives its range up for one that is required, even in pieces.
#[test]
fn ranges_of_the_idle_are_taken_together() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 8 * UNIT);
        let idle: Vec<AllocationId> =
            (0..8).map(|_| world.create_resident(client, Place::Aperture, UNIT, SILENT).0).collect();
        world.evict(client, &idle, IF_NECESSARY).unwrap();
        world.run_all();
        assert_eq!(count(&world, "unmap aperture"), 0);
        let (large, _) = world.create_resident(client, Place::Aperture, 5 * UNIT, SILENT);
        assert_eq!(shown(&world, large).len() as u64, 5 * UNIT);
        assert_eq!(count(&world, "unmap aperture"), 5, "and no more than are in its way");
        world.tear_down();
    }
}

/// An allocation that is in nobody's way stays.
#[test]
fn a_free_range_is_preferred_to_one_that_is_shown() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 8 * UNIT);
        let (idle, _) = world.create_resident(client, Place::Aperture, UNIT, SILENT);
        world.evict(client, &[idle], IF_NECESSARY).unwrap();
        world.run_all();
        world.create_resident(client, Place::Aperture, UNIT, SILENT);
        assert_eq!(world.evicted(), [], "{model:?}: seven eighths of the aperture are free");
    }
}

/// RES-02: an allocation that is listed again before anybody wanted its range is where it was, and nothing is sent.
#[test]
fn listed_again_at_the_same_range() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 4 * UNIT);
        let (a, at) = world.create_resident(client, Place::Aperture, UNIT, EVICTION);
        world.submit(client, &[Access::Write(at, 3)]);
        world.evict(client, &[a], IF_NECESSARY).unwrap();
        world.run_all();
        let (before, since) = (shown(&world, a), world.journal.len());
        assert_eq!(world.make_resident(client, &[a]), Ok(Residency::Resident));
        world.run_all();
        assert_eq!(transcript(&world, since), []);
        assert_eq!(shown(&world, a), before);
        assert_eq!(world.token(client, at), Some(3));
    }
}

/// U-15: an allocation that is listed again when its range was assigned to another is evicted from there, told of, and
/// mapped elsewhere.
#[test]
fn listed_again_at_another_range() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 4 * UNIT);
        let other = world.client();
        let (a, at) = world.create_resident(client, Place::Aperture, 2 * UNIT, EVICTION);
        let handle = world.handle(a);
        world.submit(client, &[Access::WriteSurface(at, handle, 0, 3)]);
        world.run_all();
        world.evict(client, &[a], IF_NECESSARY).unwrap();
        world.run_all();
        let before = shown(&world, a);
        // Three quarters are wanted: its range is in the way wherever they are.
        let b = physical(&mut world, other, 3 * UNIT);
        world.bring_in(other, &[b]);
        world.evict(other, &[b], SOON).unwrap();
        assert_eq!(world.evicted()[0], (a, EvictReason::RangeWanted));
        world.run_all();
        world.bring_in(client, &[a]);
        let page = Access::ReadSurface(at, handle, 0);
        world.submit(client, &[page]);
        world.run_all();
        assert_eq!(world.read, [3]);
        assert_eq!(shown(&world, a).len(), before.len());
        assert_eq!(world.vidmm.statistics().eviction_notifications, 1);
        world.tear_down();
    }
}

/// The same while the other is still there: it is moved, and both are resident.
#[test]
fn an_idle_allocation_moves_to_another_range_when_its_own_is_given_away() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 8 * UNIT);
        let (first, _) = world.create_resident(client, Place::Aperture, 2 * UNIT, SILENT);
        let (a, at) = world.create_resident(client, Place::Aperture, 2 * UNIT, EVICTION);
        let handle = world.handle(a);
        world.submit(client, &[Access::WriteSurface(at, handle, 0, 3)]);
        world.evict(client, &[a], IF_NECESSARY).unwrap();
        world.evict(client, &[first], SOON).unwrap();
        world.run_all();
        // Six of eight units, and the idle one is in the middle: it goes.
        let (large, large_at) = world.create_resident(client, Place::Aperture, 6 * UNIT, SILENT);
        let _: Residency = world.make_resident(client, &[a]).unwrap();
        let read = Access::ReadSurface(at, handle, 0);
        world.submit(client, &[read, Access::Read(large_at)]);
        world.run_all();
        assert_eq!(world.read, [3, 0]);
        assert_eq!((shown(&world, a).len() as u64, shown(&world, large).len() as u64), (2 * UNIT, 6 * UNIT));
        world.tear_down();
    }
}

/// MakeResident, work, Evict, again and again, without waiting for the work; a refused request is made again when the work has
/// ended. Returns the rounds that were refused at first.
fn run_ahead(place: Place) -> Vec<u64> {
    let (mut world, client) = integrated(AddressingModel::GpuMmu, 4 * UNIT);
    let mut refused = Vec::new();
    for round in 0..6 {
        let a = world.create(client, place, 3 * UNIT, SILENT);
        let at = world.map(client, a);
        if let Err(refusal) = world.make_resident(client, &[a]) {
            assert!(matches!(refusal, MakeResidentError::NoMemory { .. }), "round {round}: {refusal}");
            refused.push(round);
            world.run_all();
            let _: Residency = world.make_resident(client, &[a]).unwrap();
        }
        world.submit(client, &[Access::Write(at, round), Access::Read(at)]);
        world.evict(client, &[a], SOON).unwrap();
    }
    world.run_all();
    assert_eq!(world.read, (0..6).collect::<Vec<_>>());
    world.tear_down();
    refused
}

/// D2: in implicit system memory a device is promised its largest list, not the sum of those that it had.
#[test]
fn a_client_may_run_ahead_in_implicit_system_memory() {
    assert_eq!(run_ahead(Place::System), [0u64; 0]);
}

/// SEG-13: ranges are found with the grant, so a client may run ahead in the aperture too: each request waits until the range is
/// free.
#[test]
fn a_client_may_run_ahead_in_the_aperture() {
    assert_eq!(run_ahead(Place::Aperture), [0u64; 0]);
}

/// RES-91: a destroyed allocation's range is free when it is unmapped.
#[test]
fn the_range_of_what_is_destroyed_is_used_again() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 4 * UNIT);
        for round in 0..12 {
            let (a, at) = world.create_resident(client, Place::Aperture, 3 * UNIT, EVICTION);
            world.submit(client, &[Access::Write(at, round), Access::Read(at)]);
            world.destroy(a);
            world.run_all();
        }
        assert_eq!(world.read, (0..12).collect::<Vec<_>>());
        world.tear_down();
    }
}

/// 2.2 bit 15: contiguous placement among page tables is not built yet, and that is said.
#[test]
fn accessed_physically_with_the_segment_of_page_tables_is_refused() {
    let (mut world, client) = of(Config { tables_in_system: false, ..Config::discrete(64, 64) });
    let before = world.fingerprint();
    for place in [Place::Local, Place::LocalOrSystem] {
        let info = world.config.allocation(place, 4, SILENT);
        let info = AllocationInfo { flags: AllocationFlags::ACCESSED_PHYSICALLY, ..info };
        assert!(matches!(world.try_create(client, info), Err(CreateError::NotSupported(_))));
    }
    assert_eq!(world.fingerprint(), before);
}

/// SEG-13: an allocation that was held when it was asked for, and has lapsed before the grant, is required by nothing:
/// it keeps its range until that is wanted, and is mapped when it is resident again.
#[test]
fn an_allocation_that_lapses_before_its_grant_is_not_resident_outside_the_aperture() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 256);
        let (a, _) = world.create_resident(client, Place::Aperture, 16, SILENT);
        let b = world.create(client, Place::System, 4, SILENT);
        let _: Residency = world.make_resident(client, &[a, b]).unwrap();
        world.evict(client, &[a, a], IF_NECESSARY).unwrap();
        world.run_all();
        let _: Residency = world.make_resident(client, &[a]).unwrap();
        world.run_all();
        assert_eq!(shown(&world, a).len(), 16);
        world.tear_down();
    }
}

/// U-15: an allocation that is destroyed before the grant of a request that names it is taken out once.
#[test]
fn an_allocation_destroyed_before_its_grant_is_taken_out_once() {
    let (mut world, client) = integrated(AddressingModel::GpuVaIoMmu, 256);
    let (a, _) = world.create_resident(client, Place::Aperture, 16, BOTH);
    let b = world.create(client, Place::System, 4, SILENT);
    let _: Residency = world.make_resident(client, &[a, b]).unwrap();
    world.destroy(a);
    world.run_all();
    assert_eq!(world.evicted(), [(a, EvictReason::Destroyed)]);
    world.tear_down();
}

/// RES-91: a dead allocation whose range is wanted goes because it is dead.
#[test]
fn a_dead_allocation_in_a_wanted_range_goes_as_destroyed() {
    let (mut world, client) = integrated(AddressingModel::GpuMmu, 32);
    let other = world.client();
    let fence = world.fence();
    let (a, _) = world.create_resident(client, Place::Aperture, 32, EVICTION);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.submit_to(client.context, &[Access::Tag(1)], &[(fence, 1)], &[]);
    world.destroy(a);
    let b = world.create(other, Place::Aperture, 32, SILENT);
    world.bring_in(other, &[b]);
    assert_eq!(world.evicted(), [(a, EvictReason::Destroyed)]);
}

/// RES-13, P03: implicit system memory has no ranges, so nothing is rounded up to what ranges are aligned to.
#[test]
fn a_refusal_in_implicit_system_memory_asks_for_the_bytes_that_are_too_much() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 16);
        let listed = world.create(client, Place::System, 4, SILENT);
        world.bring_in(client, &[listed]);
        let large = world.create(client, Place::System, 13, SILENT);
        let small = world.create(client, Place::System, 1, SILENT);
        let Err(MakeResidentError::NoMemory { num_bytes_to_trim, .. }) = world.make_resident(client, &[large, small])
        else {
            panic!("they do not fit");
        };
        assert_eq!(num_bytes_to_trim, 2 * PAGE_SIZE, "{model:?}: one for each");
    }
}

/// RES-11, RES-19: ranges that do not fit together even alone are refused, and the refusal says what must go. Only the range that lies
/// last need not fill its 64 KiB.
#[test]
fn ranges_that_do_not_fit_alone_are_refused() {
    let (mut world, client) = integrated(AddressingModel::GpuMmu, 4 * UNIT + 1);
    let listed = [UNIT + 1, UNIT, UNIT + 1].map(|pages| physical(&mut world, client, pages));
    world.bring_in(client, &listed);
    let one_more = physical(&mut world, client, 1);
    let system = MemoryAccount { segment: SegmentId::SYSTEM, group: Some(MemorySegmentGroup::Local) };
    let refused = Err(refused_in(system, UNIT * PAGE_SIZE, NoMemoryReason::Fragmented));
    assert_eq!(world.make_resident(client, &[one_more]), refused);
    world.evict(client, &listed[1..2], SOON).unwrap();
    world.bring_in(client, &[one_more]);
    world.tear_down();
}

/// RES-71: where bytes are free and no hole is large enough, a request is not refused: the holders of the ranges in between that run
/// nothing have theirs moved.
#[test]
fn a_list_finds_its_range_though_no_hole_is_large_enough() {
    for model in MODELS {
        let (mut world, client) = integrated(model, 8 * UNIT);
        let other = world.client();
        let small = [0; 8].map(|_| physical(&mut world, other, UNIT));
        world.bring_in(other, &small);
        let at = world.map(other, small[1]);
        world.submit(other, &[Access::Write(at, 7)]);
        world.run_all();
        for index in [0, 2, 4, 6] {
            world.evict(other, &small[index..=index], SOON).unwrap();
        }
        world.run_all();
        let large = physical(&mut world, client, 3 * UNIT);
        world.bring_in(client, &[large]);
        assert_eq!(shown(&world, large).len() as u64, 3 * UNIT);
        world.submit(other, &[Access::Read(at)]);
        world.run_all();
        assert_eq!(world.read, [7]);
        world.tear_down();
    }
}
