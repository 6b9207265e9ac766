//! The manager's work in a run, in numbers.

use serde::Serialize;
use vidmm::Statistics;
use vidmm::contract::PagingOperationKind;
use vidmm_runtime::Runtime;

/// The figures of the manager in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Bytes copied into local memory.
    pub bytes_paged_in: u64,
    /// The bytes of prefetched allocations, copied in or filled; 0 is left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_prefetched: u64,
    /// Bytes copied out of it.
    pub bytes_paged_out: u64,
    /// The bytes of write-behind among the bytes paged out; 0 is left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_cleaned: u64,
    /// Bytes filled because the allocation had no content yet.
    pub bytes_filled: u64,
    /// Living allocations that were evicted.
    pub evictions: u64,
    /// Of those, allocations with content that had to be copied out.
    pub evictions_copied: u64,
    /// Allocations that left local memory for implicit system memory and stayed resident.
    pub demotions: u64,
    /// Allocations that moved from system memory to local memory.
    pub promotions: u64,
    /// Allocations of which the driver was notified before they were evicted.
    pub eviction_notifications: u64,
    /// NOTIFY_ALLOC operations for eviction: the chunks of these notifications.
    pub eviction_notification_chunks: u64,
    /// Bytes of these chunks.
    pub eviction_notification_bytes: u64,
    /// Bytes that the driver had decompressed.
    pub bytes_decompressed: u64,
    /// NOTIFY_ALLOC operations for an IOMMU unmap.
    pub io_mmu_unmap_notifications: u64,
    /// VIRTUAL_TRANSFER operations.
    pub virtual_transfers: u64,
    /// VIRTUAL_FILL operations.
    pub virtual_fills: u64,
    /// UPDATE_PAGE_TABLE operations.
    pub update_page_tables: u64,
    /// FLUSH_TLB operations.
    pub flush_tlbs: u64,
    /// MAP_APERTURE_SEGMENT, of both forms, and UNMAP_APERTURE_SEGMENT operations.
    pub aperture_operations: u64,
    /// Calls of the driver's `build_paging_buffer`.
    pub build_calls: u64,
    /// Paging buffers that the GPU ran.
    pub paging_buffers: u64,
    /// Plans decided.
    pub plans: u64,
    /// Paging fence values signalled.
    pub paging_fences: u64,
    /// Submissions dispatched.
    pub submissions: u64,
    /// Engines that were asked to yield.
    pub preemptions: u64,
    /// Engines that were reset.
    pub engine_resets: u64,
    /// Resets of the adapter.
    pub adapter_resets: u64,
    /// Events, recorded or counted.
    pub events: u64,
}

impl Figures {
    /// The figures of a run so far.
    pub(crate) fn of(runtime: &mut Runtime) -> Self {
        let (statistics, events): (Statistics, u64) = (runtime.statistics(), runtime.vidmm().events().number());
        let operations = statistics.operations;
        Self {
            bytes_decompressed: runtime.bytes_decompressed(),
            bytes_paged_in: statistics.bytes_paged_in,
            bytes_prefetched: statistics.bytes_prefetched,
            bytes_paged_out: statistics.bytes_paged_out,
            bytes_cleaned: statistics.bytes_cleaned,
            bytes_filled: statistics.bytes_filled,
            evictions: statistics.evictions,
            evictions_copied: statistics.evictions_copied,
            demotions: statistics.demotions,
            promotions: statistics.promotions,
            eviction_notifications: statistics.eviction_notifications,
            eviction_notification_chunks: statistics.eviction_notification_chunks,
            eviction_notification_bytes: statistics.eviction_notification_bytes,
            io_mmu_unmap_notifications: statistics.io_mmu_unmap_notifications,
            virtual_transfers: operations[PagingOperationKind::VirtualTransfer],
            virtual_fills: operations[PagingOperationKind::VirtualFill],
            update_page_tables: operations[PagingOperationKind::UpdatePageTable],
            flush_tlbs: operations[PagingOperationKind::FlushTlb],
            aperture_operations: operations[PagingOperationKind::MapApertureSegment]
                + operations[PagingOperationKind::MapApertureSegment2]
                + operations[PagingOperationKind::UnmapApertureSegment],
            build_calls: statistics.build_calls,
            paging_buffers: statistics.paging_buffers,
            plans: statistics.plans,
            paging_fences: statistics.paging_fences_signaled,
            submissions: statistics.submissions,
            preemptions: statistics.preemptions,
            engine_resets: statistics.engine_resets,
            adapter_resets: statistics.adapter_resets,
            events,
        }
    }
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}
