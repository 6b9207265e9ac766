//! The IOMMU: which addresses of its domains show what (I29, I14).
//!
//! The host maps and unmaps, at once; the paging engine comes later. So what is mapped must be so before the operation that
//! needs it is built, and must stay until the packet with that operation has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use vidmm::contract::{AddressingModel, AllocationFlags2, IoMmuDomain, KmdProcessHandle, NotifyAlloc};
use vidmm::{AllocationId, GpuVirtualAddress, PlanNo, ProcessId};

use super::Audit;
use super::allocation::Mapping;
use super::device::{Request, RequestKind};
use super::dispatch::Dispatch;
use super::finding::Invariant;

/// The mapped ranges of all domains.
#[derive(Debug, Default)]
pub(super) struct IoMmu {
    ranges: BTreeMap<Key, Range>,
    by_allocation: BTreeMap<AllocationId, BTreeSet<Key>>,
    windows: BTreeSet<Key>,
}

/// Where something is mapped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    domain: IoMmuDomain,
    start: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} of {:?}", self.start, self.domain)
    }
}

/// A range that the host mapped at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub plan: PlanNo,
    pub allocation: AllocationId,
    pub allocation_offset: u64,
    pub size: u64,
    pub window: bool,
    /// The packet of the paging engine with the operation that the window is for, or the notification of its unmap.
    pub packet: Option<u64>,
}

impl IoMmu {
    /// Whether something is mapped at one of these addresses.
    fn overlapping(&self, at: Key, size: u64) -> Option<Key> {
        let end = Key { start: at.start.saturating_add(size), ..at };
        let (&key, range) = self.ranges.range(Key { start: 0, ..at }..end).next_back()?;
        (key.start.saturating_add(range.size) > at.start).then_some(key)
    }

    fn insert(&mut self, key: Key, range: Range) {
        self.remove(key);
        self.ranges.insert(key, range);
        if range.window {
            self.windows.insert(key);
        }
        self.by_allocation.entry(range.allocation).or_default().insert(key);
    }

    fn remove(&mut self, key: Key) -> Option<Range> {
        let range = self.ranges.remove(&key)?;
        self.windows.remove(&key);
        if let Some(keys) = self.by_allocation.get_mut(&range.allocation) {
            keys.remove(&key);
        }
        Some(range)
    }

    /// The range that is mapped around an address of a domain ends there, and goes on as a range of its own.
    fn cut(&mut self, domain: IoMmuDomain, at: u64) {
        let Some((&key, &range)) = self.ranges.range(Key { domain, start: 0 }..Key { domain, start: at }).next_back()
        else {
            return;
        };
        let size = at.saturating_sub(key.start);
        if size >= range.size || range.window {
            return;
        }
        self.insert(key, Range { size, ..range });
        let rest = Range {
            size: range.size.saturating_sub(size),
            allocation_offset: range.allocation_offset.saturating_add(size),
            ..range
        };
        self.insert(Key { domain, start: at }, rest);
    }

    /// Takes what is mapped in a range out, but what reaches beyond it.
    fn take(&mut self, at: Key, size: u64) -> Vec<(Key, Range)> {
        let end = at.start.saturating_add(size);
        let within = self.ranges.range(at..Key { start: end.max(at.start), ..at });
        let is_inside = |(key, range): &(&Key, &Range)| key.start.saturating_add(range.size) <= end;
        let keys: Vec<Key> = within.filter(is_inside).map(|(&key, _)| key).collect();
        keys.into_iter().filter_map(|key| Some((key, self.remove(key)?))).collect()
    }

    /// The mapped ranges of an allocation.
    fn of(&self, allocation: AllocationId) -> impl Iterator<Item = (Key, &Range)> {
        let keys = self.by_allocation.get(&allocation).into_iter().flatten();
        keys.filter_map(|&key| Some((key, self.ranges.get(&key)?)))
    }

    /// Forgets what is mapped of an allocation. Returns the first address.
    pub fn forget(&mut self, allocation: AllocationId) -> Option<GpuVirtualAddress> {
        let keys = self.by_allocation.remove(&allocation)?;
        for &key in &keys {
            self.remove(key);
        }
        keys.first().map(|key| GpuVirtualAddress(key.start))
    }

    /// Something that is mapped.
    pub fn first(&self) -> Option<GpuVirtualAddress> {
        self.ranges.keys().next().map(|key| GpuVirtualAddress(key.start))
    }

    /// Something that is mapped in the domain of a process.
    pub fn first_of(&self, process: KmdProcessHandle) -> Option<GpuVirtualAddress> {
        let domain = IoMmuDomain::Process(process);
        let all = Key { domain, start: 0 }..=Key { domain, start: u64::MAX };
        self.ranges.range(all).next().map(|(key, _)| GpuVirtualAddress(key.start))
    }
}

