//! Buffers that may be in system memory while they are resident (SEG-12, SEG-42).

use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use vidmm::AllocationResidencyStatus::{NotResident, ResidentInGpuMemory, ResidentInSharedMemory};
use vidmm::MemorySegmentGroup;
use vidmm_vulkan::{Buffer, BufferDesc, BufferMemory, EvictedPart, RecordEviction};

use crate::{MIB, World};

impl World {
    fn buffer_in(&self, memory: BufferMemory, size: u64) -> Buffer {
        let desc = BufferDesc { memory, range_bytes: size, ..BufferDesc::new(size) };
        self.device.create_buffer_with(desc).expect("there is memory")
    }

    fn usage_of(&self, group: MemorySegmentGroup) -> u64 {
        self.process.budget_of(group).expect("the adapter answers").current_usage
    }
}

#[test]
fn buffers_that_have_no_room_in_local_memory_are_used_in_system_memory() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let buffers: Vec<_> = (0..4).map(|_| world.buffer_in(BufferMemory::LocalOrSystem, 3 * MIB)).collect();
    assert_eq!(buffers[0].residency(), Ok(NotResident));
    for (seed, buffer) in (0..).zip(&buffers) {
        world.make_resident(&[buffer]);
        world.run(buffer, None, Some(seed));
    }
    let places: Vec<_> = buffers.iter().map(|buffer| buffer.residency().expect("the adapter answers")).collect();
    let [local, local_too] = [ResidentInGpuMemory; 2];
    assert_eq!(places, [local, local_too, ResidentInSharedMemory, ResidentInSharedMemory]);
    assert_eq!(world.usage_of(MemorySegmentGroup::NonLocal), 6 * MIB);
    for (seed, buffer) in (0..).zip(&buffers) {
        world.holds(buffer, seed);
        world.run(buffer, Some(seed), Some(seed + 10));
        world.holds(buffer, seed + 10);
    }
    let moved = world.adapter.statistics().expect("the adapter answers");
    assert_eq!((moved.bytes_paged_in, moved.bytes_paged_out), (0, 0));
    drop(buffers);
    world.is_clean();
}

/// Its content is in system memory, resident or not.
#[test]
fn a_buffer_of_system_memory_comes_and_goes_without_a_copy() {
    let Some(mut world) = World::new(4 * MIB) else { return };
    let buffer = world.buffer_in(BufferMemory::System, 6 * MIB);
    for seed in 0_u32..3 {
        world.make_resident(&[&buffer]);
        world.run(&buffer, seed.checked_sub(1), Some(seed));
        world.evict(&[&buffer]);
    }
    world.make_resident(&[&buffer]);
    world.holds(&buffer, 2);
    let moved = world.adapter.statistics().expect("the adapter answers");
    assert_eq!((moved.bytes_paged_in, moved.bytes_paged_out), (0, 0));
    drop(buffer);
    world.is_clean();
}

#[test]
fn a_buffer_leaves_local_memory_for_one_that_can_be_nowhere_else() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let movable = world.buffer_in(BufferMemory::LocalOrSystem, 5 * MIB);
    let address = movable.address();
    world.make_resident(&[&movable]);
    world.run(&movable, None, Some(1));
    assert_eq!(movable.residency(), Ok(ResidentInGpuMemory));
    let fixed = world.buffer(6 * MIB);
    world.make_resident(&[&fixed]);
    world.run(&fixed, None, Some(2));
    assert_eq!((movable.residency(), fixed.residency()), (Ok(ResidentInSharedMemory), Ok(ResidentInGpuMemory)));
    assert_eq!(movable.address(), address);
    world.run(&movable, Some(1), Some(3));
    world.holds(&movable, 3);
    world.run(&fixed, Some(2), None);
    drop((movable, fixed));
    world.is_clean();
}

#[test]
fn frames_use_buffers_of_either_memory() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let buffers: Vec<_> = (0..8)
        .map(|number| match number % 3 {
            0 => world.buffer(2 * MIB),
            1 => world.buffer_in(BufferMemory::LocalOrSystem, 2 * MIB),
            _ => world.buffer_in(BufferMemory::System, 2 * MIB),
        })
        .collect();
    for round in 0..4_usize {
        for (number, buffer) in buffers.iter().enumerate() {
            let seed = |round: usize| (round * 100 + number) as u32;
            world.run_frame(&[(buffer, round.checked_sub(1).map(seed), Some(seed(round)))]);
        }
    }
    drop(buffers);
    world.is_clean();
}

/// The pattern that an application's own commands leave.
const LEFT: u32 = 0x5EED_0001;

/// The pieces of a buffer that its application was notified of: offset and bytes.
type Notified = Arc<Mutex<Vec<(u64, u64)>>>;

impl World {
    /// Evicts a buffer, and waits until that is decided: one that is wanted again before stays.
    fn evict_for_certain(&self, buffer: &Buffer) {
        self.evict(&[buffer]);
        let is_decided = |_| {
            sleep(Duration::from_millis(1));
            buffer.residency() == Ok(NotResident)
        };
        assert!((0..10_000).any(is_decided), "it stays");
    }

