//! The speed of paging over Vulkan, beside memcpy and beside plain Vulkan copies of the same bytes.
//!
//! | goal | measured |
//! |---|---|
//! | B1 | buffers of 16 MiB that come in with one MakeResident, by a plain Vulkan copy |
//! | B2 | smaller ones that come in with one MakeResident, by memcpy |
//! | B3 | buffers of 1 MiB that come in with one MakeResident each, by memcpy |
//! | B5 | the processor time of vidmm and of the calls to Vulkan in that, less that of as many empty submissions |
//!
//! ```text
//! cargo bench -p vidmm-vulkan --bench paging -- [--quick] [--json] [--check] [paging] [cyclic] [resident] [instructions]
//! ```
//!
//! The bytes are 32 MiB at a time, and 256 MiB on a device with memory of its own, where a plain Vulkan copy takes the place of memcpy:
//! both cross the bus. Every buffer has one range, and comes to another place than the last time, so that each is bound
//! anew. The goals are those of [`Unbinding::Lazy`]; the figures of [`Unbinding::Strict`] stand beside them.
//!
//! Each is a time by a time of the same round, the baseline first and then second in turn; the median of the rounds' ratios counts.
//! `cyclic` is 600 frames over 36 buffers of 4 MiB with room for 12, three to a frame, by a hand-written LRU on plain Vulkan that moves
//! and writes the same blocks: bytes, time, and processor time.
//!
//! `instructions` counts those of a page-in of 1 MiB under callgrind (Debian's `valgrind`).
//!
//! So a bandwidth of at least 0.85 of memcpy's is a ratio of at most 1.18. Without a Vulkan device nothing is measured.

mod cpu_time;
mod cyclic;
mod hand_written;
mod instructions;
#[path = "../../../vidmm/benches/support/parts.rs"]
mod parts;
mod plain_copy;
#[expect(dead_code, reason = "the core's benchmarks use more of it")]
#[path = "../../../vidmm/benches/support/report.rs"]
mod report;
mod resident;

use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use plain_copy::PlainCopy;
use report::{Goal, Metric, Report};
use vidmm::{AllocationResidencyStatus, EvictFlags, MakeResidentFlags};
use vidmm_vulkan::{Adapter, Buffer, BufferDesc, Device, Error, Options, Unbinding, Validation};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const PATIENCE: Duration = Duration::from_secs(60);

/// The number of rounds that count.
type Rounds = usize;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [instructions::CHILD, rounds] = &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        instructions::child(rounds).expect("the adapter pages");
        return ExitCode::SUCCESS;
    }
    parts::run::<Rounds>(
        &arguments,
        &[
            ("paging", paging),
            ("cyclic", cyclic::cyclic),
            ("resident", resident::resident),
            ("instructions", instructions::instructions),
        ],
        &9,
        &5,
    )
}

fn paging(&rounds: &Rounds, report: &mut Report) {
    for unbinding in [Unbinding::Lazy, Unbinding::Strict] {
        if let Err(error) = paging_with(unbinding, rounds, report) {
            return println!("skipped: {error}");
        }
    }
}

fn paging_with(unbinding: Unbinding, rounds: Rounds, report: &mut Report) -> Result<(), Error> {
    let is_cpu = vidmm_vulkan::VulkanDevice::open(Validation::Off)?.report().kind == "cpu";
    let set = if is_cpu { 32 * MIB } else { 256 * MIB };
    let options = Options { local_bytes: Some(set), unbinding, ..Options::default() };
    let adapter = Adapter::open(options, Validation::Off)?;
    let mode = format!("{unbinding:?}").to_lowercase();
    let goal = |least: f64| Goal::report(1.0 / least).filter(|_| unbinding == Unbinding::Lazy);
    let started = Instant::now();
    let elapsed = || started.elapsed().as_secs_f64() * 1e3;
    let mut plain = PlainCopy::new(&adapter, set).expect("there is memory");
    let copied = Pages::new(&adapter, set, 16 * MIB)?.rounds(rounds, elapsed, Pages::come_in, || plain.copy(&adapter));
    let id = format!("B1 page-in of 16 MiB, {mode}, by a Vulkan copy");
    report.add(Metric::against(id, "ms", &copied?, goal(0.95)));
    let mut memory = Memcpy::new(set);
    let by = if is_cpu { "memcpy" } else { "a Vulkan copy" };
    let mut against = |id: String, size, come_in, least| {
        let baseline = || if is_cpu { memory.copy(size) } else { plain.copy(&adapter) };
        let times = Pages::new(&adapter, set, size)?.rounds(rounds, elapsed, come_in, baseline)?;
        report.add(Metric::against(format!("{id}, {mode}, by {by}"), "ms", &times, goal(least)));
        Ok::<_, Error>(())
    };
    for (size, name, least) in [(64 * KIB, "64 KiB", 0.45), (256 * KIB, "256 KiB", 0.70), (MIB, "1 MiB", 0.85)] {
        against(format!("B2 page-in of {name}"), size, Pages::come_in, least)?;
    }
    against("B3 page-in of 1 MiB, one by one".to_owned(), MIB, Pages::come_in_one_by_one, 0.70)?;
    if cpu_time::of_vidmm().is_some() {
        let taken = || cpu_time::of_vidmm().expect("the system has told it before");
        let count = set / MIB;
        let submit = || (0..count).for_each(|_| plain.submit_nothing(&adapter));
        let times = Pages::new(&adapter, set, MIB)?.rounds(rounds, taken, Pages::come_in_one_by_one, submit)?;
        let added: Vec<f64> = times.iter().map(|(paged, empty)| (paged - empty) * 1e3 / count as f64).collect();
        report.add(Metric::alone(
            format!("B5 CPU added to a page-in of 1 MiB, {mode}"),
            "us",
            &added,
            Goal::report(2.0),
        ));
    }
    plain.destroy(&adapter);
    Ok(())
}

