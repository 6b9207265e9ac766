#include "driver.hpp"

BOOLEAN Adapter::Append(DXGKARG_BUILDPAGINGBUFFER *build, const HwCommand &command) {
    if (build->DmaSize < sizeof(command)) {
        return FALSE;
    }
    RtlCopyMemory(build->pDmaBuffer, &command, sizeof(command));
    build->pDmaBuffer = static_cast<BYTE *>(build->pDmaBuffer) + sizeof(command);
    build->DmaSize -= sizeof(command);
    return TRUE;
}

// Pages of a list lie anywhere: one command for each.
NTSTATUS Adapter::BuildTransfer(DXGKARG_BUILDPAGINGBUFFER *build) {
    const auto &transfer = build->Transfer;
    auto addressOf = [&](UINT segmentId, PHYSICAL_ADDRESS address, PMDL mdl, UINT page) -> UINT64 {
        if (segmentId == 0) {
            return HARDWARE_SYSTEM_BASE + MmGetMdlPfnArray(mdl)[transfer.MdlOffset + page] * PAGE_SIZE;
        }
        return static_cast<UINT64>(address.QuadPart) + transfer.TransferOffset + page * static_cast<UINT64>(PAGE_SIZE);
    };
    for (UINT page = build->MultipassOffset; page < transfer.TransferSize / PAGE_SIZE; page++) {
        UINT64 to = addressOf(transfer.Destination.SegmentId, transfer.Destination.SegmentAddress, transfer.Destination.pMdl, page);
        UINT64 from = addressOf(transfer.Source.SegmentId, transfer.Source.SegmentAddress, transfer.Source.pMdl, page);
        if (!Append(build, {Opcode::Copy, to, from, PAGE_SIZE})) {
            build->MultipassOffset = page;
            return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        }
    }
    return STATUS_SUCCESS;
}

NTSTATUS Adapter::BuildMap(DXGKARG_BUILDPAGINGBUFFER *build) {
    const auto &map = build->MapApertureSegment;
    const PFN_NUMBER *pages = MmGetMdlPfnArray(map.pMdl) + map.MdlOffset;
    for (UINT page = build->MultipassOffset; page < map.NumberOfPages; page++) {
        if (!Append(build, {Opcode::Show, map.OffsetInPages + page, pages[page], 1})) {
            build->MultipassOffset = page;
            return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        }
    }
    return STATUS_SUCCESS;
}

// The CPU writes the table before the call returns.
NTSTATUS Adapter::UpdatePageTable(DXGKARG_BUILDPAGINGBUFFER *build) {
    const auto &update = build->UpdatePageTable;
    auto *table = static_cast<UINT64 *>(update.PageTableAddress.CpuVirtual);
    for (UINT at = 0; at < update.NumPageTableEntries; at++) {
        const DXGK_PTE &pte = update.pPageTableEntries[update.Flags.Repeat ? 0 : at];
        UINT64 flags = (pte.Valid ? ENTRY_VALID : 0) | (pte.ReadOnly ? ENTRY_READ_ONLY : 0);
        table[update.StartIndex + at] = MakeEntry(pte.PageAddress, static_cast<UINT>(pte.Segment), flags);
    }
    return STATUS_SUCCESS;
}

NTSTATUS Adapter::BuildPagingBuffer(DXGKARG_BUILDPAGINGBUFFER *build) {
    if (build->pDmaBufferPrivateData != nullptr) {
        // The pointer stays where it is; the buffer is known by where it begins.
        auto *data = static_cast<DmaBufferData *>(build->pDmaBufferPrivateData);
        data->DmaBuffer = static_cast<BYTE *>(build->pDmaBuffer) - build->DmaBufferWriteOffset;
        data->Address = MmGetPhysicalAddress(data->DmaBuffer);
    }
    switch (build->Operation) {
    case DXGK_OPERATION_TRANSFER:
        return BuildTransfer(build);
    case DXGK_OPERATION_FILL:
        return Append(build, {Opcode::Fill, static_cast<UINT64>(build->Fill.Destination.SegmentAddress.QuadPart),
                              build->Fill.FillPattern, build->Fill.FillSize})
                   ? STATUS_SUCCESS
                   : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    case DXGK_OPERATION_DISCARD_CONTENT:
        return STATUS_SUCCESS;
    case DXGK_OPERATION_MAP_APERTURE_SEGMENT:
        return BuildMap(build);
    case DXGK_OPERATION_UNMAP_APERTURE_SEGMENT:
        return Append(build, {Opcode::Show, build->UnmapApertureSegment.OffsetInPages,
                              static_cast<UINT64>(build->UnmapApertureSegment.DummyPage.QuadPart) >> PAGE_SHIFT,
                              build->UnmapApertureSegment.NumberOfPages})
                   ? STATUS_SUCCESS
                   : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    case DXGK_OPERATION_VIRTUAL_TRANSFER:
        return Append(build, {Opcode::Copy, build->TransferVirtual.DestinationVirtualAddress,
                              build->TransferVirtual.SourceVirtualAddress, build->TransferVirtual.TransferSizeInBytes})
                   ? STATUS_SUCCESS
                   : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    case DXGK_OPERATION_VIRTUAL_FILL:
        return Append(build, {Opcode::Fill, build->FillVirtual.DestinationVirtualAddress, build->FillVirtual.FillPattern,
                              build->FillVirtual.FillSizeInBytes})
                   ? STATUS_SUCCESS
                   : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    case DXGK_OPERATION_UPDATE_PAGE_TABLE:
        return UpdatePageTable(build);
    case DXGK_OPERATION_FLUSH_TLB:
        return Append(build, {Opcode::Flush, build->FlushTlb.StartVirtualAddress, build->FlushTlb.EndVirtualAddress, 0})
                   ? STATUS_SUCCESS
                   : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    default:
        return STATUS_NOT_SUPPORTED;
    }
}
