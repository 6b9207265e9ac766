//! The scenarios that drivers are tried with: some of their own, and those of the repository that a driver in C can be asked for.

use vidmm_sim::{ExplicitScenario, Features, JudgedBy, ScenarioFile};
use vidmm_trace::ByteSize;

/// Their names and texts.
const CATALOGUE: &[(&str, &str)] = &[
    ("drivers/engine-reset", include_str!("scenarios/engine-reset.toml")),
    ("drivers/adapter-reset", include_str!("scenarios/adapter-reset.toml")),
    ("drivers/split", include_str!("scenarios/split.toml")),
    ("drivers/aperture", include_str!("scenarios/aperture.toml")),
    ("drivers/reset-while-patched", include_str!("scenarios/reset-while-patched.toml")),
    ("drivers/restart-and-patch", include_str!("scenarios/restart-and-patch.toml")),
    ("drivers/patched-again", include_str!("scenarios/patched-again.toml")),
    (
        "found/promoted-beside-what-queued-work-requires",
        include_str!("scenarios/found-promoted-beside-what-queued-work-requires.toml"),
    ),
    (
        "found/waits-for-its-own-work-to-take-another-home",
        include_str!("scenarios/found-waits-for-its-own-work-to-take-another-home.toml"),
    ),
    ("residency/clean-without-work", include_str!("scenarios/residency-clean-without-work.toml")),
    ("residency/destroy", include_str!("scenarios/residency-destroy.toml")),
    ("residency/destroyed-before-its-grant", include_str!("scenarios/residency-destroyed-before-its-grant.toml")),
    ("residency/evicted-before-its-grant", include_str!("scenarios/residency-evicted-before-its-grant.toml")),
    ("residency/groups-mapped-together", include_str!("scenarios/residency-groups-mapped-together.toml")),
    ("residency/home-changed-while-asked-for", include_str!("scenarios/residency-home-changed-while-asked-for.toml")),
    ("residency/lock", include_str!("scenarios/residency-lock.toml")),
    ("residency/p04-pending-fence", include_str!("scenarios/residency-p04-pending-fence.toml")),
    ("residency/p05-fence-zero", include_str!("scenarios/residency-p05-fence-zero.toml")),
    ("residency/p09-evict-while-in-use", include_str!("scenarios/residency-p09-evict-while-in-use.toml")),
    ("residency/p10-suspend-and-resume", include_str!("scenarios/residency-p10-suspend-and-resume.toml")),
    ("residency/p15-shared", include_str!("scenarios/residency-p15-shared.toml")),
    ("residency/p17-fill-first", include_str!("scenarios/residency-p17-fill-first.toml")),
    ("residency/p55-offer-and-reclaim", include_str!("scenarios/residency-p55-offer-and-reclaim.toml")),
    ("residency/periodic-trim", include_str!("scenarios/residency-periodic-trim.toml")),
    ("residency/permanent-sys-mem", include_str!("scenarios/residency-permanent-sys-mem.toml")),
    ("segments/home-moves", include_str!("scenarios/segments-home-moves.toml")),
    // The number of a scenario is its seed: a new scenario comes last.
    ("drivers/high-addresses", include_str!("scenarios/high-addresses.toml")),
];

/// The number of scenarios.
pub const COUNT: usize = CATALOGUE.len();

/// The number of the scenario with a name.
pub fn find(name: &str) -> Option<usize> {
    CATALOGUE.iter().position(|&(other, _)| other == name)
}

/// The name of a scenario.
pub fn name(number: usize) -> &'static str {
    CATALOGUE[number].0
}

/// A scenario. Its steps expect the answers of an adapter with one memory segment and one aperture, as the file describes; with more
/// segments an allocation has further homes, so the rules alone judge the run.
///
/// # Errors
///
/// If it is a workload, or `machine` lacks what it needs: that, by name.
pub fn load(number: usize, machine: &Needed) -> Result<ExplicitScenario, String> {
    let (name, text) = CATALOGUE[number];
    match ScenarioFile::parse(text, name.as_ref()).expect("the catalogue's scenarios are read by the tests") {
        ScenarioFile::Explicit(mut scenario) => {
            let lacks = scenario.needs() & machine.lacks;
            let of_memory = |what, bytes: u64| format!("{} of {what}", ByteSize(bytes));
            if !lacks.is_empty() {
                return Err(lacks.to_string());
            }
            if scenario.local_memory_bytes > machine.local_memory {
                return Err(of_memory("local memory", scenario.local_memory_bytes));
            }
            if scenario.aperture_bytes > machine.aperture {
                return Err(of_memory("aperture", scenario.aperture_bytes));
            }
            // A machine may ignore this; the answers that such a scenario expects do not.
            if scenario.adapter.local_memory_cpu_visible && !machine.is_cpu_visible {
                return Err("local memory that the CPU sees".to_owned());
            }
            if machine.has_more_segments || !machine.splits {
                scenario.judged_by = JudgedBy::Rules;
            }
            Ok(*scenario)
        }
        ScenarioFile::Workload(_) => Err("programs that are generated".to_owned()),
    }
}

/// The properties of a machine that scenarios need.
pub struct Needed {
    pub lacks: Features,
    /// Bytes.
    pub local_memory: u64,
    /// Bytes.
    pub aperture: u64,
    /// Whether the CPU sees local memory.
    pub is_cpu_visible: bool,
    /// Whether there is a second memory segment or a second aperture.
    pub has_more_segments: bool,
    /// Whether DMA buffers may be split.
    pub splits: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_catalogue_can_be_read() {
        let everything = Needed {
            lacks: Features::empty(),
            local_memory: u64::MAX,
            aperture: u64::MAX,
            is_cpu_visible: true,
            has_more_segments: false,
            splits: true,
        };
        for number in 0..COUNT {
            _ = load(number, &everything);
            assert_eq!(find(name(number)), Some(number));
        }
    }
}
