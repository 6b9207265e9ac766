//! Uses and what is in use: it stays where it is, and devices that do not fit together run in turn.

use std::sync::mpsc::channel;

use ash::vk;
use vidmm::{EvictFlags, MakeResidentFlags};
use vidmm_vulkan::{Buffer, Device, Error, Point, Submission, Validation};

use crate::kernel::Step;
use crate::{LONG, MIB, World};

/// A timeline semaphore for the application's points.
struct Semaphore {
    raw: vk::Semaphore,
}

impl Semaphore {
    fn new(world: &World) -> Self {
        Self { raw: world.adapter.create_semaphore().expect("there is memory") }
    }

    fn point(&self, value: u64) -> Point {
        Point { semaphore: self.raw, value }
    }

    /// Lets the queue signal it. Validation 1.3.239 loses signals of the host that another thread waits for.
    fn signal(&self, world: &World, value: u64) {
        let (values, semaphores) = ([value], [self.raw]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info = [vk::SubmitInfo::default().signal_semaphores(&semaphores).push_next(&mut timeline)];
        let device = world.adapter.raw();
        // SAFETY: nobody else uses the queue meanwhile; the value rises.
        let submit = |queue| unsafe { device.queue_submit(queue, &info, vk::Fence::null()) };
        world.adapter.with_queue(submit).expect("it is submitted");
    }
}

#[test]
fn a_buffer_in_use_stays_until_the_use_ends() {
    let Some(mut world) = World::new(4 * MIB) else { return };
    let (used, next) = (world.buffer(3 * MIB), world.buffer(3 * MIB));
    let semaphore = Semaphore::new(&world);
    world.make_resident(&[&used]);
    world.run(&used, None, Some(1));

    let mut used_now = world.device.begin_use(&[&used]).expect("it is resident");
    world.wait(used_now.turn());
    // The application is done with it as far as its own calls go, and the GPU is not.
    world.evict(&[&used]);
    let point = world.make_resident(&[&next]);
    assert!(!world.is_reached(point), "its memory is in use");
    let foreign = Point { semaphore: vk::Semaphore::null(), value: 1 };
    assert_eq!(used_now.end(foreign), Err(Error::ForeignPoint));
    assert!(!world.is_reached(point), "a refused end ends nothing");
    used_now.end(semaphore.point(1)).expect("it ends");
    assert!(!world.is_reached(point), "the GPU has not reached the end");
    semaphore.signal(&world, 1);
    world.wait(point);

    world.run(&next, None, Some(2));
    world.evict(&[&next]);
    world.make_resident(&[&used]);
    world.run(&used, Some(1), None);
    drop((used, next));
    world.is_clean();
}

#[test]
fn a_use_may_end_before_its_turn_and_one_that_is_dropped_has_used_nothing() {
    let Some(world) = World::new(4 * MIB) else { return };
    let (one, other) = (world.buffer(3 * MIB), world.buffer(3 * MIB));
    let semaphore = Semaphore::new(&world);
    world.make_resident(&[&one]);
    let first = world.device.begin_use(&[&one]).expect("it is resident");
    world.evict(&[&one]);
    world.make_resident(&[&other]);
    let mut second = world.device.begin_use(&[&other]).expect("it is resident");
    let turn = second.turn();
    // As an application does that submits before it is its turn.
    second.end(semaphore.point(1)).expect("it ends");
    assert!(!world.is_reached(turn), "the first use has not ended");
    drop(first);
    world.wait(turn);
    semaphore.signal(&world, 1);
    world.evict(&[&other]);
    world.make_resident(&[&one]);
    let last = world.device.begin_use(&[&one]).expect("it is resident");
    world.wait(last.turn());
    drop(last);
    drop((one, other));
    world.is_clean();
}

#[test]
fn an_application_submits_by_itself_when_it_is_its_turn() {
    let Some(mut world) = World::new(4 * MIB) else { return };
    let buffer = world.buffer(2 * MIB);
    let semaphore = Semaphore::new(&world);
    for round in 0..10_u32 {
        world.make_resident(&[&buffer]);
        let step = world.step(&buffer, round.checked_sub(1), Some(round));
        let commands = world.kernel().record(&[step]).expect("it is recorded");
        let mut in_use = world.device.begin_use(&[&buffer]).expect("it is resident");
        // There may be one queue: a wait on it would hold up the paging that it waits for.
        world.wait(in_use.turn());
        let end = semaphore.point(u64::from(round) + 1);
        let (values, semaphores, buffers) = ([end.value], [end.semaphore], [commands]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info = vk::SubmitInfo::default().command_buffers(&buffers).signal_semaphores(&semaphores);
        let info = [info.push_next(&mut timeline)];
        let raw = world.adapter.raw();
        // SAFETY: nobody else uses the queue meanwhile; the commands and the semaphore are kept.
        let submitted = world.adapter.with_queue(|queue| unsafe { raw.queue_submit(queue, &info, vk::Fence::null()) });
        submitted.expect("it is submitted");
        in_use.end(end).expect("it ends");
        world.evict(&[&buffer]);
        world.wait(end);
        world.kernel().recycle(commands);
    }
    drop(buffer);
    world.is_clean();
}

/// A device of a process of its own, with a list of more than half of the memory.
fn party(world: &World) -> (Device, Vec<Buffer>) {
    let process = world.adapter.create_process().expect("there is memory for a process");
    let device = process.create_device().expect("it is created");
    let buffer = |_| device.create_buffer(MIB, vk::BufferUsageFlags::empty()).expect("there is memory");
    let buffers: Vec<_> = (0..5).map(buffer).collect();
    (device, buffers)
}

#[test]
fn devices_that_do_not_fit_together_run_in_turn() {
    let Some(mut world) = World::new(8 * MIB) else { return };
    let parties = [party(&world), party(&world)];
    for (device, buffers) in &parties {
        let all: Vec<_> = buffers.iter().collect();
        device.make_resident(&all, MakeResidentFlags::CANT_TRIM_FURTHER).expect("a list that fits alone is taken");
    }
    let mut commands = Vec::new();
    let mut last = Vec::new();
    for round in 0..6_u32 {
        for (number, (device, buffers)) in (0_u32..).zip(&parties) {
            // The last buffer counts the words that are wrong.
            let (counter, others) = buffers.split_last().expect("there are buffers");
            let seed = |round: u32| round * 2 + number;
            let step = |buffer: &Buffer| Step {
                words: buffer.address(),
                wrong: counter.address(),
                count: (MIB / 4) as u32,
                expected: round.checked_sub(1).map(seed),
                next: Some(seed(round)),
            };
            let steps: Vec<_> = others.iter().map(step).collect();
            let recorded = world.kernel().record(&steps).expect("it is recorded");
            commands.push(recorded);
            let used: Vec<_> = buffers.iter().collect();
            let work = Submission { commands: vec![recorded], ..Submission::default() };
            // SAFETY: the commands use what is named here, and are kept until the end of the test.
            let point = unsafe { device.submit(&used, work) }.expect("they are resident");
            last.push(point);
        }
    }
    last.into_iter().for_each(|point| world.wait(point));
    for (device, buffers) in &parties {
        let counter = buffers.last().expect("there are buffers");
        let wrong = device.read(counter, 0, 4).expect("it is resident").wait();
        assert_eq!(wrong, Ok(vec![0; 4]), "words are wrong");
    }
    let moved = world.adapter.statistics().expect("the adapter answers");
    assert!(moved.bytes_paged_out > 0, "the two did not fit together");
    drop(parties);
    world.is_clean();
}

/// A use that is open holds up no end of another device's, and any number of uses have their turn together.
#[test]
fn an_open_use_is_in_nobody_elses_way() {
    // Validation 1.3.239 loses signals that several threads wait for, and here many are.
    let Some(world) = World::with(12 * MIB, Validation::Off) else { return };
    let semaphore = Semaphore::new(&world);
    let parties = [party(&world), party(&world)];
    let begin = |device: &Device, buffers: &[Buffer]| {
        let used: Vec<_> = buffers.iter().collect();
        device.begin_use(&used).expect("they are resident")
    };
    for (device, buffers) in &parties {
        let all: Vec<_> = buffers.iter().collect();
        device.make_resident(&all, MakeResidentFlags::empty()).expect("both lists have room");
    }
    let [(one, ones), (other, others)] = &parties;
    let mut open: Vec<_> = (0..9).map(|_| begin(one, ones)).collect();
    let mut ended = begin(other, others);
    world.wait(open.last().expect("there are nine").turn());
    world.wait(ended.turn());
    ended.end(semaphore.point(1)).expect("it ends");
    semaphore.signal(&world, 1);
    // The buffers that the other device evicts leave for a third, although the first has ended none of its uses.
    other.evict(&others.iter().collect::<Vec<_>>(), EvictFlags::empty()).expect("they are resident");
    let third = party(&world);
    let all: Vec<_> = third.1.iter().collect();
    world.wait(third.0.make_resident(&all, MakeResidentFlags::empty()).expect("there is room"));
    for (used, value) in open.iter_mut().zip(2..) {
        used.end(semaphore.point(value)).expect("it ends");
    }
    semaphore.signal(&world, 10);
    drop((open, ended, parties, third));
    world.is_clean();
}

#[test]
fn threads_use_an_adapter_side_by_side() {
    let Some(world) = World::new(8 * MIB) else { return };
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let adapter = world.adapter.clone();
            scope.spawn(move || {
                let process = adapter.create_process().expect("there is memory for a process");
                let device = process.create_device().expect("it is created");
                let buffer = |_| device.create_buffer(MIB, vk::BufferUsageFlags::empty()).expect("there is memory");
                let buffers: Vec<_> = (0..3).map(buffer).collect();
                let all: Vec<_> = buffers.iter().collect();
                for round in 0..20_u8 {
                    // Together they want 12 MiB of 8: each is served in turn.
                    let point = device.make_resident(&all, MakeResidentFlags::CANT_TRIM_FURTHER);
                    point.expect("it fits alone");
                    for (number, buffer) in (0_u8..).zip(&buffers) {
                        let before = round.checked_sub(1).map_or(0, |before| before ^ thread << 6 ^ number << 4 | 1);
                        let read = device.read(buffer, MIB - 64, 64).expect("it is resident").wait();
                        assert_eq!(read, Ok(vec![before; 64]), "thread {thread}, round {round}");
                        let next = round ^ thread << 6 ^ number << 4 | 1;
                        device.write(buffer, MIB - 64, &[next; 64]).expect("it is resident");
                    }
                    device.evict(&all, EvictFlags::empty()).expect("they are on the list");
                }
            });
        }
    });
    world.is_clean();
}

