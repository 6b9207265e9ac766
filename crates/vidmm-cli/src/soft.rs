//! The model GPU as the machine of a run.

use vidmm_runtime::{DriverFault, Machine};
use vidmm_sim::{FaultKind, LinkedAdapterDesc, MachineDesc};
use vidmm_soft::{CostModel, LinkedAdapterConfig, ModelGpuFaults, SoftAdapterConfig};

/// Builds the machine that `desc` asks for.
pub fn machine(desc: &MachineDesc) -> Result<Machine, String> {
    let config = config(desc);
    config.check().map_err(|error| error.to_string())?;
    let cost = CostModel {
        bus_to_device_bytes_per_second: desc.bus_bytes_per_second,
        bus_to_host_bytes_per_second: desc.bus_bytes_per_second,
        local_bytes_per_second: desc.local_bytes_per_second,
        ..CostModel::default()
    };
    let flip = desc.faults.iter().find(|fault| fault.kind == FaultKind::FlipBitInTransfer);
    let flip = flip.map(|fault| fault.nth.map_or(1..=u64::MAX, |nth| nth..=nth));
    let faults = ModelGpuFaults { flip_bit_in_transfer: flip, ..Default::default() };
    let mut machine = Machine::from(vidmm_soft::machine(&config, cost, faults, None));
    for fault in &desc.faults {
        let kind = match fault.kind {
            FaultKind::FlipBitInTransfer => continue,
            FaultKind::SkipTlbFlush => DriverFault::SkipTlbFlush,
            FaultKind::DropPageOut => DriverFault::DropPageOut,
            FaultKind::SkipDecompression => DriverFault::SkipDecompression,
            FaultKind::IgnoreChunkOffset => DriverFault::IgnoreChunkOffset,
            FaultKind::LateNotification => DriverFault::LateNotification,
            FaultKind::EarlyIoMmuUnmap => DriverFault::EarlyIoMmuUnmap,
            FaultKind::SkipCacheFlush => DriverFault::SkipCacheFlush,
            FaultKind::ReusePagingVa => DriverFault::ReusePagingVa,
        };
        machine = machine.with_fault(kind, fault.nth);
    }
    Ok(machine)
}

fn config(desc: &MachineDesc) -> SoftAdapterConfig {
    let base = match desc.page_size {
        vidmm::PageSize::Kib64 => SoftAdapterConfig::default(),
        vidmm::PageSize::Kib4 => SoftAdapterConfig::with_4kib_pages(),
    };
    let linked = |linked: &LinkedAdapterDesc| LinkedAdapterConfig {
        local_memory_bytes: linked.local_memory_bytes,
        aperture_bytes: linked.aperture_bytes,
        paging_va_mib: linked.paging_va_mib,
    };
    SoftAdapterConfig {
        wddm_version: desc.wddm_version,
        addressing_model: desc.addressing_model,
        local_memory_bytes: desc.local_memory_bytes,
        aperture_bytes: desc.aperture_bytes,
        cache_coherent_aperture: desc.cache_coherent_aperture,
        system_commit_limit_bytes: desc.aperture_commit_limit_bytes,
        scheduling_log_buffer_bytes: desc.scheduling_log_buffer_bytes,
        linked_adapters: desc.linked_adapters.iter().map(linked).collect(),
        page_table_index_bits: desc.page_table_bits.clone().unwrap_or(base.page_table_index_bits),
        dual_pte: desc.dual_pte,
        page_tables_in_system_memory: desc.page_tables_in_system_memory,
        invalid_tlb_entries_not_cached: desc.invalid_tlb_entries_not_cached,
        paging_buffer_bytes: desc.paging_buffer_bytes,
        paging_va_mib: desc.paging_va_mib,
        max_command_bytes: desc.max_command_bytes,
        busy_notify_every: desc.busy_notify_every,
        ..base
    }
}
