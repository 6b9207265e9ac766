//! Portions of DMA buffers that refer to allocations by patch locations (I11, I18, I19).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use vidmm::contract::PatchLocation;
use vidmm::event::{PortionBinding, PortionEnd};
use vidmm::{AllocationId, ContextId, DeviceId, DeviceResidency, Event, MonitoredFenceId, PhysicalAddress};

use super::Audit;
use super::device::Submission;
use super::finding::{Findings, Invariant};
use super::list_entry::ListEntry;
use super::monitored::FenceValue;

/// DMA buffers that were rendered and have not been handed out to their ends.
#[derive(Debug, Default)]
pub(super) struct Portions {
    /// The last that was rendered.
    last: u64,
    pub buffers: BTreeMap<u64, Buffer>,
}

/// A DMA buffer, and how far it was handed out.
#[derive(Debug)]
pub(super) struct Buffer {
    device: DeviceId,
    context: ContextId,
    bytes: u32,
    allocations: Vec<Option<AllocationId>>,
    locations: Vec<PatchLocation>,
    /// The fences that its first portion waits for, and that the last one signals.
    waits: Vec<FenceValue>,
    signals: Vec<FenceValue>,
    /// The event that rendered it; and its submission, if its device's list drives residency: then it is never split (PAT-17).
    rendered_by: u64,
    submission: Option<u64>,
    /// Portions so far, the first byte that is in none of them, and the first patch location.
    portions: u32,
    offset: u32,
    next: usize,
    /// The resource table (SPL-02).
    table: BTreeMap<u32, AllocationId>,
    /// Where the last portion found what it required.
    addresses: BTreeMap<AllocationId, PhysicalAddress>,
    /// The slots that stay bound at `offset` and are not reprogrammed there (SPL-08).
    kept: BTreeSet<AllocationId>,
}

impl Buffer {
    /// The allocation that a patch location binds; none if it unbinds its slot.
    fn bound_by(&self, location: &PatchLocation) -> Option<AllocationId> {
        self.allocations.get(location.allocation_index as usize).copied().flatten()
    }

    /// The requirements of a portion with these patch locations: slots, what they hold, and whether that keeps its place.
    fn required(&self, locations: &[PatchLocation]) -> Vec<(u32, Option<AllocationId>, bool)> {
        let kept = self.table.iter().filter(|(_, allocation)| self.kept.contains(allocation));
        let kept = kept.map(|(&slot, &allocation)| (slot, Some(allocation), true));
        kept.chain(locations.iter().map(|at| (at.slot_id, self.bound_by(at), false))).collect()
    }

    /// Whether a portion is said to keep what its slot does not hold: slots change at their split points only.
    fn has_foreign_slot(&self, bindings: &[PortionBinding]) -> bool {
        let kept = bindings.iter().filter(|binding| binding.fixed);
        kept.into_iter().any(|binding| self.table.get(&binding.slot_id).copied() != binding.allocation)
    }

    /// A portion was handed out.
    fn advance(&mut self, end: u32, locations: Range<usize>, bindings: &[PortionBinding]) {
        let addresses = bindings.iter().filter_map(|binding| Some((binding.allocation?, binding.address)));
        self.addresses = addresses.collect();
        let bound = self.locations[locations.clone()].iter().map(|at| (at.slot_id, self.bound_by(at)));
        for (slot, allocation) in bound.collect::<Vec<_>>() {
            match allocation {
                Some(allocation) => drop(self.table.insert(slot, allocation)),
                None => drop(self.table.remove(&slot)),
            }
        }
        (self.portions, self.offset, self.next) = (self.portions.saturating_add(1), end, locations.end);
        let group = self.locations[self.next..].iter().take_while(|at| at.split_offset == end);
        let reprogrammed: BTreeSet<u32> = group.map(|at| at.slot_id).collect();
        let kept = self.table.iter().filter(|(slot, _)| !reprogrammed.contains(slot));
        self.kept = kept.map(|(_, &allocation)| allocation).collect();
    }
}

