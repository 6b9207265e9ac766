//! The command encoding: what the driver writes into DMA buffers, and what a GPU executes.
//!
//! All numbers are little-endian. A command is a header of 8 bytes and its fields, without gaps:
//!
//! | bytes | header |
//! |---|---|
//! | 0..2 | opcode |
//! | 2..4 | 0 |
//! | 4..8 | length of the command in bytes, header included |
//!
//! So a reader can pass over a command that it does not need. The commands carry more than this GPU's hardware would ask
//! for: an observer, or a GPU that binds memory itself, learns from them which process and address a run of page-table
//! entries belongs to, and which part of which allocation a transfer moves (D1).
//!
//! # Compression
//!
//! A GPU that stores pages compressed keeps a *surface*: a mark for each page of an allocation that holds compressed bytes.
//! Every word of such a page is the plain word, exclusive-or the page's key: with `mix` of [`kernel`](vidmm_runtime::kernel),
//! the key of page `p` of surface `n` is `mix(n + 1, p) | 1`. So no word of a compressed page is what it was, a page whose
//! words are equal stays one, and a page that is decompressed as another becomes neither.
//!
//! A kernel's output to a range with a surface is compressed and marked; its input from one is decompressed on the way
//! where it is marked. [`Decompress`] makes marked pages plain in memory. Nothing else looks at marks, or changes them.
//!
//! # Addresses
//!
//! The addresses of [`Transfer`], [`Fill`], [`Decompress`] and kernels are those of the engine's address space. On an adapter
//! without GPU virtual addresses there is one for all engines, of physical addresses: a segment begins at the base address that
//! the driver reports, and system memory at [`SYSTEM_MEMORY_ADDRESS`](crate::SYSTEM_MEMORY_ADDRESS), where kernels do not reach
//! it. The driver writes them into a kernel's command when they are known; [`kernel_address_offset`] says where.
//!
//! # State
//!
//! On an adapter without GPU virtual addresses every packet begins with [`SetContext`], and a kernel runs only while the state of
//! its context is programmed, by [`Command::SetState`]. Other work on the GPU makes an engine lose it (SPL-06). Elsewhere the two
//! commands mean nothing.
//!
//! # Opcodes
//!
//! | opcode | command | who gives it |
//! |---:|---|---|
//! | 1  | [`SetRootPageTable`] | the driver |
//! | 2  | [`Transfer`] | the driver |
//! | 3  | [`Fill`] | the driver |
//! | 4  | [`WritePtes`] | the driver |
//! | 5  | [`FlushRange`] | the driver |
//! | 6  | [`KernelCommand`] | users |
//! | 7  | reserved | nobody yet |
//! | 8  | [`Command::SetAddressSpace`] | the driver |
//! | 9  | [`MapAperture`] | the driver |
//! | 10 | [`UnmapAperture`] | the driver |
//! | 11 | [`Decompress`] | the driver |
//! | 12 | [`Command::SetState`] | users |
//! | 13 | [`SetContext`] | the driver |
//! | 14 | [`NotifyResidency`] | the driver |
//! | 15 | [`UseAllocation`] | the driver |
//!
//! [`OPCODE_FOREIGN`] is reserved for a user's own recorded commands (D1). It has no fields yet and decodes to
//! [`DecodeError::ReservedOpcode`]; a GPU that does not know it refuses it as an illegal command.

