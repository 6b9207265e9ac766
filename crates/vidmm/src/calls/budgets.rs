//! Budgets: queries, reservations, priorities, notifications (RES-50..RES-57).

use alloc::vec::Vec;

use crate::{
    budget::{MemoryAccount, MemorySegmentGroup, PriorityBand, VideoMemoryInfo, Visibility, account::Account},
    event::{Event, error::ReservationError},
    id::{AllocationId, InvalidHandle, ProcessId, ProcessIx},
    manager::VidMm,
    memory::Memory,
    objects::{Objects, allocation::Allocation},
    schedule::trims,
    shares::Shares,
};

/// # Budgets
impl VidMm {
    /// Returns the process's budget of a group, its usage and its reservation (RES-51).
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "D3DKMTQueryVideoMemoryInfo")]
    pub fn query_video_memory_info(
        &self,
        process: ProcessId,
        group: MemorySegmentGroup,
    ) -> Result<VideoMemoryInfo, InvalidHandle> {
        let index = self.state.objects.processes.lookup(process)?;
        let mut info = VideoMemoryInfo::default();
        for account in self.state.adapter.accounts_in(group) {
            let shares = &self.state.shares.by_account[account];
            let share = shares.get(index);
            info.budget = info.budget.saturating_add(shares.published_budget(index));
            info.current_usage += shares.usage(index) - offered_usage(&self.state.objects, index, account);
            info.current_reservation += share.reservation;
            let available = available_for_reservation(&self.state.memory, &self.state.shares, index, account);
            info.available_for_reservation = info.available_for_reservation.saturating_add(available);
            info.requested += shares.requested(index);
        }
        Ok(info)
    }

    /// The memory in which its device's list counts an allocation, or counts it again when it is reclaimed; for one that is on no list,
    /// the memory in which it was counted last, or is tried first. What a refusal misses of a memory is trimmed of what counts
    /// there ([`Shortage`](crate::Shortage)).
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    pub fn query_account(&self, allocation: AllocationId) -> Result<MemoryAccount, InvalidHandle> {
        let index = self.state.objects.lookup_allocation(allocation)?;
        Ok(self.state.adapter.memory_account(self.state.objects[index].counted_in()))
    }

    /// Sets the minimum that the process cannot go without (RES-52): its budget is never below it, and others' lists do not
    /// take it away. It does not raise the budget above that.
    ///
    /// # Errors
    ///
    /// If that is more than the process can reserve: all processes together reserve at most half of a group (U-31).
    #[doc(alias = "D3DKMTChangeVideoMemoryReservation")]
    pub fn change_video_memory_reservation(
        &mut self,
        process: ProcessId,
        group: MemorySegmentGroup,
        reservation: u64,
    ) -> Result<(), ReservationError> {
        let index = self.state.objects.processes.lookup(process)?;
        let available = |account| available_for_reservation(&self.state.memory, &self.state.shares, index, account);
        let parts = self.state.adapter.accounts_in(group).map(|account| (account, available(account)));
        let parts = Vec::from_iter(parts);
        let available_for_reservation = parts.iter().map(|&(_, available)| available).fold(0, u64::saturating_add);
        if reservation > available_for_reservation {
            return Err(ReservationError::TooMuch { available_for_reservation });
        }
        // The group's segments are filled in order.
        let mut left = reservation;
        for (account, available) in parts {
            let part = left.min(available);
            self.state.shares.by_account[account].set_reservation(index, part);
            left -= part;
        }
        self.state.moment.record(|| Event::ReservationChanged { process, group, reservation });
        Ok(())
    }

    /// Lets the budgets of a group be those of one with no more than `bytes` in each of its memories from now on; none lifts that. So
    /// says an owner of the adapter what others, of whom the manager knows nothing, have left of the memory.
    ///
    /// While all processes demand more than so many bytes, those above their budgets are asked to trim (RES-40); and what nothing requires
    /// leaves the memory while more of it is in use. The memory stays: a list that fits beside all others is accepted.
    #[doc(alias = "RestrictBudget")]
    pub fn restrict_budget(&mut self, group: MemorySegmentGroup, bytes: Option<u64>) {
        for account in Vec::from_iter(self.state.adapter.accounts_in(group)) {
            self.state.shares.restrict(&self.state.memory, account, bytes);
        }
        self.state.moment.record(|| Event::BudgetRestricted { group, bytes });
    }

    /// Sets how important a process is to the user, and how visible: its weight in the sharing of memory (RES-53). A
    /// new process is Normal and Visible.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    pub fn set_process_priority(
        &mut self,
        process: ProcessId,
        band: PriorityBand,
        visibility: Visibility,
    ) -> Result<(), InvalidHandle> {
        let index = self.state.objects.processes.lookup(process)?;
        let standing = &mut self.state.objects[index].standing;
        (standing.band, standing.visibility) = (band, visibility);
        let weight = standing.weight();
        let shares = &mut self.state.shares;
        shares.accounts().iter().for_each(|account| shares.by_account[account].set_weight(index, weight));
        self.state.moment.record(|| Event::ProcessPriorityChanged { process, band, visibility });
        Ok(())
    }

    /// Sets whether [`Output::BudgetChanged`](crate::Output::BudgetChanged) is wanted for the process (RES-53). A process that wants it is
    /// told at once of what has changed since it was told last: what it hears from then on is what it can have asked for.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "RegisterVideoMemoryBudgetChangeNotification")]
    pub fn notify_budget_changes(&mut self, process: ProcessId, wanted: bool) -> Result<(), InvalidHandle> {
        let index = self.state.objects.processes.lookup(process)?;
        self.state.shares.set_listening(index, wanted);
        if wanted {
            trims::tell_budgets_of(&mut self.state, index);
        }
        Ok(())
    }
}

/// Bytes of the process's allocations that are resident and offered (U-37).
fn offered_usage(objects: &Objects, process: ProcessIx, account: Account) -> u64 {
    let offered = objects[process].offered.iter().map(|&index| &objects[index]);
    let is_there = |allocation: &&Allocation| allocation.place.is_some_and(|place| place.account() == account);
    offered.filter(is_there).map(|allocation| allocation.size).sum()
}

/// Half of an account can be reserved, by all processes together (U-31).
pub(crate) fn available_for_reservation(memory: &Memory, shares: &Shares, process: ProcessIx, account: Account) -> u64 {
    let account_shares = &shares.by_account[account];
    let others = account_shares.reservation_total() - account_shares.get(process).reservation;
    (memory.list_capacity(account) / 2).saturating_sub(others)
}
