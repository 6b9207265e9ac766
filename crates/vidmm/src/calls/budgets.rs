//! What processes ask and say of their budgets (RES-50..RES-57).

use crate::{
    budget::{MemorySegmentGroup, PriorityBand, VideoMemoryInfo, Visibility},
    error::ReservationError,
    id::{InvalidHandle, ProcessId},
    state::VidMm,
};

impl VidMm {
    /// What the process may use of a group, and what it uses (RES-51).
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
        let _ = (process, group);
        todo!()
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
        let _ = (process, group, reservation);
        todo!()
    }

    /// Says how important a process is to the user, and what of it is seen: its weight in the sharing of memory (RES-53). A
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
        let _ = (process, band, visibility);
        todo!()
    }

    /// Whether [`Output::BudgetChanged`](crate::Output::BudgetChanged) is wanted for the process (RES-53).
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "RegisterVideoMemoryBudgetChangeNotification")]
    pub fn notify_budget_changes(&mut self, process: ProcessId, wanted: bool) -> Result<(), InvalidHandle> {
        let _ = (process, wanted);
        todo!()
    }
}
