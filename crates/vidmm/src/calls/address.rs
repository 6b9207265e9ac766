//! GPU virtual addresses: reserve and map (4.8).

use crate::{
    adapter::Adapter,
    addresses,
    calls::resident::REQUESTS_MAX,
    contract::Host,
    event::{Event, error::MapError},
    gpu_va::{Mapping, PageTables},
    id::{AllocationId, AllocationIx, DeviceIx, PagingQueueId, PagingQueueIx},
    manager::VidMm,
    objects::{Objects, request::RequestKind},
    plans::{Plans, tables},
    state::State,
    units::{Extent, GpuVirtualAddress, PAGE_SIZE, PageSize},
};

/// A mapping to be made.
#[doc(alias = "D3DDDI_MAPGPUVIRTUALADDRESS")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapGpuVirtualAddress {
    /// The first address; none lets the core choose. The whole range must be free or inside one reservation.
    pub base_address: Option<GpuVirtualAddress>,
    /// The allocation.
    pub allocation: AllocationId,
    /// The offset of the part in the allocation, in bytes; a multiple of 4 KiB.
    pub offset: u64,
    /// The number of bytes; a multiple of 4 KiB. 0 is all that follow the offset.
    pub size: u64,
    /// Whether the GPU may write. It may in any case where the driver reports no
    /// [`READ_ONLY_MEMORY_SUPPORTED`](crate::contract::GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED).
    pub write: bool,
    /// Whether the GPU may execute what is there. It may in any case where the driver reports no
    /// [`NO_EXECUTE_MEMORY_SUPPORTED`](crate::contract::GpuMmuFlags::NO_EXECUTE_MEMORY_SUPPORTED).
    pub execute: bool,
    /// Handed back to the driver in the leaf entries (GVA-57).
    pub driver_protection: u64,
}

impl MapGpuVirtualAddress {
    /// The whole of `allocation`, writable and executable, at any free address.
    pub fn whole(allocation: AllocationId) -> Self {
        Self { base_address: None, allocation, offset: 0, size: 0, write: true, execute: true, driver_protection: 0 }
    }
}

/// A mapping that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its first address.
    pub virtual_address: GpuVirtualAddress,
    /// The value of the paging queue's fence from which on it can be used; 0 is at once (GVA-50). Work submitted after the
    /// call waits for it by itself.
    pub paging_fence_value: u64,
    /// Writes through it fault: as was asked for, if the driver has said that its entries can forbid them.
    pub read_only: bool,
}

/// A reservation that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Its first address.
    pub virtual_address: GpuVirtualAddress,
    /// The value of the paging queue's fence from which on it reads as zero; 0 if it faults. Work submitted after the call
    /// waits for it by itself.
    pub paging_fence_value: u64,
}

/// # GPU virtual addresses: map and reserve
impl VidMm {
    /// Reserves `size` bytes of the addresses of the queue's process, at `base` or anywhere; multiples of 64 KiB (GVA-52).
    ///
    /// Where nothing is mapped they read as zero, and writes are dropped, if the driver has reported
    /// [`ZERO_IN_PTE_SUPPORTED`](crate::contract::GpuMmuFlags::ZERO_IN_PTE_SUPPORTED) (GVA-20). Else access there faults. The
    /// memory of the page tables that say where the range ends is set aside before the call returns (D9).
    ///
    /// # Errors
    ///
    /// If the range is in use, or not a possible range, or the tables would not fit. Nothing changed then.
    #[doc(alias = "D3DKMTReserveGpuVirtualAddress")]
    pub fn reserve_gpu_virtual_address(
        &mut self,
        host: &mut dyn Host,
        paging_queue: PagingQueueId,
        base: Option<GpuVirtualAddress>,
        size: u64,
    ) -> Result<Reserved, MapError> {
        let (queue, device) = check_queue(&self.state, paging_queue)?;
        let index = self.state.objects[device].process;
        let base = self.state.objects[index].space.reserve(base.map(|base| base.0), size)?;
        let range = Extent { offset: base, size };
        let reads_zero = self.state.adapter.has_zero;
        if reads_zero {
            let keys = PageTables::cut_by(&self.state.adapter, range).collect();
            if let Err(error) = tables::set_tables_aside(&mut self.state, host, index, keys) {
                self.state.objects[index].space.unreserve(range, range);
                self.state.objects[index].space.release(range);
                return Err(error.into());
            }
            self.state.objects[index].tables.let_root_reach(&self.state.adapter, range.end());
        }
        let paging_fence_value = if reads_zero { self.state.objects[queue].last_value + 1 } else { 0 };
        let virtual_address = GpuVirtualAddress(base);
        let process = self.state.objects.processes.id(index);
        self.state.moment.record(|| Event::GpuVirtualAddressReserved {
            process,
            virtual_address,
            size,
            queue: Some(paging_queue),
            paging_fence_value,
        });
        if reads_zero {
            let kind = RequestKind::ReserveGpuVirtualAddress { process: index, range };
            self.requests.request(&mut self.state.objects, queue, kind);
        }
        Ok(Reserved { virtual_address, paging_fence_value })
    }

