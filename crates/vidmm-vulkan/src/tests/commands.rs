//! Commands that no run gives in this order, on a device and on the model GPU: the events are the same, and all bytes.

use vidmm::contract::{DmaBuffer, EngineFence, KmdAllocationHandle, KmdProcessHandle, MemoryTransferDirection, Packet};
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{Content, Gpu, GpuEvent, KernelCommand, Machine, PageRange};
use vidmm_soft::encoding::{
    Command, Fill, FlushRange, MapAperture, SetRootPageTable, TableAddress, Transfer, WritePtes, encode_to_vec,
};
use vidmm_soft::{CostModel, HardwareEntry, LOCAL_SEGMENT, ModelGpuFaults, RENDER_ENGINE, SoftAdapterConfig};

use crate::lockstep::machine;
use crate::report::{Mode, Rules};

const PROCESS: KmdProcessHandle = KmdProcessHandle(7);
const ALLOCATION: KmdAllocationHandle = KmdAllocationHandle(1);

/// Where tests map something: in one leaf table, which the root reaches through two more.
const VA: u64 = 5 << 30;

/// The tables, from the leaf to the root, in pages of local memory.
const TABLES: [u64; 4] = [1003, 1002, 1001, 1000];

/// Pages of local memory and of system memory that are compared.
const PAGES: u64 = 64;

fn config() -> SoftAdapterConfig {
    SoftAdapterConfig { local_memory_bytes: 8 << 20, aperture_bytes: 1 << 20, ..SoftAdapterConfig::with_4kib_pages() }
}

fn local(page: u64) -> PhysicalAddress {
    PhysicalAddress { segment: LOCAL_SEGMENT, offset: page * PAGE_SIZE }
}

fn system(page: u64) -> PhysicalAddress {
    PhysicalAddress { segment: SegmentId::SYSTEM, offset: page * PAGE_SIZE }
}

fn aperture(page: u64) -> PhysicalAddress {
    let segment = config().aperture_segment().expect("there is an aperture");
    PhysicalAddress { segment, offset: page * PAGE_SIZE }
}

fn va(page: u64) -> GpuVirtualAddress {
    GpuVirtualAddress(VA + page * PAGE_SIZE)
}

/// Entries at `level` that lead to `address` and what follows it, or nowhere.
fn entries(level: u32, first: u64, count: u32, address: Option<PhysicalAddress>) -> Command {
    entries_of(&TABLES, level, first, count, address)
}

/// The same, of other tables.
fn entries_of(tables: &[u64; 4], level: u32, first: u64, count: u32, address: Option<PhysicalAddress>) -> Command {
    let layout = config().layout();
    let entry = |address: PhysicalAddress| {
        let pte = vidmm::contract::Pte::valid(address);
        HardwareEntry::from_pte(pte)
    };
    Command::WritePtes(WritePtes {
        process: PROCESS,
        virtual_address: va(first),
        level,
        page_size: PageSize::Kib4,
        table: TableAddress::Physical(local(tables[level as usize])),
        start_index: layout.index(level, va(first).0) as u32,
        count,
        first: address.map_or(HardwareEntry::INVALID, entry),
        first_64kb: None,
        stride: PAGE_SIZE,
    })
}

/// `count` pages of addresses from `first` on lead to consecutive pages.
fn map(first: u64, count: u32, address: PhysicalAddress) -> Command {
    entries(0, first, count, Some(address))
}

/// The tables above the leaf point to the one below.
fn link() -> impl Iterator<Item = Command> {
    link_of(&TABLES)
}

fn link_of(tables: &[u64; 4]) -> impl Iterator<Item = Command> {
    (1..4).map(|level| entries_of(tables, level, 0, 1, Some(local(tables[level as usize - 1]))))
}

fn enter() -> Command {
    enter_by(&TABLES)
}

fn enter_by(tables: &[u64; 4]) -> Command {
    let root = local(tables[3]);
    Command::SetRootPageTable(SetRootPageTable { process: PROCESS, root, num_entries: 512 })
}

fn show(first_page: u64, num_pages: u64, system_page: u64) -> Command {
    Command::MapAperture(MapAperture {
        segment: aperture(0).segment,
        first_page,
        num_pages,
        system_memory: system(system_page),
        cache_coherent: false,
        allocation: ALLOCATION,
    })
}

fn flush_all() -> FlushRange {
    FlushRange { process: None, start: GpuVirtualAddress(0), end: GpuVirtualAddress(0) }
}

fn kernel(kernel: u64, reads: (u64, u64), writes: (u64, u64)) -> Command {
    let range = |(first, pages)| PageRange::plain(va(first), pages);
    let (inputs, outputs) = (vec![range(reads)], vec![range(writes)]);
    Command::Kernel(KernelCommand { kernel, nanoseconds: 100, content: Content::Ramp, inputs, outputs })
}

fn copy(from: u64, to: u64, pages: u64) -> Command {
    Command::Transfer(Transfer {
        source: va(from),
        destination: va(to),
        bytes: pages * PAGE_SIZE,
        direction: MemoryTransferDirection::LocalToLocal,
        allocation: ALLOCATION,
        allocation_offset: 0,
    })
}

