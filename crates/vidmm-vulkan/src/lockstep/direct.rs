//! The driver of real time under the model GPU's engines: its operations beside the reference driver's commands.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use vidmm::contract::{
    BuildPagingBuffer, BuildStatus, EngineFence, Kmd, KmdProcessHandle, MapApertureSegment, Packet, PagingOperation,
    PteRun, SubmitCommand, UpdatePageTable,
};
use vidmm::{Nanoseconds, PAGE_SIZE, PhysicalAddress, SegmentId};
use vidmm_runtime::{Content, Gpu, GpuEvent, KmdHook, Probe};
use vidmm_soft::ModelGpu;

use super::executor::VulkanExecutor;
use crate::error::sure;
use crate::mapped::{Mapped, Target};
use crate::memory::VulkanMemory;
use crate::operation::{Encoder, Operation};

/// The bytes of the driver's own paging buffers.
#[derive(Clone, Default)]
pub(super) struct Packets(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    /// The operations since the last submission of a paging buffer.
    next: Vec<u8>,
    submitted: BTreeMap<EngineFence, Vec<u8>>,
}

/// A hook: the encoder encodes each operation after the reference driver has.
pub(super) struct DirectWatch {
    encoder: Encoder,
    /// The system memory behind pages of apertures. In real time nothing is mapped in an aperture.
    apertures: BTreeMap<SegmentId, Mapped>,
    packets: Packets,
}

impl DirectWatch {
    pub(super) fn new(packets: Packets) -> Self {
        Self { encoder: Encoder::default(), apertures: BTreeMap::new(), packets }
    }

    fn encode(&mut self, operation: &PagingOperation) {
        match operation {
            PagingOperation::MapApertureSegment(op) => self.show(op),
            PagingOperation::MapApertureSegment2(op) => self.show(&(*op).into()),
            PagingOperation::UnmapApertureSegment(op) => {
                let pages = op.offset_in_pages..op.offset_in_pages + op.number_of_pages;
                self.apertures.entry(op.segment_id).or_default().set(pages, None);
            }
            PagingOperation::UpdatePageTable(op) => {
                match self.apertures.get(&op.page_table_entries.first.address.segment) {
                    Some(aperture) => through(aperture, op).iter().for_each(|op| self.append(op)),
                    None => self.append(operation),
                }
            }
            _ => self.append(operation),
        }
    }

    fn show(&mut self, op: &MapApertureSegment) {
        let to = Target { segment: SegmentId::SYSTEM, page: op.mdl.offset / PAGE_SIZE, aperture: None };
        let pages = op.offset_in_pages..op.offset_in_pages + op.number_of_pages;
        self.apertures.entry(op.segment_id).or_default().set(pages, Some(to));
    }

    fn append(&mut self, operation: &PagingOperation) {
        let encoded = self.encoder.encode(operation);
        let encoded = encoded.unwrap_or_else(|| panic!("the driver of real time does not know {operation:?}"));
        self.packets.0.borrow_mut().next.extend(encoded.iter().flat_map(Operation::to_bytes));
    }
}

/// Entries for pages of an aperture become entries for the system memory behind the pages. The manager makes such entries invalid before the
/// aperture changes.
fn through(aperture: &Mapped, op: &UpdatePageTable) -> Vec<PagingOperation> {
    let (run, page_bytes) = (op.page_table_entries, op.page_size().bytes());
    let first = run.first.address.offset / PAGE_SIZE;
    let pages = first..first + u64::from(run.num_page_table_entries) * page_bytes / PAGE_SIZE;
    let update = |(part, to): (Range<u64>, Target)| {
        let mut pte = run.first;
        pte.address = PhysicalAddress { segment: to.segment, offset: to.page * PAGE_SIZE };
        let count = (part.end - part.start) * PAGE_SIZE / page_bytes;
        PagingOperation::UpdatePageTable(UpdatePageTable {
            first_pte_virtual_address: op.first_pte_virtual_address.offset((part.start - first) * PAGE_SIZE),
            page_table_entries: PteRun { first: pte, num_page_table_entries: count as u32, ..run },
            ..*op
        })
    };
    aperture.parts(pages).map(update).collect()
}

impl KmdHook for DirectWatch {
    fn build_paging_buffer(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let status = driver.build_paging_buffer(build);
        if status == BuildStatus::Success {
            self.encode(build.operation);
        }
        status
    }

    fn process_created(&mut self, process: KmdProcessHandle, system_process: bool) {
        if system_process {
            self.encoder.set_paging_process(process);
        }
    }

    fn command_submitted(&mut self, submit: &SubmitCommand) {
        if submit.paging {
            let fence = EngineFence { engine: submit.node_ordinal, fence_id: submit.submission_fence_id };
            let State { next, submitted } = &mut *self.packets.0.borrow_mut();
            // A packet keeps the fence when the manager hands the packet out again.
            submitted.entry(fence).or_insert_with(|| std::mem::take(next));
        }
    }
}

/// The model GPU. Each packet of paging ends with the driver's operations.
pub(super) struct DirectGpu {
    model: ModelGpu<VulkanExecutor>,
    packets: Packets,
    memory: Rc<RefCell<VulkanMemory>>,
}

impl DirectGpu {
    pub(super) fn new(model: ModelGpu<VulkanExecutor>, packets: Packets, memory: Rc<RefCell<VulkanMemory>>) -> Self {
        Self { model, packets, memory }
    }
}

impl Gpu for DirectGpu {
    fn submit(&mut self, now: Nanoseconds, packet: Packet) {
        self.model.submit(now, packet);
    }

    fn next_event_at(&self) -> Option<Nanoseconds> {
        self.model.next_event_at()
    }

    /// The model GPU returns with the end of a packet, before waiting packets begin.
    fn advance(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        let before = events.len();
        self.model.advance(now, events);
        for event in &events[before..] {
            let GpuEvent::Completed { signal, .. } = event else { continue };
            let commands = self.packets.0.borrow_mut().submitted.remove(signal).unwrap_or_default();
            for operation in Operation::all(&commands) {
                let operation = operation.expect("the encoder has encoded it");
                sure(self.memory.borrow_mut().execute(operation));
            }
        }
    }

    fn page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        self.model.page_digest(address)
    }

    fn probe(&self) -> Option<&dyn Probe> {
        self.model.probe()
    }

    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        self.model.write_page(address, content, seed)
    }

    fn preempt(&mut self, now: Nanoseconds, engine: u32, preemption_fence_id: u64) {
        self.model.preempt(now, engine, preemption_fence_id);
    }

    fn bytes_decompressed(&self) -> u64 {
        self.model.bytes_decompressed()
    }
}
