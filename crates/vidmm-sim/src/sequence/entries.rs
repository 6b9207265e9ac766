//! Page-table updates, folded: readers want to know which addresses show which bytes from now on.

use vidmm::contract::{
    KmdAllocationHandle, KmdProcessHandle, PteFlags, UpdateMode, UpdatePageTable, UpdatePageTableFlags,
};
use vidmm::{GpuVirtualAddress, SegmentId};

use super::names::Names;
use super::words::{addresses, part};

/// Adjoining leaf entries of one process that became valid, or invalid, one after another.
#[derive(Debug)]
pub(super) struct Entries {
    process: KmdProcessHandle,
    start: u64,
    size: u64,
    allocation: Option<KmdAllocationHandle>,
    /// Where the bytes are and which they are; none if the entries are invalid.
    shown: Option<(SegmentId, u64)>,
    reads_zero: bool,
    read_only: bool,
    cache_coherent: bool,
    by_cpu: bool,
}

impl Entries {
    /// The entries of one operation; none if it is about tables and not about pages.
    pub fn of(update: &UpdatePageTable) -> Option<Self> {
        let is_leaf = update.page_table_level == 0 && !update.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE);
        let run = update.page_table_entries;
        let valid = run.first.flags.contains(PteFlags::VALID);
        is_leaf.then(|| Self {
            process: update.process,
            start: update.first_pte_virtual_address.0,
            size: u64::from(run.num_page_table_entries) * update.page_size().bytes(),
            allocation: update.allocation,
            shown: valid.then_some((run.first.address.segment, update.allocation_offset_in_bytes)),
            reads_zero: run.first.flags.contains(PteFlags::ZERO),
            read_only: run.first.flags.contains(PteFlags::READ_ONLY),
            cache_coherent: run.first.flags.contains(PteFlags::CACHE_COHERENT),
            by_cpu: matches!(update.update_mode, UpdateMode::CpuVirtual(_)),
        })
    }

    /// Adds entries that go on where these end; gives them back if they do not.
    pub fn join(&mut self, next: Self) -> Result<(), Self> {
        let shown = self.shown.map(|(segment, offset)| (segment, offset + self.size));
        let kind = |of: &Self| (of.process, of.allocation, of.reads_zero, of.read_only, of.cache_coherent);
        let same = kind(&next) == kind(self) && (next.start, next.shown) == (self.start + self.size, shown);
        if same {
            self.size += next.size;
            Ok(())
        } else {
            Err(next)
        }
    }

    /// The verb and the sentence.
    pub fn in_words(&self, names: &Names) -> (&'static str, String) {
        let window = names.is_paging_process(self.process);
        let whose = format!("{} {}", names.addresses_of(self.process), addresses(self.start, self.size));
        let allocation = self.allocation.map(|handle| names.handle(handle));
        let verb = match (window, self.shown.is_some()) {
            (true, true) => "map",
            (true, false) => "unmap",
            (false, true) => "validate",
            (false, false) if self.reads_zero => "zero",
            (false, false) => "invalidate",
        };
        let text = match (self.shown, allocation) {
            (Some((segment, offset)), Some(allocation)) => {
                let access = if self.read_only { ", read only" } else { "" };
                let caches = if self.cache_coherent { ", cache-coherent" } else { "" };
                let shown = part(&allocation, offset, self.size);
                let place = if segment.is_system() { "system memory".to_owned() } else { names.place(segment) };
                format!("{whose} <- {shown} in {place}{access}{caches}")
            }
            (None, Some(allocation)) => format!("{whose} of {allocation}"),
            (Some(_), None) => format!("{whose} <- a page table"),
            (None, None) => whose,
        };
        (verb, if self.by_cpu { text + ", by the CPU" } else { text })
    }
}

/// Leaf tables that follow one another and have large pages in their place, or no longer (GVA-21).
#[derive(Debug)]
pub(super) struct LargePages {
    process: KmdProcessHandle,
    first: GpuVirtualAddress,
    count: u64,
    are_shown: bool,
}

impl LargePages {
    /// The one whose entry an operation writes.
    pub fn of(update: &UpdatePageTable, is_shown: bool) -> Self {
        Self { process: update.process, first: update.first_pte_virtual_address, count: 1, are_shown: is_shown }
    }

    /// Adds one that comes next; gives it back if it is of another kind.
    pub fn join(&mut self, next: Self) -> Result<(), Self> {
        let is_alike = (next.process, next.are_shown) == (self.process, self.are_shown);
        if is_alike {
            self.count += next.count;
            Ok(())
        } else {
            Err(next)
        }
    }

    /// The sentence.
    pub fn in_words(&self, names: &Names) -> String {
        let (whose, first) = (names.addresses_of(self.process), self.first);
        let shown = if self.are_shown { "shown as large pages" } else { "no longer shown as large pages" };
        format!("leaf tables {shown} from {whose} {first} on: {}", self.count)
    }
}
