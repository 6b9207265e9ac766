//! The IOMMU: which addresses of its domains show what (I29, I14).
//!
//! The host maps and unmaps, at once; the paging engine comes later. So what is mapped must be so before the operation that
//! needs it is built, and must stay until the packet with that operation has ended.

use std::collections::BTreeMap;
use std::fmt;

use vidmm::contract::{AddressingModel, AllocationFlags2, IoMmuDomain, KmdProcessHandle, NotifyAlloc};
use vidmm::{AllocationId, GpuVirtualAddress, PlanNo, ProcessId};

use super::Audit;
use super::allocation::{Allocation, Mapping};
use super::device::{Request, RequestKind};
use super::dispatch::Dispatch;
use super::finding::Invariant;
use super::intervals::{Intervals, Known, Part};

/// The mapped ranges of all domains.
#[derive(Debug, Default)]
pub(super) struct IoMmu {
    domains: BTreeMap<IoMmuDomain, Intervals<Range>>,
    /// The windows, by their allocations and where they begin.
    windows: BTreeMap<(AllocationId, u64), Key>,
}

/// Where something is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    domain: IoMmuDomain,
    start: u64,
    end: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} of {:?}", self.start, self.domain)
    }
}

/// A range that the host mapped at once, or a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub plan: PlanNo,
    pub allocation: AllocationId,
    pub allocation_offset: u64,
    pub window: bool,
    /// The packet of the paging engine with the operation that the window is for, or the notification of its unmap.
    pub packet: Option<u64>,
}

impl Known for Range {
    fn advanced(self, bytes: u64) -> Self {
        Self { allocation_offset: self.allocation_offset.saturating_add(bytes), ..self }
    }
}

impl IoMmu {
    /// The parts of ranges that are mapped somewhere.
    fn within(&self, Key { domain, start, end }: Key) -> impl Iterator<Item = Part<Range>> {
        self.domains.get(&domain).into_iter().flat_map(move |ranges| ranges.within(start, end))
    }

    /// The windows of an allocation.
    fn windows_of(&self, id: AllocationId) -> impl Iterator<Item = Key> {
        self.windows.range((id, 0)..=(id, u64::MAX)).map(|(_, &window)| window)
    }

    /// Takes out what is mapped somewhere. Returns it.
    fn remove(&mut self, Key { domain, start, end }: Key) -> Vec<Part<Range>> {
        self.domains.get_mut(&domain).map(|ranges| ranges.remove(start, end)).unwrap_or_default()
    }

    /// A packet names the mapping of a range. Returns the parts that were known before.
    fn note_packet(&mut self, key: Key, packet: u64) -> Vec<Part<Range>> {
        let parts = self.remove(key);
        let ranges = self.domains.entry(key.domain).or_default();
        for &(start, end, range) in &parts {
            ranges.insert(start, end, Range { packet: Some(packet), ..range });
        }
        parts
    }

    /// Something that is mapped.
    pub fn first(&self) -> Option<GpuVirtualAddress> {
        self.domains.values().find_map(Intervals::first).map(|(start, ..)| GpuVirtualAddress(start))
    }

    /// Something that is mapped in the domain of a process.
    pub fn first_of(&self, process: KmdProcessHandle) -> Option<GpuVirtualAddress> {
        let ranges = self.domains.get(&IoMmuDomain::Process(process))?;
        ranges.first().map(|(start, ..)| GpuVirtualAddress(start))
    }
}

impl Audit {
    pub(super) fn io_mmu_mapped(&mut self, domain: IoMmuDomain, start: GpuVirtualAddress, size: u64, range: Range) {
        let key = Key { domain, start: start.0, end: start.0.saturating_add(size) };
        if range.window {
            self.begin_plan(range.plan);
        }
        self.check_entered(range.plan, key);
        self.check_domain(domain);
        let other = self.io_mmu.within(key).next();
        self.findings.check(other.is_none(), Invariant::I29, || {
            format!("{range:?} is mapped at {key}, where something is mapped already: {other:?}")
        });
        let bytes = self.allocations.get(&range.allocation).map_or(0, |allocation| allocation.size);
        let inside = size > 0 && range.allocation_offset.checked_add(size).is_some_and(|end| end <= bytes);
        self.findings.check(inside, Invariant::I29, || {
            format!("{size} bytes of {range:?} are mapped at {key}, which are not a part of {}", range.allocation)
        });
        if range.window {
            self.check_new_window(key, &range);
            self.io_mmu.windows.insert((range.allocation, key.start), key);
        } else {
            self.check_new_range(key, &range);
        }
        self.io_mmu.domains.entry(domain).or_default().insert(key.start, key.end, range);
    }

