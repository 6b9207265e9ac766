//! Buffers of several ranges: each comes and goes by itself, and a frame names the bytes that it uses.

use std::ops::Range;

use vidmm::AllocationResidencyStatus::{NotResident, ResidentInGpuMemory};
use vidmm::policy::PolicyChoice;
use vidmm::{MakeResidentFlags, OfferPriority, ReclaimResult};
use vidmm_vulkan::{
    Adapter, AllocationStatistics, Buffer, BufferDesc, Error, NeedsRoom, Options, Submission, Unbinding, Validation,
};

use crate::random::Draws;
use crate::{MIB, World, alone, open, options, words};

const KIB: u64 = 1 << 10;

/// The use of a part of a buffer: its bytes, the seed that is expected, and the one that is written.
type Use = (Range<u64>, Option<u32>, Option<u32>);

impl World {
    fn ranged(&self, size: u64, range_bytes: u64) -> Buffer {
        let desc = BufferDesc { range_bytes, ..BufferDesc::new(size) };
        self.device.create_buffer_with(desc).expect("there is memory")
    }

    /// A frame that runs the kernel on parts of a buffer, and names no others.
    fn run_parts(&mut self, buffer: &Buffer, uses: &[Use]) {
        let step = |(bytes, expected, next): &Use| self.step_in(buffer, bytes.clone(), *expected, *next);
        let steps: Vec<_> = uses.iter().map(step).collect();
        let commands = self.kernel().record(&steps).expect("it is recorded");
        let frame = uses.iter().fold(self.device.frame(), |frame, (bytes, _, next)| match next {
            Some(_) => frame.insert_range(buffer, bytes.clone()),
            None => frame.insert_read_range(buffer, bytes.clone()),
        });
        let work = Submission { commands: vec![commands], ..Submission::default() };
        // SAFETY: the commands use what is named here, and are kept until the point is reached.
        let point = unsafe { frame.submit(work) }.expect("it fits");
        self.end_frame((point, commands));
    }

    /// The memory of a part holds the words of a seed; it is brought in for that. See [`holds`](Self::holds).
    fn part_holds(&self, buffer: &Buffer, bytes: &Range<u64>, seed: Option<u32>) {
        let count = bytes.end - bytes.start;
        let read = self.device.frame().read(buffer, bytes.start, count).expect("it fits").wait();
        let expected = seed.map_or_else(|| vec![0; count as usize], |seed| words(seed, (count / 4) as u32));
        assert!(read == Ok(expected), "the memory of {bytes:?} holds other words");
    }

    fn told(&self, buffer: &Buffer) -> AllocationStatistics {
        let all = self.adapter.allocations().expect("the adapter answers");
        all.into_iter().find(|of| of.allocation.id == buffer.id()).expect("it exists")
    }

    fn local_bytes(&self, buffer: &Buffer) -> u64 {
        self.told(buffer).local_bytes
    }
}

/// Random frames over parts of a buffer that is no multiple of its ranges; parts begin and end amid ranges.
fn play_parts(seed: u64, local: u64, limits: &[Option<u64>]) {
    const PART: u64 = 384 * KIB;
    const SIZE: u64 = 24 * MIB + 64 * KIB;
    let alone = alone();
    let unbinding = [Unbinding::Strict, Unbinding::Lazy][seed as usize % 2];
    let policy = PolicyChoice::ALL[seed as usize % PolicyChoice::ALL.len()];
    let Some((adapter, is_validated)) = open(Options { unbinding, policy, ..options(local) }, Validation::On) else {
        return;
    };
    let (mut world, mut draws) = (World::over(adapter, is_validated, alone), Draws(seed));
    let buffer = world.ranged(SIZE, [MIB, 64 * KIB, 320 * KIB][seed as usize % 3]);
    let parts: Vec<Range<u64>> = (0..SIZE.div_ceil(PART)).map(|at| at * PART..SIZE.min((at + 1) * PART)).collect();
    let mut seeds = vec![None; parts.len()];
    for number in 1..=120 {
        if draws.below(8) == 0 {
            let limit = limits[draws.below(limits.len())];
            world.adapter.restrict_local_memory(limit).expect("the adapter works");
        }
        let mut used: Vec<usize> = (0..4).map(|_| draws.below(parts.len())).collect();
        used.sort_unstable();
        used.dedup();
        let next = |draws: &mut Draws, at| (draws.below(2) == 0).then_some(number * 1000 + at as u32);
        let uses: Vec<Use> = used.iter().map(|&at| (parts[at].clone(), seeds[at], next(&mut draws, at))).collect();
        world.run_parts(&buffer, &uses);
        for (&at, (_, _, next)) in used.iter().zip(&uses) {
            seeds[at] = next.or(seeds[at]);
        }
        if draws.below(4) == 0 {
            let at = draws.below(parts.len());
            world.part_holds(&buffer, &parts[at], seeds[at]);
        }
    }
    for (part, &seed) in parts.iter().zip(&seeds) {
        world.run_parts(&buffer, &[(part.clone(), seed, None)]);
        world.part_holds(&buffer, part, seed);
    }
    assert_eq!(world.wrong_words(), 0, "seed {seed}");
    drop(buffer);
    world.is_clean();
}

