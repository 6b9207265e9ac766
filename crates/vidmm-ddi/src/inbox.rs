//! Reports from threads of the driver's own: they wait here until the thread that calls the driver takes them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::adapter::Notification;

/// The reports to one adapter.
#[derive(Default)]
struct Inbox {
    notifications: Vec<Notification>,
    /// A thread has queued the driver's DPC.
    dpc_is_queued: bool,
}

/// By the address of the adapter.
static INBOXES: Mutex<BTreeMap<usize, Inbox>> = Mutex::new(BTreeMap::new());
static ARRIVED: Condvar = Condvar::new();

fn inboxes() -> MutexGuard<'static, BTreeMap<usize, Inbox>> {
    INBOXES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An adapter may be reported to.
pub(crate) fn open(adapter: usize) {
    inboxes().insert(adapter, Inbox::default());
}

/// No report reaches the adapter any more.
pub(crate) fn close(adapter: usize) {
    inboxes().remove(&adapter);
}

/// Adds a report. Returns whether there is such an adapter.
pub(crate) fn add(adapter: usize, notification: Notification) -> bool {
    let is_there = inboxes().get_mut(&adapter).map(|inbox| inbox.notifications.push(notification)).is_some();
    ARRIVED.notify_all();
    is_there
}

/// Queues the driver's DPC. Returns whether it was not queued yet; none if there is no such adapter.
pub(crate) fn queue_dpc(adapter: usize) -> Option<bool> {
    let was_queued = inboxes().get_mut(&adapter).map(|inbox| std::mem::replace(&mut inbox.dpc_is_queued, true));
    ARRIVED.notify_all();
    was_queued.map(|was_queued| !was_queued)
}

/// Takes what has come in: the reports, and whether the DPC is queued. Waits for a report until `limit`.
pub(crate) fn take(adapter: usize, limit: Duration) -> (Vec<Notification>, bool) {
    let begun = Instant::now();
    let mut inboxes = inboxes();
    loop {
        let Some(inbox) = inboxes.get_mut(&adapter) else { return Default::default() };
        let left = limit.saturating_sub(begun.elapsed());
        if !inbox.notifications.is_empty() || left.is_zero() {
            return (std::mem::take(&mut inbox.notifications), std::mem::take(&mut inbox.dpc_is_queued));
        }
        (inboxes, _) = ARRIVED.wait_timeout(inboxes, left).unwrap_or_else(PoisonError::into_inner);
    }
}
