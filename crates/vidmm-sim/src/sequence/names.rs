//! The scenario's names for the objects of the event log.

use std::collections::{BTreeMap, BTreeSet};
use vidmm_trace::Segments;

use vidmm::contract::{
    EngineFence, EngineKind, IoMmuDomain, KmdAllocationHandle, KmdProcessHandle, MapApertureSegment, PagingOperation,
};
use vidmm::{
    AllocationId, DeviceId, Event, GpuVirtualAddress, MonitoredFenceId, PagingQueueId, PhysicalAddress, ProcessId,
    SegmentId, SubmissionNo,
};

/// The names, and the facts of the log that sentences need.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub allocations: BTreeMap<AllocationId, String>,
    pub processes: BTreeMap<ProcessId, String>,
    pub devices: BTreeMap<DeviceId, String>,
    pub fences: BTreeMap<MonitoredFenceId, String>,
    pub kernels: BTreeMap<(DeviceId, SubmissionNo), String>,
    /// The uses by queues that their owners run.
    pub uses: BTreeMap<(DeviceId, SubmissionNo), String>,
    /// The command buffers that DMA buffers with patch locations were rendered from, by the DMA buffers' numbers.
    pub dma_buffers: BTreeMap<u64, String>,
    /// The DMA buffers that were rendered only to look at content.
    pub looks: BTreeSet<u64>,
    /// The size of each mapping in bytes, by its process and address.
    pub mapped: BTreeMap<(ProcessId, GpuVirtualAddress), u64>,
    pub segments: Segments,
    pub dummy_page: Option<PhysicalAddress>,
    /// The size of a window of the paging process in bytes.
    pub paging_va_size: u64,
    /// The answer of each physical adapter's driver in MiB, and the size that follows from it, in bytes.
    pub queried: BTreeMap<u32, (Option<u32>, u64)>,
    handles: BTreeMap<KmdAllocationHandle, AllocationId>,
    sizes: BTreeMap<AllocationId, u64>,
    backing_stores: BTreeMap<AllocationId, u64>,
    /// The range of the aperture where each allocation was mapped last: the segment, the first page and the number of
    /// pages.
    aperture_ranges: BTreeMap<AllocationId, (SegmentId, u64, u64)>,
    process_handles: BTreeMap<KmdProcessHandle, ProcessId>,
    paging_process: Option<KmdProcessHandle>,
    queues: BTreeMap<PagingQueueId, DeviceId>,
    engines: Vec<EngineKind>,
    /// The portions of DMA buffers, by their numbers among the device's submissions.
    portions: BTreeMap<(DeviceId, SubmissionNo), Portion>,
    dispatched: BTreeMap<EngineFence, (DeviceId, SubmissionNo)>,
}

/// A portion of a DMA buffer: its number there, from 0, its first byte and the first that is not in it.
#[derive(Clone, Copy, Debug)]
struct Portion {
    dma_buffer: u64,
    portion: u32,
    bytes: (u32, u32),
}

