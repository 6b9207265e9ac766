//! Trouble in the test world: engines that stop, hang, or are not heard; and what a driver answers then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

/// The driver's part in what went wrong, and who may be blamed.
#[derive(Debug, Default)]
pub struct Faults {
    /// Engines whose packet will not end; a reset helps.
    pub hangs: [bool; 3],
    /// How many resets of engines the driver will fail at.
    pub failing_resets: u32,
    /// The requests to the driver that it has not carried out.
    pub owed: VecDeque<Owed>,
    /// Interrupts that are on their way.
    pub late: VecDeque<(EngineFence, DmaBuffer)>,
    /// Packets that ended, and nobody has heard of it.
    unheard: [VecDeque<u64>; 3],
    /// Engines that the driver was asked to reset and has not: what they report does not count (FLT-22).
    pub(super) being_reset: [bool; 3],
    /// The last request to yield that an engine has answered.
    answered: [Option<u64>; 3],
    /// Paging buffers that engines gave back.
    pub(super) coming_again: BTreeSet<EngineFence>,
    /// Whose work a packet is.
    pub whose: BTreeMap<EngineFence, DeviceId>,
    /// Devices whose packets were aborted.
    guilty: BTreeSet<DeviceId>,
    /// Devices that were told that they are in error, and why.
    pub told: BTreeMap<DeviceId, DeviceErrorReason>,
    /// When resets of the adapter began.
    pub adapter_resets: Vec<Nanoseconds>,
    /// The processes of clients in error that were left.
    pub left_processes: BTreeSet<ProcessId>,
}

/// A request to a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owed {
    /// To reset an engine.
    Engine(u32),
    /// To stop the GPU.
    Stop,
    /// To start it again.
    Restart,
}

/// The fate of the interrupt at the end of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    Heard,
    Lost,
    /// It comes with [`World::deliver`].
    Late,
    Twice,
}

impl World {
    /// Whether an engine runs and answers.
    pub fn is_able(&self, engine: u32) -> bool {
        let engine = engine as usize;
        !self.stopped[engine] && !self.hung[engine] && !self.trouble.hangs[engine]
    }

    /// The fence of the last packet that an engine was handed.
    pub fn last_submitted(&self, engine: u32) -> u64 {
        self.submitted.get(engine as usize).copied().unwrap_or(0)
    }

    // How packets end.

    /// The engine runs its next packet to its end.
    pub fn run_packet(&mut self, engine: u32) -> Packet {
        assert!(self.can_complete(engine), "engine {engine} has nothing whose waits are over");
        let packet = self.take_packet(engine);
        self.execute(&packet);
        packet
    }

    /// The same, and this becomes of its interrupt. The manager is not polled.
    pub fn end(&mut self, engine: u32, ending: Ending) {
        let Packet { signal, buffer, .. } = self.run_packet(engine);
        match ending {
            Ending::Heard => self.hear(signal, buffer),
            Ending::Lost => {}
            Ending::Late => self.trouble.late.push_back((signal, buffer)),
            Ending::Twice => {
                self.hear(signal, buffer);
                self.hear(signal, DmaBuffer::User(Vec::new()));
            }
        }
    }

    /// The manager hears of the end of a packet, and so of the end of all packets before it.
    pub fn hear(&mut self, signal: EngineFence, buffer: DmaBuffer) {
        self.has_heard(signal.engine, signal.fence_id);
        self.call(|vidmm, _, _| vidmm.handle_completed(signal, buffer));
    }

    /// An engine has ended a packet, of which nobody has heard yet.
    pub(super) fn has_ended(&mut self, signal: EngineFence) {
        self.trouble.unheard[signal.engine as usize].push_back(signal.fence_id);
    }

    /// The manager is told that packets up to `fence_id` have ended.
    fn has_heard(&mut self, engine: u32, fence_id: u64) {
        let Faults { unheard, being_reset, .. } = &mut self.trouble;
        if !being_reset[engine as usize] {
            unheard[engine as usize].retain(|&ended| ended > fence_id);
        }
    }

    /// The interrupt arrives that has been on its way for longest. The manager is not polled.
    pub fn deliver(&mut self) {
        if let Some((signal, buffer)) = self.trouble.late.pop_front() {
            self.hear(signal, buffer);
        }
    }

    /// The engine runs its next packet to its end, and nobody hears of it; its buffer does not come back.
    pub fn lose_interrupt(&mut self, engine: u32) {
        self.end(engine, Ending::Lost);
    }

    /// The engine comes only so far with its next packet: so many operations, or accesses.
    pub fn begin(&mut self, engine: u32, steps: usize) {
        assert!(self.can_complete(engine), "engine {engine} has nothing whose waits are over");
        let packet = self.engines[engine as usize].pop_front().expect("the engine has a packet");
        self.execute_part(&packet, steps);
        self.engines[engine as usize].push_front(packet);
    }

    /// The engine's next packet faults at `address`.
    pub fn fault(&mut self, engine: u32, address: u64) {
        self.fault_quietly(engine, address);
        self.poll();
    }

