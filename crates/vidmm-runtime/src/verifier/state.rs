//! The record of what a driver has encoded and a GPU runs.

use std::collections::{BTreeMap, VecDeque};

use vidmm::Nanoseconds;
use vidmm::contract::{BuildPagingBuffer, BuildStatus, EngineFence, PagingOperation, PagingOperationKind, Patch};

use super::documented::Documented;
use super::effect::{Effect, Flush};
use super::finding::{Request, Wrong, WrongEffect};
use super::page::Page;
use super::under_way::{Space, UnderWay, Values};
use crate::probe::Sees;
use crate::{Gpu, GpuEvent};

/// A verifier's knowledge of driver and GPU.
pub(super) struct State {
    pub gpu: Box<dyn Gpu>,
    pub now: Nanoseconds,
    pub documented: Documented,
    /// Operations that have not ended, by their number.
    pub operations: BTreeMap<u64, Operation>,
    num_operations: u64,
    /// The operation that the driver will be asked for again.
    unfinished: Option<u64>,
    /// The operations that were encoded since the last paging buffer was submitted.
    next_packet: PagingPacket,
    last_submitted: Option<EngineFence>,
    packets: BTreeMap<EngineFence, PagingPacket>,
    /// The packets that each engine has, and what each waits for.
    pub engines: BTreeMap<u32, VecDeque<(u64, Vec<EngineFence>)>>,
    pub under_way: UnderWay,
    /// Since the packet began that the paging engine runs.
    flushes: Vec<Flush>,
    /// The adapter is being reset: what the driver encodes is not run (BPB-27).
    pub is_resetting: bool,
    pub found: Vec<WrongEffect>,
}

/// An operation that was encoded, or is being encoded.
pub(super) struct Operation {
    operation: PagingOperation,
    passes: u32,
    bytes: usize,
    pub effect: Option<Effect>,
    is_prepared: bool,
}

/// The operations of a paging buffer, by their numbers.
#[derive(Default)]
struct PagingPacket {
    begins: Vec<u64>,
    ends: Vec<u64>,
}

/// Whether a driver may answer success without a command: the effect is on the driver itself, or may be had without the GPU, or
/// there is nothing to do. There is nothing to flush for a GPU that does not cache translations.
pub fn may_be_empty(operation: &PagingOperation, allocation_is_idle: bool, caches_translations: bool) -> bool {
    match operation.kind() {
        PagingOperationKind::FlushTlb => !caches_translations,
        // The driver may program the hardware while the allocation is idle (BPB-06), and has nothing to do after a reset (BPB-27).
        PagingOperationKind::Transfer => allocation_is_idle || operation.size_in_bytes() == 0,
        // The driver may use registers (BPB-32).
        PagingOperationKind::MapApertureSegment
        | PagingOperationKind::MapApertureSegment2
        | PagingOperationKind::UnmapApertureSegment => true,
        // The work that there is to do is the driver's secret (NTF-01, BPB-25, BPB-51).
        PagingOperationKind::NotifyAlloc
        | PagingOperationKind::DiscardContent
        | PagingOperationKind::NotifyResidency => true,
        PagingOperationKind::VirtualTransfer
        | PagingOperationKind::VirtualFill
        | PagingOperationKind::UpdatePageTable
        | PagingOperationKind::Fill => false,
    }
}

impl State {
    pub fn new(gpu: Box<dyn Gpu>) -> Self {
        Self {
            gpu,
            now: 0,
            documented: Documented::default(),
            operations: BTreeMap::new(),
            num_operations: 0,
            unfinished: None,
            next_packet: PagingPacket::default(),
            last_submitted: None,
            packets: BTreeMap::new(),
            engines: BTreeMap::new(),
            under_way: UnderWay::default(),
            flushes: Vec::new(),
            is_resetting: false,
            found: Vec::new(),
        }
    }

    /// The driver is about to encode an operation, or to go on with it; its number.
    pub fn begin_operation(&mut self, build: &BuildPagingBuffer<'_>) -> u64 {
        let number = self.unfinished.take().unwrap_or_else(|| {
            self.num_operations += 1;
            let effect = self.documented.apply(build.operation, build.system_context);
            let operation = Operation { operation: *build.operation, passes: 0, bytes: 0, effect, is_prepared: false };
            self.operations.insert(self.num_operations, operation);
            match build.operation.is_by_cpu() {
                true => self.prepare(self.num_operations),
                false => self.next_packet.begins.push(self.num_operations),
            }
            self.num_operations
        });
        let operation = self.operations.get_mut(&number).expect("an unfinished operation has not ended");
        operation.passes += 1;
        number
    }

