//! The manager's driver: each call is one of the C driver's.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use vidmm::PAGE_SIZE;
use vidmm::contract::{
    AdapterInfo, AllocationFlags, AllocationFlags2, AllocationInfo, BuildPagingBuffer, BuildStatus,
    CreateAllocationError, Direction, Kmd, KmdAllocationHandle, KmdContextHandle, KmdError, KmdOpenHandle,
    KmdProcessHandle, NotifyInterrupt, RootPageTable, SegmentBankPreference, SegmentPreference, SegmentSet,
    SubmitCommand,
};

use crate::abi::*;
use crate::adapter::{Adapter, Notification, PASSIVE_LEVEL};
use crate::description;
use crate::engine::Submission;
use crate::payload::{Payloads, handle, physical};
use crate::progress::Entry;
use crate::reports::report;

/// A driver in C.
pub(crate) struct DdiKmd {
    adapter: Rc<Adapter>,
    info: AdapterInfo,
    /// The model of the GPU is not the driver's: the root tables are told at once, and nothing is submitted to the driver.
    is_semantic: bool,
    devices: BTreeMap<KmdProcessHandle, HANDLE>,
    roots: BTreeMap<KmdContextHandle, RootPageTable>,
    contexts: BTreeSet<KmdContextHandle>,
    allocations: BTreeSet<KmdAllocationHandle>,
    /// The devices on which each handle is open.
    opened: BTreeMap<KmdOpenHandle, Vec<HANDLE>>,
    last_handle: u64,
    payloads: Payloads,
    dma: Bounce,
    private: Bounce,
}

impl DdiKmd {
    pub fn new(adapter: Rc<Adapter>, info: AdapterInfo, is_semantic: bool) -> Self {
        Self {
            adapter,
            info,
            is_semantic,
            devices: BTreeMap::new(),
            roots: BTreeMap::new(),
            contexts: BTreeSet::new(),
            allocations: BTreeSet::new(),
            opened: BTreeMap::new(),
            last_handle: 0,
            payloads: Payloads::new(),
            dma: Bounce::default(),
            private: Bounce::default(),
        }
    }

    fn ddi(&self) -> &DRIVER_INITIALIZATION_DATA {
        self.adapter.ddi()
    }

    /// A name of Dxgkrnl's for an object.
    fn dxgk_handle(&mut self) -> HANDLE {
        self.last_handle += 1;
        handle(self.last_handle)
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
        let status = self
            .adapter
            .call(Entry::DxgkDdiCreateDevice, PASSIVE_LEVEL, || unsafe { function(self.adapter.handle(), &mut args) });
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

/// A buffer for the driver with bytes behind its end that are looked at after each call.
#[derive(Default)]
struct Bounce {
    pages: Vec<Page>,
    /// Where the bytes begin that the driver must not write.
    end: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_SIZE as usize]);

const GUARD: u8 = 0xC5;
const GUARD_BYTES: usize = 1024;

impl Bounce {
    /// The first of `room` bytes at `offset` in a buffer that begins at a page (BPB-02).
    fn start(&mut self, offset: usize, room: usize) -> *mut u8 {
        let end = offset + room;
        if self.end != end || self.pages.is_empty() {
            self.pages = vec![Page([GUARD; PAGE_SIZE as usize]); (end + GUARD_BYTES).div_ceil(PAGE_SIZE as usize)];
            self.end = end;
        }
        self.pages.as_mut_ptr().cast::<u8>().wrapping_add(offset)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: pages are bytes without gaps.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast(), self.pages.len() * PAGE_SIZE as usize) }
    }

    /// The bytes that the driver says it wrote, from `offset` on; none if its pointer or a byte is beyond the room.
    fn written(&mut self, offset: usize, pointer: *const u8) -> Option<&[u8]> {
        let is_whole = self.bytes()[self.end..self.end + GUARD_BYTES].iter().all(|&byte| byte == GUARD);
        let past = pointer.addr().checked_sub(self.pages.as_ptr().addr());
        let Some(past) = past.filter(|&past| is_whole && (offset..=self.end).contains(&past)) else {
            self.pages.clear();
            return None;
        };
        Some(&self.bytes()[offset..past])
    }
}

