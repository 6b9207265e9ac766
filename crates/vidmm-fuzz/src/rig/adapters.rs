//! Adapters of every kind.

use vidmm::contract::{AdapterInfo, AddressingModel, PatchingCaps};

use crate::choices::Choices;
use crate::world::Config;

/// A small adapter, of any kind.
pub fn adapter(choices: &Choices<'_>) -> AdapterInfo {
    let buffer_bytes = choices.pick(&[4096, 8192]);
    let private_bytes = choices.pick(&[0, 64]);
    let (pages, aperture_pages) = (16 + choices.below(48), 16 + choices.below(48));
    let config = match choices.below(8) {
        0 => Config::pages(pages),
        1 => Config::discrete(pages, aperture_pages),
        2 => Config { tables_in_system: false, ..Config::discrete(64 + pages, aperture_pages) },
        3 => Config::pages_64kb(4 + pages / 8, choices.one_in(2)),
        4 => Config::integrated(AddressingModel::GpuMmu, aperture_pages),
        5 => Config::integrated(AddressingModel::GpuVaIoMmu, aperture_pages),
        6 => Config::integrated(AddressingModel::GpuVaIoMmuGlobal, aperture_pages),
        _ => return physical(pages, aperture_pages, choices),
    };
    Config { cpu_visible: choices.one_in(2), buffer_bytes, private_bytes, ..config }.info()
}

/// A small adapter without GPU virtual addresses.
fn physical(pages: u64, aperture_pages: u64, choices: &Choices<'_>) -> AdapterInfo {
    let like = Config::discrete(pages, aperture_pages).info();
    let mut gpu_mmu = like.gpu_mmu;
    gpu_mmu.virtual_address_bit_count = 0;
    let bank_range_table = if choices.one_in(3) { vec![pages / 2 * 4096, pages * 4096] } else { Vec::new() };
    let preemption_aware = choices.one_in(2);
    AdapterInfo {
        addressing_model: AddressingModel::Physical,
        page_table_levels: Vec::new(),
        gpu_mmu,
        patching: PatchingCaps {
            max_allocation_list_slot_id: 4,
            preemption_aware,
            no_dma_patching: false,
            bank_range_table,
        },
        ..like
    }
}
