//! A driver or a GPU of somebody else's that panics: a finding names what it was doing, and the run has a report.

use std::path::Path;

use vidmm::contract::{BuildPagingBuffer, BuildStatus, Kmd, PagingOperationKind};
use vidmm::{Nanoseconds, PhysicalAddress};
use vidmm_runtime::{Content as PageContent, Gpu, GpuEvent, HookedKmd, KmdHook, Machine};
use vidmm_sim::{
    Content, Features, Finding, MachineDesc, MachineFactory, RunDesc, RunError, ScenarioFile, Script, Unobserved, run,
    run_explicit,
};
use vidmm_trace::{ByteSize, Generator, generate::TouchesParams};

use crate::own_machine::OwnMachines;

/// Where the machine panics.
#[derive(Clone, Copy)]
enum Panics {
    AsItFills,
    AsItIsAsked,
    InTheGpu,
}

struct PanickingMachines(Panics);

impl MachineFactory for PanickingMachines {
    fn lacks(&self) -> Features {
        OwnMachines.lacks()
    }

    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        let machine = OwnMachines.machine(desc)?;
        Ok(match self.0 {
            Panics::AsItFills => Machine { kmd: Box::new(HookedKmd::new(machine.kmd, NoFill)), ..machine },
            Panics::AsItIsAsked => Machine { kmd: Box::new(HookedKmd::new(machine.kmd, NoAdapter)), ..machine },
            Panics::InTheGpu => Machine { gpu: Box::new(NoGpu(machine.gpu)), ..machine },
        })
    }
}

struct NoFill;

impl KmdHook for NoFill {
    fn build_paging_buffer(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        assert_ne!(build.operation.kind(), PagingOperationKind::VirtualFill, "fills are not written yet");
        driver.build_paging_buffer(build)
    }
}

struct NoAdapter;

impl KmdHook for NoAdapter {
    fn adapter_queried(&mut self, _: &vidmm::contract::AdapterInfo) {
        panic!("there is no adapter");
    }
}

/// A GPU that panics as it ends its second packet.
struct NoGpu(Box<dyn Gpu>);

impl Gpu for NoGpu {
    fn submit(&mut self, now: Nanoseconds, packet: vidmm::contract::Packet) {
        self.0.submit(now, packet);
    }

    fn next_event_at(&self) -> Option<Nanoseconds> {
        self.0.next_event_at()
    }

    fn advance(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        self.0.advance(now, events);
        let ended =
            events.iter().any(|event| matches!(event, GpuEvent::Completed { signal, .. } if signal.fence_id == 2));
        assert!(!ended, "no second packet ends");
    }

    fn executes_commands(&self) -> bool {
        self.0.executes_commands()
    }

    fn page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        self.0.page_digest(address)
    }

    fn write_page(&mut self, address: PhysicalAddress, content: PageContent, seed: u64) -> bool {
        self.0.write_page(address, content, seed)
    }

    fn lose_power(&mut self) {
        self.0.lose_power();
    }

    fn preempt(&mut self, now: Nanoseconds, engine: u32, preemption_fence_id: u64) {
        self.0.preempt(now, engine, preemption_fence_id);
    }

    fn reset_engine(&mut self, now: Nanoseconds, engine: u32) {
        self.0.reset_engine(now, engine);
    }

    fn reset_from_timeout(&mut self, now: Nanoseconds) {
        self.0.reset_from_timeout(now);
    }

    fn restart_from_timeout(&mut self, now: Nanoseconds) {
        self.0.restart_from_timeout(now);
    }
}

const STEPS: &str = r#"
name = "steps"

[[step]]
create-allocation = "A"
size = "64 KiB"

[[step]]
map = "A"

[[step]]
make-resident = "A"
expect = "pending"

[[step]]
kernel = "K"
writes = "A"

[[step]]
wait = "idle"
"#;

fn of_steps(panics: Panics) -> Result<Vec<String>, RunError> {
    let ScenarioFile::Explicit(scenario) = ScenarioFile::parse(STEPS, Path::new("x.toml")).expect("it is a scenario")
    else {
        panic!("it has steps")
    };
    let report = run_explicit(&scenario, &PanickingMachines(panics), &mut Unobserved)?;
    Ok(report.findings.iter().map(ToString::to_string).collect())
}

fn of_workload(panics: Panics) -> Vec<Finding> {
    let touches = TouchesParams { buffers: 40, buffer_bytes: ByteSize::mib(4), touches: 200, kernel_ns: 10_000 };
    let workload = Generator::RandomTouches(touches).generate(1).expect("the parameters are right");
    let desc = RunDesc {
        machine: MachineDesc { local_memory_bytes: 64 << 20, ..MachineDesc::default() },
        content: Content::Uniform,
        clients: Vec::new(),
        script: Script::default(),
        strict: false,
        options: vidmm::AdapterOptions::default(),
    };
    run(&workload, &desc, &PanickingMachines(panics), &mut Unobserved).expect("it starts").findings
}

#[test]
fn a_panic_of_the_driver_names_the_step_and_the_operation() {
    let found = of_steps(Panics::AsItFills).expect("it starts");
    assert_eq!(found.len(), 1, "{found:?}");
    let parts = [
        "line 11, make-resident A",
        "PANIC: the driver encoded VIRTUAL_FILL of allocation 0x",
        "fills are not written yet",
    ];
    assert!(parts.iter().all(|part| found[0].contains(part)), "{}", found[0]);
}

#[test]
fn a_panic_of_the_gpu_names_its_packets_and_their_operations() {
    let found = of_steps(Panics::InTheGpu).expect("it starts");
    assert_eq!(found.len(), 1, "{found:?}");
    let parts = ["PANIC: the GPU was called with packet 2 of engine 0 (", "no second packet ends"];
    assert!(parts.iter().all(|part| found[0].contains(part)), "{}", found[0]);
}

#[test]
fn a_workload_ends_with_the_panic_as_its_finding() {
    for (panics, part) in [
        (Panics::AsItFills, "a panic while the driver encoded VIRTUAL_FILL of allocation 0x"),
        (Panics::InTheGpu, "a panic while the GPU was called with packet 2 of engine 0 ("),
    ] {
        let findings = of_workload(panics);
        assert!(matches!(findings[..], [Finding::Panic { .. }]), "{findings:?}");
        assert!(findings[0].to_string().starts_with(part), "{}", findings[0]);
    }
}

#[test]
fn a_panic_as_the_adapter_starts_ends_the_run_by_name() {
    let error = of_steps(Panics::AsItIsAsked).expect_err("it does not start").to_string();
    assert!(error.starts_with("the driver panicked while the adapter started: "), "{error}");
    assert!(error.contains("there is no adapter"), "{error}");
}
