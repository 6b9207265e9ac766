//! The allocation itself: its life, its addresses, the devices that have it open, the CPU's views of it.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::{KmdAllocationHandle, SegmentSet};
use vidmm::{AllocationId, DestroyFlags, DeviceId, Event, PlanNo, ProcessId, SegmentId};

use super::tale::Tale;
use super::words::{capitalised, time};
use super::world::World;
use crate::ByteSize;

/// The state of the allocation that is explained.
#[derive(Debug)]
pub(super) struct Subject {
    pub id: AllocationId,
    /// The driver's handle, by which operations name it.
    pub handle: KmdAllocationHandle,
    pub size: u64,
    pub owner: DeviceId,
    /// The number of entries on the list of each device that has it open.
    pub counts: BTreeMap<DeviceId, u64>,
    pub place: Option<SegmentId>,
    pub offered: bool,
    /// The sentence that told that it left its place, the plan, and the place.
    pub left: Option<(usize, PlanNo, SegmentId)>,
    pub locks: u64,
    /// The time at which its caller destroyed it.
    pub destroyed_at: Option<u64>,
    pub gone: bool,
    /// Plans that move it and have not retired.
    pub plans: BTreeSet<PlanNo>,
    /// Its mappings: process and address.
    mappings: BTreeMap<(ProcessId, u64), u64>,
}

impl Subject {
    /// Begins with its creation.
    pub fn new(event: &Event, world: &World, tale: &mut Tale) -> Self {
        let &Event::AllocationCreated {
            allocation,
            handle,
            device,
            size,
            priority,
            supported_segment_set,
            shared,
            existing_sys_mem,
            permanent_sys_mem,
            ..
        } = event
        else {
            unreachable!("it is made of its creation")
        };
        let mut text = format!(
            "{} created it: {}, for {}, of {} priority.",
            capitalised(&world.device(device)),
            ByteSize(size),
            world.segments.names(SegmentSet(supported_segment_set)),
            priority_class(priority)
        );
        let kinds = [
            (shared, " Other devices may open it."),
            (existing_sys_mem, " Its backing store is the caller's memory."),
            (permanent_sys_mem, " Its copy in system memory is kept while it is in local memory."),
        ];
        text.extend(kinds.iter().filter(|(is, _)| *is).map(|(_, said)| *said));
        tale.tell(text);
        Self {
            id: allocation,
            handle,
            size,
            owner: device,
            counts: BTreeMap::from([(device, 0)]),
            place: None,
            offered: false,
            left: None,
            locks: 0,
            destroyed_at: None,
            gone: false,
            plans: BTreeSet::new(),
            mappings: BTreeMap::new(),
        }
    }

    /// Whether a device's list names it.
    pub fn is_listed_by(&self, device: DeviceId) -> bool {
        self.counts.get(&device).is_some_and(|&count| count > 0)
    }

    /// Tells the events of its own life.
    pub fn of_itself(&mut self, event: &Event, world: &World, tale: &mut Tale) {
        match *event {
            Event::AllocationDestroyed { allocation, flags } if allocation == self.id => self.destroyed(flags, tale),
            Event::AllocationReclaimed { allocation } if allocation == self.id => {
                let after = tale.at().saturating_sub(self.destroyed_at.unwrap_or(tale.at()));
                tale.tell(format!("Nothing named it any more ({} after it was destroyed): its addresses, its place and its backing store were free.", time(after)));
                self.gone = true;
            }
            Event::AllocationPriorityChanged { allocation, priority } if allocation == self.id => {
                tale.tell(format!("Its priority became {}.", priority_class(priority)));
            }
            Event::AllocationPropertyUpdated { allocation, supported_segment_set, paging_fence_value, .. }
                if allocation == self.id =>
            {
                let set = world.segments.names(SegmentSet(supported_segment_set));
                let move_ = if paging_fence_value > 0 { "; it had to move for that" } else { "" };
                tale.tell(format!("It may be in {set} from now on{move_}."));
            }
            Event::AccessedOverBus { ref accesses, .. } => {
                let own = accesses.iter().filter(|access| access.allocation == self.id);
                own.for_each(|access| tale.sums.over_bus(access));
            }
            Event::Finding { allocation, page, kernel, .. } if allocation == self.id => {
                tale.tell(format!("A kernel read a wrong byte of it (kernel {kernel}, page {page})."));
            }
            _ => {
                self.of_addresses(event, tale);
                self.of_sharing(event, world, tale);
                self.of_cpu(event, world, tale);
            }
        }
    }

