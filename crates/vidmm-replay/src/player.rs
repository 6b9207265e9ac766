//! Plays references through the manager, on an adapter that costs nothing.

use std::{collections::BTreeMap, mem};

use vidmm::{
    AdapterOptions, AllocationId, ContextId, CreateError, DestroyFlags, DeviceId, Event, EvictFlags, MakeResidentError,
    MakeResidentFlags, PagingQueueId, ProcessId, QueryStatistics, StartAdapterError, SubmitDesc,
    contract::{AddressingModel, AllocationFlags2},
    policy::PolicyChoice,
};
use vidmm_trace::{ByteSize, Lifetime};

use crate::{
    Object, PAGE,
    null::{LOCAL_MEMORY, NullAdapter, NullAllocation, NullMachine, NullMemory, RENDER},
    pace::{Link, Moved, Pace},
    trace::{Measure, Step, Trace, TraceError},
};

/// An allocation leaves a list unwritten, and stays until room is wanted: the program wants it back soon.
const READ_ONLY: EvictFlags = EvictFlags::EVICT_ONLY_IF_NECESSARY.union(EvictFlags::NOT_WRITTEN_TO);

/// The conditions under which a trace is played, whatever the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Bytes of local memory.
    pub local_memory: u64,
    /// The number of submissions that the GPU is behind.
    pub in_flight: u64,
    /// The number of submissions at the start that the figures leave out.
    pub warm_up: usize,
    /// A use of an object that is larger than local memory passes by: the use is a miss, and takes no memory.
    pub pass_by: bool,
    /// The speed of copies, for the virtual time.
    pub link: Link,
}

impl Setup {
    /// So much local memory; two submissions are in flight, everything counts, and nothing passes by.
    pub fn new(local_memory: u64) -> Self {
        Self { local_memory, in_flight: 2, warm_up: 0, pass_by: false, link: Link::default() }
    }
}

/// How a trace is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlayOptions {
    /// The conditions that do not depend on the policy.
    pub setup: Setup,
    /// The policy of eviction.
    pub policy: PolicyChoice,
    /// How the program keeps its device's list.
    pub lists: Lists,
}

impl PlayOptions {
    /// So much local memory, under a policy: lists are made anew, two submissions are in flight, and everything counts.
    pub fn new(local_memory: u64, policy: PolicyChoice) -> Self {
        Self { setup: Setup::new(local_memory), policy, lists: Lists::Anew }
    }
}

/// How a program keeps its device's list from one submission to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lists {
    /// It takes everything off the list after each submission, and a policy hears of each use.
    Anew,
    /// It changes what differs from the submission before. A policy hears of nothing that stays.
    Kept,
}

/// The figures of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Played {
    /// The number of uses.
    pub uses: u64,
    /// Uses with an absent object, without first uses of new objects.
    pub misses: u64,
    /// Bytes of all objects used, once for each use.
    pub bytes_used: u64,
    /// Bytes that were brought in, without those of objects that had no content yet. Bytes that pass by count.
    pub bytes_in: u64,
    /// Uses that passed by; they count among the misses.
    pub passed: u64,
    /// The bytes of prefetches among the bytes in.
    pub bytes_prefetched: u64,
    /// Bytes that were copied out.
    pub bytes_out: u64,
    /// Allocations that were taken out.
    pub evictions: u64,
    /// The time for which submissions keep the GPU busy, in nanoseconds.
    pub work_ns: u64,
    /// The time that it takes, in nanoseconds, where copies go one after the other at 25 GB a second.
    pub virtual_ns: u64,
}

