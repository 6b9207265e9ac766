//! Objects: their creation.

use std::collections::BTreeMap;

use vidmm::contract::{KmdProcessHandle, SegmentSet};
use vidmm::{ContextId, DeviceId, DeviceResidency, Event, Extent, ProcessId};

use super::allocation::Allocation;
use super::aspects::Residency;
use super::device::{Context, Device};
use super::finding::Invariant;
use super::list_entry::{ListEntry, Writes};
use super::names::Name;
use super::{Audit, Process};

impl Audit {
    pub(super) fn process_created(&mut self, id: ProcessId, handle: KmdProcessHandle) {
        self.settle_start();
        self.born(id, None);
        self.processes.insert(id, Process::new(handle, self.at));
        self.by_process_handle.insert(handle, id);
    }

    pub(super) fn device_created(&mut self, id: DeviceId, process: ProcessId, residency: DeviceResidency) {
        self.born(id, Some(process.into()));
        self.devices.insert(id, Device::new(process, residency, self.at));
        let is_possible = residency == DeviceResidency::DeviceList || self.adapter.is_physical();
        self.findings.check(is_possible, Invariant::I23, || {
            format!("{id} has reference lists, on an adapter of the model {:?}", self.adapter.addressing_model)
        });
    }

    pub(super) fn context_created(&mut self, id: ContextId, device: DeviceId, engine: u32) {
        self.born(id, Some(device.into()));
        let is_taken = self.contexts.values().any(|other| other.engine == engine);
        self.fences.add_engine(engine, is_taken, &mut self.findings);
        self.contexts.insert(id, Context { device, engine, priority: 0, root: None });
    }

    pub(super) fn born(&mut self, name: impl Into<Name>, owner: Option<Name>) {
        self.names.create(name.into(), owner, &mut self.findings);
    }

    pub(super) fn allocation_created(&mut self, event: &Event) {
        let Event::AllocationCreated {
            allocation,
            device,
            handle,
            size,
            priority,
            backing_store,
            supported_segment_set,
            preferred_segment,
            accessed_physically,
            notify,
            shared,
            existing_sys_mem,
            permanent_sys_mem,
            cached,
            disable_large_page_mapping,
            explicit_residency_notification,
            ..
        } = *event
        else {
            return;
        };
        self.born(allocation, Some(device.into()));
        self.check_notifications_exist(notify);
        self.check_priority_is_possible(allocation, priority);
        if !existing_sys_mem {
            self.places.system.commit(Extent { offset: backing_store, size }, &mut self.findings);
        }
        self.by_handle.insert(handle, allocation);
        let created = Allocation {
            owner: device,
            handle,
            size,
            priority,
            backing_store,
            committed: true,
            existing_sys_mem,
            supported_segment_set,
            preferred_segment,
            cached,
            never_large: disable_large_page_mapping,
            // Without GPU virtual addresses system memory is reached through the aperture only.
            accessed_physically: accessed_physically || self.adapter.is_physical(),
            shared,
            seen_in_backing_store: existing_sys_mem || permanent_sys_mem,
            notify,
            unmap_told: (0, 0),
            residency: explicit_residency_notification.then(Residency::default),
            decided: None,
            moved_by: None,
            entered: None,
            built: None,
            last_plan: 0,
            last_copy: 0,
            moved_at: 0,
            cleaning: None,
            refreshed_by: 0,
            backed: existing_sys_mem,
            was_in_place: false,
            last_use: None,
            writes: Writes::NONE,
            destroyed: false,
            open: vec![device],
            closed_by: Vec::new(),
            lists: BTreeMap::from([(device, ListEntry::default())]),
            is_to_go: false,
            offer: None,
            discarded_by: 0,
            cpu_view: None,
            may_wait_for_lock: false,
            charges: Vec::new(),
            counted_in: None,
            mappings: Default::default(),
        };
        if created.accessed_physically {
            self.places.note_ranges(SegmentSet(supported_segment_set));
        }
        self.may_be_in(supported_segment_set, size);
        self.allocations.insert(allocation, created);
    }
}