    fn destroyed(&mut self, flags: DestroyFlags, tale: &mut Tale) {
        let how = if flags.contains(DestroyFlags::ASSUME_NOT_IN_USE) {
            ", without waiting for work submitted before"
        } else {
            "; work submitted before may still use it"
        };
        let waits =
            if flags.contains(DestroyFlags::SYNCHRONOUS_DESTROY) { ", and its caller waits for the end" } else { "" };
        tale.tell(format!("Its caller destroyed it{how}{waits}."));
        self.counts.remove(&self.owner);
        self.destroyed_at = Some(tale.at());
    }

    /// Cuts a mapping into the part that is freed and the rest on either side.
    fn cut(&mut self, (process, first): (ProcessId, u64), start: u64, size: u64) {
        let Some(whole) = self.mappings.remove(&(process, first)) else { return };
        let (end, last) = (start.saturating_add(size), first.saturating_add(whole));
        let parts = [(first, start), (start, end), (end, last)].into_iter().filter(|(from, to)| from < to);
        self.mappings.extend(parts.map(|(from, to)| ((process, from), to - from)));
    }

    fn of_addresses(&mut self, event: &Event, tale: &mut Tale) {
        match *event {
            Event::GpuVirtualAddressMapped {
                allocation, process, virtual_address, size, allocation_offset, ..
            } if allocation == self.id => {
                let part = if size == self.size {
                    "It was mapped".to_owned()
                } else {
                    format!("{} of it from byte {allocation_offset} on were mapped", ByteSize(size))
                };
                self.mappings.insert((process, virtual_address.0), size);
                tale.tell(format!("{part} into the addresses of {process} (at {virtual_address})."));
            }
            Event::GpuVirtualAddressFreed { process, virtual_address, size } => {
                let around = self.mappings.range(..=(process, virtual_address.0)).next_back();
                let Some((&(of, start), &whole)) = around
                    .filter(|&(&(of, start), &whole)| of == process && virtual_address.0 < start.saturating_add(whole))
                else {
                    return;
                };
                self.cut((of, start), virtual_address.0, size);
                let part = match size == whole {
                    true => "its mapping".to_owned(),
                    false => format!("{} of its mapping", ByteSize(size)),
                };
                tale.tell(format!("{process} gave {part} back (at {virtual_address})."));
            }
            Event::GpuVirtualAddressReclaimed { process, virtual_address, .. }
                if self.mappings.remove(&(process, virtual_address.0)).is_some() =>
            {
                tale.tell(format!(
                    "Work that could use that mapping had ended, and its addresses were free (at {virtual_address})."
                ));
            }
            _ => {}
        }
    }

    fn of_sharing(&mut self, event: &Event, world: &World, tale: &mut Tale) {
        match *event {
            Event::AllocationOpened { allocation, device, .. } if allocation == self.id => {
                self.counts.entry(device).or_default();
                tale.tell(format!("{} opened it.", capitalised(&world.device(device))));
            }
            Event::AllocationClosed { allocation, device } if allocation == self.id => {
                self.counts.remove(&device);
                tale.tell(format!("{} closed it.", capitalised(&world.device(device))));
            }
            Event::AllocationOwnershipTransferred { allocation, device, process } if allocation == self.id => {
                self.owner = device;
                self.destroyed_at = None;
                tale.tell(format!(
                    "It belongs to {} now, since that has it open: {process} is charged for it.",
                    world.device(device)
                ));
            }
            _ => {}
        }
    }

    fn of_cpu(&mut self, event: &Event, world: &World, tale: &mut Tale) {
        match *event {
            Event::Locked { allocation, address, segment, .. } if allocation == self.id => {
                self.locks += 1;
                let place = world.segments.name(segment);
                tale.tell(format!("The CPU saw it from now on (at {address}), in {place}."));
            }
            Event::Rotated { allocation, ref extents, plan, .. } if allocation == self.id && extents.is_empty() => {
                tale.tell(format!("It moved (plan {plan}), and the CPU saw nothing of it meanwhile."));
            }
            Event::Rotated { allocation, address, segment, plan, .. } if allocation == self.id => {
                let place = world.segments.name(segment);
                tale.tell(format!(
                    "It had moved (plan {plan}), and the CPU saw it at the same address (at {address}), now in {place}."
                ));
            }
            Event::Unlocked { allocation, locks } if allocation == self.id => {
                self.locks = u64::from(locks);
                tale.tell(if locks == 0 {
                    "It was unlocked; the CPU saw it no more."
                } else {
                    "One of its locks ended."
                });
            }
            _ => {}
        }
    }
}

/// The class of a priority, with its number (CRE-30).
fn priority_class(priority: u32) -> String {
    let class = match priority {
        0..0x5000_0000 => "minimum",
        0x5000_0000..0x7800_0000 => "low",
        0x7800_0000..0xa000_0000 => "normal",
        0xa000_0000..0xc800_0000 => "high",
        0xc800_0000.. => "maximum",
    };
    format!("{class} ({priority:#x})")
}
