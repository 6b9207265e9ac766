//! The manager's driver: each call is one of the C driver's.

use std::collections::BTreeMap;
use std::rc::Rc;

use vidmm::contract::{
    AdapterInfo, AddressingModel, AllocationInfo, BuildPagingBuffer, BuildStatus, CreateAllocationError, EngineKind,
    Kmd, KmdAllocationHandle, KmdContextHandle, KmdError, KmdOpenHandle, KmdProcessHandle, NotifyInterrupt, Patch,
    Render, RenderStatus, RootPageTable, SegmentPreference, SegmentSet, SubmitCommand, WddmVersion,
};

use vidmm::{PhysicalAddress, SegmentId};

use crate::abi::*;
use crate::adapter::{Adapter, Notification, PASSIVE_LEVEL};
use crate::allocation_info::preference_bits;
use crate::allocations::Allocations;
use crate::building::Building;
use crate::cancellation::cancel_unsubmitted;
use crate::description;
use crate::engine::Submission;
use crate::memory::SegmentBases;
use crate::opened::Device;
use crate::patching::{ContextOfDevice, Patching, private_size};
use crate::present::Presentation;
use crate::progress::Entry;
use crate::reports::report;
use crate::several::{self, Described};

/// A driver in C.
pub(crate) struct DdiKmd {
    adapter: Rc<Adapter>,
    info: AdapterInfo,
    /// The model of the GPU is not the driver's: the root tables are told at once, and nothing is submitted to the driver.
    is_semantic: bool,
    devices: BTreeMap<KmdProcessHandle, Device>,
    roots: BTreeMap<KmdContextHandle, RootPageTable>,
    contexts: BTreeMap<KmdContextHandle, ContextOfDevice>,
    allocations: Allocations,
    last_handle: usize,
    building: Building,
    patching: Patching,
}

impl DdiKmd {
    pub fn new(adapter: Rc<Adapter>, info: AdapterInfo, is_semantic: bool) -> Self {
        let bases = SegmentBases::new(&info);
        let patching =
            Patching::new(bases.clone(), info.patching.no_dma_patching, info.patching.max_allocation_list_slot_id);
        adapter.is_physical.set(info.addressing_model == AddressingModel::Physical);
        let table_bytes = info.page_table_levels.iter().map(|level| level.page_table_size_in_bytes).collect();
        Self {
            adapter,
            info,
            is_semantic,
            devices: BTreeMap::new(),
            roots: BTreeMap::new(),
            contexts: BTreeMap::new(),
            allocations: Allocations::default(),
            last_handle: 0,
            building: Building::new(bases, table_bytes),
            patching,
        }
    }

    fn ddi(&self) -> &DRIVER_INITIALIZATION_DATA {
        self.adapter.ddi()
    }

    /// A name of Dxgkrnl's for an object.
    fn dxgk_handle(&mut self) -> HANDLE {
        self.last_handle += 1;
        std::ptr::without_provenance_mut(self.last_handle)
    }

    /// Creates the one device of a process.
    fn create_device(&mut self, process: HANDLE, system: bool) -> Result<HANDLE, KmdError> {
        let dxgk = self.dxgk_handle();
        let function = self.ddi().DxgkDdiCreateDevice.ok_or(KmdError)?;
        let mut args = DXGKARG_CREATEDEVICE {
            hDevice: dxgk,
            Flags: u64::from(system) * u64::from(FLAG_SYSTEM),
            Pasid: 0,
            hKmdProcess: process,
        };
        // SAFETY: the struct lives for the call.
        let status = self.adapter.call_with(Entry::DxgkDdiCreateDevice, PASSIVE_LEVEL, &mut args, |args| unsafe {
            function(self.adapter.handle(), args)
        });
        created(status, "DxgkDdiCreateDevice").map(|()| args.hDevice)
    }
}

/// Whether an object was created. Other errors than a lack of memory are reported: nothing that is wrong was asked for.
fn created(status: NTSTATUS, function: &str) -> Result<(), KmdError> {
    match status {
        0.. => Ok(()),
        STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES => Err(KmdError),
        _ => {
            report("CRE-01", format!("{function} failed with status {status:#x}, and no memory was short"));
            Err(KmdError)
        }
    }
}

