//! Notifications: drivers hear of what they asked for, all of it, in time, and of nothing else (I09).

use vidmm::contract::{AllocationFlags2, NotifyAlloc, NotifyAllocFlags};
use vidmm::event::EvictReason;
use vidmm::{AllocationId, SegmentId};

use super::Audit;
use super::allocation::Mapping;
use super::aspects::Chunk;
use super::finding::Invariant;

/// A notification in chunks of what leaves system memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notice {
    due: Due,
    /// Bytes told so far.
    told: u64,
}

/// Whether it is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Due {
    /// No driver asked, or nothing happens that one asked for.
    #[default]
    Never,
    /// All of it or nothing: no document says.
    Open,
    /// It must be complete before anything is done to the allocation.
    Must,
    /// It was missing when it had to be there.
    Missed,
}

/// The two notifications that can be sent in chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notices {
    eviction: Notice,
    /// Sent so in the revision of August 2024 only (NTF-06).
    io_mmu_unmap: Notice,
}

impl Notices {
    /// Whether the driver must hear that the allocation leaves, and puts its content right.
    pub fn must_tell_eviction(&self) -> bool {
        self.eviction.due == Due::Must
    }
}

impl Audit {
    /// The notifications that are to be sent in chunks when an allocation leaves `segment`: only on leaving the
    /// aperture or implicit system memory (NTF-03), not when it is promoted (NTF-07), and nothing about content that is
    /// discarded or not `wanted` any more.
    pub(super) fn notices(
        &self,
        id: AllocationId,
        segment: SegmentId,
        reason: EvictReason,
        is_discarded: bool,
        wanted: bool,
    ) -> Notices {
        let promoted = reason == EvictReason::Promoted;
        let notified = self.places.in_system_memory(segment) && !promoted && !is_discarded;
        let Some(allocation) = self.allocations.get(&id).filter(|_| notified) else { return Notices::default() };
        let due = |flag, otherwise| match allocation.notify.contains(flag) {
            false => Due::Never,
            true if wanted => Due::Must,
            true => otherwise,
        };
        // A plan that does not take it out for being destroyed need not know that its content is not wanted.
        let of_content = if reason == EvictReason::Destroyed { Due::Never } else { Due::Open };
        let chunked_unmap = !self.adapter.notifies_unmap_by_mapping();
        let unmap = if chunked_unmap { due(AllocationFlags2::NOTIFY_IO_MMU_UNMAP, Due::Open) } else { Due::Never };
        Notices {
            eviction: Notice { due: due(AllocationFlags2::NOTIFY_EVICTION, of_content), told: 0 },
            io_mmu_unmap: Notice { due: unmap, told: 0 },
        }
    }

    /// The driver is notified, in packet `packet` of the paging engine.
    pub(super) fn notify(&mut self, op: &NotifyAlloc, packet: u64) {
        let known = self.adapter.knows_notifications();
        self.findings.check(known, Invariant::I23, || "NOTIFY_ALLOC is sent to a driver before WDDM 3.2".to_owned());
        let Some(id) = self.named(op.allocation) else { return };
        self.note_window_used(id, op.gpu_virtual_address_at_offset, packet);
        if !self.adapter.has_io_mmu_addresses() {
            self.use_windows(&[op.gpu_virtual_address_at_offset], op.size_in_bytes);
        }
        let asked = match op.flags {
            NotifyAllocFlags::EVICTION => AllocationFlags2::NOTIFY_EVICTION,
            NotifyAllocFlags::IO_MMU_UNMAP => AllocationFlags2::NOTIFY_IO_MMU_UNMAP,
            flags => {
                let message = format!("a notification of {id} has {flags:?}, not exactly one flag (NTF-01)");
                return self.findings.report(Invariant::I09, message);
            }
        };
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        if op.flags == NotifyAllocFlags::IO_MMU_UNMAP {
            allocation.unmap_told = (self.building.plan, packet);
        }
        if !allocation.notify.contains(asked) {
            let message = format!("{:?} of {id} is notified, but its driver did not ask for that", op.flags);
            return self.findings.report(Invariant::I09, message);
        }
        if op.flags == NotifyAllocFlags::IO_MMU_UNMAP && self.adapter.notifies_unmap_by_mapping() {
            self.notify_unmap(id, op, packet);
        } else {
            self.notified_in = packet;
            self.notify_chunk(id, op);
        }
    }

    /// A window of the paging process goes: the buffer with what it is for was submitted before (NTF-02).
    pub(super) fn check_chunk_submitted(&mut self) {
        let submitted = self.fences.paging_submitted;
        self.findings.check(self.notified_in <= submitted, Invariant::I09, || {
            format!("the window of a notification in packet {} goes before that is submitted", self.notified_in)
        });
    }

