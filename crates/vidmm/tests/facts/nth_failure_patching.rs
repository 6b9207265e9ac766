//! The sweep of `nth_failure.rs` on an adapter whose driver writes addresses into DMA buffers: each answer that may be a failure
//! is one, once. A command buffer that could not be rendered is not run, and all else is (P54, PAT-12).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::patching::*;
use crate::world::Fallible;
use vidmm::contract::*;
use vidmm::*;

const DEVICES: usize = 3;
const SLOTS: usize = 9;
const STEPS: u64 = 200;

struct Alloc {
    id: AllocationId,
    pages: u64,
    /// The token that its first page holds.
    token: u64,
}

/// A caller that goes on whatever a call answers.
struct Caller {
    world: World,
    processes: [Option<ProcessId>; DEVICES],
    devices: [Option<DeviceId>; DEVICES],
    contexts: [Option<(ContextId, KmdContextHandle)>; DEVICES],
    allocs: [Option<Alloc>; SLOTS],
    /// The tokens that the work of each context must have read.
    expected: BTreeMap<u64, Vec<u64>>,
    next_token: u64,
    refused: usize,
}

impl Caller {
    fn new() -> Self {
        let mut world = World::new(Config { pages: 8, aperture_pages: 32, ..Config::default() });
        world.run_all();
        let (processes, devices, contexts, allocs) = Default::default();
        Self { world, processes, devices, contexts, allocs, expected: BTreeMap::new(), next_token: 0, refused: 0 }
    }

    /// Makes a call: an error leaves all as it was.
    fn attempt<T, E: std::fmt::Debug>(
        &mut self,
        call: impl FnOnce(&mut VidMm, &mut Driver, &mut Memory) -> Result<T, E>,
    ) -> Option<T> {
        let observed = |world: &World| {
            let (driver, host) = (&world.driver, &world.host);
            (world.vidmm.statistics(), driver.live.clone(), host.committed().clone(), world.events.len())
        };
        let before = observed(&self.world);
        match self.world.call(call) {
            Ok(answer) => Some(answer),
            Err(error) => {
                assert_eq!(observed(&self.world), before, "something has changed, and the answer is {error:?}");
                self.refused += 1;
                None
            }
        }
    }

    fn begin(&mut self, number: usize) {
        if self.processes[number].is_none() {
            self.processes[number] = self.attempt(|vidmm, driver, host| vidmm.create_process(driver, host));
        }
        let Some(process) = self.processes[number] else { return };
        if self.devices[number].is_none() {
            self.devices[number] = self.attempt(|vidmm, _, _| vidmm.create_device(process));
        }
        let Some(device) = self.devices[number] else { return };
        if self.contexts[number].is_none() {
            self.contexts[number] = self.attempt(|vidmm, driver, _| {
                let context = vidmm.create_context(driver, device, RENDER)?;
                Ok::<_, CreateError>((context, KmdContextHandle(*driver.live.last().expect("it was created"))))
            });
        }
    }

    fn leave(&mut self, number: usize) {
        self.world.run_all();
        for slot in (number..SLOTS).step_by(DEVICES) {
            self.destroy(slot);
        }
        self.world.run_all();
        if let Some((context, _)) = self.contexts[number].take() {
            self.attempt(|vidmm, driver, _| vidmm.destroy_context(driver, context)).unwrap();
        }
        if let Some(device) = self.devices[number].take() {
            self.attempt(|vidmm, driver, host| vidmm.destroy_device(driver, host, device)).unwrap();
        }
        if let Some(process) = self.processes[number].take() {
            self.attempt(|vidmm, driver, host| vidmm.destroy_process(driver, host, process)).unwrap();
        }
    }

    /// The slots of a device are those of its number modulo three.
    fn create(&mut self, slot: usize, pages: u64, set: SegmentSet) {
        let Some(device) = self.devices[slot % DEVICES].filter(|_| self.allocs[slot].is_none()) else { return };
        let created = self.attempt(|vidmm, driver, host| {
            driver.next_allocation = Some(info(pages, set));
            vidmm.create_allocation(driver, host, device, &[0u8; 0][..])
        });
        self.allocs[slot] = created.map(|id| Alloc { id, pages, token: 0 });
    }

    fn destroy(&mut self, slot: usize) {
        if let Some(Alloc { id, .. }) = self.allocs[slot].take() {
            self.attempt(|vidmm, _, host| vidmm.destroy_allocation(host, id, DestroyFlags::empty())).unwrap();
        }
    }

