//! MAP_APERTURE_SEGMENT2: a driver that has it is sent it wherever others are sent MAP_APERTURE_SEGMENT, which it never is
//! (BPB-34).

use crate::world::{Access, Config, Place, SILENT, SOON, World};
use crate::{patching, world};
use vidmm::contract::*;
use vidmm::*;
use vidmm_trace::{Audit, Invariant};

const MODELS: [AddressingModel; 3] =
    [AddressingModel::GpuMmu, AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal];

const CAPS: [VidMmCaps; 2] = [VidMmCaps::empty(), VidMmCaps::MAP_APERTURE2_SUPPORTED];

/// Two allocations come into the aperture and leave it, one of them twice; what is written there stays. Returns the world at rest.
fn comes_and_goes(config: Config) -> World {
    let mut world = World::new(config);
    let client = world.client();
    let (a, at) = world.create_resident(client, Place::Aperture, 20, SILENT);
    world.create_resident(client, Place::Aperture, 3, SILENT);
    world::write(&mut world, client, at + 19 * PAGE_SIZE, 4);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[a]);
    world.submit(client, &[Access::Read(at + 19 * PAGE_SIZE)]);
    world.run_all();
    assert_eq!(world::read(&mut world, client, at + 19 * PAGE_SIZE), 4);
    world
}

fn number(operations: &[PagingOperation], kind: PagingOperationKind) -> usize {
    operations.iter().filter(|operation| operation.kind() == kind).count()
}

/// The operation in the first form, if it has two.
fn in_first_form(operation: &PagingOperation) -> PagingOperation {
    match *operation {
        PagingOperation::MapApertureSegment2(op) => PagingOperation::MapApertureSegment(op.into()),
        other => other,
    }
}

/// BPB-34: one of the forms for each driver; unmapping has one. All else is the same, to the last field.
#[test]
fn a_driver_is_sent_the_form_that_it_has() {
    use PagingOperationKind::*;
    for model in MODELS {
        for aperture_is_coherent in [false, true] {
            let [first, second] = CAPS.map(|caps| {
                let world = comes_and_goes(Config { caps, aperture_is_coherent, ..Config::integrated(model, 256) });
                let operations = world.driver.operations.clone();
                world.tear_down();
                operations
            });
            let counts = |operations| [MapApertureSegment, MapApertureSegment2].map(|kind| number(operations, kind));
            assert_eq!((counts(&first), counts(&second)), ([3, 0], [0, 3]), "{model:?}");
            assert_eq!(number(&second, UnmapApertureSegment), 1, "{model:?}");
            assert_eq!(second.iter().map(in_first_form).collect::<Vec<_>>(), first);
        }
    }
}

/// BPB-34, C-18: the cap counts, and not the version: a driver of WDDM 2.9 without it is sent the first form.
#[test]
fn the_version_alone_does_not_ask_for_it() {
    for (caps, kind) in
        CAPS.into_iter().zip([PagingOperationKind::MapApertureSegment, PagingOperationKind::MapApertureSegment2])
    {
        let wddm_version = WddmVersion::WDDM2_9;
        let world = comes_and_goes(Config { caps, wddm_version, ..Config::discrete(16, 256) });
        assert_eq!(number(&world.driver.operations, kind), 3);
    }
}

/// BPB-34: the page number is the address of the backing store, in pages of 4 KiB.
#[test]
fn it_gives_the_number_of_the_first_page() {
    let mut world = World::new(Config { caps: VidMmCaps::MAP_APERTURE2_SUPPORTED, ..Config::discrete(16, 256) });
    let client = world.client();
    world.create_resident(client, Place::Aperture, 3, SILENT);
    let (a, _) = world.create_resident(client, Place::Aperture, 20, SILENT);
    let map = world.driver.operations.iter().find_map(|operation| match *operation {
        PagingOperation::MapApertureSegment2(op) if op.allocation == world.handle(a) => Some(op),
        _ => None,
    });
    let map = map.expect("it is mapped");
    let store = world.machine.known[&world.handle(a)].backing_store;
    assert_ne!(store.offset, 0);
    assert_eq!((map.adl.base_page_number, map.number_of_pages), (store.offset / PAGE_SIZE, 20));
}

