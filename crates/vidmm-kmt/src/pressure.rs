//! Pressure beside the manager's own: faults by request, and late values of paging fences.

use vidmm_runtime::mixed;

use crate::call::Reply;
use crate::faults::FaultKind;
use crate::objects::{Issued, Issuer, Object, PagingQueue};
use crate::session::Session;

/// The longest delay of a paging fence's value, in nanoseconds.
const LATE_MAX: u64 = 5_000_000;

/// The length of a suspension, in nanoseconds.
const SUSPENSION: u64 = 10_000_000;

impl Session {
    /// Whether a fault strikes at this occasion.
    pub(crate) fn strikes(&mut self, kind: FaultKind) -> bool {
        let of_kind = self.faults.iter_mut().filter(|&&mut (of, _)| of == kind);
        // Each fault of the kind has its occasion, also when another strikes.
        let strikes = of_kind.fold(false, |strikes, (_, occasions)| occasions.strike() | strikes);
        if strikes {
            *self.struck.entry(kind).or_default() += 1;
        }
        strikes
    }

    /// The value of a paging queue's fence that the client is to wait for before work uses the allocations; 0 is none. `of_manager` is the
    /// value of the manager's own.
    pub(crate) fn issue(
        &mut self,
        paging_queue: u32,
        function: &'static str,
        allocations: &[u32],
        of_manager: u64,
    ) -> Result<u64, Reply> {
        let is_late = self.strikes(if of_manager == 0 { FaultKind::Pending } else { FaultKind::Late });
        if of_manager == 0 && !is_late {
            return Ok(0);
        }
        let delay = if is_late { 1 + mixed(self.settings.seed ^ mixed(self.call)) % LATE_MAX } else { 0 };
        let not_before = self.now() + delay;
        let of = Issuer { function, call: self.call, allocations: allocations.to_vec() };
        let queue = self.object::<PagingQueue>(paging_queue)?;
        queue.last += 1;
        let (value, slot) = (queue.last, queue.slot);
        queue.issued.push_back(Issued { value, of, of_manager, not_before });
        self.promised[slot] = value;
        self.unshown.insert(paging_queue);
        Ok(value)
    }

    /// Shows the values of paging fences that are reached. Returns whether there were any.
    pub(crate) fn show_paging_fences(&mut self) -> bool {
        if self.unshown.is_empty() {
            return false;
        }
        let (now, mut shown) = (self.now(), Vec::new());
        for handle in Vec::from_iter(self.unshown.iter().copied()) {
            let Ok(Object::PagingQueue(queue)) = self.handles.get_mut(handle) else { continue };
            let mut reached = None;
            while let Some(next) = queue.issued.front()
                && next.of_manager <= queue.reached
                && next.not_before <= now
            {
                reached = Some(next.value);
                queue.issued.pop_front();
            }
            shown.extend(reached.map(|value| (queue.slot, queue.shown, value)));
            if queue.issued.is_empty() {
                self.unshown.remove(&handle);
            }
        }
        for &(slot, fence, value) in &shown {
            self.set_value(slot, value);
            // A device that is in error has no fences any more.
            let _ = self.runtime.vidmm().signal_monitored_fence(fence, value);
        }
        !shown.is_empty()
    }

    /// Suspends the client's process for some time.
    pub(crate) fn suspend(&mut self) {
        let process = self.process;
        self.runtime.vidmm().suspend_process(process, false).expect("the process lives as long as the session");
        self.suspended_until = Some(self.now() + SUSPENSION);
    }

    /// Ends a suspension whose time is over. Returns whether it did.
    pub(crate) fn resume(&mut self) -> bool {
        if self.suspended_until.is_none_or(|until| until > self.now()) {
            return false;
        }
        self.suspended_until = None;
        let process = self.process;
        self.runtime.vidmm().resume_process(process).expect("the process lives as long as the session");
        true
    }

    /// Asks each device of the client that has registered for notifications to trim half of its list.
    pub(crate) fn trim_by_fault(&mut self) {
        for handle in Vec::from_iter(self.notifications.values().copied()) {
            let Ok(Object::TrimNotification(of)) = self.handles.get(handle) else { continue };
            let device = of.device;
            let half = self.listed(device).map(|(_, of)| of.size).sum::<u64>() / 2;
            self.ask_to_trim(handle, vidmm::TrimFlags::TRIM_TO_BUDGET.bits(), half);
        }
    }
}