    /// A chunk of what leaves: in a window of the paging process, and so without a process (NTF-02).
    fn notify_chunk(&mut self, id: AllocationId, op: &NotifyAlloc) {
        self.findings.check(op.process.is_none(), Invariant::I09, || {
            format!("{:?} of {id} is notified for process {:?}, but is in the paging process's", op.flags, op.process)
        });
        if op.flags == NotifyAllocFlags::IO_MMU_UNMAP {
            // The eviction comes first: the content is put right before caches are emptied.
            self.check_notice(id, |notices| &mut notices.eviction);
        }
        let notice = self.victim_mut(id).map(|victim| match op.flags {
            NotifyAllocFlags::EVICTION => &mut victim.notices.eviction,
            _ => &mut victim.notices.io_mmu_unmap,
        });
        let Some(notice) = notice.filter(|notice| notice.due != Due::Never) else {
            let message = format!("{:?} of {id} is notified, but nothing that it is for happens", op.flags);
            return self.findings.report(Invariant::I09, message);
        };
        let chunk = Chunk { offset: op.offset_in_bytes, size: op.size_in_bytes };
        let before = std::mem::replace(&mut notice.told, chunk.offset.saturating_add(chunk.size));
        let size = self.allocations.get(&id).map_or(0, |allocation| allocation.size);
        if before > 0 && before == size {
            let message = format!("{:?} of {id} is notified again, after all of it was", op.flags);
            return self.findings.report(Invariant::I09, message);
        }
        self.check_chunk(id, chunk, before);
        if self.adapter.has_io_mmu_addresses() {
            return self.check_io_mmu_window(id, op);
        }
        self.check_windows(&[(op.gpu_virtual_address_at_offset, self.runs_of_store(id, chunk))], chunk);
        self.check_only_window(op.gpu_virtual_address_at_offset, chunk);
    }

    /// A mapping that is to be unmapped from the IOMMU: whole, as its process sees it, or saw it before a part was
    /// freed (NTF-04).
    fn notify_unmap(&mut self, id: AllocationId, op: &NotifyAlloc, packet: u64) {
        let process = op.process.and_then(|handle| self.by_process_handle.get(&handle)).copied();
        let start = op.gpu_virtual_address_at_offset.0;
        let range = (start, start.saturating_add(op.size_in_bytes));
        let mappings = process.and_then(|process| self.mappings_of(process, range, id, op.offset_in_bytes));
        let ends = |mappings: &Vec<Mapping>| Some((mappings.first()?.virtual_address, mappings.last()?.end()));
        let Some(mappings) = mappings.filter(|mappings| ends(mappings) == Some(range)) else {
            let message = format!("{op:?} is not a mapping of {id}");
            return self.findings.report(Invariant::I09, message);
        };
        let leaves = self.victim(id).is_some() || mappings.iter().all(|mapping| mapping.freed.is_some());
        self.findings
            .check(leaves, Invariant::I09, || format!("the unmap of {id} at {start:#x} is notified, but it stays"));
        self.check_notice(id, |notices| &mut notices.eviction);
        self.check_left_aperture(id);
        mappings.iter().for_each(|mapping| self.note_unmap_told(mapping, packet));
    }

    /// An allocation of the aperture is unmapped there before its driver hears of the IOMMU.
    fn check_left_aperture(&mut self, id: AllocationId) {
        let (Some(victim), Some(allocation)) = (self.victim(id), self.allocations.get(&id)) else { return };
        let (segment, extent) = (victim.place.segment, victim.place.extents.first());
        let shown = extent.is_some_and(|extent| self.apertures.shows(segment, extent.offset, allocation.handle));
        self.findings.check(!shown, Invariant::I09, || {
            format!("the unmap of {id} from the IOMMU is notified before UNMAP_APERTURE_SEGMENT")
        });
    }

    /// Something is done to what leaves: by now its driver has heard all of it.
    pub(super) fn check_told(&mut self, id: AllocationId) {
        self.check_notice(id, |notices| &mut notices.eviction);
        self.check_notice(id, |notices| &mut notices.io_mmu_unmap);
    }

    fn check_notice(&mut self, id: AllocationId, which: impl Fn(&mut Notices) -> &mut Notice) {
        let size = self.allocations.get(&id).map_or(0, |allocation| allocation.size);
        let Some(notice) = self.victim_mut(id).map(|victim| which(&mut victim.notices)) else { return };
        let told = notice.told;
        let whole = match notice.due {
            Due::Never | Due::Missed => return,
            Due::Open => told == 0 || told == size,
            Due::Must => told == size,
        };
        if whole {
            return;
        }
        notice.due = Due::Missed;
        let invariant = if told == 0 { Invariant::I09 } else { Invariant::I10 };
        self.findings.report(invariant, format!("{id} leaves after {told} bytes of {size} were notified"));
    }
}
