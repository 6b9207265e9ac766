//! The uses of a study, one by one.

use std::cell::RefCell;

use crate::{PlayError, PlayOptions, Played, Step, Study, Trace, study::Seen};

/// A use, and its cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UseRow {
    /// The number of the submission, from 0.
    pub submission: u64,
    /// The virtual time at which the submission ends, in nanoseconds.
    pub at_ns: u64,
    /// The number of the object, in the order of the first uses.
    pub object: u32,
    /// The size of the object.
    pub bytes: u64,
    /// Whether the submission writes the object.
    pub is_write: bool,
    /// Whether the object is resident.
    pub is_hit: bool,
    /// The bytes of the different objects that were used since the use before, without the object; none at the first use.
    pub reuse_bytes: Option<u64>,
    /// The number of objects that left to make room.
    pub victims: u64,
    /// The number of objects of which the policy chose the first victim; none without a victim.
    pub candidates: Option<u64>,
    /// The rank that the policy gives the object after the submission: lower ranks leave first, unless the policy draws. None while the object
    /// stays on the list.
    pub rank: Option<u64>,
}

/// Plays a trace as a study, and tells each use to `tell`, without uses that pass by.
///
/// # Errors
///
/// As [`study`](crate::study), or if `tell` fails.
pub fn study_uses<E: From<PlayError>>(
    trace: &Trace,
    options: &PlayOptions,
    mut tell: impl FnMut(&UseRow) -> Result<(), E>,
) -> Result<Played, E> {
    let failed = |error| E::from(PlayError::Trace(error));
    let seen = RefCell::new(Vec::new());
    let mut study = Study::watched(trace.measure(), options, |one| seen.borrow_mut().push(one))?;
    let (mut stream, mut step) = (trace.play(&options.setup, false).map_err(failed)?, Step::default());
    let mut recent = Recent::new(trace.measure().uses as usize);
    let (mut objects, mut rows): (Vec<Known>, Vec<UseRow>) = (Vec::new(), Vec::new());
    let mut submission = 0;
    while stream.read(&mut step).map_err(failed)? {
        study.submit(&step)?;
        let at_ns = study.figures().virtual_ns;
        objects.extend(step.objects.iter().map(|object| Known { bytes: object.size, ..Known::default() }));
        for used in &step.uses {
            let known = &mut objects[used.object()];
            known.row = rows.len();
            rows.push(UseRow {
                submission,
                at_ns,
                object: used.object() as u32,
                bytes: known.bytes,
                is_write: used.is_write(),
                is_hit: true,
                reuse_bytes: recent.used(&mut known.last, known.bytes),
                victims: 0,
                candidates: None,
                rank: None,
            });
        }
        for one in seen.take() {
            match one {
                Seen::Left(_) => {}
                Seen::Missed { object, victims, candidates } => {
                    let row = &mut rows[objects[object as usize].row];
                    (row.is_hit, row.victims) = (false, victims);
                    row.candidates = candidates;
                }
                Seen::Ranked { object, rank } => {
                    // An object may leave the list after a later submission than the last use.
                    let row = rows.get_mut(objects[object as usize].row).filter(|row| row.object == object);
                    if let Some(row) = row {
                        row.rank = Some(rank);
                    }
                }
            }
        }
        rows.iter().try_for_each(&mut tell)?;
        rows.clear();
        submission += 1;
    }
    Ok(*study.figures())
}

/// An object.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    bytes: u64,
    /// The number of the last use, from 1; 0 is none.
    last: usize,
    /// The row of the last use, among those of a submission.
    row: usize,
}

/// Bytes of objects by their last uses, as a tree of partial sums (Fenwick, 1994).
struct Recent {
    sums: Vec<u64>,
    /// The number of uses so far.
    now: usize,
}

impl Recent {
    fn new(uses: usize) -> Self {
        Self { sums: vec![0; uses + 1], now: 0 }
    }

    /// An object is used, for the last time at use `last`. Returns the bytes of the other objects that were used since then.
    fn used(&mut self, last: &mut usize, bytes: u64) -> Option<u64> {
        self.now += 1;
        let before = std::mem::replace(last, self.now);
        let since = (before > 0).then(|| self.up_to(self.now) - self.up_to(before));
        if before > 0 {
            self.add(before, bytes.wrapping_neg());
        }
        self.add(self.now, bytes);
        since
    }

    fn add(&mut self, mut at: usize, bytes: u64) {
        while at < self.sums.len() {
            self.sums[at] = self.sums[at].wrapping_add(bytes);
            at += at & at.wrapping_neg();
        }
    }

    fn up_to(&self, mut at: usize) -> u64 {
        let mut sum = 0_u64;
        while at > 0 {
            sum = sum.wrapping_add(self.sums[at]);
            at &= at - 1;
        }
        sum
    }
}
