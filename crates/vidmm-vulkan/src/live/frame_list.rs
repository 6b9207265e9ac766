//! The part of a device's residency list that its frames have made resident.

use std::collections::BTreeMap;

use vidmm::policy::PolicyChoice;
use vidmm::{
    AllocationId, CreateMonitoredFenceDesc, DeviceId, EvictError, InvalidHandle, MemorySegmentGroup, MonitoredFenceId,
    PagingQueueId, Shortage, TrimFlags, VidMm,
};
use vidmm_client::{BeginSubmissionError, Ladder, ManageFlags, Managed, ResidencyManager, ResidencySet};

use super::error::Error;

/// The list of a device's frames, which keeps itself.
pub(super) struct FrameList {
    manager: ResidencyManager,
    /// The name of the queue of its uses: the numbers of the uses are the fence's values.
    uses: MonitoredFenceId,
    /// With their bytes.
    managed: BTreeMap<AllocationId, (Managed, u64)>,
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
            managed: BTreeMap::new(),
            set: ResidencySet::new(),
        })
    }

    /// Makes buffers resident for a use, which is to be begun next: each with its bytes and whether frames alone write it.
    pub fn bring_in(
        &mut self,
        vidmm: &mut VidMm,
        read: impl IntoIterator<Item = FrameMember>,
        written: impl IntoIterator<Item = FrameMember>,
    ) -> Result<(), Error> {
        self.set.clear();
        for member in read {
            let managed = self.manage(member);
            self.set.insert_read(managed);
        }
        for member in written {
            let managed = self.manage(member);
            self.set.insert(managed);
        }
        match self.manager.begin_submission(vidmm, self.uses, &mut self.set) {
            Ok(_) => Ok(()),
            Err(BeginSubmissionError::MakeResident(error)) => Err(error.into()),
            // The worker alone evicts what frames have brought in, and forgets what is destroyed.
            Err(error) => Err(Error::Lost(error.to_string())),
        }
    }

    fn manage(&mut self, FrameMember { allocation, bytes, is_written_by_others }: FrameMember) -> Managed {
        let mut flags = ManageFlags::empty();
        flags.set(ManageFlags::WRITTEN_BY_OTHERS, is_written_by_others);
        self.managed.entry(allocation).or_insert_with(|| (self.manager.manage(allocation, bytes, flags), bytes)).0
    }

    /// Uses that no frame announces may write an allocation from now on.
    pub fn expect_other_writers(&mut self, allocation: AllocationId) {
        if let Some(&(managed, _)) = self.managed.get(&allocation) {
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

    /// An allocation is destroyed.
    pub fn forget(&mut self, allocation: AllocationId) {
        if let Some((managed, _)) = self.managed.remove(&allocation) {
            // It is managed until it is forgotten here.
            let _ = self.manager.forget(managed);
        }
    }

    /// Answers a trim notification. Returns the bytes that leave: of what the application has on its own list too, as `is_listed` says,
    /// nothing does.
    pub fn trim(
        &mut self,
        vidmm: &mut VidMm,
        mut flags: TrimFlags,
        group: Option<MemorySegmentGroup>,
        num_bytes_to_trim: u64,
        is_listed: impl Fn(AllocationId) -> bool,
    ) -> Result<u64, EvictError> {
        let mut leave = 0;
        loop {
            let twice =
                self.managed.iter().filter(|&(&id, &(managed, _))| self.manager.is_listed(managed) && is_listed(id));
            let twice: Vec<(Managed, u64)> = twice.map(|(_, &managed)| managed).collect();
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
    pub fn has(&self, allocation: AllocationId) -> bool {
        self.managed.get(&allocation).is_some_and(|&(managed, _)| self.manager.is_listed(managed))
    }

    /// Lets an allocation go.
    pub fn release(&mut self, vidmm: &mut VidMm, allocation: AllocationId) -> Result<(), EvictError> {
        match self.managed.get(&allocation) {
            Some(&(managed, _)) => self.manager.release(vidmm, managed),
            None => Ok(()),
        }
    }

    /// Gives up by the policy what a refusal misses of a memory. Returns whether there was anything.
    pub fn make_room(&mut self, vidmm: &mut VidMm, shortages: &[Shortage]) -> Result<bool, EvictError> {
        Ok(self.manager.make_room(vidmm, shortages)? > 0)
    }
}

/// A buffer that a frame uses.
#[derive(Clone, Copy)]
pub(super) struct FrameMember {
    pub allocation: AllocationId,
    pub bytes: u64,
    /// Uses that no frame announces may write it.
    pub is_written_by_others: bool,
}