impl Audit {
    pub(super) fn io_mmu_mapped(
        &mut self,
        domain: IoMmuDomain,
        GpuVirtualAddress(start): GpuVirtualAddress,
        range: Range,
    ) {
        let key = Key { domain, start };
        if range.window {
            self.begin_plan(range.plan);
        }
        self.check_entered(range.plan, key);
        self.check_domain(key.domain);
        let other = self.io_mmu.overlapping(key, range.size);
        self.findings.check(other.is_none(), Invariant::I29, || {
            format!("{range:?} is mapped at {key}, where something is mapped already: {other:?}")
        });
        other.and_then(|other| self.io_mmu.remove(other));
        let bytes = self.allocations.get(&range.allocation).map_or(0, |allocation| allocation.size);
        let inside = range.size > 0 && range.allocation_offset.checked_add(range.size).is_some_and(|end| end <= bytes);
        self.findings.check(inside, Invariant::I29, || {
            format!("{range:?} is mapped at {key}, which is not a part of {}", range.allocation)
        });
        if range.window {
            self.check_new_window(key, &range);
        } else {
            self.check_new_range(key, &range);
        }
        self.io_mmu.insert(key, range);
        // Since the plan was decided, parts of the mapping may have been freed.
        let end = key.start.saturating_add(range.size);
        let cuts = self.mappings_in(key, end).iter().map(|mapping| mapping.virtual_address).collect::<Vec<_>>();
        cuts.into_iter().for_each(|cut| self.io_mmu.cut(key.domain, cut));
    }

    /// The last mapping of a process in a domain up to an address.
    fn mappings_in(&self, Key { domain, start }: Key, end: u64) -> Vec<Mapping> {
        let within = |process: ProcessId| self.mappings_within(process, start, end).copied();
        match domain {
            IoMmuDomain::Process(handle) => {
                self.by_process_handle.get(&handle).copied().into_iter().flat_map(within).collect()
            }
            IoMmuDomain::Global => self.processes.keys().copied().flat_map(within).collect(),
        }
    }

    /// The IOMMU's range for a mapping is cut where that was cut.
    pub(super) fn cut_io_mmu(&mut self, mapping: &Mapping) {
        let Some(key) = self.key_of(mapping) else { return };
        self.io_mmu.cut(key.domain, mapping.virtual_address);
        self.io_mmu.cut(key.domain, mapping.end());
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
        let before = self.io_mmu.of(range.allocation).find(|(_, other)| other.window).map(|(key, _)| key);
        self.findings.check(before.is_none(), Invariant::I10, || {
            format!("a window is mapped at {key} before the last one of {} is unmapped", range.allocation)
        });
    }

