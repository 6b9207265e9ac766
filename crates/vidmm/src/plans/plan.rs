//! A plan, and the grammar of the operations that carry it out (D6).
//!
//! ```text
//! plan   := notify*      chunk(NOTIFY_ALLOC{Eviction})* of what leaves the aperture or implicit system memory, if its driver
//!                        asked and its content is not discarded                                                         NTF-02 NTF-03
//!           invalidate*  UPDATE_PAGE_TABLE(invalid) runs of what leaves or is unmapped; then FLUSH_TLB of those ranges   U-14 GVA-28
//!           unlink*      UPDATE_PAGE_TABLE(invalid) of the entry of a freed table's parent; then FLUSH_TLB of what it covered  P57
//!           out*         NOTIFY_RESIDENCY{0} of what leaves a memory segment, if its driver asked; then                    BPB-51
//!                        batch(VIRTUAL_TRANSFER segment -> system) of what is dirty; nothing if clean                    RES-22
//!                        | UNMAP_APERTURE_SEGMENT, to the dummy page                                                     BPB-33
//!                        | without GPU virtual addresses: TRANSFER segment -> page list, in parts, or to the aperture,
//!                          between MAP_APERTURE_SEGMENT and UNMAP_APERTURE_SEGMENT; DISCARD_CONTENT                 BPB-20 SEG-45 BPB-25
//!           clean        batch(VIRTUAL_TRANSFER segment -> system) of a part of what stays; no invalidation, no notification     D37
//!           unmap*       NOTIFY_ALLOC{IoMmuUnmap} once for each mapping that leaves the IOMMU, if its driver asked       NTF-04 NTF-05
//!           table*       UPDATE_PAGE_TABLE(invalid, InitialUpdate) of a new table; then the entry of its parent          GVA-25
//!           in*          batch(VIRTUAL_FILL | VIRTUAL_TRANSFER system -> segment)                                        RES-18 BPB-24
//!                        | MAP_APERTURE_SEGMENT, or MAP_APERTURE_SEGMENT2 where the driver has it: here and above        BPB-30 BPB-34
//!                        | without GPU virtual addresses: FILL | TRANSFER page list -> segment, in parts                 BPB-20 BPB-24
//!                        then NOTIFY_RESIDENCY{1} of what has come into a memory segment, if its driver asked            BPB-51
//!           validate*    UPDATE_PAGE_TABLE(valid) runs of what came in or is mapped; FLUSH_TLB unless invalid entries
//!                        are never cached, and none was zero                                                             BPB-41
//!           zero*        UPDATE_PAGE_TABLE(zero, or invalid) of reserved addresses where nothing is mapped, or nothing is shown that
//!                        is; then FLUSH_TLB of these                                                                     GVA-20 GVA-52
//! chunk(op) := map the window, op, unmap the window; at most the size of a window                                              NTF-02 PGV-05
//! batch(op) := map the windows of all ops, flush them, op*, unmap the windows                                            BPB-40 BPB-41 GVA-31
//! ```
//!
//! Where the CPU writes page tables, each UPDATE_PAGE_TABLE is a step of its own between paging buffers, in this order (BPB-08).
//!
//! Behind an IOMMU there are no page tables: the host maps when the plan enters the stream and unmaps when it has retired, that
//! is, when all paging operations that were under way for the range have ended (NTF-04). Nothing waits for it but plans
//! that map the same again, and those are parked.
//!
//! A plan is decided once. All that follows from places and mappings is written down then and does not change, so building it
//! decides nothing.

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    addresses::{IoMmuRange, Unreserved},
    budget::account::Account,
    contract::{
        KmdAllocationHandle, KmdProcessHandle, NotifyAllocFlags, NotifyResidency, PagingOperation, Pte, PteFlags,
        UnmapApertureSegment,
    },
    data::extents::Extents,
    event::ReclaimReason,
    gpu_va::{Mapping, TableKey},
    id::{AllocationId, AllocationIx, DeviceIx, PlanNo, ProcessIx, SubmissionNo},
    objects::allocation::Store,
    units::{Extent, PAGE_SIZE, PhysicalAddress, SegmentId},
};
/// The steps that are decided, and not yet carried out.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Devices that must have retired a submission before the plan enters the stream. All are dispatched (D5).
    pub waits: Vec<(DeviceIx, SubmissionNo)>,
    /// Devices of which nothing may be in flight when the plan enters: what is not dispatched yet waits for the plan.
    pub idle_devices: Vec<DeviceIx>,
    /// Plans that must enter the stream before it: of the same allocation, or of a range that it was promised.
    pub after: Vec<PlanNo>,
    /// Plans that must have retired before it enters: they unmap from the IOMMU what it maps again.
    pub after_retired: Vec<PlanNo>,
    pub notify: Vec<Notice>,
    pub invalidate: Vec<PteRange>,
    /// Tables that were freed, which their parents still point to.
    pub unlink: Vec<ProcessTable>,
    pub out: Vec<Leaving>,
    /// A part of the content of an allocation that stays, to be copied out ahead of an eviction (D37).
    pub clean: Option<CleanPart>,
    pub notify_unmap: Vec<UnmapNotice>,
    /// New tables.
    pub tables: Vec<ProcessTable>,
    pub page_in: Vec<Coming>,
    pub validate: Vec<PteRange>,
    /// Reservations that read as zero from its last phase on, or do no longer.
    pub reserved: Vec<ZeroRange>,
    pub zero: Vec<ZeroRange>,
    /// The CPU's views of locked allocations when its last operation has completed.
    pub rotate: Vec<Rotation>,
    /// The ranges that the host maps when the plan enters the stream.
    pub io_mmu_map: Vec<IoMmuRange>,
    /// The ranges that the host unmaps when its last operation has completed.
    pub io_mmu_unmap: Vec<IoMmuRange>,
    /// The actions for the time when its last operation has completed.
    pub retire: Vec<Retire>,
    bytes: u64,
}

