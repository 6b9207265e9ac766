//! Content that moves: transfers and fills, chunk by chunk (I05, I10, I14, I24).

use vidmm::contract::{FillVirtual, MemoryTransferDirection, TransferVirtual, TransferVirtualFlags, UpdatePageTable};
use vidmm::event::ContentSource;
use vidmm::{AllocationId, GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress, PlanNo, SegmentId};

use super::Audit;
use super::allocation::Place;
use super::aspects::Chunk;
use super::finding::Invariant;
use super::segment::Run;
use super::shadow::leaf_range;

/// A window of the paging process, and the memory that it must show.
pub(super) type Window = (GpuVirtualAddress, Vec<Run>);

impl Audit {
    pub(super) fn transfer(&mut self, op: &TransferVirtual) {
        let Some(id) = self.named(op.allocation) else { return };
        let chunk = Chunk { offset: op.allocation_offset_in_bytes, size: op.transfer_size_in_bytes };
        let (source, destination) = (op.source_virtual_address, op.destination_virtual_address);
        self.use_windows(&[source, destination], chunk.size);
        let place = match op.transfer_direction {
            MemoryTransferDirection::LocalToSystem => {
                self.chunk_out(id, chunk).or_else(|| self.chunk_cleaned(id, chunk))
            }
            MemoryTransferDirection::SystemToLocal => self.chunk_in(id, chunk, ContentSource::BackingStore),
            MemoryTransferDirection::LocalToLocal => None,
        };
        let Some(place) = place else { return self.report_unplanned(id, chunk) };
        let (local, system) = match op.transfer_direction {
            MemoryTransferDirection::LocalToSystem => (source, destination),
            _ => (destination, source),
        };
        let local = (local, place.runs(chunk.offset, chunk.size));
        self.check_windows(&[(system, self.runs_of_store(id, chunk)), local], chunk);
        self.check_page_sizes(op);
    }

    /// A transfer says which of its windows have pages of 64 KiB.
    fn check_page_sizes(&mut self, op: &TransferVirtual) {
        let Some(process) = self.adapter.paging_process else { return };
        for (address, flag) in [
            (op.source_virtual_address, TransferVirtualFlags::SRC_64KB_PAGES),
            (op.destination_virtual_address, TransferVirtualFlags::DST_64KB_PAGES),
        ] {
            let is_shown = |side| {
                self.shadow.is_shown(process, side, address.0, address.0.saturating_add(op.transfer_size_in_bytes))
            };
            let is_right = match op.flags.contains(flag) {
                true => is_shown(PageSize::Kib64) || !is_shown(PageSize::Kib4),
                false => !is_shown(PageSize::Kib64),
            };
            self.findings.check(is_right, Invariant::I14, || {
                format!("the window at {address} is used with the flags {:?}, but its pages are others", op.flags)
            });
        }
    }

    /// Memory that shows nothing of its allocation's yet reads as zero (CRE-42).
    pub(super) fn check_zeros(&mut self, id: AllocationId, fill_pattern: u32) {
        self.findings.check(fill_pattern == 0, Invariant::Cre42, || {
            format!("{id} is filled with {fill_pattern:#x}, not with zeros")
        });
    }

    pub(super) fn fill(&mut self, op: &FillVirtual) {
        let Some(id) = self.named(op.allocation) else { return };
        let chunk = Chunk { offset: op.allocation_offset_in_bytes, size: op.fill_size_in_bytes };
        self.use_windows(&[op.destination_virtual_address], chunk.size);
        let Some(place) = self.chunk_in(id, chunk, ContentSource::Fill) else {
            return self.report_unplanned(id, chunk);
        };
        self.check_zeros(id, op.fill_pattern);
        self.check_windows(&[(op.destination_virtual_address, place.runs(chunk.offset, chunk.size))], chunk);
    }

    /// The system memory of a chunk's backing store.
    pub(super) fn runs_of_store(&self, id: AllocationId, chunk: Chunk) -> Vec<Run> {
        let store = self.allocations.get(&id).map_or(0, |allocation| allocation.backing_store);
        vec![(PhysicalAddress { segment: SegmentId::SYSTEM, offset: store.saturating_add(chunk.offset) }, chunk.size)]
    }