impl Portions {
    /// Whether a DMA buffer that has been cut relies on an allocation where it is.
    pub fn keep(&self, allocation: AllocationId) -> bool {
        self.buffers.values().any(|buffer| buffer.kept.contains(&allocation))
    }

    /// Whose DMA buffers drive residency and have not been handed out to their end; what these name, and whether that is kept
    /// across a cut.
    pub fn references(&self) -> impl Iterator<Item = (DeviceId, AllocationId, bool)> {
        let driving = self.buffers.values().filter(|buffer| buffer.submission.is_none());
        driving.flat_map(|buffer| {
            let named = buffer.allocations.iter().flatten();
            named.map(|&id| (buffer.device, id, buffer.kept.contains(&id)))
        })
    }

    /// DMA buffers that a device in error had rendered are dropped. Returns the fences that these would have signalled.
    pub fn drop_device(&mut self, device: DeviceId) -> Vec<MonitoredFenceId> {
        let is_of_device = |buffer: &Buffer| buffer.device == device;
        let dropped = self.buffers.values().filter(|buffer| is_of_device(buffer));
        let signals = dropped.flat_map(|buffer| &buffer.signals).map(|&(fence, _)| fence).collect();
        self.buffers.retain(|_, buffer| !is_of_device(buffer));
        signals
    }

    /// Whether a DMA buffer that has not been handed out to its end waits for a fence or signals it.
    pub fn name(&self, fence: MonitoredFenceId) -> bool {
        self.buffers
            .values()
            .flat_map(|buffer| buffer.waits.iter().chain(&buffer.signals))
            .any(|named| named.0 == fence)
    }

    /// The patch locations hold to the rules, so that every portion has a resource table (I18, SPL-04).
    fn check_locations(buffer: &Buffer, num_slots: u32, findings: &mut Findings) {
        for (position, at) in buffer.locations.iter().enumerate() {
            let is_known = at.slot_id < num_slots && (at.allocation_index as usize) < buffer.allocations.len();
            findings.check(is_known, Invariant::I18, || format!("patch location {position} is {at:?}"));
            let before = position.checked_sub(1).map_or(0, |before| buffer.locations[before].split_offset);
            findings.check(before <= at.split_offset && at.split_offset <= buffer.bytes, Invariant::I18, || {
                format!(
                    "patch location {position} has split offset {}, after {before} and in a buffer of {} bytes",
                    at.split_offset, buffer.bytes
                )
            });
        }
    }
}

impl Audit {
    pub(super) fn rendered(&mut self, event: &Event) {
        let &Event::Rendered {
            device,
            context,
            dma_buffer,
            bytes,
            ref allocations,
            ref patch_locations,
            ref waits,
            ref signals,
        } = event
        else {
            return;
        };
        let expected = self.portions.last.saturating_add(1);
        self.findings.check(dma_buffer == expected, Invariant::Log, || {
            format!("DMA buffer {dma_buffer} is rendered, but the next is {expected}")
        });
        self.findings.check(self.adapter.is_physical(), Invariant::I23, || {
            format!("a DMA buffer is patched on an adapter of the model {:?}", self.adapter.addressing_model)
        });
        self.portions.last = dma_buffer.max(self.portions.last);
        let buffer = Buffer {
            device,
            context,
            bytes,
            allocations: allocations.clone(),
            locations: patch_locations.clone(),
            waits: waits.clone(),
            signals: signals.clone(),
            rendered_by: self.findings.event,
            submission: None,
            portions: 0,
            offset: 0,
            next: 0,
            table: BTreeMap::new(),
            addresses: BTreeMap::new(),
            kept: BTreeSet::new(),
        };
        Portions::check_locations(&buffer, self.adapter.num_slots, &mut self.findings);
        self.check_open(device, allocations.iter().flatten());
        self.portions.buffers.insert(dma_buffer, buffer);
    }

