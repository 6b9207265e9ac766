//! A study chooses the victims that the manager chooses, one by one, under every policy.

use std::collections::BTreeSet;

use proptest::prelude::*;
use vidmm::SegmentId;
use vidmm::policy::{Candidates, Policy, PolicyChoice, PolicyKind, Recency, Subject};
use vidmm_replay::{
    Lists, PAGE, PlayError, PlayOptions, References, RequestOptions, Setup, Sizes, Trace, Use, is_exact, play,
    play_watched, study, study_sample, study_uses, study_watched, suite,
};
use vidmm_trace::Lifetime;

/// Plays a trace both ways, and compares victims and figures.
fn compare(trace: &Trace, options: &PlayOptions) -> Result<(), TestCaseError> {
    let (mut of_manager, mut of_study) = (Vec::new(), Vec::new());
    let played = play_watched(trace, options, |object| of_manager.push(object)).unwrap();
    let studied = study_watched(trace, options, |object| of_study.push(object)).unwrap();
    let at = of_manager.iter().zip(&of_study).position(|(one, other)| one != other);
    let near = |victims: &Vec<u32>| at.map(|at| victims[at..victims.len().min(at + 8)].to_vec());
    prop_assert_eq!(at, None, "{}: {:?} {:?} {:?}", trace.name(), options, near(&of_manager), near(&of_study));
    prop_assert_eq!(of_manager.len(), of_study.len(), "{}: {:?}", trace.name(), options);
    prop_assert_eq!(played, studied, "{}: {:?}", trace.name(), options);
    Ok(())
}

/// A policy of a caller's own.
static RECENCY: PolicyKind = PolicyKind::new("recency", &|_| Box::new(Recency::default()));

/// The least recently used goes, and the first victim comes back.
#[derive(Debug, Default)]
struct Returns(Recency, Vec<Subject>);

impl Policy for Returns {
    fn brought_in(&mut self, subject: Subject, _memory: SegmentId) {
        self.1.retain(|away| away.slot != subject.slot);
    }

    fn released(&mut self, subject: Subject, last_use: u64) {
        self.0.released(subject, last_use);
    }

    fn rank(&self, slot: usize) -> u64 {
        self.0.rank(slot)
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        self.0.victim(candidates)
    }

    fn prefetches(&self) -> bool {
        true
    }

    fn prefetch(&mut self, _memory: SegmentId, free: u64) -> Option<usize> {
        self.1.iter().find(|away| away.size <= free).map(|away| away.slot)
    }

    fn left(&mut self, subject: Subject, _memory: SegmentId) {
        self.1.push(subject);
    }

    fn gone(&mut self, subject: Subject) {
        self.1.retain(|away| away.slot != subject.slot);
        self.0.gone(subject);
    }
}

static RETURNS: PolicyKind = PolicyKind::new("returns", &|_| Box::new(Returns::default()));

#[test]
fn a_policy_that_prefetches_is_played_by_the_manager_alone() {
    let mut references = References::new("frees", []);
    let kept = Vec::from_iter((0..40).map(|_| references.add(PAGE, Lifetime::Whole)));
    for at in 0..2000 {
        let short = references.add(4 * PAGE, Lifetime::Temporary);
        references.submit([Use::read(kept[at % 40]), Use::write(short)]);
    }
    let trace = Trace::from(references);
    let options = |policy| PlayOptions::new(24 * PAGE, policy);
    let (lru, returns) = (options(PolicyChoice::LRU), options(PolicyChoice::of(&RETURNS)));
    let played = play(&trace, &returns).unwrap();
    assert_eq!(play(&trace, &lru).unwrap().bytes_prefetched, 0);
    assert!(played.bytes_prefetched > 100 * PAGE, "{played:?}");
    assert!(matches!(study(&trace, &returns), Err(PlayError::Prefetches)));
    assert!(matches!(study_sample(&trace, &returns, 1.0), Err(PlayError::Prefetches)));
}

fn policies() -> Vec<PolicyChoice> {
    let seeds = [1, 2].map(|seed| PolicyChoice::PREDICT.with_seed(seed));
    PolicyChoice::ALL.into_iter().chain(seeds).chain([PolicyChoice::of(&RECENCY)]).collect()
}

/// Objects of up to eight pages, lists of up to four, reads and writes, and objects that live for a while.
fn references() -> impl Strategy<Value = References> {
    let sizes = proptest::collection::vec((1..=8_u64, 0..6_u8), 16);
    let uses = proptest::collection::btree_map(0..16_u32, any::<bool>(), 1..=4);
    (sizes, proptest::collection::vec(uses, 1..120)).prop_map(|(sizes, lists)| {
        let mut references = References::new("random", []);
        for (pages, lifetime) in sizes {
            let lifetime = match lifetime {
                0 => Lifetime::Temporary,
                1 => Lifetime::Kept,
                _ => Lifetime::Whole,
            };
            references.add(pages * PAGE, lifetime);
        }
        for list in lists {
            let used =
                list.into_iter().map(|(object, writes)| if writes { Use::write(object) } else { Use::read(object) });
            references.submit(used);
        }
        references
    })
}