    /// Work that writes to all allocations of a device, each in a portion that may run by itself, and reads them again.
    fn render(&mut self, number: usize, writes: bool) {
        let Some((context, handle)) = self.contexts[number] else { return };
        let mut writer = Writer::new();
        let mut tokens = Vec::new();
        for slot in (number..SLOTS).step_by(DEVICES) {
            let Some(Alloc { id, pages, token }) = &self.allocs[slot] else { continue };
            // Pages that were never written are read by nobody: the world's memory holds anything there.
            let token = if writes { self.next_token + 1 } else { *token };
            writer = writer.split();
            if writes {
                self.next_token += 1;
                writer = writer.write(0, *id, 0, token).write(1, *id, pages - 1, token);
            }
            if token > 0 {
                writer = writer.read(2, *id, 0).read(3, *id, pages - 1);
                tokens.push((slot, token));
            }
        }
        let desc = writer.finish();
        if self.attempt(|vidmm, driver, _| vidmm.render(driver, context, desc)).is_some() {
            for (slot, token) in tokens {
                self.allocs[slot].as_mut().expect("it was named").token = token;
                self.expected.entry(handle.0).or_default().extend([token, token]);
            }
        }
    }

    fn run(&mut self) {
        (0..DEVICES).for_each(|number| self.begin(number));
        let mut state = 7u64;
        let mut below = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        for _ in 0..STEPS {
            let (slot, number) = (below(SLOTS as u64) as usize, below(DEVICES as u64) as usize);
            let (pages, set) = (below(4) + 1, [1, 1, 2, 3][below(4) as usize]);
            match below(20) {
                0 => self.begin(number),
                1 if below(4) == 0 => self.leave(number),
                2..8 => self.create(slot, pages, SegmentSet(set)),
                8 => self.destroy(slot),
                9..14 => self.render(number, true),
                14..16 => self.render(number, false),
                16 => self.world.poll(),
                17 => self.world.run_all(),
                _ => {
                    self.world.poll();
                    _ = self.world.complete(number as u32);
                }
            }
        }
    }

    /// All that was rendered has run, and has read what it must; nothing is left of anything.
    fn tear_down(mut self) {
        self.world.run_all();
        (0..DEVICES).for_each(|number| self.leave(number));
        let read: BTreeMap<_, _> = self.world.read_by.iter().map(|(&context, read)| (context, read.clone())).collect();
        assert_eq!(read, self.expected, "I30: work has read something else");
        let fresh = World::new(Config { pages: 8, aperture_pages: 32, ..Config::default() });
        assert_eq!(self.world.driver.live.len(), fresh.driver.live.len(), "I28: the driver still has objects");
        let bytes = |world: &World| world.host.committed().values().sum::<u64>();
        assert_eq!(bytes(&self.world), bytes(&fresh), "I28: the host still has backing stores");
        assert!(self.world.errors().is_empty() && self.world.vidmm.is_idle());
    }
}

/// Runs the script with a failure of this call; the calls that may fail.
fn run(build_failure: BuildStatus, render_failure: RenderStatus, fails_at: Option<usize>) -> Vec<Fallible> {
    let mut caller = Caller::new();
    (caller.world.driver.build_failure, caller.world.driver.render_failure) = (build_failure, render_failure);
    let failing = caller.world.driver.failing.clone();
    failing.arm(fails_at);
    caller.run();
    let calls = failing.calls();
    caller.tear_down();
    calls
}

/// Lets each call of these kinds fail once, by these statuses.
fn each_call_fails_once(build_failure: BuildStatus, render_failure: RenderStatus, kinds: &[Fallible]) {
    let calls = run(build_failure, render_failure, None);
    for kind in kinds {
        assert!(calls.contains(kind), "{kind:?} was never asked for");
    }
    for (number, call) in calls.iter().enumerate().filter(|(_, call)| kinds.contains(call)) {
        let once = || run(build_failure, render_failure, Some(number));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(once)) {
            eprintln!("call {number} of {} failed: {call:?} ({build_failure:?}, {render_failure:?})", calls.len());
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn each_failure_of_creation_is_survived() {
    use Fallible::*;
    let kinds = [CreateProcess, CreateContext, CreateAllocation, CommitBackingStore];
    each_call_fails_once(BuildStatus::InsufficientDmaBuffer, RenderStatus::NoMemory, &kinds);
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn each_full_or_busy_paging_buffer_is_survived() {
    for status in [BuildStatus::InsufficientDmaBuffer, BuildStatus::AllocationBusy] {
        each_call_fails_once(status, RenderStatus::NoMemory, &[Fallible::BuildPagingBuffer]);
    }
}

/// PAT-12: nothing is queued; a full DMA buffer alone is followed by a call with more room.
#[test]
#[ignore = "takes long, runs in .ci/run"]
fn each_command_buffer_that_is_refused_harms_nobody() {
    for status in [
        RenderStatus::InsufficientDmaBuffer,
        RenderStatus::NoMemory,
        RenderStatus::PrivilegedInstruction,
        RenderStatus::IllegalInstruction,
        RenderStatus::InvalidParameter,
        RenderStatus::InvalidHandle,
    ] {
        each_call_fails_once(BuildStatus::InsufficientDmaBuffer, status, &[Fallible::Render]);
    }
}

/// Without a failure memory is scarce, and most calls succeed.
#[test]
fn the_script_pages() {
    let mut caller = Caller::new();
    caller.run();
    caller.world.run_all();
    assert!(caller.world.vidmm.statistics().evictions > 5, "{:?}", caller.world.vidmm.statistics());
    assert_eq!(caller.refused, 0);
    caller.tear_down();
}
