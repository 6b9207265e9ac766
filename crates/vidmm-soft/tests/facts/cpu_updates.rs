//! Page tables that the driver writes with the CPU (GVA-10, BPB-08).

use crate::common::*;
use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress};
use vidmm_soft::*;

fn config() -> SoftAdapterConfig {
    SoftAdapterConfig {
        page_table_update_mode: PageTableUpdateMode::CpuVirtual,
        page_tables_in_system_memory: true,
        page_table_index_bits: vec![9, 8, 8, 5],
        ..Default::default()
    }
}

/// Runs of entries: a level, the index of the first, the entries, and their flags.
fn runs() -> [(u32, u32, PteRun, UpdatePageTableFlags); 5] {
    let at = |offset| Pte::valid(local(offset));
    let run = |first, first_64kb, num_page_table_entries| PteRun { first, first_64kb, num_page_table_entries };
    let (none, repeat) = (UpdatePageTableFlags::empty(), UpdatePageTableFlags::REPEAT);
    [
        (0, 0, run(Pte::INVALID, None, 512), repeat | UpdatePageTableFlags::INITIAL_UPDATE),
        (0, 3, run(at(0x5000), None, 509), none),
        (0, 1, run(at(0x7_0000), None, 31), UpdatePageTableFlags::USE_64KB_PAGES),
        (1, 255, run(at(0x9000), Some(at(0xB000)), 1), none),
        (1, 0, run(Pte::INVALID, Some(Pte::INVALID), 256), repeat),
    ]
}

fn update(
    table: PhysicalAddress,
    (level, start_index, entries, flags): (u32, u32, PteRun, UpdatePageTableFlags),
    process: Process,
    update_mode: UpdateMode,
) -> PagingOperation {
    PagingOperation::UpdatePageTable(UpdatePageTable {
        page_table_level: level,
        allocation: None,
        page_table_address: table,
        page_table_entries: entries,
        start_index,
        flags,
        driver_protection: 0,
        allocation_offset_in_bytes: 0,
        process: process.handle,
        update_mode,
        first_pte_virtual_address: GpuVirtualAddress(0),
    })
}

fn words(rig: &Rig, table: PhysicalAddress) -> Vec<u64> {
    let memory = rig.system.lock();
    (0..PAGE_SIZE / 8).map(|word| memory.read_word(table.offset + 8 * word)).collect()
}

/// The driver's answer when it has no buffer.
fn build_without_buffer(rig: &mut Rig, operation: &PagingOperation) -> BuildStatus {
    let mut multipass_offset = 0;
    let mut build = BuildPagingBuffer {
        operation,
        dma_buffer: &mut [],
        dma_buffer_write_offset: 0,
        dma_buffer_private_data: &mut [],
        dma_bytes_written: 0,
        private_bytes_written: 0,
        multipass_offset: &mut multipass_offset,
        allocation_is_idle: false,
        system_context: KmdContextHandle(0),
    };
    let status = rig.kmd.build_paging_buffer(&mut build);
    assert_eq!((build.dma_bytes_written, build.private_bytes_written, multipass_offset), (0, 0, 0));
    status
}

/// The driver reports the mode, and the CPU writes the words that the GPU would write, whole runs at once.
#[test]
fn the_cpu_writes_what_the_gpu_would() {
    for private_data in [0, 64] {
        let mut rig = Rig::new(SoftAdapterConfig {
            max_entries_per_command: 100,
            paging_buffer_private_data_bytes: private_data,
            ..config()
        });
        assert_eq!(rig.kmd.query_adapter_info().gpu_mmu.page_table_update_mode, PageTableUpdateMode::CpuVirtual);
        let mut host = SoftHost::new(rig.system.clone(), rig.io_mmu.clone(), None);
        let process = rig.process();
        let [by_gpu, by_cpu] = [(); 2].map(|()| host.commit_backing_store(PAGE_SIZE).unwrap());
        let address = host.kernel_virtual_address(by_cpu);
        assert_ne!(address.0, by_cpu.offset, "an address of the CPU is no address of the GPU");
        for run in runs() {
            let commands = rig.build(&update(by_gpu, run, process, UpdateMode::GpuPhysical));
            rig.run_well(process, commands);
            let operation = update(by_cpu, run, process, UpdateMode::CpuVirtual(address));
            assert_eq!(build_without_buffer(&mut rig, &operation), BuildStatus::Success);
            assert_eq!(words(&rig, by_cpu), words(&rig, by_gpu), "{run:?}");
        }
    }
}

/// The driver writes to no place that is not a table's: a wrong address, or entries beyond the end.
#[test]
fn the_cpu_writes_nowhere_else() {
    let mut rig = Rig::new(config());
    let mut host = SoftHost::new(rig.system.clone(), rig.io_mmu.clone(), None);
    let process = rig.process();
    let table = host.commit_backing_store(PAGE_SIZE).unwrap();
    let address = host.kernel_virtual_address(table);
    let [run, ..] = runs();
    let beyond = (run.0, 1, run.2, run.3);
    for (address, run) in [(0, run), (table.offset, run), (address.0 + 8, run), (u64::MAX, run), (address.0, beyond)] {
        let operation = update(table, run, process, UpdateMode::CpuVirtual(CpuVirtualAddress(address)));
        assert!(matches!(build_without_buffer(&mut rig, &operation), BuildStatus::Other(_)), "{address:#x}");
    }
    assert_eq!(words(&rig, table), [0; 512]);
    assert_eq!(PageTableLayout::new(&[9, 8, 8, 5], 47, true).entries(0, PageSize::Kib4), 512);
}