/// A trace that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The largest submission does not fit.
    #[error(
        "a submission uses {} at once, and local memory has {}; give it at least as many bytes",
        ByteSize(*largest_list),
        ByteSize(*local_memory)
    )]
    TooLarge {
        /// Bytes of the largest list.
        largest_list: u64,
        /// Bytes of local memory.
        local_memory: u64,
    },
    /// The policy prefetches, and a study does not know when the bus is free.
    #[error("the policy prefetches, and nothing can come ahead in a sample or a study; play the whole manager")]
    Prefetches,
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The adapter does not start.
    #[error("the adapter does not start: {0}")]
    Start(#[from] StartAdapterError),
    /// The manager refuses an allocation.
    #[error("an object cannot be created: {0}")]
    Create(#[from] CreateError),
    /// The manager refuses a list.
    #[error("a list cannot be made resident: {0}")]
    MakeResident(#[from] MakeResidentError),
}

/// Plays a trace under a policy, and says what was moved.
///
/// # Errors
///
/// If local memory does not hold the largest submission, or the trace cannot be read.
///
/// # Panics
///
/// If the manager is wrong.
pub fn play(trace: &Trace, options: &PlayOptions) -> Result<Played, PlayError> {
    played(trace, options, None).map(|(played, _)| played)
}

/// The same, and `watch` hears of each victim by the number of the object, in the order of the manager's log.
///
/// # Errors
///
/// As [`play`].
///
/// # Panics
///
/// As [`play`].
pub fn play_watched(trace: &Trace, options: &PlayOptions, mut watch: impl FnMut(u32)) -> Result<Played, PlayError> {
    played(trace, options, Some(&mut watch)).map(|(played, _)| played)
}

/// The same as [`play`], with the bytes in of each process.
///
/// # Errors
///
/// As [`play`].
///
/// # Panics
///
/// As [`play`].
pub fn play_processes(trace: &Trace, options: &PlayOptions) -> Result<(Played, Vec<u64>), PlayError> {
    played(trace, options, None)
}

fn played(
    trace: &Trace,
    options: &PlayOptions,
    watch: Option<&mut dyn FnMut(u32)>,
) -> Result<(Played, Vec<u64>), PlayError> {
    let &Measure { page, largest_list, processes, .. } = trace.measure();
    let local_memory = options.setup.local_memory / page * page;
    if largest_list > local_memory && !options.setup.pass_by {
        return Err(PlayError::TooLarge { largest_list, local_memory });
    }
    let mut player = Player::start(local_memory, page, processes, options, watch)?;
    let (mut stream, mut step) = (trace.play(&options.setup, false)?, Step::default());
    let (mut warm, mut number) = ((Played::default(), vec![0; player.programs.len()]), 0);
    while stream.read(&mut step)? {
        if number as usize == options.setup.warm_up {
            warm = (player.figures(), player.bytes_in());
        }
        number += 1;
        player.play(number, &step)?;
    }
    player.complete(u64::MAX);
    player.tell();
    let bytes_in = player.bytes_in().into_iter().zip(warm.1).map(|(bytes, warm)| bytes - warm).collect();
    Ok((player.figures().since(&warm.0), bytes_in))
}

impl Played {
    pub(crate) fn moved(&self) -> Moved {
        Moved { bytes_in: self.bytes_in, bytes_out: self.bytes_out }
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            uses: self.uses - earlier.uses,
            misses: self.misses.saturating_sub(earlier.misses),
            passed: self.passed - earlier.passed,
            bytes_used: self.bytes_used - earlier.bytes_used,
            bytes_in: self.bytes_in.saturating_sub(earlier.bytes_in),
            bytes_prefetched: self.bytes_prefetched - earlier.bytes_prefetched,
            bytes_out: self.bytes_out - earlier.bytes_out,
            evictions: self.evictions - earlier.evictions,
            work_ns: self.work_ns - earlier.work_ns,
            virtual_ns: self.virtual_ns - earlier.virtual_ns,
        }
    }
}

/// An object, and what became of it.
#[derive(Clone, Copy)]
struct Instance {
    object: Object,
    allocation: Option<AllocationId>,
    /// The number of the last submission that used it, from 1.
    last: u32,
    is_written: bool,
}

/// A process with its device.
struct Program {
    process: ProcessId,
    device: DeviceId,
    queue: PagingQueueId,
    context: ContextId,
    /// The objects of the last submission, if the list is kept, and the number of the submission.
    listed: Vec<u32>,
    last: u32,
    /// Bytes of objects without content before the first use.
    bytes_made: u64,
    /// Bytes that passed by.
    bytes_passed: u64,
}

struct Player<'a> {
    /// The watcher of victims, if there is one.
    watch: Option<&'a mut dyn FnMut(u32)>,
    /// The objects by their allocations, for a watcher.
    objects: BTreeMap<AllocationId, u32>,
    lists: Lists,
    in_flight: u64,
    machine: NullMachine,
    programs: Vec<Program>,
    instances: Vec<Instance>,
    figures: Played,
    /// The number of objects that had no content yet.
    made: u64,
    pace: Pace,
    /// Room for a list.
    batch: Vec<AllocationId>,
    local_memory: u64,
    /// The manager's bytes for each byte: where pages are small, a page of the trace is a page of the manager.
    unit: u64,
}

