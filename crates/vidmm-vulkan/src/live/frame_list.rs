//! The part of a device's residency list that its frames have made resident.

use vidmm::policy::PolicyChoice;
use vidmm::{
    CreateMonitoredFenceDesc, DeviceId, EvictError, InvalidHandle, MemorySegmentGroup, MonitoredFenceId, PagingQueueId,
    Shortage, TrimFlags, VidMm,
};
use vidmm_client::{BeginSubmissionError, Ladder, ManageFlags, Managed, ResidencyManager, ResidencySet};

use super::command::{FrameAllocations, NamedRanges};
use super::error::Error;
use super::resources::{ResourceRecord, Resources};

/// The list of a device's frames, which keeps itself.
pub(super) struct FrameList {
    manager: ResidencyManager,
    /// The name of the queue of its uses: the numbers of the uses are the fence's values.
    uses: MonitoredFenceId,
    set: ResidencySet,
}

impl FrameList {
    /// That of a device, whose frames bring in through `queue`, and give up by `policy`.
    pub fn new(
        vidmm: &mut VidMm,
        device: DeviceId,
        queue: PagingQueueId,
        policy: PolicyChoice,
    ) -> Result<Self, InvalidHandle> {
        let uses =
            vidmm.create_monitored_fence(CreateMonitoredFenceDesc { device: Some(device), initial_fence_value: 0 })?;
        Ok(Self {
            manager: ResidencyManager::with_policy(device, queue, Ladder::Trim, policy),
            uses,
            set: ResidencySet::new(),
        })
    }

    /// The bytes of ranges that frames have on the list.
    pub fn listed_bytes(&self) -> u64 {
        self.manager.listed_bytes()
    }

    /// Makes ranges resident for a use, which is to be begun next.
    pub fn bring_in(
        &mut self,
        vidmm: &mut VidMm,
        resources: &mut Resources,
        named: &FrameAllocations,
    ) -> Result<(), Error> {
        self.set.clear();
        for (of, is_written) in [(&named.read, false), (&named.written, true)] {
            for NamedRanges { resource, ranges } in of {
                let Some(record) = resources.get_mut(*resource) else { continue };
                self.manage(record);
                for &managed in &record.managed[ranges.start as usize..ranges.end as usize] {
                    match is_written {
                        true => self.set.insert(managed),
                        false => self.set.insert_read(managed),
                    };
                }
            }
        }
        match self.manager.begin_submission(vidmm, self.uses, &mut self.set) {
            Ok(_) => Ok(()),
            Err(BeginSubmissionError::MakeResident(error)) => Err(error.into()),
            // The worker alone evicts what frames have brought in, and forgets what is destroyed.
            Err(error) => Err(Error::Lost(error.to_string())),
        }
    }

    /// Takes up a resource with its first frame.
    fn manage(&mut self, record: &mut ResourceRecord) {
        if !record.managed.is_empty() {
            return;
        }
        let mut flags = ManageFlags::empty();
        flags.set(ManageFlags::WRITTEN_BY_OTHERS, record.was_listed);
        let manage = |(number, &allocation)| self.manager.manage(allocation, record.range_size(number), flags);
        record.managed = record.allocations.iter().enumerate().map(manage).collect();
    }

    /// Uses that no frame announces may write a resource from now on.
    pub fn expect_other_writers(&mut self, record: &ResourceRecord) {
        for &managed in &record.managed {
            // It is managed until it is forgotten here.
            let _ = self.manager.expect_other_writers(managed);
        }
    }

    /// The use that was brought in for was begun, with this number.
    pub fn begun(&mut self, number: u64) {
        self.manager.submitted(number);
    }

    /// The device's uses up to this number have ended.
    pub fn ended(&mut self, number: u64) {
        self.manager.fence_reached(self.uses, number);
    }

    /// A resource is destroyed.
    pub fn forget(&mut self, record: &ResourceRecord) {
        for &managed in &record.managed {
            // It is managed until it is forgotten here.
            let _ = self.manager.forget(managed);
        }
    }

    /// Answers a trim notification. Returns the bytes that leave: of what the application has `listed` too nothing does.
    pub fn trim(
        &mut self,
        vidmm: &mut VidMm,
        mut flags: TrimFlags,
        group: Option<MemorySegmentGroup>,
        num_bytes_to_trim: u64,
        listed: &[(Managed, u64)],
    ) -> Result<u64, EvictError> {
        let mut leave = 0;
        loop {
            let twice = listed.iter().filter(|&&(managed, _)| self.manager.is_listed(managed));
            let twice: Vec<(Managed, u64)> = twice.copied().collect();
            let evicted = self.manager.trim_notification(vidmm, flags, group, num_bytes_to_trim - leave)?;
            let given_up = twice.into_iter().filter(|&(managed, _)| !self.manager.is_listed(managed));
            let stay: u64 = given_up.map(|(_, bytes)| bytes).sum();
            leave += evicted.saturating_sub(stay);
            if stay == 0 || leave >= num_bytes_to_trim {
                return Ok(leave);
            }
            flags = TrimFlags::TRIM_TO_BUDGET;
        }
    }

    /// Whether frames have an allocation on the device's list.
    pub fn has(&self, managed: Managed) -> bool {
        self.manager.is_listed(managed)
    }

    /// Lets an allocation go.
    pub fn release(&mut self, vidmm: &mut VidMm, managed: Managed) -> Result<(), EvictError> {
        self.manager.release(vidmm, managed)
    }

    /// Gives up by the policy what a refusal misses of a memory. Returns whether there was anything.
    pub fn make_room(&mut self, vidmm: &mut VidMm, shortages: &[Shortage]) -> Result<bool, EvictError> {
        Ok(self.manager.make_room(vidmm, shortages)? > 0)
    }
}
