//! The whole machine under the manager: what goes wrong harms the guilty, and the adapter works again.

use vidmm::contract::AddressingModel;
use vidmm::{
    AdapterOptions, ContextId, DeviceId, FenceValueDesc, GpuVirtualAddress, MakeResidentFlags, MapGpuVirtualAddress,
    MonitoredFenceId, Output, SubmitDesc, Violation,
};
use vidmm_runtime::{
    AllocationDesc, AllocationSegments, Content, GpuFault, Happening, Hits, InterruptFault, KernelCommand, Machine,
    Occasions, PageRange, Runtime,
};
use vidmm_soft::*;

/// Two programs do not fit into local memory at one time.
const LOCAL_MEMORY: u64 = 4 << 20;
const PAGES: u64 = 512;
const ROUNDS: u64 = 8;

/// A program that writes its pages with each kernel, and reads with it what the last one wrote.
struct Program {
    device: DeviceId,
    context: ContextId,
    fence: MonitoredFenceId,
    pages: PageRange,
    submitted: u64,
    reached: u64,
    is_in_error: bool,
    /// The digests of its pages, by the kernels that were seen to read.
    content: Vec<u64>,
}

struct World {
    runtime: Runtime,
    has_local_memory: bool,
    programs: Vec<Program>,
    stopped: Option<Violation>,
    /// Devices in error that are no program's.
    others_in_error: u64,
}

/// Adapters that differ in where memory is and how it is found.
fn adapters() -> Vec<SoftAdapterConfig> {
    vec![
        SoftAdapterConfig { local_memory_bytes: LOCAL_MEMORY, ..Default::default() },
        SoftAdapterConfig { local_memory_bytes: LOCAL_MEMORY, ..SoftAdapterConfig::with_4kib_pages() },
        SoftAdapterConfig { aperture_bytes: LOCAL_MEMORY, ..SoftAdapterConfig::without_local_memory() },
        SoftAdapterConfig {
            aperture_bytes: LOCAL_MEMORY,
            ..SoftAdapterConfig::with_io_mmu(AddressingModel::GpuVaIoMmu)
        },
    ]
}

fn with_local_memory() -> SoftAdapterConfig {
    adapters().swap_remove(0)
}

impl World {
    fn new(config: &SoftAdapterConfig, faults: ModelGpuFaults, misbehave: impl FnOnce(Machine) -> Machine) -> Self {
        let machine = misbehave(machine(config, CostModel::default(), faults, None).into());
        let runtime = Runtime::start(AdapterOptions { events: true, ..AdapterOptions::default() }, machine).unwrap();
        let has_local_memory = config.local_memory_bytes > 0;
        Self { runtime, has_local_memory, programs: vec![], stopped: None, others_in_error: 0 }
    }

    /// A program on `engine`.
    fn add_program(&mut self, engine: u32) {
        let segments = if self.has_local_memory { AllocationSegments::Local } else { AllocationSegments::System };
        let desc = AllocationDesc { segments, ..AllocationDesc::local(PAGES << 12) };
        let data = self.runtime.umd().allocation_private_data(&desc);
        let (vidmm, kmd, host) = self.runtime.borrow();
        let process = vidmm.create_process(kmd, host).unwrap();
        let device = vidmm.create_device(process).unwrap();
        let queue = vidmm.create_paging_queue(device, 0).unwrap();
        let context = vidmm.create_context(kmd, device, engine).unwrap();
        let allocation = vidmm.create_allocation(kmd, host, device, &data).unwrap();
        let mapped = vidmm.map_gpu_virtual_address(host, queue, &MapGpuVirtualAddress::whole(allocation)).unwrap();
        let _ = vidmm.make_resident(queue, &[allocation], MakeResidentFlags::CANT_TRIM_FURTHER).unwrap();
        let fence = vidmm.create_monitored_fence(0).unwrap();
        let pages = PageRange::plain(mapped.virtual_address, PAGES);
        self.programs.push(Program {
            device,
            context,
            fence,
            pages,
            submitted: 0,
            reached: 0,
            is_in_error: false,
            content: vec![0; PAGES as usize],
        });
        // Residency is awaited as programs do that wait on the CPU.
        self.run();
    }