    /// The same, but nobody polls: the engine has stopped.
    pub fn fault_quietly(&mut self, engine: u32, address: u64) {
        self.fault_with(engine, page_fault(address));
    }

    /// The same, and the driver says this of it; packet and engine follow.
    pub fn fault_with(&mut self, engine: u32, fault: DmaPageFaulted) {
        let faulted_fence_id = self.stop(engine);
        let is_unknown = fault.page_fault_flags.contains(PageFaultFlags::FENCE_INVALID);
        // The reset of the engine says whose packet it was; that of the adapter does not.
        let blamed = match fault.page_fault_flags.contains(PageFaultFlags::ADAPTER_RESET_REQUIRED) {
            _ if !is_unknown => Some(faulted_fence_id),
            true => self.oldest_unheard(engine),
            false => None,
        };
        let faulted_fence_id = if is_unknown { 0 } else { faulted_fence_id };
        self.blame_for_fault(engine, blamed);
        self.has_heard(engine, faulted_fence_id);
        let fault = DmaPageFaulted { faulted_fence_id, node_ordinal: engine, ..fault };
        self.call(|vidmm, _, _| vidmm.handle_interrupt(&NotifyInterrupt::DmaPageFaulted(fault)));
    }

    /// The engine's next packet holds a command that means nothing. The manager is not polled.
    pub fn illegal_command(&mut self, engine: u32) {
        let faulted_fence_id = self.stop(engine);
        self.blame_for_fault(engine, Some(faulted_fence_id));
        self.has_heard(engine, faulted_fence_id);
        let fault = NotifyInterrupt::DmaFaulted { faulted_fence_id, node_ordinal: engine };
        self.call(|vidmm, _, _| vidmm.handle_interrupt(&fault));
    }

    fn stop(&mut self, engine: u32) -> u64 {
        let fence_id = self.engines[engine as usize].front().expect("the engine has a packet").signal.fence_id;
        self.stopped[engine as usize] = true;
        fence_id
    }

    // Blame.

    fn blame(&mut self, engine: u32, fence_id: Option<u64>) {
        let device = fence_id.and_then(|fence_id| self.trouble.whose.get(&EngineFence { engine, fence_id }));
        self.trouble.guilty.extend(device);
    }

    /// A fault that is reported while its engine is reset does not count; what the reset aborts does.
    fn blame_for_fault(&mut self, engine: u32, fence_id: Option<u64>) {
        if !self.trouble.being_reset[engine as usize] {
            self.blame(engine, fence_id);
        }
    }

    /// The packet that an engine runs, as far as the manager has heard.
    fn oldest_unheard(&self, engine: u32) -> Option<u64> {
        let unheard = self.trouble.unheard[engine as usize].front().copied();
        unheard.or_else(|| self.engines[engine as usize].front().map(|packet| packet.signal.fence_id))
    }

    /// The devices that were told that they are in error, and why, in their order.
    pub fn devices_in_error(&self) -> Vec<(DeviceId, DeviceErrorReason)> {
        let error = |output: &Output| match output {
            Output::DeviceInError(error) => Some((error.device, error.reason)),
            _ => None,
        };
        self.outputs.iter().filter_map(error).collect()
    }

    /// The engines that the driver was asked to reset, in their order.
    pub fn engine_resets(&self) -> Vec<u32> {
        let reset = |output: &Output| match output {
            Output::ResetEngine { engine } => Some(*engine),
            _ => None,
        };
        self.outputs.iter().filter_map(reset).collect()
    }

    /// I12: who is put in error has done something, and is told once.
    pub(super) fn is_told(&mut self, error: DeviceInError) {
        let DeviceInError { device, reason } = error;
        let is_right = match reason {
            DeviceErrorReason::PageFault { .. }
            | DeviceErrorReason::IllegalCommand
            | DeviceErrorReason::EngineTimeout => self.trouble.guilty.contains(&device),
            DeviceErrorReason::AdapterReset | DeviceErrorReason::PagingBufferFault => {
                !self.trouble.adapter_resets.is_empty()
            }
            _ => true,
        };
        assert!(is_right, "I12: {device:?} is in error for {reason:?}, but has done nothing");
        let before = self.trouble.told.insert(device, reason);
        assert_eq!(before, None, "FLT-33: {device:?} is told twice");
    }

    // The driver's answers to requests after something went wrong.

    /// An engine that was asked to yield does: it runs nothing more, and gives back what it has.
    pub fn yield_engine(&mut self, engine: u32) {
        let at = self.preempting.iter().position(|&(asked, _)| asked == engine).expect("it was asked to yield");
        let (_, preemption_fence_id) = self.preempting.remove(at);
        self.trouble.answered[engine as usize] = Some(preemption_fence_id);
        let returned = self.give_back(engine);
        let completed = self.completed[engine as usize];
        self.has_heard(engine, completed);
        self.call(|vidmm, _, _| vidmm.handle_preempted(engine, preemption_fence_id, completed, returned));
    }

