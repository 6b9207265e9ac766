/* Paging: copies between the memory segment and pages of system memory, fills, and the pages that the aperture shows. */
#include "driver.h"

/* Appends a command; FALSE if there is no room for it. */
static BOOLEAN Append(DXGKARG_BUILDPAGINGBUFFER *Build, GPU_OPCODE Opcode, UINT64 One, UINT64 Two, UINT64 Three) {
    GPU_COMMAND Command = {Opcode, {One, Two, Three, 0}};
    if (Build->DmaSize < sizeof(Command)) {
        return FALSE;
    }
    RtlCopyMemory(Build->pDmaBuffer, &Command, sizeof(Command));
    Build->pDmaBuffer = (BYTE *)Build->pDmaBuffer + sizeof(Command);
    Build->DmaSize -= sizeof(Command);
    return TRUE;
}

/* The engine's address of a page of system memory. */
static UINT64 SystemAddress(PFN_NUMBER Page) {
    UINT64 Address = (BUG(PAGE_16_BITS) ? (UINT16)Page : (UINT64)Page) * PAGE_SIZE;
    return GPU_SYSTEM_BASE + (BUG(ADDRESS_32_BITS) ? (UINT)Address : BUG(ADDRESS_40_BITS) ? Address & 0xFFFFFFFFFFull : Address);
}

/* The engine's address of a page of one side. TransferOffset belongs to the segment's side, MdlOffset to the list's. */
static UINT64 AddressOfPage(const DXGKARG_BUILDPAGINGBUFFER *Build, UINT SegmentId, UINT64 SegmentAddress, MDL *Mdl, UINT Page) {
    if (SegmentId != 0) {
        UINT64 Start = BUG(TRANSFER_OFFSET_IGNORED) ? 0 : Build->Transfer.TransferOffset;
        return SegmentAddress + (BUG(BASE_ADDRESS_ADDED) ? GPU_MEMORY_BASE : 0) + Start + (UINT64)Page * PAGE_SIZE;
    }
    if (!BUG(MDL_OFFSET_IGNORED)) {
        Page += Build->Transfer.MdlOffset;
    }
    if (BUG(MDL_KEPT)) {
        /* The list of an operation before, whose packet may have ended. */
        static MDL *Kept;
        MDL *Before = Kept != NULL ? Kept : Mdl;
        Kept = Page == 0 && Kept == NULL ? Mdl : Kept;
        Mdl = Before;
    }
    if (BUG(MDL_READ_LATE) && Page == 0) {
        static MDL *Before;
        Page += Before != NULL && MmGetMdlByteCount(Before) == 1; /* never */
        Before = Mdl;
    }
    if (BUG(FIRST_PAGE_COUNTED_ON)) {
        return SystemAddress(MmGetMdlPfnArray(Mdl)[0] + Page);
    }
    return SystemAddress(MmGetMdlPfnArray(Mdl)[Page]);
}

/* One command for each page, because the pages of a list lie anywhere. MultipassOffset counts those of earlier buffers. */
static NTSTATUS BuildTransfer(DXGKARG_BUILDPAGINGBUFFER *Build) {
    UINT Count = (UINT)(Build->Transfer.TransferSize / PAGE_SIZE) - (BUG(SHORT_TRANSFER) ? 1 : 0);
    UINT Page = BUG(MULTIPASS_FROM_START) ? 0 : Build->MultipassOffset;
    if (Build->Transfer.TransferSize == 0) {
        /* After a reset of the adapter: the content of the memory segment is gone, and there is nothing to do. */
        return BUG(RESET_TRANSFER_REFUSED) ? STATUS_NOT_SUPPORTED : STATUS_SUCCESS;
    }
    for (; Page < Count; Page++) {
        UINT64 From = AddressOfPage(Build, Build->Transfer.Source.SegmentId,
                                    (UINT64)Build->Transfer.Source.SegmentAddress.QuadPart, Build->Transfer.Source.pMdl, Page);
        UINT64 To = AddressOfPage(Build, Build->Transfer.Destination.SegmentId,
                                  (UINT64)Build->Transfer.Destination.SegmentAddress.QuadPart,
                                  Build->Transfer.Destination.pMdl, Page);
        if (!Append(Build, GPU_COPY, BUG(SWAPPED_TRANSFER) ? To : From, BUG(SWAPPED_TRANSFER) ? From : To, PAGE_SIZE)) {
            Build->MultipassOffset = Page + (BUG(MULTIPASS_SKIPS_ONE) ? 1 : 0);
            return BUG(TRANSFER_REPORTS_SUCCESS) ? STATUS_SUCCESS : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        }
    }
    return STATUS_SUCCESS;
}

