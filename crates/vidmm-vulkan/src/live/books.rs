//! The books that an application's side keeps of a device: what is on its list, and which points were promised.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vidmm::AllocationId;

use crate::device::Point;

use super::client::Client;
use super::command::{Command, FrameAllocations, NewDevice, Submission, Turn};
use super::error::Error;
use super::names::Names;
use super::owner::ProcessInner;
use super::uses::{Download, Use};

/// The allocations that a use names.
pub(super) enum Named {
    /// They are on the device's own list.
    Listed(Vec<AllocationId>),
    /// They are brought in, and others leave for them.
    Frame(FrameAllocations),
}

/// The uses of a device that may be under way: the manager queues that many (D14), less those that the queue has got.
const USES_MAX: usize = 4096;

/// A device without its handles: all that it has asked for, in order.
pub(super) struct DeviceInner {
    process: Arc<ProcessInner>,
    pub new: NewDevice,
    /// Uses that were begun and have not ended; the worker counts down.
    uses: Arc<AtomicUsize>,
    line: Mutex<Line>,
}

/// The application's requests so far. Commands are sent under its lock, in the order of their points.
pub(super) struct Line {
    pub ready: u64,
    done: u64,
    /// The allocations on the residency list, and how often each was put there. What frames bring in is not among them.
    pub listed: BTreeMap<AllocationId, u32>,
    pub offered: BTreeSet<AllocationId>,
}

impl DeviceInner {
    pub(super) fn create(process: Arc<ProcessInner>) -> Result<Arc<Self>, Error> {
        let uses = Arc::new(AtomicUsize::new(0));
        let (id, counter) = (process.id(), uses.clone());
        let create = |reply| Command::CreateDevice { process: id, uses: counter, reply };
        let new = process.client().ask(create)?;
        let line =
            Line { ready: new.ready.value, done: new.done.value, listed: BTreeMap::new(), offered: BTreeSet::new() };
        Ok(Arc::new(Self { process, new, uses, line: Mutex::new(line) }))
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        self.process.client()
    }

    pub(super) fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An allocation is gone.
    pub(super) fn forget(&self, allocation: AllocationId) {
        let mut line = self.line();
        line.listed.remove(&allocation);
        line.offered.remove(&allocation);
        drop(line);
        self.client().names.forget(allocation);
    }

    pub(super) fn ready(&self, value: u64) -> Point {
        Point { value, ..self.new.ready }
    }

    fn done(&self, value: u64) -> Point {
        Point { value, ..self.new.done }
    }

    /// Begins a use of what is named, if that can be used: `turn` says what happens at its turn. The lock is held from before
    /// the command is made until it is sent.
    fn begin_at_turn(&self, named: Named, turn: impl FnOnce(&mut Line) -> Turn) -> Result<(), Error> {
        let device = self.new.device;
        match named {
            Named::Listed(names) => self.send_use(|line| {
                line.check_listed(&names, &self.client().names)?;
                let turn = turn(line);
                self.client().send(Command::Begin { device, turn })
            }),
            Named::Frame(allocations) => {
                let answer = self.send_use(|line| {
                    for named in allocations.read.iter().chain(&allocations.written) {
                        line.check_not_offered(&[named.resource], &self.client().names)?;
                    }
                    let turn = turn(line);
                    self.client().begin_asking(|reply| Command::BeginFrame { device, allocations, turn, reply })
                })?;
                // The worker counts down uses that it has let begin.
                self.client().finish_asking(&answer).inspect_err(|_| _ = self.uses.fetch_sub(1, Ordering::Relaxed))
            }
        }
    }

    /// Counts one use more, and sends it. If it is refused, nothing was begun.
    fn send_use<T>(&self, send: impl FnOnce(&mut Line) -> Result<T, Error>) -> Result<T, Error> {
        let mut line = self.line();
        let uses = self.uses.fetch_add(1, Ordering::Relaxed);
        let (ready, done) = (line.ready, line.done);
        let sent = if uses < USES_MAX { send(&mut line) } else { Err(Error::TooManyUses { uses }) };
        if sent.is_err() {
            self.uses.fetch_sub(1, Ordering::Relaxed);
            (line.ready, line.done) = (ready, done);
        }
        sent
    }