    /// Counts a chunk that leaves. Returns where the allocation was; none if the plan does not copy it out.
    pub(super) fn chunk_out(&mut self, id: AllocationId, chunk: Chunk) -> Option<Place> {
        let victim = self.victim_mut(id).filter(|victim| victim.copied)?;
        let (before, place) = (victim.moved, victim.place.clone());
        victim.moved = chunk.offset.saturating_add(chunk.size);
        self.check_hidden(id, Invariant::I05);
        self.check_residency_told(id, None);
        self.check_chunk(id, chunk, before);
        Some(place)
    }

    /// Counts a chunk that comes in. Returns where the allocation goes; none if the plan does not bring it in so.
    pub(super) fn chunk_in(&mut self, id: AllocationId, chunk: Chunk, content: ContentSource) -> Option<Place> {
        let arrivals = &mut self.building.steps.arrivals;
        let arrival = arrivals.iter_mut().find(|arrival| arrival.allocation == id && arrival.content == content)?;
        let (before, place) = (arrival.moved, arrival.place.clone());
        arrival.moved = chunk.offset.saturating_add(chunk.size);
        self.check_victims_hidden();
        self.check_chunk(id, chunk, before);
        Some(place)
    }

    /// Nothing may be moved that the plan did not decide; least of all what is in its backing store (I24).
    pub(super) fn report_unplanned(&mut self, id: AllocationId, chunk: Chunk) {
        let plan = self.building.plan;
        let built = self.allocations.get(&id).and_then(|allocation| allocation.built.as_ref());
        let place = self.victim(id).map(|victim| &victim.place).or(built);
        let in_place = place.is_some_and(|place| self.places.in_system_memory(place.segment));
        let invariant = if in_place { Invariant::I24 } else { Invariant::I10 };
        self.findings.report(invariant, format!("plan {plan} moves {chunk:?} of {id}, which it did not decide"));
    }

    /// A chunk goes on where the last one ended, and is no larger than a window.
    pub(super) fn check_chunk(&mut self, id: AllocationId, chunk: Chunk, before: u64) {
        let Chunk { offset, size } = chunk;
        self.findings.check(offset == before, Invariant::I10, || {
            format!("a chunk of {id} begins at {offset}, but the one before ended at {before}")
        });
        let whole = size > 0 && size.is_multiple_of(PAGE_SIZE) && size <= self.adapter.most_moved();
        self.findings.check(whole, Invariant::I10, || {
            format!("a chunk of {id} has {size} bytes; windows have {}", self.adapter.window_bytes)
        });
    }

    /// A plan is built to its end: it has moved all of what it was to move.
    pub(super) fn check_moved(
        &mut self,
        plan: PlanNo,
        id: AllocationId,
        how: &str,
        moved: u64,
        must: bool,
        invariant: Invariant,
    ) {
        let Some(allocation) = self.allocations.get(&id) else { return };
        let right = if must { allocation.size } else { 0 };
        self.findings.check(moved == right, invariant, || {
            format!("plan {plan} ends with {moved} bytes of {id} {how}, which must be {right}")
        });
    }

    /// Entries become valid: the content of what they show has come, all of it (U-14).
    pub(super) fn check_has_come(&mut self, id: AllocationId) {
        let Some(allocation) = self.allocations.get(&id) else { return };
        let mut coming =
            self.building.steps.arrivals.iter().filter(|arrival| arrival.content != ContentSource::InPlace);
        if let Some(partial) = coming.find(|arrival| arrival.allocation == id && arrival.moved < allocation.size) {
            let message = format!("entries for {id} become valid with {} bytes of it brought in", partial.moved);
            self.findings.report(partial.rule(), message);
        }
    }

