//! Content that moves: transfers and fills, chunk by chunk (I05, I10, I14).

use vidmm::contract::{FillVirtual, MemoryTransferDirection, TransferVirtual};
use vidmm::event::ContentSource;
use vidmm::{AllocationId, Extent, GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress, PlanNo, SegmentId};

use super::Audit;
use super::finding::Invariant;
use super::segment::{Run, runs_of};

/// A part of an allocation, in bytes from its start.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    offset: u64,
    size: u64,
}

impl Audit {
    pub(super) fn transfer(&mut self, op: &TransferVirtual) {
        let Some(&id) = self.by_handle.get(&op.allocation) else {
            return self.unknown_handle(op.allocation);
        };
        let chunk = Chunk { offset: op.allocation_offset_in_bytes, size: op.transfer_size_in_bytes };
        let (source, destination) = (op.source_virtual_address, op.destination_virtual_address);
        let extents = match op.transfer_direction {
            MemoryTransferDirection::LocalToSystem => {
                self.check_hidden(id, Invariant::I05);
                self.chunk_out(id, chunk)
            }
            MemoryTransferDirection::SystemToLocal => self.chunk_in(id, chunk, ContentSource::BackingStore),
            MemoryTransferDirection::LocalToLocal => None,
        };
        let Some(extents) = extents else { return self.report_unplanned(id, chunk) };
        let (local, system) = match op.transfer_direction {
            MemoryTransferDirection::LocalToSystem => (source, destination),
            _ => (destination, source),
        };
        let store = self.allocations.get(&id).map_or(0, |allocation| allocation.backing_store);
        let address = PhysicalAddress { segment: SegmentId::SYSTEM, offset: store.saturating_add(chunk.offset) };
        self.check_window(system, chunk, vec![(address, chunk.size)]);
        self.check_window(local, chunk, runs_of(self.segment.id, &extents, chunk.offset, chunk.size));
    }

    pub(super) fn fill(&mut self, op: &FillVirtual) {
        let Some(&id) = self.by_handle.get(&op.allocation) else {
            return self.unknown_handle(op.allocation);
        };
        let chunk = Chunk { offset: op.allocation_offset_in_bytes, size: op.fill_size_in_bytes };
        let Some(extents) = self.chunk_in(id, chunk, ContentSource::Fill) else {
            return self.report_unplanned(id, chunk);
        };
        let right = runs_of(self.segment.id, &extents, chunk.offset, chunk.size);
        self.check_window(op.destination_virtual_address, chunk, right);
    }

    /// Counts a chunk that leaves. Returns where the allocation was; none if the plan does not copy it out.
    fn chunk_out(&mut self, id: AllocationId, chunk: Chunk) -> Option<Vec<Extent>> {
        let victims = &mut self.building.as_mut()?.steps.victims;
        let victim = victims.iter_mut().find(|victim| victim.allocation == id && victim.copied)?;
        let (before, extents) = (victim.moved, victim.extents.clone());
        victim.moved = chunk.offset.saturating_add(chunk.size);
        self.check_chunk(id, chunk, before);
        Some(extents)
    }

    /// Counts a chunk that comes in. Returns where the allocation goes; none if the plan does not bring it in so.
    fn chunk_in(&mut self, id: AllocationId, chunk: Chunk, content: ContentSource) -> Option<Vec<Extent>> {
        self.check_victims_hidden();
        let arrivals = &mut self.building.as_mut()?.steps.arrivals;
        let arrival = arrivals.iter_mut().find(|arrival| arrival.allocation == id && arrival.content == content)?;
        let (before, extents) = (arrival.moved, arrival.extents.clone());
        arrival.moved = chunk.offset.saturating_add(chunk.size);
        self.check_chunk(id, chunk, before);
        Some(extents)
    }

    fn report_unplanned(&mut self, id: AllocationId, chunk: Chunk) {
        let plan = self.building.as_ref().map_or(0, |building| building.plan);
        self.findings.report(Invariant::I10, format!("plan {plan} moves {chunk:?} of {id}, which it did not decide"));
    }

    /// A chunk goes on where the last one ended, and is no larger than a window.
    fn check_chunk(&mut self, id: AllocationId, chunk: Chunk, before: u64) {
        let Chunk { offset, size } = chunk;
        self.findings.check(offset == before, Invariant::I10, || {
            format!("a chunk of {id} begins at {offset}, but the one before ended at {before}")
        });
        let whole = size > 0 && size.is_multiple_of(PAGE_SIZE) && size <= self.window_bytes;
        self.findings.check(whole, Invariant::I10, || {
            format!("a chunk of {id} has {size} bytes; windows have {}", self.window_bytes)
        });
    }

    /// A plan is built to its end: it has moved all of what it was to move.
    pub(super) fn check_moved(&mut self, plan: PlanNo, id: AllocationId, how: &str, moved: u64, must: bool) {
        let Some(allocation) = self.allocations.get(&id) else { return };
        let right = if must { allocation.size } else { 0 };
        self.findings.check(moved == right, Invariant::I10, || {
            format!("plan {plan} ends with {moved} bytes of {id} {how}, which must be {right}")
        });
    }

    /// Memory is used again: whoever left it in this plan must be hidden.
    pub(super) fn check_victims_hidden(&mut self) {
        let Some(building) = self.building.as_mut() else { return };
        if std::mem::replace(&mut building.victims_checked, true) {
            return;
        }
        let victims: Vec<AllocationId> = building.steps.victims.iter().map(|victim| victim.allocation).collect();
        for id in victims {
            self.check_hidden(id, Invariant::I05);
        }
    }

    /// The window at `address` shows `right` while a chunk is moved.
    fn check_window(&mut self, address: GpuVirtualAddress, chunk: Chunk, right: Vec<Run>) {
        let Some(process) = self.paging_process else { return };
        let shown = |side| self.shadow.translate(process, side, address.0, chunk.size);
        let shown = shown(PageSize::Kib4).or_else(|| shown(PageSize::Kib64));
        self.findings.check(shown.as_ref() == Some(&right), Invariant::I14, || {
            format!("the window at {address} must show {right:?}, but shows {shown:?}")
        });
        let stale = self.shadow.tlb.stale_window(address.0, address.0.saturating_add(chunk.size));
        self.findings.check(stale.is_none(), Invariant::I05, || {
            format!("the window at {address} is used, but a TLB may know {:#x} as it was before", stale.unwrap_or(0))
        });
    }

    /// Windows are mapped only during their operation.
    pub(super) fn check_windows_empty(&mut self, plan: PlanNo) {
        let Some(process) = self.paging_process else { return };
        if let Some(address) = self.shadow.first_mapped(process) {
            self.findings.report(Invariant::I14, format!("plan {plan} ends with a window mapped at {address:#x}"));
            self.shadow.remove(process);
        }
    }
}