    /// The mappings of processes that meet addresses of a domain.
    fn mappings_in(&self, Key { domain, start, end }: Key) -> Vec<Mapping> {
        let within = |process: ProcessId| self.mappings_within(process, start, end).copied();
        match domain {
            IoMmuDomain::Process(handle) => {
                self.by_process_handle.get(&handle).copied().into_iter().flat_map(within).collect()
            }
            IoMmuDomain::Global => self.processes.keys().copied().flat_map(within).collect(),
        }
    }

    /// The host's steps for a plan are done when that is in the stream.
    fn check_entered(&mut self, plan: PlanNo, key: Key) {
        self.findings.check(self.plans.has_entered(plan), Invariant::I20, || {
            format!("{key} is mapped or unmapped for plan {plan}, which has not entered the stream")
        });
    }

    /// The reset of the adapter undoes also what a plan was to undo that waits to enter the stream, and never will (FLT-32).
    fn check_undone_by_reset(&mut self, plan: PlanNo, key: Key) {
        self.findings.check(self.plans.is_decided(plan), Invariant::I20, || {
            format!("the reset unmaps {key} for plan {plan}, which is not decided")
        });
    }

    /// The domain is one that the addressing model has.
    fn check_domain(&mut self, domain: IoMmuDomain) {
        let exists = match (self.adapter.addressing_model, domain) {
            (AddressingModel::GpuVaIoMmu, IoMmuDomain::Process(process)) => {
                self.by_process_handle.contains_key(&process) || self.adapter.paging_process == Some(process)
            }
            (AddressingModel::GpuVaIoMmuGlobal, IoMmuDomain::Global) => true,
            _ => false,
        };
        self.findings.check(exists, Invariant::I29, || {
            format!("{domain:?} is no domain of an adapter of the model {:?}", self.adapter.addressing_model)
        });
    }

    /// A window is of the paging process, and its allocation has no other.
    fn check_new_window(&mut self, key: Key, range: &Range) {
        let paging = self.adapter.paging_process.map(|process| self.domain_of(process));
        self.findings.check(paging == Some(key.domain), Invariant::I14, || {
            format!("a window is mapped at {key}; the paging process's domain is {paging:?}")
        });
        let before = self.io_mmu.windows_of(range.allocation).next().is_some();
        self.findings.check(!before, Invariant::I10, || {
            format!("a window is mapped at {key} before the last one of {} is unmapped", range.allocation)
        });
    }

    /// A process sees what it mapped, while that is resident in system memory.
    fn check_new_range(&mut self, key: Key, range: &Range) {
        let ends = (key.start, key.end);
        let mapped = self.mappings_in(key);
        let process = mapped.first().map(|mapping| mapping.process);
        let shown =
            process.and_then(|process| self.mappings_of(process, ends, range.allocation, range.allocation_offset));
        let whole = shown.is_some_and(|shown| {
            shown.first().is_some_and(|first| first.virtual_address == ends.0)
                && shown.last().is_some_and(|last| last.end() == ends.1)
        });
        let resident = self.allocations.get(&range.allocation).is_some_and(|allocation| allocation.entered.is_some());
        self.findings.check(whole, Invariant::I29, || {
            format!("{range:?} is mapped at {key}, where the process has mapped {mapped:?}")
        });
        self.findings.check(resident, Invariant::I29, || {
            format!("{range:?} is mapped at {key}, but {} is not resident", range.allocation)
        });
    }

    fn domain_of(&self, process: KmdProcessHandle) -> IoMmuDomain {
        match self.adapter.addressing_model {
            AddressingModel::GpuVaIoMmuGlobal => IoMmuDomain::Global,
            _ => IoMmuDomain::Process(process),
        }
    }

    /// The parts of a mapping that the host has mapped.
    pub(super) fn ranges_of(&self, mapping: &Mapping) -> impl Iterator<Item = Part<Range>> {
        let allocation = mapping.allocation;
        let key = self.key_of(mapping).into_iter();
        key.flat_map(|key| self.io_mmu.within(key)).filter(move |(.., range)| range.allocation == allocation)
    }

    fn key_of(&self, mapping: &Mapping) -> Option<Key> {
        let process = self.processes.get(&mapping.process)?;
        Some(Key { domain: self.domain_of(process.handle), start: mapping.virtual_address, end: mapping.end() })
    }

    /// The host has mapped something of an allocation where a mapping of it is, or in a window.
    pub(super) fn first_in_io_mmu(&self, id: AllocationId, of: &Allocation) -> Option<(GpuVirtualAddress, PlanNo)> {
        let mappings = of.mappings.iter().filter_map(|key| self.mappings.get(key));
        let windows = self.io_mmu.windows_of(id).flat_map(|window| self.io_mmu.within(window));
        let ranges = mappings.flat_map(|mapping| self.ranges_of(mapping)).chain(windows);
        ranges.map(|(start, _, range)| (GpuVirtualAddress(start), range.plan)).min_by_key(|&(_, plan)| plan)
    }

