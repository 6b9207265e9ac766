//! Plays references through the manager, on an adapter that costs nothing.

use std::{collections::VecDeque, mem};

use vidmm::{
    AdapterOptions, AllocationId, AllocationResidencyStatus, ContextId, CreateError, DestroyFlags, DeviceId,
    EvictFlags, MakeResidentError, MakeResidentFlags, Output, PagingQueueId, StartAdapterError, SubmitDesc, VidMm,
    contract::{AddressingModel, AllocationFlags2, DmaBuffer, EngineFence, Packet},
    policy::PolicyChoice,
};
use vidmm_trace::Lifetime;

use crate::{
    Object, References, Use,
    null::{NullAdapter, NullAllocation, NullDriver, NullHost, PAGING, RENDER},
};

/// The size of large pages.
const LARGE_PAGE: u64 = 64 << 10;

/// An allocation leaves a list unwritten, and stays until room is wanted: the program wants it back soon.
const READ_ONLY: EvictFlags = EvictFlags::EVICT_ONLY_IF_NECESSARY.union(EvictFlags::NOT_WRITTEN_TO);

/// How references are played.
#[derive(Clone, Debug)]
pub struct PlayOptions {
    /// Bytes of local memory.
    pub local_memory: u64,
    /// The policy of eviction.
    pub policy: PolicyChoice,
    /// How the program keeps its device's list.
    pub lists: Lists,
    /// The number of submissions that the GPU is behind.
    pub in_flight: u64,
    /// The number of submissions at the start that the figures leave out.
    pub warm_up: usize,
}

impl PlayOptions {
    /// So much local memory, under a policy: lists are made anew, two submissions are in flight, and everything counts.
    pub fn new(local_memory: u64, policy: PolicyChoice) -> Self {
        Self { local_memory, policy, lists: Lists::Anew, in_flight: 2, warm_up: 0 }
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
    /// Uses of objects that had content and were not resident.
    pub misses: u64,
    /// Bytes of all objects used, once for each use.
    pub bytes_used: u64,
    /// Bytes that were brought in, without those of objects that had no content yet.
    pub bytes_in: u64,
    /// Bytes that were copied out.
    pub bytes_out: u64,
    /// Allocations that were taken out.
    pub evictions: u64,
}

/// References that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The largest submission does not fit.
    #[error(
        "a submission uses {largest_list} bytes at once, and local memory has {local_memory}; give it at least as many"
    )]
    TooLarge {
        /// Bytes of the largest list.
        largest_list: u64,
        /// Bytes of local memory.
        local_memory: u64,
    },
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

/// Plays references under a policy, and says what was moved.
///
/// # Errors
///
/// If local memory does not hold the largest submission, or holds nothing.
///
/// # Panics
///
/// If the manager is wrong.
pub fn play(references: &References, options: &PlayOptions) -> Result<Played, PlayError> {
    let page = if references.objects().iter().all(|object| object.size % LARGE_PAGE == 0) { LARGE_PAGE } else { 4096 };
    let local_memory = options.local_memory / page * page;
    let largest_list = references.largest_list();
    if largest_list > local_memory {
        return Err(PlayError::TooLarge { largest_list, local_memory });
    }
    let mut player = Player::start(references, local_memory, page == LARGE_PAGE, options)?;
    let mut warm = Played::default();
    for (number, list) in references.submissions().enumerate() {
        if number == options.warm_up {
            warm = player.figures();
        }
        player.play(number as u32 + 1, list)?;
    }
    player.complete(u64::MAX);
    Ok(player.figures().since(&warm))
}

impl Played {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            uses: self.uses - earlier.uses,
            misses: self.misses - earlier.misses,
            bytes_used: self.bytes_used - earlier.bytes_used,
            bytes_in: self.bytes_in - earlier.bytes_in,
            bytes_out: self.bytes_out - earlier.bytes_out,
            evictions: self.evictions - earlier.evictions,
        }
    }
}

/// An object, and what became of it.
#[derive(Clone, Copy, Default)]
struct Instance {
    allocation: Option<AllocationId>,
    /// The number of the last submission that used it, from 1.
    last: u32,
    is_written: bool,
    /// The number of the submission after which it is dropped; 0 if it never is.
    dies_after: u32,
}

struct Player<'a> {
    references: &'a References,
    lists: Lists,
    in_flight: u64,
    vidmm: VidMm,
    driver: NullDriver,
    host: NullHost,
    device: DeviceId,
    queue: PagingQueueId,
    context: ContextId,
    running: VecDeque<(EngineFence, DmaBuffer)>,
    instances: Vec<Instance>,
    /// The objects of the submission before, if the list is kept.
    listed: Vec<u32>,
    figures: Played,
    /// Bytes that were filled for objects that had no content yet.
    bytes_made: u64,
    /// Room for a list.
    batch: Vec<AllocationId>,
}

