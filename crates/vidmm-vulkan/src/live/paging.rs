//! The engine that pages: paging buffers become submissions to the queue.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use vidmm::Nanoseconds;
use vidmm::contract::{DmaBuffer, EngineFence, KmdProcessHandle, Packet};
use vidmm_runtime::{Gpu, GpuEvent};
use vidmm_soft::encoding::{Command, Decoder, SetRootPageTable, TableAddress, encode_to_vec};
use vidmm_soft::{ModelGpu, PageTableLayout, RENDER_ENGINE};

use crate::device::{Mark, VulkanDevice};
use crate::executor::VulkanExecutor;
use crate::memory::VulkanMemory;

use super::error::Error;

/// Executes paging buffers as they come. The model GPU decodes them, keeps the page tables and walks them; its executor records
/// what there is to do. Its time means nothing here: a packet ends when the queue has done what was recorded.
///
/// Page tables are written when a packet is decoded, and memory when the queue gets there. That is one order, since every
/// submission waits for the one before.
pub(super) struct Paging {
    device: Arc<VulkanDevice>,
    gpu: ModelGpu<VulkanExecutor>,
    memory: Rc<RefCell<VulkanMemory>>,
    layout: PageTableLayout,
    now: Nanoseconds,
    /// The processes whose root table the GPU knows.
    entered: BTreeSet<KmdProcessHandle>,
    in_flight: VecDeque<Submitted>,
}

/// A packet that the queue has got.
struct Submitted {
    signal: EngineFence,
    buffer: DmaBuffer,
    /// All that was submitted with it.
    end: Mark,
}

impl Paging {
    pub fn new(
        device: Arc<VulkanDevice>,
        gpu: ModelGpu<VulkanExecutor>,
        memory: Rc<RefCell<VulkanMemory>>,
        layout: PageTableLayout,
    ) -> Self {
        Self { device, gpu, memory, layout, now: 0, entered: BTreeSet::new(), in_flight: VecDeque::new() }
    }

    /// Submits what a packet asks for, behind all that was submitted before. Returns when it has ended.
    pub fn execute(&mut self, packet: Packet) -> Result<Mark, Error> {
        let roots = self.new_roots(packet.buffer.commands());
        let signal = packet.signal;
        // Paging that it waits for was submitted before, and uses that it waits for have ended.
        let buffer = self.run(Packet { waits: Vec::new(), ..packet })?;
        for root in roots {
            self.enter(root)?;
        }
        self.gpu.bind();
        self.memory.borrow_mut().recorder.submit()?;
        let end = self.device.submitted();
        self.in_flight.push_back(Submitted { signal, buffer, end });
        Ok(end)
    }

    /// Lets the model GPU run a packet, and returns its buffer.
    fn run(&mut self, packet: Packet) -> Result<DmaBuffer, Error> {
        let signal = packet.signal;
        self.gpu.submit(self.now, packet);
        let mut events = Vec::new();
        while let Some(at) = self.gpu.next_event_at() {
            self.now = at;
            self.gpu.advance(at, &mut events);
        }
        let ended = events.into_iter().find_map(|event| match event {
            GpuEvent::Completed { signal: of, buffer, .. } if of == signal => Some(buffer),
            _ => None,
        });
        ended.ok_or_else(|| Error::Lost("a paging buffer accesses memory that is not there".to_owned()))
    }

    /// The root tables that `commands` write of processes that no engine has entered yet.
    fn new_roots(&self, commands: &[u8]) -> Vec<SetRootPageTable> {
        let root_level = self.layout.levels() - 1;
        let root = |command: Result<Command, _>| match command {
            Ok(Command::WritePtes(ptes)) if ptes.level == root_level && !self.entered.contains(&ptes.process) => {
                let TableAddress::Physical(root) = ptes.table else { return None };
                let num_entries = 1 << self.layout.index_bits(root_level);
                Some(SetRootPageTable { process: ptes.process, root, num_entries })
            }
            _ => None,
        };
        Decoder::new(commands).filter_map(root).collect()
    }

    /// The GPU learns where a process's tables are. Its engines learn that with the first work of a process; mappings are bound
    /// before there is any.
    fn enter(&mut self, root: SetRootPageTable) -> Result<(), Error> {
        if !self.entered.insert(root.process) {
            return Ok(());
        }
        let mut preamble = Vec::new();
        encode_to_vec(&Command::SetRootPageTable(root), &mut preamble);
        let signal = EngineFence { engine: RENDER_ENGINE, fence_id: self.entered.len() as u64 };
        self.run(Packet { waits: Vec::new(), signal, preamble, buffer: DmaBuffer::User(Vec::new()) }).map(drop)
    }

    /// A process is gone.
    pub fn forget_process(&mut self, process: KmdProcessHandle) {
        self.memory.borrow_mut().forget_process(process);
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Takes the first packet under way, if it has ended.
    pub fn take_ended(&mut self) -> Result<Option<(EngineFence, DmaBuffer)>, Error> {
        let Some(first) = self.in_flight.front() else { return Ok(None) };
        if !self.device.has_reached(first.end)? {
            return Ok(None);
        }
        Ok(self.in_flight.pop_front().map(|ended| (ended.signal, ended.buffer)))
    }

    /// The memory.
    pub fn memory(&self) -> &RefCell<VulkanMemory> {
        &self.memory
    }
}
