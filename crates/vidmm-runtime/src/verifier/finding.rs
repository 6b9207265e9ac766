//! The findings of a verifier.

use std::fmt;

use vidmm::contract::{EngineFence, KmdAllocationHandle, KmdProcessHandle, PagingOperation, Pte};
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PhysicalAddress, SegmentId};

use crate::probe::TableEntry;

/// An operation, or a patch, whose effect is not the documented one.
#[derive(Clone, PartialEq, Debug)]
pub struct WrongEffect {
    /// The request that the driver encoded.
    pub of: Request,
    /// The packet with the end of which the effect is due; none if it was never due.
    pub packet: Option<EngineFence>,
    /// The flaw.
    pub wrong: Wrong,
}

/// A request to a driver whose effect can be seen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Request {
    /// A paging operation.
    Operation {
        /// The operation.
        operation: PagingOperation,
        /// The calls that it took, each with a paging buffer of its own.
        passes: u32,
    },
    /// A patch of an allocation's address.
    Patch {
        /// The allocation.
        allocation: KmdAllocationHandle,
        /// The index of the patch location in its list.
        location: u32,
    },
}

/// A flaw of an effect.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Wrong {
    /// The operation was answered with success, and nothing was encoded.
    NothingWritten,
    /// A page has another content.
    Page {
        /// The page of the allocation, counted from 0.
        page: u64,
        /// The page's place.
        address: PhysicalAddress,
        /// The documented content.
        expected: PageContent,
        /// The content that is there; none if no memory is there.
        found: Option<PageContent>,
    },
    /// A later part of an allocation has moved from or to the wrong part: the driver adds other offsets to the addresses than it
    /// is to add (BPB-21).
    Part {
        /// The offsets that it adds.
        adds: Offsets,
    },
    /// An entry of a page table is another.
    Entry {
        /// Its index.
        index: u32,
        /// The documented entry.
        expected: TableEntry,
        /// The entry; none if no memory is there.
        found: Option<TableEntry>,
    },
    /// An entry beside those of the operation was written.
    EntryBeside {
        /// Its index.
        index: u32,
    },
    /// Cached translations were kept that were to be flushed.
    NotFlushed {
        /// The process; none is all of them.
        process: Option<KmdProcessHandle>,
        /// The first address that was not flushed.
        virtual_address: GpuVirtualAddress,
    },
    /// A page of an aperture shows another page of system memory.
    AperturePage {
        /// The aperture segment.
        segment: SegmentId,
        /// The page of it.
        page: u64,
        /// The page of system memory that it is to show.
        expected: u64,
        /// The page that it shows.
        found: Option<u64>,
    },
    /// A page is still compressed.
    Compressed {
        /// The page of the allocation, counted from 0.
        page: u64,
    },
    /// The device does not see what the IOMMU maps: the range was unmapped too early, or was used through a translation of what
    /// was mapped there before.
    Stale {
        /// The first such address.
        virtual_address: GpuVirtualAddress,
    },
    /// A command holds another address.
    Address {
        /// The documented address.
        expected: PhysicalAddress,
        /// The address; none if it is none of any memory.
        found: Option<PhysicalAddress>,
    },
}

/// The content of a page, as far as it can be named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageContent {
    /// Zeros.
    Zeros,
    /// The pattern of a fill.
    Pattern,
    /// That of the place from which it was to come.
    Of(PhysicalAddress),
    /// That of another page of the operation, counted in the allocation from 0.
    OfPage(u64),
    /// The content from before the operation.
    AsBefore,
    /// Another one, which neither the operation nor the page had.
    Other,
}

/// Offsets that a driver adds to the addresses of a TRANSFER (BPB-21).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offsets {
    /// None: it takes the addresses for advanced already.
    None,
    /// One to the source.
    OfSource,
    /// One to the destination.
    OfDestination,
}

impl WrongEffect {
    /// The number of the fact that documents the effect.
    pub fn fact(&self) -> &'static str {
        let Request::Operation { operation, .. } = self.of else { return "PAT-10" };
        match operation {
            PagingOperation::Transfer(_) if matches!(self.wrong, Wrong::Part { .. }) => "BPB-21",
            PagingOperation::NotifyAlloc(_) if is_eviction(&operation) => "NTF-02",
            _ => operation.kind().fact(),
        }
    }
}

/// Whether an operation announces an eviction.
pub(super) fn is_eviction(operation: &PagingOperation) -> bool {
    use vidmm::contract::NotifyAllocFlags;
    matches!(operation, PagingOperation::NotifyAlloc(op) if op.flags.contains(NotifyAllocFlags::EVICTION))
}

impl fmt::Display for WrongEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            Request::Operation { operation, passes } => {
                write!(f, "{}", Named(&operation))?;
                if passes > 1 {
                    write!(f, ", in {passes} passes")?;
                }
            }
            Request::Patch { allocation, location } => {
                write!(f, "patch location {location} of allocation {:#x}", allocation.0)?;
            }
        }
        if let Some(EngineFence { engine, fence_id }) = self.packet {
            write!(f, ", packet {fence_id} of engine {engine}")?;
        }
        write!(f, ": {}", self.wrong)
    }
}

