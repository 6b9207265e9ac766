//! The cost of a frame whose names are all resident: nothing moves, and only the lists are looked at.

use std::time::Instant;

use ash::vk;
use vidmm_vulkan::{Adapter, Buffer, BufferDesc, Error, Frame, Options, Point, Submission, Validation};

use crate::report::{Goal, Metric, Report};
use crate::{KIB, MIB, PATIENCE, Rounds, cpu_time};

/// The frames of a round, and those in flight.
const FRAMES: usize = 500;
const DEPTH: usize = 2;

const SIZE: u64 = 64 * KIB;

/// The microseconds of processor time of a frame with 16 and with 768 buffers, and with as many ranges of one; beside them the elapsed time.
pub fn resident(&rounds: &Rounds, report: &mut Report) {
    if let Err(error) = resident_of(rounds, report) {
        println!("skipped: {error}");
    }
}

fn resident_of(rounds: Rounds, report: &mut Report) -> Result<(), Error> {
    let options = Options { local_bytes: Some(64 * MIB), system_bytes: Some(256 * MIB), ..Options::default() };
    let adapter = Adapter::open(options, Validation::Off)?;
    let device = adapter.create_process()?.create_device()?;
    let buffers = (0..768).map(|_| device.create_buffer(SIZE, vk::BufferUsageFlags::empty()));
    let buffers = buffers.collect::<Result<Vec<Buffer>, Error>>()?;
    for (names, goal) in [(16, 4.0), (768, 15.0)] {
        let frame = || buffers[..names].iter().fold(device.frame(), Frame::insert);
        measure(&format!("{names} buffers"), Goal::report(goal), rounds, &adapter, frame, report)?;
    }
    drop(buffers);
    let desc = BufferDesc { range_bytes: SIZE, ..BufferDesc::new(768 * SIZE) };
    let buffer = device.create_buffer_with(desc)?;
    measure("a buffer of 768 ranges", None, rounds, &adapter, || device.frame().insert(&buffer), report)?;
    let frame = || (0..768).fold(device.frame(), |frame, at| frame.insert_range(&buffer, at * SIZE..(at + 1) * SIZE));
    measure("768 ranges by their bytes", None, rounds, &adapter, frame, report)?;
    Ok(())
}

/// Measures frames that `frame` makes, and that submit nothing.
fn measure<'a>(
    names: &str,
    goal: Option<Goal>,
    rounds: Rounds,
    adapter: &Adapter,
    frame: impl Fn() -> Frame<'a>,
    report: &mut Report,
) -> Result<(), Error> {
    let (mut processor, mut elapsed) = (Vec::new(), Vec::new());
    let moved = || adapter.statistics().map(|moved| (moved.bytes_paged_in, moved.bytes_paged_out));
    let mut before = None;
    for round in 0..=rounds {
        let (started, run) = (Instant::now(), cpu_time::of_vidmm());
        let mut points: Vec<Point> = Vec::with_capacity(FRAMES);
        for _ in 0..FRAMES {
            // SAFETY: nothing is submitted with it.
            points.push(unsafe { frame().submit(Submission::default()) }?);
            if let Some(before) = points.len().checked_sub(DEPTH) {
                assert!(adapter.wait(points[before], PATIENCE)?, "the queue gets there");
            }
        }
        assert!(adapter.wait(points[FRAMES - 1], PATIENCE)?, "the queue gets there");
        let per_frame = |milliseconds: f64| milliseconds * 1e3 / FRAMES as f64;
        let run = run.and_then(|run| Some(per_frame(cpu_time::of_vidmm()? - run)));
        // The first brings everything in.
        if round > 0 {
            processor.extend(run);
            elapsed.push(per_frame(started.elapsed().as_secs_f64() * 1e3));
            assert_eq!(before, Some(moved()?), "all that is named is resident");
        }
        before = Some(moved()?);
    }
    if !processor.is_empty() {
        report.add(Metric::alone(format!("a frame of {names}, all resident, CPU"), "us", &processor, goal));
    }
    report.add(Metric::alone(format!("a frame of {names}, all resident, time"), "us", &elapsed, None));
    Ok(())
}
