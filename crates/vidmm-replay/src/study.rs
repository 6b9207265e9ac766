//! A study: the manager's order and policies over a ledger of objects, without plans, page tables and fences.
//!
//! A study decides as the manager does for one process with one memory segment and at most two submissions in flight. A test,
//! `tests/study.rs`, compares the victims one by one. The ledger has 16 bytes for each object, and the order and the policy 16 to 60 bytes more.

use std::collections::VecDeque;

use vidmm::{
    AllocationId, SegmentId,
    policy::{Candidate, Candidates, Order, Policy, Subject},
};
use vidmm_trace::Lifetime;

use crate::{
    Lists, Measure, PlayError, PlayOptions, Played, Use,
    null::LOCAL_MEMORY,
    pace::Pace,
    trace::{Step, Trace},
};

/// Whether a study chooses the manager's victims: a process submits alone, at most two submissions are in flight, and the policy does not
/// care for the moment at which a dropped object is gone. The manager has another such moment than the study. S3-FIFO cares for ghosts
/// and for newcomers before the first victim, and so do the shadows of `predict`.
pub fn is_exact(trace: &Trace, options: &PlayOptions) -> bool {
    trace.measure().processes <= 1
        && options.setup.in_flight <= 2
        && !(options.policy.kind().cares_when_gone && trace.drops())
}

/// Plays a trace as a study, and says what was moved. The figures are the manager's where the study [`is_exact`].
///
/// # Errors
///
/// If local memory does not hold the largest submission, the policy prefetches, or the trace cannot be read.
pub fn study(trace: &Trace, options: &PlayOptions) -> Result<Played, PlayError> {
    study_watched(trace, options, |_| {})
}

/// The same for a sample of the objects: the standard error of the share of the bytes used that is brought in, as an estimate for all
/// objects. Each object is in the sample by itself (Poisson sampling), and the share is a quotient of two sums.
///
/// # Errors
///
/// As [`study`].
pub fn study_sample(trace: &Trace, options: &PlayOptions, share: f64) -> Result<(Played, f64), PlayError> {
    let mut study = Study::watched(trace.measure(), options, |_| {})?;
    study.tally = Some(Vec::new());
    let (played, tally) = study.run(trace, options)?;
    let ratio = played.bytes_in as f64 / played.bytes_used.max(1) as f64;
    let squares = tally.iter().map(|&(bytes_in, bytes_used)| (bytes_in as f64 - ratio * bytes_used as f64).powi(2));
    let error = (squares.sum::<f64>() * (1.0 - share).max(0.0)).sqrt() / played.bytes_used.max(1) as f64;
    Ok((played, error))
}

/// The same, and `watch` hears of each victim by the number of the object.
///
/// # Errors
///
/// As [`study`].
pub fn study_watched(trace: &Trace, options: &PlayOptions, mut watch: impl FnMut(u32)) -> Result<Played, PlayError> {
    let watch = |seen| {
        if let Seen::Left(object) = seen {
            watch(object);
        }
    };
    Study::watched(trace.measure(), options, watch)?.run(trace, options).map(|(played, _)| played)
}

/// An event of a study.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// An object leaves, as a victim or since the object is no more.
    Left(u32),
    /// An absent object was used.
    Missed {
        /// The number of the object.
        object: u32,
        /// The number of objects that left to make room.
        victims: u64,
        /// The number of objects of which the policy chose the first victim, if there is a victim.
        candidates: Option<u64>,
    },
    /// An object that no list names any more has this rank.
    Ranked {
        /// The number of the object.
        object: u32,
        /// The rank.
        rank: u64,
    },
}

/// An object.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// The size in bytes, and the flags of [`Record`] above [`SIZE_BITS`].
    bits: u64,
    /// The number of the last submission that used the object, from 1.
    last: u32,
}

/// A size is below 2^56.
const SIZE_BITS: u64 = (1 << 56) - 1;

