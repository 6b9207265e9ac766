//! The manager of a device: the core decides, and the answer is steps that go in front of the program's commands.
//!
//! The core sees work end at once: all steps and all of the program's commands run one behind the other on one queue, so a step that is
//! submitted later runs later.

use std::fs::File;
use std::time::Instant;

use vidmm::contract::Packet;
use vidmm::policy::PolicyChoice;
use vidmm::{
    AdapterOptions, AllocationId, ContextId, DestroyFlags, DeviceId, EvictFlags, GpuVirtualAddress, MakeResidentError,
    MakeResidentFlags, MapGpuVirtualAddress, Output, PagingQueueId, Statistics, TdrOptions, VidMm,
};
use vidmm_trace::LogWriter;

use crate::driver::{Backing, Driver, PAGING_ENGINE, RANGE_BYTES, Step};

/// An allocation leaves the list, and stays in local memory until room is wanted.
const WRITTEN: EvictFlags = EvictFlags::EVICT_ONLY_IF_NECESSARY;
const READ: EvictFlags = WRITTEN.union(EvictFlags::NOT_WRITTEN_TO);

/// A range of a home: the number of its slot, from 1.
pub type Slot = u32;

/// A reason why a manager cannot go on, in words.
pub type Refusal = String;

/// The manager of a device.
pub struct Manager {
    vidmm: VidMm,
    driver: Driver,
    backing: Backing,
    device: DeviceId,
    queue: PagingQueueId,
    context: ContextId,
    /// The allocations by slot; slot 0 has no addresses.
    slots: Vec<Option<AllocationId>>,
    free: Vec<Slot>,
    steps: Vec<Step>,
    log: Option<LogWriter<File>>,
    began: Instant,
    pub local_bytes: u64,
}

/// The reason why ranges are not in place.
#[derive(Debug)]
pub enum UseError {
    /// Local memory has no room for all.
    NoRoom,
    /// The manager cannot go on.
    Lost(Refusal),
}

impl Manager {
    /// A manager of some local memory, a multiple of 64 KiB, that writes a log if there is one.
    pub fn start(local_bytes: u64, policy: PolicyChoice, log: Option<LogWriter<File>>) -> Result<Self, Refusal> {
        let (mut driver, mut backing) = (Driver::new(local_bytes), Backing::default());
        // A Vulkan queue cannot be preempted or reset: nothing is found hung.
        let tdr = TdrOptions { quantum: u64::MAX, ..TdrOptions::default() };
        let options = AdapterOptions { policy, events: log.is_some(), tdr, ..AdapterOptions::default() };
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let mut vidmm = VidMm::start_adapter(options, &mut driver, &mut backing).map_err(|error| words(&error))?;
        let process = vidmm.create_process(&mut driver, &mut backing).map_err(|error| words(&error))?;
        let device = vidmm.create_device(process).map_err(|error| words(&error))?;
        let queue = vidmm.create_paging_queue(device, 0).map_err(|error| words(&error))?;
        let context = vidmm.create_self_scheduled_context(device).map_err(|error| words(&error))?;
        let mut manager = Self {
            vidmm,
            driver,
            backing,
            device,
            queue,
            context,
            slots: vec![None],
            free: Vec::new(),
            steps: Vec::new(),
            log,
            began: Instant::now(),
            local_bytes,
        };
        manager.settle()?;
        Ok(manager)
    }

    /// Creates a range of some bytes, a multiple of 64 KiB and at most [`RANGE_BYTES`].
    pub fn create(&mut self, bytes: u64) -> Result<Slot, Refusal> {
        let slot = self.free.pop().unwrap_or(self.slots.len() as Slot);
        let data = Driver::private_data(slot, bytes);
        let Self { vidmm, driver, backing, device, queue, .. } = self;
        let allocation = vidmm.create_allocation(driver, backing, *device, &data[..]);
        let allocation = allocation.map_err(|error| error.to_string())?;
        if self.slots.len() <= slot as usize {
            self.slots.resize(slot as usize + 1, None);
        }
        self.slots[slot as usize] = Some(allocation);
        let base_address = Some(GpuVirtualAddress(u64::from(slot) * RANGE_BYTES));
        let mapping = MapGpuVirtualAddress { base_address, ..MapGpuVirtualAddress::whole(allocation) };
        vidmm.map_gpu_virtual_address(backing, *queue, &mapping).map_err(|error| error.to_string())?;
        self.settle()?;
        Ok(slot)
    }

    /// Destroys a range. The content is not needed.
    pub fn destroy(&mut self, slot: Slot) -> Result<(), Refusal> {
        let Some(allocation) = self.slots[slot as usize].take() else { return Ok(()) };
        let destroyed = self.vidmm.destroy_allocation(&mut self.backing, allocation, DestroyFlags::empty());
        destroyed.map_err(|error| error.to_string())?;
        self.settle()?;
        self.free.push(slot);
        Ok(())
    }