impl Kmd for DdiKmd {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        self.info.clone()
    }

    fn query_paging_process_gpu_va_size(&mut self, physical_adapter_index: u32) -> Option<u32> {
        description::paging_process_gpu_va_size(&self.adapter, physical_adapter_index)
    }

    fn get_root_page_table_size(&mut self, num_entries: u32) -> Option<u32> {
        let function = self.ddi().DxgkDdiGetRootPageTableSize?;
        let mut args = DXGKARG_GETROOTPAGETABLESIZE { NumberOfPte: num_entries, PhysicalAdapterIndex: 0 };
        // SAFETY: the struct lives for the call.
        let bytes =
            self.adapter.call_with(Entry::DxgkDdiGetRootPageTableSize, PASSIVE_LEVEL, &mut args, |args| unsafe {
                function(self.adapter.handle(), args)
            });
        // A size that is no multiple of a page is refused.
        Some(u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    fn create_process(&mut self, system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        let dxgk = self.dxgk_handle();
        let mut args = DXGKARG_CREATEPROCESS {
            hDxgkProcess: dxgk,
            Flags: if system_process { FLAG_SYSTEM } else { 0 },
            ..DXGKARG_CREATEPROCESS::zeroed()
        };
        let function = self.ddi().DxgkDdiCreateProcess.filter(|_| self.has_processes());
        let process = match function {
            // A driver without processes of its own: Dxgkrnl's name stands for one.
            None => dxgk,
            Some(function) => {
                // SAFETY: the struct lives for the call.
                let status =
                    self.adapter.call_with(Entry::DxgkDdiCreateProcess, PASSIVE_LEVEL, &mut args, |args| unsafe {
                        function(self.adapter.handle(), args)
                    });
                created(status, "DxgkDdiCreateProcess")?;
                args.hKmdProcess
            }
        };
        match self.create_device(process, system_process) {
            Ok(device) => {
                let process = KmdProcessHandle(self.adapter.processes.add_new(process));
                self.devices.insert(process, Device { process, handle: device });
                Ok(process)
            }
            Err(error) => {
                self.destroy_process_of_driver(process);
                Err(error)
            }
        }
    }

    fn destroy_process(&mut self, process: KmdProcessHandle) {
        let device = self.devices.remove(&process);
        if let Some(device) = device {
            self.allocations.opened.close_device(&self.adapter, device);
        }
        if let (Some(device), Some(function)) = (device, self.ddi().DxgkDdiDestroyDevice) {
            // SAFETY: the device is the driver's, and no context of it is left.
            self.adapter.call(Entry::DxgkDdiDestroyDevice, PASSIVE_LEVEL, || unsafe { function(device.handle) });
        }
        let driver_process = self.adapter.processes.handle(process.0);
        self.adapter.processes.forget(process.0);
        self.adapter.targets.forget(process);
        self.destroy_process_of_driver(driver_process);
    }

    fn create_context(
        &mut self,
        process: KmdProcessHandle,
        node_ordinal: u32,
        system_context: bool,
    ) -> Result<KmdContextHandle, KmdError> {
        let dxgk = self.dxgk_handle();
        let function = self.ddi().DxgkDdiCreateContext.ok_or(KmdError)?;
        let device = self.devices.get(&process).copied().ok_or(KmdError)?;
        let addressing = if self.adapter.is_physical.get() { 0 } else { FLAG_VIRTUAL_ADDRESSING };
        let mut args = DXGKARG_CREATECONTEXT {
            hContext: dxgk,
            NodeOrdinal: node_ordinal,
            EngineAffinity: 1,
            Flags: if system_context { FLAG_SYSTEM } else { 0 } | addressing,
            ..DXGKARG_CREATECONTEXT::zeroed()
        };
        // SAFETY: the struct lives for the call; the device is the driver's.
        let status = self.adapter.call_with(Entry::DxgkDdiCreateContext, PASSIVE_LEVEL, &mut args, |args| unsafe {
            function(device.handle, args)
        });
        created(status, "DxgkDdiCreateContext")?;
        let context = KmdContextHandle(self.adapter.contexts.add_new(args.hContext));
        let DXGK_CONTEXTINFO {
            PatchLocationListSize: patch_location_list_size,
            DmaBufferPrivateDataSize: private_data_size,
            DmaBufferSize: dma_buffer_size,
            ..
        } = args.ContextInfo;
        self.adapter.process_of.borrow_mut().insert(context, process);
        let of_device = ContextOfDevice { device, patch_location_list_size, private_data_size, dma_buffer_size };
        self.contexts.insert(context, of_device);
        Ok(context)
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.roots.remove(&context);
        self.contexts.remove(&context);
        self.adapter.process_of.borrow_mut().remove(&context);
        cancel_unsubmitted(&self.adapter, context.0, |_| true);
        self.adapter.dma.release_context(context.0);
        let handle = self.adapter.contexts.handle(context.0);
        self.adapter.contexts.forget(context.0);
        if let Some(function) = self.ddi().DxgkDdiDestroyContext {
            // SAFETY: the context is the driver's, and none of its work is left.
            self.adapter.call(Entry::DxgkDdiDestroyContext, PASSIVE_LEVEL, || unsafe { function(handle) });
        }
    }

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        self.allocations.create(&self.adapter, private_driver_data)
    }

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.allocations.destroy(&self.adapter, allocation);
    }

    fn open_allocation(
        &mut self,
        process: KmdProcessHandle,
        allocation: KmdAllocationHandle,
    ) -> Result<KmdOpenHandle, KmdError> {
        let device = self.devices.get(&process).copied().ok_or(KmdError)?;
        self.allocations.opened.open(&self.adapter, device, allocation).map_err(|status| {
            _ = created(status, "DxgkDdiOpenAllocation");
            KmdError
        })
    }

    fn close_allocation(&mut self, allocation: KmdOpenHandle) {
        self.allocations.opened.close(&self.adapter, allocation);
    }

    fn validate_update_allocation_property(
        &mut self,
        allocation: KmdAllocationHandle,
        supported_segment_set: SegmentSet,
        preferred_segment: SegmentPreference,
    ) -> bool {
        let Some(function) = self.ddi().DxgkDdiValidateUpdateAllocationProperty else { return true };
        let mut args = DXGKARG_VALIDATEUPDATEALLOCPROPERTY {
            hAllocation: self.adapter.allocations.handle(allocation.0),
            SupportedSegmentSet: supported_segment_set.0,
            PreferredSegment: preference_bits(preferred_segment),
            Flags: 0,
            PropertyMaskValue: PROPERTIES_OF_SEGMENTS,
        };
        // SAFETY: the struct lives for the call.
        self.adapter.call_with(
            Entry::DxgkDdiValidateUpdateAllocationProperty,
            PASSIVE_LEVEL,
            &mut args,
            |args| unsafe { function(self.adapter.handle(), args) },
        ) >= 0
    }

    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable) {
        self.roots.insert(context, root);
        if self.is_semantic {
            crate::engine::set_root(&self.adapter, context, root);
        }
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        self.building.build(&self.adapter, build)
    }

    /// The driver is called when the packet begins: what it needs goes with the packet.
    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>) {
        if !self.is_semantic {
            let root = self.roots.get(&submit.context).copied();
            let offsets = submit.dma_buffer_submission_offsets;
            Submission { context: submit.context, root, paging: submit.paging, offsets }.encode(preamble);
        }
    }

    fn render(&mut self, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        let context = self.contexts.get(&render.context).ok_or(RenderStatus::InvalidParameter)?;
        self.patching.render(&self.adapter, &mut self.allocations.opened, context, render)
    }

    fn patch(&mut self, patch: &mut Patch<'_>) {
        if let Some(context) = self.contexts.get(&patch.context) {
            self.patching.patch(&self.adapter, &mut self.allocations.opened, context, patch);
        }
    }

    /// The bytes are the index of a report that the driver has made already.
    fn interrupt_routine(&mut self, status: &[u8]) -> Option<NotifyInterrupt> {
        let index = usize::from_le_bytes(status.try_into().ok()?);
        match self.adapter.notifications.borrow().get(index) {
            Some(&(Notification::Faulted { interrupt }, _)) => Some(self.numbered(interrupt)),
            _ => None,
        }
    }

    fn query_dependent_engine_group(&mut self, node_ordinal: u32) -> u64 {
        let Some(function) = self.ddi().DxgkDdiQueryDependentEngineGroup else { return 1 << node_ordinal };
        let mut args = DXGKARG_QUERYDEPENDENTENGINEGROUP {
            NodeOrdinal: node_ordinal,
            ..DXGKARG_QUERYDEPENDENTENGINEGROUP::zeroed()
        };
        // SAFETY: the struct lives for the call.
        self.adapter.call_with(Entry::DxgkDdiQueryDependentEngineGroup, PASSIVE_LEVEL, &mut args, |args| unsafe {
            function(self.adapter.handle(), args)
        });
        args.DependentNodeOrdinalMask
    }
}