#[test]
fn a_process_above_its_budget_is_asked_to_trim() {
    let Some(world) = World::new(8 * MIB) else { return };
    let (first, second) = (party(&world), party(&world));
    let (told, hears) = channel();
    let tell = move |trim| told.send(trim).unwrap_or(());
    first.0.on_trim(tell).expect("the adapter listens");
    for (device, buffers) in [&first, &second] {
        let all: Vec<_> = buffers.iter().collect();
        let _ = device.make_resident(&all, MakeResidentFlags::CANT_TRIM_FURTHER).expect("it fits alone");
        device.write(&buffers[0], 0, &[1]).expect("it is resident");
    }
    let budget = world.process.budget().expect("the adapter answers");
    assert!(budget.budget > 0 && budget.requested == 64 << 10, "{budget:?}");
    let trim = loop {
        let trim: vidmm_vulkan::Trim = hears.recv_timeout(LONG).expect("it is asked");
        if trim.num_bytes_to_trim > 0 {
            break trim;
        }
    };
    assert!(trim.flags.contains(vidmm::TrimFlags::TRIM_TO_BUDGET), "{trim:?}");
    let (device, buffers) = &first;
    let evicted = (0..).map(|number| number * MIB).take_while(|&bytes| bytes < trim.num_bytes_to_trim).count();
    let victims: Vec<_> = buffers.iter().take(evicted).collect();
    device.evict(&victims, EvictFlags::empty()).expect("they are on the list");
    drop((first, second));
    world.is_clean();
}

#[test]
fn a_call_back_cannot_wait_for_the_worker_that_calls_it() {
    let Some(world) = World::new(8 * MIB) else { return };
    let (first, second) = (party(&world), party(&world));
    let (told, hears) = channel();
    let adapter = world.adapter.clone();
    first.0.on_trim(move |_| drop(told.send(adapter.statistics().map(drop)))).expect("the adapter listens");
    for (device, buffers) in [&first, &second] {
        let all: Vec<_> = buffers.iter().collect();
        device.make_resident(&all, MakeResidentFlags::CANT_TRIM_FURTHER).expect("it fits alone");
    }
    assert_eq!(hears.recv_timeout(LONG), Ok(Err(Error::InCallBack)));
    drop((first, second));
    world.is_clean();
}