impl Kmd for DdiKmd {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        self.info.clone()
    }

    fn query_paging_process_gpu_va_size(&mut self, physical_adapter_index: u32) -> Option<u32> {
        description::paging_process_gpu_va_size(&self.adapter, physical_adapter_index)
    }

    fn create_process(&mut self, system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        let dxgk = self.dxgk_handle();
        let mut args = DXGKARG_CREATEPROCESS {
            hDxgkProcess: dxgk,
            Flags: if system_process { FLAG_SYSTEM } else { 0 },
            ..DXGKARG_CREATEPROCESS::zeroed()
        };
        let process = match self.ddi().DxgkDdiCreateProcess {
            // A driver without processes of its own: Dxgkrnl's name stands for one.
            None => dxgk,
            Some(function) => {
                // SAFETY: the struct lives for the call.
                let status = self.adapter.call(Entry::DxgkDdiCreateProcess, PASSIVE_LEVEL, || unsafe {
                    function(self.adapter.handle(), &mut args)
                });
                created(status, "DxgkDdiCreateProcess")?;
                args.hKmdProcess
            }
        };
        match self.create_device(process, system_process) {
            Ok(device) => {
                let process = KmdProcessHandle(process.addr() as u64);
                self.devices.insert(process, device);
                Ok(process)
            }
            Err(error) => {
                self.destroy_process_of_driver(process);
                Err(error)
            }
        }
    }

    fn destroy_process(&mut self, process: KmdProcessHandle) {
        if let (Some(device), Some(function)) = (self.devices.remove(&process), self.ddi().DxgkDdiDestroyDevice) {
            // SAFETY: the device is the driver's, and no context of it is left.
            self.adapter.call(Entry::DxgkDdiDestroyDevice, PASSIVE_LEVEL, || unsafe { function(device) });
        }
        self.destroy_process_of_driver(handle(process.0));
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
        let mut args = DXGKARG_CREATECONTEXT {
            hContext: dxgk,
            NodeOrdinal: node_ordinal,
            EngineAffinity: 1,
            Flags: if system_context { FLAG_SYSTEM } else { 0 } | FLAG_VIRTUAL_ADDRESSING,
            ..DXGKARG_CREATECONTEXT::zeroed()
        };
        // SAFETY: the struct lives for the call; the device is the driver's.
        let status =
            self.adapter.call(Entry::DxgkDdiCreateContext, PASSIVE_LEVEL, || unsafe { function(device, &mut args) });
        created(status, "DxgkDdiCreateContext")?;
        let context = KmdContextHandle(args.hContext.addr() as u64);
        self.contexts.insert(context);
        Ok(context)
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.roots.remove(&context);
        self.contexts.remove(&context);
        if let Some(function) = self.ddi().DxgkDdiDestroyContext {
            let context = handle(context.0);
            // SAFETY: the context is the driver's, and none of its work is left.
            self.adapter.call(Entry::DxgkDdiDestroyContext, PASSIVE_LEVEL, || unsafe { function(context) });
        }
    }

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let function = self.ddi().DxgkDdiCreateAllocation.ok_or(CreateAllocationError::InvalidParameter)?;
        let mut data = private_driver_data.to_vec();
        let mut info = DXGK_ALLOCATIONINFO {
            pPrivateDriverData: data.as_mut_ptr().cast(),
            PrivateDriverDataSize: data.len() as u32,
            ..DXGK_ALLOCATIONINFO::zeroed()
        };
        let mut args = DXGKARG_CREATEALLOCATION {
            NumAllocations: 1,
            pAllocationInfo: &mut info,
            ..DXGKARG_CREATEALLOCATION::zeroed()
        };
        // SAFETY: the structs and the data live for the call.
        let status = self.adapter.call(Entry::DxgkDdiCreateAllocation, PASSIVE_LEVEL, || unsafe {
            function(self.adapter.handle(), &mut args)
        });
        match status {
            0.. => {
                let info = allocation_info(&info);
                self.allocations.insert(info.allocation);
                let wanted = self.adapter.wanted.borrow_mut().remove(private_driver_data);
                if let Some(wanted) = wanted.filter(|&wanted| info.size < wanted) {
                    let size = info.size;
                    report(
                        "DDI-SIZE",
                        format!("an allocation of {wanted} bytes was asked for, and its Size is {size}"),
                    );
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

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.allocations.remove(&allocation);
        let Some(function) = self.ddi().DxgkDdiDestroyAllocation else { return };
        let list = [handle(allocation.0)];
        let args = DXGKARG_DESTROYALLOCATION {
            NumAllocations: 1,
            pAllocationList: list.as_ptr(),
            ..DXGKARG_DESTROYALLOCATION::zeroed()
        };
        // SAFETY: the structs live for the call; the allocation is the driver's.
        self.adapter
            .call(Entry::DxgkDdiDestroyAllocation, PASSIVE_LEVEL, || unsafe { function(self.adapter.handle(), &args) });
    }

    fn open_allocation(
        &mut self,
        process: KmdProcessHandle,
        allocation: KmdAllocationHandle,
    ) -> Result<KmdOpenHandle, KmdError> {
        let Some(function) = self.ddi().DxgkDdiOpenAllocation else { return Ok(KmdOpenHandle(allocation.0)) };
        let device = self.devices.get(&process).copied().ok_or(KmdError)?;
        let name = {
            let mut handles = self.adapter.handle_data.borrow_mut();
            handles.push(handle(allocation.0));
            handles.len() as u32
        };
        let mut info = DXGK_OPENALLOCATIONINFO { hAllocation: name, ..DXGK_OPENALLOCATIONINFO::zeroed() };
        let args = DXGKARG_OPENALLOCATION {
            NumAllocations: 1,
            pOpenAllocation: &mut info,
            ..DXGKARG_OPENALLOCATION::zeroed()
        };
        // SAFETY: the structs live for the call; the device is the driver's.
        let status =
            self.adapter.call(Entry::DxgkDdiOpenAllocation, PASSIVE_LEVEL, || unsafe { function(device, &args) });
        created(status, "DxgkDdiOpenAllocation")?;
        let opened = KmdOpenHandle(info.hDeviceSpecificAllocation.addr() as u64);
        self.opened.entry(opened).or_default().push(device);
        Ok(opened)
    }

    fn close_allocation(&mut self, allocation: KmdOpenHandle) {
        let Some(function) = self.ddi().DxgkDdiCloseAllocation else { return };
        let Some(device) = self.opened.get_mut(&allocation).and_then(Vec::pop) else { return };
        let list = [handle(allocation.0)];
        let args = DXGKARG_CLOSEALLOCATION { NumAllocations: 1, pOpenHandleList: list.as_ptr() };
        // SAFETY: the structs live for the call; the allocation was opened by the driver.
        self.adapter.call(Entry::DxgkDdiCloseAllocation, PASSIVE_LEVEL, || unsafe { function(device, &args) });
    }

    fn validate_update_allocation_property(
        &mut self,
        allocation: KmdAllocationHandle,
        supported_segment_set: SegmentSet,
        preferred_segment: SegmentPreference,
    ) -> bool {
        let Some(function) = self.ddi().DxgkDdiValidateUpdateAllocationProperty else { return true };
        let mut args = DXGKARG_VALIDATEUPDATEALLOCPROPERTY {
            hAllocation: handle(allocation.0),
            SupportedSegmentSet: supported_segment_set.0,
            PreferredSegment: preference_bits(preferred_segment),
            Flags: 0,
            PropertyMaskValue: PROPERTIES_OF_SEGMENTS,
        };
        // SAFETY: the struct lives for the call.
        self.adapter.call(Entry::DxgkDdiValidateUpdateAllocationProperty, PASSIVE_LEVEL, || unsafe {
            function(self.adapter.handle(), &mut args)
        }) >= 0
    }

    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable) {
        self.roots.insert(context, root);
        if self.is_semantic {
            crate::engine::set_root(&self.adapter, context, root);
        }
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let Some(function) = self.ddi().DxgkDdiBuildPagingBuffer else { return BuildStatus::Other(-1) };
        let (operation, payload) = self.payloads.payload(build.operation);
        let by_cpu = build.operation.is_by_cpu();
        let (offset, room) = (build.dma_buffer_write_offset as usize, build.dma_buffer.len());
        let private_room = build.dma_buffer_private_data.len();
        let dma = if by_cpu { std::ptr::null_mut() } else { self.dma.start(offset, room) };
        let private = if private_room == 0 { std::ptr::null_mut() } else { self.private.start(0, private_room) };
        let mut args = DXGKARG_BUILDPAGINGBUFFER {
            pDmaBuffer: dma,
            DmaSize: room as u32,
            pDmaBufferPrivateData: private,
            DmaBufferPrivateDataSize: private_room as u32,
            Operation: operation,
            MultipassOffset: *build.multipass_offset,
            Reserved: payload,
            hSystemContext: handle(build.system_context.0),
            DmaBufferGpuVirtualAddress: 0,
            DmaBufferWriteOffset: build.dma_buffer_write_offset,
        };
        let allocation = build.operation.allocation().map_or(0, |allocation| allocation.0);
        self.adapter.progress().build(operation, allocation);
        // SAFETY: the struct, its lists and its buffers live for the call; beyond a buffer's end are bytes of ours.
        let status = self.adapter.call(Entry::DxgkDdiBuildPagingBuffer, PASSIVE_LEVEL, || unsafe {
            function(self.adapter.handle(), &mut args)
        });
        *build.multipass_offset = args.MultipassOffset;
        if !by_cpu {
            // More than there was room for: the manager names the rule.
            let written = self.dma.written(offset, args.pDmaBuffer);
            build.dma_bytes_written = written.map_or(room + 1, <[u8]>::len);
            if let Some(written) = written {
                build.dma_buffer[..written.len()].copy_from_slice(written);
            }
        }
        if private_room > 0 {
            let written = self.private.written(0, args.pDmaBufferPrivateData);
            build.private_bytes_written = written.map_or(private_room + 1, <[u8]>::len);
            if let Some(written) = written {
                build.dma_buffer_private_data[..written.len()].copy_from_slice(written);
            }
        }
        match status {
            STATUS_SUCCESS => BuildStatus::Success,
            STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER => BuildStatus::InsufficientDmaBuffer,
            STATUS_GRAPHICS_ALLOCATION_BUSY => BuildStatus::AllocationBusy,
            other => BuildStatus::Other(other),
        }
    }

    /// The driver is called when the packet begins: what it needs goes with the packet.
    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>) {
        if !self.is_semantic {
            let root = self.roots.get(&submit.context).copied();
            Submission { context: submit.context, root, paging: submit.paging }.encode(preamble);
        }
    }

    /// The bytes are the index of a report that the driver has made already.
    fn interrupt_routine(&mut self, status: &[u8]) -> Option<NotifyInterrupt> {
        let index = usize::from_le_bytes(status.try_into().ok()?);
        match self.adapter.notifications.borrow().get(index) {
            Some(&Notification::Faulted { interrupt }) => Some(interrupt),
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
        self.adapter.call(Entry::DxgkDdiQueryDependentEngineGroup, PASSIVE_LEVEL, || unsafe {
            function(self.adapter.handle(), &mut args)
        });
        args.DependentNodeOrdinalMask
    }
}