    /// `program` submits a kernel if it may.
    fn submit(&mut self, program: usize) {
        let Program { context, fence, pages, submitted, .. } = self.programs[program];
        let kernel = KernelCommand {
            kernel: (program as u64) << 32 | (submitted + 1),
            nanoseconds: 30_000_000,
            content: Content::Uniform,
            inputs: vec![pages],
            outputs: vec![pages],
        };
        let dma_buffer = self.runtime.umd().encode_kernel(&kernel);
        let signals = vec![FenceValueDesc { fence, value: submitted + 1 }];
        // It waits for what the program before it has submitted.
        let before = program.checked_sub(1).map(|before| &self.programs[before]);
        let waits = before.map(|before| FenceValueDesc { fence: before.fence, value: before.submitted });
        let desc = SubmitDesc { dma_buffer, signals, waits: waits.into_iter().collect(), ..SubmitDesc::default() };
        if self.runtime.vidmm().submit(context, desc).is_ok() {
            self.programs[program].submitted += 1;
        }
    }

    /// Runs until nothing is to come.
    fn run(&mut self) {
        let mut steps = 0;
        while self.runtime.advance(None) {
            steps += 1;
            assert!(steps < 10_000, "it does not come to an end");
            self.take_note();
        }
        self.take_note();
        self.runtime.vidmm().check().unwrap();
    }

    fn take_note(&mut self) {
        while let Some(happening) = self.runtime.next_happening() {
            match happening {
                Happening::Output(Output::DeviceInError(error)) => {
                    match self.programs.iter_mut().find(|program| program.device == error.device) {
                        Some(told) => assert!(!std::mem::replace(&mut told.is_in_error, true), "a device is told once"),
                        None => self.others_in_error += 1,
                    }
                }
                Happening::Output(Output::MonitoredFenceSignaled { fence, value }) => {
                    let program = self.programs.iter_mut().find(|program| program.fence == fence).unwrap();
                    if value != u64::MAX {
                        program.reached = value;
                    }
                }
                Happening::KernelRead { kernel, inputs } if !inputs.is_empty() => self.judge(kernel, &inputs[0]),
                Happening::Output(Output::AdapterInError(violation)) => self.stopped = Some(violation),
                _ => {}
            }
        }
    }

    /// A kernel reads what the one before it wrote.
    fn judge(&mut self, kernel: u64, read: &[u64]) {
        let program = &mut self.programs[(kernel >> 32) as usize];
        assert!(read == program.content, "kernel {kernel:#x} has read wrong bytes");
        let mut state = KernelState::new(kernel);
        read.iter().for_each(|&digest| state.absorb(digest));
        program.content = (0..PAGES).map(|page| uniform_digest(state.seed(0, page))).collect();
    }

    /// Programs on these engines work at the same time; then a further one comes.
    fn play(mut self, engines: &[u32]) -> Self {
        for &engine in engines {
            if self.stopped.is_none() {
                self.add_program(engine);
            }
        }
        for _ in 0..ROUNDS {
            (0..self.programs.len()).for_each(|program| self.submit(program));
        }
        self.run();
        if self.stopped.is_none() {
            self.add_program(RENDER_ENGINE);
            self.submit(engines.len());
            self.run();
        }
        self
    }

    /// Which programs are in error, and which have done all that they had to.
    fn outcome(&self) -> Vec<(bool, bool)> {
        let done = |program: &Program| program.submitted > 0 && program.reached == program.submitted;
        self.programs.iter().map(|program| (program.is_in_error, done(program))).collect()
    }
}

const WELL: (bool, bool) = (false, true);
const IN_ERROR: (bool, bool) = (true, false);
const BOTH_ON_ONE: [u32; 2] = [RENDER_ENGINE; 2];

/// The faults that hang or fault packet number `nth` of `engine`.
fn hit(engine: u32, nth: u64, hangs: bool) -> ModelGpuFaults {
    let hits = vec![PacketHits { engine, occasions: Hits::Nth(nth).into() }];
    match hangs {
        true => ModelGpuFaults { hang_packets: hits, ..Default::default() },
        false => ModelGpuFaults { forge_page_faults: hits, ..Default::default() },
    }
}

#[test]
fn without_a_fault_all_is_done() {
    for config in adapters() {
        let world = World::new(&config, ModelGpuFaults::default(), |machine| machine).play(&BOTH_ON_ONE);
        assert_eq!(world.outcome(), [WELL; 3], "{config:?}");
    }
}