proptest! {
    /// Mattson's stack: under LRU a use hits if the bytes since the use before fit beside the object.
    #[test]
    fn uses_have_their_reuse_distances_hits_and_victims(uses in proptest::collection::vec(0..12_usize, 1..150), room in 1..12_u64) {
        let sizes = [PAGE; 12];
        let mut references = References::new("uses", sizes);
        uses.iter().for_each(|&object| references.submit([Use::read(object as u32)]));
        let (mut rows, options) = (Vec::new(), PlayOptions::new(room * PAGE, PolicyChoice::LRU));
        let trace = Trace::from(references);
        let played = study_uses::<PlayError>(&trace, &options, |row| {
            rows.push(*row);
            Ok(())
        });
        prop_assert_eq!(played.unwrap(), study(&trace, &options).unwrap());
        prop_assert_eq!(rows.len(), uses.len());
        let mut resident = 0;
        for (at, row) in rows.iter().enumerate() {
            let before = uses[..at].iter().rposition(|&other| other == uses[at]);
            let since = before.map(|before| BTreeSet::from_iter(&uses[before + 1..at]).len() as u64 * PAGE);
            let is_hit = since.is_some_and(|since| since + PAGE <= room * PAGE);
            let victims = u64::from(!is_hit && resident == room);
            resident += u64::from(!is_hit) - victims;
            prop_assert_eq!(row.submission, at as u64);
            prop_assert_eq!((row.object as usize, row.bytes, row.is_write), (uses[at], PAGE, false));
            prop_assert_eq!((row.reuse_bytes, row.is_hit), (since, is_hit));
            prop_assert_eq!((row.victims, row.candidates), (victims, (victims > 0).then_some(room)));
            // The rank is the number of the last submission, from 1.
            prop_assert_eq!(row.rank, Some(at as u64 + 1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn a_study_of_a_random_trace_chooses_the_victims_of_the_manager(references in references(), spare in 0..40_u64, in_flight in 1..=2_u64, kept in any::<bool>()) {
        let trace = Trace::from(references);
        let setup = Setup { in_flight, ..Setup::new(trace.measure().largest_list + spare * PAGE) };
        let lists = if kept { Lists::Kept } else { Lists::Anew };
        for policy in policies() {
            let options = PlayOptions { setup, policy, lists };
            if is_exact(&trace, &options) {
                compare(&trace, &options)?;
            }
        }
    }
}

/// Requests with reads, writes, deletions and changing sizes.
fn requests() -> impl Strategy<Value = String> {
    let request = (0..12_u32, 1..6_u32, 0..12_u8).prop_map(|(id, size, op)| {
        let op = match op {
            0 => "delete",
            1..=3 => "set",
            _ => "get",
        };
        format!("{id},{},{op}\n", size * 3000)
    });
    proptest::collection::vec(request, 1..150).prop_map(|requests| "id,size,op\n".to_owned() + &requests.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn a_study_of_deletions_chooses_the_victims_of_the_manager(text in requests(), batch in 1..3_u32, new in any::<bool>(), share in 1..9_u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, text).unwrap();
        let sizes = if new { Sizes::New } else { Sizes::First };
        let options = RequestOptions { batch, sizes, ..RequestOptions::default() };
        let Some(Ok(trace)) = Trace::requests(&path, &options) else { return Ok(()) };
        let measure = trace.measure();
        let setup = Setup::new(measure.largest_list + (measure.footprint - measure.largest_list.min(measure.footprint)) * share / 8);
        for policy in policies() {
            let options = PlayOptions { setup, policy, lists: Lists::Anew };
            if is_exact(&trace, &options) {
                compare(&trace, &options)?;
            }
        }
    }
}

/// The suite's workloads, all but the camera, which takes the longest.
#[test]
fn a_study_of_the_suite_chooses_the_victims_of_the_manager() {
    for references in [suite::cyclic(1), suite::experts(1)] {
        let trace = Trace::from(references);
        for lists in [Lists::Anew, Lists::Kept] {
            for policy in policies() {
                let setup = Setup::new(trace.measure().footprint * 3 / 4);
                compare(&trace, &PlayOptions { setup, policy, lists }).unwrap();
            }
        }
    }
}

/// Requests by popularity: a tenth of the objects says the share of the bytes that all objects bring in, within the stated error.
#[test]
fn a_sample_tells_the_share_of_the_bytes_and_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let mut state = 7_u64;
    let mut draw = |below: f64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64 * below
    };
    // The number of an object is a power of a uniform draw, so that low numbers are popular.
    let text: String = (0..150_000_u32)
        .map(|time| {
            let object = (draw(1.0).powi(2) * 8000.0) as u64;
            format!("{time},{object},{}\n", 4096 * (1 + object % 7))
        })
        .collect();
    std::fs::write(&path, text).unwrap();
    let read =
        |sample| Trace::requests(&path, &RequestOptions { sample, ..RequestOptions::default() }).unwrap().unwrap();
    let share = |trace: &Trace, of: f64| {
        let setup = Setup::new(trace.measure().footprint / 5);
        let options = PlayOptions { setup, policy: PolicyChoice::LRU, lists: Lists::Anew };
        let (played, error) = study_sample(trace, &options, of).unwrap();
        assert_eq!(played, study(trace, &options).unwrap());
        (played.bytes_in as f64 / played.bytes_used as f64, error)
    };
    let (all, sample) = (read(None), read(Some(100_000)));
    assert!((700..900).contains(&sample.measure().objects), "{:?}", sample.measure());
    let (whole, exact) = share(&all, 1.0);
    let (estimate, error) = share(&sample, 0.1);
    assert_eq!(exact, 0.0);
    assert!(error > 0.001 && (whole - estimate).abs() < 4.0 * error, "{whole} {estimate} {error}");
}