impl Record {
    const RESIDENT: u64 = 1 << 56;
    /// The object has content that must be brought in.
    const CONTENT: u64 = 1 << 57;
    /// The content differs from the backing store.
    const DIRTY: u64 = 1 << 58;
    /// A submission since the last release writes the object.
    const WRITTEN: u64 = 1 << 59;

    fn size(self) -> u64 {
        self.bits & SIZE_BITS
    }

    fn is(self, flag: u64) -> bool {
        self.bits & flag != 0
    }

    fn take(&mut self, flag: u64) -> bool {
        let was = self.is(flag);
        self.bits &= !flag;
        was
    }
}

/// The objects, and the order of the candidates.
struct Ledger {
    objects: Vec<Record>,
    order: Order,
}

impl Ledger {
    fn subject(&self, object: u32) -> Subject {
        let allocation = AllocationId::from_bits(object.into());
        Subject { allocation, slot: object as usize, size: self.objects[object as usize].size() }
    }
}

impl Candidates for Ledger {
    fn memory(&self) -> SegmentId {
        LOCAL_MEMORY
    }

    fn first_from(&self, rank: u64) -> Option<Candidate> {
        self.order.first_from(rank, |slot| self.objects[slot].size())
    }

    fn get(&self, slot: usize) -> Option<Candidate> {
        let rank = self.order.rank(slot)?;
        Some(Candidate { slot, rank, size: self.objects[slot].size() })
    }

    fn set_rank(&mut self, slot: usize, rank: u64) {
        self.order.set_rank(slot, rank);
    }
}

/// A study to which you give the submissions one by one.
pub struct Study<W> {
    lists: Lists,
    ledger: Ledger,
    /// None is the documented order: the rank is the number of the last submission.
    policy: Option<Box<dyn Policy>>,
    local_memory: u64,
    /// Bytes that are resident.
    used: u64,
    /// Dropped objects that are not forgotten yet, and the submissions after which they were dropped.
    dropped: VecDeque<(u32, u32)>,
    /// Dropped objects that are still resident.
    dead: Vec<u32>,
    in_flight: u64,
    /// The objects of the submission before, if the list is kept.
    listed: Vec<u32>,
    /// Room for a list.
    joining: Vec<u32>,
    figures: Played,
    pace: Pace,
    /// Bytes in and bytes used of each object, if wanted.
    tally: Option<Vec<(u64, u64)>>,
    /// The number of the last submission, from 1.
    number: u32,
    watch: W,
}

impl<W: FnMut(Seen)> Study<W> {
    /// A study of a trace with this measure, before the first submission. `watch` hears of all events.
    ///
    /// # Errors
    ///
    /// If local memory does not hold the largest submission, or the policy prefetches.
    pub fn watched(measure: &Measure, options: &PlayOptions, watch: W) -> Result<Self, PlayError> {
        let &Measure { page, largest_list, objects, .. } = measure;
        let local_memory = options.setup.local_memory / page * page;
        if largest_list > local_memory && !options.setup.pass_by {
            return Err(PlayError::TooLarge { largest_list, local_memory });
        }
        let objects = objects as usize;
        let policy = options.policy.policy();
        // Only the manager knows when engines leave the bus alone.
        if policy.as_ref().is_some_and(|policy| policy.prefetches()) {
            return Err(PlayError::Prefetches);
        }
        Ok(Self {
            lists: options.lists,
            ledger: Ledger { objects: Vec::with_capacity(objects), order: Order::with_capacity(objects) },
            policy,
            local_memory,
            used: 0,
            dropped: VecDeque::new(),
            dead: Vec::new(),
            in_flight: options.setup.in_flight,
            listed: Vec::new(),
            joining: Vec::new(),
            figures: Played::default(),
            pace: Pace::new(options.setup.link, options.setup.in_flight),
            tally: None,
            number: 0,
            watch,
        })
    }

