//! Random DMA buffers of clients without GPU virtual addresses, in a memory that holds a part of what they use: every
//! kernel reads what a model of plain memory says.

use std::collections::BTreeMap;

use crate::common::PAGE;
use proptest::prelude::*;
use vidmm::contract::*;
use vidmm::*;
use vidmm_runtime::{
    AllocationDesc, AllocationSegments, BoundKernel, BoundRange, CommandStep, Content, Happening, Placement, Runtime,
    Surface, UserCommands,
};
use vidmm_soft::*;

/// Pages of local memory. Two slots of at most 16 pages each can be bound at once, wherever one of them stays.
const LOCAL_PAGES: u64 = 64;
const PAGES_MAX: u64 = 16;
const ALLOCATIONS: usize = 7;

/// An allocation: how many pages, and what else it is like.
#[derive(Clone, Copy, Debug)]
struct Shape {
    pages: u64,
    segments: AllocationSegments,
    has_surface: bool,
    placement: Placement,
}

/// A client's use of an allocation in a kernel.
#[derive(Clone, Copy, Debug)]
struct Touch {
    allocation: usize,
    first: u64,
    pages: u64,
    is_output: bool,
}

/// A step of a client. Kernels use slot 0 for the first allocation that they touch and slot 1 for the second.
#[derive(Clone, Debug)]
enum Step {
    /// A split point, and then a kernel that binds what it touches.
    Kernel { touches: Vec<Touch>, split: bool, content: Content, nanoseconds: u64 },
    /// A split point at which a slot is emptied.
    Unbind(u32),
    /// The DMA buffer ends, and another begins.
    Render,
}

#[derive(Clone, Debug)]
struct Client {
    engine: u32,
    shapes: Vec<Shape>,
    steps: Vec<Step>,
}

fn shape() -> impl Strategy<Value = Shape> {
    use AllocationSegments::{Local, LocalOrSystem, System};
    let segments = prop_oneof![4 => Just(Local), 2 => Just(LocalOrSystem), 1 => Just(System)];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (1..=PAGES_MAX, segments, flags).prop_map(|(pages, segments, (has_surface, from_end, by_direction, evict))| {
        let mut placement =
            Placement { from_end_of_segment: from_end, evict_through_aperture: evict, ..Placement::default() };
        placement.directions[0] = if by_direction { Direction::FromEnd } else { Direction::FromStart };
        Shape { pages, segments, has_surface, placement }
    })
}

fn touch() -> impl Strategy<Value = Touch> {
    (0..ALLOCATIONS, 0..PAGES_MAX, 1..=PAGES_MAX, any::<bool>())
        .prop_map(|(allocation, first, pages, is_output)| Touch { allocation, first, pages, is_output })
}

fn step() -> impl Strategy<Value = Step> {
    let kernel = (prop::collection::vec(touch(), 1..3), any::<bool>(), any::<bool>(), 0u64..20_000);
    prop_oneof![
        8 => kernel.prop_map(|(touches, split, ramp, nanoseconds)| {
            let content = if ramp { Content::Ramp } else { Content::Uniform };
            Step::Kernel { touches, split, content, nanoseconds }
        }),
        1 => (0u32..2).prop_map(Step::Unbind),
        2 => Just(Step::Render),
    ]
}

fn client() -> impl Strategy<Value = Client> {
    (1u32..3, prop::collection::vec(shape(), ALLOCATIONS), prop::collection::vec(step(), 1..30))
        .prop_map(|(engine, shapes, steps)| Client { engine, shapes, steps })
}

fn knobs() -> impl Strategy<Value = (PreparationKnobs, SoftAdapterConfig)> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(1u32..4), 1u64..5).prop_map(
        |(take_split_point, never_prepatch, always_repatch, preemption_aware, busy_every, command_pages)| {
            let knobs =
                PreparationKnobs { take_split_point, never_prepatch, always_repatch, ..PreparationKnobs::default() };
            let config = SoftAdapterConfig {
                local_memory_bytes: LOCAL_PAGES * PAGE,
                aperture_bytes: 1 << 20,
                paging_buffer_bytes: 4096,
                max_command_bytes: command_pages * PAGE,
                preemption_aware,
                busy_every,
                bank_range_table: vec![20 * PAGE],
                ..SoftAdapterConfig::with_patching()
            };
            (knobs, config)
        },
    )
}

/// The model's memory: the digest of each page, by client and allocation.
struct Model {
    pages: BTreeMap<(usize, usize), Vec<u64>>,
    /// The inputs that each kernel has to read.
    reads: BTreeMap<u64, Vec<Vec<u64>>>,
}

