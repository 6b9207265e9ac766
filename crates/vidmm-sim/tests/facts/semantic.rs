//! The example driver of `vidmm::contract`, whose commands nobody executes, under a workload with content.

use vidmm::contract::Kmd;
use vidmm::{AdapterOptions, PageSize};
use vidmm_runtime::{AllocationDesc, CommandStep, KernelCommand, Machine, Umd, UserCommands};
use vidmm_sim::{Content, Features, MachineDesc, MachineFactory, Report, RunDesc, Script, Unobserved};
use vidmm_soft::{CostModel, ModelGpuFaults, SegmentKind, SoftAdapterConfig, SoftKmd, SoftUmd, semantic_machine};
use vidmm_trace::{ByteSize, Generator, generate::TouchesParams};

/// The driver as the documentation shows it.
mod example {
    include!("../../../vidmm/src/contract/example_driver.rs");

    pub fn driver() -> Box<dyn Kmd> {
        Box::new(ExampleDriver::default())
    }
}

/// The user-mode half of the example driver: its private data is the size.
struct ExampleUmd;

impl Umd for ExampleUmd {
    fn encode_kernel(&self, _: &KernelCommand) -> Vec<u8> {
        panic!("kernels are the model GPU's")
    }

    fn encode_command_buffer(&self, _: &[CommandStep]) -> UserCommands {
        panic!("kernels are the model GPU's")
    }

    fn allocation_private_data(&self, desc: &AllocationDesc) -> Vec<u8> {
        desc.size.to_le_bytes().to_vec()
    }
}

/// The factory of machines with the example driver, which has 64 MiB of local memory.
struct ExampleMachines {
    lacks: Features,
}

impl MachineFactory for ExampleMachines {
    fn lacks(&self) -> Features {
        self.lacks
    }

    fn machine(&self, _: &MachineDesc) -> Result<Machine, String> {
        machine(example::driver(), Box::new(ExampleUmd))
    }
}

/// The factory of machines whose aperture comes before its 64 MiB of local memory, where the page tables are.
struct ApertureFirst;

impl MachineFactory for ApertureFirst {
    fn lacks(&self) -> Features {
        Features::OWN_COMMANDS
    }

    fn machine(&self, _: &MachineDesc) -> Result<Machine, String> {
        let config = SoftAdapterConfig {
            local_memory_bytes: 64 << 20,
            segment_order: vec![SegmentKind::Aperture, SegmentKind::Memory],
            ..SoftAdapterConfig::with_4kib_pages()
        };
        machine(Box::new(SoftKmd::new(config)), Box::new(SoftUmd))
    }
}

fn machine(kmd: Box<dyn Kmd>, umd: Box<dyn Umd>) -> Result<Machine, String> {
    let machine = semantic_machine(kmd, umd, CostModel::default(), ModelGpuFaults::default(), None);
    machine.map_err(|error| error.to_string())
}

fn run(factory: &dyn MachineFactory) -> Result<Report, vidmm_sim::RunError> {
    let touches = TouchesParams { buffers: 40, buffer_bytes: ByteSize::mib(4), touches: 200, kernel_ns: 10_000 };
    let workload = Generator::RandomTouches(touches).generate(1).expect("the parameters are right");
    let machine = MachineDesc { local_memory_bytes: 64 << 20, page_size: PageSize::Kib4, ..MachineDesc::default() };
    let desc = RunDesc {
        machine,
        content: Content::Uniform,
        clients: Vec::new(),
        script: Script::default(),
        strict: false,
        options: AdapterOptions::default(),
    };
    vidmm_sim::run(&workload, &desc, factory, &mut Unobserved)
}

#[test]
fn every_page_that_kernels_read_is_right() {
    for factory in [&ExampleMachines { lacks: Features::OWN_COMMANDS } as &dyn MachineFactory, &ApertureFirst] {
        let report = run(factory).expect("the machine runs");
        assert!(report.all_held(), "{:?}", report.findings);
        assert_eq!((report.pages_wrong, report.kernels_ended), (0, report.kernels + report.uploads));
        assert!(report.pages_checked > 100_000 && report.figures.evictions > 50, "{report:?}");
    }
}

#[test]
fn a_factory_has_to_say_that_the_drivers_effects_are_unchecked() {
    assert!(Features::OWN_COMMANDS.not_judged().concat().starts_with("driver effects unchecked"));
    let refused = run(&ExampleMachines { lacks: Features::empty() }).expect_err("the report would not tell");
    assert!(refused.to_string().contains("does not execute the driver's commands"), "{refused}");
}
