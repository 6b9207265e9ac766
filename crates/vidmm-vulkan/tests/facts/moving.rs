//! Content that leaves local memory and comes back.

use std::thread::sleep;
use std::time::Duration;

use ash::vk;
use vidmm::{MakeResidentFlags, OfferPriority, ReclaimResult};
use vidmm_vulkan::{Buffer, BufferDesc, Error, LocalMemory, Validation};

use crate::{MIB, World, words};

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn buffers_of_four_times_local_memory_keep_every_word() {
    keep_every_word(World::new(8 * MIB), 2 * MIB);
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn stale_bindings_change_no_word() {
    keep_every_word(World::with_lazy_unbinding(8 * MIB), 2 * MIB);
}

#[test]
#[ignore = "takes a gibibyte of memory, and minutes"]
fn a_gibibyte_of_buffers_keeps_every_word() {
    keep_every_word(World::new(256 * MIB), 64 * MIB);
}

/// Sixteen buffers of these bytes.
fn keep_every_word(world: Option<World>, size: u64) {
    let Some(mut world) = world else { return };
    let buffers: Vec<_> = (0..16).map(|_| world.buffer(size)).collect();
    let addresses: Vec<_> = buffers.iter().map(|buffer| buffer.address()).collect();
    // Buffers come in another order each round, so they come to other places.
    for round in 0..4 {
        for turn in 0..16 {
            let number = (turn * 5 + round * 3) % 16;
            let seed = |round: usize| (round * 100 + number) as u32;
            world.make_resident(&[&buffers[number]]);
            if let Some(before) = round.checked_sub(1) {
                world.holds(&buffers[number], seed(before));
            }
            world.run(&buffers[number], round.checked_sub(1).map(seed), Some(seed(round)));
            world.holds(&buffers[number], seed(round));
            world.evict(&[&buffers[number]]);
        }
    }
    let moved = world.adapter.statistics().expect("the adapter answers");
    assert!(moved.bytes_paged_in >= 3 * 16 * size, "{} bytes came back", moved.bytes_paged_in);
    assert!(buffers.iter().map(|buffer| buffer.address()).eq(addresses), "addresses stay");
    drop(buffers);
    world.is_clean();
}

#[test]
fn the_kernel_finds_words_that_are_wrong() {
    let Some(mut world) = World::new(4 * MIB) else { return };
    let buffer = world.buffer(MIB);
    world.make_resident(&[&buffer]);
    world.run(&buffer, None, Some(1));
    world.run(&buffer, Some(2), None);
    assert_eq!(world.wrong_words(), (MIB / 4) as u32);
}

#[test]
fn a_full_memory_says_how_much_to_evict_and_that_is_enough() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let buffers: Vec<_> = (0..4).map(|_| world.buffer(2 * MIB)).collect();
    let three: Vec<_> = buffers[..3].iter().collect();
    world.make_resident(&three);
    world.run(&buffers[0], None, Some(7));
    let refused = world.device.make_resident(&[&buffers[3]], MakeResidentFlags::empty());
    let Err(Error::NoRoom(refusal)) = refused else { panic!("{refused:?}") };
    let num_bytes_to_trim = refusal.num_bytes_to_trim;
    assert!(num_bytes_to_trim > 0 && num_bytes_to_trim <= 2 * MIB, "{num_bytes_to_trim}");
    world.evict(&[&buffers[0]]);
    world.make_resident(&[&buffers[3]]);
    world.run(&buffers[3], None, Some(8));
    world.evict(&[&buffers[3]]);
    world.make_resident(&[&buffers[0]]);
    world.run(&buffers[0], Some(7), None);
    drop(buffers);
    world.is_clean();
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn bytes_of_the_host_come_and_go() {
    let Some(world) = World::new(4 * MIB) else { return };
    let (one, other) = (world.buffer(2 * MIB), world.buffer(2 * MIB));
    let bytes: Vec<u8> = (0..MIB + 12).map(|index| (index * 7 + index / 251) as u8).collect();
    for (buffer, offset) in [(&one, 0), (&other, 65_532), (&one, MIB - 12)] {
        world.make_resident(&[buffer]);
        world.device.write(buffer, offset, &bytes).expect("it is resident");
        world.evict(&[buffer]);
        world.make_resident(&[buffer]);
        let read = world.device.read(buffer, offset, bytes.len() as u64).expect("it is resident");
        assert!(read.wait().expect("the GPU answers") == bytes, "the bytes are those that were written");
        world.evict(&[buffer]);
    }
    drop((one, other));
    world.is_clean();
}

#[test]
fn kernels_see_what_the_host_writes_and_where_it_was_moved() {
    let Some(mut world) = World::new(4 * MIB) else { return };
    let buffers: Vec<_> = (0..6).map(|_| world.buffer(MIB)).collect();
    for (number, buffer) in (0..).zip(&buffers) {
        world.make_resident(&[buffer]);
        world.device.write(buffer, 0, &words(number, (MIB / 4) as u32)).expect("it is resident");
        world.evict(&[buffer]);
    }
    for (number, buffer) in (0..6).zip(&buffers).rev() {
        world.make_resident(&[buffer]);
        world.run(buffer, Some(number), Some(number + 100));
        world.holds(buffer, number + 100);
        world.evict(&[buffer]);
    }
    drop(buffers);
    world.is_clean();
}

#[test]
fn a_buffer_is_used_as_it_was_asked_for() {
    let Some(world) = World::new(4 * MIB) else { return };
    let usage = vk::BufferUsageFlags::INDEX_BUFFER | vk::BufferUsageFlags::INDIRECT_BUFFER;
    let buffer = world.device.create_buffer(MIB, usage).expect("there is memory");
    world.make_resident(&[&buffer]);
    world.device.write(&buffer, 4, &[1, 2, 3]).expect("it is resident");
    let read = world.device.read(&buffer, 0, 8).expect("it is resident").wait();
    assert_eq!(read, Ok(vec![0, 0, 0, 0, 1, 2, 3, 0]), "what was not written is zero");
    drop(buffer);
    world.is_clean();
}

#[test]
fn offered_content_is_kept_while_there_is_room_and_lost_otherwise() {
    let Some(mut world) = World::new(4 * MIB) else { return };
    let (kept, taker) = (world.buffer(2 * MIB), world.buffer(3 * MIB));
    world.make_resident(&[&kept]);
    world.run(&kept, None, Some(5));
    world.device.offer(&[&kept], OfferPriority::Normal).expect("it is not offered");
    assert!(matches!(world.device.begin_use(&[&kept]), Err(Error::Offered { .. })));
    let (results, point) = world.device.reclaim(&[&kept]).expect("it is offered");
    assert_eq!(results, [ReclaimResult::Ok]);
    world.wait(point);
    world.run(&kept, Some(5), None);

    world.device.offer(&[&kept], OfferPriority::Normal).expect("it is not offered");
    let point = world.make_resident(&[&taker]);
    world.wait(point);
    world.evict(&[&taker]);
    let (results, _) = world.device.reclaim(&[&kept]).expect("it is offered");
    assert_eq!(results, [ReclaimResult::Discarded]);
    world.run(&kept, None, None);
    drop((kept, taker));
    world.is_clean();
}

/// Gives free memory back to the system: the allocator keeps some megabytes of it, now more and now less.
#[cfg(target_env = "gnu")]
fn trim() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> i32;
    }
    // SAFETY: it is a function of the C library, and takes no pointers.
    unsafe { malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}