    /// An engine that was asked to yield and can, if there is one, does.
    pub fn yield_who_can(&mut self) -> bool {
        self.yield_if(|_| true)
    }

    /// The same, if it is one of these.
    pub fn yield_if(&mut self, is_one: impl Fn(u32) -> bool) -> bool {
        let mut asked = self.preempting.iter().map(|&(engine, _)| engine);
        let asked = asked.find(|&engine| self.is_able(engine) && is_one(engine));
        if let Some(engine) = asked {
            self.yield_engine(engine);
            self.poll();
        }
        asked.is_some()
    }

    /// The driver reports again that an engine has yielded.
    pub fn yield_again(&mut self, engine: u32) {
        if let Some(preemption_fence_id) = self.trouble.answered[engine as usize] {
            let completed = self.completed[engine as usize];
            self.call(|vidmm, _, _| vidmm.handle_preempted(engine, preemption_fence_id, completed, Vec::new()));
        }
    }

    /// The driver does what it was asked for first, if it was. The manager is not polled.
    pub fn do_what_is_owed(&mut self) -> bool {
        let owed = self.trouble.owed.pop_front();
        match owed {
            Some(Owed::Engine(engine)) => self.reset_engine(engine),
            Some(Owed::Stop) => self.reset_adapter(),
            Some(Owed::Restart) => self.restart_adapter(),
            None => {}
        }
        owed.is_some()
    }

    /// The driver resets an engine: what it ran is aborted.
    pub fn reset_engine(&mut self, engine: u32) {
        self.trouble.being_reset[engine as usize] = false;
        let under_way = self.oldest_unheard(engine);
        if let Some(left) = self.trouble.failing_resets.checked_sub(1) {
            self.trouble.failing_resets = left;
            // It is not said which packet would have been aborted.
            self.blame(engine, under_way);
            return self.call(|vidmm, _, _| vidmm.handle_engine_reset(engine, Err(ResetEngineError), Vec::new()));
        }
        self.preempting.retain(|&(asked, _)| asked != engine);
        self.trouble.hangs[engine as usize] = false;
        let returned = self.give_back(engine);
        self.stopped[engine as usize] = false;
        let last_aborted = returned.first().map_or(self.completed[engine as usize], |&(first, _)| first);
        self.blame(engine, under_way.and(Some(last_aborted)));
        self.has_heard(engine, last_aborted);
        self.completed[engine as usize] = last_aborted;
        self.call(|vidmm, _, _| vidmm.handle_engine_reset(engine, Ok(last_aborted), returned));
    }

    fn give_back(&mut self, engine: u32) -> ReturnedBuffers {
        let packets = core::mem::take(&mut self.engines[engine as usize]);
        // Paging buffers come again with the fences that they have.
        let paging = packets.iter().filter(|packet| matches!(packet.buffer, DmaBuffer::Paging(_)));
        self.trouble.coming_again.extend(paging.map(|packet| packet.signal));
        packets.into_iter().map(|packet| (packet.signal.fence_id, packet.buffer)).collect()
    }

    /// The driver stops the GPU.
    pub fn reset_adapter(&mut self) {
        self.machine.reset_gpu();
        let mut returned = Vec::new();
        for engine in 0..3 {
            let packets = core::mem::take(&mut self.engines[engine]);
            returned.extend(packets.into_iter().map(|packet| (packet.signal, packet.buffer)));
            self.completed[engine] = self.submitted[engine];
            (self.stopped[engine], self.hung[engine], self.trouble.hangs[engine]) = (false, false, false);
            self.trouble.unheard[engine].clear();
            self.trouble.being_reset[engine] = false;
        }
        self.preempting.clear();
        self.trouble.coming_again.clear();
        self.trouble.failing_resets = 0;
        self.trouble.owed.clear();
        // An operation that was built and not run will not be.
        self.executed = self.driver.operations.len();
        self.driver.is_stopped = true;
        self.call(|vidmm, _, _| vidmm.handle_reset_from_timeout(returned));
    }

    pub fn restart_adapter(&mut self) {
        self.driver.is_stopped = false;
        self.call(|vidmm, _, _| vidmm.handle_restart_from_timeout(Ok(())));
        self.machine.restart();
    }

    // A device in error makes a new beginning.

    /// Another device of the client's process, or of a new one if that has lost the GPU; none if there is no room for it.
    pub fn new_beginning(&mut self, client: Client) -> Option<Client> {
        match self.try_client_of(client.process, client.kmd_process) {
            Err(CreateError::ProcessBlocked) => self.try_client().ok(),
            answer => Some(answer.unwrap()),
        }
    }

    /// Leaves a client whose device is in error: that is destroyed with all that it has.
    pub fn leave(&mut self, client: Client, contexts: &[ContextId]) {
        self.clients.retain(|other| other.device != client.device);
        self.more_contexts.retain(|context| !contexts.contains(context));
        self.trouble.left_processes.insert(client.process);
        self.call(|vidmm, driver, host| vidmm.destroy_device(driver, host, client.device)).unwrap();
    }
}
