//! Updates of mappings in a reservation. An update waits for a fence, keeps the order of its context, and raises the fence (GVA-54, GVA-55).

use std::collections::VecDeque;

use vidmm::{GpuVaError, GpuVirtualAddress, MapError, VaRangeError};

use super::addresses::access;
use super::invalid;
use crate::addresses::Mapping;
use crate::call::{FenceValue, Reply, UpdateOperation};
use crate::objects::{Context, Device, Object, Part, Update};
use crate::rules::Rule;
use crate::session::{Answer, PATIENCE, Session};
use crate::status::Status;

/// With more updates than this under way, a call waits (GVA-55).
const UPDATES_MAX: usize = 128;

impl Session {
    pub(super) fn update_addresses(
        &mut self,
        context: u32,
        fence: FenceValue,
        does_not_wait: bool,
        operations: &[UpdateOperation],
    ) -> Answer {
        let device = self.object::<Context>(context)?.device;
        operations.iter().try_for_each(|operation| self.check_operation(device, operation))?;
        let end = fence.value.checked_add(1).ok_or_else(|| invalid("the fence cannot rise any more"))?;
        self.monitored(fence.fence, end)?;
        if self.object::<Device>(device)?.companion.is_none() {
            self.room(2)?;
            let companion = self.create_paging_queue(device, 0)?.handle();
            self.object::<Device>(device)?.companion = Some(companion);
        }
        let until = self.now() + PATIENCE;
        while self.updates.len() >= UPDATES_MAX && self.now() < until {
            self.pass_time();
        }
        if self.updates.len() >= UPDATES_MAX {
            return Err(Reply::refused(Status::INSUFFICIENT_RESOURCES, "no earlier update ends"));
        }
        let mut parts = VecDeque::new();
        for operation in operations {
            let (base, size) = operation.destination();
            let mapped = self.mapped_by(operation);
            for (base, Mapping { size, .. }) in self.addresses.parts_in(base, size) {
                self.addresses.free(base, size, self.call);
                parts.push_back(Part::Unmap { base, size });
            }
            for (base, mapping) in mapped {
                self.addresses.map(base, mapping);
                parts.push_back(Part::Map { base, mapping });
            }
        }
        let destinations = operations.iter().map(UpdateOperation::destination).collect();
        let call = self.call;
        self.updates.push(Update { context, fence, does_not_wait, call, destinations, parts, mapped: 0 });
        Ok(Reply::default())
    }

    fn check_operation(&mut self, device: u32, operation: &UpdateOperation) -> Result<(), Reply> {
        const PAGE: u64 = 4096;
        let (base, size) = operation.destination();
        let mut numbers = vec![base, size];
        let mut ranges = vec![(base, size)];
        match *operation {
            UpdateOperation::Map { allocation, offset, allocation_size, .. } => {
                let of = self.allocation_of(device, allocation)?;
                let part = if allocation_size == 0 { size } else { allocation_size };
                let is_inside = offset.checked_add(part).is_some_and(|end| end <= of.size);
                if part == 0 || !size.is_multiple_of(part) || !is_inside {
                    return Err(invalid("that part of the allocation cannot be mapped there"));
                }
                numbers.extend([offset, part]);
            }
            UpdateOperation::Copy { source, .. } => {
                numbers.push(source);
                ranges.push((source, size));
            }
            UpdateOperation::Unmap { .. } => {}
        }
        if size == 0 || !numbers.iter().all(|number| number.is_multiple_of(PAGE)) {
            return Err(invalid("an update is of whole pages of 4 KiB"));
        }
        if !ranges.iter().all(|&(base, size)| self.addresses.is_reserved(base, size)) {
            return Err(invalid("an update is inside one reservation"));
        }
        Ok(())
    }

    /// The mappings that an operation makes.
    fn mapped_by(&self, operation: &UpdateOperation) -> Vec<(u64, Mapping)> {
        match *operation {
            UpdateOperation::Map { base, size, allocation, offset, allocation_size, protection, driver_protection } => {
                let part = if allocation_size == 0 { size } else { allocation_size };
                let access = access(protection, driver_protection);
                let mapping = Mapping { size: part, allocation, offset, access };
                (0..size / part).map(|number| (base + number * part, mapping)).collect()
            }
            UpdateOperation::Unmap { .. } => Vec::new(),
            UpdateOperation::Copy { source, base, size } => {
                let parts = self.addresses.parts_in(source, size).into_iter();
                parts.map(|(at, mapping)| (at - source + base, mapping)).collect()
            }
        }
    }