#[test]
fn a_packet_that_faults_or_hangs_harms_its_device_only() {
    for config in adapters() {
        for (nth, hangs) in (1..=2 * ROUNDS).flat_map(|nth| [(nth, false), (nth, true)]) {
            let world = World::new(&config, hit(RENDER_ENGINE, nth, hangs), |machine| machine).play(&BOTH_ON_ONE);
            let mut outcome = world.outcome();
            outcome.sort();
            assert_eq!(outcome, [WELL, WELL, IN_ERROR], "packet {nth} hangs: {hangs}");
        }
    }
}

#[test]
fn an_engine_that_depends_on_one_that_is_reset_loses_nothing() {
    let config = SoftAdapterConfig { dependent_engines: vec![vec![RENDER_ENGINE, COPY_ENGINE]], ..with_local_memory() };
    for (nth, hangs) in (1..=ROUNDS).flat_map(|nth| [(nth, false), (nth, true)]) {
        let world = World::new(&config, hit(RENDER_ENGINE, nth, hangs), |machine| machine);
        let outcome = world.play(&[RENDER_ENGINE, COPY_ENGINE]).outcome();
        assert_eq!(outcome, [IN_ERROR, WELL, WELL], "packet {nth} hangs: {hangs}");
    }
}

#[test]
fn a_paging_buffer_that_faults_or_hangs_resets_the_adapter_and_new_programs_work() {
    for config in adapters() {
        for hangs in [false, true] {
            let mut resets = 0;
            for nth in 1.. {
                let faults = hit(PAGING_ENGINE, nth, hangs);
                let mut world = World::new(&config, faults, |machine| machine).play(&BOTH_ON_ONE);
                assert_eq!(world.stopped, None, "paging buffer {nth} hangs: {hangs}");
                if world.runtime.statistics().adapter_resets == 0 {
                    break;
                }
                resets += 1;
                let outcome = world.outcome();
                assert!(outcome.iter().all(|&program| program == WELL || program.0), "{nth}, {hangs}: {outcome:?}");
                world.add_program(RENDER_ENGINE);
                world.submit(3);
                world.run();
                assert_eq!(world.outcome()[3], WELL, "paging buffer {nth} hangs: {hangs}");
            }
            // Behind the IOMMU these programs need none.
            assert!(resets > 0 || config.uses_io_mmu());
        }
    }
}

#[test]
fn a_reset_that_fails_or_lies_is_followed_by_one_of_the_adapter() {
    let hang = |lie: Option<Hits>| ModelGpuFaults {
        lie_about_engine_reset: lie.map(Occasions::from),
        ..hit(RENDER_ENGINE, 3, true)
    };
    for (lie, fault) in [(Some(Hits::Nth(1)), GpuFault::IgnorePreempt), (None, GpuFault::FailEngineReset)] {
        let world = World::new(&with_local_memory(), hang(lie), |machine| machine.with_gpu_fault(fault, Hits::Always));
        let world = world.play(&BOTH_ON_ONE);
        assert_eq!(world.stopped, None);
        assert_eq!(world.outcome(), [IN_ERROR, IN_ERROR, WELL], "{fault:?}");
    }
    for (lie, fault) in [(Some(Hits::Nth(1)), GpuFault::FailRestart), (None, GpuFault::IgnoreEngineReset)] {
        let world = World::new(&with_local_memory(), hang(lie), |machine| machine.with_gpu_fault(fault, Hits::Always));
        assert!(world.play(&BOTH_ON_ONE).stopped.is_some(), "{fault:?}: there is nothing more to be tried");
    }
}

#[test]
fn a_wrong_completion_at_any_step_harms_nobody() {
    for fault in [
        GpuFault::LoseInterrupt,
        GpuFault::DelayInterrupt,
        GpuFault::RepeatInterrupt,
        GpuFault::ForgeInterrupt,
        GpuFault::SwapInterrupts,
        GpuFault::ForgeStatus,
    ] {
        for hits in (1..=40).map(Hits::Nth).chain([Hits::Always]) {
            let misbehave = |machine: Machine| machine.with_gpu_fault(fault, hits);
            let world = World::new(&with_local_memory(), ModelGpuFaults::default(), misbehave).play(&BOTH_ON_ONE);
            assert_eq!(world.stopped, None, "{fault:?} {hits:?}");
            assert_eq!(world.outcome(), [WELL; 3], "{fault:?} {hits:?}");
        }
    }
}

