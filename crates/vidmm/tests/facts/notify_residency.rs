//! NOTIFY_RESIDENCY: a driver that asks hears where in a memory segment an allocation is, and when it leaves it (BPB-51).

use crate::patching::*;
use vidmm::contract::*;
use vidmm::*;
use vidmm_trace::{Audit, Invariant};

const ASKED: AllocationFlags =
    AllocationFlags::ACCESSED_PHYSICALLY.union(AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION);

/// An allocation in local memory whose driver asks.
fn told(pages: u64) -> AllocationInfo {
    AllocationInfo { flags: ASKED, ..info(pages, SegmentSet::of(LOCAL)) }
}

/// Writes to the first page of an allocation, which brings it in.
fn write(world: &mut World, client: Client, allocation: AllocationId, token: u64) {
    world.render(client.context, Writer::new().split().write(0, allocation, 0, token).finish());
    world.run_all();
}

fn kinds(world: &World) -> Vec<PagingOperationKind> {
    world.driver.operations.iter().map(PagingOperation::kind).collect()
}

fn notices(world: &World) -> Vec<(bool, PhysicalAddress)> {
    let notice = |operation: &PagingOperation| match operation {
        PagingOperation::NotifyResidency(op) => Some((op.resident, op.physical_address)),
        _ => None,
    };
    world.driver.operations.iter().filter_map(notice).collect()
}

fn at(segment: SegmentId, page: u64) -> PhysicalAddress {
    PhysicalAddress { segment, offset: page * PAGE_SIZE }
}

/// BPB-51: after the fill or the transfer in, with the new address; before the transfer out, with the address (0, 0).
#[test]
fn a_driver_hears_after_the_content_has_come_and_before_it_leaves() {
    use PagingOperationKind::*;
    let mut world = World::new(Config::pages(4));
    let client = world.client();
    let (a, b) = (world.create(client, told(4)), world.create(client, told(4)));
    write(&mut world, client, a, 7);
    assert_eq!(kinds(&world), [Fill, NotifyResidency]);
    write(&mut world, client, b, 8);
    assert_eq!(kinds(&world)[2..], [NotifyResidency, Transfer, Fill, NotifyResidency]);
    write(&mut world, client, a, 9);
    assert_eq!(kinds(&world)[6..], [NotifyResidency, Transfer, Transfer, NotifyResidency]);
    let (here, nowhere) = ((true, at(LOCAL, 0)), (false, at(SegmentId::SYSTEM, 0)));
    assert_eq!(notices(&world), [here, nowhere, here, nowhere, here]);
    assert_eq!(world.told.into_values().collect::<Vec<_>>(), [at(LOCAL, 0)]);
}

/// BPB-51: once for the whole allocation, however many parts its content moves in.
#[test]
fn parts_of_a_transfer_are_not_told_of() {
    let pages = 3 * (64 << 20) / PAGE_SIZE;
    let mut world = World::new(Config::pages(pages));
    let client = world.client();
    let (a, b) = (world.create(client, told(pages)), world.local(client, pages));
    write(&mut world, client, a, 7);
    write(&mut world, client, b, 8);
    assert_eq!(world.operations(PagingOperationKind::Transfer).len(), 3, "BPB-20: it leaves in parts");
    write(&mut world, client, a, 9);
    let told: Vec<bool> = notices(&world).into_iter().map(|(resident, _)| resident).collect();
    assert_eq!(told, [true, false, true]);
}

/// The GPU is told of an allocation that leaves without a copy, as of one that is copied or destroyed: the memory is
/// another's next.
#[test]
fn a_driver_hears_of_what_leaves_without_a_copy() {
    use PagingOperationKind::*;
    let mut world = World::new(Config::pages(4));
    let client = world.client();
    let (a, b) = (world.create(client, told(4)), world.local(client, 4));
    world.render(client.context, Writer::new().split().read(0, a, 0).finish());
    world.run_all();
    write(&mut world, client, b, 1);
    assert_eq!(kinds(&world), [Fill, NotifyResidency, NotifyResidency, DiscardContent, Fill]);
    world.render(client.context, Writer::new().split().read(0, a, 0).finish());
    world.run_all();
    world.call(|vidmm, _, host| vidmm.destroy_allocation(host, a, DestroyFlags::empty())).unwrap();
    write(&mut world, client, b, 2);
    assert!(world.told.is_empty(), "the driver still believes it to be somewhere");
    assert_eq!(notices(&world).len(), 4);
}