    /// Plays all submissions. Returns the figures and the tally, both without the warm-up.
    fn run(mut self, trace: &Trace, options: &PlayOptions) -> Result<(Played, Vec<(u64, u64)>), PlayError> {
        let (mut stream, mut step) = (trace.play(&options.setup, false)?, Step::default());
        let mut warm = Played::default();
        while stream.read(&mut step)? {
            if self.number as usize == options.setup.warm_up {
                warm = self.figures;
                self.tally.iter_mut().flatten().for_each(|tally| *tally = (0, 0));
            }
            self.submit(&step)?;
        }
        self.complete(u64::MAX);
        Ok((self.figures.since(&warm), self.tally.unwrap_or_default()))
    }

    /// The figures of the submissions so far.
    pub fn figures(&self) -> &Played {
        &self.figures
    }

    /// Plays the next submission.
    ///
    /// # Errors
    ///
    /// If local memory does not hold the submission.
    pub fn submit(&mut self, step: &Step) -> Result<(), PlayError> {
        self.number += 1;
        let number = self.number;
        self.complete(u64::from(number).saturating_sub(self.in_flight));
        let before = self.figures.moved();
        self.ledger.objects.extend(step.objects.iter().map(|object| Record {
            bits: object.size | if object.lifetime == Lifetime::Whole { Record::CONTENT } else { 0 },
            last: 0,
        }));
        let (passed, bytes_passed) = step.passed;
        self.figures.passed += passed;
        self.figures.uses += passed;
        self.figures.bytes_used += bytes_passed;
        let mut list_bytes = 0;
        for used in &step.uses {
            let record = &mut self.ledger.objects[used.object()];
            let last = std::mem::replace(&mut record.last, number);
            let is_listed = last + 1 == number && !self.listed.is_empty();
            record.bits |= if used.is_write() { Record::WRITTEN } else { 0 };
            self.figures.uses += 1;
            list_bytes += record.size();
            if !is_listed {
                self.joining.push(used.object() as u32);
            }
        }
        self.figures.bytes_used += list_bytes;
        if let Some(tally) = &mut self.tally {
            tally.resize(self.ledger.objects.len(), (0, 0));
            for used in &step.uses {
                tally[used.object()].1 += self.ledger.objects[used.object()].size();
            }
        }
        if list_bytes > self.local_memory {
            return Err(PlayError::TooLarge { largest_list: list_bytes, local_memory: self.local_memory });
        }
        let mut leaving = std::mem::take(&mut self.listed);
        leaving.retain(|&object| self.ledger.objects[object as usize].last < number);
        self.release(leaving.iter().copied(), number - 1);
        leaving.clear();
        self.listed = leaving;
        self.join(number);
        let uses = step.uses.iter().copied().map(Use::object).map(|object| object as u32);
        match self.lists {
            Lists::Anew => self.release(uses, number),
            Lists::Kept => self.listed.extend(uses),
        }
        for &object in &step.dying {
            self.drop_object(object, number);
        }
        self.figures.bytes_in += bytes_passed;
        self.figures.misses += passed;
        self.figures.work_ns += step.nanoseconds;
        self.pace.submit(self.figures.moved().since(before), step.nanoseconds);
        self.figures.virtual_ns = self.pace.nanoseconds();
        Ok(())
    }

    /// Brings in what joins the list.
    fn join(&mut self, number: u32) {
        let mut joining = std::mem::take(&mut self.joining);
        for &object in &joining {
            if let Some(policy) = &mut self.policy {
                policy.used(self.ledger.subject(object), number.into());
            }
            self.ledger.order.set_aside(object as usize);
        }
        self.take_dead();
        for object in joining.drain(..) {
            let record = &mut self.ledger.objects[object as usize];
            if record.is(Record::RESIDENT) {
                continue;
            }
            record.bits |= Record::RESIDENT;
            let size = record.size();
            // An object that is made at the first use is not brought in.
            if record.is(Record::CONTENT) {
                self.figures.bytes_in += size;
                self.figures.misses += 1;
                if let Some(tally) = &mut self.tally {
                    tally[object as usize].0 += size;
                }
            }
            record.bits |= Record::CONTENT;
            let (evictions, mut candidates) = (self.figures.evictions, None);
            while self.used + size > self.local_memory {
                let count = self.evict();
                candidates = candidates.or(Some(count));
            }
            (self.watch)(Seen::Missed { object, victims: self.figures.evictions - evictions, candidates });
            self.used += size;
            if let Some(policy) = &mut self.policy {
                policy.brought_in(self.ledger.subject(object), LOCAL_MEMORY);
            }
        }
        self.joining = joining;
    }