impl<'a> Player<'a> {
    fn start(
        references: &'a References,
        local_memory: u64,
        has_large_pages: bool,
        options: &PlayOptions,
    ) -> Result<Self, PlayError> {
        let model = AddressingModel::GpuMmu;
        let adapter = NullAdapter {
            model,
            local_bytes: local_memory,
            has_large_pages,
            system_bytes: 64 << 20,
            paging_va_mib: 64,
        };
        let (mut driver, mut host) = (NullDriver::new(adapter), NullHost::default());
        let adapter_options = AdapterOptions { policy: options.policy, ..AdapterOptions::default() };
        let mut vidmm = VidMm::start_adapter(adapter_options, &mut driver, &mut host)?;
        let process = vidmm.create_process(&mut driver, &mut host).expect("the driver refuses nothing");
        let device = vidmm.create_device(process).expect("the process exists");
        let queue = vidmm.create_paging_queue(device, 0).expect("the device exists");
        let context = vidmm.create_context(&mut driver, device, RENDER).expect("the device exists");
        let times_of_use = references.objects().iter().zip(references.times_of_use());
        let instances = times_of_use.map(|(object, (_, end))| {
            let dies_after = if object.lifetime == Lifetime::Temporary { end as u32 } else { 0 };
            Instance { dies_after, ..Instance::default() }
        });
        let instances = Vec::from_iter(instances);
        Ok(Self {
            references,
            lists: options.lists,
            in_flight: options.in_flight,
            vidmm,
            driver,
            host,
            device,
            queue,
            context,
            running: VecDeque::new(),
            instances,
            listed: Vec::new(),
            figures: Played::default(),
            bytes_made: 0,
            batch: Vec::new(),
        })
    }
}

impl Player<'_> {
    /// Plays submission `number`, from 1.
    fn play(&mut self, number: u32, list: &[Use]) -> Result<(), PlayError> {
        self.complete(u64::from(number).saturating_sub(self.in_flight));
        let mut joining = mem::take(&mut self.batch);
        for used in list.iter().copied() {
            let at = used.object();
            let is_listed = mem::replace(&mut self.instances[at].last, number) + 1 == number && !self.listed.is_empty();
            self.instances[at].is_written |= used.is_write();
            self.figures.uses += 1;
            self.figures.bytes_used += self.references.objects()[at].size;
            if !is_listed {
                joining.push(self.instance(at)?);
            }
        }
        let mut leaving = mem::take(&mut self.listed);
        leaving.retain(|&at| self.instances[at as usize].last < number);
        self.evict(leaving.drain(..));
        self.listed = leaving;
        if !joining.is_empty() {
            let _ = self.vidmm.make_resident(self.queue, &joining, MakeResidentFlags::empty())?;
        }
        joining.clear();
        self.batch = joining;
        self.vidmm.submit(self.context, SubmitDesc::default()).expect("the queue has room");
        let all = list.iter().map(|used| used.object() as u32);
        match self.lists {
            Lists::Anew => self.evict(all),
            Lists::Kept => self.listed.extend(all),
        }
        for at in list.iter().map(|used| used.object()) {
            if self.instances[at].dies_after == number {
                self.destroy(at);
            }
        }
        self.settle();
        Ok(())
    }

    /// The allocation of an object, which is made at its first use.
    fn instance(&mut self, at: usize) -> Result<AllocationId, CreateError> {
        if let Some(allocation) = self.instances[at].allocation {
            let status = self.vidmm.query_allocation_residency(allocation).expect("it exists");
            self.figures.misses += u64::from(status == AllocationResidencyStatus::NotResident);
            return Ok(allocation);
        }
        let Object { size, lifetime } = self.references.objects()[at];
        let desc = NullAllocation { size, in_system: false, flags2: AllocationFlags2::empty() };
        let data = desc.to_bytes();
        let created = self.vidmm.create_allocation(&mut self.driver, &mut self.host, self.device, &data[..])?;
        self.instances[at].allocation = Some(created);
        match lifetime {
            Lifetime::Whole => self.figures.misses += 1,
            Lifetime::Temporary | Lifetime::Kept => self.bytes_made += size,
        }
        Ok(created)
    }

    /// Takes objects off the list.
    fn evict(&mut self, objects: impl Iterator<Item = u32>) {
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
                self.vidmm.evict(self.device, allocations, flags).expect("they are on the list");
            }
        }
        read.clear();
        self.batch = read;
    }

    fn destroy(&mut self, at: usize) {
        let allocation = self.instances[at].allocation.take().expect("it has been used");
        let destroyed = self.vidmm.destroy_allocation(&mut self.host, allocation, DestroyFlags::empty());
        destroyed.expect("it exists");
    }

    /// Polls until nothing is left to do. Paging buffers end as they come.
    fn settle(&mut self) {
        while let Some(output) = self.vidmm.poll(0, &mut self.driver, &mut self.host) {
            match output {
                Output::Submit(Packet { signal, buffer, .. }) if signal.engine == PAGING => {
                    self.vidmm.handle_completed(signal, buffer);
                }
                Output::Submit(Packet { signal, buffer, .. }) => self.running.push_back((signal, buffer)),
                Output::AdapterInError(violation) => panic!("the manager is wrong: {violation}"),
                _ => {}
            }
        }
    }

    /// The GPU ends the submissions up to number `last` that it has been given.
    fn complete(&mut self, last: u64) {
        while self.running.front().is_some_and(|(signal, _)| signal.fence_id <= last) {
            let (signal, buffer) = self.running.pop_front().expect("there is a first");
            self.vidmm.handle_completed(signal, buffer);
            self.settle();
        }
    }

    fn figures(&self) -> Played {
        let statistics = self.vidmm.statistics();
        Played {
            bytes_in: statistics.bytes_paged_in + statistics.bytes_filled - self.bytes_made,
            bytes_out: statistics.bytes_paged_out,
            evictions: statistics.evictions,
            ..self.figures
        }
    }
}