use vidmm::contract::{KmdAllocationHandle, KmdContextHandle, KmdProcessHandle, MemoryTransferDirection};
use vidmm::{GpuVirtualAddress, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{Content, KernelCommand, PageRange, Surface};

use crate::layout::HardwareEntry;

/// Opcode of [`Command::SetRootPageTable`].
pub const OPCODE_SET_ROOT_PAGE_TABLE: u16 = 1;
/// Opcode of [`Command::Transfer`].
pub const OPCODE_TRANSFER: u16 = 2;
/// Opcode of [`Command::Fill`].
pub const OPCODE_FILL: u16 = 3;
/// Opcode of [`Command::WritePtes`].
pub const OPCODE_WRITE_PTES: u16 = 4;
/// Opcode of [`Command::FlushTlb`].
pub const OPCODE_FLUSH_TLB: u16 = 5;
/// Opcode of [`Command::Kernel`].
pub const OPCODE_KERNEL: u16 = 6;
/// Reserved: FOREIGN(token, allocation, address, offset, length) of D1.
pub const OPCODE_FOREIGN: u16 = 7;
/// Opcode of [`Command::SetAddressSpace`].
pub const OPCODE_SET_ADDRESS_SPACE: u16 = 8;
/// Opcode of [`Command::MapAperture`].
pub const OPCODE_MAP_APERTURE: u16 = 9;
/// Opcode of [`Command::UnmapAperture`].
pub const OPCODE_UNMAP_APERTURE: u16 = 10;
/// Opcode of [`Command::Decompress`].
pub const OPCODE_DECOMPRESS: u16 = 11;
/// Opcode of [`Command::SetState`].
pub const OPCODE_SET_STATE: u16 = 12;
/// Opcode of [`Command::SetContext`].
pub const OPCODE_SET_CONTEXT: u16 = 13;
/// Opcode of [`Command::NotifyResidency`].
pub const OPCODE_NOTIFY_RESIDENCY: u16 = 14;
/// Opcode of [`Command::UseAllocation`].
pub const OPCODE_USE_ALLOCATION: u16 = 15;

const HEADER_BYTES: usize = 8;

/// One command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// The commands that follow on this engine run in another address space.
    SetRootPageTable(SetRootPageTable),
    /// Copy.
    Transfer(Transfer),
    /// Fill with a pattern.
    Fill(Fill),
    /// Write page-table entries.
    WritePtes(WritePtes),
    /// Forget cached entries.
    FlushTlb(FlushRange),
    /// Run a kernel.
    Kernel(KernelCommand),
    /// The commands that follow on this engine run in the address space that the IOMMU has for a process (U-17).
    SetAddressSpace(KmdProcessHandle),
    /// Let pages of the aperture show system memory.
    MapAperture(MapAperture),
    /// Let pages of the aperture show the dummy page.
    UnmapAperture(UnmapAperture),
    /// Make compressed pages plain.
    Decompress(Decompress),
    /// Program the state of the engine, which kernels need; the number is the user's own (SPL-06).
    SetState(u64),
    /// The commands that follow on this engine are a context's.
    SetContext(SetContext),
    /// Take note of where an allocation is.
    NotifyResidency(NotifyResidency),
    /// The commands that follow use an allocation.
    UseAllocation(UseAllocation),
}

/// Where an allocation is from now on (BPB-51). The GPU keeps it until the next word of the same allocation: to say twice that it
/// has come, or that it leaves, means nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotifyResidency {
    /// The allocation.
    pub allocation: KmdAllocationHandle,
    /// Where it has come; none if it leaves.
    pub address: Option<GpuVirtualAddress>,
}

/// The commands that follow use an allocation of which the GPU is told where it is (BPB-51). It means nothing if the GPU was told
/// otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UseAllocation {
    /// The allocation.
    pub allocation: KmdAllocationHandle,
    /// Where the commands believe it to be.
    pub address: GpuVirtualAddress,
}

/// Whose commands follow, on an adapter without GPU virtual addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetContext {
    /// The process.
    pub process: KmdProcessHandle,
    /// The context.
    pub context: KmdContextHandle,
    /// Whether it is the one that runs paging buffers.
    pub is_system: bool,
}

/// The address space of the commands that follow (GVA-17).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetRootPageTable {
    /// The process.
    pub process: KmdProcessHandle,
    /// Its root table.
    pub root: PhysicalAddress,
    /// How many entries the root has; an address beyond them faults.
    pub num_entries: u32,
}

/// A copy between two ranges of the engine's address space (BPB-40).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Where the bytes are; a multiple of 4 KiB.
    pub source: GpuVirtualAddress,
    /// Where they go; a multiple of 4 KiB.
    pub destination: GpuVirtualAddress,
    /// How many; a multiple of 4 KiB.
    pub bytes: u64,
    /// Which way: decides how long the copy takes.
    pub direction: MemoryTransferDirection,
    /// For observers: the allocation that moves.
    pub allocation: KmdAllocationHandle,
    /// For observers: which part of it, in bytes from its start.
    pub allocation_offset: u64,
}

