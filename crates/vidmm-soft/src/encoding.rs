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
//! | 7  | [`Foreign`] | the driver |
//! | 8  | [`Command::SetAddressSpace`] | the driver |
//! | 9  | [`MapAperture`] | the driver |
//! | 10 | [`UnmapAperture`] | the driver |
//! | 11 | [`Decompress`] | the driver |
//! | 12 | [`Command::SetState`] | users |
//! | 13 | [`SetContext`] | the driver |
//! | 14 | [`NotifyResidency`] | the driver |
//! | 15 | [`UseAllocation`] | the driver |
//!
//! [`Foreign`] stands for commands of the user's own, which the executor knows by their token (D1). The model GPU has none of them: it looks
//! whether the range is there.

use vidmm::contract::{KmdAllocationHandle, KmdContextHandle, KmdProcessHandle, MemoryTransferDirection};
use vidmm::{GpuVirtualAddress, Nanoseconds, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{Content, KernelCommand, PageRange, Surface};

use crate::layout::HardwareEntry;

const HEADER_BYTES: usize = 8;

/// The work that a command gives the GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Nothing beside reading the command.
    Nothing,
    /// A copy.
    Transfer { bytes: u64, direction: MemoryTransferDirection },
    /// A fill.
    Fill { bytes: u64 },
    /// So many entries of a page table or of the aperture.
    Entries(u64),
    /// A decompression in place.
    Decompress { bytes: u64 },
    /// A flush.
    Flush,
    /// A kernel, of so many nanoseconds.
    Kernel(Nanoseconds),
}

