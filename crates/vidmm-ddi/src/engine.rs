//! One engine: the packets that wait for it, and the one that the driver has.

use std::collections::VecDeque;

use vidmm::contract::{EngineFence, KmdContextHandle, Packet, RootPageTable};
use vidmm::{Nanoseconds, PhysicalAddress, SegmentId};

use crate::abi::*;
use crate::adapter::{Adapter, DISPATCH_LEVEL, PASSIVE_LEVEL};
use crate::dice::Dice;
use crate::dma_buffers::Named;
use crate::payload::root_args;
use crate::progress::Entry;
use crate::reports::report;
use crate::user_work;

/// The packet as the driver is told of it when it begins. WDDM's packets have no waits, so packets wait here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Submission {
    pub context: KmdContextHandle,
    /// The root table of the context at its submission.
    pub root: Option<RootPageTable>,
    pub paging: bool,
    /// The part of its DMA buffer that is submitted; none is all of it (PAT-01).
    pub offsets: Option<(u32, u32)>,
}

impl Submission {
    /// Appends its words to a packet's preamble.
    pub fn encode(&self, preamble: &mut Vec<u8>) {
        let (address, num_entries) = self.root.map_or((None, 0), |root| (Some(root.address), root.num_entries));
        let segment = address.map_or(u64::MAX, |address| address.segment.0.into());
        let offset = address.map_or(0, |address| address.offset);
        let (start, end) = self.offsets.map_or((u64::MAX, 0), |(start, end)| (start.into(), end.into()));
        for word in [self.context.0, segment, offset, num_entries.into(), self.paging.into(), start, end] {
            preamble.extend(word.to_le_bytes());
        }
    }

    /// Reads a packet's preamble.
    pub fn decode(preamble: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(preamble.get(at * 8..at * 8 + 8)?.try_into().ok()?));
        let segment = u8::try_from(word(1)?).ok().map(SegmentId);
        let address = segment.map(|segment| Some(PhysicalAddress { segment, offset: word(2)? }));
        let root = match address {
            Some(address) => Some(RootPageTable { address: address?, num_entries: word(3)? as u32 }),
            None => None,
        };
        let offsets = u32::try_from(word(5)?).ok().zip(u32::try_from(word(6)?).ok());
        Some(Self { context: KmdContextHandle(word(0)?), root, paging: word(4)? == 1, offsets })
    }
}

/// Tells the driver the root table of a context.
pub(crate) fn set_root(adapter: &Adapter, context: KmdContextHandle, root: RootPageTable) {
    let Some(function) = adapter.ddi().DxgkDdiSetRootPageTable else { return };
    let mut args = root_args(adapter, context, root);
    // SAFETY: the struct lives for the call; the context is the driver's.
    adapter.call_with(Entry::DxgkDdiSetRootPageTable, PASSIVE_LEVEL, &mut args, |args| unsafe {
        function(adapter.handle(), args)
    });
}

/// A packet that the engine has.
#[derive(Debug)]
pub(crate) struct Queued {
    pub packet: Packet,
    /// When its waits were over; none if they are not.
    pub ready_at: Option<Nanoseconds>,
    /// The packet's buffer, once the driver has the packet.
    pub buffer: Option<usize>,
    /// The driver has reported the packet's end.
    pub is_reported: bool,
    /// Engines report in any order relative to each other: the packet takes longer by a draw.
    pub delay: Nanoseconds,
}

impl Queued {
    pub fn new(packet: Packet, dice: &Dice) -> Self {
        Self { packet, ready_at: None, buffer: None, is_reported: false, delay: dice.below(PACKET_NANOSECONDS) }
    }
}

/// An engine.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub queue: VecDeque<Queued>,
    pub free_since: Nanoseconds,
    /// When the first packet began; none if it waits. The driver has it since.
    pub begun_at: Option<Nanoseconds>,
    /// It has stopped at a fault, or its driver did not report the end of a packet.
    pub is_stopped: bool,
    /// The last packet that has ended, and the last that was submitted.
    pub completed: u64,
    pub submitted: u64,
    /// The request to yield that is not answered yet.
    pub preemption: Option<u64>,
    /// The driver's report that it has yielded: the request, and the last packet that has ended.
    pub yielded: Option<(u32, u32)>,
    /// The last ended packet that the driver had.
    pub told: u64,
    /// The last packet that has ended since the last reset or loss of power: what a driver says of it before that is its own affair.
    pub ended: Option<u64>,
}

/// Every packet takes this long, and each of its bytes a nanosecond: what a driver's commands cost is not known. That is about the time
/// in which a bus moves a few hundred pages, so that programs meet work that is under way.
const PACKET_NANOSECONDS: Nanoseconds = 50_000;

