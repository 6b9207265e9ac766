//! Paging between physical places.

use vidmm::PhysicalAddress;
use vidmm::contract::{DiscardContent, Fill, MemoryTransferDirection, PatchingCaps, Transfer};

use super::{AllocationRange, SoftKmd};
use crate::encoding::{self, Command};

impl SoftKmd {
    pub(super) fn patching_caps(&self) -> PatchingCaps {
        PatchingCaps {
            max_allocation_list_slot_id: self.config.max_allocation_list_slot_id,
            preemption_aware: self.config.preemption_aware,
            no_dma_patching: false,
            bank_range_table: self.config.bank_range_table.clone(),
        }
    }

    /// Command number `index`. Content that leaves local memory becomes plain first; a transfer of no bytes has no
    /// command (BPB-27).
    pub(super) fn physical_transfer(&self, op: &Transfer, index: u64) -> Option<Command> {
        let (source, destination) = (op.first_source(), op.first_destination());
        let direction = self.direction(source, destination);
        let transfer = |index| {
            let (start, bytes) = self.part(op.transfer_size, index)?;
            Some(Command::Transfer(encoding::Transfer {
                source: self.addresses.address(source).offset(start),
                destination: self.addresses.address(destination).offset(start),
                bytes,
                direction,
                allocation: op.allocation,
                allocation_offset: op.transfer_offset + start,
            }))
        };
        if direction != MemoryTransferDirection::LocalToSystem {
            return transfer(index);
        }
        let range = AllocationRange {
            virtual_address: self.addresses.address(source),
            bytes: op.transfer_size,
            allocation: op.allocation,
            allocation_offset: op.transfer_offset,
        };
        self.plain_first(&range, index, transfer)
    }

    pub(super) fn physical_fill(&self, op: &Fill, index: u64) -> Option<Command> {
        let destination = AllocationRange {
            virtual_address: self.addresses.address(op.destination),
            bytes: op.fill_size,
            allocation: op.allocation,
            allocation_offset: 0,
        };
        self.plain_first(&destination, index, |index| {
            let (start, bytes) = self.part(op.fill_size, index)?;
            Some(Command::Fill(encoding::Fill {
                destination: destination.virtual_address.offset(start),
                bytes,
                pattern: op.fill_pattern,
                allocation: op.allocation,
                allocation_offset: start,
            }))
        })
    }

    /// There is nothing to execute, unless marks of compression are to go with the content.
    pub(super) fn discard_content(&self, op: &DiscardContent, index: u64) -> Option<Command> {
        let range = AllocationRange {
            virtual_address: self.addresses.address(op.address),
            bytes: self.allocations.get(&op.allocation)?.size_in_pages(),
            allocation: op.allocation,
            allocation_offset: 0,
        };
        self.decompress(&range, index)
    }

    /// Which way a copy goes: through the aperture is to or from system memory.
    fn direction(&self, source: PhysicalAddress, destination: PhysicalAddress) -> MemoryTransferDirection {
        let is_local =
            |address: PhysicalAddress| self.config.memory_segments().any(|(segment, ..)| segment == address.segment);
        match (is_local(source), is_local(destination)) {
            (true, true) => MemoryTransferDirection::LocalToLocal,
            (false, true) => MemoryTransferDirection::SystemToLocal,
            (_, false) => MemoryTransferDirection::LocalToSystem,
        }
    }
}
