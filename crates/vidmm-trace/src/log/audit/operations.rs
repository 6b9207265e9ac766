//! Paging operations, in the order in which they are built (I04, I05, I15, I20).

use vidmm::contract::{
    BuildStatus, EngineFence, PagingOperation, Pte, PteFlags, UpdateMode, UpdatePageTable, UpdatePageTableFlags,
};
use vidmm::{PageSize, PlanNo};

use super::Audit;
use super::allocation::{Allocation, Mapping};
use super::device::Device;
use super::finding::Invariant;
use super::shadow::{leaf_bytes, leaf_range};
use super::tlb::Stale;

impl Audit {
    /// The CPU writes entries: all that was built before has ended, and nothing of it is in a buffer (BPB-08).
    pub(super) fn check_by_cpu(&mut self, offset: u32, bytes: u32) {
        let (submitted, completed) = (self.fences.paging_submitted, self.fences.paging_completed());
        self.findings.check(self.open_buffer.is_empty() && submitted <= completed, Invariant::I05, || {
            format!(
                "the CPU writes entries when packet {completed} of {submitted} has ended, or more is built (BPB-08)"
            )
        });
        self.findings.check(offset == 0 && bytes == 0, Invariant::I21, || {
            format!(
                "the CPU writes entries, but {bytes} bytes of commands are written at {offset} of a buffer (BPB-08)"
            )
        });
    }

    /// Notes the allocation that the driver has encoded something for, with the packet that has it.
    pub(super) fn note_paged(&mut self, operation: &PagingOperation, bytes: u32) {
        let Some(allocation) = operation.allocation().filter(|_| bytes > 0) else { return };
        self.paged = self.paged.split_off(&self.fences.paging_completed());
        self.paged.entry(self.fences.next_paging()).or_default().insert(allocation);
    }

    pub(super) fn buffer_submitted(&mut self, signal: EngineFence, bytes: u32) {
        if self.sees_operations() {
            self.open_buffer.submit(bytes, &mut self.findings);
        }
        let returned = self.fences.engine_mut(signal.engine).and_then(|engine| engine.returned.first().copied());
        self.findings.check(returned.is_none(), Invariant::I30, || {
            format!("{signal:?} is handed out before packet {returned:?}, which came back")
        });
        self.fences.submit(signal, &mut self.findings);
        self.fences.paging_submitted = signal.fence_id;
    }

    pub(super) fn operation(
        &mut self,
        plan: PlanNo,
        operation: &PagingOperation,
        status: BuildStatus,
        in_open_buffer: bool,
    ) {
        self.begin_plan(plan);
        if status != BuildStatus::Success {
            return;
        }
        if !self.check_operation_exists(operation) {
            return;
        }
        let packet = match in_open_buffer {
            true => self.fences.next_paging(),
            false => self.fences.paging_submitted,
        };
        match operation {
            PagingOperation::VirtualTransfer(op) => self.transfer(op),
            PagingOperation::VirtualFill(op) => self.fill(op),
            PagingOperation::UpdatePageTable(op) => self.update_page_table(op),
            PagingOperation::FlushTlb(op) => {
                self.check_flush(op);
                self.shadow.tlb.flush(op);
                self.views.flush(op);
            }
            PagingOperation::MapApertureSegment(op) => self.map_aperture(op),
            PagingOperation::MapApertureSegment2(op) => self.map_aperture(&(*op).into()),
            PagingOperation::UnmapApertureSegment(op) => self.unmap_aperture(op),
            PagingOperation::NotifyAlloc(op) => self.notify(op, packet),
            PagingOperation::Transfer(op) => self.physical_transfer(op),
            PagingOperation::Fill(op) => self.physical_fill(op),
            PagingOperation::DiscardContent(op) => self.discard_content(op),
            PagingOperation::NotifyResidency(op) => self.notify_residency(op),
        }
    }

