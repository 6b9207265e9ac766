//! Calls that are refused, with the reason, and change nothing.

use ash::vk;
use vidmm::{EvictFlags, MakeResidentFlags, NoMemoryReason, OfferPriority};
use vidmm_vulkan::{Adapter, Error, ListRoom, NeedsRoom, Options, Point, Submission, Validation};

use crate::{MIB, SHORT, World, alone};

#[test]
fn a_buffer_that_was_evicted_cannot_be_used() {
    let Some(mut world) = World::new(4 * MIB) else { return };
    let buffer = world.buffer(MIB);
    let refused = Err(Error::NotResident { allocation: buffer.named() });
    assert_eq!(world.device.begin_use(&[&buffer]).map(drop), refused, "it was never made resident");
    world.make_resident(&[&buffer]);
    world.make_resident(&[&buffer]);
    world.evict(&[&buffer]);
    world.run(&buffer, None, Some(3));
    world.evict(&[&buffer]);
    assert_eq!(world.device.begin_use(&[&buffer]).map(drop), refused);
    assert_eq!(world.device.write(&buffer, 0, &[1]).map(drop), refused);
    assert_eq!(world.device.read(&buffer, 0, 1).map(drop), refused);
    let error = world.device.begin_use(&[&buffer]).expect_err("it is refused").to_string();
    assert!(error.contains("make it resident first"), "{error}");
    world.make_resident(&[&buffer]);
    world.run(&buffer, Some(3), None);
    drop(buffer);
    world.is_clean();
}

/// The answer without the call is the answer of the call: no room, or room beside what frames hold.
#[test]
fn a_list_that_is_asked_about_is_not_changed() {
    let Some(world) = World::new(4 * MIB) else { return };
    let (large, small, of_frame) = (world.buffer(5 * MIB), world.buffer(3 * MIB), world.buffer(2 * MIB));
    let asked = |buffer| {
        let ListRoom { room, bytes_of_frames } = world.device.query_room(&[buffer]).expect("the device lives");
        (bytes_of_frames, room.refusal.map(|refusal| refusal.num_bytes_to_trim))
    };
    assert_eq!(asked(&large), (0, Some(0)), "no trim is enough");
    assert_eq!(asked(&small), (0, None));
    // SAFETY: no commands are submitted.
    let point = unsafe { world.device.frame().insert(&of_frame).submit(Submission::default()) }.expect("it fits");
    world.adapter.wait(point, SHORT).expect("it ends");
    // Page tables take some memory beside the buffers.
    let is_a_mebibyte = |trim: Option<u64>| trim.is_some_and(|bytes| (MIB..MIB + MIB / 4).contains(&bytes));
    for _ in 0..2 {
        let (bytes_of_frames, trim) = asked(&small);
        assert!(bytes_of_frames == 2 * MIB && is_a_mebibyte(trim), "{bytes_of_frames} {trim:?}");
    }
    world.make_resident(&[&small]);
    let (bytes_of_frames, trim) = asked(&of_frame);
    assert!(bytes_of_frames == 0 && is_a_mebibyte(trim), "{bytes_of_frames} {trim:?}");
    drop((large, small, of_frame));
    world.is_clean();
}

#[test]
fn a_refused_evict_leaves_the_list_as_it_was() {
    let Some(mut world) = World::new(4 * MIB) else { return };
    let (one, other) = (world.buffer(MIB), world.buffer(MIB));
    world.make_resident(&[&one]);
    let flags = EvictFlags::empty();
    let refused = world.device.evict(&[&one, &other], flags);
    assert_eq!(refused, Err(Error::NotOnList { allocation: other.named() }));
    let refused = world.device.evict(&[&one, &one], flags);
    assert_eq!(refused, Err(Error::NotOnList { allocation: one.named() }));
    world.run(&one, None, None);
    drop((one, other));
    world.is_clean();
}

