//! The model of the driver's GPU, behind the manager's trait. Time is ours; the packets run in the driver's library.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use vidmm::contract::{
    EngineFence, KmdAllocationHandle, NotifyInterrupt, Packet, PageFaultFlags, ResetEngineError, RestartError,
};
use vidmm::{Nanoseconds, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{Content, Gpu, GpuEvent, Probe, Sees, TableEntry};

use crate::abi::*;
use crate::adapter::{Adapter, Interrupts, Notification, PASSIVE_LEVEL};
use crate::components;
use crate::engine::{Engine, Queued, Submission, is_given_up, preempt, submit};
use crate::memory::{Memory, from_driver, to_driver};
use crate::numbers::Fences;
use crate::page_tables::entry_from_driver;
use crate::power;
use crate::progress::Entry;
use crate::reports::{report, report_stray};
use crate::targets::Work;
use crate::timeouts::{Timeout, collect_dbg_info, query_current_fence, query_engine_status};
use crate::user_work;

/// Behind every so many packets the driver is asked for the last fence, and an interrupt is lost.
const ASKED_EACH: u64 = 16;

/// Behind every so many packets the power components sleep, if the adapter is idle.
const RESTS_EACH: u64 = 5;

/// A GPU whose engines are the driver's.
pub(crate) struct DdiGpu {
    adapter: Rc<Adapter>,
    memory: Rc<Memory>,
    engines: Vec<Engine>,
    /// Answers to requests, oldest first.
    answers: Vec<(Nanoseconds, GpuEvent)>,
    is_resetting: bool,
    /// Whether a packet of each engine may run for ever: then a loss of its interrupt is reported once.
    lost: Cell<bool>,
    /// The number of judged reports of the driver.
    judged: usize,
    /// The packets that the model has run.
    num_runs: u64,
}

impl DdiGpu {
    pub fn new(adapter: Rc<Adapter>, memory: Rc<Memory>, engines: usize) -> Self {
        let engines = std::iter::repeat_with(Engine::default).take(engines).collect();
        let (answers, is_resetting, lost) = (Vec::new(), false, Cell::new(false));
        Self { adapter, memory, engines, answers, is_resetting, lost, judged: 0, num_runs: 0 }
    }

    /// The page of system memory, as the manager numbers it, that a page of an aperture shows.
    fn shown(&self, segment: SegmentId, page: u64) -> Option<u64> {
        let page = user_work::aperture_page(&self.adapter, segment.0.into(), page)?;
        Some(from_driver(0, page.checked_mul(PAGE_SIZE)?)?.offset / PAGE_SIZE)
    }

    /// Notes for each packet whether the waits are over, up to the first packet that waits. Earlier packets of an engine end
    /// earlier.
    fn look_at_waits(&mut self, now: Nanoseconds) {
        let completed: Vec<u64> = self.engines.iter().map(|engine| engine.completed).collect();
        for (ordinal, engine) in (0..).zip(&mut self.engines) {
            let is_over = |wait: &EngineFence| {
                wait.engine == ordinal || completed.get(wait.engine as usize).is_some_and(|&at| at >= wait.fence_id)
            };
            for queued in &mut engine.queue {
                if !queued.packet.waits.iter().all(is_over) {
                    break;
                }
                queued.ready_at.get_or_insert(now);
            }
        }
    }

    /// The engine whose packet begins or ends next, and when it ends.
    fn next_end(&self) -> Option<(Nanoseconds, usize)> {
        if self.is_resetting {
            return None;
        }
        let ends = self.engines.iter().enumerate().filter_map(|(ordinal, engine)| Some((engine.ends_at()?, ordinal)));
        ends.min()
    }

    /// Hands the driver the packets that have begun until `now`: as many of each engine as the hardware queues.
    fn begin(&mut self, now: Nanoseconds) {
        if self.is_resetting {
            return;
        }
        let depth = self.adapter.driver().gpu().map_or(1, |gpu| gpu.NumQueuedPackets.max(1)) as usize;
        for ordinal in 0..self.engines.len() {
            let engine = &mut self.engines[ordinal];
            let begins = engine.begins_at().filter(|&at| at <= now);
            let Some(at) = begins else { continue };
            engine.begun_at.get_or_insert(at);
            let is_ready = |queued: &&mut Queued| queued.ready_at.is_some_and(|at| at <= now);
            for queued in engine.queue.iter_mut().take(depth).take_while(is_ready) {
                if is_given_up(&self.adapter, &queued.packet) {
                    queued.is_reported = true;
                } else if queued.buffer.is_none() {
                    queued.buffer = submit(&self.adapter, &queued.packet);
                }
            }
        }
        self.take_reports(None, now);
    }

    /// Lets the model run the packet of an engine to its end.
    fn run(&mut self, ordinal: usize, ended_at: Nanoseconds, events: &mut Vec<GpuEvent>) {
        let Some(first) = self.engines[ordinal].queue.front() else { return };
        let (fence, is_told) = (first.packet.signal, first.is_reported);
        let yields = self.must_yield(ordinal);
        if is_given_up(&self.adapter, &first.packet) {
            self.complete(ordinal, ended_at, events);
            return;
        }
        self.adapter.has_faulted.set(false);
        let buffer = first.buffer;
        self.begin_work(fence, Submission::decode(&first.packet.preamble), buffer);
        let is_asked = self.is_asked_for_fence(ordinal, is_told);
        if let Some(run) = self.adapter.driver().gpu().and_then(|gpu| gpu.Run) {
            // SAFETY: the context is what AddDevice returned.
            self.adapter.call(Entry::GpuRun, PASSIVE_LEVEL, || unsafe { run(self.adapter.handle(), fence.engine) });
        }
        if is_asked {
            self.ask_for_fence(fence);
        }
        events.append(&mut self.adapter.kernel_events.borrow_mut());
        // A thread of the driver's may be about to report: decisions are to depend on what it tells, and not on when.
        self.adapter.wait_for_threads(|| {
            let has_ended = is_told || self.has_told_end(fence);
            self.has_told(|told| matches!(told, Notification::Faulted { .. }))
                || has_ended && (!yields || self.has_told_yield(fence.engine))
        });
        self.take_reports(Some(ordinal), ended_at);
        self.adapter.targets.end();
        events.extend(
            self.answers.extract_if(.., |(_, event)| matches!(event, GpuEvent::Interrupt { .. })).map(|it| it.1),
        );
        let engine = &mut self.engines[ordinal];
        let has_ended = engine.queue.front().is_some_and(|first| first.is_reported);
        if has_ended && (self.adapter.has_faulted.get() || engine.is_stopped) {
            let packet = format!("{} of engine {}", self.adapter.fences.name(fence.fence_id as u32), fence.engine);
            report("FLT-11", format!("{packet} has faulted, and the driver has reported its end"));
        }
        if has_ended {
            self.complete(ordinal, ended_at, events);
            self.rest();
        } else if !engine.is_stopped {
            engine.is_stopped = true;
            if !self.lost.replace(true) {
                let packet = format!("{} of engine {}", self.adapter.fences.name(fence.fence_id as u32), fence.engine);
                report("SYN-13", format!("{packet} has run, and the driver has not reported its end"));
            }
        }
    }

    /// Lets the power components of an idle adapter sleep and wake, now and then.
    fn rest(&mut self) {
        let is_idle = self.engines.iter_mut().all(|engine| !engine.is_stopped && engine.handed().next().is_none());
        if is_idle && self.num_runs.is_multiple_of(RESTS_EACH) {
            components::sleep_and_wake(&self.adapter);
            self.ask_behind_sleep();
        }
    }

    /// Asks the driver for the last fence of each engine: the registers of an engine that slept are lost, and the driver has the fence.
    fn ask_behind_sleep(&self) {
        let has_slept = self.adapter.components.borrow().iter().any(|component| component.num_states > 1);
        for (engine, ended) in (0..).zip(&self.engines).filter_map(|(ordinal, engine)| Some((ordinal, engine.ended?))) {
            let last = if has_slept { query_current_fence(&self.adapter, engine) } else { None };
            if let Some(last) = last.filter(|&last| last != ended as u32) {
                let name = |packet| self.adapter.fences.name(packet);
                let message = format!("engine {engine} has slept, and DxgkDdiQueryCurrentFence names {}", name(last));
                report("DDI-CURRENT-FENCE", format!("{message}: {} has ended last", name(ended as u32)));
            }
        }
    }

    /// Whether a report of the driver without a judgement passes `is_it`.
    fn has_told(&self, is_it: impl Fn(&Notification) -> bool) -> bool {
        self.adapter.notifications.borrow()[self.judged..].iter().any(|(told, _)| is_it(told))
    }

    fn has_told_end(&self, of: EngineFence) -> bool {
        let of = (of.engine, of.fence_id as u32);
        self.has_told(|told| matches!(*told, Notification::Completed { node_ordinal, fence_id } if (node_ordinal, fence_id) == of))
    }

    fn has_told_yield(&self, engine: u32) -> bool {
        self.has_told(|told| matches!(*told, Notification::Preempted { node_ordinal, .. } if node_ordinal == engine))
    }

    /// Whether the driver owes a report of a yield behind the running packet.
    fn must_yield(&self, ordinal: usize) -> bool {
        let engine = &self.engines[ordinal];
        let is_asked = engine.preemption.is_some() && engine.yielded.is_none();
        is_asked && self.adapter.ddi().DxgkDdiPreemptCommand.is_some()
    }

    /// Whether the driver is asked for the last fence behind the packet that is about to run; the packet's interrupt is lost in half of
    /// these cases. The report of a yield comes by an interrupt that no question stands for.
    fn is_asked_for_fence(&mut self, ordinal: usize, is_told: bool) -> bool {
        self.num_runs += 1;
        let has_function = self.adapter.ddi().DxgkDdiQueryCurrentFence.is_some();
        let is_asked = has_function && self.num_runs.is_multiple_of(ASKED_EACH);
        let may_be_lost = !is_told && self.engines[ordinal].preemption.is_none();
        if is_asked && may_be_lost && self.num_runs.is_multiple_of(2 * ASKED_EACH) {
            self.adapter.interrupts.set(Interrupts::GoAstray);
        }
        is_asked
    }

    /// Asks the driver for the last fence of the engine that has run a packet. If the packet's interrupt was lost, the driver is to report
    /// the end meanwhile (DRV-13). Else the interrupt comes after all.
    fn ask_for_fence(&self, ran: EngineFence) {
        let interrupts = self.adapter.interrupts.take();
        let last = query_current_fence(&self.adapter, ran.engine);
        if self.adapter.has_faulted.get() {
            return;
        }
        let name = |packet| self.adapter.fences.name(packet);
        let ended = format!("{} of engine {}", name(ran.fence_id as u32), ran.engine);
        if let Some(last) = last.filter(|&last| last != ran.fence_id as u32) {
            let message = format!("DxgkDdiQueryCurrentFence names {}, and {ended} has ended last", name(last));
            report("DDI-CURRENT-FENCE", message);
        }
        // A thread may have reported the end before the question: then the question finds nothing to report.
        self.adapter.look_at_threads();
        if let Interrupts::Lost(message_number) = interrupts
            && !self.has_told(
                |told| matches!(*told, Notification::Completed { node_ordinal, .. } if node_ordinal == ran.engine),
            )
        {
            let message = "DxgkDdiQueryCurrentFence has not reported the end (DRV-13)";
            report("DDI-CURRENT-FENCE", format!("the interrupt of {ended} was lost, and {message}"));
            self.adapter.interrupt(message_number);
        }
    }

    /// Says what the model is about to run.
    fn begin_work(&self, fence: EngineFence, submission: Option<Submission>, buffer: Option<usize>) {
        let process = submission.and_then(|of| self.adapter.process_of.borrow().get(&of.context).copied());
        let work = process.map(|process| Work { engine: fence.engine, process });
        match buffer.filter(|_| submission.is_some_and(|submission| submission.paging)) {
            Some(buffer) => self.adapter.targets.begin_paging(fence, work, &self.adapter.dma.effects(buffer)),
            None => self.adapter.targets.begin_user_work(work),
        }
    }

    /// Judges new reports of the driver, from any call (DRV-09). `running` is the engine whose packet the model runs.
    fn take_reports(&mut self, running: Option<usize>, now: Nanoseconds) {
        self.adapter.look_at_threads();
        let told = self.adapter.notifications.borrow()[self.judged..].to_vec();
        for (notification, function) in told {
            let index = self.judged;
            self.judged += 1;
            match notification {
                Notification::Completed { node_ordinal, fence_id } => self.note_end(node_ordinal, fence_id, function),
                Notification::Preempted { node_ordinal, fence_id, last_completed } => {
                    self.note_yield(node_ordinal, fence_id, last_completed);
                }
                Notification::Faulted { interrupt } => self.note_fault(&interrupt, running, index, now),
            }
        }
        self.adapter.settle();
    }

    /// The driver has reported the end of a packet. The end is true if the driver has the packet, and the hardware has run the buffer.
    fn note_end(&mut self, node_ordinal: u32, fence_id: u32, function: &str) {
        let engine = self.engines.get_mut(node_ordinal as usize);
        let (completed, mut handed) = match engine {
            Some(engine) => (engine.told, Vec::from_iter(engine.handed())),
            None => (0, Vec::new()),
        };
        let at = handed.iter().position(|queued| queued.packet.signal.fence_id as u32 == fence_id);
        let why = match at {
            None if completed as u32 == fence_id && completed > 0 => "the end is reported twice",
            None => "the driver has no such packet",
            Some(at) if handed[at].is_reported => "the end is reported twice",
            Some(at) if handed[..at].iter().any(|before| !before.is_reported) => "a packet before it has not ended",
            Some(at) => {
                let Queued { packet, buffer, is_reported, .. } = &mut *handed[at];
                if buffer.is_some_and(|buffer| self.adapter.dma.was_run(buffer, packet.signal)) {
                    *is_reported = true;
                    return;
                }
                "the GPU has not run the buffer"
            }
        };
        let packet = self.adapter.fences.name(fence_id);
        let told = format!("the end of {packet} of engine {node_ordinal} is reported in {function}");
        report("SYN-13", format!("{told}, and {why} (DRV-09)"));
    }

    /// The driver has reported a fault of the running packet, or of the first packet of an engine.
    fn note_fault(&mut self, interrupt: &NotifyInterrupt, running: Option<usize>, index: usize, now: Nanoseconds) {
        let named = match *interrupt {
            NotifyInterrupt::DmaPageFaulted(fault) => fault.node_ordinal,
            NotifyInterrupt::DmaFaulted { node_ordinal, .. } => node_ordinal,
        };
        let ordinal = running.unwrap_or(named as usize);
        let first = self.engines.get_mut(ordinal).and_then(|engine| engine.handed().next());
        let Some(first) = first else {
            report(
                "DDI-INTERRUPT",
                format!("a fault of engine {named} is reported, and the driver has no packet of the engine"),
            );
            return;
        };
        let fence = first.packet.signal;
        let is_paging = Submission::decode(&first.packet.preamble).is_some_and(|submission| submission.paging);
        must_name(self.adapter.fences, interrupt, fence);
        if is_paging && self.adapter.is_physical.get() {
            let packet = format!("{} of engine {}", self.adapter.fences.name(fence.fence_id as u32), fence.engine);
            report("FLT-23", format!("{packet}, a paging buffer, has faulted"));
        }
        if let NotifyInterrupt::DmaPageFaulted(fault) = *interrupt
            && is_paging
        {
            let address = fault.faulted_virtual_address.0;
            if let Some(culprit) = self.adapter.targets.culprit_of_fault(address) {
                let message = format!("{culprit} accesses {address:#x}, outside of the addresses of the operation");
                report_stray(culprit.kind.fact(), message);
            } else if let Some(place) = self.adapter.targets.place_of(address) {
                let (segment, offset) = to_driver(place);
                let message =
                    format!("address {address:#x} leads to {offset:#x} of segment {segment}, and the GPU faults");
                report_stray("GVA-30", format!("UPDATE_PAGE_TABLE: {message}"));
            }
        }
        self.engines[ordinal].is_stopped = true;
        self.answers.push((now, GpuEvent::Interrupt { status: index.to_le_bytes().to_vec(), at: now }));
    }

    /// The driver has reported that it has yielded an engine.
    fn note_yield(&mut self, node_ordinal: u32, fence_id: u32, last_completed: u32) {
        let Some(engine) = self.engines.get_mut(node_ordinal as usize).filter(|engine| engine.preemption.is_some())
        else {
            return report("DDI-PREEMPT", format!("engine {node_ordinal} has yielded, and was not asked to"));
        };
        if engine.yielded.replace((fence_id, last_completed)).is_some() {
            report("DDI-PREEMPT", format!("engine {node_ordinal} has reported twice that it has yielded"));
        }
    }

    fn complete(&mut self, ordinal: usize, ended_at: Nanoseconds, events: &mut Vec<GpuEvent>) {
        let engine = &mut self.engines[ordinal];
        let Some(Queued { packet, buffer: handed, .. }) = engine.queue.pop_front() else { return };
        let Packet { signal, buffer, .. } = packet;
        if let Some(handed) = handed {
            self.adapter.dma.end(handed, signal, false);
            self.adapter.retire_mdls();
        }
        let engine = &mut self.engines[ordinal];
        let started_at = engine.begun_at.take().unwrap_or(ended_at);
        (engine.free_since, engine.completed) = (ended_at, signal.fence_id);
        if handed.is_some() {
            (engine.told, engine.ended) = (signal.fence_id, Some(signal.fence_id));
        }
        events.push(GpuEvent::Completed { signal, started_at, ended_at, buffer });
        self.yield_engine(ordinal, ended_at);
        self.look_at_waits(ended_at);
    }

    /// Answers a request to yield, once no packet is under way.
    fn yield_engine(&mut self, ordinal: usize, at: Nanoseconds) {
        let engine = &mut self.engines[ordinal];
        if engine.begun_at.is_some() || engine.is_stopped {
            return;
        }
        if let Some(preemption_fence_id) = engine.preemption.take() {
            let last_completed_fence_id = engine.completed;
            let reported = engine.yielded.take();
            let is_right = reported.is_some_and(|(request, last)| {
                request == preemption_fence_id as u32 && engine.ended.is_none_or(|ended| last == ended as u32)
            });
            if self.adapter.ddi().DxgkDdiPreemptCommand.is_some() && !is_right {
                let told = reported.map_or("nothing".into(), |(fence, last)| format!("request {fence}, packet {last}"));
                let message =
                    format!("it has yielded to request {preemption_fence_id} behind packet {}", engine.completed);
                report("DDI-PREEMPT", format!("engine {ordinal}: {message}, and the driver has reported {told}"));
            }
            let returned = engine.take_all(&self.adapter);
            let engine = ordinal as u32;
            let event = GpuEvent::Preempted { engine, preemption_fence_id, last_completed_fence_id, returned, at };
            self.answers.push((at, event));
        }
    }
}

/// A report of a fault names the packet that ran, unless it says that it cannot (FLT-11).
fn must_name(fences: Fences, interrupt: &NotifyInterrupt, ran: EngineFence) {
    let (named, says_it_cannot) = match *interrupt {
        NotifyInterrupt::DmaPageFaulted(fault) => {
            let says_it_cannot = fault.page_fault_flags.contains(PageFaultFlags::FENCE_INVALID);
            ((fault.node_ordinal, fault.faulted_fence_id), says_it_cannot)
        }
        NotifyInterrupt::DmaFaulted { faulted_fence_id, node_ordinal } => ((node_ordinal, faulted_fence_id), false),
    };
    if !says_it_cannot && named != (ran.engine, u64::from(ran.fence_id as u32)) {
        let (engine, packet) = named;
        let EngineFence { engine: on, fence_id } = ran;
        report(
            "FLT-11",
            format!(
                "a fault of {} of engine {engine} is reported; {} of engine {on} ran",
                fences.name(packet as u32),
                fences.name(fence_id as u32)
            ),
        );
    }
}

impl Gpu for DdiGpu {
    fn submit(&mut self, now: Nanoseconds, packet: Packet) {
        self.adapter.set_time(now);
        let Some(engine) = self.engines.get_mut(packet.signal.engine as usize) else { return };
        engine.submitted = engine.submitted.max(packet.signal.fence_id);
        engine.queue.push_back(Queued::new(packet, &self.adapter.dice));
        self.look_at_waits(now);
    }

    fn next_event_at(&self) -> Option<Nanoseconds> {
        let answer = self.answers.first().map(|&(at, _)| at);
        answer.into_iter().chain(self.next_end().map(|(at, _)| at)).min()
    }

    fn advance(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        self.adapter.set_time(now);
        self.look_at_waits(now);
        self.begin(now);
        if let Some(answer) = self.answers.first().filter(|&&(at, _)| at <= now)
            && self.next_end().is_none_or(|(at, _)| answer.0 <= at)
        {
            events.push(self.answers.remove(0).1);
        } else if let Some((at, ordinal)) = self.next_end().filter(|&(at, _)| at <= now) {
            self.run(ordinal, at, events);
        }
    }

    fn page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        let page = address.offset / PAGE_SIZE;
        match self.memory.is_aperture(address.segment.0.into()) {
            true => {
                let offset = self.shown(address.segment, page)? * PAGE_SIZE;
                self.memory.page_digest(PhysicalAddress { segment: SegmentId::SYSTEM, offset })
            }
            false => self.memory.page_digest(address),
        }
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(self)
    }

    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        self.memory.write_page(address, content, seed)
    }

    fn lose_power(&mut self) {
        power::lose_power(&self.adapter, || {
            self.memory.lose_content();
            self.adapter.compression.borrow_mut().lose();
        });
        self.engines.iter_mut().for_each(|engine| engine.ended = None);
    }

    /// The driver has no more than the packet that runs: it yields behind that.
    fn preempt(&mut self, now: Nanoseconds, engine: u32, preemption_fence_id: u64) {
        self.adapter.set_time(now);
        self.begin(now);
        if let Some(asked) = self.engines.get_mut(engine as usize) {
            asked.preemption = Some(preemption_fence_id);
            preempt(&self.adapter, engine, preemption_fence_id);
            let asked = &self.engines[engine as usize];
            // An engine that has faulted runs nothing either: its driver may answer at once.
            let runs = asked.begun_at.is_some() && !asked.is_stopped;
            if !runs && self.must_yield(engine as usize) {
                self.adapter.wait_for_threads(|| self.has_told_yield(engine));
            }
            self.take_reports(None, now);
            self.yield_engine(engine as usize, now);
        }
    }

    fn reset_engine(&mut self, now: Nanoseconds, engine: u32) {
        self.adapter.set_time(now);
        self.begin(now);
        let reset = self.adapter.ddi().DxgkDdiResetEngine.filter(|_| self.adapter.resets_engines.get());
        let (Some(reset), Some(own)) = (reset, self.engines.get_mut(engine as usize)) else {
            // A driver that resets no single engine has its adapter reset (FLT-20).
            let result = Err(ResetEngineError);
            self.answers.push((now, GpuEvent::EngineReset { engine, result, returned: Vec::new(), at: now }));
            return;
        };
        query_engine_status(&self.adapter, engine);
        collect_dbg_info(&self.adapter, Timeout::Engine);
        let mut args = DXGKARG_RESETENGINE { NodeOrdinal: engine, ..DXGKARG_RESETENGINE::zeroed() };
        // SAFETY: the struct lives for the call.
        let status = self.adapter.call_with(Entry::DxgkDdiResetEngine, PASSIVE_LEVEL, &mut args, |args| unsafe {
            reset(self.adapter.handle(), args)
        });
        let (result, returned) = match status >= 0 {
            true => {
                let first = own.queue.front().filter(|_| own.begun_at.is_some());
                let right = first.map_or(own.completed, |queued| queued.packet.signal.fence_id);
                let fences = self.adapter.fences;
                let told = fences.packet_of(args.LastAbortedFenceId);
                // Hardware with a queue may count packets behind the first packet too: such packets are handed out again.
                let last = if own.begun_at.is_some() { right } else { own.told };
                let is_right = [right as u32, last as u32].contains(&told)
                    || own.handed().any(|it| it.packet.signal.fence_id as u32 == told);
                // A fence of the driver's has 32 bits; a wrong one stays wrong.
                let aborted = if is_right { right } else { told.into() };
                if right != aborted {
                    report(
                        "FLT-21",
                        format!(
                            "DxgkDdiResetEngine has set LastAbortedFenceId to {} in place of {}",
                            args.LastAbortedFenceId,
                            fences.fence_of(right)
                        ),
                    );
                }
                (own.free_since, own.ended) = (now, None);
                (Ok(aborted), own.take_all(&self.adapter))
            }
            false => (Err(ResetEngineError), Vec::new()),
        };
        self.answers.push((now, GpuEvent::EngineReset { engine, result, returned, at: now }));
    }

    fn reset_from_timeout(&mut self, now: Nanoseconds) {
        self.adapter.set_time(now);
        let Some(reset) = self.adapter.ddi().DxgkDdiResetFromTimeout else {
            return report(
                "FLT-32",
                "the adapter is to be reset, and the driver's table lacks DxgkDdiResetFromTimeout",
            );
        };
        self.take_reports(None, now);
        collect_dbg_info(&self.adapter, Timeout::Adapter);
        // SAFETY: the context is what AddDevice returned.
        let status = self
            .adapter
            .call(Entry::DxgkDdiResetFromTimeout, PASSIVE_LEVEL, || unsafe { reset(self.adapter.handle()) });
        if status < 0 {
            report("FLT-32", format!("DxgkDdiResetFromTimeout failed with status {status:#x}"));
        }
        self.answers.clear();
        self.is_resetting = true;
        let mut returned = Vec::new();
        for (ordinal, engine) in (0..).zip(&mut self.engines) {
            let fence = |fence_id| EngineFence { engine: ordinal, fence_id };
            returned
                .extend(engine.take_all(&self.adapter).into_iter().map(|(fence_id, buffer)| (fence(fence_id), buffer)));
            (engine.completed, engine.told) = (engine.submitted, engine.submitted);
            (engine.free_since, engine.ended) = (now, None);
        }
        self.memory.lose_content();
        self.adapter.compression.borrow_mut().lose();
        self.answers.push((now, GpuEvent::ResetFromTimeout { returned, at: now }));
    }

    fn restart_from_timeout(&mut self, now: Nanoseconds) {
        let Some(restart) = self.adapter.ddi().DxgkDdiRestartFromTimeout else {
            return report("FLT-32", "the adapter was reset, and the driver's table lacks DxgkDdiRestartFromTimeout");
        };
        // SAFETY: the context is what AddDevice returned.
        let status = self
            .adapter
            .call(Entry::DxgkDdiRestartFromTimeout, PASSIVE_LEVEL, || unsafe { restart(self.adapter.handle()) });
        self.is_resetting = false;
        let result = if status >= 0 { Ok(()) } else { Err(RestartError) };
        self.answers.push((now, GpuEvent::RestartedFromTimeout { result, at: now }));
    }
}