/// A fill of a range of the engine's address space (BPB-42).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fill {
    /// Where; a multiple of 4 KiB.
    pub destination: GpuVirtualAddress,
    /// How many bytes; a multiple of 4 KiB.
    pub bytes: u64,
    /// 32 bits, little-endian, repeated (U-12).
    pub pattern: u32,
    /// For observers: the allocation that is filled.
    pub allocation: KmdAllocationHandle,
    /// For observers: which part of it, in bytes from its start.
    pub allocation_offset: u64,
}

/// A run of entries of one page table (GVA-30).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WritePtes {
    /// The process whose table it is.
    pub process: KmdProcessHandle,
    /// The address that the first entry maps.
    pub virtual_address: GpuVirtualAddress,
    /// The level of the table; 0 is the leaf.
    pub level: u32,
    /// The pages that the entries map; at level 0, which kind of leaf table it is (GVA-43).
    pub page_size: PageSize,
    /// Where the table is.
    pub table: PhysicalAddress,
    /// The index of the first entry.
    pub start_index: u32,
    /// How many entries.
    pub count: u32,
    /// The first entry; of the 4 KiB side if entries are dual.
    pub first: HardwareEntry,
    /// The first entry of the 64 KiB side of dual entries. `None` makes that side invalid.
    pub first_64kb: Option<HardwareEntry>,
    /// How many bytes further each entry points than the one before it; 0 repeats the first. On both sides.
    pub stride: u64,
}

/// A range of a process whose cached entries are forgotten (GVA-34).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushRange {
    /// The process; none is all of them.
    pub process: Option<KmdProcessHandle>,
    /// First address to forget.
    pub start: GpuVirtualAddress,
    /// First address not to forget; with the start, both 0 mean the whole space (U-20).
    pub end: GpuVirtualAddress,
}

/// A range of the aperture that shows consecutive pages of system memory from now on (BPB-30).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapAperture {
    /// Which aperture segment.
    pub segment: SegmentId,
    /// The first page of the aperture, in pages of 4 KiB from its start.
    pub first_page: u64,
    /// How many pages.
    pub num_pages: u64,
    /// The system memory that the first page shows; a multiple of 4 KiB.
    pub system_memory: PhysicalAddress,
    /// Whether the GPU snoops the CPU's caches there.
    pub cache_coherent: bool,
    /// For observers: the allocation that is mapped.
    pub allocation: KmdAllocationHandle,
}

/// A range of the aperture of which every page shows the dummy page from now on (BPB-33).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnmapAperture {
    /// Which aperture segment.
    pub segment: SegmentId,
    /// The first page of the aperture, in pages of 4 KiB from its start.
    pub first_page: u64,
    /// How many pages.
    pub num_pages: u64,
    /// The page of system memory that all of them show; a multiple of 4 KiB.
    pub dummy_page: PhysicalAddress,
    /// For observers: the allocation that was mapped.
    pub allocation: KmdAllocationHandle,
}

/// A range of the engine's address space whose compressed pages become plain where they are, and are no longer marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decompress {
    /// Where; a multiple of 4 KiB.
    pub virtual_address: GpuVirtualAddress,
    /// How many bytes; a multiple of 4 KiB.
    pub bytes: u64,
    /// The surface, and which of its pages is the first.
    pub surface: Surface,
    /// For observers: the allocation that is decompressed.
    pub allocation: KmdAllocationHandle,
    /// For observers: which part of it, in bytes from its start.
    pub allocation_offset: u64,
}

/// Writes `command` to the start of `buffer` and returns how many bytes it took; `None`, and nothing written, when it does
/// not fit.
pub fn encode(command: &Command, buffer: &mut [u8]) -> Option<usize> {
    let bytes = encoded_bytes(command);
    let mut writer = Writer { bytes: buffer.get_mut(..bytes)? };
    writer.u16(opcode(command));
    writer.u16(0);
    writer.u32(u32::try_from(bytes).ok()?);
    writer.fields(command);
    Some(bytes)
}

/// Appends `command` to `bytes`.
///
/// # Panics
///
/// If the command is longer than 4 GiB.
pub fn encode_to_vec(command: &Command, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.resize(start + encoded_bytes(command), 0);
    encode(command, &mut bytes[start..]).expect("a command is shorter than 4 GiB");
}

