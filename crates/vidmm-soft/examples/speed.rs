//! How long the model GPU takes for a page, in real time.
//!
//! ```text
//! cargo run --release -p vidmm-soft --example speed
//! ```

use std::time::Instant;

use vidmm::contract::{
    DmaBuffer, EngineFence, KmdAllocationHandle, KmdProcessHandle, MemoryTransferDirection, Packet, Pte,
};
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{Content, Gpu, GpuEvent, KernelCommand, PageRange};
use vidmm_soft::encoding::{Command, FlushRange, SetRootPageTable, Transfer, WritePtes, encode_to_vec};
use vidmm_soft::{
    CostModel, HardwareEntry, IoMmu, LOCAL_SEGMENT, ModelGpu, ModelGpuFaults, SoftAdapterConfig, SystemMemory,
};

const PROCESS: KmdProcessHandle = KmdProcessHandle(1);
const TABLES: u64 = 24 << 30;
const LEVEL_1: u64 = TABLES + (64 << 10);
const LEAVES_64KIB: u64 = TABLES + (1 << 20);
const LEAVES_4KIB: u64 = TABLES + (16 << 20);
const COVERAGE: u64 = 32 << 20;
/// Below it addresses are mapped by 64 KiB entries, above by 4 KiB entries.
const WINDOW: u64 = 16 << 30;

fn local(offset: u64) -> PhysicalAddress {
    PhysicalAddress { segment: LOCAL_SEGMENT, offset }
}

fn entry(address: PhysicalAddress) -> HardwareEntry {
    HardwareEntry::from_pte(Pte::valid(address))
}

fn write_ptes(level: u32, table: u64, start_index: u32, count: u32, first: HardwareEntry, stride: u64) -> WritePtes {
    WritePtes {
        process: PROCESS,
        virtual_address: GpuVirtualAddress(0),
        level,
        page_size: if stride == 64 << 10 { PageSize::Kib64 } else { PageSize::Kib4 },
        table: vidmm_soft::encoding::TableAddress::Physical(local(table)),
        start_index,
        count,
        first,
        first_64kb: None,
        stride,
    }
}

struct Machine {
    gpu: ModelGpu,
    fence_id: u64,
}

impl Machine {
    fn run(&mut self, commands: &[Command]) {
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| encode_to_vec(command, &mut bytes));
        self.fence_id += 1;
        let signal = EngineFence { engine: 1, fence_id: self.fence_id };
        let packet = Packet { waits: vec![], signal, preamble: vec![], buffer: DmaBuffer::User(bytes) };
        self.gpu.submit(0, packet);
        let mut events = Vec::new();
        self.gpu.advance(u64::MAX, &mut events);
        assert!(matches!(events.last(), Some(GpuEvent::Completed { .. })), "{:?}", events.last());
        assert_eq!(self.gpu.counters().illegal_commands, 0);
    }
}

fn machine() -> Machine {
    let config = SoftAdapterConfig { local_memory_bytes: 32 << 30, ..Default::default() };
    let gpu =
        ModelGpu::new(&config, CostModel::default(), ModelGpuFaults::default(), SystemMemory::new(), IoMmu::new());
    let mut machine = Machine { gpu, fence_id: 0 };
    let mut large = write_ptes(1, LEVEL_1, 0, 512, HardwareEntry::INVALID, PAGE_SIZE);
    large.first_64kb = Some(entry(local(LEAVES_64KIB)));
    let mut commands = vec![
        Command::SetRootPageTable(SetRootPageTable { process: PROCESS, root: local(TABLES), num_entries: 1 }),
        Command::WritePtes(write_ptes(2, TABLES, 0, 1, entry(local(LEVEL_1)), 0)),
        Command::WritePtes(large),
    ];
    for table in 0..512 {
        let map = write_ptes(0, LEAVES_64KIB + table * 4096, 0, 512, entry(local(table * COVERAGE)), 64 << 10);
        commands.push(Command::WritePtes(map));
    }
    let window = entry(local(LEAVES_4KIB));
    commands.push(Command::WritePtes(write_ptes(1, LEVEL_1, 512, 1, window, 0)));
    machine.run(&commands);
    machine
}

fn kernels(machine: &mut Machine, pages_per_kernel: u64, pages: u64) {
    let footprint = (8 << 30) / PAGE_SIZE;
    let mut at = 0;
    for kernel in 0..pages / pages_per_kernel {
        let range = |page: u64| PageRange::plain(GpuVirtualAddress(page % footprint * PAGE_SIZE), pages_per_kernel);
        let (inputs, outputs) = (vec![range(at)], vec![range(at + footprint / 2)]);
        machine.run(&[Command::Kernel(KernelCommand {
            kernel,
            nanoseconds: 1000,
            content: Content::Uniform,
            inputs,
            outputs,
        })]);
        at += pages_per_kernel;
    }
}

/// Transfers through a window of 4 KiB entries, mapped and flushed for each.
fn transfers(machine: &mut Machine, to_local: bool, pages: u64) {
    let chunk = 1024;
    for number in 0..pages / chunk {
        let bytes = chunk * PAGE_SIZE;
        let there = PhysicalAddress { segment: SegmentId::SYSTEM, offset: (1 << 30) + number * bytes };
        let (window, here) = (GpuVirtualAddress(WINDOW), GpuVirtualAddress(number * bytes));
        let (source, destination) = if to_local { (window, here) } else { (here, window) };
        let direction =
            if to_local { MemoryTransferDirection::SystemToLocal } else { MemoryTransferDirection::LocalToSystem };
        machine.run(&[
            Command::WritePtes(write_ptes(0, LEAVES_4KIB, 0, chunk as u32, entry(there), PAGE_SIZE)),
            Command::FlushTlb(FlushRange { process: Some(PROCESS), start: window, end: window.offset(bytes) }),
            Command::Transfer(Transfer {
                source,
                destination,
                bytes,
                direction,
                allocation: KmdAllocationHandle(1),
                allocation_offset: 0,
            }),
        ]);
    }
}

fn measure(what: &str, pages: u64, work: impl FnOnce(&mut Machine, u64), machine: &mut Machine) {
    let begun = Instant::now();
    work(machine, pages);
    println!("{what}: {:.2} ns a page", begun.elapsed().as_nanos() as f64 / pages as f64);
}

fn main() {
    let mut machine = machine();
    let big = |machine: &mut Machine, pages| kernels(machine, 16384, pages / 2);
    let small = |machine: &mut Machine, pages| kernels(machine, 64, pages / 2);
    measure("first kernels, 16384 pages read and written each", 10_000_000, big, &mut machine);
    measure("kernels, 16384 pages read and written each", 10_000_000, big, &mut machine);
    measure("kernels, 64 pages read and written each", 10_000_000, small, &mut machine);
    measure("page-outs of 4 MiB", 1_000_000, |machine, pages| transfers(machine, false, pages), &mut machine);
    measure("page-ins of 4 MiB", 1_000_000, |machine, pages| transfers(machine, true, pages), &mut machine);
    println!("local memory costs {:.1} MiB", machine.gpu.local_resident_bytes() as f64 / (1 << 20) as f64);
}