    /// The unmap of a mapping is notified: once.
    pub(super) fn note_unmap_told(&mut self, mapping: &Mapping, packet: u64) {
        let Some(key) = self.key_of(mapping) else { return };
        let before = self.io_mmu.note_packet(key, packet);
        let is_told = before.iter().any(|(.., range)| range.packet.is_some());
        self.findings.check(!is_told, Invariant::I09, || format!("the unmap of {key} is notified twice"));
        self.findings.check(!before.is_empty(), Invariant::I09, || {
            format!("the unmap of {key} is notified, but nothing is mapped there")
        });
    }

    /// The window of an allocation at an address is for an operation in this packet.
    pub(super) fn note_window_used(&mut self, id: AllocationId, address: GpuVirtualAddress, packet: u64) {
        if let Some(&window) = self.io_mmu.windows.get(&(id, address.0)) {
            self.io_mmu.note_packet(window, packet);
        }
    }

    /// The window of a notification shows its chunk; no other is mapped.
    pub(super) fn check_io_mmu_window(&mut self, id: AllocationId, op: &NotifyAlloc) {
        let address = op.gpu_virtual_address_at_offset;
        let others = self.io_mmu.windows.values().find(|window| window.start != address.0);
        self.findings.check(others.is_none(), Invariant::I14, || {
            format!("the window at {address} is used while another is mapped: {others:?}")
        });
        let window = self.io_mmu.windows.get(&(id, address.0));
        let shown = window.and_then(|&window| self.io_mmu.within(window).next());
        let shown = shown.map(|(start, end, range)| (range.allocation_offset, end.saturating_sub(start)));
        let right = (op.offset_in_bytes, op.size_in_bytes);
        self.findings.check(shown == Some(right), Invariant::I14, || {
            format!("the window at {address} must show {right:?} of {id}, but shows {shown:?}")
        });
    }

    pub(super) fn io_mmu_unmapped(
        &mut self,
        plan: PlanNo,
        (domain, GpuVirtualAddress(start)): (IoMmuDomain, GpuVirtualAddress),
        size: u64,
        window: bool,
    ) {
        let key = Key { domain, start, end: start.saturating_add(size) };
        if self.reset.is_some() {
            self.check_undone_by_reset(plan, key);
        } else {
            self.check_entered(plan, key);
        }
        let parts = self.io_mmu.remove(key);
        let bytes = parts.iter().fold(0u64, |sum, (start, end, _)| sum.saturating_add(end.saturating_sub(*start)));
        let is_inside = |mapping: &Mapping| key.start <= mapping.virtual_address && mapping.end() <= key.end;
        let is_it = bytes == size
            && parts.iter().all(|(.., range)| range.window == window)
            && match window {
                true => parts.iter().all(|part| self.io_mmu.windows.get(&(part.2.allocation, start)) == Some(&key)),
                false => self.mappings_in(key).iter().all(is_inside),
            };
        let windows = parts.iter().filter(|(.., range)| range.window);
        windows.for_each(|&(start, _, range)| _ = self.io_mmu.windows.remove(&(range.allocation, start)));
        if !is_it {
            let message = format!("{size} bytes are unmapped at {key}, which is not what was mapped there");
            return self.findings.report(Invariant::I29, message);
        }
        // After a reset nothing uses what is there, and no driver is told.
        if self.reset.is_some() {
            return;
        }
        for (start, end, range) in parts {
            let part = Key { domain, start, end };
            match window {
                true => self.check_window_used(part, &range),
                false => self.check_unmapped_in_time(plan, part, &range),
            }
        }
    }

    /// A window stays until its operation has ended.
    fn check_window_used(&mut self, key: Key, range: &Range) {
        let completed = self.fences.paging_completed();
        let over = range.packet.is_some_and(|packet| packet <= completed);
        self.findings.check(over, Invariant::I14, || {
            format!("the window at {key} is unmapped after packet {completed}, but is for packet {:?}", range.packet)
        });
    }