/// Makes the table of commands: [`Command`], and what each has beside its fields: its opcode, and what there is to do
/// for the GPU.
macro_rules! commands {
    ($($(#[$about:meta])* $opcode:ident = $number:literal: $variant:ident($fields:ty), |$command:pat_param| $work:expr;)*) => {
        $(
            #[doc = concat!("Opcode of [`Command::", stringify!($variant), "`].")]
            pub const $opcode: u16 = $number;
        )*

        /// One command.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Command {
            $($(#[$about])* $variant($fields),)*
        }

        impl Command {
            fn opcode(&self) -> u16 {
                match self {
                    $(Self::$variant(_) => $opcode,)*
                }
            }

            /// The work of the GPU for it, which decides how long that takes.
            pub(crate) fn work(&self) -> Work {
                match self {
                    $(Self::$variant($command) => $work,)*
                }
            }

            fn write(&self, out: &mut impl Sink) {
                match self {
                    $(Self::$variant(fields) => fields.write(out),)*
                }
            }

            /// The command with this opcode; none if there is none, and none in it if its fields mean nothing.
            fn read(opcode: u16, fields: &mut Reader<'_>) -> Option<Option<Self>> {
                match opcode {
                    $($opcode => Some(Field::read(fields).map(Self::$variant)),)*
                    _ => None,
                }
            }
        }
    };
}

commands! {
    /// The commands that follow on this engine run in another address space.
    OPCODE_SET_ROOT_PAGE_TABLE = 1: SetRootPageTable(SetRootPageTable), |_| Work::Nothing;
    /// Copy.
    OPCODE_TRANSFER = 2: Transfer(Transfer), |transfer| Work::Transfer { bytes: transfer.bytes, direction: transfer.direction };
    /// Fill with a pattern.
    OPCODE_FILL = 3: Fill(Fill), |fill| Work::Fill { bytes: fill.bytes };
    /// Write page-table entries.
    OPCODE_WRITE_PTES = 4: WritePtes(WritePtes), |ptes| Work::Entries(ptes.count.into());
    /// Forget cached entries.
    OPCODE_FLUSH_TLB = 5: FlushTlb(FlushRange), |_| Work::Flush;
    /// Run a kernel.
    OPCODE_KERNEL = 6: Kernel(KernelCommand), |kernel| Work::Kernel(kernel.nanoseconds);
    /// Run commands of the user's own.
    OPCODE_FOREIGN = 7: Foreign(Foreign), |_| Work::Nothing;
    /// The commands that follow on this engine run in the address space that the IOMMU has for a process (U-17).
    OPCODE_SET_ADDRESS_SPACE = 8: SetAddressSpace(KmdProcessHandle), |_| Work::Nothing;
    /// Let pages of the aperture show system memory.
    OPCODE_MAP_APERTURE = 9: MapAperture(MapAperture), |map| Work::Entries(map.num_pages);
    /// Let pages of the aperture show the dummy page.
    OPCODE_UNMAP_APERTURE = 10: UnmapAperture(UnmapAperture), |unmap| Work::Entries(unmap.num_pages);
    /// Make compressed pages plain.
    OPCODE_DECOMPRESS = 11: Decompress(Decompress), |decompress| Work::Decompress { bytes: decompress.bytes };
    /// Program the state of the engine, which kernels need; the number is the user's own (SPL-06).
    OPCODE_SET_STATE = 12: SetState(u64), |_| Work::Nothing;
    /// The commands that follow on this engine are a context's.
    OPCODE_SET_CONTEXT = 13: SetContext(SetContext), |_| Work::Nothing;
    /// Take note of where an allocation is.
    OPCODE_NOTIFY_RESIDENCY = 14: NotifyResidency(NotifyResidency), |_| Work::Nothing;
    /// The commands that follow use an allocation.
    OPCODE_USE_ALLOCATION = 15: UseAllocation(UseAllocation), |_| Work::Nothing;
}

/// Makes commands of their fields, which are encoded in their order.
macro_rules! fields {
    ($($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub struct $name {
                $($(#[$doc])* pub $field: $type,)*
            }

            impl Field for $name {
                fn write(&self, out: &mut impl Sink) {
                    $(self.$field.write(out);)*
                }

                fn read(from: &mut Reader<'_>) -> Option<Self> {
                    Some(Self { $($field: Field::read(from)?),* })
                }
            }
        )*
    };
}

fields! {
    /// Where an allocation is from now on (BPB-51). The GPU keeps it until the next word of the same allocation: to say
    /// twice that it has come, or that it leaves, means nothing.
    pub struct NotifyResidency {
        /// The allocation.
        pub allocation: KmdAllocationHandle,
        /// Where it has come; none if it leaves.
        pub address: Option<GpuVirtualAddress>,
    }

    /// The commands that follow use an allocation of which the GPU is told where it is (BPB-51). It means nothing if
    /// the GPU was told otherwise.
    pub struct UseAllocation {
        /// The allocation.
        pub allocation: KmdAllocationHandle,
        /// Where the commands believe it to be.
        pub address: GpuVirtualAddress,
    }

    /// Whose commands follow, on an adapter without GPU virtual addresses.
    pub struct SetContext {
        /// The process.
        pub process: KmdProcessHandle,
        /// The context.
        pub context: KmdContextHandle,
        /// Whether it is the one that runs paging buffers.
        pub is_system: bool,
    }

    /// The address space of the commands that follow (GVA-17).
    pub struct SetRootPageTable {
        /// The process.
        pub process: KmdProcessHandle,
        /// Its root table.
        pub root: PhysicalAddress,
        /// How many entries the root has; an address beyond them faults.
        pub num_entries: u32,
    }

    /// A copy between two ranges of the engine's address space (BPB-40).
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

    /// A range of a process whose cached entries are forgotten (GVA-34).
    pub struct FlushRange {
        /// The process; none is all of them.
        pub process: Option<KmdProcessHandle>,
        /// First address to forget.
        pub start: GpuVirtualAddress,
        /// First address not to forget; with the start, both 0 mean the whole space (U-20).
        pub end: GpuVirtualAddress,
    }

    /// A range of the aperture that shows consecutive pages of system memory from now on (BPB-30).
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

    /// A range of the engine's address space that commands of the user's own change (D1).
    pub struct Foreign {
        /// The commands, as the user's half of the driver calls them.
        pub token: u32,
        /// Where; a multiple of 4 KiB.
        pub virtual_address: GpuVirtualAddress,
        /// How many bytes; a multiple of 4 KiB.
        pub bytes: u64,
        /// For observers: the allocation that is changed.
        pub allocation: KmdAllocationHandle,
        /// Which part of it, in bytes from its start.
        pub allocation_offset: u64,
    }

    /// A range of the engine's address space whose compressed pages become plain where they are, and are no longer marked.
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
    pub table: TableAddress,
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

/// Where a command finds a page table (GVA-10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableAddress {
    /// In a segment.
    Physical(PhysicalAddress),
    /// In the address space that the command runs in.
    Virtual(GpuVirtualAddress),
}

/// Writes `command` to the start of `buffer` and returns how many bytes it took; `None`, and nothing written, when it does
/// not fit.
pub fn encode(command: &Command, buffer: &mut [u8]) -> Option<usize> {
    let bytes = encoded_bytes(command);
    let mut out = buffer.get_mut(..bytes)?;
    out.put(&command.opcode().to_le_bytes());
    out.put(&[0, 0]);
    u32::try_from(bytes).ok()?.write(&mut out);
    command.write(&mut out);
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
    let mut bytes = Measure(HEADER_BYTES);
    command.write(&mut bytes);
    bytes.0
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

/// Where fields go.
trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

/// Room that was measured before.
impl Sink for &mut [u8] {
    fn put(&mut self, bytes: &[u8]) {
        let (field, rest) = std::mem::take(self).split_at_mut(bytes.len());
        field.copy_from_slice(bytes);
        *self = rest;
    }
}

/// The length of what is written, in bytes.
struct Measure(usize);

impl Sink for Measure {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// The parts of a command.
trait Field: Sized {
    fn write(&self, out: &mut impl Sink);

    /// The next field; none when the bytes end too early or mean nothing.
    fn read(from: &mut Reader<'_>) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Field for $number {
            fn write(&self, out: &mut impl Sink) {
                out.put(&self.to_le_bytes());
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                from.take().map(<$number>::from_le_bytes)
            }
        })*
    };
}

numbers!(u16, u32, u64);

/// Names and addresses are numbers. One that may be absent follows a word that says whether it is there, and is 0 if it is not.
macro_rules! named_numbers {
    ($($name:ident),*) => {$(
        impl Field for $name {
            fn write(&self, out: &mut impl Sink) {
                self.0.write(out);
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                u64::read(from).map($name)
            }
        }

        impl Field for Option<$name> {
            fn write(&self, out: &mut impl Sink) {
                self.is_some().write(out);
                self.unwrap_or($name(0)).write(out);
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                present_or(from, $name(0))
            }
        }
    )*};
}

named_numbers!(GpuVirtualAddress, KmdAllocationHandle, KmdContextHandle, KmdProcessHandle, HardwareEntry);

/// A value behind a word that says whether it is there; if not, it is `absent`.
fn present_or<T: Field + PartialEq>(from: &mut Reader<'_>, absent: T) -> Option<Option<T>> {
    let (is_there, field) = (bool::read(from)?, T::read(from)?);
    (is_there || field == absent).then(|| is_there.then_some(field))
}

/// Choices are numbers of 32 bits.
macro_rules! choices {
    ($($type:ident { $($choice:ident = $number:literal),* })*) => {
        $(impl Field for $type {
            fn write(&self, out: &mut impl Sink) {
                let number: u32 = match self {
                    $($type::$choice => $number),*
                };
                number.write(out);
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                match u32::read(from)? {
                    $($number => Some($type::$choice),)*
                    _ => None,
                }
            }
        })*
    };
}

choices! {
    MemoryTransferDirection { LocalToSystem = 0, SystemToLocal = 1, LocalToLocal = 2 }
    Content { Uniform = 0, Ramp = 1 }
}

impl Field for bool {
    fn write(&self, out: &mut impl Sink) {
        u32::from(*self).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        match u32::read(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Field for SegmentId {
    fn write(&self, out: &mut impl Sink) {
        u32::from(self.0).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(SegmentId(u8::try_from(u32::read(from)?).ok()?))
    }
}

impl Field for PhysicalAddress {
    fn write(&self, out: &mut impl Sink) {
        self.segment.write(out);
        self.offset.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(PhysicalAddress { segment: Field::read(from)?, offset: Field::read(from)? })
    }
}

impl Field for Surface {
    fn write(&self, out: &mut impl Sink) {
        self.number.write(out);
        self.first_page.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Surface { number: Field::read(from)?, first_page: Field::read(from)? })
    }
}

const NO_SURFACE: Surface = Surface { number: 0, first_page: 0 };

impl Field for PageRange {
    fn write(&self, out: &mut impl Sink) {
        self.virtual_address.write(out);
        self.num_pages.write(out);
        self.surface.is_some().write(out);
        self.surface.unwrap_or(NO_SURFACE).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let plain = PageRange::plain(Field::read(from)?, Field::read(from)?);
        Some(PageRange { surface: present_or(from, NO_SURFACE)?, ..plain })
    }
}

impl Field for KernelCommand {
    fn write(&self, out: &mut impl Sink) {
        self.kernel.write(out);
        self.nanoseconds.write(out);
        self.content.write(out);
        (self.inputs.len() as u32).write(out);
        (self.outputs.len() as u32).write(out);
        self.inputs.iter().chain(&self.outputs).for_each(|range| range.write(out));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (kernel, nanoseconds, content) = (Field::read(from)?, Field::read(from)?, Field::read(from)?);
        let (inputs, outputs) = (u32::read(from)?, u32::read(from)?);
        let (inputs, outputs) = (from.ranges(inputs)?, from.ranges(outputs)?);
        Some(KernelCommand { kernel, nanoseconds, content, inputs, outputs })
    }
}

const WRITE_PTES_64KIB_PAGES: u16 = 1 << 0;
const WRITE_PTES_FIRST_64KB: u16 = 1 << 1;
const WRITE_PTES_VIRTUAL: u16 = 1 << 2;

impl Field for WritePtes {
    fn write(&self, out: &mut impl Sink) {
        let page_size = if self.page_size == PageSize::Kib64 { WRITE_PTES_64KIB_PAGES } else { 0 };
        let dual = if self.first_64kb.is_some() { WRITE_PTES_FIRST_64KB } else { 0 };
        self.process.write(out);
        self.virtual_address.write(out);
        (self.level as u16).write(out);
        let (mode, table) = match self.table {
            TableAddress::Physical(table) => (0, table),
            TableAddress::Virtual(GpuVirtualAddress(offset)) => {
                (WRITE_PTES_VIRTUAL, PhysicalAddress { segment: SegmentId::SYSTEM, offset })
            }
        };
        (page_size | dual | mode).write(out);
        table.write(out);
        self.start_index.write(out);
        self.count.write(out);
        self.first.write(out);
        self.first_64kb.unwrap_or_default().write(out);
        self.stride.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (process, virtual_address) = (Field::read(from)?, Field::read(from)?);
        let (level, flags) = (u16::read(from)?.into(), u16::read(from)?);
        if flags & !(WRITE_PTES_64KIB_PAGES | WRITE_PTES_FIRST_64KB | WRITE_PTES_VIRTUAL) != 0 {
            return None;
        }
        let (table, start_index, count) = (PhysicalAddress::read(from)?, Field::read(from)?, Field::read(from)?);
        let table = match flags & WRITE_PTES_VIRTUAL != 0 {
            true if !table.segment.is_system() => return None,
            true => TableAddress::Virtual(GpuVirtualAddress(table.offset)),
            false => TableAddress::Physical(table),
        };
        let (first, second) = (Field::read(from)?, Field::read(from)?);
        let page_size = if flags & WRITE_PTES_64KIB_PAGES != 0 { PageSize::Kib64 } else { PageSize::Kib4 };
        let first_64kb = (flags & WRITE_PTES_FIRST_64KB != 0).then_some(second);
        let stride = Field::read(from)?;
        Some(WritePtes {
            process,
            virtual_address,
            level,
            page_size,
            table,
            start_index,
            count,
            first,
            first_64kb,
            stride,
        })
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
        let mut reader = Reader { bytes: fields };
        let command = Command::read(opcode, &mut reader).ok_or(DecodeError::UnknownOpcode { offset, opcode })?;
        let command = command.ok_or(malformed)?;
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

/// Bytes that are read one field after the other.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*field)
    }

    fn header(&mut self) -> Option<(u16, u16, usize)> {
        Some((u16::read(self)?, u16::read(self)?, u32::read(self)? as usize))
    }

    fn ranges(&mut self, count: u32) -> Option<Vec<PageRange>> {
        // The bytes bound the count before anything is reserved for it.
        if count as usize > self.bytes.len() / RANGE_BYTES {
            return None;
        }
        (0..count).map(|_| PageRange::read(self)).collect()
    }
}
