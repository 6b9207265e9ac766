//! Frames: a submission names what it uses, and that is brought in for it (RES-05, RES-57).

use std::sync::mpsc::channel;
use std::time::Instant;

use ash::vk;
use vidmm::policy::PolicyChoice;
use vidmm::{AllocationResidencyStatus, EvictFlags, MakeResidentFlags, OfferPriority, TrimFlags};
use vidmm_vulkan::{Buffer, Error, Options, Point, Submission, Validation};

use crate::{LONG, MIB, World, alone, open, options, words};

impl World {
    /// A frame that runs the kernel on buffers, each with the seed that it expects and the one that it writes. One without the latter is
    /// only read.
    pub fn run_frame(&mut self, uses: &[(&Buffer, Option<u32>, Option<u32>)]) {
        let frame = self.begin_frame(uses);
        self.end_frame(frame);
    }

    /// The same, without waiting for the end.
    pub fn begin_frame(&mut self, uses: &[(&Buffer, Option<u32>, Option<u32>)]) -> (Point, vk::CommandBuffer) {
        let steps: Vec<_> = uses.iter().map(|&(buffer, expected, next)| self.step(buffer, expected, next)).collect();
        let commands = self.kernel().record(&steps).expect("it is recorded");
        let frame = uses.iter().fold(self.device.frame(), |frame, &(buffer, _, next)| match next {
            Some(_) => frame.insert(buffer),
            None => frame.insert_read(buffer),
        });
        let work = Submission { commands: vec![commands], ..Submission::default() };
        // SAFETY: the commands use what is named here, and are kept until the point is reached.
        let point = unsafe { frame.submit(work) }.expect("it fits");
        (point, commands)
    }

    /// Waits for a frame.
    pub fn end_frame(&mut self, (point, commands): (Point, vk::CommandBuffer)) {
        self.wait(point);
        self.kernel().recycle(commands);
    }

    /// Waits until an allocation is in no memory.
    fn until_gone(&self, buffer: &Buffer) {
        let deadline = Instant::now() + LONG;
        while buffer.residency().expect("the adapter answers") != AllocationResidencyStatus::NotResident {
            assert!(Instant::now() < deadline, "it stays");
            std::thread::yield_now();
        }
    }

    fn bytes_paged_out(&self) -> u64 {
        self.adapter.statistics().expect("the adapter answers").bytes_paged_out
    }
}

#[test]
fn frames_over_four_times_local_memory_keep_every_word() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let buffers: Vec<_> = (0..16).map(|_| world.buffer(2 * MIB)).collect();
    for round in 0..4_usize {
        for turn in 0..8 {
            let of = |number: usize| {
                let seed = |round: usize| (round * 100 + number) as u32;
                (&buffers[number], round.checked_sub(1).map(seed), Some(seed(round)))
            };
            world.run_frame(&[of((turn * 5 + round) % 8), of(8 + (turn * 3 + round) % 8)]);
        }
    }
    let last = world.device.frame().read(&buffers[9], 0, 2 * MIB).expect("it fits").wait();
    assert!(last == Ok(words(309, (2 * MIB / 4) as u32)), "its memory holds other words");
    drop(buffers);
    world.is_clean();
}

#[test]
fn a_buffer_that_frames_only_read_leaves_without_a_copy() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let buffers: Vec<_> = (0..4).map(|_| world.buffer(3 * MIB)).collect();
    for (seed, buffer) in (0..).zip(&buffers) {
        world.device.frame().write(buffer, 0, &words(seed, (3 * MIB / 4) as u32)).expect("it fits");
    }
    for (seed, buffer) in (0..).zip(&buffers) {
        world.run_frame(&[(buffer, Some(seed), None)]);
    }
    let before = world.bytes_paged_out();
    for (seed, buffer) in (0..).zip(&buffers).chain((0..).zip(&buffers)) {
        world.run_frame(&[(buffer, Some(seed), None)]);
    }
    assert_eq!(world.bytes_paged_out(), before);
    let moved = world.adapter.statistics().expect("the adapter answers");
    assert!(moved.bytes_paged_in >= 12 * 3 * MIB, "{} bytes came in", moved.bytes_paged_in);
    drop(buffers);
    world.is_clean();
}