#[test]
fn a_buffer_larger_than_local_memory_keeps_every_word_range_by_range() {
    for seed in 1..=6 {
        play_parts(seed, 8 * MIB, &[None]);
    }
}

#[test]
fn parts_of_a_buffer_keep_every_word_without_pressure_and_under_limits() {
    play_parts(7, 48 * MIB, &[None]);
    for seed in 8..=10 {
        play_parts(seed, 48 * MIB, &[None, Some(6 * MIB), Some(16 * MIB)]);
    }
}

#[test]
fn bytes_bring_in_the_ranges_that_they_touch_and_no_others() {
    let Some(mut world) = World::new(16 * MIB) else { return };
    let edges = [
        (0..4, 1),
        (MIB - 4..MIB, 1),
        (MIB - 4..MIB + 4, 2),
        (MIB..2 * MIB, 1),
        (MIB + 4..3 * MIB + 4, 3),
        (3 * MIB..3 * MIB + 64 * KIB, 0),
        (2 * MIB - 4..3 * MIB + 64 * KIB, 2),
    ];
    for (bytes, whole) in edges {
        let buffer = world.ranged(3 * MIB + 64 * KIB, MIB);
        world.run_parts(&buffer, &[(bytes.clone(), None, Some(1))]);
        let last = if bytes.end > 3 * MIB { 64 * KIB } else { 0 };
        let touched = whole.min(3 - bytes.start / MIB) * MIB + last;
        assert_eq!(world.local_bytes(&buffer), touched, "{bytes:?}");
        assert_eq!(buffer.residency(), Ok(NotResident), "{bytes:?} is not all of it");
    }
    let buffer = world.ranged(3 * MIB + 64 * KIB, MIB);
    world.run_parts(&buffer, &[(0..4, None, Some(1)), (3 * MIB - 4..3 * MIB + 4, None, Some(2)), (8..16, None, None)]);
    assert_eq!(world.local_bytes(&buffer), 2 * MIB + 64 * KIB);
    let whole = world.device.frame().insert(&buffer).begin_use().expect("it fits");
    world.wait(whole.turn());
    let AllocationStatistics { bytes, ranges, local_bytes, residency, is_held_by_frames, .. } = world.told(&buffer);
    assert_eq!((bytes, ranges, local_bytes), (3 * MIB + 64 * KIB, 4, 3 * MIB + 64 * KIB));
    assert_eq!((residency, is_held_by_frames), (ResidentInGpuMemory, true));
    drop((whole, buffer));
    world.is_clean();
}

#[test]
fn a_range_that_frames_only_read_leaves_without_a_copy() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let buffer = world.ranged(24 * MIB, MIB);
    let part = |at: u64| at * MIB..(at + 1) * MIB;
    for at in 0..24 {
        world.run_parts(&buffer, &[(part(at), None, Some(at as u32))]);
    }
    // What was written leaves with a copy, once.
    for at in 0..24 {
        world.run_parts(&buffer, &[(part(at), Some(at as u32), None)]);
    }
    let moved = |world: &World| world.adapter.statistics().expect("the adapter answers");
    let before = moved(&world);
    for at in (0..24).chain(0..24) {
        world.run_parts(&buffer, &[(part(at), Some(at as u32), None)]);
    }
    let after = moved(&world);
    assert_eq!(after.bytes_paged_out, before.bytes_paged_out);
    assert!(after.bytes_paged_in - before.bytes_paged_in >= 30 * MIB);
    // Two ranges are read and one is written: that one alone is copied out.
    world.run_parts(&buffer, &[(part(3), Some(3), None), (part(4), Some(4), Some(99)), (part(5), Some(5), None)]);
    for at in (10..24).chain(10..24) {
        world.run_parts(&buffer, &[(part(at), Some(at as u32), None)]);
    }
    assert_eq!(moved(&world).bytes_paged_out - after.bytes_paged_out, MIB);
    world.part_holds(&buffer, &part(4), Some(99));
    drop(buffer);
    world.is_clean();
}

