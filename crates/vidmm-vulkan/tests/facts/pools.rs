//! Small buffers that share the ranges of larger ones.

use ash::vk;
use vidmm_vulkan::{Error, Frame, Pool, SmallBuffer, Submission, Validation};

use crate::random::Draws;
use crate::{MIB, World, words};

const KIB: u64 = 1 << 10;

/// Sizes from 256 bytes to 64 KiB: as many of each power of two as of the next.
fn size(draws: &mut Draws) -> u64 {
    let octave = 256_u64 << draws.below(8);
    octave + draws.below(octave as usize + 1) as u64
}

fn name<'a>(frame: Frame<'a>, small: &'a SmallBuffer) -> Frame<'a> {
    frame.insert_range(small.buffer(), small.bytes())
}

impl World {
    /// The bytes of the buffers of a pool, in the process and in local memory.
    fn taken(&self) -> (u64, u64) {
        let all = self.adapter.allocations().expect("the adapter answers");
        let shared = all.iter().filter(|of| of.ranges > 1);
        shared.fold((0, 0), |(bytes, local), of| (bytes + of.bytes, local + of.local_bytes))
    }

    /// The bytes that a plain buffer of so many bytes takes of its memory.
    fn plain(&self, size: u64) -> u64 {
        let info = vk::BufferCreateInfo::default().size(size).usage(
            vk::BufferUsageFlags::STORAGE_BUFFER
                | vk::BufferUsageFlags::TRANSFER_SRC
                | vk::BufferUsageFlags::TRANSFER_DST
                | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS,
        );
        let raw = self.adapter.raw();
        // SAFETY: the device has the features for the usage, and nothing uses the buffer.
        unsafe {
            let buffer = raw.create_buffer(&info, None).expect("there is memory");
            let needs = raw.get_buffer_memory_requirements(buffer);
            raw.destroy_buffer(buffer, None);
            needs.size.next_multiple_of(needs.alignment)
        }
    }
}

#[test]
fn ten_thousand_small_buffers_take_little_more_memory_than_plain_ones() {
    let Some(world) = World::with(256 * MIB, Validation::Off) else { return };
    let (pool, mut draws) = (Pool::new(&world.device, vk::BufferUsageFlags::empty()), Draws(1));
    let sizes: Vec<u64> = (0..10_000).map(|_| size(&mut draws)).collect();
    let plain: u64 = sizes.iter().map(|&size| world.plain(size)).sum();
    let all: Vec<_> = sizes.iter().map(|&size| pool.create_buffer(size).expect("there is memory")).collect();
    let frame = all.iter().fold(world.device.frame(), name).begin_use().expect("they fit");
    world.wait(frame.turn());
    let (bytes, local) = world.taken();
    let told = format!("plain {plain}, taken {bytes}, in local memory {local}");
    println!("{told}");
    assert!(bytes * 100 <= plain * 115 && local * 100 <= plain * 115, "{told}");
    assert!(local >= sizes.iter().sum(), "{told}");
    // Half of them come anew, in other sizes: the holes are used.
    drop(frame);
    let mut some: Vec<_> = all.into_iter().enumerate().filter(|(at, _)| at % 2 == 0).map(|(_, small)| small).collect();
    some.extend(sizes.iter().skip(1).step_by(2).rev().map(|&size| pool.create_buffer(size).expect("there is memory")));
    assert!(world.taken().0 * 100 <= plain * 115, "{:?} bytes, plain {plain}", world.taken());
    drop(some);
    assert_eq!(world.taken(), (0, 0), "nothing is left of a pool without buffers");
    world.is_clean();
}

/// A use writes its own small buffer and not the neighbours, resident or not.
#[test]
fn small_buffers_keep_every_word_beside_each_other() {
    for seed in 1..=4 {
        let Some(mut world) = World::new(4 * MIB) else { return };
        let pool = Pool::new(&world.device, vk::BufferUsageFlags::empty());
        let mut draws = Draws(seed);
        let create = |draws: &mut Draws| pool.create_buffer(size(draws).next_multiple_of(4)).expect("there is memory");
        let mut all: Vec<_> = (0..700).map(|_| (create(&mut draws), None)).collect();
        for number in 1..=60 {
            for at in (0..3).map(|_| draws.below(all.len())).collect::<Vec<_>>() {
                // A new small buffer may have old words.
                if draws.below(3) == 0 {
                    all[at] = (create(&mut draws), Some(u32::MAX));
                    let (small, _) = &all[at];
                    let bytes = small.bytes();
                    let old = words(u32::MAX, ((bytes.end - bytes.start) / 4) as u32);
                    world.device.frame().write(small.buffer(), bytes.start, &old).expect("it fits");
                }
            }
            let mut used: Vec<usize> = (0..6).map(|_| draws.below(all.len())).collect();
            used.sort_unstable();
            used.dedup();
            let next = |at: usize| number * 1000 + at as u32;
            let step = |&at: &usize| world.step_in(all[at].0.buffer(), all[at].0.bytes(), all[at].1, Some(next(at)));
            let steps: Vec<_> = used.iter().map(step).collect();
            let commands = world.kernel().record(&steps).expect("it is recorded");
            let frame = used.iter().fold(world.device.frame(), |frame, &at| name(frame, &all[at].0));
            let work = Submission { commands: vec![commands], ..Submission::default() };
            // SAFETY: the commands use what is named here, and are kept until the point is reached.
            let point = unsafe { frame.submit(work) }.expect("it fits");
            world.end_frame((point, commands));
            used.into_iter().for_each(|at| all[at].1 = Some(next(at)));
        }
        for (small, seed) in &all {
            let (bytes, count) = (small.bytes(), small.bytes().end - small.bytes().start);
            let read = world.device.frame().read(small.buffer(), bytes.start, count).expect("it fits").wait();
            let expected = seed.map_or_else(|| vec![0; count as usize], |seed| words(seed, (count / 4) as u32));
            assert!(read == Ok(expected), "{small:?} holds other words");
        }
        assert_eq!(world.wrong_words(), 0, "seed {seed}");
        drop(all);
        world.is_clean();
    }
}

#[test]
fn small_buffers_have_places_of_their_own() {
    let Some(world) = World::new(2 * MIB) else { return };
    let pool = Pool::new(&world.device, vk::BufferUsageFlags::empty());
    for asked in [0, 4 * MIB + 1] {
        assert_eq!(pool.create_buffer(asked).map(drop), Err(Error::Small { asked, most: 4 * MIB }));
    }
    let mut draws = Draws(9);
    let mut all: Vec<SmallBuffer> = Vec::new();
    for _ in 0..3000 {
        match draws.below(3) {
            0 if !all.is_empty() => drop(all.swap_remove(draws.below(all.len()))),
            _ => all.push(pool.create_buffer(1 + draws.below(200 * KIB as usize) as u64).expect("there is memory")),
        }
    }
    let mut places: Vec<_> = all.iter().map(|small| (small.address(), small.bytes())).collect();
    places.sort_unstable_by_key(|(address, _)| *address);
    for (address, bytes) in &places {
        assert!(address % 256 == bytes.start % 256 && bytes.start % 256 == 0 && bytes.end <= 4 * MIB);
    }
    assert!(places.windows(2).all(|two| two[0].0 + (two[0].1.end - two[0].1.start) <= two[1].0), "two overlap");
    drop(all);
    assert_eq!(pool.create_buffer(4 * MIB).expect("there is memory").bytes(), 0..4 * MIB);
    world.is_clean();
}
