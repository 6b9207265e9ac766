//! Command buffers with any allocation list and any patch-location list: each is refused for a rule, or runs; and the work of
//! another device, which shares the memory, is never harmed (I12, I18, P38).

use vidmm::contract::PatchLocation;
use vidmm::{
    AllocationId, AllocationListDesc, CreateError, DestroyFlags, Event, PreparationKnobs, RenderDesc, RenderError,
};

use super::{Target, none};
use crate::choices::Choices;
use crate::patching::{COMMAND_BYTES, COPY, Client, Config, RENDER, World, Writer, info};
use crate::rig::names;

pub const TARGET: Target = Target { name: "patch_lists", run, seeds: none, words: &[], max_len: 192 };

/// The commands of a hostile buffer, in bytes.
const COMMANDS: u32 = 6 * COMMAND_BYTES;

struct Lists<'d> {
    world: World,
    choices: Choices<'d>,
    hostile: Client,
    /// The present and former allocations of the client, and those of the other.
    allocations: Vec<AllocationId>,
    other: Client,
    theirs: AllocationId,
    /// The tokens that the other client wrote and has to read.
    expected: Vec<u64>,
}

fn run(data: &[u8]) {
    play(data);
}

/// The events of such work.
pub fn events(data: &[u8]) -> Vec<Event> {
    play(data).events
}

fn play(data: &[u8]) -> World {
    let choices = Choices::new(data);
    let mut lists = Lists::new(choices.clone());
    while !choices.is_over() {
        match choices.below(8) {
            0..=3 => lists.render(),
            4 => lists.write_and_read(),
            5 => lists.create_or_destroy(),
            6 => _ = lists.world.complete(choices.pick(&[0, 1, 2])),
            _ => lists.world.run_all(),
        }
        lists.world.poll();
    }
    lists.write_and_read();
    lists.world.run_all();
    assert!(lists.world.vidmm.is_idle(), "I32: not everything has ended");
    assert_eq!(lists.world.read, lists.expected, "I12: the work of another device was harmed");
    lists.world
}

impl<'d> Lists<'d> {
    fn new(choices: Choices<'d>) -> Self {
        let (slots, preemption_aware) = (choices.pick(&[4, 1, 16]), choices.one_in(2));
        let bank_range_table = if choices.one_in(3) { vec![4 * 4096, 8 * 4096] } else { Vec::new() };
        let knobs = PreparationKnobs {
            take_split_point: choices.one_in(4),
            never_prepatch: choices.one_in(4),
            always_repatch: choices.one_in(4),
            accept_max_slot_id: choices.one_in(4),
            ..PreparationKnobs::default()
        };
        let mut world = World::new(Config { slots, preemption_aware, bank_range_table, knobs, ..Config::pages(8) });
        // To the GPU of this world, commands of arbitrary lists mean nothing.
        world.ignoring = Some(RENDER);
        let (hostile, mut other) = (world.client(), world.client());
        other.context = world.context(other.device, COPY);
        let theirs = world.local(other, 3);
        let allocations = vec![world.local(hostile, 2), world.local(hostile, 3), theirs];
        Self { world, choices, hostile, allocations, other, theirs, expected: Vec::new() }
    }

    fn render(&mut self) {
        let desc = self.desc();
        if self.choices.one_in(4) {
            self.world.driver.patch_locations = Some(self.patch_locations(desc.allocations.len() as u64));
        }
        if let Err(error) = self.world.try_render(self.hostile.context, desc) {
            assert!(error.to_string().len() > 10, "a refusal without a word");
            if let RenderError::DeviceInError(_) | RenderError::PatchLocationList { .. } = error {
                self.renew();
            }
        }
        self.world.driver.patch_locations = None;
    }

    /// Replaces a client that is in error.
    fn renew(&mut self) {
        self.hostile = self.world.client();
        let created = [2, 4].map(|pages| self.world.local(self.hostile, pages));
        self.allocations.extend(created);
    }

    fn desc(&self) -> RenderDesc {
        let choices = &self.choices;
        let mut known = self.allocations.clone();
        if !choices.one_in(8) {
            // The list names no allocation of the other client, which alone would be a reason to refuse it.
            known.drain(..known.len().saturating_sub(3));
            known.retain(|allocation| *allocation != self.theirs);
        }
        let listed = names(&known, choices).into_iter().map(Some).chain(choices.one_in(3).then_some(None));
        let allocations: Vec<_> =
            listed.map(|allocation| AllocationListDesc { allocation, write_operation: choices.one_in(2) }).collect();
        let patch_locations = self.patch_locations(allocations.len() as u64);
        RenderDesc { command: vec![0; COMMANDS as usize], allocations, patch_locations, ..RenderDesc::default() }
    }

    /// Up to six references, mostly possible ones.
    fn patch_locations(&self, num_allocations: u64) -> Vec<PatchLocation> {
        let choices = &self.choices;
        let mut split = 0;
        let location = |at: u32| {
            if choices.one_in(2) {
                split = at * COMMAND_BYTES;
            }
            let mut location = PatchLocation {
                allocation_index: choices.below(num_allocations.max(1)) as u32,
                slot_id: choices.below(4) as u32,
                driver_id: 0,
                allocation_offset: 4096 * choices.below(3) as u32,
                patch_offset: at * COMMAND_BYTES + 8,
                split_offset: split,
            };
            if choices.one_in(12) {
                match choices.below(5) {
                    0 => location.allocation_index = choices.edge32(),
                    1 => location.slot_id = choices.edge32(),
                    2 => location.patch_offset = choices.pick(&[0, COMMANDS - 8, COMMANDS - 7, COMMANDS, u32::MAX]),
                    3 => location.split_offset = choices.pick(&[0, COMMANDS - 1, COMMANDS, COMMANDS + 1, u32::MAX]),
                    _ => location.allocation_offset = choices.edge32(),
                }
            }
            location
        };
        (0..choices.below(7) as u32).map(location).collect()
    }

    fn write_and_read(&mut self) {
        let token = 1 + self.expected.len() as u64;
        let writer = Writer::new().split().write(0, self.theirs, 2, token).read(0, self.theirs, 2);
        self.world.render(self.other.context, writer.finish());
        self.expected.push(token);
    }

    fn create_or_destroy(&mut self) {
        let choices = &self.choices;
        if choices.one_in(3) {
            let allocation = choices.pick(&self.allocations);
            if allocation != self.theirs {
                _ = self.world.call(|vidmm, _, host| vidmm.destroy_allocation(host, allocation, DestroyFlags::empty()));
            }
        } else if self.allocations.len() < 12 {
            let segments = vidmm::contract::SegmentSet(choices.pick(&[1, 2, 3]));
            self.world.driver.next_allocation = Some(info(1 + choices.below(5), segments));
            let device = self.hostile.device;
            let created =
                self.world.call(|vidmm, driver, host| vidmm.create_allocation(driver, host, device, &[0u8; 0][..]));
            match created {
                Ok(allocation) => self.allocations.push(allocation),
                Err(CreateError::DeviceInError(_)) => self.renew(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