#[test]
fn buffers_belong_to_their_device() {
    let Some(world) = World::new(4 * MIB) else { return };
    let other = world.process.create_device().expect("it is created");
    let buffer = world.buffer(MIB);
    let refused = Err(Error::OtherDevice { allocation: buffer.named() });
    assert_eq!(other.make_resident(&[&buffer], MakeResidentFlags::empty()).map(drop), refused);
    assert_eq!(other.evict(&[&buffer], EvictFlags::empty()), refused);
    assert_eq!(other.begin_use(&[&buffer]).map(drop), refused);
    drop((buffer, other));
    world.is_clean();
}

#[test]
fn impossible_sizes_and_ranges_are_refused() {
    let Some(world) = World::new(4 * MIB) else { return };
    for size in [0, 4096, 65_537] {
        let refused = world.device.create_buffer(size, vk::BufferUsageFlags::empty());
        assert!(matches!(refused, Err(Error::Size { what: "a buffer", asked, .. }) if asked == size), "{refused:?}");
    }
    let refused = world.device.create_buffer(512 * MIB, vk::BufferUsageFlags::empty());
    assert!(matches!(refused, Err(Error::Create(_))), "there is no such backing store: {refused:?}");
    let large = world.buffer(5 * MIB);
    let refused = world.device.make_resident(&[&large], MakeResidentFlags::empty());
    assert!(matches!(refused, Err(Error::NoRoom(_))), "{refused:?}");
    let buffer = world.buffer(MIB);
    world.make_resident(&[&buffer]);
    for (offset, bytes, end) in [(0, 0, 0), (MIB, 1, MIB + 1), (1, MIB, MIB + 1), (u64::MAX, 2, u64::MAX)] {
        let refused = world.device.read(&buffer, offset, bytes).map(drop);
        assert_eq!(refused, Err(Error::Range { allocation: buffer.named(), range: offset..end, size: MIB }));
    }
    let foreign = Point { semaphore: vk::Semaphore::null(), value: 1 };
    assert_eq!(world.adapter.wait(foreign, SHORT), Err(Error::ForeignPoint));
    drop((large, buffer));
    world.is_clean();
}