/// SEG-45: content that leaves local memory through the aperture is mapped there by the same form.
#[test]
fn content_leaves_through_the_aperture_by_the_form_that_the_driver_has() {
    use PagingOperationKind::*;
    use patching::{APERTURE, LOCAL, Writer, info};
    for (caps, form) in CAPS.into_iter().zip([MapApertureSegment, MapApertureSegment2]) {
        let mut world = patching::World::new(patching::Config { caps, ..patching::Config::pages(4) });
        let client = world.client();
        let eviction_segment_set = SegmentSet::of(APERTURE);
        let a = world.create(client, AllocationInfo { eviction_segment_set, ..info(4, SegmentSet::of(LOCAL)) });
        let b = world.local(client, 4);
        for (allocation, token) in [(a, 77), (b, 1)] {
            world.render(client.context, Writer::new().split().write(0, allocation, 3, token).finish());
            world.run_all();
        }
        let kinds: Vec<_> = world.driver.operations.iter().map(PagingOperation::kind).collect();
        assert_eq!(kinds, [Fill, form, Transfer, UnmapApertureSegment, Fill]);
        world.render(client.context, Writer::new().split().read(0, a, 3).finish());
        world.run_all();
        assert_eq!(world.read.pop(), Some(77));
    }
}

/// The rules that the auditor finds broken.
fn broken<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<Invariant> {
    let mut audit = Audit::new();
    for (number, event) in (1..).zip(events) {
        audit.event(&NumberedEvent { number, at: 0, occurred_at: None, event: event.clone() });
    }
    let mut found: Vec<_> = audit.findings().iter().map(|finding| finding.invariant).collect();
    found.dedup();
    found
}

/// I23, I24: the auditor misses each step that is left out, finds each that is sent twice, too late, or in the other form.
#[test]
fn the_auditor_finds_each_step_too_few_too_many_out_of_order_and_in_the_other_form() {
    for model in MODELS {
        let caps = VidMmCaps::MAP_APERTURE2_SUPPORTED;
        let mut events = comes_and_goes(Config { caps, ..Config::integrated(model, 256) }).events;
        assert_eq!(broken(events.iter()), []);
        let maps = |event: &Event| match event {
            Event::PagingOperation { operation, .. } => operation.kind() == PagingOperationKind::MapApertureSegment2,
            _ => false,
        };
        let sent: Vec<usize> = (0..events.len()).filter(|&at| maps(&events[at])).collect();
        assert_eq!(sent.len(), 3);
        for at in sent {
            let less = events[..at].iter().chain(&events[at + 1..]);
            assert!(broken(less).contains(&Invariant::I24), "{model:?}: {:?} left out", events[at]);
            let more = events[..=at].iter().chain(&events[at..]);
            assert!(broken(more).contains(&Invariant::I24), "{model:?}: {:?} sent twice", events[at]);
            let retired =
                at + events[at..].iter().position(|event| matches!(event, Event::PlanRetired { .. })).unwrap();
            let late = events[..at].iter().chain(&events[at + 1..=retired]).chain([&events[at]]);
            let late = late.chain(&events[retired + 1..]);
            assert!(broken(late).contains(&Invariant::I24), "{model:?}: {:?} too late", events[at]);
            let Event::PagingOperation { operation, .. } = &mut events[at] else { unreachable!() };
            let second = std::mem::replace(operation, in_first_form(operation));
            assert_eq!(broken(events.iter()), [Invariant::I23]);
            let Event::PagingOperation { operation, .. } = &mut events[at] else { unreachable!() };
            *operation = second;
        }
    }
}