#[test]
fn uses_of_the_devices_own_list_may_write_what_frames_only_read() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let large = world.buffer(6 * MIB);
    for is_known_to_frames in [true, false] {
        let shared = world.buffer(3 * MIB);
        if is_known_to_frames {
            world.run_frame(&[(&shared, None, None)]);
        }
        world.make_resident(&[&shared]);
        world.run_frame(&[(&shared, None, None)]);
        world.run(&shared, None, Some(5));
        world.evict(&[&shared]);
        for _ in 0..2 {
            world.run_frame(&[(&large, None, None)]);
            world.run_frame(&[(&shared, Some(5), None)]);
        }
    }
    drop(large);
    world.is_clean();
}

#[test]
fn a_frame_that_does_not_fit_is_refused_and_the_next_goes_on() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let buffers: Vec<_> = (0..4).map(|_| world.buffer(3 * MIB)).collect();
    world.run_frame(&[(&buffers[0], None, Some(1)), (&buffers[1], None, Some(2))]);
    let all = buffers.iter().fold(world.device.frame(), |frame, buffer| frame.insert(buffer));
    let refused = all.begin_use().map(drop);
    assert!(matches!(refused, Err(Error::NoRoom(_))), "{refused:?}");
    let other = world.process.create_device().expect("it is created");
    let refused = other.frame().insert(&buffers[0]).begin_use().map(drop);
    assert_eq!(refused, Err(Error::OtherDevice { allocation: buffers[0].named() }));
    world.run_frame(&[(&buffers[2], None, Some(3)), (&buffers[0], Some(1), None)]);
    world.run_frame(&[(&buffers[1], Some(2), None)]);
    drop((buffers, other));
    world.is_clean();
}

#[test]
fn a_frame_cannot_use_what_is_offered() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let buffer = world.buffer(3 * MIB);
    world.run_frame(&[(&buffer, None, Some(1))]);
    world.device.offer(&[&buffer], OfferPriority::Normal).expect("it is not offered yet");
    let refused = world.device.frame().insert_read(&buffer).begin_use().map(drop);
    assert_eq!(refused, Err(Error::Offered { allocation: buffer.named() }));
    let _ = world.device.reclaim(&[&buffer]).expect("it is offered");
    world.run_frame(&[(&buffer, Some(1), None)]);
    drop(buffer);
    world.is_clean();
}

#[test]
fn a_use_of_a_frame_keeps_what_it_names_until_it_ends() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let (used, next) = (world.buffer(6 * MIB), world.buffer(6 * MIB));
    world.run_frame(&[(&used, None, Some(1))]);
    let frame = world.device.frame().insert(&used).begin_use().expect("it fits");
    world.wait(frame.turn());
    // Without a submission a use ends when it is dropped.
    let point = world.device.frame().write(&next, 0, &[7; 4096]).expect("its use waits");
    assert!(!world.is_reached(point), "its memory is in use");
    drop(frame);
    world.wait(point);
    world.run_frame(&[(&used, Some(1), None)]);
    drop((used, next));
    world.is_clean();
}

#[test]
fn frames_give_up_what_their_device_is_to_trim() {
    let Some(world) = World::new(8 * MIB) else { return };
    let other = world.adapter.create_process().expect("there is memory for a process");
    let (first, second) = (world.device.clone(), other.create_device().expect("it is created"));
    let (told, hears) = channel();
    first.on_trim(move |trim| told.send(trim).unwrap_or(())).expect("the adapter listens");
    let create = |device: &vidmm_vulkan::Device| device.create_buffer(MIB, vk::BufferUsageFlags::empty());
    let of = |device| (0..6).map(|_| create(device).expect("there is memory")).collect::<Vec<_>>();
    let (own, others) = (of(&first), of(&second));
    for buffer in &own {
        first.frame().write(buffer, 0, &[1; 64]).expect("it fits");
    }
    let all: Vec<_> = others.iter().collect();
    let _ = second.make_resident(&all, MakeResidentFlags::CANT_TRIM_FURTHER).expect("it fits alone");
    let trim = loop {
        let trim: vidmm_vulkan::Trim = hears.recv_timeout(LONG).expect("it is asked");
        if trim.flags.contains(TrimFlags::TRIM_TO_BUDGET) {
            break trim;
        }
    };
    assert_eq!(trim.num_bytes_to_trim, 0, "nothing is left to be given up by the application");
    world.wait(second.write(&others[0], 0, &[2; 64]).expect("it is resident"));
    second.evict(&all, EvictFlags::empty()).expect("they are on the list");
    for buffer in &own {
        let bytes = first.frame().read(buffer, 0, 64).expect("it fits").wait();
        assert_eq!(bytes, Ok(vec![1; 64]));
    }
    drop((own, others, first, second, other));
    world.is_clean();
}

