//! Work of users: kernels, whose results are specified. The GPU's model hands them back, and translates for them.

use vidmm::{PAGE_SIZE, PhysicalAddress};
use vidmm_runtime::{Content, GpuEvent, KernelCommand};
use vidmm_soft::{KernelState, UserCommandEncoding};

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL, Shape};
use crate::memory::{from_driver, to_driver};
use crate::progress::Entry;
use crate::reports::{report, report_stray};

/// Bytes of a kernel's command before its ranges, and of each range: `VIDMM_USER_KERNEL`, `VIDMM_USER_RANGE`.
const KERNEL_BYTES: usize = 40;
const RANGE_BYTES: usize = 32;

/// `VIDMM_USER_OPCODE`.
const STATE: u32 = 1;
const KERNEL: u32 = 2;

/// The commands of users, as `vidmm_test.h` has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserCommandsInC;

impl UserCommandEncoding for UserCommandsInC {
    fn append_state(&self, number: u64, commands: &mut Vec<u8>) {
        append_words(&[head(STATE, 16), number], commands);
    }

    fn append_kernel(&self, kernel: KernelCommand, commands: &mut Vec<u8>) {
        let bytes = KERNEL_BYTES + RANGE_BYTES * (kernel.inputs.len() + kernel.outputs.len());
        let counts = kernel.inputs.len() as u64 | (kernel.outputs.len() as u64) << 32;
        let is_ramp = u64::from(kernel.content == Content::Ramp);
        append_words(&[head(KERNEL, bytes), kernel.kernel, kernel.nanoseconds, is_ramp, counts], commands);
        for range in kernel.inputs.iter().chain(&kernel.outputs) {
            let surface = range.surface.map_or([0, 0], |surface| [u64::from(surface.number) + 1, surface.first_page]);
            append_words(&[range.virtual_address.0, range.num_pages, surface[0], surface[1]], commands);
        }
    }

    fn address_offset(&self, index: usize) -> usize {
        KERNEL_BYTES + RANGE_BYTES * index
    }
}

fn head(opcode: u32, bytes: usize) -> u64 {
    u64::from(opcode) | (bytes as u64) << 32
}

fn append_words(words: &[u64], commands: &mut Vec<u8>) {
    commands.extend(words.iter().copied().flat_map(u64::to_le_bytes));
}

/// Encodes a kernel.
pub(crate) fn encode(kernel: &KernelCommand) -> Vec<u8> {
    let mut bytes = Vec::new();
    UserCommandsInC.append_kernel(kernel.clone(), &mut bytes);
    bytes
}

/// A command of a user.
enum Command {
    State,
    Kernel { kernel: u64, nanoseconds: u64, content: Content, inputs: Vec<Range>, outputs: Vec<Range> },
}

/// A range of a kernel, in pages.
#[derive(Clone, Copy)]
struct Range {
    address: u64,
    count: u64,
    /// Its compression surface; 0 if it has none.
    surface: u32,
    /// The page of its allocation that the first one is.
    first_page: u64,
}

impl Range {
    /// Each page: its number in the allocation, and its address.
    fn pages(self) -> impl Iterator<Item = (u64, u64)> {
        let page =
            move |at: u64| (self.first_page.wrapping_add(at), self.address.wrapping_add(at.wrapping_mul(PAGE_SIZE)));
        (0..self.count).map(page)
    }
}

/// The commands in some bytes, which a driver has written; none in the place of one that is none.
fn commands(bytes: &[u8]) -> impl Iterator<Item = Option<Command>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((command, after)) = command(rest) else {
            rest = &[];
            return Some(None);
        };
        rest = after;
        Some(Some(command))
    })
}