/// How many bytes `command` takes.
pub fn encoded_bytes(command: &Command) -> usize {
    let fields = match command {
        Command::SetRootPageTable(_) => 24,
        Command::Transfer(_) => 44,
        Command::Fill(_) => 36,
        Command::WritePtes(_) => 64,
        Command::FlushTlb(_) => 28,
        Command::Kernel(kernel) => KERNEL_BYTES + RANGE_BYTES * (kernel.inputs.len() + kernel.outputs.len()),
        Command::SetAddressSpace(_) => 8,
        Command::MapAperture(_) => 44,
        Command::UnmapAperture(_) => 40,
        Command::Decompress(_) => 44,
        Command::SetState(_) => 8,
        Command::SetContext(_) => 20,
        Command::NotifyResidency(_) => 20,
        Command::UseAllocation(_) => 16,
    };
    HEADER_BYTES + fields
}

/// Where in a kernel's command the address of range `index` is, in bytes: 8, little-endian. Ranges count from 0, inputs before
/// outputs.
pub const fn kernel_address_offset(index: usize) -> usize {
    HEADER_BYTES + KERNEL_BYTES + RANGE_BYTES * index
}

/// Bytes of the fields of a kernel that precede its ranges.
const KERNEL_BYTES: usize = 28;

/// Bytes of one range of a kernel.
const RANGE_BYTES: usize = 32;

fn opcode(command: &Command) -> u16 {
    match command {
        Command::SetRootPageTable(_) => OPCODE_SET_ROOT_PAGE_TABLE,
        Command::Transfer(_) => OPCODE_TRANSFER,
        Command::Fill(_) => OPCODE_FILL,
        Command::WritePtes(_) => OPCODE_WRITE_PTES,
        Command::FlushTlb(_) => OPCODE_FLUSH_TLB,
        Command::Kernel(_) => OPCODE_KERNEL,
        Command::SetAddressSpace(_) => OPCODE_SET_ADDRESS_SPACE,
        Command::MapAperture(_) => OPCODE_MAP_APERTURE,
        Command::UnmapAperture(_) => OPCODE_UNMAP_APERTURE,
        Command::Decompress(_) => OPCODE_DECOMPRESS,
        Command::SetState(_) => OPCODE_SET_STATE,
        Command::SetContext(_) => OPCODE_SET_CONTEXT,
        Command::NotifyResidency(_) => OPCODE_NOTIFY_RESIDENCY,
        Command::UseAllocation(_) => OPCODE_USE_ALLOCATION,
    }
}

