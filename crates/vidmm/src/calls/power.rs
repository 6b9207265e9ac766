//! Power: everything is saved to system memory before the adapter loses it (P60).

use alloc::vec::Vec;

use crate::{manager::VidMm, schedule::waiting::Power};

/// # Power
impl VidMm {
    /// Prepares the adapter to lose power: no work is dispatched from now on, and when nothing is in flight any more
    /// all resident allocations go to system memory. [`Output::PoweredDown`](crate::Output::PoweredDown) says when that
    /// is done. Calls are accepted meanwhile, and wait.
    pub fn power_down(&mut self) {
        if !self.schedule.turns.begin_power_down() {
            return;
        }
        for device in Vec::from_iter(self.state.objects.devices.iter().map(|(index, _)| index)) {
            self.schedule.halt(&mut self.state, device);
        }
        self.state.moment.request_poll();
    }

    /// Tells that the adapter has power again, with nothing in its memory segment. Page tables are built again, those
    /// of the paging process before any other operation, and lists are brought back. Without a power-down before it
    /// does nothing; one that is still under way ends first.
    pub fn power_up(&mut self) {
        match self.schedule.turns.power {
            Power::Up => {}
            Power::GoingDown => self.schedule.turns.want_power(),
            Power::Down => self.schedule.regain_power(&mut self.state, &mut self.plans),
        }
    }
}