    /// Begins a use that the application submits by itself.
    pub(super) fn begin_use(&self, named: Named) -> Result<Use, Error> {
        let number = self.client().number_use();
        let mut at = 0;
        self.begin_at_turn(named, |line| {
            at = line.next_ready();
            Turn::Application { number, ready: at }
        })?;
        Ok(Use::new(self.client().clone(), number, self.ready(at)))
    }

    fn begin_here(&self, named: Named, turn: impl FnOnce(u64) -> Turn) -> Result<Point, Error> {
        let mut at = 0;
        self.begin_at_turn(named, |line| {
            at = line.next_done();
            turn(at)
        })?;
        Ok(self.done(at))
    }

    /// Submits commands at their turn. Returns the point of their end.
    pub(super) fn submit(&self, named: Named, work: Submission) -> Result<Point, Error> {
        self.begin_here(named, |done| Turn::Submit { work, done })
    }

    /// Writes bytes to a buffer, in which they lie. Returns the point from which on they are there.
    pub(super) fn write(&self, named: Named, buffer: AllocationId, offset: u64, bytes: &[u8]) -> Result<Point, Error> {
        let bytes = bytes.to_vec();
        self.begin_here(named, |done| Turn::Write { buffer, offset, bytes, done })
    }

    /// Reads bytes of a buffer, in which they lie.
    pub(super) fn read(&self, named: Named, buffer: AllocationId, offset: u64, bytes: u64) -> Result<Download, Error> {
        let (to, from) = channel();
        self.begin_here(named, |done| Turn::Read { buffer, offset, bytes, done, to })?;
        Ok(Download::new(self.client().clone(), from))
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        // On an adapter that is lost all devices go with it.
        let _ = self.client().send(Command::DestroyDevice(self.new.device));
    }
}

impl Line {
    /// The next point that the worker signals.
    fn next_ready(&mut self) -> u64 {
        self.ready += 1;
        self.ready
    }

    /// The next point that the queue signals.
    fn next_done(&mut self) -> u64 {
        self.done += 1;
        self.done
    }

    /// Refuses a use of allocations that are not resident.
    fn check_listed(&self, allocations: &[AllocationId], names: &Names) -> Result<(), Error> {
        match allocations.iter().find(|&allocation| !self.listed.contains_key(allocation)) {
            Some(&allocation) => Err(Error::NotResident { allocation: names.of(allocation) }),
            None => self.check_not_offered(allocations, names),
        }
    }

    /// Refuses a use of allocations that are offered.
    pub(super) fn check_not_offered(&self, allocations: &[AllocationId], names: &Names) -> Result<(), Error> {
        match allocations.iter().find(|&allocation| self.offered.contains(allocation)) {
            Some(&allocation) => Err(Error::Offered { allocation: names.of(allocation) }),
            None => Ok(()),
        }
    }

    /// Refuses to reclaim allocations that are not offered.
    pub(super) fn check_offered(&self, allocations: &[AllocationId], names: &Names) -> Result<(), Error> {
        match allocations.iter().find(|&allocation| !self.offered.contains(allocation)) {
            Some(&allocation) => Err(Error::NotOffered { allocation: names.of(allocation) }),
            None => Ok(()),
        }
    }

    /// Takes allocations off the list, each as often as it is named; or none of them.
    pub(super) fn count_out(&mut self, allocations: &[AllocationId], names: &Names) -> Result<(), Error> {
        let mut after = BTreeMap::new();
        for &allocation in allocations {
            let listed = self.listed.get(&allocation).copied().unwrap_or_default();
            let count: &mut u32 = after.entry(allocation).or_insert(listed);
            *count = count.checked_sub(1).ok_or_else(|| Error::NotOnList { allocation: names.of(allocation) })?;
        }
        self.listed.extend(after);
        self.listed.retain(|_, count| *count > 0);
        Ok(())
    }
}
