//! The core, the reference driver and the model GPU without GPU virtual addresses: DMA buffers whose references do not fit
//! together are split, and compute what they would in a memory of any size.

use crate::common::PAGE;
use crate::common::patching::bound_kernel;
use vidmm::contract::*;
use vidmm::*;
use vidmm_runtime::{
    AllocationDesc, AllocationSegments, CommandStep, DriverFault, Happening, Hits, Machine, Placement, Runtime,
    UserCommands,
};
use vidmm_soft::*;

/// Pages of each allocation: four fit into local memory.
const PAGES: u64 = 64;
const ALLOCATIONS: u32 = 12;

fn config() -> SoftAdapterConfig {
    SoftAdapterConfig {
        local_memory_bytes: 4 * PAGES * PAGE,
        aperture_bytes: 8 * PAGES * PAGE,
        max_command_bytes: 10 * PAGE,
        paging_buffer_bytes: 4096,
        ..SoftAdapterConfig::with_patching()
    }
}

struct World {
    runtime: Runtime,
    contexts: Vec<ContextId>,
    /// The allocations of each context's device.
    allocations: Vec<Vec<AllocationId>>,
    io_mmu: IoMmu,
}

/// The outcome of what was rendered.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    right_pages: u64,
    wrong_pages: u64,
    page_faults: u64,
    devices_in_error: u64,
}

const RIGHT: Outcome =
    Outcome { right_pages: ALLOCATIONS as u64 * PAGES, wrong_pages: 0, page_faults: 0, devices_in_error: 0 };

impl World {
    /// `clients` devices with a context and allocations as `desc` has them, one half of which is bound through each slot.
    fn new(config: &SoftAdapterConfig, knobs: PreparationKnobs, desc: AllocationDesc, clients: usize) -> Self {
        Self::with_faults(config, knobs, desc, clients, None, ModelGpuFaults::default())
    }

    fn with_faults(
        config: &SoftAdapterConfig,
        preparation: PreparationKnobs,
        desc: AllocationDesc,
        clients: usize,
        fault: Option<DriverFault>,
        gpu_faults: ModelGpuFaults,
    ) -> Self {
        let machine = machine(config, CostModel::default(), gpu_faults, None);
        let io_mmu = machine.host.io_mmu().clone();
        let mut machine = Machine::from(machine);
        if let Some(fault) = fault {
            machine = machine.with_fault(fault, Hits::Always);
        }
        let options = AdapterOptions { events: true, preparation, ..AdapterOptions::default() };
        let mut runtime = Runtime::start(options, machine).unwrap();
        let data = runtime.umd().allocation_private_data(&desc);
        let (vidmm, kmd, host) = runtime.borrow();
        let (mut contexts, mut allocations) = (Vec::new(), Vec::new());
        for _ in 0..clients {
            let process = vidmm.create_process(kmd, host).unwrap();
            let device = vidmm.create_device(process).unwrap();
            contexts.push(vidmm.create_context(kmd, device, RENDER_ENGINE).unwrap());
            let create = |_| vidmm.create_allocation(kmd, host, device, &data).unwrap();
            allocations.push((0..ALLOCATIONS).map(create).collect());
        }
        Self { runtime, contexts, allocations, io_mmu }
    }

    fn render(&mut self, client: usize, steps: &[CommandStep]) -> Result<std::ops::RangeInclusive<u64>, RenderError> {
        let UserCommands { commands: command, patch_locations } = self.runtime.umd().encode_command_buffer(steps);
        let listed =
            |&allocation: &AllocationId| AllocationListDesc { allocation: Some(allocation), write_operation: true };
        let null = AllocationListDesc { allocation: None, write_operation: false };
        let allocations = std::iter::once(null).chain(self.allocations[client].iter().map(listed)).collect();
        let desc = RenderDesc { command, allocations, patch_locations, ..RenderDesc::default() };
        let (vidmm, kmd, _) = self.runtime.borrow();
        vidmm.render(kmd, self.contexts[client], desc)
    }

    /// Writes all allocations in one DMA buffer, and reads them in another; for all clients.
    fn write_and_read(&mut self) -> Outcome {
        for client in 0..self.contexts.len() {
            let kernels = (0..ALLOCATIONS)
                .map(|index| (index, bound_kernel(number(client, index), &[], &[(index % 2, 0, PAGES)])));
            self.render(client, &in_portions(kernels)).unwrap();
        }
        for client in 0..self.contexts.len() {
            let kernels = (0..ALLOCATIONS)
                .map(|index| (index, bound_kernel(number(client, index), &[(index % 2, 0, PAGES)], &[])));
            self.render(client, &in_portions(kernels)).unwrap();
        }
        self.run()
    }