/// Two sets of buffers that displace each other.
struct Pages<'a> {
    adapter: &'a Adapter,
    set: u64,
    device: Device,
    sets: [Vec<Buffer>; 2],
    next: usize,
}

impl<'a> Pages<'a> {
    /// Sets of buffers of this size, which have content that is in system memory.
    fn new(adapter: &'a Adapter, set: u64, size: u64) -> Result<Self, Error> {
        let device = adapter.create_process()?.create_device()?;
        let desc = || BufferDesc { range_bytes: size, ..BufferDesc::new(size) };
        let buffers = || (0..set / size).map(|_| device.create_buffer_with(desc())).collect();
        let sets = [buffers(), buffers()].into_iter().collect::<Result<Vec<Vec<Buffer>>, Error>>()?;
        let sets = <[Vec<Buffer>; 2]>::try_from(sets).expect("there are two");
        let bytes = vec![0xA5; size as usize];
        for buffers in &sets {
            for buffer in buffers {
                device.make_resident(&[buffer], MakeResidentFlags::empty())?;
                let written = device.write(buffer, 0, &bytes)?;
                device.evict(&[buffer], EvictFlags::empty())?;
                adapter.wait(written, PATIENCE)?;
            }
        }
        // The copies out are no part of what is measured.
        for buffer in sets.iter().flatten() {
            while buffer.residency()? != AllocationResidencyStatus::NotResident {
                std::thread::yield_now();
            }
        }
        Ok(Self { adapter, set, device, sets, next: 0 })
    }

    /// One set comes in, by one call, and takes the place of the other, which nobody has written.
    fn come_in(&mut self) -> Result<(), Error> {
        let all: Vec<&Buffer> = self.sets[self.next].iter().collect();
        let point = self.device.make_resident(&all, MakeResidentFlags::empty())?;
        self.finish(point)
    }

    /// The same, by one call for each buffer; nobody waits in between.
    fn come_in_one_by_one(&mut self) -> Result<(), Error> {
        let mut last = None;
        for buffer in &self.sets[self.next] {
            last = Some(self.device.make_resident(&[buffer], MakeResidentFlags::empty())?);
        }
        self.finish(last.expect("a set has buffers"))
    }

    fn finish(&mut self, point: vidmm_vulkan::Point) -> Result<(), Error> {
        assert!(self.adapter.wait(point, PATIENCE)?, "the queue gets there");
        let all: Vec<&Buffer> = self.sets[self.next].iter().collect();
        self.device.evict(&all, EvictFlags::EVICT_ONLY_IF_NECESSARY | EvictFlags::NOT_WRITTEN_TO)?;
        // The next time the first of them comes last, and so each to another place.
        self.sets[self.next].rotate_left(1);
        self.next = 1 - self.next;
        Ok(())
    }

    /// The milliseconds of both by `clock`, in each of the rounds that count.
    fn rounds(
        mut self,
        rounds: Rounds,
        clock: impl Fn() -> f64,
        come_in: fn(&mut Self) -> Result<(), Error>,
        mut baseline: impl FnMut(),
    ) -> Result<Vec<(f64, f64)>, Error> {
        let moved = |adapter: &Adapter| {
            adapter.statistics().map(|statistics| (statistics.bytes_paged_in, statistics.bytes_paged_out))
        };
        let before = moved(self.adapter)?;
        let mut times = Vec::new();
        for round in 0..rounds + 2 {
            let (mut paged, mut copied) = (0.0, 0.0);
            for is_baseline in [round % 2 == 0, round % 2 == 1] {
                let begun = clock();
                match is_baseline {
                    true => baseline(),
                    false => come_in(&mut self)?,
                }
                let elapsed = clock() - begun;
                *(if is_baseline { &mut copied } else { &mut paged }) = elapsed;
            }
            times.push((paged, copied));
        }
        let after = moved(self.adapter)?;
        let came = (after.0 - before.0, after.1 - before.1);
        assert_eq!(came, (self.set * times.len() as u64, 0), "all of it comes in each time, and nothing is copied out");
        // The first two warm up.
        Ok(times.split_off(2))
    }
}

/// The memory that one processor copies: from two places in turn, as paging does.
struct Memcpy {
    from: [Vec<u8>; 2],
    to: Vec<u8>,
}

impl Memcpy {
    fn new(bytes: u64) -> Self {
        Self { from: [1, 3].map(|byte| vec![byte; bytes as usize]), to: vec![2; bytes as usize] }
    }

    fn copy(&mut self, size: u64) {
        self.from.swap(0, 1);
        let pairs = self.to.chunks_mut(size as usize).zip(self.from[0].chunks(size as usize));
        pairs.for_each(|(to, from)| to.copy_from_slice(from));
        std::hint::black_box(&self.to);
    }
}
