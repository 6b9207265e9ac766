//! The commands of a packet, one after the other, and how it ends.

use vidmm::Nanoseconds;
use vidmm::contract::{MemoryTransferDirection, Packet};
use vidmm_runtime::GpuEvent;

use super::ModelGpu;
use crate::device::{Abort, Begun};
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
        let duration = self.cost.duration(&command);
        let space = self.engines[engine].space;
        if self.programmed.as_mut().is_some_and(|programmed| !programmed.begin(engine, space, &command)) {
            return self.abort(engine, *running, Abort::IllegalCommand, now, events);
        }
        match self.device.begin(space, command, events) {
            Ok(begun) => {
                let since = running.ready_at.saturating_add(self.cost.packet_nanoseconds).min(now);
                let until = if mishap.is_some() { NEVER } else { self.end_of(&begun, space, (since, now), duration) };
                self.engines[engine].state = State::Executing { running, begun, began_at: now, until };
            }
            Err(abort) => self.abort(engine, *running, abort, now, events),
        }
    }

    /// When a command ends that begins at `now` and takes `duration` with the bus to itself. A transfer and the reads of a
    /// kernel wait for the bus. Where the paging engine copies both ways, the transfer may have begun `since`.
    fn end_of(
        &mut self,
        begun: &Begun<E::Bytes>,
        space: Option<AddressSpace>,
        (since, now): (Nanoseconds, Nanoseconds),
        duration: Nanoseconds,
    ) -> Nanoseconds {
        let from = now.saturating_add(self.cost.command_nanoseconds);
        let alone = now.saturating_add(duration);
        match begun {
            Begun::Transfer(transfer, ..) => {
                let Some(both_ways) = &mut self.both_ways else {
                    return self.bus.carry(transfer.direction, from, alone - from);
                };
                let pages = self.device.pages_of(space, transfer);
                let since = both_ways.may_begin_at(transfer.direction, &pages, since);
                let until = self.bus.carry(transfer.direction, since, alone - from).max(from);
                both_ways.note(transfer.direction, pages, until);
                until
            }
            Begun::Kernel(_, _, read) => {
                let read = self.cost.kernel_read(read.iter().sum());
                alone.max(self.bus.carry(MemoryTransferDirection::SystemToLocal, from, read))
            }
            Begun::Decompress(..) | Begun::Other(_) => alone,
        }
    }

    /// A command that began at `began_at` has done its work, but for the bytes that a kernel still writes over the bus.
    pub(super) fn end_command(
        &mut self,
        engine: usize,
        running: Box<Running>,
        mut begun: Begun<E::Bytes>,
        began_at: Nanoseconds,
        now: Nanoseconds,
        events: &mut Vec<GpuEvent>,
    ) {
        let kernel = match &mut begun {
            Begun::Kernel(kernel, _, read) => Some((kernel.kernel, kernel.nanoseconds, std::mem::take(read))),
            _ => None,
        };
        let written = match self.device.finish(&mut self.engines[engine].space, begun, events) {
            Ok(written) => written,
            Err(abort) => return self.abort(engine, *running, abort, now, events),
        };
        let Some((kernel, nanoseconds, read)) = kernel else { return self.begin_next(engine, running, now, events) };
        let from = began_at.saturating_add(self.cost.command_nanoseconds);
        let write = self.cost.kernel_write(written.iter().sum());
        let until = now.max(self.bus.carry(MemoryTransferDirection::LocalToSystem, from, write));
        let lost_ns = until.saturating_sub(from.saturating_add(nanoseconds));
        if lost_ns > 0 {
            events.push(GpuEvent::AccessedOverBus { kernel, read, written, lost_ns });
        }
        match until > now {
            true => self.engines[engine].state = State::Preparing { running, until },
            false => self.begin_next(engine, running, now, events),
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