fn command(bytes: &[u8]) -> Option<(Command, &[u8])> {
    let (head, _) = bytes.split_first_chunk::<8>()?;
    let head = u64::from_le_bytes(*head);
    let (command, after) = bytes.split_at_checked((head >> 32) as usize)?;
    let words: Vec<u64> = command.as_chunks().0.iter().copied().map(u64::from_le_bytes).collect();
    let command = match (head as u32, &words[..]) {
        (STATE, [_, _]) => Command::State,
        (KERNEL, &[_, kernel, nanoseconds, is_ramp, counts, ref ranges @ ..]) => {
            let (num_inputs, num_outputs) = (counts as u32 as usize, (counts >> 32) as usize);
            if ranges.len() != num_inputs.checked_add(num_outputs)?.checked_mul(4)? {
                return None;
            }
            let mut ranges = ranges.as_chunks().0.iter().map(|&[address, count, surface, first_page]| {
                let surface = u32::try_from(surface).unwrap_or_default();
                Range { address, count, surface, first_page }
            });
            let inputs = ranges.by_ref().take(num_inputs).collect();
            let content = if is_ramp == 1 { Content::Ramp } else { Content::Uniform };
            Command::Kernel { kernel, nanoseconds, content, inputs, outputs: ranges.collect() }
        }
        _ => return None,
    };
    Some((command, after))
}

/// Where the addresses are that the kernels in `bytes` access.
pub(crate) fn offsets_of_addresses(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let mut rest = bytes;
    let next = std::iter::from_fn(move || {
        let start = bytes.len() - rest.len();
        let (command, after) = command(rest)?;
        rest = after;
        Some((start, command))
    });
    next.flat_map(|(start, command)| {
        let ranges = match command {
            Command::Kernel { inputs, outputs, .. } => [inputs, outputs].concat(),
            Command::State => Vec::new(),
        };
        let used = ranges.into_iter().enumerate().filter(|(_, range)| range.count > 0);
        used.map(move |(index, _)| start + UserCommandsInC.address_offset(index)).collect::<Vec<_>>()
    })
}

fn shape(inputs: &[Range], outputs: &[Range]) -> Shape {
    let pages = |ranges: &[Range]| ranges.iter().map(|range| range.count).collect();
    (pages(inputs), pages(outputs))
}

/// Notes the kernels that a program hands in: no other ever runs.
pub(crate) fn expect(adapter: &Adapter, bytes: &[u8]) {
    let mut expected = adapter.handed_in.borrow_mut();
    for command in commands(bytes).flatten() {
        if let Command::Kernel { kernel, inputs, outputs, .. } = command {
            expected.insert(kernel, shape(&inputs, &outputs));
        }
    }
}

/// How long the kernels in `bytes` take, in nanoseconds.
pub(crate) fn duration(bytes: &[u8]) -> u64 {
    let nanoseconds = |command| match command {
        Some(Command::Kernel { nanoseconds, .. }) => nanoseconds,
        _ => 0,
    };
    commands(bytes).map(nanoseconds).fold(0, u64::saturating_add)
}

/// An access where nothing is mapped, or a command that is none.
pub(crate) struct Fault {
    pub virtual_address: u64,
    pub is_write: bool,
}

/// Runs the commands at an address of the adapter's DMA buffer on an engine.
///
/// # Errors
///
/// If one of them is no command, or accesses what is not mapped: that kernel writes nothing.
pub(crate) fn run(adapter: &Adapter, node_ordinal: u32, address: u64, size: usize) -> Result<(), Fault> {
    let nowhere = || Fault { virtual_address: 0, is_write: false };
    let bytes = adapter.dma.bytes(address, size);
    let Some(bytes) = bytes else {
        report("GPU-ACCESS", "the GPU runs bytes of a DMA buffer that are not submitted");
        return Err(nowhere());
    };
    // The user-mode half programs the state behind each split point, and every part of a buffer begins at one (SPL-06).
    let mut is_programmed = !adapter.is_physical.get();
    for command in commands(&bytes) {
        match command {
            None => {
                report("DDI-RENDER", "a DMA buffer has a command that is none of the user-mode driver's");
                return Err(nowhere());
            }
            Some(Command::State) => is_programmed = true,
            Some(Command::Kernel { .. }) if !is_programmed => {
                let message = "a part of a DMA buffer begins without the command that programs the state again";
                report("SPL-06", message);
                return Err(nowhere());
            }
            Some(Command::Kernel { kernel, inputs, outputs, .. })
                if adapter.handed_in.borrow().get(&kernel) != Some(&shape(&inputs, &outputs)) =>
            {
                report("DDI-RENDER", "a DMA buffer has a kernel that no program has handed in");
                return Err(nowhere());
            }
            Some(Command::Kernel { kernel, content, inputs, outputs, .. }) => {
                let ran = run_kernel(adapter, node_ordinal, kernel, content, &inputs, &outputs);
                ran.inspect_err(|fault| note_fault(adapter, fault))?;
            }
        }
    }
    Ok(())
}