    /// Brings in what a submission uses: slots, and whether the submission writes there. All is in place behind the [steps](Self::steps), and
    /// stays until another use wants the room.
    pub fn use_ranges(&mut self, uses: &[(Slot, bool)]) -> Result<(), UseError> {
        if uses.is_empty() {
            return Ok(());
        }
        let lost = |error: &dyn std::fmt::Display| UseError::Lost(error.to_string());
        let of = |written: bool| {
            let kind = uses.iter().filter(move |(_, is_written)| *is_written == written);
            Vec::from_iter(kind.filter_map(|&(slot, _)| self.slots[slot as usize]))
        };
        let (read, written) = (of(false), of(true));
        let all = [&read[..], &written].concat();
        match self.vidmm.make_resident(self.queue, &all, MakeResidentFlags::CANT_TRIM_FURTHER) {
            Ok(_) => {}
            Err(MakeResidentError::NoMemory { .. }) => return Err(UseError::NoRoom),
            Err(error) => return Err(lost(&error)),
        }
        let number = self.vidmm.begin_use(self.context).map_err(|error| lost(&error))?;
        if !self.settle().map_err(UseError::Lost)? {
            return Err(UseError::Lost("a use did not begin".to_owned()));
        }
        self.vidmm.end_use(self.context, number).map_err(|error| lost(&error))?;
        for (allocations, flags) in [(&read, READ), (&written, WRITTEN)] {
            if !allocations.is_empty() {
                self.vidmm.evict(self.device, allocations, flags).map_err(|error| lost(&error))?;
            }
        }
        self.settle().map_err(UseError::Lost)?;
        Ok(())
    }

    /// The steps since the last call, in their order.
    pub fn steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// The counters so far.
    pub fn statistics(&self) -> Statistics {
        self.vidmm.statistics()
    }

    /// Ends the log.
    pub fn end_log(&mut self) -> Result<(), Refusal> {
        self.write_events();
        let ended = self.log.take().map(LogWriter::finish).transpose();
        ended.map(|_| ()).map_err(|error| format!("the log of events: {error}"))
    }

    /// Polls until nothing is left to do. Returns whether a use has begun.
    fn settle(&mut self) -> Result<bool, Refusal> {
        let mut has_begun = false;
        loop {
            let now = self.began.elapsed().as_nanos() as u64;
            let Some(output) = self.vidmm.poll(now, &mut self.driver, &mut self.backing) else { break };
            match output {
                Output::Submit(Packet { signal, buffer, .. }) => {
                    if signal.engine == PAGING_ENGINE {
                        self.steps.extend(Step::read(buffer.commands()));
                    }
                    self.vidmm.handle_completed(signal, buffer);
                }
                Output::UseBegun { .. } => has_begun = true,
                Output::AdapterInError(violation) => return Err(violation.to_string()),
                _ => {}
            }
        }
        self.write_events();
        Ok(has_begun)
    }

    fn write_events(&mut self) {
        if let Some(log) = &mut self.log {
            self.vidmm.events().drain().for_each(|event| log.event(&event));
        }
    }
}

#[cfg(test)]
mod tests {
    use vidmm::policy::PolicyChoice;

    use super::{Manager, UseError};
    use crate::driver::{PAGE_BYTES, RANGE_BYTES, RANGE_PAGES, Step};

    /// The pages of each slot as the steps leave them.
    fn placed(steps: &[Step], pages: &mut [[Option<u64>; RANGE_PAGES]]) {
        for step in steps {
            if let Step::Place { at, bytes, local } = *step {
                for offset in (0..bytes).step_by(PAGE_BYTES as usize) {
                    let (slot, page) = ((at + offset) / RANGE_BYTES, (at + offset) % RANGE_BYTES / PAGE_BYTES);
                    if let Some(pages) = pages.get_mut(slot as usize) {
                        pages[page as usize] = local.map(|local| local + offset);
                    }
                }
            }
        }
    }

    #[test]
    fn used_ranges_are_in_place_and_content_goes_home_before_another_takes_the_place() {
        let mut manager = Manager::start(2 * RANGE_BYTES, PolicyChoice::LRU, None).unwrap();
        let slots = [RANGE_BYTES, RANGE_BYTES, PAGE_BYTES].map(|bytes| manager.create(bytes).unwrap());
        let mut pages = [[None; RANGE_PAGES]; 4];
        for round in 0..4 {
            for (at, slot) in slots.into_iter().enumerate() {
                manager.use_ranges(&[(slot, round < 2)]).unwrap();
                let steps = manager.steps();
                placed(&steps, &mut pages);
                let count = if at < 2 { RANGE_PAGES } else { 1 };
                assert!(pages[slot as usize][..count].iter().all(Option::is_some), "{steps:?}");
                let is_out = |step: &Step| matches!(step, Step::PageOut { .. });
                // Content that was only read since the range came in does not go out.
                assert!(round < 3 || !steps.iter().any(is_out), "{steps:?}");
                if let Some(last_out) = steps.iter().rposition(is_out) {
                    let is_in = |step: &Step| matches!(step, Step::PageIn { .. } | Step::Fill { .. });
                    assert!(steps[last_out..].iter().any(is_in), "{steps:?}");
                }
            }
        }
        let mut places = Vec::from_iter(pages.iter().flatten().flatten());
        let all = places.len();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), all, "no place has two pages");
        assert!(manager.statistics().page_ins > 3);
    }

    #[test]
    fn a_use_of_more_than_all_is_refused_and_changes_nothing() {
        let mut manager = Manager::start(RANGE_BYTES, PolicyChoice::PREDICT, None).unwrap();
        let slots = [RANGE_BYTES, RANGE_BYTES].map(|bytes| manager.create(bytes).unwrap());
        assert!(matches!(manager.use_ranges(&slots.map(|slot| (slot, true))), Err(UseError::NoRoom)));
        assert_eq!(manager.statistics().page_ins, 0);
        manager.use_ranges(&[(slots[1], true)]).unwrap();
        manager.destroy(slots[1]).unwrap();
        let again = manager.create(RANGE_BYTES).unwrap();
        assert_eq!(again, slots[1]);
        manager.use_ranges(&[(again, false)]).unwrap();
    }
}
