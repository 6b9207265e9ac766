//! Data of three times the local memory goes through a compute kernel, which checks every word and writes others.
//!
//! `cargo run -p vidmm-vulkan --example vulkan_streaming`
//!
//! `-- --local-mib 48 --buffer-mib 4 --passes 3` are the sizes; `docs/guides/engine-authors.md` explains the program.

mod kernel;

use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

use ash::vk;
use kernel::{Kernel, Step};
use vidmm_vulkan::{Adapter, Buffer, Device, Frame, Options, Point, Submission, Validation};

/// The buffers that a frame uses.
const PER_FRAME: usize = 3;

/// The frames that the GPU may be behind.
const IN_FLIGHT: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let [local_mib, buffer_mib, passes] = arguments()?;
    let options = Options { local_bytes: Some(local_mib << 20), ..Options::default() };
    let adapter = Adapter::open(options, Validation::Off)?;
    let device = adapter.create_process()?.create_device()?;
    println!("device   {}, {local_mib} MiB of local memory", adapter.report().name);

    // Three times as much as local memory holds. Until it is made resident a buffer costs backing store, and no local memory.
    let size = buffer_mib << 20;
    let count = usize::try_from(3 * local_mib / buffer_mib)?;
    let buffer = |size| device.create_buffer(size, vk::BufferUsageFlags::empty());
    let buffers = (0..count).map(|_| buffer(size)).collect::<Result<Vec<Buffer>, _>>()?;
    println!("data     {} MiB in {count} buffers, {PER_FRAME} a frame", count as u64 * buffer_mib);

    // The counter of wrong words is a buffer too.
    let wrong = buffer(64 << 10)?;
    let mut stream = Stream {
        kernel: Kernel::new(adapter.raw(), adapter.queue_family())?,
        in_flight: VecDeque::new(),
        adapter: &adapter,
        device: &device,
        buffers: &buffers,
        wrong: &wrong,
    };

    let begun = Instant::now();
    let mut times = Vec::new();
    for pass in 0..passes {
        for first in (0..count).step_by(PER_FRAME) {
            let frame = Instant::now();
            stream.frame(first..(first + PER_FRAME).min(count), pass as u32)?;
            times.push(frame.elapsed());
        }
    }
    stream.finish()?;
    let total = begun.elapsed();

    let words = device.frame().read(&wrong, 0, 4)?.wait()?;
    let bad = u32::from_ne_bytes(words.as_slice().try_into()?);
    let moved = adapter.statistics()?;
    times.sort_unstable();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    println!("frames   {}: median {median:.1?}, slowest {slowest:.1?}, all {total:.1?}", times.len());
    println!("moved    {} MiB in, {} MiB out", moved.bytes_paged_in >> 20, moved.bytes_paged_out >> 20);
    println!("words    {} checked, {bad} wrong", passes * count as u64 * size / 4);
    if bad == 0 { Ok(()) } else { Err(format!("{bad} words are wrong").into()) }
}

/// The application's state: what the GPU has still to do.
struct Stream<'a> {
    kernel: Kernel,
    in_flight: VecDeque<(Point, vk::CommandBuffer)>,
    adapter: &'a Adapter,
    device: &'a Device,
    buffers: &'a [Buffer],
    wrong: &'a Buffer,
}

impl Stream<'_> {
    /// Uses a few buffers: the kernel checks what the last pass wrote, and writes the words of this one.
    fn frame(&mut self, range: std::ops::Range<usize>, pass: u32) -> Result<(), Box<dyn Error>> {
        let step = |number: usize| Step {
            words: self.buffers[number].address(),
            wrong: self.wrong.address(),
            count: (self.buffers[number].size() / 4) as u32,
            expected: pass.checked_sub(1).map(|before| seed(before, number)),
            next: Some(seed(pass, number)),
        };
        let steps: Vec<Step> = range.clone().map(step).collect();
        let commands = self.kernel.record(&steps)?;
        // The frame makes resident what it names; where there is no room, buffers that were used longest ago leave.
        let frame = self.device.frame().insert(self.wrong);
        let frame = self.buffers[range].iter().fold(frame, Frame::insert);
        let work = Submission { commands: vec![commands], ..Submission::default() };
        // SAFETY: the commands use what is named here, and are kept until the point is reached.
        let point = unsafe { frame.submit(work) }?;
        self.in_flight.push_back((point, commands));
        if self.in_flight.len() > IN_FLIGHT { self.wait_for_first() } else { Ok(()) }
    }

    fn wait_for_first(&mut self) -> Result<(), Box<dyn Error>> {
        let Some((point, commands)) = self.in_flight.pop_front() else { return Ok(()) };
        if !self.adapter.wait(point, Duration::from_secs(60))? {
            return Err("the GPU has not answered in a minute".into());
        }
        self.kernel.recycle(commands);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Box<dyn Error>> {
        while !self.in_flight.is_empty() {
            self.wait_for_first()?;
        }
        Ok(())
    }
}

/// The seed of the words of a buffer after a pass.
fn seed(pass: u32, number: usize) -> u32 {
    (pass + 1) * 0x1_0001 + number as u32
}

/// The sizes, in the order of the names.
fn arguments() -> Result<[u64; 3], Box<dyn Error>> {
    const NAMES: [&str; 3] = ["--local-mib", "--buffer-mib", "--passes"];
    let mut values = [48, 4, 3];
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let position =
            NAMES.iter().position(|&known| known == name).ok_or_else(|| format!("{name}: one of {NAMES:?}"))?;
        values[position] = arguments.next().ok_or_else(|| format!("{name} takes a number"))?.parse()?;
    }
    Ok(values)
}
