//! The model GPU for the adapter that an author's driver describes.

use vidmm::PageSize;
use vidmm::SegmentId;
use vidmm::contract::{AdapterInfo, AddressingModel, GpuMmuFlags, SegmentFlags};

use crate::config::{ApertureConfig, ConfigError, MemoryConfig, SegmentKind, SoftAdapterConfig};

/// The reasons why the model GPU cannot be the adapter that a driver describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SemanticError {
    /// The model GPU cannot be built so.
    #[error("the model GPU cannot be this adapter: {0}")]
    Config(#[from] ConfigError),
    /// A segment has no bytes.
    #[error("the model GPU has no segment without memory, and segment {0} has a size of 0", segment.0)]
    EmptySegment {
        /// The segment.
        segment: SegmentId,
    },
    /// An entry of the model GPU's page tables has no room for the ids of all segments.
    #[error("the model GPU has at most {} segments, and the adapter has {count}", SEGMENTS_MAX)]
    TooManySegments {
        /// How many segments the adapter has.
        count: usize,
    },
    /// The page tables of a level have no room for the model GPU's entries of 8 bytes, or of 16 if they are dual.
    #[error("page tables of level {level} have {bytes} bytes, and the model GPU's entries need {needed}")]
    SmallPageTable {
        /// The level; 0 is the leaf.
        level: u32,
        /// Bytes of a table.
        bytes: u32,
        /// Bytes that the model GPU needs.
        needed: u32,
    },
    /// The same, of the leaf tables for 64 KiB pages.
    #[error("leaf page tables for 64 KiB pages have {bytes} bytes, and the model GPU's entries need {needed}")]
    SmallLeafTable64Kib {
        /// Bytes of a table.
        bytes: u32,
        /// Bytes that the model GPU needs.
        needed: u32,
    },
}

/// The ids that fit into an entry of the model GPU's page tables, without that of system memory.
const SEGMENTS_MAX: usize = 31;

/// The configuration of a model GPU for the adapter that `info` describes. The fields of which the model GPU knows
/// nothing, such as the size of a paging buffer, are the defaults.
///
/// # Errors
///
/// If the model GPU cannot be that adapter.
pub(super) fn config_of(info: &AdapterInfo) -> Result<SoftAdapterConfig, SemanticError> {
    let base = match info.addressing_model {
        AddressingModel::GpuMmu => with_page_tables(info),
        model => SoftAdapterConfig { addressing_model: model, ..SoftAdapterConfig::default() },
    };
    let config = with_segments(info, base)?;
    config.check()?;
    check_tables(info, &config)?;
    Ok(config)
}

fn with_page_tables(info: &AdapterInfo) -> SoftAdapterConfig {
    let mmu = &info.gpu_mmu;
    let below_root = info.page_table_levels.split_last().map_or(&[][..], |(_, below)| below);
    SoftAdapterConfig {
        virtual_address_bit_count: mmu.virtual_address_bit_count,
        page_table_index_bits: below_root.iter().map(|level| level.page_table_index_bit_count).collect(),
        dual_pte: mmu.flags.contains(GpuMmuFlags::DUAL_PTE_SUPPORTED),
        page_table_update_mode: mmu.page_table_update_mode,
        invalid_tlb_entries_not_cached: mmu.flags.contains(GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED),
        cache_coherent_memory: mmu.flags.contains(GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED),
        zero_in_pte: mmu.flags.contains(GpuMmuFlags::ZERO_IN_PTE_SUPPORTED),
        large_pages: mmu.flags.contains(GpuMmuFlags::LARGE_PAGE_SUPPORTED),
        large_pages_anywhere: mmu.flags.contains(GpuMmuFlags::ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS),
        large_pages_in_system_memory: mmu.flags.contains(GpuMmuFlags::SYS_MEM_LARGE_PAGE_SUPPORTED),
        ..SoftAdapterConfig::default()
    }
}

fn with_segments(info: &AdapterInfo, base: SoftAdapterConfig) -> Result<SoftAdapterConfig, SemanticError> {
    if info.segments.len() > SEGMENTS_MAX {
        return Err(SemanticError::TooManySegments { count: info.segments.len() });
    }
    let (mut memories, mut apertures, mut segment_order) = (Vec::new(), Vec::new(), Vec::new());
    for (segment, described) in (1..).map(SegmentId).zip(&info.segments) {
        if described.size == 0 {
            return Err(SemanticError::EmptySegment { segment });
        }
        match described.flags.contains(SegmentFlags::APERTURE) {
            false => {
                let cpu_visible = described.flags.contains(SegmentFlags::CPU_VISIBLE);
                memories.push(MemoryConfig { bytes: described.size, cpu_visible });
                segment_order.push(SegmentKind::Memory);
            }
            true => {
                let cache_coherent = described.flags.contains(SegmentFlags::CACHE_COHERENT);
                apertures.push(ApertureConfig { bytes: described.size, commit_limit_bytes: None, cache_coherent });
                segment_order.push(SegmentKind::Aperture);
            }
        }
    }
    let (mut memories, mut apertures) = (memories.into_iter(), apertures.into_iter());
    let (local, aperture) = (memories.next(), apertures.next());
    Ok(SoftAdapterConfig {
        engines: info.engines.len() as u32,
        local_memory_bytes: local.map_or(0, |local| local.bytes),
        local_memory_cpu_visible: local.is_some_and(|local| local.cpu_visible),
        more_memory: memories.collect(),
        // Every segment is whole pages of 4 KiB. The size of pages is the author's own affair beyond that.
        page_size: PageSize::Kib4,
        aperture_bytes: aperture.map_or(0, |aperture| aperture.bytes),
        cache_coherent_aperture: aperture.is_some_and(|aperture| aperture.cache_coherent),
        more_apertures: apertures.collect(),
        segment_order,
        page_tables_in_system_memory: info
            .page_table_levels
            .iter()
            .any(|level| level.page_table_segment_id.is_system()),
        preemption_aware: info.patching.preemption_aware,
        ..base
    })
}

/// Whether the tables that the manager lays out have room for the model GPU's entries.
fn check_tables(info: &AdapterInfo, config: &SoftAdapterConfig) -> Result<(), SemanticError> {
    if !config.has_page_tables() {
        return Ok(());
    }
    let layout = config.layout();
    // A root of two levels may grow: its driver is asked later how large it is (GVA-16).
    let fixed = if layout.levels() == 2 { 1 } else { info.page_table_levels.len() };
    for (level, described) in (0..).zip(&info.page_table_levels[..fixed]) {
        let (bytes, needed) = (described.page_table_size_in_bytes, layout.table_bytes(level));
        if bytes < needed {
            return Err(SemanticError::SmallPageTable { level, bytes, needed });
        }
    }
    let (bytes, needed) = (info.gpu_mmu.leaf_page_table_size_for_64k_pages_in_bytes, layout.leaf_64kib_table_bytes());
    if bytes < needed {
        return Err(SemanticError::SmallLeafTable64Kib { bytes, needed });
    }
    Ok(())
}