impl Probe for DdiGpu {
    fn sees(&self) -> Sees {
        let reads = self.adapter.driver().gpu().is_some_and(|gpu| gpu.ReadPageTableEntry.is_some());
        let reads_aperture = self.adapter.driver().gpu().is_some_and(|gpu| gpu.ReadAperturePage.is_some());
        let mut sees = Sees::empty();
        sees.set(Sees::ENTRIES, reads);
        sees.set(Sees::APERTURES, reads_aperture);
        sees.set(Sees::PATCHES, self.adapter.is_physical.get());
        sees.set(Sees::COMPRESSION, self.adapter.driver().gpu().is_some_and(|gpu| gpu.Compresses != 0));
        sees
    }

    fn first_compressed(&self, allocation: KmdAllocationHandle, pages: Range<u64>) -> Option<u64> {
        self.adapter.compression.borrow().first(allocation, pages)
    }

    fn plain_digest(&self, allocation: KmdAllocationHandle, page: u64, address: PhysicalAddress) -> Option<u64> {
        match self.adapter.compression.borrow().key_of(allocation, page) {
            Some(key) => self.memory.plain_digest(address, key),
            None => self.page_digest(address),
        }
    }

    fn told_address(&self, address: PhysicalAddress) -> PhysicalAddress {
        PhysicalAddress { offset: to_driver(address).1, ..address }
    }

