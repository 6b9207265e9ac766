//! The model GPU as the machine of a run.

use vidmm::contract::EngineKind;
use vidmm_runtime::{FaultSwitch, Machine, Occasions};
use vidmm_sim::{ApertureDesc, FaultKind, LinkedAdapterDesc, MachineDesc};
use vidmm_soft::{
    ApertureConfig, COPY_ENGINE, CostModel, LinkedAdapterConfig, MemoryConfig, ModelGpuFaults, PAGING_ENGINE,
    PacketHits, RENDER_ENGINE, SoftAdapterConfig,
};

/// Builds the machine that `desc` asks for, with the faults inside of the GPU and its host.
pub fn machine(desc: &MachineDesc) -> Result<Machine, String> {
    let (config, cost) = described(desc)?;
    let fault_switch = FaultSwitch::default();
    let own = own_faults(desc, &fault_switch);
    Ok(Machine { fault_switch, ..Machine::from(vidmm_soft::machine(&config, cost, own, None)) })
}

/// The adapter that `desc` asks for, and how long its GPU takes.
pub fn described(desc: &MachineDesc) -> Result<(SoftAdapterConfig, CostModel), String> {
    let config = config(desc);
    config.check().map_err(|error| error.to_string())?;
    let [kernel_read_bytes_per_second, kernel_write_bytes_per_second] = desc.kernel_bytes_per_second;
    let cost = CostModel {
        bus_to_device_bytes_per_second: desc.bus_bytes_per_second,
        bus_to_host_bytes_per_second: desc.bus_bytes_per_second,
        kernel_read_bytes_per_second,
        kernel_write_bytes_per_second,
        local_bytes_per_second: desc.local_bytes_per_second,
        reset_nanoseconds: desc.reset_nanoseconds,
        latency_seed: desc.latency_seed,
        ..CostModel::default()
    };
    Ok((config, cost))
}

/// The errors that the model GPU and its host make themselves.
fn own_faults(desc: &MachineDesc, switch: &FaultSwitch) -> ModelGpuFaults {
    let mut own = ModelGpuFaults::default();
    for fault in &desc.faults {
        let occasions = Occasions::new(fault.hits(desc.fault_seed), switch);
        let packets = |engine| PacketHits { engine, occasions: occasions.clone() };
        match fault.kind {
            FaultKind::FlipBitInTransfer => own.flip_bit_in_transfer = Some(occasions),
            FaultKind::HangPacket => own.hang_packets.push(packets(RENDER_ENGINE)),
            FaultKind::HangPagingBuffer => own.hang_packets.push(packets(PAGING_ENGINE)),
            FaultKind::ForgePageFault => own.forge_page_faults.push(packets(RENDER_ENGINE)),
            FaultKind::ForgePagingFault => own.forge_page_faults.push(packets(PAGING_ENGINE)),
            FaultKind::LieAboutEngineReset => own.lie_about_engine_reset = Some(occasions),
            FaultKind::FailCommit => own.fail_commit = Some(occasions),
            FaultKind::FailUserModeVaMapping => own.fail_user_mode_va_mapping = Some(occasions),
            _ => {}
        }
    }
    own
}

fn ordinal(engine: EngineKind) -> u32 {
    match engine {
        EngineKind::Paging => PAGING_ENGINE,
        EngineKind::Render3d => RENDER_ENGINE,
        EngineKind::Copy => COPY_ENGINE,
    }
}

fn aperture(&ApertureDesc { bytes, commit_limit_bytes, cache_coherent }: &ApertureDesc) -> ApertureConfig {
    ApertureConfig { bytes, commit_limit_bytes, cache_coherent }
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
        engines: desc.engines,
        local_memory_bytes: desc.local_memory_bytes,
        local_memory_cpu_visible: desc.local_memory_cpu_visible,
        more_memory: desc.more_memory.iter().map(|&(bytes, cpu_visible)| MemoryConfig { bytes, cpu_visible }).collect(),
        aperture_bytes: desc.aperture_bytes,
        more_apertures: desc.more_apertures.iter().map(aperture).collect(),
        cache_coherent_aperture: desc.cache_coherent_aperture,
        map_aperture2: desc.map_aperture2,
        system_commit_limit_bytes: desc.aperture_commit_limit_bytes,
        scheduling_log_buffer_bytes: desc.scheduling_log_buffer_bytes,
        linked_adapters: desc.linked_adapters.iter().map(linked).collect(),
        virtual_address_bit_count: desc.virtual_address_bits.unwrap_or(base.virtual_address_bit_count),
        page_table_index_bits: desc.page_table_bits.clone().unwrap_or(base.page_table_index_bits),
        dual_pte: desc.dual_pte,
        page_tables_in_system_memory: desc.page_tables_in_system_memory,
        page_table_update_mode: desc.page_table_update_mode,
        invalid_tlb_entries_not_cached: desc.invalid_tlb_entries_not_cached,
        cache_coherent_memory: desc.cache_coherent_memory,
        zero_in_pte: desc.zero_in_pte,
        large_pages: desc.large_pages,
        large_pages_anywhere: desc.large_pages_anywhere,
        large_pages_in_system_memory: desc.large_pages_in_system_memory,
        paging_buffer_bytes: desc.paging_buffer_bytes,
        paging_va_mib: desc.paging_va_mib,
        max_command_bytes: desc.max_command_bytes,
        busy_notify_every: desc.busy_notify_every,
        busy_every: desc.busy_every,
        max_allocation_list_slot_id: desc.num_slots,
        preemption_aware: desc.preemption_aware,
        copies_both_ways: desc.copies_both_ways,
        bank_range_table: desc.bank_range_table.clone(),
        dependent_engines: desc
            .dependent_engines
            .iter()
            .map(|group| group.iter().copied().map(ordinal).filter(|&engine| engine < desc.engines).collect())
            .collect(),
        ..base
    }
}
