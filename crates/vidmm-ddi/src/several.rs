//! Several allocations in one call, as a user-mode driver creates them: the manager asks for one at a time. Each allocation of pool in
//! the calls fails once, and a call that fails is to leave nothing behind (CRE-01).

use std::collections::BTreeSet;

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL, Wanted};
use crate::progress::Entry;
use crate::reports::report;

/// So many are created at once.
pub(crate) const COUNT: usize = 3;

/// So many allocations of a call fail at most, one after the other: later ones are not tried.
pub(crate) const MOST_FAILURES: u64 = 64;

/// The private data of the allocations, and what was asked for with each.
pub(crate) type Described = [(Vec<u8>, Wanted); COUNT];

/// Creates, opens, closes and destroys the allocations on a device of the driver's.
pub(crate) fn try_several(adapter: &Adapter, device: HANDLE, described: &Described) {
    let blocks = adapter.driver().counts().PoolBlocks;
    for fails_at in 0..=MOST_FAILURES {
        let (created, has_failed) = failing(adapter, fails_at, || create(adapter, described, std::ptr::null_mut()));
        match created {
            Some(created) => {
                open_and_close(adapter, device, described, &created);
                if !created.resource.is_null() {
                    add_to_resource(adapter, described, created.resource);
                }
                destroy(adapter, &created, true);
                must_be_as_before(adapter, blocks, "several allocations were created, opened, closed and destroyed");
            }
            None => must_be_as_before(adapter, blocks, "DxgkDdiCreateAllocation has failed for several allocations"),
        }
        if fails_at > 0 && !has_failed {
            return;
        }
    }
}

/// Calls the driver; the `number`th allocation of pool in the call fails, none if it is 0. Whether one has failed.
fn failing<T>(adapter: &Adapter, number: u64, call: impl FnOnce() -> T) -> (T, bool) {
    let (shim, before) = (adapter.driver().shim(), adapter.driver().counts().Allocations);
    // SAFETY: the function takes a number.
    unsafe { (shim.FailAt)(number) };
    let result = call();
    let asked = adapter.driver().counts().Allocations - before;
    // SAFETY: as above.
    unsafe { (shim.FailAt)(0) };
    (result, (1..=asked).contains(&number))
}

fn must_be_as_before(adapter: &Adapter, blocks: u64, after: &str) {
    let left = adapter.driver().counts().PoolBlocks.saturating_sub(blocks);
    if left > 0 {
        report("SHIM-POOL-LEAK", format!("{after}, and pool blocks are left: {left}"));
    }
}

/// The allocations, and the resource that they are parts of.
struct Created {
    allocations: [HANDLE; COUNT],
    resource: HANDLE,
    data: [Vec<u8>; COUNT],
}

/// Adds allocations to an existing resource, as often as the call may fail, and destroys the allocations before the resource.
fn add_to_resource(adapter: &Adapter, described: &Described, resource: HANDLE) {
    let blocks = adapter.driver().counts().PoolBlocks;
    for fails_at in 0..=MOST_FAILURES {
        let (added, has_failed) = failing(adapter, fails_at, || create(adapter, described, resource));
        added.inspect(|added| destroy(adapter, added, false));
        must_be_as_before(
            adapter,
            blocks,
            "allocations were added to a resource and destroyed, or the call has failed",
        );
        if fails_at > 0 && !has_failed {
            return;
        }
    }
}

