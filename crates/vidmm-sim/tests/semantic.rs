//! The example driver of `vidmm::contract`, whose commands nobody executes, under a workload with content.

use vidmm::AdapterOptions;
use vidmm::PageSize;
use vidmm_runtime::{AllocationDesc, CommandStep, KernelCommand, Machine, Umd, UserCommands};
use vidmm_sim::{Content, Features, MachineDesc, MachineFactory, Report, RunDesc, Script, Unobserved};
use vidmm_soft::{CostModel, ModelGpuFaults, semantic_machine};
use vidmm_trace::{ByteSize, Generator, generate::TouchesParams};

/// The driver as the documentation shows it.
mod example {
    include!("../../vidmm/src/contract/example_driver.rs");

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

/// The factory of machines with the example driver, which has 64 MiB of local memory, and says so if it is asked to.
struct ExampleMachines {
    lacks: Features,
}

impl MachineFactory for ExampleMachines {
    fn lacks(&self) -> Features {
        self.lacks
    }

    fn machine(&self, _: &MachineDesc) -> Result<Machine, String> {
        let (cost, faults) = (CostModel::default(), ModelGpuFaults::default());
        semantic_machine(example::driver(), Box::new(ExampleUmd), cost, faults, None).map_err(|error| error.to_string())
    }
}

fn run(lacks: Features) -> Result<Report, vidmm_sim::RunError> {
    let touches = TouchesParams { buffers: 40, buffer_bytes: ByteSize::mib(4), touches: 200, kernel_ns: 10_000 };
    let workload = Generator::RandomTouches(touches).generate(1).expect("the parameters are right");
    let machine = MachineDesc { local_memory_bytes: 64 << 20, page_size: PageSize::Kib4, ..MachineDesc::default() };
    let desc = RunDesc {
        machine,
        content: Content::Uniform,
        clients: Vec::new(),
        script: Script::default(),
        options: AdapterOptions::default(),
    };
    vidmm_sim::run(&workload, &desc, &ExampleMachines { lacks }, &mut Unobserved)
}

#[test]
fn every_page_that_kernels_read_is_right() {
    let report = run(Features::OWN_COMMANDS).expect("the machine runs");
    assert!(report.all_held(), "{:?}", report.findings);
    assert_eq!((report.pages_wrong, report.kernels_ended), (0, report.kernels + report.uploads));
    assert!(report.pages_checked > 100_000 && report.figures.evictions > 50, "{report:?}");
}

#[test]
fn a_factory_has_to_say_that_the_drivers_effects_are_unchecked() {
    assert!(Features::OWN_COMMANDS.not_judged().concat().starts_with("driver effects unchecked"));
    let refused = run(Features::empty()).expect_err("the report would not tell");
    assert!(refused.to_string().contains("does not execute the driver's commands"), "{refused}");
}