impl Model {
    fn run(&mut self, client: usize, number: u64, kernel: &BoundKernel, touched: &[(usize, BoundRange, bool)]) {
        let mut state = KernelState::new(number);
        let mut reads = Vec::new();
        for (allocation, range, _) in touched.iter().filter(|(.., is_output)| !is_output) {
            let pages = &self.pages[&(client, *allocation)];
            let read = pages[range.first_page as usize..][..range.num_pages as usize].to_vec();
            read.iter().for_each(|&digest| state.absorb(digest));
            reads.push(read);
        }
        let outputs = touched.iter().filter(|(.., is_output)| *is_output);
        for (output, (allocation, range, _)) in (0..).zip(outputs) {
            let pages = self.pages.get_mut(&(client, *allocation)).unwrap();
            for page in 0..range.num_pages {
                let seed = state.seed(output, page);
                pages[(range.first_page + page) as usize] = match kernel.content {
                    Content::Uniform => uniform_digest(seed),
                    Content::Ramp => words_digest(&ramp_words(seed)),
                };
            }
        }
        self.reads.insert(number, reads);
    }
}

struct World {
    runtime: Runtime,
    contexts: Vec<ContextId>,
    allocations: Vec<Vec<AllocationId>>,
    model: Model,
    num_kernels: u64,
}

impl World {
    fn new(config: &SoftAdapterConfig, preparation: PreparationKnobs, clients: &[Client]) -> Self {
        let machine = machine(config, CostModel::default(), ModelGpuFaults::default(), None);
        let options = AdapterOptions { preparation, ..AdapterOptions::default() };
        let runtime = Runtime::start(options, machine.into()).unwrap();
        let model = Model { pages: BTreeMap::new(), reads: BTreeMap::new() };
        let (contexts, allocations) = (Vec::new(), Vec::new());
        let mut world = Self { runtime, contexts, allocations, model, num_kernels: 0 };
        for (number, client) in clients.iter().enumerate() {
            world.add(number, client);
        }
        world
    }

    fn add(&mut self, number: usize, client: &Client) {
        let data = |(index, shape): (usize, &Shape)| {
            let &Shape { pages, segments, has_surface, placement } = shape;
            let surface = has_surface.then_some(surface(number, index));
            let desc = AllocationDesc { segments, surface, placement, ..AllocationDesc::local(pages * PAGE) };
            self.runtime.umd().allocation_private_data(&desc)
        };
        let data: Vec<_> = client.shapes.iter().enumerate().map(data).collect();
        let (vidmm, kmd, host) = self.runtime.borrow();
        let process = vidmm.create_process(kmd, host).unwrap();
        let device = vidmm.create_device(process).unwrap();
        self.contexts.push(vidmm.create_context(kmd, device, client.engine).unwrap());
        let create = |data: &Vec<u8>| vidmm.create_allocation(kmd, host, device, data).unwrap();
        self.allocations.push(data.iter().map(create).collect());
        for (index, shape) in client.shapes.iter().enumerate() {
            self.model.pages.insert((number, index), vec![0; shape.pages as usize]);
        }
    }

    /// Renders the DMA buffers of all clients in turn, and lets `pause` pass after each turn.
    fn play(&mut self, clients: &[Client], pause: Nanoseconds) {
        let dma_buffers = |client: &Client| client.steps.split(|step| matches!(step, Step::Render)).count();
        for turn in 0..clients.iter().map(dma_buffers).max().unwrap_or(0) {
            for (number, client) in clients.iter().enumerate() {
                if let Some(steps) = client.steps.split(|step| matches!(step, Step::Render)).nth(turn) {
                    self.play_dma_buffer(number, client, steps);
                }
            }
            let until = self.runtime.now() + pause;
            while self.runtime.now() < until && self.runtime.advance(Some(until)) {}
        }
    }

    fn play_dma_buffer(&mut self, number: usize, client: &Client, played: &[Step]) {
        let mut steps = Vec::new();
        for step in played {
            match step {
                Step::Render => unreachable!("a DMA buffer ends there"),
                &Step::Unbind(slot_id) => steps.extend([CommandStep::SplitPoint, CommandStep::Unbind { slot_id }]),
                Step::Kernel { touches, split, content, nanoseconds } => {
                    self.kernel(number, client, touches, *content, *nanoseconds, *split, &mut steps);
                }
            }
        }
        self.render(number, &steps);
    }