static NTSTATUS BuildFill(DXGKARG_BUILDPAGINGBUFFER *Build) {
    UINT64 To = (UINT64)Build->Fill.Destination.SegmentAddress.QuadPart;
    UINT64 Size = (BUG(HALF_FILL) ? Build->Fill.FillSize / 2 : Build->Fill.FillSize) + (BUG(FILL_TOO_FAR) ? PAGE_SIZE : 0);
    UINT Pattern = BUG(FILL_PATTERN_IGNORED) ? 0xFFFFFFFF : Build->Fill.FillPattern;
    if (BUG(BUSY_FILL)) {
        return STATUS_GRAPHICS_ALLOCATION_BUSY;
    }
    return Append(Build, GPU_FILL, To, Size, Pattern) ? STATUS_SUCCESS : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}

#ifdef WITH_APERTURE
static NTSTATUS BuildMap(DXGKARG_BUILDPAGINGBUFFER *Build) {
    const PFN_NUMBER *Pages =
        MmGetMdlPfnArray(Build->MapApertureSegment.pMdl) + (BUG(MAP_OFFSET_IGNORED) ? 0 : Build->MapApertureSegment.MdlOffset);
    UINT Page = Build->MultipassOffset;
    for (; Page < Build->MapApertureSegment.NumberOfPages - (BUG(SHORT_MAP) ? 1 : 0); Page++) {
        UINT64 Shows = BUG(MAP_COUNTS_ON) ? Pages[0] + Page : BUG(MAP_16_BITS) ? (UINT16)Pages[Page] : Pages[Page];
        if (!Append(Build, GPU_SHOW, Build->MapApertureSegment.OffsetInPages + Page, 1, Shows)) {
            Build->MultipassOffset = Page;
            return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        }
    }
    return STATUS_SUCCESS;
}

static NTSTATUS BuildUnmap(DXGKARG_BUILDPAGINGBUFFER *Build) {
    UINT64 DummyPage = (UINT64)Build->UnmapApertureSegment.DummyPage.QuadPart >> PAGE_SHIFT;
    if (BUG(NO_DUMMY_PAGE)) {
        return STATUS_SUCCESS;
    }
    return Append(Build, GPU_SHOW, Build->UnmapApertureSegment.OffsetInPages, Build->UnmapApertureSegment.NumberOfPages, DummyPage)
               ? STATUS_SUCCESS
               : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}
#endif

#ifdef WITH_KEPT_POINTERS
/* A buffer is where it was when its private data was written, and private data stays when the buffer is used again. */
static BOOLEAN IsKept(const DXGKARG_BUILDPAGINGBUFFER *Build) {
    PAGING_DATA *Data = (PAGING_DATA *)Build->pDmaBufferPrivateData;
    BYTE *Begin = (BYTE *)Build->pDmaBuffer - Build->DmaBufferWriteOffset;
    if (Data->DmaBuffer == NULL) {
        Data->DmaBuffer = Begin;
        Data->Address = (UINT64)MmGetPhysicalAddress(Begin).QuadPart;
    }
    return Data->DmaBuffer == Begin && (ULONG_PTR)Begin % PAGE_SIZE == 0 && Data->Address >> 32 != 0;
}
#endif

NTSTATUS BuildPagingBuffer(const HANDLE hAdapter, DXGKARG_BUILDPAGINGBUFFER *Build) {
    ADAPTER *Adapter = (ADAPTER *)hAdapter;
#ifdef WITH_KEPT_POINTERS
    if (Build->DmaBufferPrivateDataSize != 0 && !IsKept(Build)) {
        return STATUS_UNSUCCESSFUL;
    }
    if (BUG(PAGING_DATA_TOO_FAR)) {
        Build->pDmaBufferPrivateData = (BYTE *)Build->pDmaBufferPrivateData + Build->DmaBufferPrivateDataSize + 8;
    }
#endif
    if (BUG(FAR_BEHIND)) {
        ((volatile BYTE *)Build->pDmaBuffer)[Build->DmaSize + 1099] = 0;
    }
    if (BUG(EARLIER_CHANGED) && Build->DmaBufferWriteOffset != 0) {
        ((volatile BYTE *)Build->pDmaBuffer)[-(LONG)Build->DmaBufferWriteOffset + 16] ^= 1;
    }
    if (BUG(FORGED_IN_BUILD)) {
        ForgeEnd(Adapter, Adapter->LastSubmittedFenceId + 1);
    }
    switch (Build->Operation) {
    case DXGK_OPERATION_TRANSFER:
        return BuildTransfer(Build);
    case DXGK_OPERATION_FILL:
        return BuildFill(Build);
    case DXGK_OPERATION_DISCARD_CONTENT:
        /* Nothing of an allocation is kept beside its memory. */
        return STATUS_SUCCESS;
#ifdef WITH_APERTURE
    case DXGK_OPERATION_MAP_APERTURE_SEGMENT:
        return BuildMap(Build);
    case DXGK_OPERATION_UNMAP_APERTURE_SEGMENT:
        return BuildUnmap(Build);
#endif
    default:
        return BUG(UNKNOWN_IS_SUCCESS) ? STATUS_SUCCESS : STATUS_NOT_SUPPORTED;
    }
}