/// Runs packets of commands, and tells the events and the digests of all pages.
fn told(gpu: &mut dyn Gpu, packets: &[Vec<Command>]) -> (Vec<String>, Vec<Option<u64>>) {
    let mut events: Vec<GpuEvent> = Vec::new();
    for page in 0..PAGES {
        gpu.write_page(system(page), Content::Ramp, 1000 + page);
    }
    for (fence_id, commands) in (1..).zip(packets) {
        let mut preamble = Vec::new();
        commands.iter().for_each(|command| encode_to_vec(command, &mut preamble));
        let signal = EngineFence { engine: RENDER_ENGINE, fence_id };
        gpu.submit(0, Packet { waits: Vec::new(), signal, preamble, buffer: DmaBuffer::User(Vec::new()) });
    }
    while let Some(at) = gpu.next_event_at() {
        gpu.advance(at, &mut events);
    }
    let digests = (0..PAGES).flat_map(|page| [local(page), system(page), aperture(page)]);
    let digests = digests.map(|address| gpu.page_digest(address)).collect();
    (events.iter().map(|event| format!("{event:?}")).collect(), digests)
}

/// Runs packets on the model GPU and on a device, and returns their events and digests, which are the same.
fn alike(packets: &[Vec<Command>]) -> Option<(Vec<String>, Vec<Option<u64>>)> {
    let device = super::device()?;
    let mut soft = vidmm_soft::machine(&config(), CostModel::default(), ModelGpuFaults::default(), None);
    let expected = told(&mut soft.gpu, packets);
    let rules = device.report().rules();
    let local_only = Rules { mode: Mode::BindsLocalOnly, ..rules };
    let in_large_units = Rules { granule_bytes: 64 << 10, ..rules };
    for rules in [rules, local_only, in_large_units] {
        let Machine { mut gpu, .. } = machine(&device, rules, &config(), CostModel::default()).expect("it is built");
        assert_eq!(told(&mut *gpu, packets), expected, "{rules:?}");
    }
    assert_eq!(crate::take_validation_messages(), [""; 0]);
    Some(expected)
}

fn completed(events: &[String]) -> usize {
    events.iter().filter(|event| event.starts_with("Completed")).count()
}

#[test]
fn an_aperture_page_is_mapped_before_it_shows_something_and_shows_something_else_later() {
    let packets = [
        link().collect(),
        vec![map(0, 4, local(8)), map(8, 4, aperture(16)), enter(), kernel(1, (0, 2), (2, 2))],
        vec![show(16, 4, 20), enter(), kernel(2, (8, 2), (10, 2))],
        vec![show(16, 4, 40), enter(), kernel(3, (8, 4), (8, 4))],
        vec![show(17, 1, 50), enter(), kernel(4, (8, 4), (0, 4))],
    ];
    let Some((events, _)) = alike(&packets) else { return };
    assert_eq!(completed(&events), packets.len());
}

#[test]
fn entries_count_once_their_table_is_linked_and_as_the_last_one_says() {
    let unlink = entries(1, 0, 1, None);
    // The model GPU remembers translations until it is told to forget them; a Vulkan device is bound anew.
    let flush = || Command::FlushTlb(flush_all());
    let packets = [
        vec![map(0, 8, local(0)), map(0, 4, local(32)), map(4, 2, system(9)), enter()],
        link().chain([enter(), kernel(1, (0, 8), (0, 8))]).collect(),
        vec![map(0, 8, local(48)), map(2, 2, local(20)), flush(), enter(), kernel(2, (0, 8), (0, 8))],
        vec![unlink, flush(), enter()],
        vec![entries(1, 0, 1, Some(local(TABLES[0]))), flush(), enter(), kernel(3, (0, 8), (0, 8))],
    ];
    let Some((events, _)) = alike(&packets) else { return };
    assert_eq!(completed(&events), packets.len());
}

#[test]
fn a_copy_onto_itself_reads_all_before_it_writes() {
    let fill = Fill {
        destination: va(0),
        bytes: PAGE_SIZE,
        pattern: 0x1234_5678,
        allocation: ALLOCATION,
        allocation_offset: 0,
    };
    let packets = [
        link().chain([map(0, 16, local(0)), map(16, 8, system(4))]).collect(),
        vec![enter(), kernel(1, (16, 8), (0, 16)), Command::Fill(fill)],
        vec![enter(), copy(0, 3, 8), copy(8, 5, 7), copy(16, 18, 6), copy(18, 1, 2)],
    ];
    let Some((events, _)) = alike(&packets) else { return };
    assert_eq!(completed(&events), packets.len());
}

#[test]
fn an_access_to_an_address_that_is_not_mapped_is_a_fault() {
    let packets = [
        link().chain([map(0, 4, local(0)), enter(), kernel(1, (0, 2), (2, 2))]).collect(),
        vec![entries(0, 1, 1, None), Command::FlushTlb(flush_all()), enter(), kernel(2, (0, 2), (2, 2))],
    ];
    let Some((events, _)) = alike(&packets) else { return };
    assert_eq!(completed(&events), 1);
    assert!(events.last().is_some_and(|event| event.starts_with("Interrupt")), "{events:?}");
}

#[test]
fn another_root_table_leads_elsewhere() {
    const OTHERS: [u64; 4] = [1013, 1012, 1011, 1010];
    let others = || link_of(&OTHERS).chain([entries_of(&OTHERS, 0, 0, 4, Some(local(40)))]);
    let flush = || Command::FlushTlb(flush_all());
    let packets = [
        link().chain([map(0, 4, local(0)), enter(), kernel(1, (0, 2), (2, 2))]).collect(),
        others().chain([enter(), kernel(2, (0, 2), (2, 2))]).collect(),
        vec![flush(), enter_by(&OTHERS), kernel(3, (0, 2), (2, 2))],
        vec![flush(), enter(), kernel(4, (0, 4), (0, 4))],
    ];
    let Some((events, _)) = alike(&packets) else { return };
    assert_eq!(completed(&events), packets.len());
}