    fn update_page_table(&mut self, op: &UpdatePageTable) {
        let of_paging_process = self.adapter.paging_process == Some(op.process);
        let is_initial = op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE);
        if let UpdateMode::GpuVirtual(address) = op.update_mode {
            self.check_table_view(op, address);
        }
        if of_paging_process && op.page_table_level == 0 && self.views.write(op, &mut self.findings) {
            return;
        }
        if is_initial {
            self.check_victims_hidden();
        }
        if !of_paging_process {
            if op.page_table_level > 0
                && let Some((start, end)) = self.tables.unlinked(op)
            {
                self.shadow.tlb.written(Stale { process: op.process, start, end, allocation: None });
            }
            self.tables.check_write(op, &mut self.findings);
            self.check_large_pages(op);
        }
        if !of_paging_process {
            self.write_zeros(op);
        }
        if op.page_table_level > 0 {
            return;
        }
        self.check_coherence(op);
        self.check_cut(op);
        match (of_paging_process, op.page_table_entries.first.flags.contains(PteFlags::VALID)) {
            (true, false) if is_initial => {}
            (true, true) => self.check_window_is_new(op),
            (true, false) => {
                self.check_chunk_submitted();
                self.check_windows_were_used(op);
            }
            (false, is_valid) => {
                self.check_no_window(op);
                if is_valid { self.check_valid_entries(op) } else { self.check_told_before(op) }
            }
        }
        let changes = self.shadow.write(op);
        // Entries of reserved addresses name no allocation.
        let is_of_reservation = !of_paging_process && op.allocation.is_none() && self.adapter.zero_in_pte_supported;
        self.findings.check(changes || is_initial || is_of_reservation, Invariant::I20, || {
            let (address, process) = (op.first_pte_virtual_address, op.process.0);
            format!("entries of process {process} from {address} on are written, but say the same already")
        });
    }

    /// The entry of a page of 64 KiB becomes invalid because the page is cut: nothing of its process is in flight, and what is
    /// handed out later waits for the plan (GVA-42).
    fn check_cut(&mut self, op: &UpdatePageTable) {
        let Some(&id) = self.by_process_handle.get(&op.process) else { return };
        let (start, end) = leaf_range(op);
        // An allocation that leaves meanwhile is shown nowhere: its pages are cut when it comes back.
        let cuts = |rest: &Mapping| rest.cut_from == Some(op.page_size()) && self.victim(rest.allocation).is_none();
        let is_valid = op.page_table_entries.first.flags.contains(PteFlags::VALID);
        let is_shown = self.shadow.is_shown(op.process, op.page_size(), start, end);
        if is_valid || !is_shown || !self.mappings_within(id, start, end).any(cuts) {
            return;
        }
        let of_process = |device: &&Device| device.process == id;
        let running = self.devices.values().filter(of_process).any(|device| !device.is_still());
        self.findings.check(!running, Invariant::Gva42, || {
            format!("a page of {id} is cut at {}, but work of it is in flight", op.first_pte_virtual_address)
        });
        self.processes.get_mut(&id).into_iter().for_each(|process| process.cut_by = self.building.plan);
    }

    /// Entries become invalid: whose driver is to hear that it leaves has heard it.
    fn check_told_before(&mut self, op: &UpdatePageTable) {
        let (start, end) = leaf_range(op);
        let leaves = |handle| self.shadow.shows(op.process, start, end, handle);
        let is_hidden = |of: &Allocation| !of.notify.is_empty() && leaves(of.handle);
        let mut hidden = self.victims();
        hidden.retain(|id| self.allocations.get(id).is_some_and(is_hidden));
        hidden.into_iter().for_each(|id| self.check_told(id));
    }

    /// Valid leaf entries of a user's process show what is mapped there, where it is, as it was mapped.
    fn check_valid_entries(&mut self, op: &UpdatePageTable) {
        let Some(mappings) = self.mapped_at(op) else {
            let message =
                format!("{} becomes valid, but nothing such is mapped there: {op:?}", op.first_pte_virtual_address);
            return self.findings.report(Invariant::I04, message);
        };
        let Some(id) = mappings.first().map(|mapping| mapping.allocation) else { return };
        mappings.iter().for_each(|mapping| self.check_access(op, mapping));
        self.check_one_side(op);
        let offset = op.allocation_offset_in_bytes;
        let entries = op.page_table_entries;
        let repeated = op.flags.contains(UpdatePageTableFlags::REPEAT) && entries.num_page_table_entries > 1;
        self.check_mapped_in_aperture(id);
        self.check_has_come(id);
        let place = self.allocations.get(&id).and_then(|allocation| allocation.built.as_ref());
        let right = place.map_or_else(Vec::new, |place| place.runs(offset, leaf_bytes(op)));
        let shown = (entries.first.address, leaf_bytes(op));
        self.findings.check(right == [shown] && !repeated, Invariant::I04, || {
            format!("entries for {id} from its byte {offset} on point to {shown:?}, but it is at {right:?}")
        });
    }

    /// Entries that show cached memory in system memory have the GPU snoop the CPU's caches, where they can say so; no
    /// others do.
    fn check_coherence(&mut self, op: &UpdatePageTable) {
        let Pte { flags, address } = op.page_table_entries.first;
        let allocation = op.allocation.and_then(|handle| self.allocations.get(self.by_handle.get(&handle)?));
        let is_cached = flags.contains(PteFlags::VALID) && allocation.is_some_and(|allocation| allocation.cached);
        let right = is_cached && address.segment.is_system() && self.adapter.cache_coherent_memory_supported;
        self.findings.check(flags.contains(PteFlags::CACHE_COHERENT) == right, Invariant::I04, || {
            let (address, cached) = (op.first_pte_virtual_address, if is_cached { "cached" } else { "uncached" });
            format!(
                "{address} becomes {flags:?}, and shows {cached} memory at {:?}",
                op.page_table_entries.first.address
            )
        });
    }

    /// Valid entries allow what the caller allowed, and carry what the user-mode driver gave with the mapping.
    fn check_access(&mut self, op: &UpdatePageTable, mapping: &Mapping) {
        let mut right = PteFlags::VALID;
        right.set(PteFlags::READ_ONLY, mapping.read_only);
        right.set(PteFlags::NO_EXECUTE, mapping.no_execute);
        let flags = op.page_table_entries.first.flags - PteFlags::CACHE_COHERENT;
        self.findings.check(flags == right, Invariant::I04, || {
            format!("{} becomes valid as {flags:?}, but is mapped as {right:?}", op.first_pte_virtual_address)
        });
        let (written, given) = (op.driver_protection, mapping.driver_protection);
        self.findings.check(written == given, Invariant::I04, || {
            let address = op.first_pte_virtual_address;
            format!("{address} becomes valid with driver protection {written:#x}, but is mapped with {given:#x}")
        });
    }

    /// Addresses are mapped by pages of one size (GVA-43).
    fn check_one_side(&mut self, op: &UpdatePageTable) {
        let other = match op.page_size() {
            PageSize::Kib4 => PageSize::Kib64,
            PageSize::Kib64 => PageSize::Kib4,
        };
        let (start, end) = leaf_range(op);
        let shown = self.shadow.is_shown(op.process, other, start, end);
        self.findings.check(!shown, Invariant::I04, || {
            format!("{} becomes valid, but pages of {other:?} are valid there, too", op.first_pte_virtual_address)
        });
    }

    /// The mapping where the entries are, which shows the allocation that they do from the same byte on by such pages.
    fn mapped_at(&self, op: &UpdatePageTable) -> Option<Vec<Mapping>> {
        let process = *self.by_process_handle.get(&op.process)?;
        let id = *self.by_handle.get(&op.allocation?)?;
        let start = op.first_pte_virtual_address.0;
        let range = (start, start.checked_add(leaf_bytes(op))?);
        let mappings = self.mappings_of(process, range, id, op.allocation_offset_in_bytes)?;
        let place = self.allocations.get(&id).and_then(|allocation| allocation.built.as_ref());
        let in_system = place.is_some_and(|place| self.places.in_system_memory(place.segment));
        // Pages of system memory are of 4 KiB, whatever the memory segment has (GVA-40).
        let fits = |mapping: &Mapping| match in_system {
            true => op.page_size() == PageSize::Kib4,
            false => mapping.has_pages_of(op.page_size()),
        };
        mappings.iter().all(fits).then_some(mappings)
    }
}