#[test]
fn addresses_run_out_and_come_back() {
    let Some(world) = World::new(4 * MIB) else { return };
    let options = Options { local_bytes: Some(4 * MIB), system_bytes: Some(4096 * MIB), ..Options::default() };
    let adapter = Adapter::open(options, Validation::Off).expect("there was one before");
    let device = adapter.create_process().and_then(|process| process.create_device()).expect("they are created");
    let limit = adapter.report().limits.sparse_address_space_bytes;
    if limit >= 4096 * MIB {
        return world.is_clean();
    }
    let create = || device.create_buffer(256 * MIB, vk::BufferUsageFlags::empty());
    let mut buffers = Vec::new();
    let refused = loop {
        match create() {
            Ok(buffer) => buffers.push(buffer),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Error::Addresses { limit: limit >> 20 });
    assert!(buffers.len() as u64 * 256 * MIB + 256 * MIB > limit, "all addresses are used before");
    drop(buffers.pop());
    buffers.push(create().expect("there are addresses again"));
    drop(buffers);
    world.is_clean();
}

#[test]
fn an_adapter_is_as_large_as_the_device_at_most() {
    let _alone = alone();
    if crate::adapter(4 * MIB, Validation::Off).is_none() {
        return;
    }
    for local in [0, 1000, 1 << 60] {
        let options = Options { local_bytes: Some(local), system_bytes: Some(MIB), ..Options::default() };
        let refused = Adapter::open(options, Validation::Off).map(drop);
        assert!(
            matches!(refused, Err(Error::Size { what: "local memory", asked, .. }) if asked == local),
            "{refused:?}"
        );
    }
}

#[test]
fn an_adapter_without_options_takes_a_part_of_what_there_is() {
    let alone = alone();
    if crate::adapter(4 * MIB, Validation::Off).is_none() {
        return;
    }
    let adapter = Adapter::open(Options::default(), Validation::Off).expect("there was one before");
    let mut world = World::over(adapter, false, alone);
    let heap = world.adapter.report().heaps.iter().map(|heap| heap.bytes).max().unwrap_or(0);
    let budget = world.process.budget().expect("the adapter answers").budget;
    assert!(budget > 64 * MIB && budget < heap, "{budget} bytes of {heap}");
    let buffer = world.buffer(MIB);
    world.make_resident(&[&buffer]);
    world.run(&buffer, None, Some(1));
    world.holds(&buffer, 1);
    drop(buffer);
    world.is_clean();
}

#[test]
fn a_refusal_names_the_largest_allocations_and_the_remedies() {
    let Some(world) = World::new(8 * MIB) else { return };
    let [listed, small, large] = [3, 2, 4].map(|mib| world.buffer(mib * MIB));
    listed.set_name("terrain").expect("it is a name");
    large.set_name("shadow map").expect("it is a name");
    world.make_resident(&[&listed]);
    let fits = world.device.frame().insert(&large).begin_use().expect("it fits");
    drop(fits);
    let refused = world.device.frame().insert(&large).insert_read(&small).begin_use().map(drop);
    let Err(Error::NoRoom(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.call, NeedsRoom::Frame { device: world.adapter.allocations().unwrap()[0].device, number: 2 });
    assert_eq!((refusal.allocations, refusal.bytes, refusal.reason), (2, 6 * MIB, NoMemoryReason::DoesNotFit));
    assert_eq!(refusal.largest, (large.named(), 4 * MIB));
    assert_eq!(refusal.largest_listed, Some((listed.named(), 3 * MIB)));
    let text = refusal.to_string();
    // The buffer that counts wrong words is on the list too.
    assert_eq!(refusal.listed_bytes, 3 * MIB + (64 << 10), "{text}");
    for part in ["frame 2 of", "`shadow map` of 4 MiB", "such as", "`terrain` of 3 MiB", "submit the frame in parts"] {
        assert!(text.contains(part), "{text}: `{part}` is missing");
    }
    assert!(refusal.num_bytes_to_trim > 0 && refusal.num_bytes_to_trim <= 3 * MIB, "{text}");
    world.evict(&[&listed]);
    drop(world.device.frame().insert(&large).insert_read(&small).begin_use().expect("the named bytes are enough"));
    let all = world.device.frame().insert(&listed).insert(&large).insert(&small).begin_use().map(drop);
    let text = all.expect_err("nine are more than eight").to_string();
    assert!(text.ends_with("submit the frame in parts"), "nothing is left to evict: {text}");
    let huge = world.buffer(9 * MIB);
    let refused = world.device.make_resident(&[&huge], MakeResidentFlags::empty()).map(drop);
    let text = refused.expect_err("it is larger than local memory").to_string();
    assert!(text.contains("create smaller buffers") && !text.contains("evict"), "{text}");
    drop((listed, small, large, huge));
    world.is_clean();
}

#[test]
fn an_offered_allocation_is_refused_by_name() {
    let Some(world) = World::new(4 * MIB) else { return };
    let buffer = world.buffer(MIB);
    buffer.set_name("history").expect("it is a name");
    assert_eq!(buffer.set_name("a\0b"), Err(Error::Name { name: "a\0b".to_owned() }));
    let refused = world.device.reclaim(&[&buffer]).map(drop);
    assert_eq!(refused, Err(Error::NotOffered { allocation: buffer.named() }));
    world.device.offer(&[&buffer], OfferPriority::Normal).expect("it is not offered");
    let offered = Err(Error::Offered { allocation: buffer.named() });
    assert_eq!(world.device.offer(&[&buffer], OfferPriority::Normal), offered);
    assert_eq!(world.device.make_resident(&[&buffer], MakeResidentFlags::empty()).map(drop), offered);
    let text = world.device.frame().insert(&buffer).begin_use().map(drop).expect_err("it is offered").to_string();
    assert!(text.contains("`history` is offered: reclaim it first"), "{text}");
    drop(buffer);
    world.is_clean();
}