/// Creates the allocations, in an existing resource unless null.
fn create(adapter: &Adapter, described: &Described, existing: HANDLE) -> Option<Created> {
    let function = adapter.ddi().DxgkDdiCreateAllocation?;
    let mut data = described.each_ref().map(|(data, _)| data.clone());
    let mut infos = data.each_mut().map(|data| DXGK_ALLOCATIONINFO {
        pPrivateDriverData: data.as_mut_ptr().cast(),
        PrivateDriverDataSize: data.len() as u32,
        ..DXGK_ALLOCATIONINFO::zeroed()
    });
    let resource = &described[0].1.resource;
    let mut args = DXGKARG_CREATEALLOCATION {
        NumAllocations: COUNT as u32,
        pAllocationInfo: infos.as_mut_ptr(),
        hResource: existing,
        ..DXGKARG_CREATEALLOCATION::zeroed()
    };
    if !resource.is_empty() {
        args.pPrivateDriverData = resource.as_ptr().cast();
        args.PrivateDriverDataSize = resource.len() as u32;
        args.Flags = FLAG_RESOURCE;
    }
    // SAFETY: the structs and the data live for the call.
    let status = adapter.call_with(Entry::DxgkDdiCreateAllocation, PASSIVE_LEVEL, &mut args, |args| unsafe {
        function(adapter.handle(), args)
    });
    if status < 0 {
        if !matches!(status, STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES) {
            let message = format!("DxgkDdiCreateAllocation of {COUNT} allocations failed with status {status:#x}");
            report("CRE-01", format!("{message}, which each of them alone does not"));
        }
        return None;
    }
    let allocations = infos.each_ref().map(|info| info.hAllocation);
    if BTreeSet::from(allocations.map(|allocation| allocation.addr())).len() < COUNT {
        report("CRE-01", format!("{COUNT} allocations of one call do not have {COUNT} handles"));
    }
    for (info, (_, wanted)) in infos.iter().zip(described) {
        if (info.Size as u64) < wanted.size {
            let message = format!("{} bytes were asked for, and its Size is {}", wanted.size, info.Size);
            report("DDI-SIZE", format!("an allocation of {COUNT} in one call: {message}"));
        }
    }
    Some(Created { allocations, resource: args.hResource, data })
}

/// Opens all of them on the device in one call, as often as it may fail, and closes them.
fn open_and_close(adapter: &Adapter, device: HANDLE, described: &Described, created: &Created) {
    let ddi = adapter.ddi();
    let (Some(open), Some(close)) = (ddi.DxgkDdiOpenAllocation, ddi.DxgkDdiCloseAllocation) else { return };
    let names = created.allocations.map(|allocation| adapter.name_handle(allocation));
    let blocks = adapter.driver().counts().PoolBlocks;
    for fails_at in 0..=MOST_FAILURES {
        let (mut data, mut resource) = (created.data.clone(), described[0].1.resource.clone());
        let mut infos: [_; COUNT] = std::array::from_fn(|at| DXGK_OPENALLOCATIONINFO {
            hAllocation: names[at],
            pPrivateDriverData: data[at].as_mut_ptr().cast(),
            PrivateDriverDataSize: data[at].len() as u32,
            ..DXGK_OPENALLOCATIONINFO::zeroed()
        });
        let mut args = DXGKARG_OPENALLOCATION {
            NumAllocations: COUNT as u32,
            pOpenAllocation: infos.as_mut_ptr(),
            pPrivateDriverData: resource.as_mut_ptr().cast(),
            PrivateDriverSize: resource.len() as u32,
            Flags: FLAG_CREATE,
            ..DXGKARG_OPENALLOCATION::zeroed()
        };
        let call = || {
            adapter.call_with(Entry::DxgkDdiOpenAllocation, PASSIVE_LEVEL, &mut args, |args| {
                // SAFETY: the structs and the data live for the call; the device is the driver's.
                unsafe { open(device, args) }
            })
        };
        let (status, has_failed) = failing(adapter, fails_at, call);
        if status >= 0 {
            let opened = infos.each_ref().map(|info| info.hDeviceSpecificAllocation);
            let mut args = DXGKARG_CLOSEALLOCATION { NumAllocations: COUNT as u32, pOpenHandleList: opened.as_ptr() };
            // SAFETY: the structs live for the call; the driver has opened the allocations on this device.
            adapter.call_with(Entry::DxgkDdiCloseAllocation, PASSIVE_LEVEL, &mut args, |args| unsafe {
                close(device, args)
            });
        }
        must_be_as_before(adapter, blocks, "several allocations were opened and closed, or that has failed");
        if fails_at > 0 && !has_failed {
            return;
        }
    }
}

fn destroy(adapter: &Adapter, created: &Created, with_resource: bool) {
    created.allocations.iter().for_each(|&allocation| adapter.forget_handle(allocation));
    let Some(function) = adapter.ddi().DxgkDdiDestroyAllocation else { return };
    let mut args = DXGKARG_DESTROYALLOCATION {
        NumAllocations: COUNT as u32,
        pAllocationList: created.allocations.as_ptr(),
        hResource: created.resource,
        Flags: if created.resource.is_null() || !with_resource { 0 } else { FLAG_RESOURCE },
    };
    // SAFETY: the structs live for the call; the allocations are the driver's.
    adapter.call_with(Entry::DxgkDdiDestroyAllocation, PASSIVE_LEVEL, &mut args, |args| unsafe {
        function(adapter.handle(), args)
    });
}
