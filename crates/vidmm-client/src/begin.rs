//! The allocations of a submission are made resident.

use alloc::vec::Vec;

use super::{
    managed::{Forgotten, Managed, State},
    manager::{Ladder, ResidencyManager},
    set::ResidencySet,
    uses::{QueueNo, UseNo, renumbered},
};
use vidmm::{
    EvictError, EvictFlags, MakeResidentError, MakeResidentFlags, MonitoredFenceId, Residency, Shortage, VidMm,
};

/// The most allocations of one MakeResident. A request is granted as a whole: the first batch is on the way while room is made
/// for the second batch.
const BATCH: usize = 256;

/// A submission's allocations are on the device's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The value of the paging queue's fence from which on all allocations can be used; 0 is at once. Work submitted to the
    /// same device waits without your help.
    pub paging_fence_value: u64,
}

/// The reason why a submission cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BeginSubmissionError {
    /// A member of the set is not managed.
    #[error(transparent)]
    Forgotten(#[from] Forgotten),
    /// Memory has no room, or the device is in error.
    #[error(transparent)]
    MakeResident(#[from] MakeResidentError),
    /// A foreign call evicted allocations of the manager.
    #[error(transparent)]
    Evict(#[from] EvictError),
}

impl ResidencyManager {
    /// Makes `set` resident, for a submission that signals `fence` at the end. Submit the work next, and call
    /// [`submitted`](Self::submitted); nothing of the set is evicted in between, except by [`trim`](Self::trim).
    ///
    /// Each queue of the device has a fence of its own, in any order; an unknown fence is a new queue. From the call on, the
    /// [written](ResidencySet::written) members count as written, even if nothing is submitted.
    ///
    /// A second begin of an unchanged set for the same fence costs constant time. Otherwise each member is stamped, and members
    /// outside of the list are made resident, 256 by 256.
    ///
    /// # Errors
    ///
    /// [`MakeResidentError::NoMemory`] if memory has no room for the set. With [`Ladder::Trim`] everything else was evicted
    /// before. With [`Ladder::PassUp`] the list is unchanged, and the shortages name the bytes to evict for the whole set
    /// ([`make_room`](Self::make_room)).
    pub fn begin_submission(
        &mut self,
        vidmm: &mut VidMm,
        fence: MonitoredFenceId,
        set: &mut ResidencySet,
    ) -> Result<Ready, BeginSubmissionError> {
        let ready = |manager: &Self| Ready { paging_fence_value: manager.paging_fence_value };
        let queue = self.uses.queue(fence);
        if set.begun == Some(self.begun()) && self.uses.can_go_on(queue) {
            self.uses.is_open = true;
            return Ok(ready(self));
        }
        let number = self.open_use(queue);
        let mut missing = core::mem::take(&mut self.missing);
        let brought_in = self.stamp(set, queue, &mut missing).and_then(|()| self.bring_in(vidmm, &missing, number));
        missing.clear();
        self.missing = missing;
        self.uses.is_open = brought_in.is_ok();
        brought_in?;
        if let Some(chosen) = &mut self.chosen {
            chosen.begun();
        }
        for managed in set.written() {
            self.table.states_mut()[managed.index()] |= State::WRITTEN;
        }
        set.begun = Some(self.begun());
        Ok(ready(self))
    }

    /// Opens a use. When numbers run out, every set counts as changed.
    fn open_use(&mut self, queue: QueueNo) -> UseNo {
        if let Some(number) = self.uses.open(queue) {
            return number;
        }
        let by = self.uses.renumber();
        self.order.renumber(|number| renumbered(number, by));
        self.departures += 1;
        self.uses.open(queue).expect("half of the numbers are free again")
    }

    /// Stamps the members on the list, and collects the missing members.
    fn stamp(
        &mut self,
        set: &ResidencySet,
        queue: QueueNo,
        missing: &mut Vec<Managed>,
    ) -> Result<(), BeginSubmissionError> {
        let number = self.uses.last;
        let stamps = self.uses.stamps_mut(queue, self.table.len());
        for &managed in set.members() {
            match self.table.is_listed(managed.index() as u32) {
                true => stamps[managed.index()] = number,
                false => missing.push(managed),
            }
        }
        missing
            .iter()
            .try_for_each(|&managed| self.table.get(managed).map(drop).map_err(BeginSubmissionError::from))?;
        if let Some(chosen) = &mut self.chosen {
            let table = &self.table;
            let members = set.members().iter().map(|managed| managed.index() as u32);
            chosen.used(members.map(|index| (index, table.at(index).allocation, table.at(index).size)));
        }
        Ok(())
    }

    fn bring_in(&mut self, vidmm: &mut VidMm, missing: &[Managed], number: UseNo) -> Result<(), BeginSubmissionError> {
        for (batch_no, batch) in missing.chunks(BATCH).enumerate() {
            let Err(error) = self.bring_in_batch(vidmm, batch, number) else { continue };
            return match self.ladder {
                Ladder::Trim => Err(error),
                Ladder::PassUp => {
                    let (before, after) = missing.split_at(batch_no * BATCH);
                    self.undo(vidmm, before)?;
                    Err(self.with_the_rest(vidmm, error, after.get(BATCH..).unwrap_or_default()))
                }
            };
        }
        Ok(())
    }

    /// Makes one batch resident, by the steps of the ladder.
    fn bring_in_batch(
        &mut self,
        vidmm: &mut VidMm,
        batch: &[Managed],
        number: UseNo,
    ) -> Result<(), BeginSubmissionError> {
        let allocations: Vec<_> =
            batch.iter().map(|managed| self.table.at(managed.index() as u32).allocation).collect();
        let mut flags = MakeResidentFlags::empty();
        let residency = loop {
            let error = match vidmm.make_resident(self.paging_queue, &allocations, flags) {
                Ok(residency) => break residency,
                Err(error) => error,
            };
            let last_step = self.ladder == Ladder::PassUp || flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER);
            let shortages = match &error {
                MakeResidentError::NoMemory { shortages, .. } if !last_step => shortages,
                _ => return Err(error.into()),
            };
            let trimmed = self.evict_missing(vidmm, shortages, EvictFlags::EVICT_ONLY_IF_NECESSARY)?;
            if trimmed == 0 {
                flags = MakeResidentFlags::CANT_TRIM_FURTHER;
            }
        };
        if let Residency::Pending { paging_fence_value } = residency {
            self.paging_fence_value = paging_fence_value;
        }
        let stamps = self.uses.stamps_mut(self.uses.last_queue, self.table.len());
        for (managed, &allocation) in batch.iter().zip(&allocations) {
            stamps[managed.index()] = number;
            self.table.states_mut()[managed.index()] = State::LISTED;
            let account = vidmm.query_account(allocation).expect("it was just made resident");
            self.order.join(managed.index() as u32, number, account);
            if let Some(chosen) = &mut self.chosen {
                chosen.join(managed.index() as u32, account);
            }
            self.listed_bytes += self.table.at(managed.index() as u32).size;
        }
        Ok(())
    }

    /// Takes this submission's additions off the list.
    fn undo(&mut self, vidmm: &mut VidMm, batches: &[Managed]) -> Result<(), EvictError> {
        let indices: Vec<u32> = batches.iter().map(|managed| managed.index() as u32).collect();
        self.evict(vidmm, &indices, EvictFlags::EVICT_ONLY_IF_NECESSARY)
    }

    /// The error of one batch, as an error of the whole set: later batches would lack all their bytes.
    fn with_the_rest(&self, vidmm: &VidMm, mut error: BeginSubmissionError, rest: &[Managed]) -> BeginSubmissionError {
        let BeginSubmissionError::MakeResident(MakeResidentError::NoMemory { num_bytes_to_trim, reason, shortages }) =
            &mut error
        else {
            return error;
        };
        // A trim of the whole list would not be enough for the batch.
        let rest = if shortages.is_empty() { &[] } else { rest };
        for managed in rest {
            let record = self.table.at(managed.index() as u32);
            let account = match vidmm.query_account(record.allocation) {
                Ok(account) => account,
                Err(gone) => return MakeResidentError::from(gone).into(),
            };
            *num_bytes_to_trim = num_bytes_to_trim.saturating_add(record.size);
            match shortages.iter_mut().find(|shortage| shortage.account == account) {
                Some(shortage) => shortage.num_bytes_to_trim = shortage.num_bytes_to_trim.saturating_add(record.size),
                None => shortages.push(Shortage { account, num_bytes_to_trim: record.size, reason: *reason }),
            }
        }
        error
    }
}
