//! Devices that wait for their turn, by the event log: suspended for want of memory, with work or a request to go on with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use serde::Serialize;
use vidmm::event::SuspendReason;
use vidmm::{ContextId, DeviceId, Event, MonitoredFenceId, Nanoseconds, NumberedEvent, PagingQueueId};

/// A wait that is longer is reported, in nanoseconds.
const LONG: Nanoseconds = 1_000_000_000;

/// The most devices that one report names.
const MOST_NAMED: usize = 3;

/// The longest wait of a device for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TurnWait {
    /// The device.
    pub device: String,
    /// The start of the wait, in nanoseconds.
    pub since_ns: Nanoseconds,
    /// The length of the wait, in nanoseconds; none if the device waits at the end, and nothing is to come.
    pub waited_ns: Option<Nanoseconds>,
    /// The devices with a turn when the wait began.
    pub behind: Vec<String>,
}

impl fmt::Display for TurnWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, since_ns, waited_ns, behind } = self;
        let seconds = |ns: Nanoseconds| ns as f64 / 1e9;
        match waited_ns {
            Some(waited_ns) => write!(f, "{device} waited {:.3} s for its turn", seconds(*waited_ns))?,
            None => write!(f, "{device} waits for its turn for ever")?,
        }
        write!(f, ", from {:.3} s on", seconds(*since_ns))?;
        if behind.is_empty() {
            return Ok(());
        }
        write!(f, ", behind {}", behind[..behind.len().min(MOST_NAMED)].join(", "))?;
        match behind.len().saturating_sub(MOST_NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// A submission that is not dispatched: its number, and the fence values that it waits for.
type Queued = (u64, Vec<(MonitoredFenceId, u64)>);

/// A device with something to do.
#[derive(Debug, Default)]
struct Turn {
    /// Whether the device is destroyed or in error.
    is_gone: bool,
    requests: BTreeSet<(PagingQueueId, u64)>,
    submissions: BTreeMap<ContextId, VecDeque<Queued>>,
    /// Whether the device has yielded for want of memory, and the device that wants the memory.
    yielded: Option<Option<DeviceId>>,
    /// The start of the present wait, and the devices with a turn then.
    waits: Option<(Nanoseconds, Vec<DeviceId>)>,
    /// The longest wait that has ended, with its length.
    longest: Option<(Nanoseconds, Nanoseconds, Vec<DeviceId>)>,
}

impl Turn {
    fn end(&mut self, at: Nanoseconds) {
        let Some((since, behind)) = self.waits.take() else { return };
        if self.longest.as_ref().is_none_or(|(_, longest, _)| at - since > *longest) {
            self.longest = Some((since, at - since, behind));
        }
    }
}

/// The turns of all devices.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    turns: BTreeMap<DeviceId, Turn>,
    /// Whether nothing is to come by itself: a device that waits does so for ever.
    pub is_stuck: bool,
    fences: BTreeMap<MonitoredFenceId, u64>,
}

impl Turns {
    pub fn observe(&mut self, event: &NumberedEvent) {
        let at = event.at;
        match event.event {
            Event::DeviceCreated { device, .. } => drop(self.turns.insert(device, Turn::default())),
            Event::DeviceDestroyed { device, .. } | Event::DeviceInError { device, .. } => {
                let turn = self.turn(device);
                turn.end(at);
                *turn = Turn { is_gone: true, longest: turn.longest.take(), ..Turn::default() };
            }
            Event::MakeResident { device, queue, paging_fence_value, .. } if paging_fence_value > 0 => {
                self.turn(device).requests.insert((queue, paging_fence_value));
                self.begin(device, at);
            }
            Event::Granted { device, queue, paging_fence_value, .. } => {
                self.turn(device).requests.remove(&(queue, paging_fence_value));
            }
            Event::Submitted { device, context, submission, ref waits, .. } => {
                let queue = self.turn(device).submissions.entry(context).or_default();
                queue.push_back((submission, waits.clone()));
                self.begin(device, at);
            }
            Event::Dispatched { device, submission, .. } => {
                let queues = self.turn(device).submissions.values_mut();
                queues.for_each(|queue| queue.retain(|&(number, _)| number != submission));
            }
            Event::MonitoredFenceCreated { fence, value, .. } => drop(self.fences.insert(fence, value)),
            Event::MonitoredFenceSignaled { fence, value } => {
                self.fences.insert(fence, value);
                let yielded = self.turns.iter().filter(|(_, turn)| turn.yielded.is_some() && turn.waits.is_none());
                yielded
                    .map(|(&device, _)| device)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|device| self.begin(device, at));
            }
            Event::DeviceYielded { device, reason, wanted_by } => {
                let is_for_memory = !matches!(reason, SuspendReason::ProcessSuspended | SuspendReason::PowerDown);
                self.turn(device).yielded = is_for_memory.then_some(wanted_by);
                self.begin(device, at);
            }
            Event::DeviceResumed { device, .. } => {
                let turn = self.turn(device);
                turn.yielded = None;
                turn.end(at);
            }
            _ => {}
        }
    }

    fn turn(&mut self, device: DeviceId) -> &mut Turn {
        self.turns.entry(device).or_default()
    }

    /// Begins the wait of a device, if the device has yielded for want of memory and has something to do.
    fn begin(&mut self, device: DeviceId, at: Nanoseconds) {
        let fences = &self.fences;
        let is_signaled =
            |&(fence, value): &(MonitoredFenceId, u64)| fences.get(&fence).is_some_and(|&now| now >= value);
        let turn = &self.turns[&device];
        let mut first = turn.submissions.values().filter_map(VecDeque::front);
        let has_work = !turn.requests.is_empty() || first.any(|(_, waits)| waits.iter().all(is_signaled));
        let Some(wanted_by) = turn.yielded.filter(|_| has_work && turn.waits.is_none()) else { return };
        let others =
            self.turns.iter().filter(|&(&other, turn)| other != device && !turn.is_gone && turn.yielded.is_none());
        let behind = wanted_by.map_or_else(|| others.map(|(&other, _)| other).collect(), |wanted_by| vec![wanted_by]);
        self.turn(device).waits = Some((at, behind));
    }

    /// Whether a device waits.
    pub fn has_wait(&self) -> bool {
        self.turns.values().any(|turn| turn.waits.is_some())
    }

    /// The longest wait of each device that waited for long, at the end of a run.
    pub fn long_waits(&self, now: Nanoseconds, name: impl Fn(DeviceId) -> String) -> Vec<TurnWait> {
        let of_device = |(&device, turn): (&DeviceId, &Turn)| {
            let present = turn.waits.clone().map(|(since, behind)| (since, now - since, behind));
            let is_for_ever = self.is_stuck && present.is_some();
            let (since_ns, length, behind) = present.or_else(|| turn.longest.clone())?;
            let waited_ns = (!is_for_ever).then_some(length);
            let behind = behind.into_iter().map(&name).collect();
            (is_for_ever || length > LONG).then(|| TurnWait { device: name(device), since_ns, waited_ns, behind })
        };
        self.turns.iter().filter_map(of_device).collect()
    }
}
