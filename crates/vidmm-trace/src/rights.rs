//! The rights of devices to use allocations, from the events of a run.
//!
//! From the moment of an Evict work must not use what it names (RES-20), nor what is offered until it is taken back (RES-62,
//! U-35). Mostly the content is still there, so nothing shows until memory is short. [`Rights`] says so at once: a caller
//! declares what each submission uses, and a use without a right is an [`IllegalUse`].

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use vidmm::{AllocationId, DeviceId, Event, NumberedEvent, ReclaimResult};

/// The lists and offers of a run, followed from its events.
///
/// ```
/// # use vidmm::{AllocationId, DeviceId, Event, EvictFlags, NumberedEvent};
/// # use vidmm_trace::{Rights, EndOfRight};
/// # let (device, allocation) = (DeviceId::from_bits(1), AllocationId::from_bits(1));
/// # let at = |number, event| NumberedEvent { number, at: 0, occurred_at: None, event };
/// let mut rights = Rights::default();
/// rights.declare(device, 1, [allocation]);
/// let submitted = Event::Submitted {
///     device,
/// #   context: vidmm::ContextId::from_bits(1),
///     submission: 1,
/// #   waits: Vec::new(),
/// #   signals: Vec::new(),
///     // ...
/// };
/// let found = rights.observe(&at(7, submitted));
/// assert_eq!(found[0].ended, EndOfRight::NeverResident);
/// ```
#[derive(Debug, Default)]
pub struct Rights {
    /// How often each allocation is on the list of each device.
    lists: BTreeMap<(AllocationId, DeviceId), Listed>,
    /// The allocations that may not be used although a list names them.
    withdrawn: BTreeMap<AllocationId, EndOfRight>,
    /// The allocations that each submission uses which no event has told of yet.
    declared: BTreeMap<(DeviceId, u64), Vec<AllocationId>>,
}

/// An allocation on a device's list.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    count: u64,
    /// The number of the event that took it off.
    evicted: u64,
}

/// The end of a device's right to use an allocation. Numbers are those of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "ended", content = "event", rename_all = "kebab-case")]
pub enum EndOfRight {
    /// An Evict took it off the device's list (RES-20).
    Evict(u64),
    /// An Offer: until it is reclaimed nobody uses it (U-35).
    Offer(u64),
    /// A Reclaim that could not commit its backing store again: it is unusable (RES-66).
    Reclaim(u64),
    /// The device never made it resident (RES-05).
    NeverResident,
}

impl EndOfRight {
    /// The fact that forbids the use.
    pub fn fact(self) -> &'static str {
        match self {
            Self::Evict(_) => "RES-20",
            Self::Offer(_) => "U-35",
            Self::Reclaim(_) => "RES-66",
            Self::NeverResident => "RES-05",
        }
    }
}

impl fmt::Display for EndOfRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evict(event) => write!(f, "the device evicted it in event {event}"),
            Self::Offer(event) => write!(f, "the device offered it in event {event}, and has not reclaimed it"),
            Self::Reclaim(event) => write!(f, "its Reclaim in event {event} answered not-committed"),
            Self::NeverResident => f.write_str("the device has not made it resident"),
        }
    }
}

/// A submission that uses an allocation without a right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IllegalUse {
    /// The device.
    pub device: DeviceId,
    /// The number of the submission within the device.
    pub submission: u64,
    /// The allocation.
    pub allocation: AllocationId,
    /// The reason why the device has no right to it.
    pub ended: EndOfRight,
    /// The number of the event that tells of the submission.
    pub event: u64,
}

impl Rights {
    /// Says which allocations a submission uses, before the event is observed that tells of it. A device whose residency follows from
    /// the references of its DMA buffers has a right to what those name, and declares nothing.
    pub fn declare(&mut self, device: DeviceId, submission: u64, uses: impl IntoIterator<Item = AllocationId>) {
        let declared = self.declared.entry((device, submission)).or_default();
        declared.extend(uses);
        declared.sort_unstable();
        declared.dedup();
    }

    /// Takes note of the next event. Returns the illegal uses of the submission that it tells of.
    pub fn observe(&mut self, event: &NumberedEvent) -> Vec<IllegalUse> {
        let number = event.number;
        match &event.event {
            Event::MakeResident { device, allocations, .. } => {
                allocations.iter().for_each(|&allocation| self.listed(*device, allocation).count += 1);
            }
            Event::Evict { device, allocations, .. } => {
                for &allocation in allocations {
                    let listed = self.listed(*device, allocation);
                    *listed = Listed { count: listed.count.saturating_sub(1), evicted: number };
                }
            }
            Event::Offered { allocations, .. } => {
                self.withdrawn.extend(allocations.iter().map(|&allocation| (allocation, EndOfRight::Offer(number))));
            }
            Event::Reclaimed { allocations, results, .. } => {
                for (allocation, result) in allocations.iter().zip(results) {
                    match result {
                        ReclaimResult::NotCommitted => {
                            self.withdrawn.insert(*allocation, EndOfRight::Reclaim(number));
                        }
                        ReclaimResult::Ok | ReclaimResult::Discarded => {
                            self.withdrawn.remove(allocation);
                        }
                    }
                }
            }
            Event::AllocationReclaimed { allocation } => {
                let devices = DeviceId::from_bits(0)..=DeviceId::from_bits(u64::MAX);
                let of_it = (*allocation, *devices.start())..=(*allocation, *devices.end());
                let names: Vec<_> = self.lists.range(of_it).map(|(&name, _)| name).collect();
                for name in names {
                    self.lists.remove(&name);
                }
                self.withdrawn.remove(allocation);
            }
            Event::DeviceDestroyed { device } => self.lists.retain(|(_, of), _| of != device),
            Event::Submitted { device, submission, .. } => {
                let uses = self.declared.remove(&(*device, *submission)).unwrap_or_default();
                let judge = |allocation| {
                    let ended = self.ended(*device, allocation)?;
                    Some(IllegalUse { device: *device, submission: *submission, allocation, ended, event: number })
                };
                return uses.into_iter().filter_map(judge).collect();
            }
            _ => {}
        }
        Vec::new()
    }

    fn listed(&mut self, device: DeviceId, allocation: AllocationId) -> &mut Listed {
        self.lists.entry((allocation, device)).or_default()
    }

    /// The end of the right that a device has had to an allocation; none if it has it.
    fn ended(&self, device: DeviceId, allocation: AllocationId) -> Option<EndOfRight> {
        match self.lists.get(&(allocation, device)) {
            None => Some(EndOfRight::NeverResident),
            Some(&Listed { count: 0, evicted }) => Some(EndOfRight::Evict(evicted)),
            Some(_) => self.withdrawn.get(&allocation).copied(),
        }
    }
}
