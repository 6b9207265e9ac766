//! A machine that is not ours: worlds are drawn of what it has, and what needs more is skipped by name.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use vidmm_runtime::Machine;
use vidmm_sim::{
    Campaign, Features, MachineDesc, MachineFactory, Profile, RunError, ScenarioFile, Tally, Unobserved, run_explicit,
};

#[allow(dead_code)]
#[path = "../../examples/own_machine.rs"]
mod example;

pub use example::OwnMachines;

fn campaign(factory: &dyn MachineFactory, seeds: u64, profile: Profile) -> Tally {
    let campaign = Campaign {
        seeds: 1..=seeds,
        steps: 300,
        profile,
        policy: None,
        digest: false,
        coverage: false,
        jobs: 2,
        max_failures: 1,
    };
    campaign.run(factory, &AtomicBool::new(false), &|_, _| {})
}

fn explicit(text: &str) -> Result<Vec<String>, RunError> {
    let ScenarioFile::Explicit(scenario) = ScenarioFile::parse(text, Path::new("x.toml")).expect("it is a scenario")
    else {
        panic!("it has steps")
    };
    let report = run_explicit(&scenario, &OwnMachines, &mut Unobserved)?;
    Ok(report.findings.iter().map(ToString::to_string).collect())
}

#[test]
fn worlds_are_drawn_of_what_the_machine_has() {
    let tally = campaign(&OwnMachines, 60, Profile::Any);
    assert!(tally.failures.is_empty(), "{:?}", tally.failures.values().map(ToString::to_string).collect::<Vec<_>>());
    assert!(tally.not_started.is_empty(), "{:?}", tally.not_started);
    assert_eq!((tally.seeds, tally.not_drawn), (60, 0));
    assert!(tally.has_judged() && tally.kernels > 100, "{tally:?}");
}

#[test]
fn without_an_addressing_model_nothing_is_judged() {
    struct Nothing;
    impl MachineFactory for Nothing {
        fn lacks(&self) -> Features {
            Features::all()
        }

        fn machine(&self, _: &MachineDesc) -> Result<Machine, String> {
            panic!("no world is drawn")
        }
    }
    for profile in [Profile::Any, Profile::Speed] {
        let tally = campaign(&Nothing, 3, profile);
        assert_eq!((tally.not_drawn, tally.has_judged()), (3, false));
    }
}

#[test]
fn steps_that_need_what_the_machine_lacks_are_skipped_by_its_name() {
    let allocation = "[[step]]\ncreate-allocation = \"A\"\nsize = \"1 MiB\"\n";
    for (text, name) in [
        (format!("[adapter]\naddressing-model = \"physical\"\n{allocation}"), "physical addresses"),
        (format!("{allocation}compression = true\n"), "compression"),
        (format!("{allocation}notify = [\"eviction\"]\n"), "notifications"),
        (format!("faults = [\"flip-bit-in-transfer\"]\n{allocation}"), "faults inside of GPU and host"),
        (format!("[adapter]\nbusy-every = 2\n{allocation}"), "busy answers on request"),
    ] {
        let skipped = explicit(&text).expect_err("it cannot run").to_string();
        assert_eq!(skipped, format!("skipped: needs {name}, which the machine lacks"), "{text}");
    }
}

#[test]
fn steps_run_on_the_machine() {
    let text = "[adapter]\nlocal-memory = \"4 MiB\"\n\
        [[step]]\ncreate-allocation = \"A\"\nsize = \"640 KiB\"\n[[step]]\nmap = \"A\"\n\
        [[step]]\ncreate-allocation = \"B\"\nsize = \"64 KiB\"\n[[step]]\nmap = \"B\"\n\
        [[step]]\nmake-resident = [\"A\", \"B\"]\n[[step]]\nkernel = \"K\"\nwrites = \"A\"\n\
        [[step]]\nkernel = \"L\"\nreads = \"A\"\nwrites = \"B\"\n[[step]]\nwait = \"idle\"\n";
    assert_eq!(explicit(text).expect("it runs"), [""; 0]);
}

/// Faults of the driver are wrapped around any machine, and found.
#[test]
fn faults_are_made_around_the_machine() {
    let text = "faults = [\"short-fill\"]\n[[step]]\ncreate-allocation = \"A\"\nsize = \"64 KiB\"\n[[step]]\nmap = \"A\"\n\
        [[step]]\nmake-resident = \"A\"\n[[step]]\nkernel = \"K\"\nwrites = \"A\"\n[[step]]\nevict = \"A\"\n\
        [[step]]\nwait = \"idle\"\n[[step]]\ncreate-allocation = \"B\"\nsize = \"64 KiB\"\n[[step]]\nmap = \"B\"\n\
        [[step]]\nmake-resident = \"B\"\n[[step]]\nkernel = \"L\"\nreads = \"B\"\n";
    assert_eq!(explicit(&text.replace("faults = [\"short-fill\"]\n", "")).expect("it runs"), [""; 0]);
    let found = explicit(text).expect("it runs");
    assert!(found.first().is_some_and(|found| found.contains("kernel L read")), "{found:?}");
}
