//! Page tables across the border: capabilities, levels, modes, entries.

use vidmm::contract::{
    GpuMmuCaps, GpuMmuFlags, LegacyBehaviors, PageTableLevelDesc, PageTableUpdateMode, Pte, PteFlags, UpdateMode,
    UpdatePageTable, UpdatePageTableFlags,
};
use vidmm::{PAGE_SIZE, SegmentId};

use crate::abi::*;
use crate::memory::{NO_PAGE, from_driver, page_to_driver};

const CPU_VIRTUAL: u32 = 0;
const GPU_VIRTUAL: u32 = 1;
const GPU_PHYSICAL: u32 = 2;

/// The bits of an entry before its segment are the flags of the contract.
const PTE_SEGMENT_SHIFT: u32 = 5;
const PTE_SEGMENT_MASK: u64 = 0x1F;

/// The MMU as the driver reports it.
///
/// # Errors
///
/// If the mode in which tables are written is none, or not tried yet.
pub(crate) fn gpu_mmu_caps(caps: &DXGK_GPUMMUCAPS) -> Result<GpuMmuCaps, String> {
    Ok(GpuMmuCaps {
        flags: GpuMmuFlags::from_bits_truncate(caps.Value),
        page_table_update_mode: match caps.PageTableUpdateMode {
            CPU_VIRTUAL => PageTableUpdateMode::CpuVirtual,
            GPU_VIRTUAL => {
                let message = "tables are not written through virtual addresses of the GPU so far";
                return Err(format!("DXGK_GPUMMUCAPS.PageTableUpdateMode is GPU_VIRTUAL: {message}"));
            }
            GPU_PHYSICAL => PageTableUpdateMode::GpuPhysical,
            mode => return Err(format!("DXGK_GPUMMUCAPS.PageTableUpdateMode is {mode}, which is no mode (GVA-10)")),
        },
        virtual_address_bit_count: caps.VirtualAddressBitCount,
        leaf_page_table_size_for_64k_pages_in_bytes: caps.LeafPageTableSizeFor64KPagesInBytes,
        legacy_behaviors: LegacyBehaviors::from_bits_truncate(caps.LegacyBehaviors),
    })
}

/// The report of an adapter without page tables: the manager does not look at it.
pub(crate) fn no_mmu() -> GpuMmuCaps {
    GpuMmuCaps {
        flags: GpuMmuFlags::empty(),
        page_table_update_mode: PageTableUpdateMode::GpuPhysical,
        virtual_address_bit_count: 0,
        leaf_page_table_size_for_64k_pages_in_bytes: 0,
        legacy_behaviors: LegacyBehaviors::empty(),
    }
}

/// A level of the page tables as the driver reports it.
///
/// # Errors
///
/// If a segment has no id that an entry could hold.
pub(crate) fn level(desc: &DXGK_PAGE_TABLE_LEVEL_DESC) -> Result<PageTableLevelDesc, String> {
    let segment = |id: u32| {
        let id = u8::try_from(id).ok().filter(|&id| u64::from(id) <= PTE_SEGMENT_MASK);
        id.map(SegmentId).ok_or_else(|| "a segment of DXGK_PAGE_TABLE_LEVEL_DESC is beyond 31 (GVA-15)".to_owned())
    };
    Ok(PageTableLevelDesc {
        page_table_index_bit_count: desc.PageTableIndexBitCount,
        page_table_segment_id: segment(desc.PageTableSegmentId)?,
        paging_process_page_table_segment_id: segment(desc.PagingProcessPageTableSegmentId)?,
        page_table_size_in_bytes: desc.PageTableSizeInBytes,
        page_table_alignment_in_bytes: desc.PageTableAlignmentInBytes,
    })
}

/// How an update is written.
pub(crate) fn update_mode(mode: &UpdateMode) -> u32 {
    match mode {
        UpdateMode::CpuVirtual(_) => CPU_VIRTUAL,
        UpdateMode::GpuVirtual(_) => GPU_VIRTUAL,
        UpdateMode::GpuPhysical => GPU_PHYSICAL,
    }
}

fn entry_to_driver(pte: Pte) -> DXGK_PTE {
    let segment = u64::from(pte.address.segment.0) & PTE_SEGMENT_MASK;
    DXGK_PTE { Flags: pte.flags.bits() | segment << PTE_SEGMENT_SHIFT, PageAddress: page_to_driver(pte.address) }
}

/// An entry that the GPU's model has decoded; none if its segment is none.
pub(crate) fn entry_from_driver(pte: &DXGK_PTE) -> Option<Pte> {
    let segment = (pte.Flags >> PTE_SEGMENT_SHIFT & PTE_SEGMENT_MASK) as u32;
    let address = from_driver(segment, pte.PageAddress.checked_mul(PAGE_SIZE)?)?;
    Some(Pte { flags: PteFlags::from_bits_truncate(pte.Flags), address })
}

/// Writes the entries of an operation: those of the 4 KiB side, and of the 64 KiB side if the table has two.
///
/// With `REPEAT` the first entry alone means something; those behind it lead to no page.
pub(crate) fn write_entries(op: &UpdatePageTable, entries: &mut Vec<DXGK_PTE>, entries_64kb: &mut Vec<DXGK_PTE>) {
    let run = &op.page_table_entries;
    let nothing = DXGK_PTE { Flags: PteFlags::VALID.bits(), PageAddress: NO_PAGE };
    let write = |first: Pte, into: &mut Vec<DXGK_PTE>| {
        let repeat = op.flags.contains(UpdatePageTableFlags::REPEAT);
        let entry = |at: u64| match repeat {
            true if at > 0 => nothing,
            true => entry_to_driver(first),
            false => entry_to_driver(first.advanced(at, op.page_size())),
        };
        into.clear();
        into.extend((0..run.num_page_table_entries.into()).map(entry).chain([nothing]));
    };
    write(run.first, entries);
    entries_64kb.clear();
    if let Some(first) = run.first_64kb {
        write(first, entries_64kb);
    }
}