/// The addresses in the work of users are those that the driver has written, so a fault is the driver's mistake. Older drivers have no
/// report of a page fault by which the manager would know.
fn note_fault(adapter: &Adapter, fault: &Fault) {
    if adapter.is_physical.get() {
        let done = if fault.is_write { "writes" } else { "reads" };
        report("I04", format!("the work of a user {done} address {:#x}, which is none", fault.virtual_address));
    }
}

fn run_kernel(
    adapter: &Adapter,
    node_ordinal: u32,
    kernel: u64,
    content: Content,
    inputs: &[Range],
    outputs: &[Range],
) -> Result<(), Fault> {
    let mut state = KernelState::new(kernel);
    let mut read = Vec::new();
    for &range in inputs {
        let mut digests = Vec::new();
        for (page, address) in range.pages() {
            let digest = match translate(adapter, node_ordinal, address, false)? {
                Some((segment, offset)) => digest(adapter, segment, offset, range.surface, page),
                None => 0,
            };
            state.absorb(digest);
            digests.push(digest);
        }
        read.push(digests);
    }
    let mut writes = Vec::new();
    for (output, &range) in (0..).zip(outputs) {
        for (at, (page, address)) in (0..).zip(range.pages()) {
            let place = translate(adapter, node_ordinal, address, true)?;
            writes.extend(place.map(|place| (place, state.seed(output, at), range.surface, page)));
        }
    }
    for (place, seed, surface, page) in writes {
        write(adapter, place, content, seed, surface, page);
        adapter.kernel_events.borrow_mut().extend(written(adapter, place, surface, page));
    }
    adapter.kernel_events.borrow_mut().push(GpuEvent::KernelRead { kernel, inputs: read });
    Ok(())
}

/// Tells the verifier of a page that a kernel has written: a paging operation on another engine may be about to move it (RES-20).
fn written(adapter: &Adapter, (segment, offset): (u32, u64), surface: u32, page: u64) -> Option<GpuEvent> {
    let address = from_driver(segment, offset)?;
    let allocation = if surface > 0 { adapter.compression.borrow().allocation_of(surface) } else { None };
    let compressed = allocation.map(|allocation| (allocation, page));
    Some(GpuEvent::KernelWrote { address, num_pages: 1, compressed })
}

/// The place that the address at `offset` in some commands stands for; none if it is none of any memory.
pub(crate) fn patched_address(adapter: &Adapter, commands: &[u8], offset: usize) -> Option<PhysicalAddress> {
    let (address, _) = commands.get(offset..)?.split_first_chunk()?;
    let address = u64::from_le_bytes(*address);
    let (segment, offset) = place(adapter, 0, address, false, false).ok().flatten()?;
    from_driver(segment, offset / PAGE_SIZE * PAGE_SIZE + address % PAGE_SIZE)
}

/// The page of system memory, as the driver numbers it, that a page of an aperture shows.
pub(crate) fn aperture_page(adapter: &Adapter, segment: u32, page: u64) -> Option<u64> {
    let read = adapter.driver().gpu()?.ReadAperturePage?;
    let mut system_page = 0;
    // SAFETY: the model writes the number that it is given.
    let is_there = adapter.call(Entry::GpuReadAperturePage, PASSIVE_LEVEL, || unsafe {
        read(adapter.handle(), segment, page, &mut system_page)
    });
    (is_there != 0).then_some(system_page)
}