#[test]
fn bytes_outside_of_a_buffer_are_refused() {
    let Some(world) = World::new(4 * MIB) else { return };
    let buffer = world.ranged(3 * MIB, MIB);
    buffer.set_name("grid").expect("it is a name");
    let size = 3 * MIB;
    #[expect(clippy::reversed_empty_ranges, reason = "an application's mistake")]
    for range in [0..0, size..size, size..size + 1, 0..size + 1, 2 * MIB..MIB, 0..u64::MAX] {
        let refused = Err(Error::Range { allocation: buffer.named(), range: range.clone(), size });
        for frame in [
            world.device.frame().insert_range(&buffer, range.clone()),
            world.device.frame().insert_read_range(&buffer, range.clone()),
        ] {
            assert_eq!((frame.begin_use().map(drop), frame.announce()), (refused.clone(), refused.clone()));
        }
    }
    let text = world.device.frame().insert_range(&buffer, 8..8).begin_use().expect_err("it is empty").to_string();
    assert!(text.contains("the bytes 8 to 8 are no part of") && text.contains("`grid`"), "{text}");
    assert_eq!(world.local_bytes(&buffer), 0);
    drop(buffer);
    world.is_clean();
}

#[test]
fn impossible_sizes_of_ranges_are_refused() {
    let Some(world) = World::new(4 * MIB) else { return };
    for range_bytes in [0, 4 * KIB, 65 * KIB, MIB + 1] {
        let desc = BufferDesc { range_bytes, ..BufferDesc::new(MIB) };
        let refused = world.device.create_buffer_with(desc).map(drop);
        let is_named =
            matches!(refused, Err(Error::Size { what: "a range of a buffer", asked, .. }) if asked == range_bytes);
        assert!(is_named, "{refused:?}");
    }
    let whole = world.ranged(MIB, 64 * MIB);
    assert_eq!(world.told(&whole).ranges, 1, "a range is no larger than its buffer");
    assert_eq!(world.told(&world.buffer(5 * MIB)).ranges, 3, "ranges have 2 MiB by default");
    drop(whole);
    world.is_clean();
}

#[test]
fn a_refusal_for_want_of_room_names_the_buffer_and_the_range() {
    let Some(world) = World::new(8 * MIB) else { return };
    let buffer = world.ranged(24 * MIB, MIB);
    buffer.set_name("grid").expect("it is a name");
    let refused = world.device.frame().insert_range(&buffer, 4 * MIB - 1..13 * MIB).begin_use().map(drop);
    let Err(Error::NoRoom(refusal)) = refused else { panic!("{refused:?}") };
    assert!(matches!(refusal.call, NeedsRoom::Frame { number: 1, .. }));
    assert_eq!((refusal.allocations, refusal.ranges, refusal.bytes), (1, 10, 10 * MIB));
    assert_eq!(refusal.largest.0.range, Some(3 * MIB..13 * MIB));
    let text = refusal.to_string();
    let named = format!("`grid` (bytes {} to {}) of 10 MiB", 3 * MIB, 13 * MIB);
    assert!(text.contains(&named) && text.ends_with("name fewer of its ranges at a time"), "{text}");
    let whole = world.device.make_resident(&[&buffer], MakeResidentFlags::empty()).map(drop);
    let Err(Error::NoRoom(refusal)) = whole else { panic!("{whole:?}") };
    assert_eq!(refusal.largest, (buffer.named(), 24 * MIB));
    assert!(refusal.to_string().contains("name ranges of it in frames"), "{refusal}");
    drop(world.device.frame().insert_range(&buffer, 3 * MIB..10 * MIB).begin_use().expect("so many fit"));
    drop(buffer);
    world.is_clean();
}