impl DdiKmd {
    /// Asks for an operation that no version has.
    pub fn ask_unknown_operation(&mut self) {
        self.building.ask_unknown(&self.adapter);
    }

    /// Creates, opens and destroys several allocations at once.
    pub fn try_several(&mut self, described: &Described) {
        if let Ok(process) = self.create_process(false) {
            several::try_several(&self.adapter, self.devices[&process].handle, described);
        }
    }

    /// Lets the driver present an allocation in another allocation, each created from private data.
    ///
    /// # Errors
    ///
    /// If the driver does not create what a presentation needs.
    pub fn try_present(&mut self, data: [&[u8]; 2], pixels: (u32, u32)) -> Result<(), KmdError> {
        let process = self.create_process(false)?;
        let engines = self.info.engines.iter();
        let node = (0..).zip(engines).find(|(_, engine)| engine.kind != EngineKind::Paging).map_or(0, |(node, _)| node);
        let context = self.create_context(process, node, false)?;
        let of_device = self.contexts[&context];
        let mut surfaces = [(std::ptr::null_mut(), PhysicalAddress::default()); 2];
        for (surface, data) in surfaces.iter_mut().zip(data) {
            let info = self.create_allocation(data).map_err(|_| KmdError)?;
            let name = self.allocations.opened.on_device(&self.adapter, of_device.device, info.allocation);
            let segment = SegmentId(1 + info.supported_segment_set.0.trailing_zeros() as u8);
            *surface = (name.map_err(|_| KmdError)?, PhysicalAddress { segment, offset: 0 });
        }
        surfaces[1].1.offset = 2 << 20;
        Presentation {
            adapter: &self.adapter,
            bases: &SegmentBases::new(&self.info),
            context: context.0,
            dma_buffer_size: (of_device.dma_buffer_size as usize).clamp(1 << 12, 1 << 20),
            private_size: private_size(&of_device),
            surfaces,
            pixels,
            patches: !self.info.patching.no_dma_patching,
        }
        .try_out();
        Ok(())
    }