    /// A DMA buffer of a device list is submitted where it is rendered, and all that it names is on the list then (FLT-02).
    pub(super) fn submitted_as_a_whole(&mut self, id: DeviceId, context: ContextId, submission: u64) {
        let event = self.findings.event;
        let has_list = self.devices.get(&id).is_some_and(|device| device.residency == DeviceResidency::DeviceList);
        let Some(mut last) = self.portions.buffers.last_entry().filter(|_| has_list) else { return };
        let (number, buffer) = (*last.key(), last.get_mut());
        if (buffer.rendered_by.saturating_add(1), buffer.context) != (event, context) {
            return;
        }
        buffer.submission = Some(submission);
        for allocation in buffer.allocations.iter().flatten() {
            let entry = self.allocations.get(allocation).and_then(|books| books.lists.get(&id));
            self.findings.check(entry.is_some_and(ListEntry::demands), Invariant::I06, || {
                format!("DMA buffer {number} names {allocation}, which is not on the list of {id}")
            });
        }
    }

    pub(super) fn portion(&mut self, event: &Event) {
        // The log does not say what is listed for portions until they are handed out.
        self.demands.relieved += 1;
        let &Event::Portion { device, dma_buffer, submission, end_offset, is_last, ref bindings, .. } = event else {
            return;
        };
        let Some(mut buffer) = self.portions.buffers.remove(&dma_buffer) else {
            let message = format!("a portion of DMA buffer {dma_buffer} is ready, which has ended or never was");
            return self.findings.report(Invariant::I11, message);
        };
        self.findings.check(buffer.device == device, Invariant::Log, || {
            format!("DMA buffer {dma_buffer} is one of {}, and not of {device}", buffer.device)
        });
        self.check_between(dma_buffer, buffer.context, is_last);
        let Some(locations) = self.check_cover(&buffer, event) else { return };
        let required = buffer.required(&buffer.locations[locations.clone()]);
        let stated = bindings.iter().map(|binding| (binding.slot_id, binding.allocation, binding.fixed));
        let stated: Vec<_> = stated.collect();
        let invariant = if buffer.has_foreign_slot(bindings) { Invariant::I18 } else { Invariant::I11 };
        self.findings.check(stated == required, invariant, || {
            format!("a portion of DMA buffer {dma_buffer} requires {stated:?}, but by its patch locations {required:?}")
        });
        for binding in bindings {
            self.check_binding(dma_buffer, &buffer, binding);
        }
        match buffer.submission {
            None => {
                let portion = Some(buffer.portions);
                let waits = std::mem::take(&mut buffer.waits);
                let signals = if is_last { std::mem::take(&mut buffer.signals) } else { Vec::new() };
                let work = Submission { context: buffer.context, waits, signals, portion, preemptions: 0 };
                self.require(device, submission, work, bindings);
            }
            Some(number) => {
                let work = self.devices.get_mut(&device).and_then(|device| device.undispatched.get_mut(&number));
                work.into_iter().for_each(|work| work.portion = Some(buffer.portions));
                self.findings.check(is_last && submission == number, Invariant::I11, || {
                    format!(
                        "DMA buffer {dma_buffer} was submitted as a whole, as {number}, and runs as a part of {submission}"
                    )
                });
            }
        }
        buffer.advance(end_offset, locations, bindings);
        if !is_last {
            self.portions.buffers.insert(dma_buffer, buffer);
        }
    }

    /// Portions of a context's DMA buffers come in order; and while one is cut no other is, nor runs on its engine, if that does
    /// not keep its state between packets (SPL-07).
    fn check_between(&mut self, number: u64, context: ContextId, is_last: bool) {
        let engine = |context| self.contexts.get(&context).map(|context| context.engine);
        for (&other, buffer) in &self.portions.buffers {
            let overtaken = buffer.context == context && other < number;
            self.findings.check(!overtaken, Invariant::I13, || {
                format!("DMA buffer {number} of {context} is handed out before {other}, which was rendered before")
            });
            if buffer.portions == 0 {
                continue;
            }
            let intrudes = !self.adapter.preemption_aware && engine(buffer.context) == engine(context);
            self.findings.check(is_last && !intrudes, Invariant::I11, || {
                format!("a portion of DMA buffer {number} comes between portions of {other}")
            });
        }
    }

