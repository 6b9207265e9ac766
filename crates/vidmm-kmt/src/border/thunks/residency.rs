//! GPU virtual addresses, and the list of a device.

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::{bits, elements};
use crate::border::client;
use crate::call::{Call, Reply};
use crate::status::Status;

thunks! {
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
