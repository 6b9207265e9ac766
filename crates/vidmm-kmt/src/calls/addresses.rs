//! GPU virtual addresses.

use vidmm::{
    AllocationId, GpuVaError, GpuVirtualAddress, MapError, MapGpuVirtualAddress, Mapped, PagingQueueId, VaRangeError,
};

use super::{invalid, refused};
use crate::addresses::{Access, Mapping};
use crate::call::{Call, Reply};
use crate::objects::{Adapter, Allocation, Object, PagingQueue};
use crate::session::{Answer, Session};
use crate::status::Status;

/// Bits of `D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE`.
const PROTECTION_WRITE: u64 = 1 << 0;
const PROTECTION_EXECUTE: u64 = 1 << 1;

impl Session {
    /// Reserves addresses on a paging queue, or on the adapter.
    pub(super) fn reserve(&mut self, object: u32, base: u64, (minimum, maximum): (u64, u64), size: u64) -> Answer {
        let queue = match self.handles.get(object) {
            Ok(Object::PagingQueue(queue)) => Some((queue.id, object)),
            Ok(Object::Adapter(_)) => self.queues.iter().next().map(|(&id, &handle)| (id, handle)),
            _ => None,
        };
        let Some((queue, handle)) = queue else {
            let dead = self.handles.get(object).err();
            return Err(self.dead(object, "paging queue or adapter with a device", dead));
        };
        let (base, reserved) = self.at_free_addresses(base, (minimum, maximum), size, |session, base| {
            let (vidmm, _, host) = session.runtime.borrow();
            vidmm.reserve_gpu_virtual_address(host, queue, Some(GpuVirtualAddress(base)), size)
        })?;
        self.addresses.reserve(base, size);
        let value = match reserved.paging_fence_value {
            0 => 0,
            value if handle == object => self.issue(handle, "ReserveGpuVirtualAddress", &[], value)?,
            // Without a paging queue the caller has nothing to wait for.
            value => {
                self.await_paging(handle, value)?;
                0
            }
        };
        Ok(Reply { address: base, ..Reply::paging(value) })
    }

    pub(super) fn map(&mut self, call: &Call) -> Answer {
        let &Call::MapGpuVirtualAddress {
            paging_queue,
            allocation,
            base,
            minimum,
            maximum,
            offset,
            size,
            protection,
            driver_protection,
        } = call
        else {
            unreachable!("the caller has looked");
        };
        let &mut PagingQueue { device, id: queue, .. } = self.object(paging_queue)?;
        let &mut Allocation { id, size: whole, .. } = self.allocation_of(device, allocation)?;
        let size = if size == 0 { whole.saturating_sub(offset).next_multiple_of(4096) } else { size };
        let mapping = Mapping { size, allocation, offset, access: access(protection, driver_protection) };
        let (base, mapped) = self.at_free_addresses(base, (minimum, maximum), size, |session, base| {
            session.map_at(queue, id, base, mapping)
        })?;
        self.addresses.map(base, mapping);
        let value = self.issue(paging_queue, "MapGpuVirtualAddress", &[allocation], mapped.paging_fence_value)?;
        Ok(Reply { address: base, ..Reply::paging(value) })
    }

    /// Asks for a range of addresses: at `base`, or where `base` is 0 at the first range between two addresses that is to be had.
    fn at_free_addresses<T>(
        &mut self,
        base: u64,
        (minimum, maximum): (u64, u64),
        size: u64,
        ask: impl Fn(&mut Self, u64) -> Result<T, MapError>,
    ) -> Result<(u64, T), Reply> {
        let (mut from, is_chosen) = (minimum, base == 0);
        loop {
            let base = if is_chosen { self.addresses.choose(from, maximum, size) } else { Some(base) };
            let base = base.ok_or_else(|| invalid("no free range lies between the two addresses"))?;
            match ask(self, base) {
                Ok(answer) => return Ok((base, answer)),
                // Work in flight may still use a range that was freed.
                Err(MapError::Range(VaRangeError::InUse)) if is_chosen => from = base + size,
                // The first addresses of a process are nobody's (GVA-58).
                Err(MapError::Range(VaRangeError::Invalid { first, .. })) if is_chosen && base < first.0 => {
                    from = first.0;
                }
                Err(error) => return Err(map_refused(error)),
            }
        }
    }

    /// Asks the manager for a mapping.
    pub(super) fn map_at(
        &mut self,
        queue: PagingQueueId,
        allocation: AllocationId,
        base: u64,
        Mapping { size, offset, access, .. }: Mapping,
    ) -> Result<Mapped, MapError> {
        let desc = MapGpuVirtualAddress {
            base_address: Some(GpuVirtualAddress(base)),
            allocation,
            offset,
            size,
            write: access.write,
            execute: access.execute,
            driver_protection: access.driver_protection,
        };
        let (vidmm, _, host) = self.runtime.borrow();
        vidmm.map_gpu_virtual_address(host, queue, &desc)
    }

    /// Frees addresses. Time passes while work in flight uses what was mapped in a reservation, and was destroyed.
    pub(super) fn free_address(&mut self, adapter: u32, base: u64, size: u64) -> Answer {
        self.object::<Adapter>(adapter)?;
        let free = |session: &mut Self| {
            let process = session.process;
            let (vidmm, _, host) = session.runtime.borrow();
            vidmm.free_gpu_virtual_address(host, process, GpuVirtualAddress(base), size)
        };
        let is_early = |session: &Self, error: &GpuVaError| {
            matches!(error, GpuVaError::Range(VaRangeError::HasMappings)) && !session.addresses.has_mappings(base, size)
        };
        self.patiently(free, is_early).map_err(invalid)?;
        self.addresses.free(base, size, self.call);
        Ok(Reply::default())
    }
}

/// The accesses that the bits of a protection allow.
pub(super) fn access(protection: u64, driver_protection: u64) -> Access {
    let (write, execute) = (protection & PROTECTION_WRITE != 0, protection & PROTECTION_EXECUTE != 0);
    Access { write, execute, driver_protection }
}

fn map_refused(error: MapError) -> Reply {
    let status = match error {
        MapError::NoMemory { .. } | MapError::PageTableAreaFull { .. } => Status::NO_MEMORY,
        _ => Status::INVALID_PARAMETER,
    };
    refused(status, error)
}