impl Plan {
    /// Whether it copies or fills the content of an allocation, or has its driver put that right in place.
    pub fn moves_content(&self, handle: KmdAllocationHandle) -> bool {
        let leaves = self.out.iter().filter_map(Leaving::content).any(|out| out.from.store.handle == handle);
        let comes = self.page_in.iter().filter_map(Coming::content).any(|page_in| page_in.to.store.handle == handle);
        let is_put_right =
            |notice: &Notice| notice.store.handle == handle && notice.flags == NotifyAllocFlags::EVICTION;
        leaves || comes || self.notify.iter().any(is_put_right)
    }
}

/// The driver is told of an allocation that leaves device access, part by part (NTF-02).
#[derive(Debug)]
pub(crate) struct Notice {
    pub allocation: AllocationId,
    pub store: Store,
    pub flags: NotifyAllocFlags,
    /// Work may have written to it: until the driver has been told, only the GPU can make sense of it.
    pub has_news: bool,
}

/// The driver is told of a mapping that leaves the IOMMU (NTF-04).
#[derive(Debug)]
pub(crate) struct UnmapNotice {
    pub handle: KmdAllocationHandle,
    pub process: KmdProcessHandle,
    pub mapping: Mapping,
}

/// Entries of a mapping that become invalid, or valid.
#[derive(Debug)]
pub(crate) struct PteRange {
    pub handle: KmdAllocationHandle,
    pub mapping: Mapping,
    /// Where the allocation lies; not read when the entries become invalid.
    pub segment: SegmentId,
    pub extents: Extents,
    pub is_cached: bool,
    /// Large pages may show it.
    pub may_be_large: bool,
}

impl PteRange {
    /// The entry that shows the allocation at an offset in its segment.
    pub fn entry(&self, adapter: &Adapter, offset: u64) -> Pte {
        let mut pte = Pte::valid(PhysicalAddress { segment: self.segment, offset });
        pte.flags.set(PteFlags::READ_ONLY, self.mapping.read_only);
        pte.flags.set(PteFlags::NO_EXECUTE, self.mapping.no_execute);
        pte.flags |= adapter.coherence(self.is_cached, self.segment);
        pte
    }
}

/// Addresses of a process that read as zero from now on, or fault.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ZeroRange {
    pub process: ProcessIx,
    pub range: Extent,
    pub reads_zero: bool,
}

/// A step of the phase in which allocations leave their segments.
#[derive(Debug)]
pub(crate) enum Leaving {
    /// Content of a memory segment.
    Memory(PageOut),
    /// Content of a memory segment that is not wanted; named without GPU virtual addresses (BPB-25). Its offset is in bytes.
    Discarded { account: Account, handle: KmdAllocationHandle, offset: u64 },
    /// A range of the aperture.
    Aperture(ApertureRange),
    /// The driver is told that what follows leaves a memory segment.
    Told(NotifyResidency),
}

/// A step of the phase in which allocations come into segments.
#[derive(Debug)]
pub(crate) enum Coming {
    /// Content of a memory segment.
    Memory(PageIn),
    /// A range of the aperture.
    Aperture(ApertureRange),
    /// The driver is told that what precedes has come into a memory segment.
    Told(NotifyResidency),
}

impl Leaving {
    /// The content that is copied, which is lost if the GPU is reset meanwhile.
    pub fn content(&self) -> Option<&PageOut> {
        match self {
            Self::Memory(out) => Some(out),
            Self::Discarded { .. } | Self::Aperture(_) | Self::Told(_) => None,
        }
    }
}

impl Coming {
    /// The content that is copied or filled, which is not there if the GPU is reset meanwhile.
    pub fn content(&self) -> Option<&PageIn> {
        match self {
            Self::Memory(page_in) => Some(page_in),
            Self::Aperture(_) | Self::Told(_) => None,
        }
    }
}

/// An allocation in a memory segment.
#[derive(Debug)]
pub(crate) struct InMemory {
    pub account: Account,
    pub extents: Extents,
    pub store: Store,
}

impl InMemory {
    /// Where it begins.
    pub fn address(&self, adapter: &Adapter) -> PhysicalAddress {
        PhysicalAddress { segment: adapter.memory_id(self.account), offset: self.extents.first().offset }
    }
}