/// The memory of this process in KiB, its mappings, and its open files.
fn held() -> (u64, usize, usize) {
    trim();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).map(str::trim);
    let resident = resident.and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0);
    let maps = std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
    (resident, maps, std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count))
}

#[test]
fn a_thousand_round_trips_leave_nothing_behind() {
    leave_nothing_behind(1_000);
}

#[test]
#[ignore = "takes minutes"]
fn a_hundred_thousand_round_trips_leave_nothing_behind() {
    leave_nothing_behind(100_000);
}

/// Without validation, whose layers keep something of every call.
fn leave_nothing_behind(round_trips: u32) {
    let Some(mut world) = World::with(4 * MIB, Validation::Off) else { return };
    let lasting: Vec<_> = (0..3).map(|_| world.buffer(MIB)).collect();
    let round = |world: &mut World, number: u32| {
        let buffer = &lasting[number as usize % 3];
        world.make_resident(&[buffer]);
        world.run(buffer, number.checked_sub(3), Some(number));
        world.evict(&[buffer]);
        // Objects that come and go.
        let device = world.process.create_device().expect("it is created");
        let passing = device.create_buffer(MIB / 4, vk::BufferUsageFlags::empty()).expect("there is memory");
        device.make_resident(&[&passing], MakeResidentFlags::empty()).expect("there is room");
        device.write(&passing, 0, &number.to_ne_bytes()).expect("it is resident");
    };
    (0..200).for_each(|number| round(&mut world, number));
    let before = held();
    (200..200 + round_trips).for_each(|number| round(&mut world, number));
    let after = held();
    let grown = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1), after.2.saturating_sub(before.2));
    let told = format!("{grown:?} KiB, mappings and files more");
    println!("{told}");
    assert!(grown.0 < 4096 && grown.1 < 32 && grown.2 == 0, "{told}");
    drop(lasting);
    world.is_clean();
}