    /// The submissions up to number `last` end. Objects that were dropped after such a submission are forgotten, once they have left.
    fn complete(&mut self, last: u64) {
        self.forget(last);
        if last > 0 {
            self.take_dead();
            self.forget(last);
        }
    }

    fn forget(&mut self, last: u64) {
        while let Some(&(object, after)) = self.dropped.front()
            && u64::from(after) <= last
            && !self.ledger.objects[object as usize].is(Record::RESIDENT)
        {
            self.dropped.pop_front();
            if let Some(policy) = &mut self.policy {
                policy.gone(self.ledger.subject(object));
            }
        }
    }

    /// Takes out dropped objects. The manager counts no evictions of what is no more.
    fn take_dead(&mut self) {
        for object in std::mem::take(&mut self.dead) {
            self.leave(object);
        }
    }

    /// Chooses a victim, and takes it out. Returns the number of candidates before.
    fn evict(&mut self) -> u64 {
        let Self { ledger, policy, .. } = self;
        ledger.order.settle();
        let candidates = ledger.order.len() as u64;
        let first = ledger.order.first_from(0, |_| 0).expect("the list fits, so something else is resident").slot;
        let victim = match policy {
            None => first as u32,
            Some(policy) => {
                let slot = policy.victim(ledger);
                if ledger.order.rank(slot).is_some() { slot as u32 } else { first as u32 }
            }
        };
        self.ledger.order.remove(victim as usize);
        self.leave(victim);
        self.figures.evictions += 1;
        let record = &mut self.ledger.objects[victim as usize];
        if record.take(Record::DIRTY) {
            self.figures.bytes_out += record.size();
        }
        candidates
    }

    fn leave(&mut self, object: u32) {
        let record = &mut self.ledger.objects[object as usize];
        record.bits &= !Record::RESIDENT;
        self.used -= record.size();
        (self.watch)(Seen::Left(object));
        if let Some(policy) = &mut self.policy {
            policy.left(self.ledger.subject(object), LOCAL_MEMORY);
        }
    }

    /// Objects leave the list after submission `last`: read objects first, as the program evicts them.
    fn release(&mut self, objects: impl Iterator<Item = u32> + Clone, last: u32) {
        let all = objects.clone().map(|object| (object, false)).chain(objects.map(|object| (object, true)));
        for (object, is_written) in all {
            let record = &mut self.ledger.objects[object as usize];
            // The end of a written object's release takes the flag.
            if record.is(Record::WRITTEN) != is_written
                || record.last == u32::MAX
                || self.ledger.order.rank(object as usize).is_some()
            {
                continue;
            }
            if record.take(Record::WRITTEN) {
                record.bits |= Record::DIRTY;
            }
            let rank = match &mut self.policy {
                None => last.into(),
                Some(policy) => {
                    policy.released(self.ledger.subject(object), last.into());
                    policy.rank(object as usize)
                }
            };
            self.ledger.order.push(object as usize, rank);
            (self.watch)(Seen::Ranked { object, rank });
        }
    }

    /// The object is no more. A resident object stays until room is wanted, and goes first.
    fn drop_object(&mut self, object: u32, after: u32) {
        let record = &mut self.ledger.objects[object as usize];
        record.last = u32::MAX;
        record.bits &= !(Record::DIRTY | Record::WRITTEN);
        self.ledger.order.remove(object as usize);
        self.dropped.push_back((object, after));
        if record.is(Record::RESIDENT) {
            self.dead.push(object);
        }
    }
}