impl Engine {
    /// When the first packet begins, or has begun.
    pub fn begins_at(&self) -> Option<Nanoseconds> {
        let first = self.queue.front().filter(|_| !self.is_stopped)?;
        self.begun_at.or_else(|| Some(first.ready_at?.max(self.free_since)))
    }

    /// When the first packet ends; none if it never does.
    pub fn ends_at(&self) -> Option<Nanoseconds> {
        let first = self.queue.front()?;
        self.begins_at()?.checked_add(duration(&first.packet))?.checked_add(first.delay)
    }

    /// Takes all packets; the engine is as new.
    pub fn take_all(&mut self, adapter: &Adapter) -> Vec<(u64, vidmm::contract::DmaBuffer)> {
        (self.begun_at, self.is_stopped, self.preemption, self.yielded) = (None, false, None, None);
        let take = |Queued { packet, buffer, .. }| {
            if let Some(buffer) = buffer {
                adapter.dma.end(buffer, packet.signal, true);
            }
            (packet.signal.fence_id, packet.buffer)
        };
        self.queue.drain(..).map(take).collect()
    }

    /// The packets with the driver.
    pub fn handed(&mut self) -> impl Iterator<Item = &mut Queued> {
        self.queue.iter_mut().filter(|queued| queued.buffer.is_some())
    }
}

fn duration(packet: &Packet) -> Nanoseconds {
    let commands = packet.buffer.commands();
    match Submission::decode(&packet.preamble) {
        Some(submission) if !submission.paging => user_work::duration(commands),
        _ => PACKET_NANOSECONDS + commands.len() as u64,
    }
}

/// Whether a packet is without commands: the rest of a DMA buffer that was given up (SPL-13). No driver hears of the packet.
pub(crate) fn is_given_up(adapter: &Adapter, packet: &Packet) -> bool {
    let is_paging = Submission::decode(&packet.preamble).is_none_or(|submission| submission.paging);
    adapter.is_physical.get() && !is_paging && packet.buffer.commands().is_empty()
}

/// Hands a packet to the driver, with the buffer that the driver has filled. Returns the buffer's number.
pub(crate) fn submit(adapter: &Adapter, packet: &Packet) -> Option<usize> {
    let submission = Submission::decode(&packet.preamble)?;
    if let Some(root) = submission.root {
        set_root(adapter, submission.context, root);
    }
    let (commands, private) = (packet.buffer.commands(), packet.buffer.private_data());
    let rendered = if submission.paging { None } else { adapter.dma.of_token(private) };
    let number = match rendered {
        Some(number) => number,
        None if submission.paging => {
            adapter.dma.of_paging(commands.as_ptr().addr(), commands, adapter.paging_private_size.get())
        }
        None => adapter.dma.plain(commands, private),
    };
    if submission.paging
        && let Some(at) = adapter.dma.first_changed(number, commands)
    {
        let message = "has changed between DxgkDdiBuildPagingBuffer and the submission";
        report("BPB-02", format!("byte {at} of a paging buffer of {} bytes {message}", commands.len()));
    }
    let (start, end) = submission.offsets.unwrap_or((0, commands.len() as u32));
    let buffer = adapter.dma.submit(number, packet.signal, start as usize..end as usize);
    if submission.paging && adapter.is_physical.get() && adapter.patches_paging.get() {
        patch_paging(adapter, packet, buffer, (start, end));
    }
    match adapter.is_physical.get() {
        true => submit_physical(adapter, packet, &submission, buffer),
        false => submit_virtual(adapter, packet, &submission, buffer),
    }
    adapter.dma.must_be_whole(number, "BPB-02", "the submission");
    Some(number)
}

/// Lets the driver patch a paging buffer, which has no addresses to patch: documents disagree whether Patch is called (DRV-01).
fn patch_paging(adapter: &Adapter, packet: &Packet, buffer: Named, (start, end): (u32, u32)) {
    let Some(function) = adapter.ddi().DxgkDdiPatch else { return };
    let mut args = DXGKARG_PATCH {
        DmaBufferPhysicalAddress: buffer.address,
        pDmaBuffer: buffer.dma,
        DmaBufferSize: end,
        DmaBufferSubmissionStartOffset: start,
        DmaBufferSubmissionEndOffset: end,
        pDmaBufferPrivateData: buffer.private,
        DmaBufferPrivateDataSize: buffer.private_size,
        DmaBufferPrivateDataSubmissionEndOffset: buffer.private_end(),
        SubmissionFenceId: adapter.fences.fence_of(packet.signal.fence_id),
        Flags: SUBMIT_PAGING,
        ..DXGKARG_PATCH::zeroed()
    };
    // SAFETY: the struct and the buffer live for the call.
    let status = adapter
        .call_with(Entry::DxgkDdiPatch, PASSIVE_LEVEL, &mut args, |args| unsafe { function(adapter.handle(), args) });
    if status < 0 {
        report(
            "PAT-15",
            format!("DxgkDdiPatch of a paging buffer failed with status {status:#x}: Patch must not fail"),
        );
    }
}

