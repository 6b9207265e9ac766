//! Operations and host steps as text, one line for each thing that the documents name.

use std::fmt;

use vidmm::contract::*;
use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};

use crate::world::*;

/// One step. Ranges that follow each other without a gap, such as the entries of two page tables, are one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Entries of a process show memory. The paging process's are a window.
    Validate {
        process: KmdProcessHandle,
        address: u64,
        size: u64,
        at: PhysicalAddress,
        read_only: bool,
    },
    /// Entries of a process show nothing.
    Invalidate {
        process: KmdProcessHandle,
        address: u64,
        size: u64,
    },
    /// The GPU forgets what it cached of a range; of everything, if the range is empty.
    Flush {
        process: KmdProcessHandle,
        start: u64,
        end: u64,
    },
    NotifyEviction {
        process: Option<KmdProcessHandle>,
        address: u64,
        offset: u64,
        size: u64,
    },
    NotifyIoMmuUnmap {
        process: Option<KmdProcessHandle>,
        address: u64,
        offset: u64,
        size: u64,
    },
    /// Pages of the aperture show memory: asked for by either form of the operation.
    MapAperture {
        form: PagingOperationKind,
        offset: u64,
        size: u64,
        at: PhysicalAddress,
    },
    /// Pages of the aperture show the dummy page.
    UnmapAperture {
        offset: u64,
        size: u64,
    },
    Fill {
        address: u64,
        offset: u64,
        size: u64,
    },
    TransferIn {
        from: u64,
        to: u64,
        offset: u64,
        size: u64,
    },
    TransferOut {
        from: u64,
        to: u64,
        offset: u64,
        size: u64,
    },
    /// The host maps memory in the IOMMU.
    HostMap {
        domain: IoMmuDomain,
        address: u64,
        size: u64,
        at: PhysicalAddress,
        read_only: bool,
    },
    HostUnmap {
        domain: IoMmuDomain,
        address: u64,
        size: u64,
    },
    /// A paging buffer has come to its end.
    PagingEnded,
}

/// The operations that were executed, and the host's steps, since the journal had `since` lines. The making of page
/// tables is left out.
pub fn transcript(world: &World, since: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_of_tables = false;
    for &line in world.journal.since(since).iter() {
        let step = match line {
            Happened::Executed(number) => {
                let operation = &world.driver.operations[number];
                // A flush after an entry above the leaves is of the addresses that a freed table covered.
                is_of_tables =
                    is_above_leaves(operation) || is_of_tables && matches!(operation, PagingOperation::FlushTlb(_));
                let Some(step) = of_operation(operation).filter(|_| !is_of_tables) else { continue };
                step
            }
            Happened::Mapped { domain, virtual_address, system_address, size, read_only } => {
                Step::HostMap { domain, address: virtual_address.0, size, at: system_address, read_only }
            }
            Happened::Unmapped { domain, virtual_address, size } => {
                Step::HostUnmap { domain, address: virtual_address.0, size }
            }
            Happened::Completed(fence) if fence.engine == PAGING => Step::PagingEnded,
            Happened::Completed(_) | Happened::Built(_) | Happened::Reset { .. } => continue,
        };
        match steps.last_mut().and_then(|last| last.joined(step)) {
            Some(joined) => *steps.last_mut().unwrap() = joined,
            None => steps.push(step),
        }
    }
    steps
}

fn is_above_leaves(operation: &PagingOperation) -> bool {
    matches!(operation, PagingOperation::UpdatePageTable(op) if op.page_table_level > 0)
}

fn map_aperture(form: PagingOperationKind, op: MapApertureSegment) -> Step {
    let (offset, size) = (op.offset_in_pages * PAGE_SIZE, op.number_of_pages * PAGE_SIZE);
    Step::MapAperture { form, offset, size, at: op.mdl }
}

fn of_operation(operation: &PagingOperation) -> Option<Step> {
    let step = match *operation {
        PagingOperation::UpdatePageTable(op)
            if op.page_table_level > 0 || op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE) =>
        {
            return None;
        }
        PagingOperation::UpdatePageTable(op) => {
            let (first, process) = (op.page_table_entries.first, op.process);
            let page = op.page_size().bytes();
            let (address, size) =
                (op.first_pte_virtual_address.0, page * u64::from(op.page_table_entries.num_page_table_entries));
            if first.flags.contains(PteFlags::VALID) {
                let read_only = first.flags.contains(PteFlags::READ_ONLY);
                Step::Validate { process, address, size, at: first.address, read_only }
            } else {
                Step::Invalidate { process, address, size }
            }
        }
        PagingOperation::FlushTlb(op) => {
            Step::Flush { process: op.process, start: op.start_virtual_address.0, end: op.end_virtual_address.0 }
        }
        PagingOperation::NotifyAlloc(op) => {
            let (process, address) = (op.process, op.gpu_virtual_address_at_offset.0);
            let (offset, size) = (op.offset_in_bytes, op.size_in_bytes);
            match op.flags {
                NotifyAllocFlags::EVICTION => Step::NotifyEviction { process, address, offset, size },
                NotifyAllocFlags::IO_MMU_UNMAP => Step::NotifyIoMmuUnmap { process, address, offset, size },
                flags => panic!("NTF-01: one operation has exactly one flag, not {flags:?}"),
            }
        }
        PagingOperation::MapApertureSegment(op) => map_aperture(operation.kind(), op),
        PagingOperation::MapApertureSegment2(op) => map_aperture(operation.kind(), op.into()),
        PagingOperation::UnmapApertureSegment(op) => {
            Step::UnmapAperture { offset: op.offset_in_pages * PAGE_SIZE, size: op.number_of_pages * PAGE_SIZE }
        }
        PagingOperation::VirtualFill(op) => Step::Fill {
            address: op.destination_virtual_address.0,
            offset: op.allocation_offset_in_bytes,
            size: op.fill_size_in_bytes,
        },
        PagingOperation::VirtualTransfer(op) => {
            let (from, to) = (op.source_virtual_address.0, op.destination_virtual_address.0);
            let (offset, size) = (op.allocation_offset_in_bytes, op.transfer_size_in_bytes);
            match op.transfer_direction {
                MemoryTransferDirection::LocalToSystem => Step::TransferOut { from, to, offset, size },
                MemoryTransferDirection::SystemToLocal => Step::TransferIn { from, to, offset, size },
                MemoryTransferDirection::LocalToLocal => panic!("nothing moves inside a segment: {op:?}"),
            }
        }
        other => panic!("I23: {other:?}"),
    };
    Some(step)
}

