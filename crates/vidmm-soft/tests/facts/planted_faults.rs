//! The whole machine under the manager: what is compressed is plain once it is evicted, and each mistake around notifications
//! shows up in memory or as a fault.

use crate::common::PAGE;
use vidmm::contract::AddressingModel::{self, GpuMmu, GpuVaIoMmu, GpuVaIoMmuGlobal};
use vidmm::{
    AdapterOptions, AllocationId, ContextId, DeviceId, Event, EvictFlags, GpuVirtualAddress, MakeResidentFlags,
    MapGpuVirtualAddress, NumberedEvent, PagingQueueId, Residency, SubmitDesc,
};
use vidmm_runtime::{
    AllocationDesc, AllocationSegments, Content, DriverFault, Happening, Hits, KernelCommand, Machine, PageRange,
    Runtime, Surface,
};
use vidmm_soft::*;

/// The memory that a window of the paging process shows.
const WINDOW: u64 = 4 << 20;
/// Two and a half windows.
const BYTES: u64 = 10 << 20;
const PAGES: u64 = BYTES / PAGE;

struct World {
    runtime: Runtime,
    system: SystemMemory,
    io_mmu: IoMmu,
    device: DeviceId,
    queue: PagingQueueId,
    context: ContextId,
    allocation: AllocationId,
    backing_store: u64,
    virtual_address: GpuVirtualAddress,
}

/// The state of an allocation that was written compressed and evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Outcome {
    /// Its pages in system memory that are what the kernel wrote.
    right_pages: u64,
    /// Whether a kernel that accesses it afterwards faults, as it should.
    stray_access_faults: bool,
    /// Whether a paging buffer faulted.
    paging_fault: bool,
}

const RIGHT: Outcome = Outcome { right_pages: PAGES, stray_access_faults: true, paging_fault: false };

fn world(model: AddressingModel, accessed_physically: bool, fault: Option<DriverFault>) -> World {
    let base = match model {
        GpuMmu => SoftAdapterConfig::without_local_memory(),
        _ => SoftAdapterConfig::with_io_mmu(model),
    };
    let config = SoftAdapterConfig {
        scheduling_log_buffer_bytes: Some(WINDOW),
        // Notifications take several commands and buffers, and are busy at times.
        paging_buffer_bytes: 4096,
        max_command_bytes: 5 * PAGE,
        busy_notify_every: Some(2),
        ..base
    };
    let machine = machine(&config, CostModel::default(), ModelGpuFaults::default(), None);
    let (system, io_mmu) = (machine.host.memory().clone(), machine.host.io_mmu().clone());
    let mut machine = Machine::from(machine);
    if let Some(fault) = fault {
        machine = machine.with_fault(fault, Hits::Always);
    }
    let mut runtime = Runtime::start(AdapterOptions { events: true, ..AdapterOptions::default() }, machine).unwrap();
    let private_data = runtime.umd().allocation_private_data(&AllocationDesc {
        segments: AllocationSegments::System,
        accessed_physically,
        surface: Some(1),
        notify_eviction: true,
        notify_io_mmu_unmap: model != GpuMmu,
        ..AllocationDesc::local(BYTES)
    });
    let (vidmm, kmd, host) = runtime.borrow();
    let process = vidmm.create_process(kmd, host).unwrap();
    let device = vidmm.create_device(process).unwrap();
    let queue = vidmm.create_paging_queue(device, 0).unwrap();
    let context = vidmm.create_context(kmd, device, RENDER_ENGINE).unwrap();
    let allocation = vidmm.create_allocation(kmd, host, device, &private_data).unwrap();
    let mapped = vidmm.map_gpu_virtual_address(host, queue, &MapGpuVirtualAddress::whole(allocation)).unwrap();
    let created = |event: NumberedEvent| match event.event {
        Event::AllocationCreated { backing_store, .. } => Some(backing_store),
        _ => None,
    };
    let backing_store = runtime.drain_events().find_map(created).unwrap();
    let virtual_address = mapped.virtual_address;
    World { runtime, system, io_mmu, device, queue, context, allocation, backing_store, virtual_address }
}

impl World {
    fn pages(&self) -> Vec<PageRange> {
        let surface = Surface { number: 1, first_page: 0 };
        vec![PageRange { surface: Some(surface), ..PageRange::plain(self.virtual_address, PAGES) }]
    }

