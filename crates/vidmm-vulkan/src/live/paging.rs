//! The engine that pages: paging buffers become submissions to the queue.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use vidmm::contract::{DmaBuffer, EngineFence, Packet};

use crate::device::{Mark, VulkanDevice};
use crate::memory::VulkanMemory;
use crate::operation::Operation;

use super::error::Error;

/// Executes paging buffers as they come: records their copies, and binds what they map. A packet ends when the queue has done that.
pub(super) struct Paging {
    device: Arc<VulkanDevice>,
    memory: Rc<RefCell<VulkanMemory>>,
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
    pub fn new(device: Arc<VulkanDevice>, memory: Rc<RefCell<VulkanMemory>>) -> Self {
        Self { device, memory, in_flight: VecDeque::new() }
    }

    /// Submits what a packet asks for, behind all that was submitted before. Returns when it has ended. Paging that it waits for was
    /// submitted before, and uses that it waits for have ended.
    pub fn execute(&mut self, Packet { signal, buffer, .. }: Packet) -> Result<Mark, Error> {
        let mut memory = self.memory.borrow_mut();
        for operation in Operation::all(buffer.commands()) {
            let operation = operation.ok_or_else(|| Error::Lost("a paging buffer means nothing".to_owned()))?;
            memory.execute(operation)?;
        }
        memory.bind()?;
        memory.recorder.submit()?;
        let end = self.device.submitted();
        self.in_flight.push_back(Submitted { signal, buffer, end });
        Ok(end)
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