/// Frames hold memory only as long as nothing else of the process needs the room.
#[test]
fn frames_give_way_to_a_list_of_the_application() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let of_frames: Vec<_> = (0..7).map(|_| world.buffer(MIB)).collect();
    for (seed, buffer) in (0..).zip(&of_frames) {
        world.run_frame(&[(buffer, None, Some(seed))]);
    }
    let listed: Vec<_> = (0..6).map(|_| world.buffer(MIB)).collect();
    let all: Vec<_> = listed.iter().collect();
    world.wait(world.make_resident(&all));
    for (seed, buffer) in (0..).zip(&of_frames) {
        world.run_frame(&[(buffer, Some(seed), None)]);
    }
    drop((of_frames, listed));
    world.is_clean();
}

#[test]
fn frames_of_the_devices_of_a_process_give_way_to_each_other() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let second = world.process.create_device().expect("it is created");
    let own = world.buffer(6 * MIB);
    let other = second.create_buffer(6 * MIB, vk::BufferUsageFlags::empty()).expect("there is memory");
    for round in 0..3_u32 {
        world.run_frame(&[(&own, round.checked_sub(1), Some(round))]);
        let written = second.frame().write(&other, 0, &[round as u8; 4096]).expect("the first device has given way");
        world.wait(written);
        assert_eq!(second.frame().read(&other, 0, 4096).expect("it is there").wait(), Ok(vec![round as u8; 4096]));
    }
    drop((own, other, second));
    world.is_clean();
}

#[test]
fn a_trim_asks_for_what_frames_alone_cannot_give_up() {
    let Some(world) = World::new(16 * MIB) else { return };
    let buffers: Vec<_> = (0..8).map(|_| world.buffer(MIB)).collect();
    for buffer in &buffers {
        world.device.frame().write(buffer, 0, &[1; 64]).expect("it fits");
    }
    let all: Vec<_> = buffers.iter().collect();
    world.wait(world.make_resident(&all));
    let (told, hears) = channel();
    world.device.on_trim(move |trim| told.send(trim).unwrap_or(())).expect("the adapter listens");
    world.adapter.restrict_local_memory(Some(4 * MIB)).expect("the adapter works");
    let trim = loop {
        let trim: vidmm_vulkan::Trim = hears.recv_timeout(LONG).expect("it is asked");
        if trim.flags.contains(TrimFlags::TRIM_TO_BUDGET) {
            break trim;
        }
    };
    // The buffer that counts wrong words is on the list too.
    assert_eq!(trim.num_bytes_to_trim, 4 * MIB + (64 << 10), "all that frames hold is on the application's list too");
    world.evict(&all[..5]);
    drop(buffers);
    world.is_clean();
}

#[test]
fn a_buffer_can_be_dropped_while_its_frame_runs() {
    let Some(world) = World::new(8 * MIB) else { return };
    for round in 0..20 {
        let (one, other) = (world.buffer(3 * MIB), world.buffer(3 * MIB));
        let frame = world.device.frame().insert(&one);
        frame.write(&other, 0, &words(round, 1024)).expect("it fits");
        let download = world.device.frame().read(&other, 0, 4096).expect("it fits");
        drop((one, other));
        assert!(download.wait() == Ok(words(round, 1024)), "the bytes are those that were written");
    }
    world.is_clean();
}