    pub fn end_build(&mut self, number: u64, build: &BuildPagingBuffer<'_>, status: BuildStatus) {
        let operation = self.operations.get_mut(&number).expect("an operation ends after it was built");
        operation.bytes += build.dma_bytes_written;
        let is_empty = operation.bytes == 0;
        let may_be_empty = || may_be_empty(build.operation, build.allocation_is_idle, self.gpu.caches_translations());
        match status {
            BuildStatus::Success if build.operation.is_by_cpu() => self.check(&[number], None),
            BuildStatus::Success if is_empty && !may_be_empty() => {
                let of = Request::Operation { operation: *build.operation, passes: operation.passes };
                self.found.push(WrongEffect { of, packet: None, wrong: Wrong::NothingWritten });
                self.forget(number);
            }
            BuildStatus::Success if is_empty && build.dma_buffer_write_offset == 0 => self.end_with_last_packet(number),
            BuildStatus::Success => self.next_packet.ends.push(number),
            BuildStatus::InsufficientDmaBuffer => self.unfinished = Some(number),
            BuildStatus::AllocationBusy if !is_empty => self.unfinished = Some(number),
            BuildStatus::AllocationBusy | BuildStatus::Other(_) => self.forget(number),
        }
    }

    fn forget(&mut self, number: u64) {
        self.operations.remove(&number);
        self.next_packet.begins.retain(|&begun| begun != number);
    }

    /// An operation without commands, in front of all commands of the next packet, is over with the last one.
    fn end_with_last_packet(&mut self, number: u64) {
        self.next_packet.begins.retain(|&begun| begun != number);
        let last = self.last_submitted.and_then(|fence| self.packets.get_mut(&fence));
        match last {
            Some(packet) => {
                packet.begins.push(number);
                packet.ends.push(number);
                self.prepare_heads();
            }
            None => {
                self.prepare(number);
                self.check(&[number], self.last_submitted);
            }
        }
    }

    /// A packet is handed out, for the first time or again (FLT-23).
    pub fn submit_paging(&mut self, fence: EngineFence) {
        if !self.packets.contains_key(&fence) {
            self.packets.insert(fence, std::mem::take(&mut self.next_packet));
            self.last_submitted = Some(fence);
        }
    }

    /// Takes down what the operations of packets will find that may begin now.
    pub fn prepare_heads(&mut self) {
        let heads = self.engines.iter().filter_map(|(&engine, queue)| {
            let (fence_id, waits) = queue.front()?;
            let is_over = |wait: &EngineFence| !self.has(wait);
            waits.iter().all(is_over).then_some(EngineFence { engine, fence_id: *fence_id })
        });
        let begun: Vec<u64> =
            heads.filter_map(|head| self.packets.get(&head)).flat_map(|packet| packet.begins.clone()).collect();
        begun.into_iter().for_each(|number| self.prepare(number));
    }

    fn has(&self, fence: &EngineFence) -> bool {
        let queue = self.engines.get(&fence.engine);
        queue.is_some_and(|queue| queue.iter().any(|&(fence_id, _)| fence_id == fence.fence_id))
    }

    fn prepare(&mut self, number: u64) {
        let Some(operation) = self.operations.get_mut(&number).filter(|operation| !operation.is_prepared) else {
            return;
        };
        operation.is_prepared = true;
        if let Some(effect) = &mut operation.effect {
            effect.prepare(number, &*self.gpu, &mut self.under_way);
        }
    }

    /// Compares the effects of operations that have ended.
    fn check(&mut self, numbers: &[u64], packet: Option<EngineFence>) {
        let ended: Vec<(u64, Operation)> =
            numbers.iter().filter_map(|number| Some((*number, self.operations.remove(number)?))).collect();
        let mut found = Vec::new();
        // The last comes first: what it has written beside its own entries is no mistake of those before it.
        for (number, Operation { operation, passes, effect, is_prepared, .. }) in ended.iter().rev() {
            let effect = effect.as_ref().filter(|_| *is_prepared);
            let wrong = effect.and_then(|effect| effect.check(*number, &*self.gpu, &self.flushes, &self.under_way));
            let wrong = wrong.map(|wrong| match (operation, effect, &wrong) {
                (PagingOperation::Transfer(op), Some(effect), Wrong::Page { .. }) if op.transfer_offset > 0 => {
                    let from_start = |at| [op.source, op.destination].map(|start| self.documented.page(start, at));
                    effect.offsets(from_start, &*self.gpu).map_or(wrong, |adds| Wrong::Part { adds })
                }
                _ => wrong,
            });
            if let (Some(Effect::Entries(entries)), Some(Wrong::EntryBeside { index })) = (effect, &wrong) {
                let table = Space::Table(entries.table);
                self.under_way.add(*number, table, u64::from(*index), Values::Other(1));
            }
            let of = Request::Operation { operation: *operation, passes: *passes };
            found.extend(wrong.map(|wrong| self.told(WrongEffect { of, packet, wrong })));
        }
        self.found.extend(found.into_iter().rev());
        ended.iter().for_each(|&(number, _)| self.under_way.release(number));
    }