    fn aperture_page(&self, segment: SegmentId, page: u64) -> Option<u64> {
        self.shown(segment, page)
    }

    /// The work of users holds addresses as words; the GPU's model says what they stand for.
    fn patched_address(&self, commands: &[u8], offset: usize) -> Option<PhysicalAddress> {
        user_work::patched_address(&self.adapter, commands, offset)
    }

    fn page_table_entry(
        &self,
        table: PhysicalAddress,
        level: u32,
        page_size: PageSize,
        index: u32,
    ) -> Option<TableEntry> {
        let read = self.adapter.driver().gpu()?.ReadPageTableEntry?;
        let (segment, offset) = to_driver(table);
        let is_64kb = (page_size == PageSize::Kib64).into();
        let nothing = DXGK_PTE { Flags: u64::MAX, PageAddress: u64::MAX };
        let (mut entry, mut other) = (nothing, nothing);
        // SAFETY: the model writes the two entries that it is given.
        let is_there = self.adapter.call(Entry::GpuReadPageTableEntry, PASSIVE_LEVEL, || unsafe {
            read(self.adapter.handle(), segment, offset, level, is_64kb, index, &mut entry, &mut other)
        });
        if is_there == 0 {
            return None;
        }
        let has_two_sides = other.Flags != u64::MAX;
        Some(TableEntry {
            pte: entry_from_driver(&entry)?,
            pte_64kb: if has_two_sides { Some(entry_from_driver(&other)?) } else { None },
        })
    }
}