fn submit_virtual(adapter: &Adapter, packet: &Packet, submission: &Submission, buffer: Named) {
    let Some(function) = adapter.ddi().DxgkDdiSubmitCommandVirtual else { return };
    let EngineFence { engine, fence_id } = packet.signal;
    let mut args = DXGKARG_SUBMITCOMMANDVIRTUAL {
        hContext: adapter.contexts.handle(submission.context.0),
        DmaBufferVirtualAddress: buffer.address,
        DmaBufferSize: packet.buffer.commands().len() as u32,
        pDmaBufferPrivateData: buffer.private,
        DmaBufferPrivateDataSize: buffer.private_size,
        SubmissionFenceId: adapter.fences.fence_of(fence_id),
        Flags: if submission.paging { SUBMIT_PAGING } else { 0 },
        NodeOrdinal: engine,
        ..DXGKARG_SUBMITCOMMANDVIRTUAL::zeroed()
    };
    // SAFETY: the struct and the private data live for the call; the context is the driver's.
    let status = adapter.call_with(Entry::DxgkDdiSubmitCommandVirtual, DISPATCH_LEVEL, &mut args, |args| unsafe {
        function(adapter.handle(), args)
    });
    must_succeed(status, Entry::DxgkDdiSubmitCommandVirtual);
}

/// The end of the submitted part stands for the size of the DMA buffer, of which the packet has no more.
fn submit_physical(adapter: &Adapter, packet: &Packet, submission: &Submission, buffer: Named) {
    let Some(function) = adapter.ddi().DxgkDdiSubmitCommand else { return };
    let EngineFence { engine, fence_id } = packet.signal;
    let (start, end) = submission.offsets.unwrap_or((0, packet.buffer.commands().len() as u32));
    let mut args = DXGKARG_SUBMITCOMMAND {
        // A paging buffer is submitted for no device (PAT-01).
        hContext: if submission.paging { std::ptr::null_mut() } else { adapter.contexts.handle(submission.context.0) },
        DmaBufferPhysicalAddress: buffer.address,
        DmaBufferSize: end,
        DmaBufferSubmissionStartOffset: start,
        DmaBufferSubmissionEndOffset: end,
        pDmaBufferPrivateData: buffer.private,
        DmaBufferPrivateDataSize: buffer.private_size,
        DmaBufferPrivateDataSubmissionEndOffset: buffer.private_end(),
        SubmissionFenceId: adapter.fences.fence_of(fence_id),
        Flags: if submission.paging { SUBMIT_PAGING } else { 0 },
        NodeOrdinal: engine,
        ..DXGKARG_SUBMITCOMMAND::zeroed()
    };
    // SAFETY: the struct and the private data live for the call; the context is the driver's.
    let status = adapter.call_with(Entry::DxgkDdiSubmitCommand, DISPATCH_LEVEL, &mut args, |args| unsafe {
        function(adapter.handle(), args)
    });
    must_succeed(status, Entry::DxgkDdiSubmitCommand);
}

/// Asks the driver to yield an engine. Its report comes when the packet that runs has ended.
pub(crate) fn preempt(adapter: &Adapter, node_ordinal: u32, fence_id: u64) {
    let Some(function) = adapter.ddi().DxgkDdiPreemptCommand else { return };
    let mut args = DXGKARG_PREEMPTCOMMAND {
        PreemptionFenceId: adapter.fences.fence_of(fence_id),
        NodeOrdinal: node_ordinal,
        ..DXGKARG_PREEMPTCOMMAND::zeroed()
    };
    // SAFETY: the struct lives for the call.
    let status = adapter.call_with(Entry::DxgkDdiPreemptCommand, DISPATCH_LEVEL, &mut args, |args| unsafe {
        function(adapter.handle(), args)
    });
    if status < 0 {
        report("DDI-PREEMPT", format!("DxgkDdiPreemptCommand failed with status {status:#x}: it must not fail"));
    }
}

fn must_succeed(status: NTSTATUS, entry: Entry) {
    if status < 0 {
        report("DDI-SUBMIT", format!("{entry:?} failed with status {status:#x}: it must not fail"));
    }
}