    /// A finding with the addresses that the driver was told.
    fn told(&self, finding: WrongEffect) -> WrongEffect {
        match self.gpu.probe() {
            Some(probe) => finding.told_by(|address| probe.told_address(address)),
            None => finding,
        }
    }

    /// Operations have ended whose effects nobody could see in time.
    fn pass_over(&mut self, numbers: &[u64]) {
        for &number in numbers {
            self.operations.remove(&number);
            self.under_way.release(number);
        }
    }

    fn leave(&mut self, engine: u32, is_over: impl Fn(u64) -> bool) {
        if let Some(queue) = self.engines.get_mut(&engine) {
            queue.retain(|&(fence_id, _)| !is_over(fence_id));
        }
    }

    /// Sees what the GPU reports. `is_paused`: the GPU has begun nothing since.
    pub fn see(&mut self, event: &GpuEvent, is_paused: bool) {
        match event {
            GpuEvent::Flushed { process, addresses } => {
                self.flushes.push(Flush { process: *process, addresses: addresses.clone() });
            }
            GpuEvent::Completed { signal, .. } => {
                self.leave(signal.engine, |fence_id| fence_id <= signal.fence_id);
                if let Some(packet) = self.packets.remove(signal) {
                    match is_paused {
                        true => self.check(&packet.ends, Some(*signal)),
                        false => self.pass_over(&packet.ends),
                    }
                    self.flushes.clear();
                }
            }
            GpuEvent::Preempted { engine, returned, .. } | GpuEvent::EngineReset { engine, returned, .. } => {
                self.leave(*engine, |fence_id| returned.iter().any(|&(back, _)| back == fence_id));
            }
            GpuEvent::ResetFromTimeout { .. } => self.lose_everything(),
            GpuEvent::RestartedFromTimeout { .. } => self.is_resetting = false,
            GpuEvent::Interrupt { .. }
            | GpuEvent::LateAccess { .. }
            | GpuEvent::KernelRead { .. }
            | GpuEvent::AccessedOverBus { .. }
            | GpuEvent::KernelWrote { .. }
            | GpuEvent::WrongEffect(_) => {}
        }
    }

    /// Somebody else has written so many pages from `first` on: what an operation that is under way reads or leaves there is not
    /// known.
    pub fn written(&mut self, first: Page, num_pages: u64) {
        first.run(num_pages).for_each(|page| self.under_way.written(page));
        self.begun_effects().for_each(|effect| effect.written(first, num_pages));
    }

    /// The effects of the operations that may have begun.
    pub fn begun_effects(&mut self) -> impl Iterator<Item = &mut Effect> {
        let begun = self.operations.values_mut().filter(|operation| operation.is_prepared);
        begun.filter_map(|operation| operation.effect.as_mut())
    }

    fn lose_everything(&mut self) {
        self.documented.lose_memory();
        self.operations.clear();
        self.unfinished = None;
        self.next_packet = PagingPacket::default();
        self.packets.clear();
        self.engines.clear();
        self.under_way.clear();
        self.flushes.clear();
    }

    pub fn check_patch(&mut self, patch: &Patch<'_>) {
        let Some(probe) = self.gpu.probe().filter(|probe| probe.sees().contains(Sees::PATCHES)) else { return };
        let (first, count) = (patch.patch_location_list_submission_start, patch.patch_location_list_submission_length);
        let locations = (first..first.saturating_add(count)).zip(&patch.patch_location_list[first as usize..]);
        for (number, location) in locations {
            let element = patch.allocation_list.get(location.allocation_index as usize);
            let Some((allocation, address)) = element.and_then(|element| element.allocation.zip(element.address))
            else {
                continue;
            };
            let Some(at) = location.patch_offset.checked_sub(patch.dma_buffer_submission_start_offset) else {
                continue;
            };
            let expected = address.offset_by(location.allocation_offset.into());
            let found = probe.patched_address(patch.dma_buffer, at as usize);
            if found != Some(expected) {
                let of = Request::Patch { allocation, location: number };
                let wrong = Wrong::Address { expected, found };
                let finding = self.told(WrongEffect { of, packet: None, wrong });
                self.found.push(finding);
            }
        }
    }
}