/// BPB-51: the aperture is no memory segment.
#[test]
fn the_aperture_is_not_told_of() {
    let mut world = World::new(Config { aperture_pages: 16, ..Config::pages(4) });
    let client = world.client();
    let info = AllocationInfo { supported_segment_set: SegmentSet::of(APERTURE), ..told(16) };
    let (a, b) = (world.create(client, info), world.create(client, info));
    write(&mut world, client, a, 1);
    write(&mut world, client, b, 2);
    assert_eq!(notices(&world), []);
}

/// A driver that does not ask hears nothing, and neither does one of WDDM 1, which has no such operation.
#[test]
fn other_drivers_are_not_told() {
    let old = Config { wddm_version: WddmVersion::WDDM1_3, ..Config::pages(4) };
    let accessed = AllocationFlags::ACCESSED_PHYSICALLY;
    for (config, flags) in [(Config::pages(4), accessed), (old, ASKED)] {
        let mut world = World::new(config);
        let client = world.client();
        let info = AllocationInfo { flags, ..told(4) };
        let (a, b) = (world.create(client, info), world.create(client, info));
        write(&mut world, client, a, 1);
        write(&mut world, client, b, 2);
        assert_eq!(notices(&world), []);
    }
}

/// BPB-51: the flag needs ACCESSED_PHYSICALLY.
#[test]
fn the_flag_alone_is_refused() {
    let mut world = World::new(Config::pages(4));
    let client = world.client();
    let flags = AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION;
    world.driver.next_allocation = Some(AllocationInfo { flags, ..told(4) });
    let refused = world.call(|vidmm, driver, host| vidmm.create_allocation(driver, host, client.device, &[0u8; 0][..]));
    let rule = AllocationInfoRule::ExplicitResidencyNotification;
    assert_eq!(refused, Err(CreateError::Violation(Violation::AllocationInfo { rule })));
}

/// Whether the auditor finds that the driver is not told as it asked.
fn is_found<'a>(events: impl Iterator<Item = &'a Event>) -> bool {
    let mut audit = Audit::new();
    for (number, event) in (1..).zip(events) {
        audit.event(&NumberedEvent { number, at: 0, occurred_at: None, event: event.clone() });
    }
    audit.findings().iter().any(|finding| finding.invariant == Invariant::I09)
}

/// I09: the auditor finds each word that is left out, said twice, or said on the wrong side of its transfer.
#[test]
fn the_auditor_finds_each_word_too_few_too_many_and_out_of_order() {
    let mut world = World::new(Config::pages(4));
    let client = world.client();
    let (a, b) = (world.create(client, told(4)), world.create(client, told(4)));
    for (allocation, token) in [(a, 1), (b, 2), (a, 3)] {
        write(&mut world, client, allocation, token);
    }
    let mut events = world.events;
    assert!(!is_found(events.iter()));
    let kind = |event: &Event| match event {
        Event::PagingOperation { operation, .. } => Some(operation.kind()),
        _ => None,
    };
    let (word, mut found) = (Some(PagingOperationKind::NotifyResidency), 0);
    for number in (0..events.len()).filter(|&number| kind(&events[number]) == word).collect::<Vec<_>>() {
        let less = events[..number].iter().chain(&events[number + 1..]);
        let more = events[..=number].iter().chain(&events[number..]);
        assert!(is_found(less) && is_found(more), "{:?}", events[number]);
        let Event::PagingOperation { operation: PagingOperation::NotifyResidency(op), .. } = events[number] else {
            unreachable!()
        };
        // A notice of leaving comes before the operation that follows, one of coming after the one before.
        let other = if op.resident { number - 1 } else { number + 1 };
        assert!(kind(&events[other]).is_some() && kind(&events[other]) != word);
        events.swap(number, other);
        assert!(is_found(events.iter()), "{:?} on the other side", op);
        events.swap(number, other);
        found += 1;
    }
    assert_eq!(found, 5);
}