    fn run(&mut self) -> Outcome {
        while self.runtime.advance(None) {}
        let mut outcome = Outcome::default();
        while let Some(happening) = self.runtime.next_happening() {
            match happening {
                Happening::KernelRead { kernel, inputs } => {
                    for (page, digest) in (0..).zip(inputs.into_iter().flatten()) {
                        let is_right = digest == uniform_digest(KernelState::new(kernel).seed(0, page));
                        *(if is_right { &mut outcome.right_pages } else { &mut outcome.wrong_pages }) += 1;
                    }
                }
                Happening::PageFault { .. } => outcome.page_faults += 1,
                Happening::Output(Output::DeviceInError(_)) => outcome.devices_in_error += 1,
                _ => {}
            }
        }
        self.runtime.vidmm().check().unwrap();
        outcome
    }

    /// The byte ranges that each DMA buffer ran in.
    fn portions(&mut self) -> Vec<(u64, u32, u32)> {
        let portion = |event: NumberedEvent| match event.event {
            Event::Portion { dma_buffer, start_offset, end_offset, .. } => Some((dma_buffer, start_offset, end_offset)),
            _ => None,
        };
        self.runtime.drain_events().filter_map(portion).collect()
    }
}

fn number(client: usize, index: u32) -> u64 {
    1000 * client as u64 + u64::from(index)
}

/// A portion for each kernel: its allocation is bound, and what was in the other slot stays.
fn in_portions(kernels: impl Iterator<Item = (u32, vidmm_runtime::BoundKernel)>) -> Vec<CommandStep> {
    let steps = |(index, kernel)| {
        let bind = CommandStep::Bind { slot_id: index % 2, allocation_index: index + 1 };
        [CommandStep::SplitPoint, bind, CommandStep::Kernel(kernel)]
    };
    kernels.flat_map(steps).collect()
}

fn in_local_memory() -> AllocationDesc {
    AllocationDesc::local(PAGES * PAGE)
}

#[test]
fn a_dma_buffer_that_does_not_fit_is_split_and_computes_what_it_should() {
    let mut world = World::new(&config(), PreparationKnobs::default(), in_local_memory(), 1);
    assert_eq!(world.write_and_read(), RIGHT);
    let portions = world.portions();
    for dma_buffer in [1, 2] {
        let of_it: Vec<_> = portions.iter().filter(|(number, ..)| *number == dma_buffer).collect();
        assert!(of_it.len() > 2, "{portions:?}");
        assert!(of_it.windows(2).all(|pair| pair[0].2 == pair[1].1), "they follow each other: {portions:?}");
    }
    assert_eq!(world.io_mmu.misuses(), []);
}

#[test]
fn every_way_of_preparation_computes_the_same() {
    let knobs = |take_split_point, never_prepatch, always_repatch| PreparationKnobs {
        take_split_point,
        never_prepatch,
        always_repatch,
        ..PreparationKnobs::default()
    };
    for knobs in [knobs(true, false, false), knobs(false, true, false), knobs(true, true, true)] {
        for preemption_aware in [false, true] {
            let config = SoftAdapterConfig { preemption_aware, ..config() };
            let mut world = World::new(&config, knobs, in_local_memory(), 1);
            assert_eq!(world.write_and_read(), RIGHT, "{knobs:?}, preemption aware: {preemption_aware}");
        }
    }
}

#[test]
fn allocations_leave_by_every_way_and_stay_whole() {
    let evicted = Placement { evict_through_aperture: true, ..Placement::default() };
    let aligned = Placement { alignment: 32 * PAGE as u32, from_end_of_segment: true, ..Placement::default() };
    let local = in_local_memory();
    for desc in [
        AllocationDesc { placement: evicted, ..local },
        AllocationDesc { placement: aligned, ..local },
        AllocationDesc { segments: AllocationSegments::LocalOrSystem, ..local },
        AllocationDesc { segments: AllocationSegments::System, ..local },
        AllocationDesc { accessed_physically: true, explicit_residency_notification: true, ..local },
    ] {
        let config = SoftAdapterConfig { busy_every: Some(3), ..config() };
        let mut world = World::new(&config, PreparationKnobs::default(), desc, 1);
        assert_eq!(world.write_and_read(), RIGHT, "{desc:?}");
    }
}

#[test]
fn contexts_that_are_split_beside_each_other_do_not_disturb_each_other() {
    for preemption_aware in [false, true] {
        let config = SoftAdapterConfig { preemption_aware, ..config() };
        let mut world = World::new(&config, PreparationKnobs::default(), in_local_memory(), 3);
        let right = Outcome { right_pages: 3 * RIGHT.right_pages, ..RIGHT };
        assert_eq!(world.write_and_read(), right, "preemption aware: {preemption_aware}");
    }
}

