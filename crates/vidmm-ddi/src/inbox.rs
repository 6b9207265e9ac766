//! State for threads of the driver and the thread that calls the driver: reports until the calling thread takes the reports, names of
//! objects, and the interrupt.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::abi::HANDLE;
use crate::adapter::{Notification, last_of_this_thread};
use crate::loaded::Loaded;

/// An adapter, as threads see the adapter.
struct Inbox {
    notifications: Vec<Notification>,
    /// A thread has queued the driver's DPC.
    dpc_is_queued: bool,
    driver: Arc<Loaded>,
    /// Dxgkrnl's names of objects: the index, from 1, is a `D3DKMT_HANDLE`. An address, and 0 once the object is destroyed.
    names: Vec<usize>,
    /// The addresses of acquired objects, by the handle of the release.
    acquired: BTreeMap<usize, usize>,
    /// The handle of the next release.
    next_release: usize,
    /// The power components whose transitions have ended.
    transitions: Vec<u32>,
}

/// The handles of releases begin here, and are so far apart: no name of an object is the handle of a release.
const FIRST_RELEASE: usize = 0x5E1E_0000;
const RELEASE_STRIDE: usize = 16;

/// By the address of the adapter.
static INBOXES: Mutex<BTreeMap<usize, Inbox>> = Mutex::new(BTreeMap::new());
static ARRIVED: Condvar = Condvar::new();
/// Held while the interrupt routine or a synchronized routine runs.
static INTERRUPT: Mutex<()> = Mutex::new(());

thread_local! {
    /// This thread holds the interrupt.
    static HAS_INTERRUPT: Cell<bool> = const { Cell::new(false) };
}

fn inboxes() -> MutexGuard<'static, BTreeMap<usize, Inbox>> {
    INBOXES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An adapter may be reported to.
pub(crate) fn open(adapter: usize, driver: Arc<Loaded>) {
    let (notifications, names, acquired) = (Vec::new(), Vec::new(), BTreeMap::new());
    let (next_release, transitions) = (FIRST_RELEASE, Vec::new());
    let inbox = Inbox { notifications, dpc_is_queued: false, driver, names, acquired, next_release, transitions };
    inboxes().insert(adapter, inbox);
}

/// The driver tells the end of a transition of a power component. Returns whether there is such an adapter.
pub(crate) fn add_transition(adapter: usize, component: u32) -> bool {
    let mut inboxes = inboxes();
    inboxes.get_mut(&adapter).map(|inbox| inbox.transitions.push(component)).is_some()
}

/// Takes the components whose transitions have ended.
pub(crate) fn take_transitions(adapter: usize) -> Vec<u32> {
    inboxes().get_mut(&adapter).map(|inbox| std::mem::take(&mut inbox.transitions)).unwrap_or_default()
}

/// Whether the end of a transition was told.
pub(crate) fn has_transitions(adapter: usize) -> bool {
    inboxes().get(&adapter).is_some_and(|inbox| !inbox.transitions.is_empty())
}

/// No report reaches the adapter any more.
pub(crate) fn close(adapter: usize) {
    inboxes().remove(&adapter);
}

/// The driver of an adapter.
pub(crate) fn driver(adapter: usize) -> Option<Arc<Loaded>> {
    inboxes().get(&adapter).map(|inbox| Arc::clone(&inbox.driver))
}

/// The adapter of a call without a handle: the adapter of this thread, or, for a thread of the driver's, the only adapter.
fn meant(inboxes: &mut BTreeMap<usize, Inbox>) -> Option<&mut Inbox> {
    match last_of_this_thread() {
        Some(adapter) => inboxes.get_mut(&adapter),
        None => inboxes.values_mut().next_back(),
    }
}

/// The driver of a call without a handle.
pub(crate) fn any_driver() -> Option<Arc<Loaded>> {
    meant(&mut inboxes()).map(|inbox| Arc::clone(&inbox.driver))
}

/// Runs `action` while the interrupt routine does not run.
pub(crate) fn synchronized<T>(action: impl FnOnce() -> T) -> T {
    if HAS_INTERRUPT.get() {
        return action();
    }
    let _held = INTERRUPT.lock().unwrap_or_else(PoisonError::into_inner);
    HAS_INTERRUPT.set(true);
    let result = action();
    HAS_INTERRUPT.set(false);
    result
}