    /// A buffer that its application fills with a pattern before it leaves system memory.
    fn notified_buffer(&self, memory: BufferMemory, size: u64, range_bytes: u64) -> (Buffer, Notified) {
        let (notified, device) = (Notified::default(), self.adapter.raw().clone());
        let told = notified.clone();
        let record = move |part: &EvictedPart| {
            told.lock().expect("no test has failed there").push((part.offset, part.bytes));
            // SAFETY: the memory is there until the commands have ended, and the piece is inside of it.
            unsafe { device.cmd_fill_buffer(part.commands, part.memory, part.memory_offset, part.bytes, LEFT) };
        };
        let notify_eviction = Some(Box::new(record) as RecordEviction);
        let desc = BufferDesc { memory, notify_eviction, range_bytes, ..BufferDesc::new(size) };
        (self.device.create_buffer_with(desc).expect("there is memory"), notified)
    }
}

/// NTF-01, NTF-02: the last that the GPU does to what it reaches in system memory.
#[test]
fn an_application_is_notified_before_a_buffer_leaves_system_memory() {
    let Some(mut world) = World::new(4 * MIB) else { return };
    let (buffer, notified) = world.notified_buffer(BufferMemory::System, 6 * MIB, 6 * MIB);
    world.make_resident(&[&buffer]);
    world.run(&buffer, None, Some(1));
    world.holds(&buffer, 1);
    assert_eq!(*notified.lock().expect("no test has failed there"), []);
    world.evict_for_certain(&buffer);
    world.wait(world.make_resident(&[&buffer]));
    let parts = notified.lock().expect("no test has failed there").clone();
    let ends = parts.iter().scan(0, |end, &(offset, bytes)| (offset == *end).then(|| *end += bytes));
    assert_eq!(ends.count(), parts.len(), "pieces follow one another: {parts:?}");
    assert_eq!(parts.iter().map(|&(_, bytes)| bytes).sum::<u64>(), 6 * MIB);
    let read = world.device.read(&buffer, 0, buffer.size()).expect("it is resident").wait().expect("it is read");
    assert!(read.chunks(4).all(|word| word == LEFT.to_ne_bytes()), "its memory holds other words");
    drop(buffer);
    world.is_clean();
}

/// Pieces are told by their offset in the buffer, and not in their range.
#[test]
fn an_application_is_notified_of_the_ranges_that_leave() {
    let Some(world) = World::new(4 * MIB) else { return };
    let (buffer, notified) = world.notified_buffer(BufferMemory::System, 6 * MIB, MIB);
    let (other, of_other) = world.notified_buffer(BufferMemory::System, 2 * MIB, 192 << 10);
    for _ in 0..2 {
        drop(world.device.frame().insert_range(&buffer, 2 * MIB..4 * MIB).insert(&other).begin_use().expect("it fits"));
        buffer.release().expect("the adapter works");
        other.release().expect("the adapter works");
        for (notified, expected) in [(&notified, 2 * MIB..4 * MIB), (&of_other, 0..2 * MIB)] {
            let is_told = |_| {
                sleep(Duration::from_millis(1));
                let mut parts = notified.lock().expect("no test has failed there").clone();
                parts.sort_unstable();
                let end = parts.iter().try_fold(expected.start, |end, &(at, bytes)| (at == end).then(|| end + bytes));
                end == Some(expected.end)
            };
            assert!((0..10_000).any(is_told), "{expected:?}: {notified:?}");
            notified.lock().expect("no test has failed there").clear();
        }
    }
    let read = world.device.frame().read(&buffer, 0, 6 * MIB).expect("it fits").wait().expect("it is read");
    let is_left = |word: &[u8]| word == LEFT.to_ne_bytes();
    let left = Vec::from_iter(read.chunks(4).map(is_left));
    assert!(left.iter().enumerate().all(|(at, &is_left)| is_left == (2 * MIB..4 * MIB).contains(&(4 * at as u64))));
    drop((buffer, other));
    world.is_clean();
}

#[test]
fn ranges_that_have_no_room_in_local_memory_are_used_in_system_memory() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let desc = BufferDesc { memory: BufferMemory::LocalOrSystem, range_bytes: MIB, ..BufferDesc::new(20 * MIB) };
    let buffer = world.device.create_buffer_with(desc).expect("there is memory");
    world.make_resident(&[&buffer]);
    world.run(&buffer, None, Some(1));
    assert_eq!(buffer.residency(), Ok(ResidentInSharedMemory));
    let told = world.adapter.allocations().expect("the adapter answers").pop().expect("it exists");
    // A page of the eighth range is the counter's.
    assert_eq!((told.allocation, told.local_bytes), (buffer.named(), 7 * MIB));
    assert_eq!(world.usage_of(MemorySegmentGroup::NonLocal), 13 * MIB);
    world.holds(&buffer, 1);
    world.evict(&[&buffer]);
    world.run_frame(&[(&buffer, Some(1), Some(2))]);
    world.run_frame(&[(&buffer, Some(2), None)]);
    drop(buffer);
    world.is_clean();
}

#[test]
fn an_application_is_not_notified_of_a_buffer_that_leaves_local_memory() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let (buffer, notified) = world.notified_buffer(BufferMemory::LocalOrSystem, 2 * MIB, 2 * MIB);
    world.make_resident(&[&buffer]);
    world.run(&buffer, None, Some(1));
    world.evict_for_certain(&buffer);
    world.wait(world.make_resident(&[&buffer]));
    world.holds(&buffer, 1);
    assert_eq!(*notified.lock().expect("no test has failed there"), []);
    drop(buffer);
    world.is_clean();
}