/// A reclaim is refused for the device's list alone, which frames of the device have filled: they give way, as to a MakeResident.
#[test]
fn frames_give_way_to_a_reclaim() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let offered = world.buffer(4 * MIB);
    let of_frames: Vec<_> = (0..7).map(|_| world.buffer(MIB)).collect();
    world.make_resident(&[&offered]);
    world.run(&offered, None, Some(99));
    for round in 0..20_u32 {
        world.device.offer(&[&offered], OfferPriority::Normal).expect("it is not offered");
        for (seed, buffer) in (0..).zip(&of_frames) {
            world.run_frame(&[(buffer, round.checked_sub(1).map(|_| seed), Some(seed))]);
        }
        let (_, point) = world.device.reclaim(&[&offered]).expect("frames give way");
        world.wait(point);
        world.run(&offered, None, Some(round));
        world.holds(&offered, round);
    }
    drop((offered, of_frames));
    world.is_clean();
}

#[test]
fn a_released_buffer_leaves_after_its_last_use_and_keeps_its_content() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let [of_frames, listed, kept_for_later] = [(); 3].map(|()| world.buffer(MIB));
    let (address, raw) = (of_frames.address(), of_frames.raw());
    world.run_frame(&[(&of_frames, None, Some(1))]);
    for _ in 0..2 {
        world.make_resident(&[&listed]);
    }
    world.run(&listed, None, Some(2));
    world.make_resident(&[&kept_for_later]);
    world.run(&kept_for_later, None, Some(3));
    world.device.evict(&[&kept_for_later], EvictFlags::EVICT_ONLY_IF_NECESSARY).expect("it is on the list");
    for buffer in [&of_frames, &listed, &kept_for_later] {
        buffer.release().expect("the adapter works");
        buffer.release().expect("a second time says nothing");
    }
    for buffer in [&of_frames, &listed, &kept_for_later] {
        world.until_gone(buffer);
    }
    let refused = world.device.evict(&[&listed], EvictFlags::empty());
    assert_eq!(refused, Err(Error::NotOnList { allocation: listed.named() }));
    for (seed, buffer) in (1..).zip([&of_frames, &listed, &kept_for_later]) {
        world.run_frame(&[(buffer, Some(seed), Some(seed + 10))]);
    }
    assert_eq!((of_frames.address(), of_frames.raw()), (address, raw));
    drop((of_frames, listed, kept_for_later));
    world.is_clean();
}

#[test]
fn a_released_buffer_stays_as_long_as_it_is_in_use() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let (used, next) = (world.buffer(6 * MIB), world.buffer(6 * MIB));
    world.run_frame(&[(&used, None, Some(1))]);
    let frame = world.device.frame().insert(&used).begin_use().expect("it fits");
    world.wait(frame.turn());
    used.release().expect("the adapter works");
    let point = world.device.frame().write(&next, 0, &[7; 4096]).expect("its use waits");
    assert!(!world.is_reached(point), "its memory is in use");
    drop(frame);
    world.wait(point);
    world.run_frame(&[(&used, Some(1), None)]);
    drop((used, next));
    world.is_clean();
}

#[test]
fn existing_allocations_are_told_by_name() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let [framed, listed, dropped] = [1, 2, 1].map(|mib| world.buffer(mib * MIB));
    framed.set_name("bones").expect("it is a name");
    listed.set_name("leaves").expect("it is a name");
    dropped.set_name("gone").expect("it is a name");
    world.run_frame(&[(&framed, None, Some(1)), (&dropped, None, None)]);
    world.make_resident(&[&listed]);
    world.device.offer(&[&listed], OfferPriority::Low).expect("it is not offered");
    drop(dropped);
    let all = world.adapter.allocations().expect("the adapter answers");
    let told: Vec<_> = all.iter().filter(|of| of.allocation.name.is_some()).collect();
    let named: Vec<_> = told.iter().map(|of| of.allocation.to_string()).collect();
    assert_eq!(named, [format!("{} `bones`", framed.id()), format!("{} `leaves`", listed.id())]);
    assert_eq!([told[0].bytes, told[1].bytes], [MIB, 2 * MIB]);
    assert_eq!([told[0].is_held_by_frames, told[1].is_held_by_frames], [true, false]);
    assert_eq!([(told[0].listed, told[0].is_offered), (told[1].listed, told[1].is_offered)], [(0, false), (1, true)]);
    assert_eq!(told[0].residency, AllocationResidencyStatus::ResidentInGpuMemory);
    drop((framed, listed));
    world.is_clean();
}

