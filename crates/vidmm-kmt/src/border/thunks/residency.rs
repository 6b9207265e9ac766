//! GPU virtual addresses, and the list of a device.

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::{bits, elements};
use crate::border::client;
use crate::call::{Call, FenceValue, Reply, UpdateOperation};
use crate::status::Status;

/// `D3DKMT_UPDATEGPUVIRTUALADDRESS`: the update does not wait for the fence.
const DO_NOT_WAIT: u32 = 1 << 0;

/// `D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE`.
const MAP: i32 = 0;
const UNMAP: i32 = 1;
const COPY: i32 = 2;
const MAP_PROTECT: i32 = 3;

/// Reads an operation of an update; none of an unknown type.
///
/// # Safety
///
/// The type says which kind of the union is filled in.
unsafe fn read_operation(operation: &wdk::D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION) -> Option<UpdateOperation> {
    // SAFETY: the caller says so, and the first five members of both kinds of a map are the same.
    unsafe {
        let of = &operation.Anonymous;
        Some(match operation.OperationType {
            MAP | MAP_PROTECT => {
                // A plain map may be read and written (GVA-54).
                let (protection, driver_protection) = match operation.OperationType {
                    MAP => (1, 0),
                    _ => ((&raw const of.MapProtect.Protection).cast::<u64>().read(), of.MapProtect.DriverProtection),
                };
                UpdateOperation::Map {
                    base: of.Map.BaseAddress,
                    size: of.Map.SizeInBytes,
                    allocation: of.Map.hAllocation,
                    offset: of.Map.AllocationOffsetInBytes,
                    allocation_size: of.Map.AllocationSizeInBytes,
                    protection,
                    driver_protection,
                }
            }
            UNMAP => UpdateOperation::Unmap { base: of.Unmap.BaseAddress, size: of.Unmap.SizeInBytes },
            COPY => UpdateOperation::Copy {
                source: of.Copy.SourceAddress,
                base: of.Copy.DestAddress,
                size: of.Copy.SizeInBytes,
            },
            _ => return None,
        })
    }
}

/// `struct vidmm_kmt_room`.
#[repr(C)]
#[derive(Debug)]
pub struct QueryRoom {
    device: u32,
    num_allocations: u32,
    allocations: *const u32,
    num_bytes_to_trim: u64,
    /// Bytes now, bytes after trims, bytes of others: of local memory, then of system memory.
    bytes: [u64; 6],
}

thunks! {
    /// Answers whether MakeResident would accept a list.
    vidmm_kmt_query_room(args: QueryRoom) {
        // SAFETY: the array has so many elements.
        let allocations = unsafe { elements(args.allocations, args.num_allocations) };
        let reply = client::call(Call::QueryRoom { device: args.device, allocations });
        args.num_bytes_to_trim = reply.num_bytes_to_trim;
        args.bytes = Vec::as_slice(&reply.values).try_into().unwrap_or_default();
        reply
    }

    /// Reserves GPU virtual addresses.
    D3DKMTReserveGpuVirtualAddress(args: wdk::D3DDDI_RESERVEGPUVIRTUALADDRESS) {
        let (minimum, maximum) = (args.MinimumAddress, args.MaximumAddress);
        // SAFETY: both kinds of the union are a handle.
        let object = unsafe { args.Anonymous1.hPagingQueue };
        let call =
            Call::ReserveGpuVirtualAddress { object, base: args.BaseAddress, minimum, maximum, size: args.Size };
        let reply = client::call(call);
        args.VirtualAddress = reply.address;
        // SAFETY: the kinds of the union are numbers of 64 bits.
        unsafe { (&raw mut args.Anonymous4).cast::<u64>().write(reply.value()) };
        reply
    }

    /// Maps an allocation at GPU virtual addresses.
    D3DKMTMapGpuVirtualAddress(args: wdk::D3DDDI_MAPGPUVIRTUALADDRESS) {
        const PAGE: u64 = 4096;
        // SAFETY: the union is a number of 64 bits.
        let protection = unsafe { (&raw const args.Protection).cast::<u64>().read() };
        let reply = client::call(Call::MapGpuVirtualAddress {
            paging_queue: args.hPagingQueue,
            allocation: args.hAllocation,
            base: args.BaseAddress,
            minimum: args.MinimumAddress,
            maximum: args.MaximumAddress,
            offset: args.OffsetInPages.saturating_mul(PAGE),
            size: args.SizeInPages.saturating_mul(PAGE),
            protection,
            driver_protection: args.DriverProtection,
        });
        (args.VirtualAddress, args.PagingFenceValue) = (reply.address, reply.value());
        reply
    }

    /// Changes mappings in a reservation.
    D3DKMTUpdateGpuVirtualAddress(args: wdk::D3DKMT_UPDATEGPUVIRTUALADDRESS) {
        // SAFETY: the array has so many elements.
        let operations = unsafe { elements(args.Operations, args.NumOperations) };
        // SAFETY: the type of an operation says which kind of the union this is.
        let Some(operations) = operations.iter().map(|operation| unsafe { read_operation(operation) }).collect() else {
            return Status::INVALID_PARAMETER.0;
        };
        client::call(Call::UpdateGpuVirtualAddress {
            context: args.hContext,
            fence: FenceValue { fence: args.hFenceObject, value: args.FenceValue },
            does_not_wait: bits(&args.Flags) & DO_NOT_WAIT != 0,
            operations,
        })
    }

    /// Frees GPU virtual addresses.
    D3DKMTFreeGpuVirtualAddress(args: wdk::D3DKMT_FREEGPUVIRTUALADDRESS) {
        client::call(Call::FreeGpuVirtualAddress { adapter: args.hAdapter, base: args.BaseAddress, size: args.Size })
    }

    /// Makes allocations resident.
    D3DKMTMakeResident(args: wdk::D3DDDI_MAKERESIDENT) {
        // SAFETY: the array has so many elements.
        let allocations = unsafe { elements(args.AllocationList, args.NumAllocations) };
        let reply = client::call(Call::MakeResident {
            paging_queue: args.hPagingQueue,
            allocations,
            flags: bits(&args.Flags),
        });
        (args.PagingFenceValue, args.NumBytesToTrim) = (reply.value(), reply.num_bytes_to_trim);
        reply
    }

    /// Takes allocations off the device's list.
    D3DKMTEvict(args: wdk::D3DKMT_EVICT) {
        // SAFETY: the array has so many elements.
        let allocations = unsafe { elements(args.AllocationList, args.NumAllocations) };
        let reply = client::call(Call::Evict { device: args.hDevice, allocations, flags: bits(&args.Flags) });
        args.NumBytesToTrim = reply.num_bytes_to_trim;
        reply
    }
}