/// Writes fields one after the other. The room was measured before.
struct Writer<'a> {
    bytes: &'a mut [u8],
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (field, rest) = std::mem::take(&mut self.bytes).split_at_mut(bytes.len());
        field.copy_from_slice(bytes);
        self.bytes = rest;
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    fn segment(&mut self, segment: SegmentId) {
        self.u32(u32::from(segment.0));
    }

    fn physical(&mut self, address: PhysicalAddress) {
        self.segment(address.segment);
        self.u64(address.offset);
    }

    fn ranges(&mut self, ranges: &[PageRange]) {
        for range in ranges {
            self.u64(range.virtual_address.0);
            self.u64(range.num_pages);
            self.u32(range.surface.is_some().into());
            self.surface(range.surface.unwrap_or(Surface { number: 0, first_page: 0 }));
        }
    }

    fn surface(&mut self, surface: Surface) {
        self.u32(surface.number);
        self.u64(surface.first_page);
    }

    fn fields(&mut self, command: &Command) {
        match command {
            Command::SetRootPageTable(command) => {
                self.u64(command.process.0);
                self.physical(command.root);
                self.u32(command.num_entries);
            }
            Command::Transfer(command) => {
                self.u64(command.source.0);
                self.u64(command.destination.0);
                self.u64(command.bytes);
                self.u32(direction_code(command.direction));
                self.u64(command.allocation.0);
                self.u64(command.allocation_offset);
            }
            Command::Fill(command) => {
                self.u64(command.destination.0);
                self.u64(command.bytes);
                self.u32(command.pattern);
                self.u64(command.allocation.0);
                self.u64(command.allocation_offset);
            }
            Command::WritePtes(command) => self.write_ptes(command),
            Command::FlushTlb(command) => {
                self.u32(command.process.is_some().into());
                self.u64(command.process.map_or(0, |process| process.0));
                self.u64(command.start.0);
                self.u64(command.end.0);
            }
            Command::Kernel(command) => {
                self.u64(command.kernel);
                self.u64(command.nanoseconds);
                self.u32(content_code(command.content));
                self.u32(command.inputs.len() as u32);
                self.u32(command.outputs.len() as u32);
                self.ranges(&command.inputs);
                self.ranges(&command.outputs);
            }
            Command::SetAddressSpace(process) => self.u64(process.0),
            Command::MapAperture(command) => {
                self.segment(command.segment);
                self.u64(command.first_page);
                self.u64(command.num_pages);
                self.physical(command.system_memory);
                self.u32(command.cache_coherent.into());
                self.u64(command.allocation.0);
            }
            Command::UnmapAperture(command) => {
                self.segment(command.segment);
                self.u64(command.first_page);
                self.u64(command.num_pages);
                self.physical(command.dummy_page);
                self.u64(command.allocation.0);
            }
            Command::Decompress(command) => {
                self.u64(command.virtual_address.0);
                self.u64(command.bytes);
                self.surface(command.surface);
                self.u64(command.allocation.0);
                self.u64(command.allocation_offset);
            }
            Command::SetState(state) => self.u64(*state),
            Command::SetContext(command) => {
                self.u64(command.process.0);
                self.u64(command.context.0);
                self.u32(command.is_system.into());
            }
            Command::NotifyResidency(command) => {
                self.u64(command.allocation.0);
                self.u32(command.address.is_some().into());
                self.u64(command.address.map_or(0, |address| address.0));
            }
            Command::UseAllocation(command) => {
                self.u64(command.allocation.0);
                self.u64(command.address.0);
            }
        }
    }

    fn write_ptes(&mut self, command: &WritePtes) {
        let page_size = if command.page_size == PageSize::Kib64 { WRITE_PTES_64KIB_PAGES } else { 0 };
        let dual = if command.first_64kb.is_some() { WRITE_PTES_FIRST_64KB } else { 0 };
        self.u64(command.process.0);
        self.u64(command.virtual_address.0);
        self.u16(command.level as u16);
        self.u16(page_size | dual);
        self.physical(command.table);
        self.u32(command.start_index);
        self.u32(command.count);
        self.u64(command.first.0);
        self.u64(command.first_64kb.unwrap_or_default().0);
        self.u64(command.stride);
    }
}

const WRITE_PTES_64KIB_PAGES: u16 = 1 << 0;
const WRITE_PTES_FIRST_64KB: u16 = 1 << 1;

fn direction_code(direction: MemoryTransferDirection) -> u32 {
    match direction {
        MemoryTransferDirection::LocalToSystem => 0,
        MemoryTransferDirection::SystemToLocal => 1,
        MemoryTransferDirection::LocalToLocal => 2,
    }
}

fn content_code(content: Content) -> u32 {
    match content {
        Content::Uniform => 0,
        Content::Ramp => 1,
    }
}

/// Why bytes are not a command. Every variant tells the offset of the command in the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside the command.
    #[error("the command at byte {offset} is cut off")]
    Truncated {
        /// Where the command begins.
        offset: usize,
    },
    /// No command has this opcode.
    #[error("the command at byte {offset} has the unknown opcode {opcode}")]
    UnknownOpcode {
        /// Where the command begins.
        offset: usize,
        /// The opcode.
        opcode: u16,
    },
    /// The opcode is reserved: see [`OPCODE_FOREIGN`].
    #[error("the command at byte {offset} has the reserved opcode {opcode}")]
    ReservedOpcode {
        /// Where the command begins.
        offset: usize,
        /// The opcode.
        opcode: u16,
    },
    /// The length or a field has a value that the command cannot have.
    #[error("the command at byte {offset}, opcode {opcode}, has a field of no meaning")]
    Malformed {
        /// Where the command begins.
        offset: usize,
        /// The opcode.
        opcode: u16,
    },
}