/// Packet number `nth` of the engine of kernels never ends.
fn hang(nth: u64) -> ModelGpuFaults {
    let packet = PacketHits { engine: RENDER_ENGINE, occasions: Hits::Nth(nth).into() };
    ModelGpuFaults { hang_packets: vec![packet], ..ModelGpuFaults::default() }
}

#[test]
fn a_portion_that_hangs_costs_its_own_device_only() {
    for nth in [1, 2, 5, 9] {
        let knobs = PreparationKnobs::default();
        let mut world = World::with_faults(&config(), knobs, in_local_memory(), 3, None, hang(nth));
        let outcome = world.write_and_read();
        assert_eq!((outcome.wrong_pages, outcome.page_faults, outcome.devices_in_error), (0, 0, 1), "packet {nth}");
        assert!(outcome.right_pages >= 2 * RIGHT.right_pages, "packet {nth}: {outcome:?}");
    }
}

#[test]
fn after_a_reset_of_the_adapter_no_kernel_reads_what_was_lost() {
    // The reset of the engine is a lie: only that of the adapter helps, and local memory is lost with it.
    let faults = ModelGpuFaults { lie_about_engine_reset: Some(Hits::Nth(1).into()), ..hang(5) };
    let knobs = PreparationKnobs::default();
    let mut world = World::with_faults(&config(), knobs, in_local_memory(), 2, None, faults);
    let outcome = world.write_and_read();
    assert_eq!((outcome.wrong_pages, outcome.page_faults, outcome.devices_in_error), (0, 0, 2), "{outcome:?}");
}

/// A machine whose driver makes a mistake at every occasion.
fn with_mistake(fault: DriverFault) -> World {
    let (config, knobs) = (config(), PreparationKnobs::default());
    World::with_faults(&config, knobs, in_local_memory(), 1, Some(fault), ModelGpuFaults::default())
}

#[test]
fn a_transfer_that_is_dropped_is_found() {
    let mut world = with_mistake(DriverFault::DropPageOut);
    let outcome = world.write_and_read();
    assert!(outcome.wrong_pages > 0, "{outcome:?}");
}

#[test]
fn a_patch_that_is_skipped_is_found() {
    let mut world = with_mistake(DriverFault::SkipPatch);
    let outcome = world.write_and_read();
    assert!(outcome.page_faults > 0 && outcome.devices_in_error > 0, "it was never patched: {outcome:?}");
}

#[test]
fn a_driver_that_forgets_state_behind_a_split_point_is_stopped() {
    let mut world = World::new(&config(), PreparationKnobs::default(), in_local_memory(), 1);
    let steps = in_portions((0..ALLOCATIONS).map(|index| (index, bound_kernel(7, &[], &[(index % 2, 0, PAGES)]))));
    let UserCommands { commands, patch_locations } = world.runtime.umd().encode_command_buffer(&steps);
    let stripped = without_later_state(&UserCommands { commands, patch_locations });
    let listed =
        world.allocations[0].iter().map(|&id| AllocationListDesc { allocation: Some(id), write_operation: true });
    let null = AllocationListDesc { allocation: None, write_operation: false };
    let desc = RenderDesc {
        command: stripped.commands,
        allocations: std::iter::once(null).chain(listed).collect(),
        patch_locations: stripped.patch_locations,
        ..RenderDesc::default()
    };
    let (vidmm, kmd, _) = world.runtime.borrow();
    vidmm.render(kmd, world.contexts[0], desc).unwrap();
    let outcome = world.run();
    assert_eq!((outcome.page_faults, outcome.devices_in_error), (0, 1));
}

/// `user` without the state that it programs behind all split points but the first.
fn without_later_state(user: &UserCommands) -> UserCommands {
    const STATE_BYTES: u32 = 16;
    let mut decoder = encoding::Decoder::new(&user.commands);
    let (mut commands, mut dropped, mut begin) = (Vec::new(), Vec::new(), 0);
    while let Some(command) = decoder.next() {
        match command.unwrap() {
            encoding::Command::SetState(number) if number > 0 => dropped.push(begin as u32),
            _ => commands.extend(&user.commands[begin..decoder.offset()]),
        }
        begin = decoder.offset();
    }
    let moved = |offset: u32| offset - STATE_BYTES * dropped.iter().filter(|&&at| at < offset).count() as u32;
    let moved = |location: &PatchLocation| PatchLocation {
        patch_offset: moved(location.patch_offset),
        split_offset: moved(location.split_offset),
        ..*location
    };
    UserCommands { commands, patch_locations: user.patch_locations.iter().map(moved).collect() }
}