    #[allow(clippy::too_many_arguments)]
    fn kernel(
        &mut self,
        number: usize,
        client: &Client,
        touches: &[Touch],
        content: Content,
        nanoseconds: u64,
        split: bool,
        steps: &mut Vec<CommandStep>,
    ) {
        let bound: Vec<_> = steps.iter().rev().map_while(bound_here).flatten().collect();
        let touched: Vec<_> = (0..).zip(touches).map(|(slot, touch)| touched(number, client, slot, touch)).collect();
        let is_held = |(slot, touch): (u32, &Touch)| {
            bound.iter().all(|&(held, index)| held != slot || index == touch.allocation as u32 + 1)
        };
        if split || !(0..).zip(touches).all(is_held) {
            steps.push(CommandStep::SplitPoint);
        }
        self.num_kernels += 1;
        let ranges = |outputs| {
            let chosen = touched.iter().filter(move |(.., is_output)| *is_output == outputs);
            chosen.map(|&(_, range, _)| range).collect()
        };
        let (inputs, outputs) = (ranges(false), ranges(true));
        let kernel = BoundKernel { kernel: self.num_kernels, nanoseconds, content, inputs, outputs };
        for (slot_id, touch) in (0..).zip(touches) {
            steps.push(CommandStep::Bind { slot_id, allocation_index: touch.allocation as u32 + 1 });
        }
        self.model.run(number, self.num_kernels, &kernel, &touched);
        steps.push(CommandStep::Kernel(kernel));
    }

    fn render(&mut self, client: usize, steps: &[CommandStep]) {
        let UserCommands { commands: command, patch_locations } = self.runtime.umd().encode_command_buffer(steps);
        let null = AllocationListDesc { allocation: None, write_operation: false };
        let listed = |&id: &AllocationId| AllocationListDesc { allocation: Some(id), write_operation: true };
        let allocations = std::iter::once(null).chain(self.allocations[client].iter().map(listed)).collect();
        let desc = RenderDesc { command, allocations, patch_locations, ..RenderDesc::default() };
        let (vidmm, kmd, _) = self.runtime.borrow();
        vidmm.render(kmd, self.contexts[client], desc).unwrap();
    }

    /// Runs until nothing is left to do; every kernel has run then, and has read what it should.
    fn run(&mut self) -> Result<(), TestCaseError> {
        while self.runtime.advance(None) {}
        while let Some(happening) = self.runtime.next_happening() {
            match happening {
                Happening::KernelRead { kernel, inputs } => {
                    prop_assert_eq!(Some(inputs), self.model.reads.remove(&kernel), "kernel {}", kernel);
                }
                Happening::PageFault { .. }
                | Happening::Output(Output::DeviceInError(_) | Output::AdapterInError(_)) => {
                    prop_assert!(false, "{:?}", happening);
                }
                _ => {}
            }
        }
        prop_assert_eq!(self.model.reads.len(), 0, "some kernels did not run");
        prop_assert!(self.runtime.vidmm().is_idle());
        prop_assert_eq!(self.runtime.vidmm().check(), Ok(()));
        Ok(())
    }
}

/// The allocation that a step binds, if it is behind the last split point.
fn bound_here(step: &CommandStep) -> Option<Option<(u32, u32)>> {
    match step {
        CommandStep::SplitPoint => None,
        &CommandStep::Bind { slot_id, allocation_index } => Some(Some((slot_id, allocation_index))),
        &CommandStep::Unbind { slot_id } => Some(Some((slot_id, 0))),
        CommandStep::Kernel(_) => Some(None),
    }
}

fn touched(client: usize, owner: &Client, slot_id: u32, touch: &Touch) -> (usize, BoundRange, bool) {
    let shape = &owner.shapes[touch.allocation];
    let first_page = touch.first.min(shape.pages - 1);
    let num_pages = touch.pages.min(shape.pages - first_page);
    let surface = shape.has_surface.then_some(Surface { number: surface(client, touch.allocation), first_page });
    (touch.allocation, BoundRange { slot_id, first_page, num_pages, surface }, touch.is_output)
}

fn surface(client: usize, allocation: usize) -> u32 {
    (client * ALLOCATIONS + allocation) as u32
}

proptest! {
    #[test]
    fn kernels_read_what_they_would_in_plain_memory(
        (knobs, config) in knobs(),
        clients in prop::collection::vec(client(), 1..4),
        pause in 0u64..100_000,
    ) {
        let mut world = World::new(&config, knobs, &clients);
        world.play(&clients, pause);
        world.run()?;
    }
}
