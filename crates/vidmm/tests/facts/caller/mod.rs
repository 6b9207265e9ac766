//! A caller that goes on whatever a call answers: what could not be created it goes without, and it knows the token that each
//! page must hold. An error must leave everything as it was.

mod script;
mod steps;
mod wrong;

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::*;
use vidmm::*;

pub use script::{DEVICES, SLOTS, Step, script};

use crate::world::*;

/// The bit that tells the number of a work from a token.
const WORK: u64 = 1 << 63;

/// A device with all that work needs, as far as it could be created.
#[derive(Default)]
struct Dev {
    device: Option<DeviceId>,
    queue: Option<PagingQueueId>,
    contexts: [Option<ContextId>; 2],
    trims: Option<TrimNotificationId>,
}

/// The record of an allocation on one device.
#[derive(Clone, Copy, Default)]
struct Use {
    is_open: bool,
    count: u32,
    /// Where it is mapped.
    address: Option<u64>,
}

struct Alloc {
    id: AllocationId,
    owner: usize,
    pages: u64,
    tokens: Vec<u64>,
    uses: [Use; DEVICES],
    is_offered: bool,
    locked: Option<CpuVirtualAddress>,
    /// The device that last submitted work for it, and the number of that work.
    last_access: Option<(usize, u64)>,
}

pub struct Caller {
    pub world: World,
    processes: [Option<(ProcessId, KmdProcessHandle)>; 2],
    devices: [Dev; DEVICES],
    allocs: [Option<Alloc>; SLOTS],
    fence: Option<MonitoredFenceId>,
    fence_value: u64,
    /// Ranges of addresses that are reserved, and whether something is mapped in them, by process.
    reserved: Vec<(usize, u64, u64)>,
    next_token: u64,
    /// The token that each read must find.
    expected: BTreeMap<u64, u64>,
    num_works: u64,
    /// Works that have ended.
    ended: BTreeSet<u64>,
    /// How often each kind of call was made with success, and without.
    pub answers: BTreeMap<&'static str, (u32, u32)>,
    live_at_start: usize,
    bytes_at_start: u64,
}

/// The process of a device: the first two share one.
fn process_of(device: usize) -> usize {
    device / 2
}

impl Caller {
    pub fn new(config: Config) -> Self {
        let world = World::new(config);
        let (live_at_start, bytes_at_start) = (world.driver.live.len(), world.host.bytes());
        Self {
            world,
            processes: Default::default(),
            devices: Default::default(),
            allocs: Default::default(),
            fence: None,
            fence_value: 0,
            reserved: Vec::new(),
            next_token: 1 << 20,
            expected: BTreeMap::new(),
            num_works: 0,
            ended: BTreeSet::new(),
            answers: BTreeMap::new(),
            live_at_start,
            bytes_at_start,
        }
    }

    /// Everything that a call that fails might have changed.
    fn observed(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let World { vidmm, driver, host, outputs, .. } = &self.world;
        let objects = (driver.live.clone(), driver.opened.clone(), host.live.clone(), host.views.len());
        (vidmm.statistics(), objects, outputs.len(), driver.operations.len())
    }

    /// Makes a call: an error leaves all as it was.
    fn attempt<T, E: std::fmt::Debug>(
        &mut self,
        kind: &'static str,
        call: impl FnOnce(&mut VidMm, &mut Driver, &mut Ledger) -> Result<T, E>,
    ) -> Option<T> {
        let (before, num_events) = (self.observed(), self.world.events.len());
        let answer = self.world.call(call);
        let answers = self.answers.entry(kind).or_default();
        match answer {
            Ok(answer) => {
                answers.0 += 1;
                Some(answer)
            }
            Err(error) => {
                answers.1 += 1;
                assert_eq!(self.observed(), before, "{kind} answers {error:?}, but something has changed");
                // The log says of one call that it was refused, for whoever looks for what memory is short.
                let mut events = self.world.events[num_events..].iter();
                let decided = events.find(|event| !matches!(event, Event::MakeResidentRefused { .. }));
                assert!(decided.is_none(), "{kind} answers {error:?}, and {decided:?}");
                None
            }
        }
    }

    pub fn run(&mut self, script: &[Step]) {
        for step in script {
            self.world.is_audited = self.world.driver.failing.is_near(50);
            self.step(step);
            self.note_reads();
        }
    }

    /// Work that has ended has read what was there when it was submitted.
    fn note_reads(&mut self) {
        let mut read = self.world.read.drain(..);
        while let Some(number) = read.next() {
            let number = number & !WORK;
            self.ended.insert(number);
            if let Some(token) = self.expected.remove(&number) {
                assert_eq!(read.next(), Some(token), "I30: work {number} reads something else");
            }
        }
    }

    /// All work has ended.
    pub fn come_to_rest(&mut self) {
        self.let_everybody_run();
        self.world.run_all();
        self.note_reads();
    }

    /// Everything is destroyed, and nothing is left of it.
    pub fn tear_down(mut self) {
        self.world.is_audited = self.world.driver.failing.is_near(50);
        self.come_to_rest();
        self.check_contents();
        for device in 0..DEVICES {
            self.leave(device);
        }
        for slot in 0..SLOTS {
            self.destroy(slot, DestroyFlags::empty());
        }
        self.world.run_all();
        for device in 0..DEVICES {
            self.leave(device);
        }
        if let Some(fence) = self.fence.take() {
            self.world.call(|vidmm, _, _| vidmm.destroy_monitored_fence(fence)).unwrap();
        }
        for (process, _) in std::mem::take(&mut self.processes).into_iter().flatten() {
            self.world.call(|vidmm, driver, host| vidmm.destroy_process(driver, host, process)).unwrap();
        }
        assert!(self.world.trouble.told.is_empty(), "no device is in error: {:?}", self.world.trouble.told);
        assert_eq!(self.world.driver.live.len(), self.live_at_start, "I28: the driver still has objects");
        assert!(self.world.driver.opened.is_empty(), "I28: {:?} is still open", self.world.driver.opened);
        assert_eq!(self.world.host.bytes(), self.bytes_at_start, "I28: the host still has backing stores");
        assert!(self.world.host.views.is_empty(), "I28: the CPU still sees something");
        self.world.driver.failing.disarm();
        self.world.vidmm.check().unwrap();
        self.world.is_audited = false;
        self.world.tear_down();
    }
}
