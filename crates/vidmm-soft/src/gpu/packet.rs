//! The commands of a packet, one after the other, and how it ends.

use vidmm::Nanoseconds;
use vidmm::contract::Packet;
use vidmm_runtime::GpuEvent;

use super::ModelGpu;
use crate::device::Abort;
use crate::encoding::Command;
use crate::engine::{NEVER, Running, State};
use crate::executor::Executor;
use crate::faults::{FORGED_FAULT_ADDRESS, Mishap};
use crate::status::{StatusKind, StatusRegisters};
use crate::tlb::PageFault;
use crate::translation::AddressSpace;

impl<E: Executor> ModelGpu<E> {
    /// Begins the next command of the packet that `engine` runs, or ends the packet.
    pub(super) fn begin_next(
        &mut self,
        engine: usize,
        mut running: Box<Running>,
        now: Nanoseconds,
        events: &mut Vec<GpuEvent>,
    ) {
        let next = running.commands.pop_front();
        let only_chooses_space = matches!(
            next,
            Some(Ok(Command::SetRootPageTable(_) | Command::SetAddressSpace(_) | Command::SetContext(_)))
        );
        let mishap = running.mishap.filter(|_| !only_chooses_space);
        if mishap == Some(Mishap::PageFault) {
            let forged = PageFault { virtual_address: FORGED_FAULT_ADDRESS, write: false, level: 0 };
            return self.abort(engine, *running, Abort::PageFault(forged), now, events);
        }
        let command = match next {
            None if mishap == Some(Mishap::Hang) => {
                self.engines[engine].state = State::Preparing { running, until: NEVER };
                return;
            }
            None => return self.complete(engine, *running, now, events),
            Some(Err(_)) => return self.abort(engine, *running, Abort::IllegalCommand, now, events),
            Some(Ok(command)) => command,
        };
        let until = match mishap {
            Some(_) => NEVER,
            None => now.saturating_add(self.cost.duration(&command)),
        };
        let space = self.engines[engine].space;
        if self.programmed.as_mut().is_some_and(|programmed| !programmed.begin(engine, space, &command)) {
            return self.abort(engine, *running, Abort::IllegalCommand, now, events);
        }
        match self.device.begin(space, command, events) {
            Ok(begun) => self.engines[engine].state = State::Executing { running, begun, until },
            Err(abort) => self.abort(engine, *running, abort, now, events),
        }
    }

    /// Stops the engine: its packet has faulted.
    pub(super) fn abort(
        &mut self,
        engine: usize,
        running: Running,
        abort: Abort,
        now: Nanoseconds,
        events: &mut Vec<GpuEvent>,
    ) {
        self.device.count_abort(abort);
        let fence_id = running.packet.signal.fence_id;
        let kind = self.status_of(engine, abort);
        let registers = StatusRegisters { kind, engine: engine as u32, fence_id };
        events.push(GpuEvent::Interrupt { status: registers.to_bytes(), at: now });
        self.engines[engine].state = State::Stopped(running.packet);
        self.end_packet(engine, fence_id, now);
    }

    fn status_of(&self, engine: usize, abort: Abort) -> StatusKind {
        let Abort::PageFault(PageFault { virtual_address, write, level }) = abort else {
            return StatusKind::IllegalCommand;
        };
        let (io_mmu, process) = match self.engines[engine].space {
            None => (false, None),
            Some(AddressSpace::PageTables(root)) => (false, Some(root.process)),
            Some(AddressSpace::IoMmu(process)) => (true, Some(process)),
            Some(AddressSpace::Physical(context)) => (false, Some(context.process)),
        };
        StatusKind::PageFault { virtual_address, write, io_mmu, page_table_level: level, process }
    }

    fn complete(&mut self, engine: usize, running: Running, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        let Packet { signal, buffer, .. } = running.packet;
        events.push(GpuEvent::Completed { signal, started_at: running.started_at, ended_at: now, buffer });
        self.end_packet(engine, signal.fence_id, now);
    }
}
