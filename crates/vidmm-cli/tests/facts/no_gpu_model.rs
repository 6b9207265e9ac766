//! Drivers without a model of their GPU: operations are carried out as documented, and the driver's protocol is judged.

use std::sync::atomic::AtomicBool;

use vidmm::AdapterOptions;
use vidmm_runtime::Machine;
use vidmm_sim::{
    Bench, Benched, Campaign, Content, Fault, Features, MachineDesc, MachineFactory, Profile, RunDesc, Script, Tally,
    Unobserved,
};
use vidmm_soft::{CostModel, ModelGpuFaults, semantic_machine};
use vidmm_trace::{ByteSize, Generator, generate::TouchesParams};

#[allow(dead_code)]
#[path = "../../examples/no_gpu_model.rs"]
mod example;

use crate::own_machine::OwnMachines;
use example::NoGpuModel;

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
        coverage: false,
        jobs: 2,
        max_failures: 1,
    };
    campaign.run(factory, &AtomicBool::new(false), &|_, _| {})
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
    let touches = TouchesParams { buffers: 20, buffer_bytes: ByteSize::mib(1), touches: 50, kernel_ns: 10_000 };
    let workload = Generator::RandomTouches(touches).generate(1).expect("the parameters are right");
    let bench = Bench { verify: true, ..Bench::default() };
    let findings = |mistake: &str| {
        let fault: Fault = mistake.parse().expect("it is a mistake");
        let machine = MachineDesc { local_memory_bytes: 8 << 20, faults: vec![fault], ..MachineDesc::default() };
        let desc = RunDesc {
            machine,
            content: Content::Uniform,
            clients: Vec::new(),
            script: Script::default(),
            strict: false,
            options: AdapterOptions::default(),
        };
        let factory = Benched { factory: &NoGpuModel, bench };
        let report = vidmm_sim::run(&workload, &desc, &factory, &mut Unobserved).expect("the machine starts");
        report.findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let mistakes = [
        ("answer-not-supported", "BPB-01"),
        ("overrun-dma-buffer", "BPB-02"),
        ("stand-still", "U-10"),
        ("stay-busy", "BPB-06"),
        ("skip-fill", "BPB-42"),
    ];
    for (mistake, fact) in mistakes {
        let found = findings(mistake);
        assert!(found.contains(fact), "{mistake}: {found}");
    }
}