    /// An allocation is unmapped when it has left or its mappings were freed, nothing uses it, its driver was told, and all
    /// paging operations up to that have ended.
    fn check_unmapped_in_time(&mut self, plan: PlanNo, key: Key, range: &Range) {
        let mappings = self.mappings_in(key);
        let Some(allocation) = self.allocations.get(&range.allocation) else { return };
        // A range that is mapped since before its allocation last came belongs to a place that it has left.
        let stays = allocation.entered.as_ref().is_some_and(|place| place.plan <= range.plan);
        let is_over = |mapping: &Mapping| {
            let device = self.devices.get(&mapping.device);
            mapping.freed.is_some_and(|last| device.is_none_or(|device| device.has_retired(last)))
        };
        let are_over = !mappings.is_empty() && mappings.iter().all(is_over);
        self.findings.check(!stays || are_over, Invariant::I29, || {
            format!("{key} is unmapped, but {} stays, and work may use it there: {mappings:?}", range.allocation)
        });
        let must = allocation.notify.contains(AllocationFlags2::NOTIFY_IO_MMU_UNMAP)
            && self.adapter.notifies_unmap_by_mapping();
        self.findings.check(!must || range.packet.is_some(), Invariant::I09, || {
            format!("{key} is unmapped, but its driver was not notified of that")
        });
        let completed = self.fences.paging_completed();
        let told_for_all = Some(allocation.unmap_told).filter(|&(of, _)| of == plan).map_or(0, |(_, packet)| packet);
        let told_in = range.packet.unwrap_or(told_for_all);
        self.findings.check(told_in <= completed, Invariant::I09, || {
            format!("{key} is unmapped after packet {completed} of the paging engine, but notified in packet {told_in}")
        });
    }

    /// A mapping of an allocation that is where it is since `plan`, which its process must see when this work runs, and does not.
    pub(super) fn unseen_mapping(&self, dispatch: Dispatch, id: AllocationId, plan: PlanNo) -> Option<&Mapping> {
        if !self.adapter.has_io_mmu_addresses() {
            return None;
        }
        let mappings = self.allocations.get(&id)?.mappings.iter().filter_map(|key| self.mappings.get(key));
        let mut due = mappings.filter(|mapping| {
            mapping.granted && mapping.freed.is_none() && !self.is_added_meanwhile(dispatch, mapping, plan)
        });
        due.find(|mapping| {
            let is_stale = |(.., range): Part<Range>| range.plan < plan || range.packet.is_some();
            !self.is_in_io_mmu(mapping) || self.ranges_of(mapping).any(is_stale)
        })
    }

    /// Whether a mapping is added by a plan after `place`, for a request whose fence is not signalled and which the work does not
    /// follow: another device's, or one that was made later (RES-33).
    fn is_added_meanwhile(
        &self,
        Dispatch { device, submission, .. }: Dispatch,
        mapping: &Mapping,
        place: PlanNo,
    ) -> bool {
        let requests = self.devices.get(&mapping.device).into_iter().flat_map(|books| &books.requests);
        let adds = |request: &&Request| {
            let is_its = matches!(request.kind, RequestKind::Map(process, start, end)
                if process == mapping.process && start <= mapping.virtual_address && mapping.end() <= end);
            is_its && request.granted.iter().flatten().any(|&plan| plan > place)
        };
        let mut adding = requests.filter(adds);
        adding.any(|request| mapping.device != device || request.after_submission >= submission)
    }

    /// Whether the process sees all of a mapping.
    fn is_in_io_mmu(&self, mapping: &Mapping) -> bool {
        let bytes = |(start, end, _): Part<Range>| end.saturating_sub(start);
        self.ranges_of(mapping).map(bytes).fold(0, u64::saturating_add) == mapping.size
    }

    /// A plan is built to its end: the process sees what it mapped of an allocation that came in.
    pub(super) fn check_in_io_mmu(&mut self, mapping: &Mapping) {
        let mapped = self.is_in_io_mmu(mapping);
        self.findings.check(mapped, Invariant::I29, || {
            let Mapping { process, virtual_address, allocation, .. } = mapping;
            format!("{virtual_address:#x} of {process} must show {allocation}, but is not mapped in the IOMMU")
        });
    }

    /// A plan is built to its end: no window is left.
    pub(super) fn check_io_mmu_windows_empty(&mut self, plan: PlanNo) {
        if let Some((_, window)) = self.io_mmu.windows.pop_first() {
            self.findings.report(Invariant::I14, format!("plan {plan} ends with a window mapped at {window}"));
            self.io_mmu.remove(window);
        }
    }

    /// A plan has retired: what it took out is mapped no longer.
    pub(super) fn check_left_io_mmu(&mut self, plan: PlanNo, id: AllocationId) {
        let first = self.allocations.get(&id).and_then(|of| self.first_in_io_mmu(id, of));
        let left = first.filter(|&(_, mapped_by)| mapped_by < plan).map(|(address, _)| address);
        self.findings.check(left.is_none(), Invariant::I29, || {
            format!("plan {plan} has retired, but {id}, which it took out, is mapped at {left:?}")
        });
    }
}
