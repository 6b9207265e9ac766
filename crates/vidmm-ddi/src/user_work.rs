//! Work of users: kernels, whose results are specified. The GPU's model hands them back, and translates for them.

use vidmm::PAGE_SIZE;
use vidmm_runtime::{Content, KernelCommand};
use vidmm_soft::KernelState;

use crate::abi::*;
use crate::adapter::Adapter;
use crate::memory::from_driver;

/// The words before the ranges: the number, the duration, the content, how many inputs and outputs.
const HEAD_WORDS: usize = 5;

/// Encodes a kernel as words.
pub(crate) fn encode(kernel: &KernelCommand) -> Vec<u8> {
    let counts = [kernel.inputs.len() as u64, kernel.outputs.len() as u64];
    let is_ramp = u64::from(kernel.content == Content::Ramp);
    let ranges = kernel.inputs.iter().chain(&kernel.outputs);
    let ranges = ranges.flat_map(|range| [range.virtual_address.0, range.num_pages]);
    let words = [kernel.kernel, kernel.nanoseconds, is_ramp].into_iter().chain(counts).chain(ranges);
    words.flat_map(u64::to_le_bytes).collect()
}

/// How long the kernel in `bytes` takes, in nanoseconds; 0 if there is none.
pub(crate) fn duration(bytes: &[u8]) -> u64 {
    bytes.get(8..16).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// An access where nothing is mapped.
pub(crate) struct Fault {
    pub virtual_address: u64,
    pub is_write: bool,
}

/// Runs the kernel in the adapter's DMA buffer on an engine.
///
/// # Errors
///
/// If it accesses what is not mapped; nothing is written then.
pub(crate) fn run(adapter: &Adapter, node_ordinal: u32) -> Result<(), Fault> {
    let words = adapter.dma.borrow().words().to_vec();
    let nowhere = || Fault { virtual_address: 0, is_write: false };
    let (head, ranges) = words.split_at_checked(HEAD_WORDS).ok_or_else(nowhere)?;
    let &[kernel, _, is_ramp, num_inputs, num_outputs] = head else { return Err(nowhere()) };
    let ranges: Vec<(u64, u64)> = ranges.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    if ranges.len() as u64 != num_inputs + num_outputs {
        return Err(nowhere());
    }
    let (inputs, outputs) = ranges.split_at(num_inputs as usize);
    let mut state = KernelState::new(kernel);
    let mut read = Vec::new();
    for &range in inputs {
        let mut digests = Vec::new();
        for address in pages(range) {
            let digest = match translate(adapter, node_ordinal, address, false)? {
                Some((segment, offset)) => digest(adapter, segment, offset),
                None => 0,
            };
            state.absorb(digest);
            digests.push(digest);
        }
        read.push(digests);
    }
    let content = if is_ramp == 1 { Content::Ramp } else { Content::Uniform };
    let mut writes = Vec::new();
    for (output, &range) in (0..).zip(outputs) {
        for (page, address) in (0..).zip(pages(range)) {
            let place = translate(adapter, node_ordinal, address, true)?;
            writes.extend(place.map(|place| (place, state.seed(output, page))));
        }
    }
    writes.into_iter().for_each(|(place, seed)| write(adapter, place, content, seed));
    adapter.kernels.borrow_mut().push((kernel, read));
    Ok(())
}

fn pages((address, count): (u64, u64)) -> impl Iterator<Item = u64> {
    (0..count).map(move |page| address + page * PAGE_SIZE)
}

/// The place of a page, as the driver sees it; none reads as zeros.
fn translate(adapter: &Adapter, node: u32, virtual_address: u64, is_write: bool) -> Result<Option<(u32, u64)>, Fault> {
    let fault = Fault { virtual_address, is_write };
    let Some(translate) = adapter.driver().gpu().and_then(|gpu| gpu.Translate) else { return Err(fault) };
    let (mut segment, mut offset) = (0, 0);
    // SAFETY: the model writes the two numbers that it is given.
    let result =
        unsafe { translate(adapter.handle(), node, virtual_address, is_write.into(), &mut segment, &mut offset) };
    match result {
        VIDMM_TRANSLATION_MAPPED => Ok(Some((segment, offset))),
        VIDMM_TRANSLATION_ZERO => Ok(None),
        _ => Err(fault),
    }
}

/// The digest of a page that the model has named; zeros where no memory is.
fn digest(adapter: &Adapter, segment: u32, offset: u64) -> u64 {
    let digest = from_driver(segment, offset).and_then(|place| adapter.memory()?.page_digest(place));
    digest.unwrap_or_else(|| {
        no_memory(segment, offset);
        0
    })
}

fn write(adapter: &Adapter, (segment, offset): (u32, u64), content: Content, seed: u64) {
    let written = from_driver(segment, offset).and_then(|at| Some(adapter.memory()?.write_page(at, content, seed)));
    if written != Some(true) {
        no_memory(segment, offset);
    }
}

fn no_memory(segment: u32, offset: u64) {
    let message = format!("a kernel's address is translated to segment {segment} + {offset:#x}, where no memory is");
    crate::reports::report("GPU-ACCESS", message);
}