impl Step {
    /// Both as one step, if `next` goes on where this ends.
    fn joined(self, next: Step) -> Option<Step> {
        match (self, next) {
            (
                Step::Validate { process, address, size, at, read_only },
                Step::Validate { process: p, address: a, size: more, at: to, read_only: r },
            ) if (process, address + size, at.offset_by(size), read_only) == (p, a, to, r) => {
                Some(Step::Validate { process, address, size: size + more, at, read_only })
            }
            (Step::Invalidate { process, address, size }, Step::Invalidate { process: p, address: a, size: more })
                if (process, address + size) == (p, a) =>
            {
                Some(Step::Invalidate { process, address, size: size + more })
            }
            _ => None,
        }
    }
}

/// A process, by its part.
struct Name(KmdProcessHandle);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 == PAGING_PROCESS { "the paging process" } else { "user process" })
    }
}

/// A number of bytes, in pages.
struct Pages(u64);

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(self.0.is_multiple_of(PAGE_SIZE));
        write!(f, "{} pages", self.0 / PAGE_SIZE)
    }
}

struct At(PhysicalAddress);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PhysicalAddress { segment, offset } = self.0;
        if segment == SegmentId::SYSTEM {
            write!(f, "system memory {offset:#x}")
        } else {
            write!(f, "segment {} {offset:#x}", segment.0)
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let domain_name = |domain| match domain {
            IoMmuDomain::Process(process) => format!("{}", Name(process)),
            IoMmuDomain::Global => "the global domain".into(),
        };
        let of = |process: Option<KmdProcessHandle>| {
            process.map_or("no process".into(), |process| format!("{}", Name(process)))
        };
        match *self {
            Step::Validate { process, address, size, at, read_only } => {
                let access = if read_only { ", read-only" } else { "" };
                write!(f, "UPDATE_PAGE_TABLE {} {address:#x}, {}: {}{access}", Name(process), Pages(size), At(at))
            }
            Step::Invalidate { process, address, size } => {
                write!(f, "UPDATE_PAGE_TABLE {} {address:#x}, {}: invalid", Name(process), Pages(size))
            }
            Step::Flush { process, start: 0, end: 0 } => write!(f, "FLUSH_TLB {}, all", Name(process)),
            Step::Flush { process, start, end } => {
                write!(f, "FLUSH_TLB {} {start:#x}, {}", Name(process), Pages(end - start))
            }
            Step::NotifyEviction { process, address, offset, size } => {
                let (process, offset, size) = (of(process), Pages(offset), Pages(size));
                write!(f, "NOTIFY_ALLOC Eviction, {process}, {address:#x}: from {offset} on, {size}")
            }
            Step::NotifyIoMmuUnmap { process, address, offset, size } => {
                let (process, offset, size) = (of(process), Pages(offset), Pages(size));
                write!(f, "NOTIFY_ALLOC IoMmuUnmap, {process}, {address:#x}: from {offset} on, {size}")
            }
            Step::MapAperture { form, offset, size, at } => {
                write!(f, "{form} {offset:#x}, {}: {}", Pages(size), At(at))
            }
            Step::UnmapAperture { offset, size } => write!(f, "UNMAP_APERTURE_SEGMENT {offset:#x}, {}", Pages(size)),
            Step::Fill { address, offset, size } => {
                write!(f, "VIRTUAL_FILL {address:#x}: from {} on, {}", Pages(offset), Pages(size))
            }
            Step::TransferIn { from, to, offset, size } => {
                write!(f, "VIRTUAL_TRANSFER in, {from:#x} to {to:#x}: from {} on, {}", Pages(offset), Pages(size))
            }
            Step::TransferOut { from, to, offset, size } => {
                write!(f, "VIRTUAL_TRANSFER out, {from:#x} to {to:#x}: from {} on, {}", Pages(offset), Pages(size))
            }
            Step::HostMap { domain, address, size, at, read_only } => {
                let (domain, access) = (domain_name(domain), if read_only { ", read-only" } else { "" });
                write!(f, "host maps in {domain} {address:#x}, {}: {}{access}", Pages(size), At(at))
            }
            Step::HostUnmap { domain, address, size } => {
                write!(f, "host unmaps from {} {address:#x}, {}", domain_name(domain), Pages(size))
            }
            Step::PagingEnded => write!(f, "-- the paging buffer ends"),
        }
    }
}
