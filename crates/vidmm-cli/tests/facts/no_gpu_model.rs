//! Drivers without a model of their GPU: operations are carried out as documented, and the driver's protocol is judged.

use std::path::Path;

use vidmm_runtime::Machine;
use vidmm_sim::{
    Campaign, Features, MachineDesc, MachineFactory, Profile, ScenarioFile, Tally, Unobserved, run_explicit,
};
use vidmm_soft::{CostModel, ModelGpuFaults, semantic_machine};

#[allow(dead_code)]
#[path = "../../examples/no_gpu_model.rs"]
mod example;

#[allow(dead_code)]
#[path = "../../examples/own_machine.rs"]
mod own_machine;

use example::NoGpuModel;
use own_machine::OwnMachines;

/// A driver with an encoding of its own, of whose GPU only the driver is used.
struct OwnDriver;

impl MachineFactory for OwnDriver {
    fn lacks(&self) -> Features {
        OwnMachines.lacks() | Features::OWN_COMMANDS | Features::PROBE
    }

    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        let Machine { kmd, umd, .. } = OwnMachines.machine(desc)?;
        let machine = semantic_machine(kmd, umd, CostModel::default(), ModelGpuFaults::default(), None);
        machine.map_err(|error| error.to_string())
    }
}

fn campaign(factory: &dyn MachineFactory) -> Tally {
    let campaign = Campaign {
        seeds: 1..=100,
        steps: 300,
        profile: Profile::Any,
        policy: None,
        digest: false,
        jobs: 2,
        max_failures: 1,
    };
    campaign.run(factory, &|_, _| {})
}

#[test]
fn worlds_hold_whatever_the_driver_encodes() {
    for factory in [&NoGpuModel as &dyn MachineFactory, &OwnDriver] {
        let tally = campaign(factory);
        let failures: Vec<_> = tally.failures.values().map(ToString::to_string).collect();
        assert!(failures.is_empty() && tally.not_started.is_empty(), "{failures:?} {:?}", tally.not_started);
        assert!(tally.has_judged() && tally.kernels > 100 && tally.pages > 1_000, "{tally:?}");
        assert!(factory.lacks().not_judged().iter().any(|subject| subject.starts_with("driver effects unchecked")));
    }
}

#[test]
fn mistakes_of_protocol_are_still_named() {
    let steps = "[[step]]\ncreate-allocation = \"A\"\nsize = \"1 MiB\"\n[[step]]\nmake-resident = \"A\"\n\
        [[step]]\nwait = \"idle\"\n";
    let mistakes = [
        ("answer-not-supported", "BPB-01"),
        ("overrun-dma-buffer", "BPB-02"),
        ("stand-still", "U-10"),
        ("stay-busy", "BPB-06"),
        ("skip-fill", "BPB-42"),
    ];
    for (mistake, fact) in mistakes {
        let text = format!("faults = [\"{mistake}\"]\n{steps}");
        let Ok(ScenarioFile::Explicit(scenario)) = ScenarioFile::parse(&text, Path::new("x.toml")) else {
            panic!("{mistake}: it is a scenario")
        };
        let report = run_explicit(&scenario, &NoGpuModel, &mut Unobserved).expect("the machine starts");
        let findings: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.iter().any(|finding| finding.contains(fact)), "{mistake}: {findings:?}");
    }
}
