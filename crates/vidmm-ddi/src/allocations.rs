//! Allocations: the driver creates and destroys them, and what it decides about each is judged here.

use std::collections::BTreeMap;

use vidmm::contract::{AllocationFlags, AllocationInfo, CreateAllocationError, KmdAllocationHandle};

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::allocation_info::allocation_info;
use crate::opened::{Opened, PrivateData};
use crate::progress::Entry;
use crate::reports::{report, report_stray};

/// The allocations of an adapter.
#[derive(Default)]
pub(crate) struct Allocations {
    /// Each with the driver's name of the resource that it is all of; null if it is part of none.
    resources: BTreeMap<KmdAllocationHandle, HANDLE>,
    pub opened: Opened,
}

impl Allocations {
    /// Lets the driver create an allocation.
    ///
    /// # Errors
    ///
    /// If the driver does not create it (CRE-01).
    pub fn create(
        &mut self,
        adapter: &Adapter,
        private_driver_data: &[u8],
    ) -> Result<AllocationInfo, CreateAllocationError> {
        let function = adapter.ddi().DxgkDdiCreateAllocation.ok_or(CreateAllocationError::InvalidParameter)?;
        // The driver's user-mode half has no allocation of the kind: its kernel-mode half hears nothing of it.
        if private_driver_data.is_empty() {
            return Err(CreateAllocationError::NoMemory);
        }
        let mut data = private_driver_data.to_vec();
        let mut info = DXGK_ALLOCATIONINFO {
            pPrivateDriverData: data.as_mut_ptr().cast(),
            PrivateDriverDataSize: data.len() as u32,
            ..DXGK_ALLOCATIONINFO::zeroed()
        };
        let wanted = adapter.wanted.borrow().get(private_driver_data).cloned().unwrap_or_default();
        let mut args = DXGKARG_CREATEALLOCATION {
            NumAllocations: 1,
            pAllocationInfo: &mut info,
            ..DXGKARG_CREATEALLOCATION::zeroed()
        };
        if !wanted.resource.is_empty() {
            args.pPrivateDriverData = wanted.resource.as_ptr().cast();
            args.PrivateDriverDataSize = wanted.resource.len() as u32;
            args.Flags = FLAG_RESOURCE;
        }
        // SAFETY: the structs and the data live for the call.
        let status = adapter.call_with(Entry::DxgkDdiCreateAllocation, PASSIVE_LEVEL, &mut args, |args| unsafe {
            function(adapter.handle(), args)
        });
        match status {
            0.. => {
                let info =
                    allocation_info(adapter.allocations.add(info.hAllocation), &info, adapter.hidden_segments.get());
                self.resources.insert(info.allocation, args.hResource);
                let lacking = wanted.flags - info.flags;
                if lacking.contains(AllocationFlags::CPU_VISIBLE) {
                    report("DDI-CPU-VISIBLE", "an allocation that the CPU is to access has no Flags.CpuVisible");
                }
                let copies = [
                    (AllocationFlags::PERMANENT_SYS_MEM, "PermanentSysMem"),
                    (AllocationFlags::EXISTING_SYS_MEM, "ExistingSysMem"),
                ];
                if let Some((_, name)) = copies.into_iter().find(|&(flag, _)| lacking.contains(flag)) {
                    let remedy = "a driver without the kind returns 0 from GetAllocationPrivateData";
                    report_stray(
                        "DDI-SYSTEM-COPY",
                        format!("{name} was asked for, and Flags.{name} is not set: {remedy}"),
                    );
                    self.destroy(adapter, info.allocation);
                    return Err(CreateAllocationError::NoMemory);
                }
                if let Some(pixels) = wanted.pixels {
                    must_be_described(adapter, info.allocation, pixels);
                }
                if wanted.surface > 0 {
                    adapter.compression.borrow_mut().add(info.allocation, wanted.surface);
                }
                let (wanted, resource, size) = (wanted.size, wanted.resource, info.size);
                self.opened.add(info.allocation, PrivateData { allocation: data, resource });
                if size < wanted {
                    let message = format!("an allocation of {wanted} bytes was asked for, and its Size is {size}");
                    report("DDI-SIZE", message);
                }
                Ok(info)
            }
            STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES => Err(CreateAllocationError::NoMemory),
            STATUS_INVALID_PARAMETER => Err(CreateAllocationError::InvalidParameter),
            STATUS_GRAPHICS_DRIVER_MISMATCH | STATUS_REVISION_MISMATCH => Err(CreateAllocationError::DriverMismatch),
            _ => {
                report(
                    "CRE-01",
                    format!("DxgkDdiCreateAllocation failed with status {status:#x}, which is not documented"),
                );
                Err(CreateAllocationError::InvalidParameter)
            }
        }
    }

    /// Lets the driver destroy an allocation.
    pub fn destroy(&mut self, adapter: &Adapter, allocation: KmdAllocationHandle) {
        let resource = self.resources.remove(&allocation).unwrap_or(std::ptr::null_mut());
        self.opened.close_allocation(adapter, allocation);
        let handle = adapter.allocations.handle(allocation.0);
        adapter.allocations.forget(allocation.0);
        adapter.forget_handle(handle);
        adapter.compression.borrow_mut().remove(allocation);
        let Some(function) = adapter.ddi().DxgkDdiDestroyAllocation else { return };
        let list = [handle];
        let mut args = DXGKARG_DESTROYALLOCATION {
            NumAllocations: 1,
            pAllocationList: list.as_ptr(),
            hResource: resource,
            Flags: if resource.is_null() { 0 } else { FLAG_RESOURCE },
        };
        // SAFETY: the structs live for the call; the allocation is the driver's.
        adapter.call_with(Entry::DxgkDdiDestroyAllocation, PASSIVE_LEVEL, &mut args, |args| unsafe {
            function(adapter.handle(), args)
        });
    }

    /// Destroys all that are left: a run was cut short.
    pub fn destroy_all(&mut self, adapter: &Adapter) {
        self.opened.close_all(adapter);
        while let Some(&allocation) = self.resources.keys().next() {
            self.destroy(adapter, allocation);
        }
    }
}

/// Asks for the description of a surface that Windows has created, and may present (DRV-13).
fn must_be_described(adapter: &Adapter, allocation: KmdAllocationHandle, (width, height): (u32, u32)) {
    let Some(function) = adapter.ddi().DxgkDdiDescribeAllocation else { return };
    let handle = adapter.allocations.handle(allocation.0);
    let mut args = DXGKARG_DESCRIBEALLOCATION { hAllocation: handle, ..DXGKARG_DESCRIBEALLOCATION::zeroed() };
    // SAFETY: the struct lives for the call; the allocation is the driver's.
    let status = adapter.call_with(Entry::DxgkDdiDescribeAllocation, PASSIVE_LEVEL, &mut args, |args| unsafe {
        function(adapter.handle(), args)
    });
    let surface = format!("a surface of {width} x {height} pixels in D3DDDIFORMAT {D3DDDIFMT_A8R8G8B8}");
    match status {
        STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES => {}
        ..0 => report("DDI-DESCRIBE", format!("DxgkDdiDescribeAllocation of {surface} failed with status {status:#x}")),
        _ if (args.Width, args.Height, args.Format) != (width, height, D3DDDIFMT_A8R8G8B8) => {
            let DXGKARG_DESCRIBEALLOCATION { Width, Height, Format, .. } = args;
            report("DDI-DESCRIBE", format!("DxgkDdiDescribeAllocation of {surface} says {Width} x {Height}, {Format}"));
        }
        _ => {}
    }
}