impl DdiKmd {
    /// Asks for an operation that no version has.
    pub fn ask_unknown_operation(&mut self) {
        /// Far behind the last operation of WDDM 3.2.
        const UNKNOWN_OPERATION: u32 = 0x7FFF;
        const ROOM: usize = PAGE_SIZE as usize;
        let Some(function) = self.ddi().DxgkDdiBuildPagingBuffer else { return };
        let mut args = DXGKARG_BUILDPAGINGBUFFER {
            pDmaBuffer: self.dma.start(0, ROOM),
            DmaSize: ROOM as u32,
            Operation: UNKNOWN_OPERATION,
            ..DXGKARG_BUILDPAGINGBUFFER::zeroed()
        };
        self.adapter.progress().build(UNKNOWN_OPERATION, 0);
        // SAFETY: the struct and its buffer live for the call.
        let status = self.adapter.call(Entry::DxgkDdiBuildPagingBuffer, PASSIVE_LEVEL, || unsafe {
            function(self.adapter.handle(), &mut args)
        });
        if status >= 0 {
            let message =
                "an operation that the driver cannot know is answered with success, as if it were carried out";
            report("DDI-UNKNOWN-OPERATION", message);
        }
    }

    fn destroy_process_of_driver(&self, process: HANDLE) {
        if let Some(function) = self.ddi().DxgkDdiDestroyProcess {
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
        std::mem::take(&mut self.allocations).into_iter().for_each(|allocation| self.destroy_allocation(allocation));
        std::mem::take(&mut self.contexts).into_iter().for_each(|context| self.destroy_context(context));
        let processes = Vec::from_iter(self.devices.keys().copied());
        processes.into_iter().for_each(|process| self.destroy_process(process));
    }
}

/// The driver's decisions. An allocation is read and written in the same segments: those in both sets.
fn allocation_info(info: &DXGK_ALLOCATIONINFO) -> AllocationInfo {
    let hint = info.HintedBank;
    let bank = |at: u32| (hint >> (8 * at)) as u8;
    AllocationInfo {
        allocation: KmdAllocationHandle(info.hAllocation.addr() as u64),
        size: info.Size as u64,
        alignment: info.Alignment,
        supported_segment_set: SegmentSet(info.SupportedReadSegmentSet & info.SupportedWriteSegmentSet),
        preferred_segment: preference(info.PreferredSegment),
        hinted_bank: SegmentBankPreference {
            banks: std::array::from_fn(|at| bank(at as u32) & 0x7F),
            directions: std::array::from_fn(|at| direction(bank(at as u32) >> 7 != 0)),
        },
        eviction_segment_set: SegmentSet(info.EvictionSegmentSet),
        allocation_priority: info.AllocationPriority,
        flags: AllocationFlags::from_bits_truncate(info.Flags),
        flags2: AllocationFlags2::from_bits_truncate(info.Flags2),
    }
}

fn direction(from_end: bool) -> Direction {
    if from_end { Direction::FromEnd } else { Direction::FromStart }
}

/// Five ids of five bits, each with its direction (SEG-42).
fn preference(bits: u32) -> SegmentPreference {
    let field = |at: usize| bits >> (6 * at);
    SegmentPreference {
        segment_ids: std::array::from_fn(|at| vidmm::SegmentId((field(at) & 0x1F) as u8)),
        directions: std::array::from_fn(|at| direction(field(at) >> 5 & 1 != 0)),
    }
}

fn preference_bits(preference: SegmentPreference) -> u32 {
    let ids = preference.segment_ids.iter().zip(&preference.directions);
    ids.enumerate().fold(0, |bits, (at, (id, &from))| {
        bits | (u32::from(id.0 & 0x1F) | u32::from(from == Direction::FromEnd) << 5) << (6 * at)
    })
}

/// The root table of a submission, as the driver sees it.
pub(crate) fn root_args(context: KmdContextHandle, root: RootPageTable) -> DXGKARG_SETROOTPAGETABLE {
    DXGKARG_SETROOTPAGETABLE {
        hContext: handle(context.0),
        Address: physical(root.address),
        NumEntries: root.num_entries,
    }
}