#[test]
fn calls_for_a_whole_buffer_hold_for_all_of_its_ranges() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let (buffer, taker) = (world.ranged(5 * MIB, MIB), world.ranged(6 * MIB, MIB));
    world.wait(world.make_resident(&[&buffer]));
    assert_eq!((world.local_bytes(&buffer), world.told(&buffer).listed), (5 * MIB, 1));
    world.run(&buffer, None, Some(1));
    world.holds(&buffer, 1);
    world.evict(&[&buffer]);
    assert_eq!(world.device.begin_use(&[&buffer]).map(drop), Err(Error::NotResident { allocation: buffer.named() }));

    // Offered as a whole: what is lost of one range is lost for the caller.
    world.make_resident(&[&buffer]);
    world.device.offer(&[&buffer], OfferPriority::Normal).expect("it is not offered");
    let refused = world.device.frame().insert_range(&buffer, 0..4).begin_use().map(drop);
    assert_eq!(refused, Err(Error::Offered { allocation: buffer.named() }));
    let (results, point) = world.device.reclaim(&[&buffer]).expect("it is offered");
    assert_eq!(results, [ReclaimResult::Ok]);
    world.wait(point);
    world.run(&buffer, Some(1), Some(2));
    world.device.offer(&[&buffer], OfferPriority::Normal).expect("it is not offered");
    world.wait(world.make_resident(&[&taker]));
    world.evict(&[&taker]);
    let (results, _) = world.device.reclaim(&[&buffer]).expect("it is offered");
    assert_eq!(results, [ReclaimResult::Discarded]);
    world.evict(&[&buffer]);

    // Released as a whole.
    let written = words(3, (5 * MIB / 4) as u32);
    world.wait(world.device.frame().write(&buffer, 0, &written).expect("it fits"));
    buffer.release().expect("the adapter works");
    let is_gone = |_| {
        std::thread::yield_now();
        world.local_bytes(&buffer) == 0
    };
    assert!((0..1_000_000).any(is_gone), "it stays");
    world.run_frame(&[(&buffer, Some(3), None)]);
    drop((buffer, taker));
    world.is_clean();
}

#[test]
fn a_buffer_that_is_refused_leaves_nothing_behind() {
    let Some(world) = World::new(4 * MIB) else { return };
    let create = |size| world.device.create_buffer_with(BufferDesc { range_bytes: MIB, ..BufferDesc::new(size) });
    for _ in 0..3 {
        let refused = create(300 * MIB).map(drop);
        assert!(matches!(refused, Err(Error::Create(_))), "there are 256 MiB: {refused:?}");
    }
    // All backing store but a few pages: the last ranges get no page tables.
    let refused = |pages: u64| create(256 * MIB - pages * 64 * KIB).err();
    let of_map = (1..64).find_map(|pages| refused(pages).filter(|error| !matches!(error, Error::Create(_))));
    assert!(matches!(of_map, Some(Error::Map(_))), "{of_map:?}");
    let is_given_back = |_| {
        std::thread::yield_now();
        create(252 * MIB).ok()
    };
    let buffer = (0..1_000_000).find_map(is_given_back).expect("what was refused is given back");
    let written = world.device.frame().write(&buffer, 251 * MIB - 8, &[7; 16]).expect("two ranges fit");
    world.wait(written);
    assert_eq!(world.adapter.allocations().expect("the adapter answers").len(), 2);
    drop(buffer);
    world.is_clean();
}

/// On a CPU a page is a mapping of the process at most, and the system bounds their number: a bind beyond that would be lost without a word.
#[test]
fn buffers_of_all_adapters_have_no_more_mappings_than_a_process_may() {
    let _alone = alone();
    let options = Options { local_bytes: Some(4 * MIB), system_bytes: Some(2048 * MIB), ..Options::default() };
    let Some((first, _)) = open(options, Validation::Off) else { return };
    let limit = first.report().max_mapped_ranges();
    let pages = |count: usize| BufferDesc { range_bytes: 64 * KIB, ..BufferDesc::new(count as u64 * 64 * KIB) };
    if limit == usize::MAX {
        return;
    }
    let device = |adapter: &Adapter| adapter.create_process().and_then(|process| process.create_device());
    let second = Adapter::open(options, Validation::Off).expect("there was one before");
    let [one, other] = [&first, &second].map(|adapter| device(adapter).expect("they are created"));
    let half = one.create_buffer_with(pages(limit / 2)).expect("there is memory");
    let refused = other.create_buffer_with(pages(limit / 2 + 1)).map(drop);
    assert_eq!(refused, Err(Error::Mappings { limit }));
    let rest = other.create_buffer_with(pages(limit / 2)).expect("so many are left");
    assert_eq!(one.create_buffer_with(pages(1)).map(drop), Err(Error::Mappings { limit }));
    // The last range of each is used, and is not its neighbour.
    for (device, buffer) in [(&one, &half), (&other, &rest)] {
        let end = buffer.size();
        device.frame().write(buffer, end - 8, &[5; 8]).expect("a range fits");
        let read = device.frame().read(buffer, end - 64 * KIB - 8, 64 * KIB + 8).expect("two fit").wait();
        let bytes = read.expect("the GPU answers");
        assert_eq!((bytes.iter().filter(|&&byte| byte == 5).count(), &bytes[64 * 1024..]), (8, &[5; 8][..]));
    }
    drop(half);
    let refused_no_longer = |_| {
        std::thread::yield_now();
        one.create_buffer_with(pages(1)).is_ok()
    };
    assert!((0..1_000_000).any(refused_no_longer), "they never come back");
    drop(rest);
}
