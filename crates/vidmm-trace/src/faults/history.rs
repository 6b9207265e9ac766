//! The last events of each allocation, and the mappings of addresses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use vidmm::event::{ContentSource, EvictReason};
use vidmm::{AllocationId, DeviceId, Event, GpuVirtualAddress, NoMemoryReason, ProcessId, SegmentId};

use crate::explain::words::{evict_reason, refusal, time};
use crate::{ByteSize, Segments};

/// The number of events of an allocation that are told, and so remembered.
const TOLD: usize = 4;

/// The number of allocations and of mappings that are remembered after their end.
const GONE: usize = 4096;

/// The memory of allocations and addresses: as many as exist, and a fixed number of those that do not any more.
#[derive(Debug, Default)]
pub(super) struct History {
    allocations: BTreeMap<AllocationId, Known>,
    /// The allocations that are gone, the first one first.
    gone: VecDeque<AllocationId>,
    /// The allocation of each mapping and the mapping's end, so that it can be told when the mapping is freed.
    mappings: BTreeMap<(ProcessId, u64), (AllocationId, u64)>,
    /// Mappings that were freed, the first one first.
    freed: VecDeque<Freed>,
    segments: Segments,
}

/// The memory of one allocation.
#[derive(Debug, Default)]
struct Known {
    /// Its last events, the newest last.
    last: VecDeque<Happened>,
    mapped_at: BTreeSet<(ProcessId, u64)>,
    /// Whether the manager has it in place.
    is_placed: bool,
}

/// The event in which something happened.
#[derive(Clone, Copy, Debug)]
struct When {
    number: u64,
    at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Happened {
    when: When,
    what: What,
}

/// An event in the life of an allocation.
#[derive(Clone, Copy, Debug)]
enum What {
    Created(DeviceId),
    Destroyed,
    Gone,
    Mapped(GpuVirtualAddress),
    Freed(GpuVirtualAddress),
    MadeResident(DeviceId),
    Refused(DeviceId, NoMemoryReason),
    Evicted(DeviceId),
    Offered(DeviceId),
    Reclaimed(DeviceId),
    Left(SegmentId, EvictReason),
    Placed(SegmentId, ContentSource),
    ContentLost,
    Closed(DeviceId),
}

/// A mapping that was freed.
#[derive(Debug)]
struct Freed {
    when: When,
    process: ProcessId,
    virtual_address: GpuVirtualAddress,
    size: u64,
    allocation: AllocationId,
}

impl History {
    pub fn learn(&mut self, number: u64, at: u64, event: &Event) {
        let when = When { number, at };
        match *event {
            Event::AdapterStarted { .. } => self.segments = Segments::of(event).unwrap_or_default(),
            Event::GpuVirtualAddressMapped { process, virtual_address, size, allocation, .. } => {
                let end = virtual_address.0.saturating_add(size);
                self.unmap(process, virtual_address.0, end);
                self.mappings.insert((process, virtual_address.0), (allocation, end));
                let known = self.happened(when, allocation, What::Mapped(virtual_address));
                known.mapped_at.insert((process, virtual_address.0));
            }
            Event::GpuVirtualAddressFreed { process, virtual_address, size } => {
                self.free(when, process, virtual_address, size);
            }
            Event::GpuVirtualAddressReclaimed { process, virtual_address, size, .. } => {
                self.unmap(process, virtual_address.0, virtual_address.0.saturating_add(size));
            }
            Event::AllocationReclaimed { allocation } => self.end(when, allocation),
            Event::MakeResident { device, ref allocations, .. } => {
                self.all_happened(when, allocations, What::MadeResident(device));
            }
            Event::MakeResidentRefused { device, ref allocations, reason, .. } => {
                self.all_happened(when, allocations, What::Refused(device, reason));
            }
            Event::Evict { device, ref allocations, .. } => {
                self.all_happened(when, allocations, What::Evicted(device));
            }
            Event::Offered { device, ref allocations, .. } => {
                self.all_happened(when, allocations, What::Offered(device));
            }
            Event::Reclaimed { device, ref allocations, .. } => {
                self.all_happened(when, allocations, What::Reclaimed(device));
            }
            // Nothing is resident any more (FLT-32).
            Event::AdapterRestarted => self.allocations.values_mut().for_each(|known| known.is_placed = false),
            _ => {
                if let Some((allocation, what)) = of_one(event) {
                    let known = self.happened(when, allocation, what);
                    match what {
                        What::Placed(..) => known.is_placed = true,
                        What::Left(..) => known.is_placed = false,
                        _ => {}
                    }
                }
            }
        }
    }