/// An operation with what tells it from others of its kind.
pub(crate) struct Named<'a>(pub &'a PagingOperation);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(operation) = self;
        write!(f, "{}", operation.kind())?;
        if let Some(allocation) = operation.allocation() {
            write!(f, " of allocation {:#x}", allocation.0)?;
        }
        if let PagingOperation::FlushTlb(op) = operation {
            let (start, end) = (op.start_virtual_address, op.end_virtual_address);
            write!(f, " of process {:#x} from {start} to {end}", op.process.0)?;
        }
        if let PagingOperation::UpdatePageTable(op) = operation {
            let (level, table) = (op.page_table_level, Place(op.page_table_address));
            write!(f, ", of the level-{level} table at {table}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Wrong::NothingWritten => f.write_str("success was answered, and nothing was encoded"),
            Wrong::Page { page, address, expected, found } => {
                write!(f, "page {page}, at {}, ", Place(address))?;
                match found {
                    Some(found) => write!(f, "has {found} instead of {expected}"),
                    None => f.write_str("is in no memory"),
                }
            }
            Wrong::Part { adds: Offsets::None } => f.write_str(
                "the driver adds no offset, or moves nothing: if it takes the addresses for advanced already, `--transfer-offset preadvanced` is for it",
            ),
            Wrong::Part { adds: Offsets::OfSource } => f.write_str(
                "the pages lie at the start of the destination: TransferOffset, or MdlOffset of a list, is not added to the destination",
            ),
            Wrong::Part { adds: Offsets::OfDestination } => f.write_str(
                "the pages have the content at the start of the source: TransferOffset, or MdlOffset of a list, is not added to the source",
            ),
            Wrong::Entry { index, expected, found } => {
                write!(f, "entry {index} is ")?;
                match found {
                    Some(found) => write!(f, "{} instead of {}", Entry(found), Entry(expected)),
                    None => write!(f, "in no memory instead of {}", Entry(expected)),
                }
            }
            Wrong::EntryBeside { index } => write!(f, "entry {index} was written, and is none of the operation's"),
            Wrong::NotFlushed { process: Some(process), virtual_address } => {
                write!(f, "translations from {virtual_address} on of process {:#x} were not flushed", process.0)
            }
            Wrong::NotFlushed { process: None, virtual_address } => {
                write!(f, "translations from {virtual_address} on were not flushed")
            }
            Wrong::AperturePage { segment, page, expected, found } => {
                write!(f, "page {page} of aperture segment {} shows ", segment.0)?;
                match found {
                    Some(found) => write!(f, "system memory at {:#x}", found * PAGE_SIZE)?,
                    None => f.write_str("nothing")?,
                }
                write!(f, " instead of {:#x}", expected * PAGE_SIZE)
            }
            Wrong::Compressed { page } => write!(f, "page {page} is still compressed"),
            Wrong::Stale { virtual_address } => {
                write!(f, "the device does not see what the IOMMU maps at {virtual_address}")
            }
            Wrong::Address { expected, found } => {
                match found {
                    Some(found) => write!(f, "the command has {}", Place(found))?,
                    None => f.write_str("the command has an address outside all memory")?,
                }
                write!(f, " instead of {}", Place(expected))
            }
        }
    }
}

impl fmt::Display for PageContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PageContent::Zeros => f.write_str("zeros"),
            PageContent::Pattern => f.write_str("the pattern"),
            PageContent::Of(source) => write!(f, "the content of {}", Place(source)),
            PageContent::OfPage(page) => write!(f, "the content of page {page}"),
            PageContent::AsBefore => f.write_str("what it had before"),
            PageContent::Other => f.write_str("other content"),
        }
    }
}

impl WrongEffect {
    /// The same with the addresses that the driver has seen, which a GPU tells.
    pub(super) fn told_by(mut self, told: impl Fn(PhysicalAddress) -> PhysicalAddress) -> Self {
        let system_page = |page: u64| {
            let place = PhysicalAddress { segment: SegmentId::SYSTEM, offset: page * PAGE_SIZE };
            told(place).offset / PAGE_SIZE
        };
        let entry = |TableEntry { pte, pte_64kb }| {
            let pte_told = |pte: Pte| Pte { address: told(pte.address), ..pte };
            TableEntry { pte: pte_told(pte), pte_64kb: pte_64kb.map(pte_told) }
        };
        let content = |content| match content {
            PageContent::Of(source) => PageContent::Of(told(source)),
            other => other,
        };
        if let Request::Operation { operation: PagingOperation::UpdatePageTable(op), .. } = &mut self.of {
            op.page_table_address = told(op.page_table_address);
        }
        self.wrong = match self.wrong {
            Wrong::Page { page, address, expected, found } => {
                let (address, expected) = (told(address), content(expected));
                Wrong::Page { page, address, expected, found: found.map(content) }
            }
            Wrong::Entry { index, expected, found } => {
                Wrong::Entry { index, expected: entry(expected), found: found.map(entry) }
            }
            Wrong::AperturePage { segment, page, expected, found } => {
                let (expected, found) = (system_page(expected), found.map(system_page));
                Wrong::AperturePage { segment, page, expected, found }
            }
            Wrong::Address { expected, found } => Wrong::Address { expected: told(expected), found: found.map(&told) },
            other => other,
        };
        self
    }
}

struct Place(PhysicalAddress);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PhysicalAddress { segment, offset } = self.0;
        match segment {
            SegmentId::SYSTEM => write!(f, "system memory {offset:#x}"),
            SegmentId(number) => write!(f, "segment {number} + {offset:#x}"),
        }
    }
}

struct Entry(TableEntry);

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableEntry { pte, pte_64kb } = self.0;
        pte_text(pte, f)?;
        if let Some(large) = pte_64kb {
            f.write_str(" with ")?;
            pte_text(large, f)?;
            f.write_str(" for 64 KiB")?;
        }
        Ok(())
    }
}

fn pte_text(pte: Pte, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut names = pte.flags.iter_names().map(|(name, _)| name).peekable();
    if names.peek().is_none() {
        return f.write_str("INVALID");
    }
    for name in names {
        write!(f, "{name} ")?;
    }
    write!(f, "{}", Place(pte.address))
}