    /// A process sees what it mapped, while that is resident in system memory.
    fn check_new_range(&mut self, key: Key, range: &Range) {
        let ends = (key.start, key.start.saturating_add(range.size));
        let mapped = self.mappings_in(key, ends.1);
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

    /// The mapping of a process at an address of a domain.
    fn mapping_in(&self, key: Key) -> Option<Mapping> {
        self.mappings_in(key, key.start.saturating_add(1)).first().copied()
    }

    fn domain_of(&self, process: KmdProcessHandle) -> IoMmuDomain {
        match self.adapter.addressing_model {
            AddressingModel::GpuVaIoMmuGlobal => IoMmuDomain::Global,
            _ => IoMmuDomain::Process(process),
        }
    }

    fn key_of(&self, mapping: &Mapping) -> Option<Key> {
        let process = self.processes.get(&mapping.process)?;
        Some(Key { domain: self.domain_of(process.handle), start: mapping.virtual_address })
    }

    /// The ranges that the host has mapped for a mapping.
    pub(super) fn range_of(&self, mapping: &Mapping) -> Option<&Range> {
        self.io_mmu.ranges.get(&self.key_of(mapping)?).filter(|range| range.allocation == mapping.allocation)
    }

    /// The unmap of a mapping is notified: once.
    pub(super) fn note_unmap_told(&mut self, mapping: &Mapping, packet: u64) {
        let range = self.key_of(mapping).and_then(|key| self.io_mmu.ranges.get_mut(&key));
        let before = range.map(|range| range.packet.replace(packet));
        self.findings.check(before == Some(None), Invariant::I09, || {
            let Mapping { process, virtual_address, .. } = mapping;
            match before {
                Some(_) => format!("the unmap of {virtual_address:#x} of {process} is notified twice"),
                None => {
                    format!("the unmap of {virtual_address:#x} of {process} is notified, but nothing is mapped there")
                }
            }
        });
    }

    /// The window at an address is for an operation in this packet.
    pub(super) fn note_window_used(&mut self, address: GpuVirtualAddress, packet: u64) {
        let Some(domain) = self.adapter.paging_process.map(|process| self.domain_of(process)) else { return };
        let range = self.io_mmu.ranges.get_mut(&Key { domain, start: address.0 });
        if let Some(window) = range.filter(|range| range.window) {
            window.packet = Some(packet);
        }
    }

    /// The window of a notification shows its chunk; no other is mapped.
    pub(super) fn check_io_mmu_window(&mut self, id: AllocationId, op: &NotifyAlloc) {
        let address = op.gpu_virtual_address_at_offset;
        let Some(domain) = self.adapter.paging_process.map(|process| self.domain_of(process)) else { return };
        let key = Key { domain, start: address.0 };
        let others = self.io_mmu.windows.iter().find(|&&other| other != key);
        self.findings.check(others.is_none(), Invariant::I14, || {
            format!("the window at {address} is used while another is mapped: {others:?}")
        });
        let window = self.io_mmu.ranges.get(&key).filter(|range| range.window);
        let shown = window.map(|window| (window.allocation, window.allocation_offset, window.size));
        let right = (id, op.offset_in_bytes, op.size_in_bytes);
        self.findings.check(shown == Some(right), Invariant::I14, || {
            format!("the window at {address} must show {right:?}, but shows {shown:?}")
        });
    }

    pub(super) fn io_mmu_unmapped(
        &mut self,
        plan: PlanNo,
        (domain, GpuVirtualAddress(start)): (IoMmuDomain, GpuVirtualAddress),
        size: u64,
        window: bool,
    ) {
        let key = Key { domain, start };
        if self.reset.is_some() {
            self.check_undone_by_reset(plan, key);
        } else {
            self.check_entered(plan, key);
        }
        let ranges = self.io_mmu.take(key, size);
        let bytes = ranges.iter().fold(0u64, |sum, (_, range)| sum.saturating_add(range.size));
        if bytes != size || ranges.iter().any(|(_, range)| range.window != window) {
            let message = format!("{size} bytes are unmapped at {key}, which is not what was mapped there");
            return self.findings.report(Invariant::I29, message);
        }
        // After a reset nothing uses what is there, and no driver is told.
        if self.reset.is_some() {
            return;
        }
        for (key, range) in ranges {
            match window {
                true => self.check_window_used(key, &range),
                false => self.check_unmapped_in_time(plan, key, &range),
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

    /// An allocation is unmapped when it has left or the mapping was freed, nothing uses it, its driver was told, and all paging
    /// operations up to that have ended.
    fn check_unmapped_in_time(&mut self, plan: PlanNo, key: Key, range: &Range) {
        let mapping = self.mapping_in(key);
        let Some(allocation) = self.allocations.get(&range.allocation) else { return };
        // A range that is mapped since before its allocation last came belongs to a place that it has left.
        let stays = allocation.entered.as_ref().is_some_and(|place| place.plan <= range.plan);
        let freed = mapping.and_then(|mapping| mapping.freed);
        let device = mapping.and_then(|mapping| self.devices.get(&mapping.device));
        let retired = |last| device.is_none_or(|device| device.has_retired(last));
        self.findings.check(!stays || freed.is_some_and(retired), Invariant::I29, || {
            let id = range.allocation;
            format!("{key} is unmapped, but {id} stays, and work may use it there: freed after submission {freed:?}")
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
        due.find(|mapping| self.range_of(mapping).is_none_or(|range| range.plan < plan || range.packet.is_some()))
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

    /// A plan is built to its end: the process sees what it mapped of an allocation that came in.
    pub(super) fn check_in_io_mmu(&mut self, mapping: &Mapping) {
        let mapped = self.range_of(mapping).is_some();
        self.findings.check(mapped, Invariant::I29, || {
            let Mapping { process, virtual_address, allocation, .. } = mapping;
            format!("{virtual_address:#x} of {process} must show {allocation}, but is not mapped in the IOMMU")
        });
    }

    /// A plan is built to its end: no window is left.
    pub(super) fn check_io_mmu_windows_empty(&mut self, plan: PlanNo) {
        if let Some(&key) = self.io_mmu.windows.first() {
            self.findings.report(Invariant::I14, format!("plan {plan} ends with a window mapped at {key}"));
            self.io_mmu.remove(key);
        }
    }

    /// A plan has retired: what it took out is mapped no longer.
    pub(super) fn check_left_io_mmu(&mut self, plan: PlanNo, id: AllocationId) {
        let left = self.io_mmu.of(id).find(|(_, range)| range.plan < plan).map(|(key, _)| key);
        self.findings.check(left.is_none(), Invariant::I29, || {
            format!("plan {plan} has retired, but {id}, which it took out, is mapped at {left:?}")
        });
    }
}