    /// A report of a fault with the process by number, where the driver has named the process by handle.
    fn numbered(&self, interrupt: NotifyInterrupt) -> NotifyInterrupt {
        let NotifyInterrupt::DmaPageFaulted(mut fault) = interrupt else { return interrupt };
        // A handle of no process is a number of no process.
        let number = |process: KmdProcessHandle| {
            let handle = std::ptr::without_provenance_mut(process.0 as usize);
            KmdProcessHandle(self.adapter.processes.find(handle).unwrap_or(u64::MAX))
        };
        fault.faulted_process = fault.faulted_process.map(number);
        NotifyInterrupt::DmaPageFaulted(fault)
    }

    /// Processes exist from WDDM 2.0 on (DRV-07).
    fn has_processes(&self) -> bool {
        self.ddi().Version >= WddmVersion::WDDM2_0.0
    }

    fn destroy_process_of_driver(&self, process: HANDLE) {
        if let Some(function) = self.ddi().DxgkDdiDestroyProcess.filter(|_| self.has_processes()) {
            // SAFETY: the process is the driver's, and nothing of it is left.
            self.adapter.call(Entry::DxgkDdiDestroyProcess, PASSIVE_LEVEL, || unsafe {
                function(self.adapter.handle(), process)
            });
        }
    }
}

impl Drop for DdiKmd {
    /// Destroys what is left: always the system process with its contexts, whose end the manager does not tell, and everything
    /// where a run was cut short.
    fn drop(&mut self) {
        self.allocations.destroy_all(&self.adapter);
        std::mem::take(&mut self.contexts).into_keys().for_each(|context| self.destroy_context(context));
        let processes = Vec::from_iter(self.devices.keys().copied());
        processes.into_iter().for_each(|process| self.destroy_process(process));
    }
}
