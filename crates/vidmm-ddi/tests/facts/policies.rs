//! Policies in C: the example decides as the same policy in Rust, and what breaks a rule is named.

use std::path::{Path, PathBuf};
use std::process::Command;

use vidmm::SegmentId;
use vidmm::policy::{Policy, PolicyChoice, PolicyKind, Subject};
use vidmm_ddi::load_policy;
use vidmm_replay::{PAGE, PlayOptions, Played, References, Trace, Use, play, play_watched, study_watched, suite};
use vidmm_sim::policies::{find, register, take_reports};
use vidmm_trace::Lifetime;

use crate::common::are_there;

/// Builds a policy with these macros, without a warning.
fn built(source: &str, macros: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stem = Path::new(source).file_stem().expect("a source has a name").to_string_lossy().into_owned();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}-{}.so", macros.join("-")));
    let flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"];
    let cc = Command::new("cc")
        .args(flags)
        .arg(root.join("include"))
        .args(macros.iter().map(|name| format!("-D{name}")))
        .arg(root.join(source))
        .arg("-o")
        .arg(&out)
        .output();
    let cc = cc.expect("a C compiler is there");
    assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
    out
}

/// First in, first out, as `examples/policies/fifo.c`.
#[derive(Debug, Default)]
struct Fifo {
    arrivals: u64,
    arrived_at: Vec<u64>,
}

impl Policy for Fifo {
    fn brought_in(&mut self, subject: Subject, _memory: SegmentId) {
        self.arrivals += 1;
        self.arrived_at.resize(self.arrived_at.len().max(subject.slot + 1), 0);
        self.arrived_at[subject.slot] = self.arrivals;
    }

    fn rank(&self, slot: usize) -> u64 {
        self.arrived_at[slot]
    }
}

static FIFO: PolicyKind = PolicyKind::new("fifo-in-rust", &|_| Box::new(Fifo::default()));

/// Submissions of two of a hundred objects, drawn so that small numbers come more often.
fn drawn(submissions: usize) -> References {
    let mut references = References::new("drawn", []);
    let mut state: u32 = 1;
    let mut draw = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    (0..100).for_each(|_| _ = references.add(PAGE * u64::from(1 + draw(16)), Lifetime::Whole));
    for _ in 0..submissions {
        let (one, other) = (draw(100) * draw(100) / 100, draw(100));
        references.submit([Use::read(one)].into_iter().chain((one != other).then_some(Use::write(other))));
    }
    references
}

/// The figures and the victims of the manager and of a study, which are the same.
fn played(trace: &Trace, share: u64, policy: PolicyChoice) -> (Played, Vec<u32>) {
    let mut victims = Vec::new();
    let options = PlayOptions::new(trace.measure().footprint * share / 100, policy);
    let played = play_watched(trace, &options, |object| victims.push(object)).expect("the trace fits");
    let mut of_study = Vec::new();
    let studied = study_watched(trace, &options, |object| of_study.push(object)).expect("the trace fits");
    assert_eq!((played, &victims), (studied, &of_study), "{policy}");
    (played, victims)
}

#[test]
fn the_example_in_c_chooses_the_victims_of_the_same_policy_in_rust() {
    if !are_there(&["cc"]) {
        return;
    }
    let in_c = load_policy(&built("examples/policies/fifo.c", &[])).expect("it is a policy");
    let in_c = register(&in_c).expect("a path is a name");
    let mut victims = 0;
    for (name, references) in [("cyclic", suite::cyclic(1)), ("drawn", drawn(2000))] {
        let trace = Trace::from(references);
        for share in [50, 75] {
            let (in_c, in_rust) = (played(&trace, share, in_c), played(&trace, share, PolicyChoice::of(&FIFO)));
            assert_eq!(in_c, in_rust, "{name} at {share} %");
            victims += in_c.1.len();
        }
    }
    assert!(victims > 1000, "{victims} victims");
}

