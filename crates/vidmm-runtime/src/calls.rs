//! The call that a driver or a GPU is in: a finding about its panic names it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use vidmm::contract::{
    AdapterInfo, AllocationInfo, BuildPagingBuffer, BuildStatus, CreateAllocationError, EngineFence, Kmd,
    KmdAllocationHandle, KmdContextHandle, KmdError, KmdOpenHandle, KmdProcessHandle, NotifyInterrupt, Packet,
    PagingOperation, Patch, Render, RenderStatus, RootPageTable, SegmentPreference, SegmentSet, SubmitCommand,
};

use crate::GpuEvent;
use crate::verifier::Named;

/// The call of a driver or a GPU that has not returned.
#[derive(Clone, PartialEq, Debug)]
pub enum Running {
    /// The driver encodes a paging operation.
    Encoding(PagingOperation),
    /// The driver is in another function, by its name in the documents.
    Driver(&'static str),
    /// The GPU is called. It has these packets whose waits are over, one of each engine, with their paging operations.
    Gpu(Vec<(EngineFence, Vec<PagingOperation>)>),
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encoding(operation) => write!(f, "the driver encoded {}", Named(operation)),
            Self::Driver(function) => write!(f, "the driver was in {function}"),
            Self::Gpu(packets) => {
                f.write_str("the GPU was called")?;
                for (number, (EngineFence { engine, fence_id }, operations)) in packets.iter().enumerate() {
                    f.write_str(if number == 0 { " with " } else { ", " })?;
                    write!(f, "packet {fence_id} of engine {engine}")?;
                    let first = operations.iter().take(OPERATIONS_TOLD);
                    for (number, operation) in first.enumerate() {
                        write!(f, "{}{}", if number == 0 { " (" } else { "; " }, Named(operation))?;
                    }
                    match operations.len() {
                        0 => {}
                        count if count > OPERATIONS_TOLD => write!(f, "; {} more)", count - OPERATIONS_TOLD)?,
                        _ => f.write_str(")")?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// How many operations of a packet are told; the others are counted.
const OPERATIONS_TOLD: usize = 4;

#[derive(Clone, Copy)]
enum Call {
    Encode(PagingOperation),
    Driver(&'static str),
    Gpu,
}

/// The calls of a machine.
#[derive(Default)]
pub(crate) struct Calls {
    now: Cell<Option<Call>>,
    /// The operations that were encoded since the last paging buffer was handed out.
    encoded: RefCell<Vec<PagingOperation>>,
    /// The operations of packets that have not ended.
    operations: RefCell<BTreeMap<EngineFence, Vec<PagingOperation>>>,
    /// The packets that engines have, and what each waits for.
    packets: RefCell<BTreeMap<EngineFence, Vec<EngineFence>>>,
}

impl Calls {
    /// Puts the one that takes notes before a driver.
    pub fn watch(driver: Box<dyn Kmd>) -> (Box<dyn Kmd>, Rc<Self>) {
        let calls = Rc::new(Self::default());
        (Box::new(WatchedKmd { driver, calls: calls.clone() }), calls)
    }

    /// The call that has not returned.
    pub fn running(&self) -> Option<Running> {
        Some(match self.now.get()? {
            Call::Encode(operation) => Running::Encoding(operation),
            Call::Driver(function) => Running::Driver(function),
            Call::Gpu => Running::Gpu(self.heads()),
        })
    }

    /// The first packet of each engine, unless it waits.
    fn heads(&self) -> Vec<(EngineFence, Vec<PagingOperation>)> {
        let (packets, operations) = (self.packets.borrow(), self.operations.borrow());
        let mut heads: Vec<_> = packets.iter().collect();
        heads.dedup_by_key(|(fence, _)| fence.engine);
        heads.retain(|(_, waits)| !waits.iter().any(|wait| packets.contains_key(wait)));
        heads.iter().map(|&(fence, _)| (*fence, operations.get(fence).cloned().unwrap_or_default())).collect()
    }

    fn during<T>(&self, call: Call, act: impl FnOnce() -> T) -> T {
        self.now.set(Some(call));
        let done = act();
        self.now.set(None);
        done
    }

    /// Calls the GPU.
    pub fn of_gpu<T>(&self, act: impl FnOnce() -> T) -> T {
        self.during(Call::Gpu, act)
    }

    /// The GPU is given a packet.
    pub fn given(&self, packet: &Packet) {
        self.packets.borrow_mut().insert(packet.signal, packet.waits.clone());
    }

    /// The GPU has reported something.
    pub fn see(&self, event: &GpuEvent) {
        let mut packets = self.packets.borrow_mut();
        match event {
            GpuEvent::Completed { signal, .. } => {
                packets.remove(signal);
                self.operations.borrow_mut().remove(signal);
            }
            GpuEvent::Preempted { engine, returned, .. } | GpuEvent::EngineReset { engine, returned, .. } => {
                for &(fence_id, _) in returned {
                    packets.remove(&EngineFence { engine: *engine, fence_id });
                }
            }
            GpuEvent::ResetFromTimeout { .. } => {
                packets.clear();
                self.operations.borrow_mut().clear();
                self.encoded.borrow_mut().clear();
            }
            _ => {}
        }
    }

    fn encoded(&self, operation: PagingOperation) {
        self.encoded.borrow_mut().push(operation);
    }

    /// A packet is handed out, for the first time or again (FLT-23).
    fn handed_out(&self, fence: EngineFence) {
        self.operations.borrow_mut().entry(fence).or_insert_with(|| self.encoded.take());
    }
}

/// A driver of which every call is noted as long as it takes.
struct WatchedKmd {
    driver: Box<dyn Kmd>,
    calls: Rc<Calls>,
}

impl Kmd for WatchedKmd {
    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let operation = *build.operation;
        let status = self.calls.during(Call::Encode(operation), || self.driver.build_paging_buffer(build));
        if build.dma_bytes_written > 0 && !operation.is_by_cpu() {
            self.calls.encoded(operation);
        }
        status
    }

    fn query_adapter_info(&mut self) -> AdapterInfo {
        self.calls.during(Call::Driver("DxgkDdiQueryAdapterInfo"), || self.driver.query_adapter_info())
    }

    fn query_paging_process_gpu_va_size(&mut self, physical_adapter_index: u32) -> Option<u32> {
        self.calls.during(Call::Driver("DxgkDdiQueryAdapterInfo"), || {
            self.driver.query_paging_process_gpu_va_size(physical_adapter_index)
        })
    }

    fn create_process(&mut self, system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        self.calls.during(Call::Driver("DxgkDdiCreateProcess"), || self.driver.create_process(system_process))
    }

    fn destroy_process(&mut self, process: KmdProcessHandle) {
        self.calls.during(Call::Driver("DxgkDdiDestroyProcess"), || self.driver.destroy_process(process));
    }

    fn create_context(
        &mut self,
        process: KmdProcessHandle,
        node_ordinal: u32,
        system_context: bool,
    ) -> Result<KmdContextHandle, KmdError> {
        self.calls.during(Call::Driver("DxgkDdiCreateContext"), || {
            self.driver.create_context(process, node_ordinal, system_context)
        })
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.calls.during(Call::Driver("DxgkDdiDestroyContext"), || self.driver.destroy_context(context));
    }

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        self.calls
            .during(Call::Driver("DxgkDdiCreateAllocation"), || self.driver.create_allocation(private_driver_data))
    }

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.calls.during(Call::Driver("DxgkDdiDestroyAllocation"), || self.driver.destroy_allocation(allocation));
    }

    fn open_allocation(
        &mut self,
        process: KmdProcessHandle,
        allocation: KmdAllocationHandle,
    ) -> Result<KmdOpenHandle, KmdError> {
        self.calls.during(Call::Driver("DxgkDdiOpenAllocation"), || self.driver.open_allocation(process, allocation))
    }

    fn close_allocation(&mut self, allocation: KmdOpenHandle) {
        self.calls.during(Call::Driver("DxgkDdiCloseAllocation"), || self.driver.close_allocation(allocation));
    }

    fn validate_update_allocation_property(
        &mut self,
        allocation: KmdAllocationHandle,
        supported_segment_set: SegmentSet,
        preferred_segment: SegmentPreference,
    ) -> bool {
        self.calls.during(Call::Driver("DxgkDdiValidateUpdateAllocationProperty"), || {
            self.driver.validate_update_allocation_property(allocation, supported_segment_set, preferred_segment)
        })
    }

    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable) {
        self.calls.during(Call::Driver("DxgkDdiSetRootPageTable"), || self.driver.set_root_page_table(context, root));
    }

    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>) {
        if submit.paging {
            let fence = EngineFence { engine: submit.node_ordinal, fence_id: submit.submission_fence_id };
            self.calls.handed_out(fence);
        }
        self.calls.during(Call::Driver("DxgkDdiSubmitCommand"), || self.driver.submit_command(submit, preamble));
    }

    fn render(&mut self, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        self.calls.during(Call::Driver("DxgkDdiRender"), || self.driver.render(render))
    }

    fn patch(&mut self, patch: &mut Patch<'_>) {
        self.calls.during(Call::Driver("DxgkDdiPatch"), || self.driver.patch(patch));
    }

    fn interrupt_routine(&mut self, status: &[u8]) -> Option<NotifyInterrupt> {
        self.calls.during(Call::Driver("DxgkDdiInterruptRoutine"), || self.driver.interrupt_routine(status))
    }

    fn query_dependent_engine_group(&mut self, node_ordinal: u32) -> u64 {
        self.calls.during(Call::Driver("DxgkDdiQueryDependentEngineGroup"), || {
            self.driver.query_dependent_engine_group(node_ordinal)
        })
    }
}