impl<'a> Player<'a> {
    fn start(
        local_memory: u64,
        page: u64,
        processes: u32,
        options: &PlayOptions,
        watch: Option<&'a mut dyn FnMut(u32)>,
    ) -> Result<Self, PlayError> {
        let model = AddressingModel::GpuMmu;
        let unit = PAGE / page.min(PAGE);
        let adapter = NullAdapter {
            model,
            local_bytes: local_memory.saturating_mul(unit),
            has_large_pages: page > PAGE,
            system_bytes: 64 << 20,
            paging_va_mib: 64,
        };
        let adapter_options =
            AdapterOptions { policy: options.policy, events: watch.is_some(), ..AdapterOptions::default() };
        let mut machine = NullMachine::start(adapter, adapter_options)?;
        let NullMachine { vidmm, driver, host, .. } = &mut machine;
        let programs = (0..processes.max(1)).map(|_| {
            let process = vidmm.create_process(driver, host).expect("the driver refuses nothing");
            let device = vidmm.create_device(process).expect("the process exists");
            let queue = vidmm.create_paging_queue(device, 0).expect("the device exists");
            let context = vidmm.create_context(driver, device, RENDER).expect("the device exists");
            Program { process, device, queue, context, listed: Vec::new(), last: 0, bytes_made: 0, bytes_passed: 0 }
        });
        let programs = programs.collect();
        Ok(Self {
            watch,
            objects: BTreeMap::new(),
            lists: options.lists,
            in_flight: options.setup.in_flight,
            machine,
            programs,
            instances: Vec::new(),
            figures: Played::default(),
            made: 0,
            pace: Pace::new(options.setup.link, options.setup.in_flight),
            batch: Vec::new(),
            local_memory,
            unit,
        })
    }

    /// Plays submission `number`, from 1.
    fn play(&mut self, number: u32, step: &Step) -> Result<(), PlayError> {
        let before = self.moved();
        self.instances.extend(step.objects.iter().map(|&object| Instance {
            object,
            allocation: None,
            last: 0,
            is_written: false,
        }));
        self.complete(u64::from(number).saturating_sub(self.in_flight));
        self.figures.passed += step.passed.0;
        let (by, process) = (step.process as usize, &mut self.programs[step.process as usize]);
        process.bytes_passed += step.passed.1;
        let (mut leaving, before_last) = (mem::take(&mut process.listed), mem::replace(&mut process.last, number));
        self.figures.uses += step.passed.0;
        self.figures.bytes_used += step.passed.1;
        let mut joining = mem::take(&mut self.batch);
        let mut list_bytes = 0;
        for used in &step.uses {
            let instance = &mut self.instances[used.object()];
            let last = mem::replace(&mut instance.last, number);
            let is_listed = last == before_last && !leaving.is_empty();
            instance.is_written |= used.is_write();
            self.figures.uses += 1;
            self.figures.bytes_used += instance.object.size;
            list_bytes += instance.object.size;
            if list_bytes > self.local_memory {
                return Err(PlayError::TooLarge { largest_list: list_bytes, local_memory: self.local_memory });
            }
            if !is_listed {
                joining.push(self.instance(by, used.object())?);
            }
        }
        leaving.retain(|&at| self.instances[at as usize].last < number);
        self.evict(by, leaving.drain(..));
        let Program { queue, context, .. } = self.programs[by];
        if !joining.is_empty() {
            let _ = self.machine.vidmm.make_resident(queue, &joining, MakeResidentFlags::empty())?;
        }
        joining.clear();
        self.batch = joining;
        self.machine.vidmm.submit(context, SubmitDesc::default()).expect("the queue has room");
        self.machine.settle();
        let all = step.uses.iter().map(|used| used.object() as u32);
        match self.lists {
            Lists::Anew => self.evict(by, all),
            Lists::Kept => leaving.extend(all),
        }
        self.programs[by].listed = leaving;
        step.dying.iter().for_each(|&at| self.destroy(at as usize));
        self.tell();
        self.figures.work_ns += step.nanoseconds;
        self.pace.submit(self.moved().since(before), step.nanoseconds);
        Ok(())
    }