    /// A portion goes on where the last one ended, and has the patch locations whose split points are in it: a group is
    /// taken as a whole or not at all. Returns them.
    fn check_cover(&mut self, buffer: &Buffer, event: &Event) -> Option<Range<usize>> {
        let &Event::Portion {
            dma_buffer,
            portion,
            start_offset: start,
            end_offset: end,
            is_last,
            patch_location_start,
            patch_location_length,
            cut,
            ..
        } = event
        else {
            return None;
        };
        let is_next = portion == buffer.portions && start == buffer.offset;
        let is_end = is_last == (cut == PortionEnd::EndOfDmaBuffer) && (!is_last || end == buffer.bytes);
        let has_bytes = start < end && end <= buffer.bytes || is_last && start == end;
        self.findings.check(is_next && is_end && has_bytes, Invariant::I11, || {
            format!(
                "portion {portion} of DMA buffer {dma_buffer} is bytes {start}..{end}, last: {is_last}; the next is portion {} \
                 from byte {} of {} on",
                buffer.portions, buffer.offset, buffer.bytes
            )
        });
        let rest = &buffer.locations[buffer.next..];
        let count = if is_last { rest.len() } else { rest.iter().take_while(|at| at.split_offset < end).count() };
        let stated = (patch_location_start as usize, patch_location_length as usize);
        self.findings.check(stated == (buffer.next, count), Invariant::I19, || {
            format!(
                "portion {portion} of DMA buffer {dma_buffer} has {} patch locations from {} on, but {count} from {} on have \
                 their split points in it",
                stated.1, stated.0, buffer.next
            )
        });
        let next = rest.get(count).map(|at| at.split_offset);
        self.findings.check(is_last || next == Some(end), Invariant::I19, || {
            format!(
                "portion {portion} of DMA buffer {dma_buffer} ends at {end}, where there is no split point: {next:?}"
            )
        });
        Some(buffer.next..buffer.next + count)
    }

    /// An allocation that a portion requires is where it says, and stays there if it was bound before and is not reprogrammed.
    fn check_binding(&mut self, number: u64, buffer: &Buffer, binding: &PortionBinding) {
        let Some(id) = binding.allocation else { return };
        let place = self.allocations.get(&id).and_then(|allocation| allocation.decided.as_ref());
        let address = place.and_then(|place| match place.extents[..] {
            [extent] => Some(PhysicalAddress { segment: place.segment, offset: extent.offset }),
            _ => None,
        });
        self.findings.check(address == Some(binding.address), Invariant::I11, || {
            format!("DMA buffer {number} finds {id} at {:?}, but it is at {address:?}", binding.address)
        });
        let before = buffer.addresses.get(&id);
        self.findings.check(!binding.fixed || before == Some(&binding.address), Invariant::I11, || {
            format!("{id} stays bound in DMA buffer {number} and was at {before:?}, but is at {:?}", binding.address)
        });
    }

    /// A portion is a submission, for which all that it requires is on its device's list: also what was destroyed since the DMA
    /// buffer was rendered (RES-91).
    fn require(&mut self, device: DeviceId, submission: u64, work: Submission, bindings: &[PortionBinding]) {
        let allocations: BTreeSet<AllocationId> = bindings.iter().filter_map(|binding| binding.allocation).collect();
        let after = submission.saturating_sub(1);
        for &id in &allocations {
            self.forget_spans(id);
            let Some(entry) = self.list_entry(device, id) else { continue };
            let span = entry.join(after);
            entry.grant(span);
            if let Some(device) = self.devices.get_mut(&device) {
                device.spans.insert((id, span));
            }
        }
        self.submitted(device, submission, work);
        for id in allocations {
            // The log does not say which elements of an allocation list are written to.
            self.list_entry(device, id).into_iter().for_each(|entry| entry.leave_unsaid(submission));
            self.charge(id);
        }
    }

    /// An allocation that a DMA buffer keeps in its place across a cut is not taken out.
    pub(super) fn check_not_kept(&mut self, id: AllocationId) {
        let is_kept = self.portions.keep(id);
        self.findings.check(!is_kept, Invariant::I11, || {
            format!("{id} is taken out, but stays bound in a DMA buffer that is cut, and is not reprogrammed")
        });
    }
}