/// Reads commands from bytes, one after the other. It ends after the last command, or after the first error.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Decoder<'a> {
    /// A decoder at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Where the next command begins, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    fn decode(&self) -> Result<(Command, usize), DecodeError> {
        let offset = self.offset;
        let rest = &self.bytes[offset..];
        let mut header = Reader { bytes: rest };
        let (opcode, reserved, length) = header.header().ok_or(DecodeError::Truncated { offset })?;
        let malformed = DecodeError::Malformed { offset, opcode };
        if reserved != 0 || length < HEADER_BYTES {
            return Err(malformed);
        }
        let fields = rest.get(HEADER_BYTES..length).ok_or(DecodeError::Truncated { offset })?;
        match opcode {
            OPCODE_FOREIGN => return Err(DecodeError::ReservedOpcode { offset, opcode }),
            OPCODE_SET_ROOT_PAGE_TABLE..=OPCODE_USE_ALLOCATION => {}
            _ => return Err(DecodeError::UnknownOpcode { offset, opcode }),
        }
        let mut reader = Reader { bytes: fields };
        let command = reader.command(opcode).ok_or(malformed)?;
        if reader.bytes.is_empty() { Ok((command, length)) } else { Err(malformed) }
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Command, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset == self.bytes.len() {
            return None;
        }
        match self.decode() {
            Ok((command, length)) => {
                self.offset += length;
                Some(Ok(command))
            }
            Err(error) => {
                self.offset = self.bytes.len();
                Some(Err(error))
            }
        }
    }
}