/// Content that leaves a memory segment.
#[derive(Debug)]
pub(crate) struct PageOut {
    pub from: InMemory,
    /// The range of an aperture, as the number of its first byte on the line of ranges, in which the backing store is
    /// mapped meanwhile (SEG-45).
    pub through_aperture: Option<u64>,
}

/// A part of the content of an allocation that stays in its memory segment.
#[derive(Debug)]
pub(crate) struct CleanPart {
    pub allocation: AllocationIx,
    pub of: InMemory,
    /// The first byte, and the number of bytes.
    pub offset: u64,
    pub size: u64,
}

impl CleanPart {
    /// Whether the content ends with the part.
    pub fn is_last(&self) -> bool {
        self.offset + self.size == self.of.store.size
    }
}

/// Content that comes into a memory segment.
#[derive(Debug)]
pub(crate) struct PageIn {
    pub to: InMemory,
    /// Its content is read from its backing store; otherwise it is filled with zeros.
    pub is_backed: bool,
    /// It was promoted as the GPU had left it: without the GPU nobody can put right what is in its backing store.
    pub is_as_left: bool,
}

/// An allocation in the aperture.
#[derive(Debug)]
pub(crate) struct ApertureRange {
    pub store: Store,
    /// The number of its first byte on the line of ranges.
    pub offset: u64,
}

impl ApertureRange {
    /// The operation by which it shows the dummy page.
    pub fn unmap(&self, adapter: &Adapter) -> PagingOperation {
        let (aperture, offset) = adapter.aperture_at(self.offset);
        PagingOperation::UnmapApertureSegment(UnmapApertureSegment {
            allocation: self.store.handle,
            segment_id: aperture.id,
            offset_in_pages: offset / PAGE_SIZE,
            number_of_pages: self.store.size / PAGE_SIZE,
            dummy_page: adapter.dummy_page,
        })
    }
}

/// The CPU sees an allocation elsewhere (RES-86).
#[derive(Debug)]
pub(crate) struct Rotation {
    pub allocation: AllocationIx,
    pub segment: SegmentId,
    pub extents: Extents,
}

/// A table of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessTable {
    pub process: ProcessIx,
    pub key: TableKey,
}

/// An action for the time when a plan has retired.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Retire {
    /// The last traces of an allocation are gone.
    Allocation(AllocationIx),
    /// A device that has closed an allocation is done with it.
    Opening { allocation: AllocationIx, device: DeviceIx },
    /// The content of an allocation that was offered is lost, and nothing writes to its backing store any more.
    Discard(AllocationIx),
    /// A mapping is invalid everywhere: its addresses are free.
    Mapping { mapping: Mapping, reason: ReclaimReason },
    /// A part of a reservation is not zero any more: its addresses are free.
    Reservation(Unreserved),
    /// Nothing points to a table any more, which lay in system memory.
    Table { address: PhysicalAddress, bytes: u64 },
}

impl Plan {
    /// Adds a plan that must enter first.
    pub fn follow(&mut self, plan: PlanNo) {
        if !self.after.contains(&plan) {
            self.after.push(plan);
        }
    }

    /// Adds a plan that must have retired first.
    pub fn follow_retired(&mut self, plan: PlanNo) {
        if !self.after_retired.contains(&plan) {
            self.after_retired.push(plan);
        }
    }

    /// Adds a submission that must retire first.
    pub fn wait_for(&mut self, device: DeviceIx, submission: SubmissionNo) {
        match self.waits.iter_mut().find(|(waited, _)| *waited == device) {
            Some((_, last)) => *last = submission.max(*last),
            None => self.waits.push((device, submission)),
        }
    }

    /// Adds a notification.
    pub fn notify(&mut self, notice: Notice) {
        self.bytes += notice.store.size;
        self.notify.push(notice);
    }

    /// Adds content that leaves a memory segment.
    pub fn copy_out(&mut self, out: PageOut) {
        self.bytes += out.from.store.size;
        self.out.push(Leaving::Memory(out));
    }

    /// Adds a part of content that stays, and is copied out ahead of an eviction.
    pub fn clean(&mut self, part: CleanPart) {
        self.bytes += part.size;
        self.clean = Some(part);
    }

    /// Adds content that comes into a memory segment.
    pub fn copy_in(&mut self, page_in: PageIn) {
        self.bytes += page_in.to.store.size;
        self.page_in.push(Coming::Memory(page_in));
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        let Self { waits, idle_devices, after, after_retired, notify, invalidate, unlink, out, .. } = self;
        waits.clear();
        idle_devices.clear();
        after.clear();
        after_retired.clear();
        notify.clear();
        invalidate.clear();
        unlink.clear();
        out.clear();
        let Self { notify_unmap, tables, page_in, validate, reserved, zero, rotate, .. } = self;
        notify_unmap.clear();
        tables.clear();
        page_in.clear();
        validate.clear();
        reserved.clear();
        zero.clear();
        rotate.clear();
        self.clean = None;
        self.io_mmu_map.clear();
        self.io_mmu_unmap.clear();
        self.retire.clear();
        self.bytes = 0;
    }

    /// Bytes that are notified of or copied.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
