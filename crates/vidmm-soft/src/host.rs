//! The host: hands out system memory, and maps it in the IOMMU.

use std::collections::BTreeMap;

use vidmm::contract::{BackingStoreError, CpuAddressError, CpuVirtualAddress, Host, IoMmuDomain};
use vidmm::{Extent, GpuVirtualAddress, PAGE_SIZE, PAGE_SIZE_64K, PhysicalAddress, SegmentId};
use vidmm_runtime::{FreeRanges, Occasions};

use crate::cpu_addresses::CpuAddresses;
use crate::faults::{ModelGpuFaults, strikes};
use crate::io_mmu::{IoMmu, IoMmuMisuse, IoMmuMisuseKind};
use crate::system::{self, SYSTEM_MEMORY_BYTES, SystemMemory};

/// A host that keeps backing store in [`SystemMemory`].
///
/// The host takes the smallest free range with enough room, the lowest of several; ranges are whole units of 64 KiB, and
/// address 0 is never handed out. All calls take logarithmic time, apart from the content that is given back.
#[derive(Debug)]
pub struct SoftHost {
    memory: SystemMemory,
    io_mmu: IoMmu,
    free: FreeRanges,
    committed: BTreeMap<u64, u64>,
    committed_bytes: u64,
    commit_limit: Option<u64>,
    cpu_addresses: CpuAddresses,
    fail_commit: Option<Occasions>,
    fail_user_mode_va_mapping: Option<Occasions>,
}

impl SoftHost {
    /// A host over `memory` that commits at most `commit_limit` bytes, and maps them in `io_mmu`.
    pub fn new(memory: SystemMemory, io_mmu: IoMmu, commit_limit: Option<u64>) -> Self {
        Self {
            memory,
            io_mmu,
            free: FreeRanges::new(PAGE_SIZE_64K, SYSTEM_MEMORY_BYTES),
            committed: BTreeMap::new(),
            committed_bytes: 0,
            commit_limit,
            cpu_addresses: CpuAddresses::default(),
            fail_commit: None,
            fail_user_mode_va_mapping: None,
        }
    }

    /// The host with the faults that are its own.
    pub(crate) fn with_faults(self, faults: &ModelGpuFaults) -> Self {
        let ModelGpuFaults { fail_commit, fail_user_mode_va_mapping, .. } = faults.clone();
        Self { fail_commit, fail_user_mode_va_mapping, ..self }
    }

    /// The system memory that it hands out.
    pub fn memory(&self) -> &SystemMemory {
        &self.memory
    }

    /// The IOMMU that it maps in.
    pub fn io_mmu(&self) -> &IoMmu {
        &self.io_mmu
    }

    /// The CPU's view of memory.
    pub fn cpu_addresses(&self) -> &CpuAddresses {
        &self.cpu_addresses
    }

    /// Bytes that are committed now.
    pub fn committed_bytes(&self) -> u64 {
        self.committed_bytes
    }

    /// Whether `size` bytes from `address` on are inside of what one commit gave.
    fn is_committed(&self, address: PhysicalAddress, size: u64) -> bool {
        let before = self.committed.range(..=address.offset).next_back();
        let end = before.map_or(0, |(&start, &bytes)| start + bytes);
        address.segment.is_system() && address.offset.checked_add(size).is_some_and(|wanted| wanted <= end)
    }
}

impl Host for SoftHost {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        let error = BackingStoreError { size };
        let committed = self.committed_bytes.checked_add(size).ok_or(error)?;
        let fails = self.fail_commit.as_mut().is_some_and(Occasions::strike_once_started);
        if fails || size == 0 || self.commit_limit.is_some_and(|limit| committed > limit) {
            return Err(error);
        }
        let units = size.checked_next_multiple_of(PAGE_SIZE_64K).ok_or(error)?;
        let offset = self.free.take(units).ok_or(error)?;
        // A device that was not told to forget where it was may have written since it was given back.
        self.memory.lock().release(offset / PAGE_SIZE, units / PAGE_SIZE);
        self.committed.insert(offset, size);
        self.committed_bytes = committed;
        Ok(PhysicalAddress { segment: SegmentId::SYSTEM, offset })
    }

    /// # Panics
    ///
    /// If `address` and `size` are not those of one commit: the core has lost track.
    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        assert_eq!(
            self.committed.remove(&address.offset),
            Some(size),
            "decommit of what was not committed: {address:?}"
        );
        self.io_mmu.note_decommit(address.offset, size);
        self.committed_bytes -= size;
        self.memory.lock().release(address.offset / PAGE_SIZE, size.div_ceil(PAGE_SIZE));
        self.free.give(address.offset, size.next_multiple_of(PAGE_SIZE_64K));
    }

    fn reset_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        self.memory.lock().release(address.offset / PAGE_SIZE, size.div_ceil(PAGE_SIZE));
    }

    fn map_cpu_virtual_address(
        &mut self,
        segment: SegmentId,
        extents: &[Extent],
    ) -> Result<CpuVirtualAddress, CpuAddressError> {
        match strikes(&mut self.fail_user_mode_va_mapping) {
            true => Err(CpuAddressError { size: extents.iter().map(|extent| extent.size).sum() }),
            false => self.cpu_addresses.map(segment, extents),
        }
    }

    fn rotate_cpu_virtual_address(&mut self, address: CpuVirtualAddress, segment: SegmentId, extents: &[Extent]) {
        self.cpu_addresses.rotate(address, segment, extents);
    }

    fn unmap_cpu_virtual_address(&mut self, address: CpuVirtualAddress) {
        self.cpu_addresses.unmap(address);
    }

    fn kernel_virtual_address(&mut self, table: PhysicalAddress) -> CpuVirtualAddress {
        assert!(self.is_committed(table, 1), "the CPU is to see what was not committed: {table:?}");
        system::kernel_virtual_address(table)
    }

    fn total_system_memory(&self) -> u64 {
        SYSTEM_MEMORY_BYTES
    }

    /// A breach of the contract is noted as one of the IOMMU's [`misuses`](IoMmu::misuses).
    fn map_io_mmu(
        &mut self,
        domain: IoMmuDomain,
        virtual_address: GpuVirtualAddress,
        system_address: PhysicalAddress,
        size: u64,
        read_only: bool,
    ) {
        if !self.is_committed(system_address, size) {
            let kind = IoMmuMisuseKind::MappedUncommitted;
            return self.io_mmu.note(IoMmuMisuse { kind, domain, virtual_address, size });
        }
        self.io_mmu.map(domain, virtual_address, system_address.offset, size, read_only);
    }

    /// A breach of the contract is noted as one of the IOMMU's [`misuses`](IoMmu::misuses).
    fn unmap_io_mmu(&mut self, domain: IoMmuDomain, virtual_address: GpuVirtualAddress, size: u64) {
        self.io_mmu.unmap(domain, virtual_address, size);
    }
}