    /// Maps a part of an allocation into the address space of the queue's process. The allocation need not be resident
    /// (GVA-51); access while it is not faults.
    ///
    /// The memory of the page tables that it needs is set aside before the call returns, so that no later step can fail
    /// for lack of it (D9).
    ///
    /// # Errors
    ///
    /// If the addresses cannot be had, the part is not a possible part, or the tables would not fit. Nothing changed then.
    #[doc(alias = "D3DKMTMapGpuVirtualAddress")]
    pub fn map_gpu_virtual_address(
        &mut self,
        host: &mut dyn Host,
        paging_queue: PagingQueueId,
        desc: &MapGpuVirtualAddress,
    ) -> Result<Mapped, MapError> {
        let (queue, device) = check_queue(&self.state, paging_queue)?;
        let allocation = self.state.objects.lookup_allocation(desc.allocation)?;
        if !self.state.objects[allocation].is_open_on(device) {
            return Err(MapError::WrongDevice);
        }
        let (size, pte_page_size) = part(&self.state.adapter, &self.state.objects, allocation, desc)?;
        let process = self.state.objects[device].process;
        let base = desc.base_address.map(|base| base.0);
        // The part that begins at `offset` is aligned as the whole would be.
        let alignment = self.state.objects[allocation].alignment();
        let alignment = if desc.offset.is_multiple_of(alignment.max(1)) { alignment } else { 0 };
        let large_page = self.state.adapter.large_pages.map(|large| large.bytes).filter(|&bytes| bytes <= size);
        let space = &mut self.state.objects[process].space;
        // They begin where large pages do, as far as there is room (U-23).
        let mapped = space.map(base, size, alignment.max(large_page.unwrap_or(0)), allocation);
        let virtual_address = mapped.or_else(|_| space.map(base, size, alignment, allocation))?;
        // Tables of small pages say what reads as zero, and only one of the two sizes may say anything.
        let is_over_zero = self.state.adapter.has_zero && space.is_in_reservation(virtual_address, size);
        let is_large = virtual_address.is_multiple_of(pte_page_size.bytes()) && !is_over_zero;
        let pte_page_size = if is_large { pte_page_size } else { PageSize::Kib4 };
        let mapping = Mapping {
            process,
            device,
            pte_page_size,
            read_only: !desc.write && self.state.adapter.has_read_only,
            no_execute: !desc.execute && self.state.adapter.has_no_execute,
            virtual_address,
            size,
            allocation_offset: desc.offset,
            driver_protection: desc.driver_protection,
        };
        let needed = addresses::tables_of(&self.state.adapter, &mapping).collect();
        if let Err(error) = tables::set_tables_aside(&mut self.state, host, process, needed) {
            self.state.objects[process].space.unmap(virtual_address, size);
            return Err(error.into());
        }
        if self.state.adapter.has_page_tables() {
            self.state.objects[process].tables.let_root_reach(&self.state.adapter, mapping.end());
        }
        let at_once = !is_over_zero
            && maps_at_once(&self.state.adapter, &self.state.objects, &self.plans, device, allocation, &mapping);
        let paging_fence_value = if at_once { 0 } else { self.state.objects[queue].last_value + 1 };
        let mapped = Mapped {
            virtual_address: GpuVirtualAddress(virtual_address),
            paging_fence_value,
            read_only: mapping.read_only,
        };
        let process = self.state.objects.processes.id(process);
        self.state.moment.record(|| Event::GpuVirtualAddressMapped {
            process,
            virtual_address: mapped.virtual_address,
            size,
            allocation: desc.allocation,
            allocation_offset: desc.offset,
            page_size: pte_page_size,
            read_only: mapping.read_only,
            no_execute: mapping.no_execute,
            driver_protection: mapping.driver_protection,
            queue: paging_queue,
            paging_fence_value,
        });
        if at_once {
            self.state.objects[allocation].add_mapping(mapping);
        } else {
            self.requests.request(
                &mut self.state.objects,
                queue,
                RequestKind::MapGpuVirtualAddress { allocation, mapping },
            );
        }
        Ok(mapped)
    }
}