#[test]
fn a_page_fault_that_is_misreported_is_laid_to_the_packet_that_does_not_end() {
    for fault in InterruptFault::ALL {
        let misbehave = |machine: Machine| machine.with_interrupt_fault(fault, Hits::Always);
        let world = World::new(&with_local_memory(), hit(RENDER_ENGINE, 3, false), misbehave).play(&BOTH_ON_ONE);
        let expected = match fault {
            InterruptFault::ReportFatalError => {
                assert_eq!(world.stopped, Some(Violation::FatalHardwareError));
                continue;
            }
            InterruptFault::RequireAdapterReset => [IN_ERROR, IN_ERROR, WELL],
            _ => [IN_ERROR, WELL, WELL],
        };
        assert_eq!(world.outcome(), expected, "{fault:?}");
    }
}

#[test]
fn a_process_that_faults_again_and_again_harms_nobody_else() {
    let mut world = World::new(&with_local_memory(), ModelGpuFaults::default(), |machine| machine);
    world.add_program(RENDER_ENGINE);
    let (vidmm, kmd, host) = world.runtime.borrow();
    let guilty = vidmm.create_process(kmd, host).unwrap();
    let stray = KernelCommand {
        kernel: 0,
        nanoseconds: 1_000,
        content: Content::Uniform,
        inputs: vec![],
        outputs: vec![PageRange::plain(GpuVirtualAddress(1 << 40), 1)],
    };
    for round in 1..=1_000 {
        let dma_buffer = world.runtime.umd().encode_kernel(&stray);
        let (vidmm, kmd, _) = world.runtime.borrow();
        let device = vidmm.create_device(guilty).unwrap();
        let context = vidmm.create_context(kmd, device, RENDER_ENGINE).unwrap();
        vidmm.submit(context, SubmitDesc { dma_buffer, ..SubmitDesc::default() }).unwrap();
        world.submit(0);
        world.run();
        assert_eq!(world.others_in_error, round);
        assert_eq!(world.outcome(), [WELL]);
        let (vidmm, kmd, host) = world.runtime.borrow();
        vidmm.destroy_device(kmd, host, device).unwrap();
    }
    assert_eq!(world.runtime.statistics().engine_resets, 1_000);
    assert_eq!(world.runtime.statistics().adapter_resets, 0);
}

#[test]
fn two_things_that_go_wrong_in_one_run_leave_nobody_waiting() {
    let groups = vec![vec![RENDER_ENGINE, COPY_ENGINE]];
    let config = SoftAdapterConfig { dependent_engines: groups, busy_every: Some(2), ..with_local_memory() };
    for fault in GpuFault::ALL {
        for (engine, nth, hangs) in (1..=4).flat_map(|nth| [(RENDER_ENGINE, nth, true), (PAGING_ENGINE, nth, false)]) {
            for occasion in [1, 2, 5, 11] {
                let misbehave = |machine: Machine| machine.with_gpu_fault(fault, Hits::Nth(occasion));
                let world = World::new(&config, hit(engine, nth, hangs), misbehave);
                let world = world.play(&[RENDER_ENGINE, COPY_ENGINE, RENDER_ENGINE]);
                let context = format!("{fault:?} {occasion}, packet {nth} of engine {engine}");
                let stops =
                    matches!(fault, GpuFault::FailRestart | GpuFault::IgnoreEngineReset | GpuFault::AbortEndedPacket);
                assert!(world.stopped.is_none() || stops, "{context}: {:?}", world.stopped);
                let outcome = world.outcome();
                let are_settled = outcome.iter().all(|&program| program == WELL || program.0);
                assert!(are_settled || world.stopped.is_some(), "{context}: {outcome:?}");
            }
        }
    }
}

#[test]
fn one_reset_of_the_adapter_too_many_within_a_minute_stops_it() {
    let always = vec![PacketHits { engine: PAGING_ENGINE, occasions: Hits::Always.into() }];
    let faults = ModelGpuFaults { forge_page_faults: always, ..Default::default() };
    let mut world = World::new(&with_local_memory(), faults, |machine| machine);
    for _ in 0..10 {
        if world.stopped.is_none() {
            world.add_program(RENDER_ENGINE);
        }
    }
    assert!(matches!(world.stopped, Some(Violation::TooManyResets { .. })), "{:?}", world.stopped);
    assert_eq!(world.runtime.statistics().adapter_resets, 5);
}