/// The place of a page's bytes, as the driver sees it; none reads as zeros. Those of an aperture are in system memory.
fn translate(adapter: &Adapter, node: u32, virtual_address: u64, is_write: bool) -> Result<Option<(u32, u64)>, Fault> {
    let found = place(adapter, node, virtual_address, is_write, true)?;
    let at = found.and_then(|(segment, offset)| from_driver(segment, offset));
    if let (Some(asked), Some(at)) = (adapter.targets.place_of(virtual_address), at)
        && asked != at
    {
        report_translation(adapter, virtual_address, asked, at);
        return Err(Fault { virtual_address, is_write });
    }
    Ok(found)
}

/// The place to which the model's tables lead an address of the running work; none if a read faults, or reads zeros.
pub(crate) fn translated(adapter: &Adapter, virtual_address: u64) -> Option<PhysicalAddress> {
    let place = place(adapter, adapter.targets.engine()?, virtual_address, false, true).ok()?;
    place.and_then(|(segment, offset)| from_driver(segment, offset))
}

/// Reports a translation of the running work: the culprit of what is read and written at the place `found`.
pub(crate) fn report_translation(
    adapter: &Adapter,
    virtual_address: u64,
    asked: PhysicalAddress,
    found: PhysicalAddress,
) {
    let name = |place: PhysicalAddress| {
        let (segment, offset) = to_driver(place);
        format!("page {:#x} of segment {segment}", offset / PAGE_SIZE)
    };
    let page = virtual_address / PAGE_SIZE * PAGE_SIZE;
    let told = format!("address {page:#x} leads to {}, and the GPU goes to {}", name(asked), name(found));
    match adapter.targets.was_at(virtual_address, found) {
        true => report_stray("GVA-34", format!("FLUSH_TLB: {told}, the place before the last update")),
        false => report_stray("GVA-30", format!("UPDATE_PAGE_TABLE: {told}")),
    }
}

fn place(
    adapter: &Adapter,
    node: u32,
    virtual_address: u64,
    is_write: bool,
    looks_through: bool,
) -> Result<Option<(u32, u64)>, Fault> {
    let fault = Fault { virtual_address, is_write };
    let Some(translate) = adapter.driver().gpu().and_then(|gpu| gpu.Translate) else { return Err(fault) };
    let (mut segment, mut offset) = (0, 0);
    // SAFETY: the model writes the two numbers that it is given.
    let result =
        unsafe { translate(adapter.handle(), node, virtual_address, is_write.into(), &mut segment, &mut offset) };
    match result {
        VIDMM_TRANSLATION_MAPPED if !looks_through => Ok(Some((segment, offset))),
        VIDMM_TRANSLATION_MAPPED => match adapter.memory().is_some_and(|memory| memory.is_aperture(segment)) {
            true => aperture_page(adapter, segment, offset / PAGE_SIZE)
                .map(|page| Some((0, page.wrapping_mul(PAGE_SIZE))))
                .ok_or(fault),
            false => Ok(Some((segment, offset))),
        },
        VIDMM_TRANSLATION_ZERO => Ok(None),
        _ => Err(fault),
    }
}

/// The digest of a page that the model has named, plain if it is compressed; zeros where no memory is.
fn digest(adapter: &Adapter, segment: u32, offset: u64, surface: u32, page: u64) -> u64 {
    let key = adapter.compression.borrow().key(surface, page);
    let digest = from_driver(segment, offset).and_then(|place| match key {
        Some(key) => adapter.memory()?.plain_digest(place, key),
        None => adapter.memory()?.page_digest(place),
    });
    digest.unwrap_or_else(|| {
        no_memory(segment, offset);
        0
    })
}

/// Writes a page: compressed and marked, if it has a surface.
fn write(adapter: &Adapter, (segment, offset): (u32, u64), content: Content, seed: u64, surface: u32, page: u64) {
    let written = from_driver(segment, offset).and_then(|at| {
        let memory = adapter.memory()?;
        let is_there = memory.write_page(at, content, seed);
        if is_there && surface > 0 {
            memory.xor_page(at, adapter.compression.borrow_mut().mark(surface, page));
        }
        Some(is_there)
    });
    if written != Some(true) {
        no_memory(segment, offset);
    }
}

fn no_memory(segment: u32, offset: u64) {
    let message = format!("a kernel's address is translated to segment {segment} + {offset:#x}, where no memory is");
    report("GPU-ACCESS", message);
}