/// A paging queue and its device, of which addresses can be asked for.
fn check_queue(state: &State, paging_queue: PagingQueueId) -> Result<(PagingQueueIx, DeviceIx), MapError> {
    let queue = state.objects.paging_queues.lookup(paging_queue)?;
    let device = state.objects[queue].device;
    state.objects.check_device(&state.moment, device)?;
    if state.adapter.is_physical() {
        return Err(MapError::PhysicalAddresses);
    }
    let pending = state.objects[device].requests.len();
    if pending >= REQUESTS_MAX {
        return Err(MapError::TooManyPending { pending });
    }
    Ok((queue, device))
}

/// The bytes of the part that `desc` names, and the largest page that can map it (GVA-41).
pub(crate) fn part(
    adapter: &Adapter,
    objects: &Objects,
    allocation: AllocationIx,
    desc: &MapGpuVirtualAddress,
) -> Result<(u64, PageSize), MapError> {
    let whole = objects[allocation].size;
    let rest = whole.checked_sub(desc.offset).filter(|&rest| rest > 0);
    let size = if desc.size == 0 { rest } else { Some(desc.size) };
    let fits = |&size: &u64| rest.is_some_and(|rest| size <= rest);
    let Some(size) = size.filter(fits).filter(|size| (size | desc.offset).is_multiple_of(PAGE_SIZE)) else {
        return Err(MapError::Part { page_size: PAGE_SIZE, size: whole });
    };
    // In system memory pages are small, and an allocation that may go there is mapped with small pages everywhere.
    let page_sizes = objects[allocation].choices.accounts().map(|account| adapter.page_size_in(account));
    let smallest_page_size = page_sizes.min().unwrap_or(PageSize::Kib4);
    let largest = adapter.pte_page_size(smallest_page_size);
    let aligned = (size | desc.offset).is_multiple_of(largest.bytes());
    Ok((size, if aligned { largest } else { PageSize::Kib4 }))
}

/// Whether a mapping needs no operation: its tables are ready, and the allocation has no valid entries to write.
fn maps_at_once(
    adapter: &Adapter,
    objects: &Objects,
    plans: &Plans,
    device: DeviceIx,
    allocation: AllocationIx,
    mapping: &Mapping,
) -> bool {
    let record = &objects[device];
    let tables = &objects[mapping.process].tables;
    let mut needed = addresses::tables_of(adapter, mapping);
    let allocation = &objects[allocation];
    record.granted == record.requests.len()
        && allocation.place.is_none()
        && plans.stream.is_retired(allocation.last_plan)
        && needed
            .all(|key| tables.get(key).is_some_and(|table| table.initialised && plans.stream.is_retired(table.plan)))
}
