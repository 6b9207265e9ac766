//! A loop over three times local memory, by frames of vidmm and by a hand-written LRU on plain Vulkan.

use std::time::Instant;

use ash::vk;
use vidmm::policy::PolicyChoice;
use vidmm_vulkan::{Adapter, Buffer, Device, Error, Options, Point, Submission, Unbinding, Validation};

use crate::hand_written::HandWritten;
use crate::report::{Goal, Metric, Report};
use crate::{MIB, PATIENCE, Rounds, cpu_time};

/// The data: blocks of 4 MiB, of which 12 have room.
pub const BUFFERS: usize = 36;
pub const SLOTS: usize = 12;
pub const SIZE: u64 = 4 * MIB;

/// The blocks that a frame uses, and the bytes that it writes of each.
pub const NAMES: usize = 3;
pub const TOUCHED: u64 = 64 << 10;
pub type Frame = [usize; NAMES];

const FRAMES: usize = 600;

/// Frames in flight.
const DEPTH: usize = 2;

/// One run of all frames: bytes moved, milliseconds, and the milliseconds of processor time where they are known.
#[derive(Clone, Copy)]
struct Run {
    bytes: u64,
    elapsed: f64,
    processor: Option<f64>,
}

/// Measures a run. `frame` does one frame, `finish` waits for all and returns the bytes that were moved.
fn run<T>(of: &mut T, frame: impl Fn(&mut T, Frame), finish: impl FnOnce(&mut T) -> u64) -> Run {
    let (started, before) = (Instant::now(), cpu_time::of_vidmm());
    for number in 0..FRAMES {
        frame(of, [0, 1, 2].map(|name| (number * NAMES + name) % BUFFERS));
    }
    let bytes = finish(of);
    let elapsed = started.elapsed().as_secs_f64() * 1e3;
    let processor = before.and_then(|before| Some(cpu_time::of_vidmm()? - before));
    Run { bytes, elapsed, processor }
}

/// The ratios of bytes, of time and of processor time, by the hand-written LRU of the same round. A cyclic run is a miss each time for it;
/// 1.10 of MIN that keeps the buffers of the running frame is 0.79 of that.
pub fn cyclic(&rounds: &Rounds, report: &mut Report) {
    for policy in [PolicyChoice::LRU, PolicyChoice::PREDICT] {
        if let Err(error) = cyclic_by(policy, rounds.div_ceil(3), report) {
            return println!("skipped: {error}");
        }
    }
}

fn cyclic_by(policy: PolicyChoice, rounds: Rounds, report: &mut Report) -> Result<(), Error> {
    let is_best = policy == PolicyChoice::PREDICT;
    let options = Options {
        local_bytes: Some(SLOTS as u64 * SIZE),
        system_bytes: Some(2 * BUFFERS as u64 * SIZE),
        unbinding: Unbinding::Lazy,
        policy,
    };
    let mut runs = Vec::new();
    for round in 0..=rounds {
        let adapter = Adapter::open(options, Validation::Off)?;
        let by_hand = || {
            let mut by_hand = HandWritten::new(&adapter).expect("there is memory");
            run(&mut by_hand, HandWritten::frame, |by_hand| {
                by_hand.finish();
                by_hand.bytes_moved
            })
        };
        // Each comes first in turn.
        let first = (round % 2 == 0).then(by_hand);
        let mut frames = Frames::new(&adapter)?;
        let by_frames = run(&mut frames, Frames::frame, Frames::finish);
        drop(frames);
        runs.push((by_frames, first.unwrap_or_else(by_hand)));
    }
    // The first warms up.
    let runs = &runs[1..];
    let ratios = |of: fn(&Run) -> f64| Vec::from_iter(runs.iter().map(|(ours, theirs)| (of(ours), of(theirs))));
    let id = |what: &str| format!("cyclic, {policy}, {what} by a hand-written LRU");
    let goal = |goal: Option<Goal>| goal.filter(|_| is_best);
    report.add(Metric::against(
        id("MiB"),
        "MiB",
        &ratios(|run| run.bytes as f64 / MIB as f64),
        goal(Goal::exact(0.79)),
    ));
    report.add(Metric::against(id("time"), "ms", &ratios(|run| run.elapsed), goal(Goal::report(0.81))));
    if runs.iter().all(|(ours, theirs)| ours.processor.is_some() && theirs.processor.is_some()) {
        let processor = ratios(|run| run.processor.unwrap_or_default());
        report.add(Metric::against(id("CPU"), "ms", &processor, goal(Goal::report(1.5))));
    }
    Ok(())
}

/// Frames of vidmm over the buffers, each with commands that were recorded once: handles stay.
struct Frames<'a> {
    adapter: &'a Adapter,
    device: Device,
    buffers: Vec<Buffer>,
    pool: vk::CommandPool,
    commands: Vec<vk::CommandBuffer>,
    points: Vec<Point>,
}

impl<'a> Frames<'a> {
    fn new(adapter: &'a Adapter) -> Result<Self, Error> {
        let device = adapter.create_process()?.create_device()?;
        let buffers = (0..BUFFERS).map(|_| device.create_buffer(SIZE, vk::BufferUsageFlags::empty()));
        let buffers = buffers.collect::<Result<Vec<Buffer>, Error>>()?;
        let raw = adapter.raw();
        let pool = vk::CommandPoolCreateInfo::default().queue_family_index(adapter.queue_family());
        let count = (BUFFERS / NAMES) as u32;
        // SAFETY: the device lives; the commands write within buffers that outlive them.
        let (pool, commands) = unsafe {
            let pool = raw.create_command_pool(&pool, None).expect("there is memory");
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(count);
            let commands = raw.allocate_command_buffers(&info).expect("there is memory");
            for (number, (&commands, buffers)) in (1..).zip(commands.iter().zip(buffers.chunks(NAMES))) {
                raw.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default()).expect("there is memory");
                for buffer in buffers {
                    raw.cmd_fill_buffer(commands, buffer.raw(), 0, TOUCHED, number);
                }
                raw.end_command_buffer(commands).expect("there is memory");
            }
            (pool, commands)
        };
        Ok(Self { adapter, device, buffers, pool, commands, points: Vec::new() })
    }

    fn frame(&mut self, names: Frame) {
        let frame = names.iter().fold(self.device.frame(), |frame, &name| frame.insert(&self.buffers[name]));
        let work = Submission { commands: vec![self.commands[names[0] / NAMES]], ..Submission::default() };
        // SAFETY: the commands write what the frame names, and are kept until all frames have ended.
        self.points.push(unsafe { frame.submit(work) }.expect("it fits"));
        if let Some(&before) = self.points.len().checked_sub(DEPTH).and_then(|before| self.points.get(before)) {
            assert!(self.adapter.wait(before, PATIENCE).expect("Vulkan waits"), "the queue gets there");
        }
    }

    fn finish(&mut self) -> u64 {
        let last = *self.points.last().expect("there were frames");
        assert!(self.adapter.wait(last, PATIENCE).expect("Vulkan waits"), "the queue gets there");
        let moved = self.adapter.statistics().expect("the adapter answers");
        moved.bytes_paged_in + moved.bytes_filled + moved.bytes_paged_out
    }
}

impl Drop for Frames<'_> {
    fn drop(&mut self) {
        // SAFETY: `finish` has waited for all commands.
        unsafe { self.adapter.raw().destroy_command_pool(self.pool, None) };
    }
}