    fn all_happened(&mut self, when: When, allocations: &[AllocationId], what: What) {
        for &allocation in allocations {
            self.happened(when, allocation, what);
        }
    }

    fn happened(&mut self, when: When, allocation: AllocationId, what: What) -> &mut Known {
        let known = self.allocations.entry(allocation).or_default();
        if known.last.len() == TOLD {
            known.last.pop_front();
        }
        known.last.push_back(Happened { when, what });
        known
    }

    fn free(&mut self, when: When, process: ProcessId, virtual_address: GpuVirtualAddress, size: u64) {
        let around = self.mappings.range((process, 0)..=(process, virtual_address.0)).next_back();
        let Some((_, &(allocation, end))) = around else { return };
        if end <= virtual_address.0 {
            return;
        }
        self.happened(when, allocation, What::Freed(virtual_address));
        if self.freed.len() == GONE {
            self.freed.pop_front();
        }
        self.freed.push_back(Freed { when, process, virtual_address, size, allocation });
    }

    /// Forgets the mappings of addresses that can be used again. The rest of a mapping on either side stays mapped.
    fn unmap(&mut self, process: ProcessId, start: u64, end: u64) {
        while let Some((&key, &(allocation, last))) = self.mappings.range((process, 0)..(process, end)).next_back() {
            if last <= start {
                return;
            }
            self.mappings.remove(&key);
            let Some(known) = self.allocations.get_mut(&allocation) else { continue };
            known.mapped_at.remove(&key);
            for (from, to) in [(key.1, start), (end, last)].into_iter().filter(|(from, to)| from < to) {
                self.mappings.insert((process, from), (allocation, to));
                known.mapped_at.insert((process, from));
            }
        }
    }

    fn end(&mut self, when: When, allocation: AllocationId) {
        let known = self.happened(when, allocation, What::Gone);
        for key in std::mem::take(&mut known.mapped_at) {
            self.mappings.remove(&key);
        }
        if self.gone.len() == GONE
            && let Some(first) = self.gone.pop_front()
        {
            self.allocations.remove(&first);
        }
        self.gone.push_back(allocation);
    }

    /// Whether the manager has an allocation in place.
    pub fn is_placed(&self, id: AllocationId) -> bool {
        self.allocations.get(&id).is_some_and(|known| known.is_placed)
    }

    /// The last events of an allocation, newest first, in words.
    pub fn last(&self, id: AllocationId) -> String {
        let last = self.allocations.get(&id).into_iter().flat_map(|known| known.last.iter().rev());
        let told: Vec<String> = last.map(|&Happened { when, what }| format!("{} ({when})", self.words(what))).collect();
        match told.is_empty() {
            true => "nothing lately.".to_owned(),
            false => format!("{}.", told.join("; before that ")),
        }
    }

    /// The allocation that was mapped at an address which has been freed.
    pub fn freed_at(&self, process: ProcessId, address: u64) -> Option<String> {
        let covers = |freed: &&Freed| {
            let offset = address.checked_sub(freed.virtual_address.0);
            freed.process == process && offset.is_some_and(|offset| offset < freed.size)
        };
        let Freed { when, virtual_address, size, allocation, .. } = self.freed.iter().rev().find(covers)?;
        let size = ByteSize(*size);
        Some(format!("{allocation} was mapped there, {size} at {virtual_address}, until that was freed ({when})."))
    }