/// Five buffers of 16 MiB in one range each, which frames have written, each with its number as the seed.
fn fill_80_mib(world: &mut World) -> Vec<Buffer> {
    let create = || world.device.create_buffer_with(BufferDesc { range_bytes: 16 * MIB, ..BufferDesc::new(16 * MIB) });
    let buffers: Vec<_> = (0..5).map(|_| create().expect("there is memory")).collect();
    for (seed, buffer) in (0..).zip(&buffers) {
        world.run_frame(&[(buffer, None, Some(seed))]);
    }
    buffers
}

pub fn local_memory(world: &World) -> LocalMemory {
    world.adapter.local_memory().expect("the adapter answers")
}

/// Memory that an application has pinned for itself is not the manager's, and is counted.
#[test]
fn local_memory_that_is_pinned_is_given_up() {
    let Some(mut world) = World::new(96 * MIB) else { return };
    let buffers = fill_80_mib(&mut world);
    let pinned = [40 * MIB, 16 * MIB].map(|bytes| world.adapter.pin_local_memory(bytes).expect("there is so much"));
    let refused = world.adapter.pin_local_memory(48 * MIB).map(|pinned| pinned.bytes());
    assert_eq!(refused, Err(Error::Pinned { bytes: 48 * MIB, left: 40 * MIB }));
    assert_eq!((local_memory(&world).limit, local_memory(&world).pinned), (Some(40 * MIB), 56 * MIB));
    let is_given_up = |_| {
        sleep(Duration::from_millis(1));
        local_memory(&world).allocated <= 64 * MIB
    };
    assert!((0..10_000).any(is_given_up), "{:?}", local_memory(&world));
    for (seed, buffer) in (0..).zip(&buffers) {
        world.run_frame(&[(buffer, Some(seed), None)]);
    }
    drop(pinned);
    assert_eq!((local_memory(&world).limit, local_memory(&world).pinned), (None, 0));
    drop(buffers);
    world.is_clean();
}

/// Local memory that others want goes back to the device, and is taken again when there is room.
#[test]
fn local_memory_that_is_restricted_is_given_back() {
    let Some(mut world) = World::new(96 * MIB) else { return };
    let buffers = fill_80_mib(&mut world);
    let before = local_memory(&world);
    assert_eq!((before.bytes, before.limit), (96 * MIB, None));
    assert_eq!(before.allocated, 96 * MIB, "each buffer begins amid a block of 16 MiB");
    world.adapter.restrict_local_memory(Some(40 * MIB)).expect("the adapter works");
    let is_given_back = |_| {
        sleep(Duration::from_millis(1));
        local_memory(&world).allocated <= 64 * MIB
    };
    assert!((0..10_000).any(is_given_back), "{:?}", local_memory(&world));
    assert_eq!(local_memory(&world).limit, Some(40 * MIB));
    assert_eq!(world.process.budget().expect("the adapter answers").budget, 40 * MIB);
    for round in 0..2 {
        for (seed, buffer) in (0..).zip(&buffers) {
            world.run_frame(&[(buffer, Some(10 * round + seed), Some(10 * (round + 1) + seed))]);
        }
    }
    world.adapter.restrict_local_memory(None).expect("the adapter works");
    for (seed, buffer) in (20..).zip(&buffers) {
        world.run_frame(&[(buffer, Some(seed), None)]);
    }
    assert_eq!(local_memory(&world).limit, None);
    drop(buffers);
    world.is_clean();
}
