//! The bytes that any policy must bring in, by Belady's MIN and by PFOO-L, which know the future.

use std::collections::BinaryHeap;

use vidmm_trace::Lifetime;

use crate::{
    Played, Setup,
    pace::Pace,
    trace::{Step, Trace, TraceError},
};

/// MIN on bytes: objects may be partly resident, and those leave first that are used last. No policy that keeps whole objects brings in
/// less, where each list is resident as a whole while its submission runs.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn min_split(trace: &Trace, setup: &Setup) -> Result<Played, TraceError> {
    Optimum::new(setup).play(trace, |wanted, resident| wanted.min(resident))
}

/// MIN on whole objects: those leave first that are used last. It is what a manager could do that knew the future; its time is that of a
/// schedule which can be kept.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn min_whole(trace: &Trace, setup: &Setup) -> Result<Played, TraceError> {
    Optimum::new(setup).play(trace, |_, resident| resident)
}

/// PFOO-L, the lower bound of Berger, Beckmann and Harchol-Balter ("Practical Bounds on Optimal Caching with Variable Object Sizes",
/// 2018). A hit keeps the object in memory since the use before, so a hit costs the object's size times that time, in submissions.
/// All hits together cost no more than the memory times all submissions; the shortest times are taken first, and the last hit in
/// part. Returns the bytes in. All sums are exact integers; each use takes 16 bytes.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn pfoo_lower(trace: &Trace, setup: &Setup) -> Result<u64, TraceError> {
    let (mut stream, mut step) = (trace.play(setup, false)?, Step::default());
    let warm_up = setup.warm_up as u64;
    // Size, last use (from 1; 0 is none), and whether there is content, for each object.
    let mut objects: Vec<(u64, u64, bool)> = Vec::new();
    let (mut number, mut bytes_in, mut hits) = (0_u64, 0, Vec::new());
    while stream.read(&mut step)? {
        number += 1;
        objects.extend(step.objects.iter().map(|object| (object.size, 0, object.lifetime == Lifetime::Whole)));
        let counts = number > warm_up;
        bytes_in += if counts { step.passed.1 } else { 0 };
        for used in &step.uses {
            let (size, last, has_content) = &mut objects[used.object()];
            let (before, had_content) = (std::mem::replace(last, number), std::mem::replace(has_content, true));
            if counts && had_content {
                bytes_in += *size;
            }
            if counts && before > 0 {
                // The time before the figures begin costs nothing here, so that the bound stays a lower bound.
                hits.push((number - before.max(warm_up), *size));
            }
        }
    }
    hits.sort_unstable();
    let mut left = u128::from(setup.local_memory) * u128::from(number.saturating_sub(warm_up));
    for (time, size) in hits {
        let most = (left / u128::from(time)).min(size.into());
        // A hit in part is rounded up: the bound is lower for that.
        let hit = if most < u128::from(size) && left % u128::from(time) > 0 { most + 1 } else { most };
        bytes_in -= hit as u64;
        left -= most * u128::from(time);
        if most < u128::from(size) {
            break;
        }
    }
    Ok(bytes_in)
}

/// An object, and how much of it is resident.
struct Known {
    size: u64,
    resident: u64,
    /// The number of the last submission that used it, from 1.
    last: u32,
    has_content: bool,
    is_written: bool,
}

struct Optimum<'a> {
    setup: &'a Setup,
    objects: Vec<Known>,
    /// When each is used next, its number, and the submission that said so: it is out of date once the object is used.
    farthest: BinaryHeap<(u64, u32, u32)>,
    used: u64,
    figures: Played,
    pace: Pace,
}

impl<'a> Optimum<'a> {
    fn new(setup: &'a Setup) -> Self {
        let figures = Played::default();
        let pace = Pace::new(setup.link, setup.in_flight);
        Self { setup, objects: Vec::new(), farthest: BinaryHeap::new(), used: 0, figures, pace }
    }

    /// `taken` says how much leaves of an object of which so much is resident where so much is wanted.
    fn play(mut self, trace: &Trace, taken: impl Fn(u64, u64) -> u64) -> Result<Played, TraceError> {
        let (mut stream, mut step, mut number) = (trace.play(self.setup, true)?, Step::default(), 0);
        let mut warm = Played::default();
        while stream.read(&mut step)? {
            if number as usize == self.setup.warm_up {
                warm = self.figures;
            }
            number += 1;
            let before = self.figures.moved();
            self.submit(&step, number, &taken);
            self.pace.submit(self.figures.moved().since(before), step.nanoseconds);
            self.figures.work_ns += step.nanoseconds;
            self.figures.virtual_ns = self.pace.nanoseconds();
        }
        Ok(self.figures.since(&warm))
    }

    fn submit(&mut self, step: &Step, number: u32, taken: impl Fn(u64, u64) -> u64) {
        self.objects.extend(step.objects.iter().map(|object| Known {
            size: object.size,
            resident: 0,
            last: 0,
            has_content: object.lifetime == Lifetime::Whole,
            is_written: false,
        }));
        let (passed, bytes_passed) = step.passed;
        self.figures.passed += passed;
        self.figures.uses += passed;
        self.figures.misses += passed;
        self.figures.bytes_used += bytes_passed;
        self.figures.bytes_in += bytes_passed;
        let mut wanted = 0;
        for used in &step.uses {
            let known = &mut self.objects[used.object()];
            known.last = number;
            known.is_written |= used.is_write();
            let missing = known.size - known.resident;
            wanted += missing;
            // An object that is made at its first use is not brought in.
            if std::mem::replace(&mut known.has_content, true) {
                self.figures.bytes_in += missing;
                self.figures.misses += u64::from(missing > 0);
            }
            self.figures.uses += 1;
            self.figures.bytes_used += known.size;
        }
        self.make_room(wanted, taken);
        self.used += wanted;
        for (used, &next) in step.uses.iter().zip(&step.next_uses) {
            let known = &mut self.objects[used.object()];
            known.resident = known.size;
            self.farthest.push((next, used.object() as u32, number));
        }
        for &index in &step.dying {
            self.used -= std::mem::take(&mut self.objects[index as usize].resident);
        }
        if self.farthest.len() > 4 * self.objects.len() + step.uses.len() {
            let objects = &self.objects;
            self.farthest.retain(|&(_, index, said)| objects[index as usize].last == said);
        }
    }

    fn make_room(&mut self, wanted: u64, taken: impl Fn(u64, u64) -> u64) {
        while self.used + wanted > self.setup.local_memory {
            let Some(&(_, index, said)) = self.farthest.peek() else { break };
            let known = &mut self.objects[index as usize];
            if known.last != said || known.resident == 0 {
                self.farthest.pop();
                continue;
            }
            let taken = taken(self.used + wanted - self.setup.local_memory, known.resident);
            known.resident -= taken;
            self.used -= taken;
            self.figures.bytes_out += if known.is_written { taken } else { 0 };
            if known.resident == 0 {
                known.is_written = false;
                self.figures.evictions += 1;
                self.farthest.pop();
            }
        }
    }
}