    fn moved(&self) -> Moved {
        let statistics = self.machine.vidmm.statistics();
        // An object that is made may be filled later.
        let made = self.bytes_made().min(statistics.bytes_filled);
        Moved {
            bytes_in: (statistics.bytes_paged_in + statistics.bytes_filled - made) / self.unit + self.bytes_passed(),
            bytes_out: statistics.bytes_paged_out / self.unit,
        }
    }

    fn bytes_passed(&self) -> u64 {
        self.programs.iter().map(|program| program.bytes_passed).sum()
    }

    fn bytes_made(&self) -> u64 {
        self.programs.iter().map(|program| program.bytes_made).sum()
    }

    /// The allocation of an object; process number `by` makes the allocation at the first use.
    fn instance(&mut self, by: usize, at: usize) -> Result<AllocationId, CreateError> {
        if let Some(allocation) = self.instances[at].allocation {
            return Ok(allocation);
        }
        let Object { size, lifetime } = self.instances[at].object;
        let size = size * self.unit;
        let desc =
            NullAllocation { size, memory: NullMemory::Local, flags2: AllocationFlags2::empty(), is_range: false };
        let data = desc.to_bytes();
        let NullMachine { vidmm, driver, host, .. } = &mut self.machine;
        let created = vidmm.create_allocation(driver, host, self.programs[by].device, &data[..])?;
        self.instances[at].allocation = Some(created);
        if self.watch.is_some() {
            self.objects.insert(created, at as u32);
        }
        if lifetime != Lifetime::Whole {
            self.made += 1;
            self.programs[by].bytes_made += size;
        }
        Ok(created)
    }

    /// Tells of the victims since the last call.
    fn tell(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        for event in self.machine.vidmm.events().drain() {
            if let Event::Evicted { allocation, .. } = event.event {
                watch(self.objects[&allocation]);
            }
        }
    }

    /// Takes objects off the list of a process.
    fn evict(&mut self, by: usize, objects: impl Iterator<Item = u32>) {
        let (mut read, mut written) = (mem::take(&mut self.batch), Vec::new());
        for at in objects {
            let instance = &mut self.instances[at as usize];
            let Some(allocation) = instance.allocation else { continue };
            match mem::take(&mut instance.is_written) {
                true => written.push(allocation),
                false => read.push(allocation),
            }
        }
        for (allocations, flags) in [(&read, READ_ONLY), (&written, EvictFlags::EVICT_ONLY_IF_NECESSARY)] {
            if !allocations.is_empty() {
                self.machine.vidmm.evict(self.programs[by].device, allocations, flags).expect("they are on the list");
            }
        }
        read.clear();
        self.batch = read;
    }

    fn destroy(&mut self, at: usize) {
        // A submission that was refused has made nothing.
        let Some(allocation) = self.instances[at].allocation.take() else { return };
        let destroyed =
            self.machine.vidmm.destroy_allocation(&mut self.machine.host, allocation, DestroyFlags::empty());
        destroyed.expect("it exists");
    }

    /// The GPU ends the submissions up to number `last`.
    fn complete(&mut self, last: u64) {
        while self.machine.complete(last) {
            self.machine.settle();
        }
    }

    fn figures(&self) -> Played {
        let statistics = self.machine.vidmm.statistics();
        Played {
            bytes_in: (statistics.bytes_paged_in + statistics.bytes_filled).saturating_sub(self.bytes_made())
                / self.unit
                + self.bytes_passed(),
            misses: (statistics.page_ins - statistics.prefetches).saturating_sub(self.made) + self.figures.passed,
            bytes_prefetched: statistics.bytes_prefetched / self.unit,
            bytes_out: statistics.bytes_paged_out / self.unit,
            evictions: statistics.evictions,
            virtual_ns: self.pace.nanoseconds(),
            ..self.figures
        }
    }

    /// The bytes in of each process.
    fn bytes_in(&self) -> Vec<u64> {
        let bytes_in = |program: &Program| {
            let query = QueryStatistics::ProcessSegment(program.process, LOCAL_MEMORY);
            let traffic = self.machine.vidmm.query_statistics(query).expect("they exist").traffic;
            let brought_in = (traffic.bytes_paged_in + traffic.bytes_filled).saturating_sub(program.bytes_made);
            brought_in / self.unit + program.bytes_passed
        };
        self.programs.iter().map(bytes_in).collect()
    }
}
