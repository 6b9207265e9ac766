//! The mistakes that a driver can be given.

use crate::named_faults::named_faults;

named_faults! {
    /// A mistake of a driver, or of a host. Each has occasions: its operations, the patches, the command buffers,
    /// or the creation of objects.
    DriverFault:
    /// FLUSH_TLB is answered with success, and nothing is encoded.
    SkipTlbFlush, "skip-tlb-flush";
    /// A transfer out of local memory, to system memory or to the aperture, is answered with success, and nothing is encoded.
    DropPageOut, "drop-page-out";
    /// A notification of eviction is answered with success, and nothing is encoded: compressed content stays
    /// compressed.
    SkipDecompression, "skip-decompression";
    /// A notification of eviction is taken to be about the start of the allocation. Its occasions are those that are not.
    IgnoreChunkOffset, "ignore-chunk-offset";
    /// The driver encodes a notification only with the next operation, the unmapping of its window aside: too late.
    LateNotification, "late-notification";
    /// A notification of an IOMMU unmap is answered with success, and nothing is encoded: the GPU keeps its cached
    /// translations.
    SkipCacheFlush, "skip-cache-flush";
    /// The paging process's addresses are used again although the GPU has cached their old meaning: FLUSH_TLB of the
    /// paging process is left out, or behind an IOMMU the flush with which a driver begins a notification of eviction.
    ReusePagingVa, "reuse-paging-va";
    /// The range of a notification is unmapped from the IOMMU when the notification is built, not when its commands
    /// have run. Without an IOMMU it has no occasion.
    EarlyIoMmuUnmap, "early-io-mmu-unmap";
    /// A portion is not patched: its addresses stay as they were rendered, or patched before. Its occasions are the
    /// calls with a patch location.
    SkipPatch, "skip-patch";
    /// A transfer into local memory is answered with success, and nothing is encoded.
    DropPageIn, "drop-page-in";
    /// The last page of a transfer is not moved.
    ShortTransfer, "short-transfer";
    /// Each page of a transfer gets the content of the next one; the last is not moved.
    TransferNextPage, "transfer-next-page";
    /// A transfer goes from its destination to its source.
    SwapTransfer, "swap-transfer";
    /// When an operation goes on in the next paging buffer, one of its commands is lost.
    SkipPartAfterFull, "skip-part-after-full";
    /// A fill is answered with success, and nothing is encoded.
    SkipFill, "skip-fill";
    /// The last page of a fill is not filled.
    ShortFill, "short-fill";
    /// A fill has another pattern.
    WrongFillPattern, "wrong-fill-pattern";
    /// Leaf entries of a user's process that become valid are not written.
    SkipEntries, "skip-entries";
    /// The last entry of a run that becomes valid is not written.
    ShortEntries, "short-entries";
    /// Leaf entries of a user's process show the pages behind the right ones.
    WrongEntries, "wrong-entries";
    /// Leaf entries of a user's process allow no writes.
    ReadOnlyEntries, "read-only-entries";
    /// Leaf entries of a user's process that become invalid stay valid.
    KeepEntries, "keep-entries";
    /// The parent of a new table does not point to it.
    SkipTableLink, "skip-table-link";
    /// FLUSH_TLB flushes the paging process instead of a user's.
    FlushOtherProcess, "flush-other-process";
    /// MAP_APERTURE_SEGMENT, of either form, is answered with success, and nothing is encoded.
    SkipMapAperture, "skip-map-aperture";
    /// MAP_APERTURE_SEGMENT, of either form, maps the pages behind the right ones.
    MapNextPages, "map-next-pages";
    /// UNMAP_APERTURE_SEGMENT is answered with success, and nothing is encoded.
    SkipUnmapAperture, "skip-unmap-aperture";
    /// A patch location gets the address of the next element of the list instead of its own.
    PatchNextElement, "patch-next-element";
    /// The last patch location of a portion is not patched.
    SkipLastPatch, "skip-last-patch";
    /// The offset in the allocation is not added to its address.
    IgnorePatchOffset, "ignore-patch-offset";
    /// An operation says that it has written one byte more than the paging buffer has.
    OverrunDmaBuffer, "overrun-dma-buffer";
    /// An operation says that it has written one byte more than the room for private data.
    OverrunPrivateData, "overrun-private-data";
    /// An operation says that it has written eight bytes less than it has.
    AdvanceLess, "advance-less";
    /// A paging buffer is said to be too small for an operation, however empty it is.
    StandStill, "stand-still";
    /// An allocation is said to be busy, also when it is idle.
    StayBusy, "stay-busy";
    /// A build is answered with STATUS_NOT_SUPPORTED, which no document allows, and nothing is encoded.
    AnswerNotSupported, "answer-not-supported";
    /// The split offsets of the driver's patch-location list come in the reverse order. Its occasions are the command buffers
    /// that can be split.
    ReverseSplitOffsets, "reverse-split-offsets";
    /// The driver has no memory to create a process, a context or an allocation, or to open one.
    NoMemory, "no-memory";
    /// A transfer goes to the page behind the right one; the last page is not moved.
    TransferToNextPage, "transfer-to-next-page";
    /// The second half of a transfer is not moved.
    HalfTransfer, "half-transfer";
    /// The first page of a fill is not filled.
    FillFromNextPage, "fill-from-next-page";
    /// The second half of a fill is not filled.
    HalfFill, "half-fill";
    /// A run of entries that become valid has one more, behind its last.
    LongEntries, "long-entries";
    /// A run of entries begins at the index behind the right one.
    EntriesAtNextIndex, "entries-at-next-index";
    /// Leaf entries of a user's process lead to system memory at the offset in their segment. Its occasions are those that lead
    /// elsewhere.
    EntriesOfSystemMemory, "entries-of-system-memory";
    /// Leaf entries of a user's process that become valid read as zero.
    ZeroEntries, "zero-entries";
    /// Leaf entries of a user's process allow writes. Its occasions are those that do not.
    WritableEntries, "writable-entries";
    /// All leaf entries of a run of a user's process are as the first. Its occasions are the runs of several pages.
    RepeatEntries, "repeat-entries";
    /// An entry that leads to a table leads to the page behind it.
    LinkNextTable, "link-next-table";
    /// The 64 KiB side of an entry with two sides is not written.
    SkipLargeLink, "skip-large-link";
    /// A table is not initialised.
    SkipInitialUpdate, "skip-initial-update";
    /// An entry that is to lead to no table any more is not written.
    KeepTableLink, "keep-table-link";
    /// The last page of a range is not flushed. Its occasions are those that are not the whole space, as for the next.
    ShortFlush, "short-flush";
    /// The first page of a range is not flushed.
    FlushFromNextPage, "flush-from-next-page";
    /// The last page of MAP_APERTURE_SEGMENT, of either form, is not mapped.
    ShortMapAperture, "short-map-aperture";
    /// MAP_APERTURE_SEGMENT, of either form, maps all pages one page too far in the aperture.
    MapAtNextPage, "map-at-next-page";
    /// The last page of UNMAP_APERTURE_SEGMENT is not unmapped.
    ShortUnmapAperture, "short-unmap-aperture";
    /// UNMAP_APERTURE_SEGMENT lets the range show the page behind the dummy page.
    UnmapToNextPage, "unmap-to-next-page";
    /// A notification is taken to be about all but its last page.
    ShortNotification, "short-notification";
    /// The addresses of a transfer are taken for those of the part: nothing is added to them. Its occasions are the parts behind the
    /// first of an allocation (BPB-21).
    AddNoTransferOffset, "add-no-transfer-offset";
    /// A notification is taken to be about all but its first page.
    NotifyFromNextPage, "notify-from-next-page";
    /// Leaf entries of a user's process do not have the GPU snoop the CPU's caches. Its occasions are those that do.
    IncoherentEntries, "incoherent-entries";
    /// The last patch location of a command buffer names the slot behind the last. Its occasions are the command buffers with a
    /// patch location.
    SlotBeyondTable, "slot-beyond-table";
    /// A patch location begins before the next split offset of its command buffer and ends behind it. Its occasions are the command
    /// buffers with an allocation before a split offset.
    PatchAcrossSplit, "patch-across-split";
    /// An entry that shows a large page points to a table there (GVA-21). Its occasions are those entries.
    LargePageAsTable, "large-page-as-table";
}