/// Validation tells the name in its messages.
#[test]
fn vulkan_knows_an_allocation_by_its_name() {
    let Some(world) = World::new(4 * MIB) else { return };
    if !world.is_validated {
        return;
    }
    let buffer = world.buffer(MIB);
    buffer.set_name("heap of leaves").expect("it is a name");
    // An answer: the worker has named it.
    assert!(buffer.residency().is_ok());
    let _ = vidmm_vulkan::take_validation_messages();
    let info =
        vk::BufferViewCreateInfo::default().buffer(buffer.raw()).format(vk::Format::R8_UNORM).range(vk::WHOLE_SIZE);
    // SAFETY: the view is wrong, as validation is to say: the buffer has no usage for texels. It is never used.
    let view = unsafe { world.adapter.raw().create_buffer_view(&info, None) };
    let messages = vidmm_vulkan::take_validation_messages().concat();
    if let Ok(view) = view {
        // SAFETY: nobody uses the view.
        unsafe { world.adapter.raw().destroy_buffer_view(view, None) };
    }
    assert!(messages.contains("heap of leaves"), "{messages}");
    drop(buffer);
    world.is_clean();
}

/// A loop over three times local memory: least recently used first brings all of it in each time, and a forecast does not (D24).
#[test]
fn buffers_of_an_announced_frame_come_into_free_memory_before_the_frame() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let [soon, full] = [3 * MIB, 7 * MIB].map(|bytes| world.buffer(bytes));
    world.run_frame(&[(&soon, None, Some(7))]);
    world.run_frame(&[(&full, None, Some(8))]);
    world.until_gone(&soon);
    world.device.frame().insert_read(&soon).announce().expect("the adapter lives");
    assert_eq!(world.adapter.statistics().expect("the adapter answers").prefetches, 0, "no memory is free");
    drop(full);
    let deadline = Instant::now() + LONG;
    while soon.residency().expect("the adapter answers") != AllocationResidencyStatus::ResidentInGpuMemory {
        assert!(Instant::now() < deadline, "nothing comes");
        std::thread::yield_now();
    }
    world.run_frame(&[(&soon, Some(7), None)]);
    let statistics = world.adapter.statistics().expect("the adapter answers");
    // A range each.
    assert_eq!((statistics.prefetches, statistics.bytes_prefetched), (2, 3 * MIB));
    drop(soon);
    world.is_clean();
}

#[test]
fn frames_go_by_the_policy_of_the_adapter() {
    let brought_in = |policy| {
        let alone = alone();
        let (adapter, is_validated) = open(Options { policy, ..options(12 * MIB + (64 << 10)) }, Validation::Off)?;
        let mut world = World::over(adapter, is_validated, alone);
        let buffers: Vec<_> = (0..36).map(|_| world.buffer(MIB)).collect();
        for frame in 0..120 {
            let uses: Vec<_> = (0..3).map(|of| frame * 3 + of).collect();
            let seed = |number: usize| (number % 36) as u32;
            let of =
                |&number: &usize| (&buffers[number % 36], (number >= 36).then(|| seed(number)), Some(seed(number)));
            world.run_frame(&uses.iter().map(of).collect::<Vec<_>>());
        }
        let paged_in = world.adapter.statistics().expect("the adapter answers").page_ins;
        drop(buffers);
        world.is_clean();
        Some(paged_in)
    };
    let (Some(lru), Some(predict)) = (brought_in(PolicyChoice::LRU), brought_in(PolicyChoice::PREDICT)) else { return };
    assert!(predict * 10 < lru * 9, "{predict} page-ins, and {lru} with least recently used first");
}
