//! The call that a driver or a GPU is in: a finding about its panic names it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use vidmm::contract::{
    BuildPagingBuffer, BuildStatus, EngineFence, Kmd, Packet, PagingOperation, Patch, Render, RenderStatus,
    SubmitCommand,
};

use crate::verifier::Named;
use crate::{GpuEvent, HookedKmd, KmdHook};

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
        (Box::new(HookedKmd::new(driver, Watch(calls.clone()))), calls)
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

/// Notes every call of a driver as long as it takes.
struct Watch(Rc<Calls>);

impl KmdHook for Watch {
    fn build_paging_buffer(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let operation = *build.operation;
        let status = self.0.during(Call::Encode(operation), || driver.build_paging_buffer(build));
        if build.dma_bytes_written > 0 && !operation.is_by_cpu() {
            self.0.encoded(operation);
        }
        status
    }

    fn patch(&mut self, driver: &mut dyn Kmd, patch: &mut Patch<'_>) {
        self.0.during(Call::Driver("DxgkDdiPatch"), || driver.patch(patch));
    }

    fn render(&mut self, driver: &mut dyn Kmd, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        self.0.during(Call::Driver("DxgkDdiRender"), || driver.render(render))
    }

    fn called(&mut self, function: &'static str) {
        self.0.now.set(Some(Call::Driver(function)));
    }

    fn returned(&mut self) {
        self.0.now.set(None);
    }

    fn command_submitted(&mut self, submit: &SubmitCommand) {
        if submit.paging {
            self.0.handed_out(EngineFence { engine: submit.node_ordinal, fence_id: submit.submission_fence_id });
        }
    }
}