    /// Runs the updates whose fences have their values. Returns whether any has ended.
    pub(crate) fn run_updates(&mut self) -> bool {
        let (mut left, mut has_ended): (Vec<Update>, _) = (Vec::new(), false);
        for mut update in std::mem::take(&mut self.updates) {
            let is_first = !left.iter().any(|earlier| earlier.context == update.context);
            if is_first && self.run_update(&mut update) {
                has_ended = true;
            } else {
                left.push(update);
            }
        }
        self.updates = left;
        has_ended
    }

    /// Runs an update as far as possible. Returns whether the update has ended.
    fn run_update(&mut self, update: &mut Update) -> bool {
        // The context may be gone, and the device.
        let Ok(Object::Context(context)) = self.handles.get(update.context) else { return true };
        let Ok(Object::Device(device)) = self.handles.get(context.device) else { return true };
        let Some(companion) = device.companion else { return true };
        if !update.does_not_wait && !self.has_reached(&[update.fence], false) {
            return false;
        }
        while let Some(&part) = update.parts.front() {
            match self.change(companion, part) {
                Some(value) => update.mapped = update.mapped.max(value),
                None => return false,
            }
            update.parts.pop_front();
        }
        let is_there =
            matches!(self.handles.get(companion), Ok(Object::PagingQueue(of)) if of.reached >= update.mapped);
        if !is_there {
            return false;
        }
        let FenceValue { fence, value } = update.fence;
        // A fence that is gone keeps nobody waiting.
        if let Ok(Object::Fence(_)) = self.handles.get(fence)
            && let Ok(id) = self.monitored(fence, value + 1)
        {
            let _ = self.runtime.vidmm().signal_monitored_fence(id, value + 1);
        }
        true
    }

    /// Makes a change. Returns the value of the manager's paging fence that ends the change; none if the change must wait.
    fn change(&mut self, companion: u32, part: Part) -> Option<u64> {
        match part {
            Part::Unmap { base, size } => {
                let process = self.process;
                let (vidmm, _, host) = self.runtime.borrow();
                match vidmm.free_gpu_virtual_address(host, process, GpuVirtualAddress(base), size) {
                    // The addresses of an allocation that was destroyed are free already.
                    Ok(()) | Err(GpuVaError::Range(_)) => Some(0),
                    Err(_) => None,
                }
            }
            Part::Map { base, mapping } => {
                let Ok(Object::Allocation(of)) = self.handles.get(mapping.allocation) else { return Some(0) };
                let id = of.id;
                let Ok(Object::PagingQueue(queue)) = self.handles.get(companion) else { return Some(0) };
                let queue = queue.id;
                match self.map_at(queue, id, base, mapping) {
                    Ok(mapped) => Some(mapped.paging_fence_value),
                    // Work in flight may still use what was mapped there, or memory for page tables is short.
                    Err(MapError::Range(VaRangeError::InUse)) => None,
                    Err(MapError::NoMemory { .. } | MapError::PageTableAreaFull { .. }) => None,
                    Err(MapError::TooManyPending { .. }) => None,
                    Err(_) => Some(0),
                }
            }
        }
    }

    /// Work that runs commands in addresses of an update must wait for the end of the update.
    pub(super) fn judge_updates(&mut self, context: u32, commands: u64) {
        let Ok(Object::Context(of)) = self.handles.get(context) else { return };
        let is_in = |&(base, size): &(u64, u64)| (base..base + size).contains(&commands);
        let is_owed = |update: &&Update| {
            let awaited = of.awaited.get(&update.fence.fence).copied().unwrap_or(0);
            awaited <= update.fence.value && update.destinations.iter().any(is_in)
        };
        let Some(&Update { fence, call, .. }) = self.updates.iter().find(is_owed) else { return };
        let text = format!("work is submitted before {:#x} has {}, the end of an update", fence.fence, fence.value + 1);
        self.find(Rule::SubmittedBeforeMapped, text, Some(call));
    }
}