impl Names {
    /// Reads the facts of an event.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::AdapterStarted { dummy_page, paging_va_size, paging_process, ref engines, .. } => {
                self.engines.clone_from(engines);
                self.segments = Segments::of(event).unwrap_or_default();
                self.dummy_page = Some(dummy_page);
                self.paging_va_size = paging_va_size;
                self.paging_process = Some(paging_process);
            }
            Event::PagingVaQueried { physical_adapter_index, answer_mib, paging_va_size, .. } => {
                self.queried.insert(physical_adapter_index, (answer_mib, paging_va_size));
            }
            Event::ProcessCreated { process, handle } => {
                self.process_handles.insert(handle, process);
            }
            Event::PagingQueueCreated { queue, device, .. } => {
                self.queues.insert(queue, device);
            }
            Event::AllocationCreated { allocation, handle, size, backing_store, .. } => {
                self.handles.insert(handle, allocation);
                self.sizes.insert(allocation, size);
                self.backing_stores.insert(allocation, backing_store);
            }
            Event::Reclaimed { ref allocations, ref backing_stores, .. } => {
                self.backing_stores.extend(allocations.iter().copied().zip(backing_stores.iter().copied()));
            }
            Event::GpuVirtualAddressMapped { process, virtual_address, size, .. } => {
                self.mapped.insert((process, virtual_address), size);
            }
            Event::GpuVirtualAddressFreed { process, virtual_address, size } => {
                self.free(process, virtual_address.0, size)
            }
            Event::Dispatched { device, submission, signal, .. } => {
                self.dispatched.insert(signal, (device, submission));
            }
            Event::Portion { device, submission, dma_buffer, portion, start_offset, end_offset, .. } => {
                let bytes = (start_offset, end_offset);
                self.portions.insert((device, submission), Portion { dma_buffer, portion, bytes });
            }
            Event::Resubmitted { before, signal, .. } => {
                if let Some(packet) = self.dispatched.get(&before).copied() {
                    self.dispatched.insert(signal, packet);
                }
            }
            Event::PagingOperation { operation: PagingOperation::MapApertureSegment(map), .. } => {
                self.show_in_aperture(map)
            }
            Event::PagingOperation { operation: PagingOperation::MapApertureSegment2(map), .. } => {
                self.show_in_aperture(map.into());
            }
            _ => {}
        }
    }

    pub fn allocation(&self, allocation: AllocationId) -> String {
        self.allocations.get(&allocation).cloned().unwrap_or_else(|| allocation.to_string())
    }

    pub fn handle(&self, handle: KmdAllocationHandle) -> String {
        self.handles.get(&handle).map_or_else(|| format!("handle {:#x}", handle.0), |&id| self.allocation(id))
    }

    /// The size of an allocation in bytes, rounded up.
    pub fn size_of_handle(&self, handle: KmdAllocationHandle) -> Option<u64> {
        self.sizes.get(self.handles.get(&handle)?).copied()
    }

    /// The place of an allocation's backing store.
    pub fn backing_store(&self, allocation: AllocationId) -> Option<PhysicalAddress> {
        let offset = *self.backing_stores.get(&allocation)?;
        Some(PhysicalAddress { segment: SegmentId::SYSTEM, offset })
    }

    fn show_in_aperture(&mut self, map: MapApertureSegment) {
        if let Some(&allocation) = self.handles.get(&map.allocation) {
            let range = (map.segment_id, map.offset_in_pages, map.number_of_pages);
            self.aperture_ranges.insert(allocation, range);
        }
    }

    /// Frees a part of a mapping: the rest on either side of it becomes a mapping. A mapping that is freed whole is
    /// known until its addresses are mapped again.
    fn free(&mut self, process: ProcessId, start: u64, size: u64) {
        let before = self.mapped.range((process, GpuVirtualAddress(0))..=(process, GpuVirtualAddress(start)));
        let Some((&key, &whole)) = before.into_iter().next_back() else { return };
        let (first, end) = (key.1.0, key.1.0 + whole);
        if end < start + size || (first, end) == (start, start + size) {
            return;
        }
        self.mapped.remove(&key);
        let parts = [(first, start), (start + size, end)].into_iter().filter(|(from, to)| from < to);
        self.mapped.extend(parts.map(|(from, to)| ((process, GpuVirtualAddress(from)), to - from)));
    }

    /// The range of the aperture in which an allocation was mapped last: where it begins, and its pages.
    pub fn aperture_range(&self, allocation: AllocationId) -> Option<(PhysicalAddress, u64)> {
        let &(segment, first, pages) = self.aperture_ranges.get(&allocation)?;
        Some((PhysicalAddress { segment, offset: first * vidmm::PAGE_SIZE }, pages))
    }

    pub fn device(&self, device: DeviceId) -> String {
        self.devices.get(&device).cloned().unwrap_or_else(|| device.to_string())
    }

    pub fn queue(&self, queue: PagingQueueId) -> String {
        self.queues.get(&queue).map_or_else(|| queue.to_string(), |&device| self.device(device))
    }

    /// The owner of the addresses: those of the paging process have a word of their own.
    pub fn addresses_of(&self, process: KmdProcessHandle) -> String {
        if self.is_paging_process(process) {
            return "paging VA".to_owned();
        }
        let id = self.process_handles.get(&process);
        id.map_or_else(|| format!("process {:#x}", process.0), |&id| self.process(id))
    }

    pub fn domain(&self, domain: IoMmuDomain, window: bool) -> String {
        match domain {
            _ if window => "paging VA".to_owned(),
            IoMmuDomain::Process(process) => self.addresses_of(process),
            IoMmuDomain::Global => "global VA".to_owned(),
        }
    }

    pub fn is_paging_process(&self, process: KmdProcessHandle) -> bool {
        self.paging_process == Some(process)
    }

    pub fn engine(&self, ordinal: u32) -> String {
        match self.engines.get(ordinal as usize) {
            Some(EngineKind::Paging) => "the paging engine".to_owned(),
            Some(EngineKind::Render3d) => "the render engine".to_owned(),
            Some(EngineKind::Copy) => "the copy engine".to_owned(),
            _ => format!("engine {ordinal}"),
        }
    }

    /// A packet in words.
    pub fn packet(&self, signal: EngineFence) -> String {
        if let Some((of, _)) = self.portion_of(signal) {
            return of;
        }
        if let Some(name) = self.dispatched.get(&signal).and_then(|submission| self.uses.get(submission)) {
            return format!("use {name}");
        }
        match self.kernel_of(signal) {
            Some(kernel) => format!("kernel {kernel}"),
            None => format!("paging buffer {}", signal.fence_id),
        }
    }

    /// Packets of an engine in words.
    pub fn packets(&self, engine: u32, fences: &[u64]) -> String {
        let packets = fences.iter().map(|&fence_id| self.packet(EngineFence { engine, fence_id }));
        packets.collect::<Vec<_>>().join(", ")
    }

    pub fn process(&self, process: ProcessId) -> String {
        self.processes.get(&process).cloned().unwrap_or_else(|| process.to_string())
    }

    /// The portion that a packet is, in words, and its bytes; none if it is no portion.
    pub fn portion_of(&self, signal: EngineFence) -> Option<(String, (u32, u32))> {
        let &Portion { dma_buffer, portion, bytes } = self.portions.get(self.dispatched.get(&signal)?)?;
        Some((format!("portion {} of {}", portion + 1, self.dma_buffer(dma_buffer)), bytes))
    }

    /// The command buffer that a DMA buffer with patch locations was rendered from.
    pub fn dma_buffer(&self, number: u64) -> String {
        self.dma_buffers.get(&number).cloned().unwrap_or_else(|| format!("DMA buffer {number}"))
    }

    /// The kernel or the command buffer that a packet runs; none if it is a paging buffer.
    pub fn kernel_of(&self, signal: EngineFence) -> Option<String> {
        let submission = self.dispatched.get(&signal)?;
        if let Some(portion) = self.portions.get(submission) {
            return Some(self.dma_buffer(portion.dma_buffer));
        }
        let name = self.kernels.get(submission);
        Some(name.cloned().unwrap_or_else(|| format!("submission {} of {}", submission.1, self.device(submission.0))))
    }

    /// A physical address in words. The place of system memory is the system's own affair, so an address in it has no
    /// number.
    pub fn address(&self, address: PhysicalAddress) -> String {
        match address.segment.is_system() {
            true => "system memory".to_owned(),
            false => format!("{} {:#x}", self.place(address.segment), address.offset),
        }
    }

    /// A place in words.
    pub fn place(&self, segment: SegmentId) -> String {
        match segment.is_system() {
            true => "implicit system memory".to_owned(),
            false => self.segments.name(segment).into_owned(),
        }
    }
}
