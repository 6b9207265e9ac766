//! The manager with a driver and a host whose answers are drawn from bytes, and engines that do nothing.

mod adapters;
mod driver;
mod host;
mod names;

use std::collections::VecDeque;

use vidmm::contract::{DmaBuffer, EngineFence, Packet};
use vidmm::{AdapterOptions, Nanoseconds, Output, StartAdapterError, VidMm, Violation};

pub use adapters::adapter;
pub use driver::{Driver, allocation};
pub use host::{CALLERS_MEMORY, Host};
pub use names::{Names, name, names};

use crate::choices::Choices;

/// The operation that the driver was asked for and has not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owed {
    Yield(u32, u64),
    ResetEngine(u32),
    Reset,
    Restart,
}

pub struct Rig<'d> {
    pub vidmm: VidMm,
    pub driver: Driver<'d>,
    pub host: Host<'d>,
    /// The source of choices of driver, host and caller.
    pub choices: Choices<'d>,
    pub names: Names,
    /// The packets that engines were handed and have not ended, oldest first.
    pub engines: Vec<VecDeque<Packet>>,
    /// The last fence that each engine has ended.
    pub completed: Vec<u64>,
    pub owed: VecDeque<Owed>,
    pub now: Nanoseconds,
    /// The reason why the adapter is in error.
    pub violation: Option<Violation>,
}

impl<'d> Rig<'d> {
    /// Starts the adapter that `driver` reports.
    ///
    /// # Errors
    ///
    /// If the core refuses it; then the driver and the host must have nothing left of it.
    pub fn start(mut driver: Driver<'d>, mut host: Host<'d>, choices: Choices<'d>) -> Result<Self, StartAdapterError> {
        let options = AdapterOptions { events: true, ..AdapterOptions::default() };
        let vidmm = match VidMm::start_adapter(options, &mut driver, &mut host) {
            Ok(vidmm) => vidmm,
            Err(error) => {
                assert!(driver.live.is_empty(), "I28: a refused adapter leaves {:?} with the driver", driver.live);
                assert!(host.committed.is_empty(), "I28: a refused adapter leaves {:?} with the host", host.committed);
                return Err(error);
            }
        };
        let engines = vidmm.engines().len();
        let mut rig = Self {
            vidmm,
            driver,
            host,
            choices,
            names: Names::default(),
            engines: (0..engines).map(|_| VecDeque::new()).collect(),
            completed: vec![0; engines],
            owed: VecDeque::new(),
            now: 0,
            violation: None,
        };
        rig.poll();
        Ok(rig)
    }

    /// The manager's audit of itself. The events are dropped: no judge reads them here.
    pub fn check(&mut self) {
        self.vidmm.check().unwrap();
        self.vidmm.events().drain().for_each(drop);
    }

    /// Lets the manager do all that it can now.
    pub fn poll(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "I32: poll hands out more and more");
            let Some(output) = self.vidmm.poll(self.now, &mut self.driver, &mut self.host) else { return };
            match output {
                Output::Submit(packet) => self.engines[packet.signal.engine as usize].push_back(packet),
                Output::PreemptCommand { engine, preemption_fence_id } => {
                    self.owed.push_back(Owed::Yield(engine, preemption_fence_id));
                }
                Output::ResetEngine { engine } => self.owed.push_back(Owed::ResetEngine(engine)),
                Output::ResetFromTimeout => self.owed.push_back(Owed::Reset),
                Output::RestartFromTimeout => self.owed.push_back(Owed::Restart),
                Output::AdapterInError(violation) => self.is_in_error(violation),
                _ => {}
            }
        }
    }

    /// Checks that the violation names its rule, and is told once.
    fn is_in_error(&mut self, violation: Violation) {
        let text = violation.to_string();
        let fact = text.split([':', ',']).next().unwrap_or_default();
        let (family, number) = fact.split_once('-').unwrap_or_default();
        let names_a_rule = family.len() >= 2 && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        assert!(names_a_rule, "a violation without its rule: {text}");
        assert_eq!(self.violation.replace(violation), None, "the adapter is in error twice");
    }

    /// Ends the next packet of an engine, if its waits are over. Returns whether it did.
    pub fn complete(&mut self, engine: usize) -> bool {
        let is_over = |wait: &EngineFence| wait.fence_id <= self.completed[wait.engine as usize];
        if !self.engines[engine].front().is_some_and(|packet| packet.waits.iter().all(is_over)) {
            return false;
        }
        let Packet { signal, buffer, .. } = self.engines[engine].pop_front().expect("it has one");
        self.completed[engine] = signal.fence_id;
        self.vidmm.handle_completed(signal, buffer);
        true
    }

    /// Takes all packets of an engine, with their fences; it runs none of them.
    pub fn give_back(&mut self, engine: u32) -> Vec<(u64, DmaBuffer)> {
        let packets = self.engines.get_mut(engine as usize).map(std::mem::take).unwrap_or_default();
        packets.into_iter().map(|packet| (packet.signal.fence_id, packet.buffer)).collect()
    }

    /// Answers the first request to the driver as the driver should.
    pub fn answer(&mut self) -> bool {
        let Some(owed) = self.owed.pop_front() else { return false };
        match owed {
            Owed::Yield(engine, request) => {
                let returned = self.give_back(engine);
                self.vidmm.handle_preempted(engine, request, self.completed[engine as usize], returned);
            }
            Owed::ResetEngine(engine) => {
                let returned = self.give_back(engine);
                let aborted = returned.first().map_or(self.completed[engine as usize], |&(first, _)| first);
                self.completed[engine as usize] = aborted;
                self.vidmm.handle_engine_reset(engine, Ok(aborted), returned);
            }
            Owed::Reset => self.reset(),
            Owed::Restart => self.vidmm.handle_restart_from_timeout(Ok(())),
        }
        true
    }

    fn reset(&mut self) {
        let mut returned = Vec::new();
        for engine in 0..self.engines.len() {
            for (fence_id, buffer) in self.give_back(engine as u32) {
                self.completed[engine] = self.completed[engine].max(fence_id);
                returned.push((EngineFence { engine: engine as u32, fence_id }, buffer));
            }
        }
        self.vidmm.handle_reset_from_timeout(returned);
    }

    /// Lets all engines end their packets, and the driver answer all requests.
    pub fn run_all(&mut self) {
        self.poll();
        while self.answer() || (0..self.engines.len()).any(|engine| self.complete(engine)) {
            self.poll();
        }
    }
}
