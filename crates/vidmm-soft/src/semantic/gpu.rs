//! The GPU of a semantic machine: a model GPU that gives back the author's own buffers.

use std::collections::BTreeMap;

use vidmm::contract::{DmaBuffer, EngineFence, Packet, PagingBuffer};
use vidmm::{Nanoseconds, PhysicalAddress};
use vidmm_runtime::{Content, Gpu, GpuEvent};

use super::packets::PacketOperations;
use crate::gpu::ModelGpu;

/// A model GPU that never sees a byte of the author's paging buffers: the commands in their place are in the preambles.
///
/// It shows no [`Probe`](vidmm_runtime::Probe): a verifier would judge the reference driver.
pub(super) struct SemanticGpu {
    model: ModelGpu,
    packets: PacketOperations,
    /// The author's paging buffers that engines have.
    buffers: BTreeMap<EngineFence, DmaBuffer>,
}

impl SemanticGpu {
    /// A GPU that forgets the commands of `packets` once their packets have ended.
    pub fn new(model: ModelGpu, packets: PacketOperations) -> Self {
        Self { model, packets, buffers: BTreeMap::new() }
    }

    /// Puts the author's buffer in the place of the one that the model GPU had.
    fn give_back(&mut self, fence: EngineFence, buffer: &mut DmaBuffer) {
        if let Some(own) = self.buffers.remove(&fence) {
            *buffer = own;
        }
    }

    fn see(&mut self, event: &mut GpuEvent) {
        match event {
            GpuEvent::Completed { signal, buffer, .. } => {
                self.give_back(*signal, buffer);
                self.packets.end(*signal);
            }
            GpuEvent::Preempted { engine, returned, .. } | GpuEvent::EngineReset { engine, returned, .. } => {
                for (fence_id, buffer) in returned {
                    self.give_back(EngineFence { engine: *engine, fence_id: *fence_id }, buffer);
                }
            }
            GpuEvent::ResetFromTimeout { returned, .. } => {
                returned.iter_mut().for_each(|(fence, buffer)| self.give_back(*fence, buffer));
            }
            GpuEvent::RestartedFromTimeout { .. } => self.packets.end_reset(),
            GpuEvent::Interrupt { .. }
            | GpuEvent::LateAccess { .. }
            | GpuEvent::Flushed { .. }
            | GpuEvent::WrongEffect(_)
            | GpuEvent::KernelRead { .. }
            | GpuEvent::AccessedOverBus { .. }
            | GpuEvent::KernelWrote { .. } => {}
        }
    }
}

impl Gpu for SemanticGpu {
    fn submit(&mut self, now: Nanoseconds, mut packet: Packet) {
        if let DmaBuffer::Paging(_) = packet.buffer {
            let nothing = DmaBuffer::Paging(PagingBuffer::new(0, 0));
            self.buffers.insert(packet.signal, std::mem::replace(&mut packet.buffer, nothing));
        }
        self.model.submit(now, packet);
    }

    fn next_event_at(&self) -> Option<Nanoseconds> {
        self.model.next_event_at()
    }

    fn advance(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        let before = events.len();
        self.model.advance(now, events);
        events[before..].iter_mut().for_each(|event| self.see(event));
    }

    fn page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        self.model.page_digest(address)
    }

    /// The model GPU caches translations, but nobody knows whether the author's does: a driver may leave a flush out.
    fn caches_translations(&self) -> bool {
        false
    }

    fn executes_commands(&self) -> bool {
        false
    }

    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        self.model.write_page(address, content, seed)
    }

    fn lose_power(&mut self) {
        self.model.lose_power();
    }

    fn preempt(&mut self, now: Nanoseconds, engine: u32, preemption_fence_id: u64) {
        self.model.preempt(now, engine, preemption_fence_id);
    }

    fn reset_engine(&mut self, now: Nanoseconds, engine: u32) {
        self.model.reset_engine(now, engine);
    }

    fn reset_from_timeout(&mut self, now: Nanoseconds) {
        self.packets.begin_reset();
        self.model.reset_from_timeout(now);
    }

    fn restart_from_timeout(&mut self, now: Nanoseconds) {
        self.model.restart_from_timeout(now);
    }
}