#[test]
fn nonsense_of_a_policy_in_c_is_named_and_the_first_candidate_goes() {
    if !are_there(&["cc"]) {
        return;
    }
    let trace = Trace::from(drawn(200));
    let cases = [
        ("NO_CANDIDATE", "POL-01: policy POLICY, hook `victim`: slot 18446744073709551615 is no candidate"),
        ("LARGE_RANK", "POL-02: policy POLICY, hook `rank`: slot "),
        ("LARGE_RANK_OF_CANDIDATE", "POL-02: policy POLICY, hook `set_rank`: slot "),
        ("NO_POLICY", "POL-03: policy POLICY, hook `Create`: it returned NULL"),
        ("NULL_CANDIDATES", "POL-03: policy of a library, hook `Get`: the candidates are NULL"),
        ("KEEPS", "POL-04: policy POLICY, hook `FirstFrom`: candidates of a Victim that has returned"),
        ("NOTHING_THERE", "POL-06: policy POLICY, hook `prefetch`: slot 18446744073709551615 is no allocation"),
        ("NO_END", "POL-05: policy POLICY, hook `victim`: "),
    ];
    for (name, right) in cases {
        let path = built("tests/facts/nonsense.c", &[name]);
        let policy = register(&load_policy(&path).expect("it is a policy")).expect("a path is a name");
        // The ranks are slots, and a study has other slots than the manager.
        let figures = play(&trace, &PlayOptions::new(trace.measure().footprint / 2, policy)).expect("the trace fits");
        assert!(figures.evictions > 0, "{name}");
        let reports = Vec::from_iter(take_reports().iter().map(ToString::to_string));
        let right = right.replace("POLICY", &path.display().to_string());
        assert!(matches!(&reports[..], [report] if report.starts_with(&right)), "{name}: {reports:?}");
    }
}

#[test]
fn tables_that_are_no_policies_are_refused_with_the_reason() {
    if !are_there(&["cc"]) {
        return;
    }
    for (name, right) in [
        ("NO_TABLE", "VidmmGetPolicy returned NULL"),
        ("OTHER_VERSION", "the library has version 99 of vidmm/policy.h, and version 2 is known: build it anew"),
        ("NO_CREATE", "the table lacks Create"),
        ("NO_ORDER", "the table lacks both Rank and Victim, so it orders nothing"),
        ("MANY_PARAMETERS", "parameter 4294967295 of the table: there are four at most"),
        ("NO_PARAMETERS", "parameter 1 of the table: Parameters is NULL"),
        ("NO_KEY", "parameter 1 of the table: Key is NULL"),
        ("WRONG_KEY", "parameter 1 of the table: Key has other characters than letters, digits, `-` and `_`"),
        ("WRONG_DEFAULT", "parameter 1 of the table: Default is not between Least and Most"),
    ] {
        let error = load_policy(&built("tests/facts/nonsense.c", &[name])).expect_err(name);
        assert_eq!(error.to_string(), right, "{name}");
    }
    let missing = load_policy(Path::new("./no-such-policy.so")).expect_err("it is not there");
    assert!(missing.to_string().contains("-shared -fPIC"), "{missing}");
}

#[test]
fn parameters_of_a_policy_in_c_are_read_and_refused() {
    if !are_there(&["cc"]) {
        return;
    }
    let path = built("tests/facts/nonsense.c", &["WITH_PARAMETERS"]);
    register(&load_policy(&path).expect("it is a policy")).expect("a path is a name");
    let name = path.display();
    assert_eq!(find(&format!("{name}:key=1")).expect("it is the default").to_string(), name.to_string());
    assert_eq!(find(&format!("{name}:key=0")).expect("it is taken").to_string(), format!("{name}:key=0"));
    let wrong = find(&format!("{name}:key=2")).expect_err("it is too large").to_string();
    assert_eq!(wrong, format!("`key=2` is no parameter of {name}, which has key=0..1"));
}
