//! Reports of engines and their driver, right or not; and time.

use vidmm::GpuVirtualAddress;
use vidmm::contract::{
    DmaBuffer, DmaPageFaulted, EngineFence, FaultErrorCode, KmdProcessHandle, NotifyInterrupt, PageFaultFlags,
    PagingBuffer, ResetEngineError, RestartError,
};

use crate::rig::{Owed, Rig};

impl Rig<'_> {
    /// Makes the next right step: the manager is polled, an engine ends a packet, the driver answers, or time passes.
    pub(super) fn go_on(&mut self) {
        match self.choices.below(8) {
            0..=2 => _ = self.complete(self.choices.index(self.engines.len())),
            3 => _ = self.answer(),
            4 => self.run_all(),
            5 => self.pass_time(),
            _ => {}
        }
        self.poll();
    }

    fn pass_time(&mut self) {
        let later = match self.choices.below(4) {
            0 => self.vidmm.next_wake().unwrap_or(self.now),
            1 => self.now.saturating_add(1_000_000 << self.choices.below(13)),
            // Clocks jump, also back.
            2 => self.now.saturating_sub(1_000_000 << self.choices.below(13)),
            _ => self.choices.edge(),
        };
        self.now = later;
    }

    /// Makes a report that may be wrong.
    pub(super) fn misreport(&mut self) {
        let engine = self.choices.pick(&[0, 1, 2, 1, 2, 3, u32::MAX]);
        match self.choices.below(8) {
            0 | 1 => self.complete_oddly(engine),
            2 | 3 => self.fault(engine),
            4 => self.yield_oddly(engine),
            5 => self.end_reset_oddly(engine),
            6 => self.vidmm.handle_reset_from_timeout(Vec::new()),
            _ => {
                let answer = if self.choices.one_in(3) { Err(RestartError) } else { Ok(()) };
                self.vidmm.handle_restart_from_timeout(answer);
            }
        }
        if self.choices.one_in(2) {
            self.poll();
        }
    }

    /// A fence near those of the engine.
    fn any_fence(&self, engine: u32) -> u64 {
        let near = self.completed.get(engine as usize).copied().unwrap_or(0);
        match self.choices.below(3) {
            0 => near,
            1 => near.wrapping_add(self.choices.below(6)).wrapping_sub(2),
            _ => self.choices.edge(),
        }
    }

    /// A buffer of an engine, or one that never was.
    fn any_buffer(&mut self, engine: u32) -> DmaBuffer {
        match self.choices.below(4) {
            0 => DmaBuffer::User(Vec::new()),
            1 => DmaBuffer::Paging(PagingBuffer::new(self.choices.pick(&[0, 4096, 8192]), 0)),
            _ => {
                let taken = self.engines.get_mut(engine as usize).and_then(|packets| packets.pop_front());
                taken.map_or(DmaBuffer::User(vec![1]), |packet| packet.buffer)
            }
        }
    }

    fn complete_oddly(&mut self, engine: u32) {
        let (fence_id, buffer) = (self.any_fence(engine), self.any_buffer(engine));
        self.vidmm.handle_completed(EngineFence { engine, fence_id }, buffer);
    }

    fn fault(&mut self, engine: u32) {
        let faulted_fence_id = self.any_fence(engine);
        let choices = &self.choices;
        if choices.one_in(3) {
            let interrupt = NotifyInterrupt::DmaFaulted { faulted_fence_id, node_ordinal: engine };
            return self.vidmm.handle_interrupt(&interrupt);
        }
        let bits = if choices.one_in(2) { choices.any() } else { 1 << choices.below(9) };
        let fault = DmaPageFaulted {
            faulted_fence_id,
            faulted_primitive_api_sequence_number: choices.edge(),
            faulted_pipeline_stage: choices.any(),
            faulted_bind_table_entry: choices.any(),
            // A fatal error ends the run, and so tells little.
            page_fault_flags: PageFaultFlags::from_bits_retain(bits & !0x10 | u32::from(choices.one_in(16)) << 4),
            faulted_virtual_address: GpuVirtualAddress(choices.edge()),
            node_ordinal: engine,
            page_table_level: choices.any(),
            fault_error_code: FaultErrorCode(choices.any()),
            faulted_process: choices.one_in(2).then(|| KmdProcessHandle(choices.below(9))),
        };
        self.vidmm.handle_interrupt(&NotifyInterrupt::DmaPageFaulted(fault));
    }

    /// Buffers that come back: those of the engine, some of them, twice, or others.
    fn any_returned(&mut self, engine: u32) -> Vec<(u64, DmaBuffer)> {
        let mut returned = if self.choices.one_in(4) { Vec::new() } else { self.give_back(engine) };
        match self.choices.below(6) {
            0 => _ = returned.pop(),
            1 => returned.reverse(),
            2 => returned.push((self.any_fence(engine), self.any_buffer(engine))),
            3 => returned.iter_mut().for_each(|(fence_id, _)| *fence_id = fence_id.wrapping_add(1)),
            _ => {}
        }
        returned
    }

    fn yield_oddly(&mut self, engine: u32) {
        let asked = self.owed.iter().find_map(|owed| match *owed {
            Owed::Yield(asked, request) if asked == engine => Some(request),
            _ => None,
        });
        let request = asked.filter(|_| !self.choices.one_in(4)).unwrap_or_else(|| self.any_fence(engine));
        let (completed, returned) = (self.any_fence(engine), self.any_returned(engine));
        self.vidmm.handle_preempted(engine, request, completed, returned);
    }

    fn end_reset_oddly(&mut self, engine: u32) {
        let result = if self.choices.one_in(3) { Err(ResetEngineError) } else { Ok(self.any_fence(engine)) };
        let returned = self.any_returned(engine);
        self.vidmm.handle_engine_reset(engine, result, returned);
    }
}
