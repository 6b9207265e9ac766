//! Allocations as devices have them open.

use std::collections::BTreeMap;

use vidmm::contract::{KmdAllocationHandle, KmdOpenHandle, KmdProcessHandle};

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::progress::Entry;

/// A device of a process: the driver may have one handle for several devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Device {
    pub process: KmdProcessHandle,
    pub handle: HANDLE,
}

/// The names that the driver gave allocations on its devices (CRE-06).
///
/// The manager opens an allocation on devices that did not create it. Windows opens it on the creator's device as well, whose
/// allocation lists need that name: it is opened there when a list first names it.
#[derive(Default)]
pub(crate) struct Opened {
    /// Those that the manager has opened: the device and the allocation, once for each opening.
    by_manager: BTreeMap<KmdOpenHandle, Vec<(Device, KmdAllocationHandle)>>,
    /// Those that allocation lists needed beside them.
    by_lists: BTreeMap<(Device, KmdAllocationHandle), HANDLE>,
    /// The private data of each allocation, as the driver has left it.
    data: BTreeMap<KmdAllocationHandle, PrivateData>,
}

/// The private data of an allocation, and of the resource that it is all of.
#[derive(Default)]
pub(crate) struct PrivateData {
    pub allocation: Vec<u8>,
    /// Empty if it is part of no resource.
    pub resource: Vec<u8>,
}

impl Opened {
    /// An allocation was created.
    pub fn add(&mut self, allocation: KmdAllocationHandle, data: PrivateData) {
        self.data.insert(allocation, data);
    }

    /// Opens an allocation on a device, for the manager.
    ///
    /// # Errors
    ///
    /// The status with which the driver has failed.
    pub fn open(
        &mut self,
        adapter: &Adapter,
        device: Device,
        allocation: KmdAllocationHandle,
    ) -> Result<KmdOpenHandle, NTSTATUS> {
        let data = self.data.entry(allocation).or_default();
        let opened = KmdOpenHandle(adapter.opened.add(open(adapter, device, allocation, data, 0)?));
        self.by_manager.entry(opened).or_default().push((device, allocation));
        Ok(opened)
    }

    /// Closes what `open` has opened.
    pub fn close(&mut self, adapter: &Adapter, opened: KmdOpenHandle) {
        let Some(places) = self.by_manager.get_mut(&opened) else { return };
        let Some((device, _)) = places.pop() else { return };
        let handle = adapter.opened.handle(opened.0);
        if places.is_empty() {
            self.by_manager.remove(&opened);
            adapter.opened.forget(opened.0);
        }
        close(adapter, device, handle);
    }

    /// The name of an allocation on a device.
    ///
    /// # Errors
    ///
    /// The status with which the driver has failed to open it.
    pub fn on_device(
        &mut self,
        adapter: &Adapter,
        device: Device,
        allocation: KmdAllocationHandle,
    ) -> Result<HANDLE, NTSTATUS> {
        let is_open = |places: &Vec<(Device, KmdAllocationHandle)>| places.contains(&(device, allocation));
        if let Some((opened, _)) = self.by_manager.iter().find(|(_, places)| is_open(places)) {
            return Ok(adapter.opened.handle(opened.0));
        }
        if let Some(&opened) = self.by_lists.get(&(device, allocation)) {
            return Ok(opened);
        }
        let data = self.data.entry(allocation).or_default();
        let opened = open(adapter, device, allocation, data, FLAG_CREATE)?;
        self.by_lists.insert((device, allocation), opened);
        Ok(opened)
    }

    /// Closes an allocation wherever a list has opened it: it is about to be destroyed.
    pub fn close_allocation(&mut self, adapter: &Adapter, allocation: KmdAllocationHandle) {
        self.close_those(adapter, |&(_, of)| of == allocation);
        self.data.remove(&allocation);
    }

    /// Closes all that lists have opened on a device: it is about to be destroyed.
    pub fn close_device(&mut self, adapter: &Adapter, device: Device) {
        self.close_those(adapter, |&(on, _)| on == device);
    }

    /// Closes what is open: a run was cut short.
    pub fn close_all(&mut self, adapter: &Adapter) {
        for (opened, places) in std::mem::take(&mut self.by_manager) {
            let handle = adapter.opened.handle(opened.0);
            places.into_iter().for_each(|(device, _)| close(adapter, device, handle));
        }
        self.close_those(adapter, |_| true);
    }

    fn close_those(&mut self, adapter: &Adapter, is_meant: impl Fn(&(Device, KmdAllocationHandle)) -> bool) {
        let meant = Vec::from_iter(self.by_lists.keys().copied().filter(is_meant));
        for key in meant {
            if let Some(opened) = self.by_lists.remove(&key) {
                close(adapter, key.0, opened);
            }
        }
    }
}

fn open(
    adapter: &Adapter,
    device: Device,
    allocation: KmdAllocationHandle,
    data: &mut PrivateData,
    flags: u32,
) -> Result<HANDLE, NTSTATUS> {
    let Some(function) = adapter.ddi().DxgkDdiOpenAllocation else {
        return Ok(adapter.allocations.handle(allocation.0));
    };
    let mut info = DXGK_OPENALLOCATIONINFO {
        hAllocation: adapter.name_handle(adapter.allocations.handle(allocation.0)),
        pPrivateDriverData: data.allocation.as_mut_ptr().cast(),
        PrivateDriverDataSize: data.allocation.len() as u32,
        ..DXGK_OPENALLOCATIONINFO::zeroed()
    };
    let mut args = DXGKARG_OPENALLOCATION {
        NumAllocations: 1,
        pOpenAllocation: &mut info,
        pPrivateDriverData: data.resource.as_mut_ptr().cast(),
        PrivateDriverSize: data.resource.len() as u32,
        Flags: flags,
        ..DXGKARG_OPENALLOCATION::zeroed()
    };
    // SAFETY: the structs and the data live for the call; the device is the driver's.
    let status = adapter.call_with(Entry::DxgkDdiOpenAllocation, PASSIVE_LEVEL, &mut args, |args| unsafe {
        function(device.handle, args)
    });
    if status >= 0 { Ok(info.hDeviceSpecificAllocation) } else { Err(status) }
}

fn close(adapter: &Adapter, device: Device, opened: HANDLE) {
    let Some(function) = adapter.ddi().DxgkDdiCloseAllocation else { return };
    let list = [opened];
    let mut args = DXGKARG_CLOSEALLOCATION { NumAllocations: 1, pOpenHandleList: list.as_ptr() };
    // SAFETY: the structs live for the call; the allocation was opened by the driver on this device.
    adapter.call_with(Entry::DxgkDdiCloseAllocation, PASSIVE_LEVEL, &mut args, |args| unsafe {
        function(device.handle, args)
    });
}
