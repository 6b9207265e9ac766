//! GPU virtual addresses: free (GVA-53, U-22).

use crate::{
    addresses::{self, Unreserved},
    contract::Host,
    event::{Event, error::GpuVaError},
    gpu_va::{Mapping, VaRangeError},
    id::{AllocationIx, ProcessId, ProcessIx},
    manager::VidMm,
    objects::{
        Objects,
        allocation::AllocationState,
        device::{DeferredAction, Freed},
    },
    plans::{reservations, tables},
    requests::Requests,
    residency::place,
    state::State,
    units::{Extent, GpuVirtualAddress},
};

/// # GPU virtual addresses: free
impl VidMm {
    /// Frees a mapping or a reservation, or any pages of 4 KiB of one (GVA-53, U-22). The rest on either side is on its
    /// own from now on. Work submitted before may still use a mapping; its addresses are free when that work has
    /// retired. Those of a reservation that reads as zero are free when the work that was handed out has retired: what is
    /// handed out later may fault there.
    ///
    /// Where a page of 64 KiB is cut, its rest is mapped by pages of 4 KiB, for ever (GVA-42): tables for these are set
    /// aside before the call returns, and work of the process waits while entries change.
    ///
    /// # Errors
    ///
    /// If the range is not inside one mapping or one reservation, that part of the reservation still has mappings, or the tables
    /// of a page that is cut would not fit. Nothing changed then.
    #[doc(alias = "D3DKMTFreeGpuVirtualAddress")]
    pub fn free_gpu_virtual_address(
        &mut self,
        host: &mut dyn Host,
        process: ProcessId,
        base: GpuVirtualAddress,
        size: u64,
    ) -> Result<(), GpuVaError> {
        let index = self.state.objects.processes.lookup(process)?;
        match self.state.objects[index].space.mapping_around(base.0, size)? {
            None => free_in_reservation(&mut self.state, host, index, Extent { offset: base.0, size })?,
            Some(allocation) => {
                free_in_mapping(&mut self.state, &mut self.requests, host, index, allocation, base.0, size)?
            }
        }
        self.state.moment.record(|| Event::GpuVirtualAddressFreed { process, virtual_address: base, size });
        Ok(())
    }
}

fn free_in_reservation(
    state: &mut State,
    host: &mut dyn Host,
    process: ProcessIx,
    part: Extent,
) -> Result<(), GpuVaError> {
    let around = state.objects[process].space.reservation_around(part)?;
    if state.adapter.has_zero {
        let keys = reservations::tables_of_rests(&state.adapter, &around, part);
        tables::set_tables_aside(state, host, process, keys)?;
        state.addresses.note_unreserved(Unreserved { process, part, around });
        state.moment.request_poll();
    } else {
        state.objects[process].space.release(part);
    }
    state.objects[process].space.unreserve(around, part);
    Ok(())
}

fn free_in_mapping(
    state: &mut State,
    requests: &mut Requests,
    host: &mut dyn Host,
    process: ProcessIx,
    allocation: AllocationIx,
    base: u64,
    size: u64,
) -> Result<(), GpuVaError> {
    let end = base + size;
    let record = &state.objects[allocation];
    let ends = [base, end - 1].map(|address| mapping_around(&state.objects, allocation, process, address));
    // A range that is neither a mapping nor waits to be one is ending: its device has closed the allocation.
    let is_its = |of: &Mapping| !record.is(AllocationState::DESTROYED) && record.is_open_on(of.device);
    let [Some(first), Some(last)] = ends.map(|of| of.filter(is_its)) else {
        return Err(VaRangeError::NotFound.into());
    };
    let rests = [first.rest_before(base), last.rest_after(end)];
    let needed = rests.iter().flatten().flat_map(|rest| addresses::tables_of(&state.adapter, rest)).collect();
    tables::set_tables_aside(state, host, process, needed)?;
    state.objects[process].space.free(base, size);
    let freed = Freed { process, virtual_address: base, size, rests };
    requests.defer(&mut state.objects, first.device, DeferredAction::Unmap { allocation, freed });
    Ok(())
}

/// The mapping around an address of a process, made or asked for.
pub(crate) fn mapping_around(
    objects: &Objects,
    allocation: AllocationIx,
    process: ProcessIx,
    address: u64,
) -> Option<Mapping> {
    let mut mappings = objects[allocation].mappings();
    let is_it = |mapping: &Mapping| mapping.is_around(process, address);
    mappings.find(is_it).or_else(|| place::mappings_asked_for(objects, allocation).find(is_it))
}