    /// Memory is used again: whoever left it in this plan must be hidden.
    pub(super) fn check_victims_hidden(&mut self) {
        if std::mem::replace(&mut self.building.victims_checked, true) {
            return;
        }
        for id in self.victims() {
            self.check_hidden(id, Invariant::I05);
        }
    }

    /// Windows show the memory of an operation, and no TLB has older entries.
    pub(super) fn check_windows(&mut self, windows: &[Window], chunk: Chunk) {
        let Some(process) = self.adapter.paging_process else { return };
        let range = |address: GpuVirtualAddress| (address.0, address.0.saturating_add(chunk.size));
        for (address, right) in windows {
            let (start, end) = range(*address);
            let shown = |side| self.shadow.translate(process, side, start, chunk.size);
            let shown = shown(PageSize::Kib4).or_else(|| shown(PageSize::Kib64));
            self.findings.check(shown.as_ref() == Some(right), Invariant::I14, || {
                format!("the window at {address} must show {right:?}, but shows {shown:?}")
            });
            let stale = self.shadow.tlb.stale_window(start, end);
            self.findings.check(stale.is_none(), Invariant::I05, || {
                let stale = stale.unwrap_or_default();
                format!("the window at {address} is used, but a TLB may know {stale:#x} as it was before")
            });
        }
    }

    /// An operation uses windows: no operation before has used the same mapping.
    pub(super) fn use_windows(&mut self, windows: &[GpuVirtualAddress], size: u64) {
        for &address in windows {
            let used = self.shadow.use_window(address.0, address.0.saturating_add(size));
            self.findings.check(used.is_none(), Invariant::I14, || {
                format!(
                    "the window at {address} is used, but {:#x} was used since it was mapped",
                    used.unwrap_or_default()
                )
            });
        }
    }

    /// A chunk is notified: only the chunk's window is mapped (NTF-02).
    pub(super) fn check_only_window(&mut self, address: GpuVirtualAddress, chunk: Chunk) {
        let Some(process) = self.adapter.paging_process else { return };
        let other = self.shadow.mapped_outside(process, &[(address.0, address.0.saturating_add(chunk.size))]);
        self.findings.check(other.is_none(), Invariant::I14, || {
            format!("{chunk:?} is notified while {:#x} shows something else", other.unwrap_or_default())
        });
    }

    /// Windows go: an operation has used each window.
    pub(super) fn check_windows_were_used(&mut self, op: &UpdatePageTable) {
        let (start, end) = leaf_range(op);
        let unused = self.shadow.end_windows(op.process, start, end);
        self.findings.check(unused.is_none(), Invariant::I14, || {
            format!("a window is unmapped at {:#x}, which no operation has used", unused.unwrap_or_default())
        });
    }

    /// A window becomes valid: the last window at the same addresses is unmapped.
    pub(super) fn check_window_is_new(&mut self, op: &UpdatePageTable) {
        let (start, end) = leaf_range(op);
        let mapped = self.shadow.is_mapped(op.process, start, end);
        self.findings.check(!mapped, Invariant::I10, || {
            format!("a window is mapped at {} before the last one there is unmapped", op.first_pte_virtual_address)
        });
        self.shadow.end_windows(op.process, start, end);
    }

    /// Views of processes change when all chunks before are done, and their windows are gone.
    pub(super) fn check_no_window(&mut self, op: &UpdatePageTable) {
        let open = self.adapter.paging_process.and_then(|process| self.shadow.first_mapped(process));
        self.findings.check(open.is_none(), Invariant::I14, || {
            let address = op.first_pte_virtual_address;
            format!("entries at {address} are written while a window is mapped at {:#x}", open.unwrap_or_default())
        });
    }

    /// Windows are mapped only during their operation.
    pub(super) fn check_windows_empty(&mut self, plan: PlanNo) {
        self.views.check_empty(plan, &mut self.findings);
        let Some(process) = self.adapter.paging_process else { return };
        if let Some(address) = self.shadow.first_mapped(process) {
            self.findings.report(Invariant::I14, format!("plan {plan} ends with a window mapped at {address:#x}"));
            self.shadow.remove(process);
        }
    }
}