    fn submit(&mut self, inputs: Vec<PageRange>, outputs: Vec<PageRange>) {
        let kernel = KernelCommand { kernel: 7, nanoseconds: 1000, content: Content::Ramp, inputs, outputs };
        let dma_buffer = self.runtime.umd().encode_kernel(&kernel);
        let desc = SubmitDesc { dma_buffer, ..SubmitDesc::default() };
        self.runtime.vidmm().submit(self.context, desc).unwrap();
    }

    /// Runs until nothing is to come. Returns the engines that faulted.
    fn run(&mut self) -> Vec<u32> {
        while self.runtime.advance(None) {}
        let mut faulted = Vec::new();
        while let Some(happening) = self.runtime.next_happening() {
            if let Happening::PageFault { signal, .. } = happening {
                faulted.push(signal.engine);
            }
        }
        faulted
    }

    /// How many pages of the allocation are in system memory as the kernel wrote them.
    fn right_pages(&self) -> u64 {
        let memory = self.system.lock();
        let written = |page| words_digest(&ramp_words(KernelState::new(7).seed(0, page)));
        (0..PAGES).filter(|&page| memory.page_digest(self.backing_store / PAGE + page) == written(page)).count() as u64
    }

    /// Writes the allocation compressed, evicts it, and accesses it once more.
    fn write_and_evict(&mut self) -> Outcome {
        let residency =
            self.runtime.vidmm().make_resident(self.queue, &[self.allocation], MakeResidentFlags::empty()).unwrap();
        assert!(matches!(residency, Residency::Pending { .. }));
        self.submit(vec![], self.pages());
        assert_eq!(self.run(), []);
        assert_eq!(self.right_pages(), 0, "in memory it is compressed");
        self.runtime.vidmm().evict(self.device, &[self.allocation], EvictFlags::empty()).unwrap();
        let paging_fault = self.run().contains(&PAGING_ENGINE);
        let right_pages = self.right_pages();
        if paging_fault {
            return Outcome { right_pages, stray_access_faults: true, paging_fault };
        }
        self.submit(self.pages(), vec![]);
        let stray_access_faults = self.run().contains(&RENDER_ENGINE);
        Outcome { right_pages, stray_access_faults, paging_fault }
    }
}

#[test]
fn without_a_mistake_what_is_evicted_is_plain_and_out_of_reach() {
    for model in [GpuMmu, GpuVaIoMmu, GpuVaIoMmuGlobal] {
        for accessed_physically in [false, true] {
            let mut world = world(model, accessed_physically, None);
            assert_eq!(world.write_and_evict(), RIGHT, "{model:?}, accessed physically: {accessed_physically}");
            assert_eq!(world.io_mmu.misuses(), []);
            world.runtime.vidmm().check().unwrap();
        }
    }
}

/// The fault leads to `outcome` with page tables, and to `behind_io_mmu` with both kinds of domains.
fn leads_to(fault: DriverFault, with_page_tables: Outcome, behind_io_mmu: Outcome) {
    let outcome = |model| world(model, false, Some(fault)).write_and_evict();
    assert_eq!(outcome(GpuMmu), with_page_tables);
    for model in [GpuVaIoMmu, GpuVaIoMmuGlobal] {
        assert_eq!(outcome(model), behind_io_mmu, "{model:?}");
    }
}

#[test]
fn a_decompression_that_is_skipped_leaves_everything_compressed() {
    let compressed = Outcome { right_pages: 0, ..RIGHT };
    leads_to(DriverFault::SkipDecompression, compressed, compressed);
}

#[test]
fn an_offset_that_is_ignored_spoils_all_chunks_but_the_first() {
    let first_chunk = Outcome { right_pages: WINDOW / PAGE, ..RIGHT };
    leads_to(DriverFault::IgnoreChunkOffset, first_chunk, first_chunk);
}

#[test]
fn a_late_notification_finds_nothing_at_its_addresses() {
    let fault = Outcome { right_pages: 0, paging_fault: true, ..RIGHT };
    leads_to(DriverFault::LateNotification, fault, fault);
}

#[test]
fn a_cache_that_is_not_flushed_lets_work_reach_what_was_unmapped() {
    leads_to(DriverFault::SkipCacheFlush, RIGHT, Outcome { stray_access_faults: false, ..RIGHT });
}

#[test]
fn addresses_used_again_without_a_flush_spoil_what_was_plain() {
    let spoilt = Outcome { right_pages: 0, ..RIGHT };
    leads_to(DriverFault::ReusePagingVa, spoilt, spoilt);
}

#[test]
fn a_window_that_is_unmapped_early_faults() {
    leads_to(DriverFault::EarlyIoMmuUnmap, RIGHT, Outcome { right_pages: 0, paging_fault: true, ..RIGHT });
}