/// Names an object of an adapter's driver.
pub(crate) fn name(adapter: usize, object: HANDLE) -> u32 {
    inboxes().get_mut(&adapter).map_or(0, |inbox| {
        inbox.names.push(object.addr());
        inbox.names.len() as u32
    })
}

impl Inbox {
    /// Whether nothing has come in.
    fn is_empty(&self) -> bool {
        self.notifications.is_empty() && !self.dpc_is_queued
    }

    /// The object with a name; none if there is no such object any more.
    fn object(&self, name: u32) -> Option<usize> {
        self.names.get((name as usize).checked_sub(1)?).copied().filter(|&object| object != 0)
    }
}

/// The object with a name, in a call without a handle.
pub(crate) fn object(name: u32) -> Option<HANDLE> {
    let object = meant(&mut inboxes())?.object(name)?;
    Some(std::ptr::without_provenance_mut(object))
}

/// Acquires the object with a name, in a call without a handle. Returns the object, and the handle of the release.
pub(crate) fn acquire(name: u32) -> Option<(HANDLE, HANDLE)> {
    let mut inboxes = inboxes();
    let inbox = meant(&mut inboxes)?;
    let object = inbox.object(name)?;
    let release = inbox.next_release;
    inbox.next_release += RELEASE_STRIDE;
    inbox.acquired.insert(release, object);
    Some((std::ptr::without_provenance_mut(object), std::ptr::without_provenance_mut(release)))
}

/// Releases an acquired object, in a call without an adapter's handle.
///
/// # Errors
///
/// The mistake in the release.
pub(crate) fn release(handle: HANDLE) -> Result<(), &'static str> {
    let mut inboxes = inboxes();
    let inbox = meant(&mut inboxes).ok_or("is of no adapter")?;
    let was_returned = (FIRST_RELEASE..inbox.next_release).contains(&handle.addr())
        && (handle.addr() - FIRST_RELEASE).is_multiple_of(RELEASE_STRIDE);
    let is_acquired = inbox.acquired.remove(&handle.addr()).is_some();
    ARRIVED.notify_all();
    match is_acquired {
        true => Ok(()),
        false if was_returned => Err("was released already, or is of an allocation that is destroyed"),
        false => Err("was not returned by DxgkCbAcquireHandleData"),
    }
}

/// Whether an object of an adapter is acquired.
pub(crate) fn is_acquired(adapter: usize, object: HANDLE) -> bool {
    let is_it = |of: &usize| *of == object.addr();
    inboxes().get(&adapter).is_some_and(|inbox| inbox.acquired.values().any(is_it))
}

/// An object of an adapter is destroyed: a new object may have the address.
pub(crate) fn forget(adapter: usize, object: HANDLE) {
    if let Some(inbox) = inboxes().get_mut(&adapter) {
        inbox.names.iter_mut().filter(|of| **of == object.addr()).for_each(|of| *of = 0);
        inbox.acquired.retain(|_, of| *of != object.addr());
    }
}

/// Adds a report. Returns whether there is such an adapter.
pub(crate) fn add(adapter: usize, notification: Notification) -> bool {
    let is_there = inboxes().get_mut(&adapter).map(|inbox| inbox.notifications.push(notification)).is_some();
    ARRIVED.notify_all();
    is_there
}

/// Queues the driver's DPC. Returns whether the DPC is newly queued; none without an adapter.
pub(crate) fn queue_dpc(adapter: usize) -> Option<bool> {
    let was_queued = inboxes().get_mut(&adapter).map(|inbox| std::mem::replace(&mut inbox.dpc_is_queued, true));
    ARRIVED.notify_all();
    was_queued.map(|was_queued| !was_queued)
}

/// Takes the reports, oldest first.
pub(crate) fn take(adapter: usize) -> Vec<Notification> {
    inboxes().get_mut(&adapter).map(|inbox| std::mem::take(&mut inbox.notifications)).unwrap_or_default()
}

/// Takes the request for the driver's DPC. Returns whether there was one.
pub(crate) fn take_dpc(adapter: usize) -> bool {
    inboxes().get_mut(&adapter).is_some_and(|inbox| std::mem::take(&mut inbox.dpc_is_queued))
}

/// Waits until something comes in, or `limit` has passed.
pub(crate) fn wait(adapter: usize, limit: Duration) {
    let inboxes = inboxes();
    if inboxes.get(&adapter).is_some_and(Inbox::is_empty) {
        drop(ARRIVED.wait_timeout(inboxes, limit).unwrap_or_else(PoisonError::into_inner));
    }
}
