//! The last events that name allocations.

use std::collections::{BTreeMap, VecDeque};

use vidmm::event::ContentSource;
use vidmm::{AllocationId, Event, ProcessId, SegmentId};

use crate::ByteSize;
use crate::explain::words::{evict_reason, refusal, time};

/// How many events are remembered.
const REMEMBERED: usize = 4096;

/// How many of them are told of an allocation.
const TOLD: usize = 4;

/// The last events that name allocations or addresses.
#[derive(Debug, Default)]
pub(super) struct History {
    events: VecDeque<Remembered>,
    memory: Option<SegmentId>,
    aperture: SegmentId,
    /// What is mapped, so that it can be told when that is freed.
    mappings: BTreeMap<(ProcessId, u64), AllocationId>,
    /// Where each allocation was mapped.
    mapped_at: BTreeMap<AllocationId, Vec<(ProcessId, u64)>>,
}

#[derive(Debug)]
struct Remembered {
    number: u64,
    at: u64,
    event: Event,
    /// What was mapped where addresses were freed.
    freed: Option<AllocationId>,
}

impl History {
    pub fn learn(&mut self, number: u64, at: u64, event: &Event) {
        let mut freed = None;
        match *event {
            Event::AdapterStarted { memory, aperture, .. } => {
                (self.memory, self.aperture) = (memory.map(|memory| memory.segment), aperture.segment);
                return;
            }
            Event::GpuVirtualAddressMapped { process, virtual_address, allocation, .. } => {
                self.mappings.insert((process, virtual_address.0), allocation);
                self.mapped_at.entry(allocation).or_default().push((process, virtual_address.0));
            }
            Event::GpuVirtualAddressFreed { process, virtual_address, .. } => {
                freed = self.mappings.get(&(process, virtual_address.0)).copied();
                if freed.is_none() {
                    return;
                }
            }
            Event::GpuVirtualAddressReclaimed { process, virtual_address } => {
                self.mappings.remove(&(process, virtual_address.0));
                return;
            }
            Event::AllocationReclaimed { allocation } => {
                for key in self.mapped_at.remove(&allocation).unwrap_or_default() {
                    if self.mappings.get(&key) == Some(&allocation) {
                        self.mappings.remove(&key);
                    }
                }
            }
            _ if !names_allocations(event) => return,
            _ => {}
        }
        if self.events.len() == REMEMBERED {
            self.events.pop_front();
        }
        self.events.push_back(Remembered { number, at, event: event.clone(), freed });
    }

    /// The last events of an allocation, newest first, in words.
    pub fn last(&self, id: AllocationId) -> String {
        let told = self.events.iter().rev().filter_map(|remembered| {
            let what = self.words(remembered, id)?;
            Some(format!("{what} (event {}, at {})", remembered.number, time(remembered.at)))
        });
        let told: Vec<String> = told.take(TOLD).collect();
        match told.is_empty() {
            true => "nothing lately.".to_owned(),
            false => format!("{}.", told.join("; before that ")),
        }
    }

    /// What was mapped at an address and was given back.
    pub fn freed_at(&self, process: ProcessId, address: u64) -> Option<String> {
        self.events.iter().rev().find_map(|remembered| {
            let Event::GpuVirtualAddressFreed { process: of, virtual_address, size } = remembered.event else {
                return None;
            };
            let covers = of == process && address.checked_sub(virtual_address.0).is_some_and(|offset| offset < size);
            let id = remembered.freed.filter(|_| covers)?;
            Some(format!(
                "{id} was mapped there, {} at {virtual_address}, until that was freed (event {}, at {}).",
                ByteSize(size),
                remembered.number,
                time(remembered.at)
            ))
        })
    }

    fn segment(&self, segment: SegmentId) -> &'static str {
        match segment {
            _ if self.memory == Some(segment) => "local memory",
            _ if segment == self.aperture => "the aperture",
            _ => "system memory",
        }
    }

    /// What an event says of an allocation; none if it does not name it.
    fn words(&self, remembered: &Remembered, id: AllocationId) -> Option<String> {
        let words = match &remembered.event {
            Event::GpuVirtualAddressFreed { virtual_address, .. } if remembered.freed == Some(id) => {
                format!("its mapping at {virtual_address} was freed")
            }
            Event::AllocationCreated { allocation, device, .. } if *allocation == id => {
                format!("{device} created it")
            }
            Event::AllocationDestroyed { allocation, .. } if *allocation == id => "its caller destroyed it".to_owned(),
            Event::AllocationReclaimed { allocation } if *allocation == id => "it was gone".to_owned(),
            Event::GpuVirtualAddressMapped { allocation, virtual_address, .. } if *allocation == id => {
                format!("it was mapped at {virtual_address}")
            }
            Event::MakeResident { device, allocations, .. } if allocations.contains(&id) => {
                format!("{device} made it resident")
            }
            Event::MakeResidentRefused { device, allocations, reason, .. } if allocations.contains(&id) => {
                format!("{device} was refused to make it resident, since {}", refusal(*reason))
            }
            Event::Evict { device, allocations, .. } if allocations.contains(&id) => {
                format!("{device} evicted it from its list")
            }
            Event::Offered { device, allocations, .. } if allocations.contains(&id) => format!("{device} offered it"),
            Event::Reclaimed { device, allocations, .. } if allocations.contains(&id) => {
                format!("{device} reclaimed it")
            }
            Event::Evicted { allocation, segment, reason, .. } if *allocation == id => {
                format!("it left {} {}", self.segment(*segment), evict_reason(*reason))
            }
            Event::Placed { allocation, segment, content, .. } if *allocation == id => {
                let how = match content {
                    ContentSource::Fill => ", filled with zeros",
                    ContentSource::BackingStore => ", copied in",
                    ContentSource::InPlace => "",
                };
                format!("it got a place in {}{how}", self.segment(*segment))
            }
            Event::ContentLost { allocation } if *allocation == id => "its content was lost".to_owned(),
            Event::AllocationClosed { allocation, device } if *allocation == id => format!("{device} closed it"),
            _ => return None,
        };
        Some(words)
    }
}

/// Whether an event is one that is told of an allocation.
fn names_allocations(event: &Event) -> bool {
    matches!(
        event,
        Event::AllocationCreated { .. }
            | Event::AllocationDestroyed { .. }
            | Event::MakeResident { .. }
            | Event::MakeResidentRefused { .. }
            | Event::Evict { .. }
            | Event::Offered { .. }
            | Event::Reclaimed { .. }
            | Event::Evicted { .. }
            | Event::Placed { .. }
            | Event::ContentLost { .. }
            | Event::AllocationClosed { .. }
    )
}