/// Reads fields one after the other; `None` when they end too early or mean nothing.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*field)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn header(&mut self) -> Option<(u16, u16, usize)> {
        Some((self.u16()?, self.u16()?, self.u32()? as usize))
    }

    fn address(&mut self) -> Option<GpuVirtualAddress> {
        self.u64().map(GpuVirtualAddress)
    }

    fn process(&mut self) -> Option<KmdProcessHandle> {
        self.u64().map(KmdProcessHandle)
    }

    fn allocation(&mut self) -> Option<KmdAllocationHandle> {
        self.u64().map(KmdAllocationHandle)
    }

    fn segment(&mut self) -> Option<SegmentId> {
        Some(SegmentId(u8::try_from(self.u32()?).ok()?))
    }

    fn physical(&mut self) -> Option<PhysicalAddress> {
        Some(PhysicalAddress { segment: self.segment()?, offset: self.u64()? })
    }

    fn ranges(&mut self, count: u32) -> Option<Vec<PageRange>> {
        // The bytes bound the count before anything is reserved for it.
        if count as usize > self.bytes.len() / RANGE_BYTES {
            return None;
        }
        (0..count).map(|_| self.range()).collect()
    }

    fn range(&mut self) -> Option<PageRange> {
        let plain = PageRange::plain(self.address()?, self.u64()?);
        let (has_surface, surface) = (self.bool()?, self.surface()?);
        if !has_surface && surface != (Surface { number: 0, first_page: 0 }) {
            return None;
        }
        Some(PageRange { surface: has_surface.then_some(surface), ..plain })
    }

    fn surface(&mut self) -> Option<Surface> {
        Some(Surface { number: self.u32()?, first_page: self.u64()? })
    }

    fn bool(&mut self) -> Option<bool> {
        match self.u32()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn direction(&mut self) -> Option<MemoryTransferDirection> {
        match self.u32()? {
            0 => Some(MemoryTransferDirection::LocalToSystem),
            1 => Some(MemoryTransferDirection::SystemToLocal),
            2 => Some(MemoryTransferDirection::LocalToLocal),
            _ => None,
        }
    }

    fn content(&mut self) -> Option<Content> {
        match self.u32()? {
            0 => Some(Content::Uniform),
            1 => Some(Content::Ramp),
            _ => None,
        }
    }

    fn command(&mut self, opcode: u16) -> Option<Command> {
        Some(match opcode {
            OPCODE_SET_ROOT_PAGE_TABLE => Command::SetRootPageTable(SetRootPageTable {
                process: self.process()?,
                root: self.physical()?,
                num_entries: self.u32()?,
            }),
            OPCODE_TRANSFER => Command::Transfer(Transfer {
                source: self.address()?,
                destination: self.address()?,
                bytes: self.u64()?,
                direction: self.direction()?,
                allocation: self.allocation()?,
                allocation_offset: self.u64()?,
            }),
            OPCODE_FILL => Command::Fill(Fill {
                destination: self.address()?,
                bytes: self.u64()?,
                pattern: self.u32()?,
                allocation: self.allocation()?,
                allocation_offset: self.u64()?,
            }),
            OPCODE_WRITE_PTES => Command::WritePtes(self.write_ptes()?),
            OPCODE_FLUSH_TLB => Command::FlushTlb(self.flush_range()?),
            OPCODE_KERNEL => Command::Kernel(self.kernel()?),
            OPCODE_SET_ADDRESS_SPACE => Command::SetAddressSpace(self.process()?),
            OPCODE_MAP_APERTURE => Command::MapAperture(MapAperture {
                segment: self.segment()?,
                first_page: self.u64()?,
                num_pages: self.u64()?,
                system_memory: self.physical()?,
                cache_coherent: self.bool()?,
                allocation: self.allocation()?,
            }),
            OPCODE_UNMAP_APERTURE => Command::UnmapAperture(UnmapAperture {
                segment: self.segment()?,
                first_page: self.u64()?,
                num_pages: self.u64()?,
                dummy_page: self.physical()?,
                allocation: self.allocation()?,
            }),
            OPCODE_DECOMPRESS => Command::Decompress(Decompress {
                virtual_address: self.address()?,
                bytes: self.u64()?,
                surface: self.surface()?,
                allocation: self.allocation()?,
                allocation_offset: self.u64()?,
            }),
            OPCODE_SET_STATE => Command::SetState(self.u64()?),
            OPCODE_SET_CONTEXT => Command::SetContext(SetContext {
                process: self.process()?,
                context: self.u64().map(KmdContextHandle)?,
                is_system: self.bool()?,
            }),
            OPCODE_NOTIFY_RESIDENCY => Command::NotifyResidency(self.notify_residency()?),
            OPCODE_USE_ALLOCATION => {
                Command::UseAllocation(UseAllocation { allocation: self.allocation()?, address: self.address()? })
            }
            _ => return None,
        })
    }

    fn write_ptes(&mut self) -> Option<WritePtes> {
        let (process, virtual_address) = (self.process()?, self.address()?);
        let (level, flags) = (u32::from(self.u16()?), self.u16()?);
        if flags & !(WRITE_PTES_64KIB_PAGES | WRITE_PTES_FIRST_64KB) != 0 {
            return None;
        }
        let (table, start_index, count) = (self.physical()?, self.u32()?, self.u32()?);
        let (first, second) = (HardwareEntry(self.u64()?), HardwareEntry(self.u64()?));
        let (stride, page_size) = (self.u64()?, flags & WRITE_PTES_64KIB_PAGES);
        Some(WritePtes {
            process,
            virtual_address,
            level,
            page_size: if page_size != 0 { PageSize::Kib64 } else { PageSize::Kib4 },
            table,
            start_index,
            count,
            first,
            first_64kb: (flags & WRITE_PTES_FIRST_64KB != 0).then_some(second),
            stride,
        })
    }

    fn flush_range(&mut self) -> Option<FlushRange> {
        let (has_process, process) = (self.bool()?, self.process()?);
        if !has_process && process.0 != 0 {
            return None;
        }
        Some(FlushRange { process: has_process.then_some(process), start: self.address()?, end: self.address()? })
    }

    fn notify_residency(&mut self) -> Option<NotifyResidency> {
        let (allocation, resident, address) = (self.allocation()?, self.bool()?, self.address()?);
        if !resident && address.0 != 0 {
            return None;
        }
        Some(NotifyResidency { allocation, address: resident.then_some(address) })
    }

    fn kernel(&mut self) -> Option<KernelCommand> {
        let (kernel, nanoseconds, content) = (self.u64()?, self.u64()?, self.content()?);
        let (inputs, outputs) = (self.u32()?, self.u32()?);
        Some(KernelCommand {
            kernel,
            nanoseconds,
            content,
            inputs: self.ranges(inputs)?,
            outputs: self.ranges(outputs)?,
        })
    }
}