    fn words(&self, what: What) -> String {
        match what {
            What::Created(device) => format!("{device} created it"),
            What::Destroyed => "its caller destroyed it".to_owned(),
            What::Gone => "it was gone".to_owned(),
            What::Mapped(virtual_address) => format!("it was mapped at {virtual_address}"),
            What::Freed(virtual_address) => format!("its mapping at {virtual_address} was freed"),
            What::MadeResident(device) => format!("{device} made it resident"),
            What::Refused(device, reason) => {
                format!("{device} was refused to make it resident, since {}", refusal(reason))
            }
            What::Evicted(device) => format!("{device} evicted it from its list"),
            What::Offered(device) => format!("{device} offered it"),
            What::Reclaimed(device) => format!("{device} reclaimed it"),
            What::Left(segment, reason) => {
                format!("it left {} {}", self.segments.name(segment), evict_reason(reason, None))
            }
            What::Placed(segment, content) => {
                let how = match content {
                    ContentSource::Fill => ", filled with zeros",
                    ContentSource::BackingStore => ", copied in",
                    ContentSource::InPlace => "",
                };
                format!("it got a place in {}{how}", self.segments.name(segment))
            }
            What::ContentLost => "its content was lost".to_owned(),
            What::Closed(device) => format!("{device} closed it"),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}, at {}", self.number, time(self.at))
    }
}

/// The allocation that an event is about, and its part in it, where the event names one allocation only.
const fn of_one(event: &Event) -> Option<(AllocationId, What)> {
    Some(match *event {
        Event::AllocationCreated { allocation, device, .. } => (allocation, What::Created(device)),
        Event::AllocationDestroyed { allocation, .. } => (allocation, What::Destroyed),
        Event::Evicted { allocation, segment, reason, .. } => (allocation, What::Left(segment, reason)),
        Event::Placed { allocation, segment, content, .. } => (allocation, What::Placed(segment, content)),
        Event::ContentLost { allocation, .. } => (allocation, What::ContentLost),
        Event::AllocationClosed { allocation, device } => (allocation, What::Closed(device)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use vidmm::event::ReclaimReason;

    use super::*;

    fn mapped(process: ProcessId, virtual_address: GpuVirtualAddress, allocation: AllocationId) -> Event {
        Event::GpuVirtualAddressMapped {
            process,
            virtual_address,
            size: 0x1000,
            allocation,
            allocation_offset: 0,
            page_size: vidmm::PageSize::Kib4,
            read_only: false,
            no_execute: false,
            driver_protection: 0,
            queue: vidmm::PagingQueueId::from_bits(0),
            paging_fence_value: 0,
        }
    }

    #[test]
    fn the_history_grows_with_the_allocations_that_exist() {
        let mut history = History::default();
        let process = ProcessId::from_bits(0);
        let mut number = 0;
        let mut happen = |event: Event| {
            number += 1;
            history.learn(number, number, &event);
        };
        for generation in 0..3 * GONE as u64 {
            let allocation = AllocationId::from_bits(generation << 32);
            let virtual_address = GpuVirtualAddress(0x1000 * (generation % 7));
            for _ in 0..3 {
                happen(mapped(process, virtual_address, allocation));
                happen(Event::ContentLost { allocation, is_kept: false });
                happen(Event::GpuVirtualAddressFreed { process, virtual_address, size: 0x1000 });
                let reason = ReclaimReason::Freed;
                happen(Event::GpuVirtualAddressReclaimed { process, virtual_address, size: 0x1000, reason });
            }
            happen(Event::AllocationReclaimed { allocation });
        }
        let remembered: usize =
            history.allocations.values().map(|known| known.last.len() + known.mapped_at.len()).sum();
        assert_eq!((history.allocations.len(), remembered), (GONE, TOLD * GONE));
        assert_eq!((history.mappings.len(), history.freed.len(), history.gone.len()), (0, GONE, GONE));
    }
}
