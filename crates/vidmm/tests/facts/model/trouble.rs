//! Trouble, and what must be right all the same: who is told, what is lost, and that everybody goes on.

use proptest::prelude::*;
use vidmm::contract::*;
use vidmm::*;

use super::{Dev, Model};
use crate::world::*;

/// How a world bears trouble.
#[derive(Clone, Debug)]
pub struct Tempers {
    /// For how many steps clients go on with a device in error.
    pub patience: u32,
    /// The driver resets at once what it is asked to.
    pub resets_at_once: bool,
    pub stops_at_once: bool,
    /// A reset of one engine that takes contexts harms the other.
    pub dependent: bool,
}

/// One thing that goes wrong.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// A packet comes so far, and then this happens.
    Mishap {
        engine: u32,
        steps: usize,
        mishap: Mishap,
    },
    /// The driver reports a fault of a packet that is not under way.
    FaultOfNothing {
        engine: u32,
        ahead: u64,
    },
    Interrupt {
        engine: u32,
        ending: Ending,
    },
    Deliver,
    ForeignInterrupt {
        engine: u32,
        ahead: u64,
    },
    Yield {
        engine: u32,
    },
    /// An answer that was given before.
    YieldAgain {
        engine: u32,
    },
    /// Time passes, and who is asked to yield does not.
    Wait {
        milliseconds: u64,
        answers: bool,
    },
    /// The driver does what it was asked for.
    Answer,
}

/// A mishap of a packet that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mishap {
    Fault,
    /// The driver does not say whose packet it was.
    UnknownFault,
    /// Only a reset of the adapter helps.
    FaultForAdapter,
    IllegalCommand,
    Hang,
    /// A hang that a reset does not end, although the driver says so.
    ResetLies,
    /// The driver cannot reset the engine that hangs.
    ResetFails,
}

/// How many resets of the adapter a run may see: fewer than would stop it (FLT-31).
const RESETS_MAX: usize = 4;

/// Where nothing is.
const FOUND: u64 = 0xDEAD_0000;

impl Model {
    /// With time limits, and these tempers.
    pub fn with_trouble(
        config: Config,
        only_local: bool,
        siblings: &[bool],
        busy_every: u32,
        tempers: &Tempers,
    ) -> Self {
        let config = Config {
            tdr: TdrOptions::default(),
            resets_at_once: tempers.resets_at_once,
            stops_at_once: tempers.stops_at_once,
            dependent_engines: if tempers.dependent { [1, 6, 6] } else { [1, 2, 4] },
            ..config
        };
        let mut model = Self::new(config, only_local, siblings, busy_every);
        model.patience = tempers.patience;
        model
    }

    pub(super) fn has_trouble(&self) -> bool {
        self.world.config.tdr == TdrOptions::default()
    }

    /// Something goes wrong; `false` if nothing was there that could.
    pub fn suffer(&mut self, trouble: &Trouble) -> bool {
        let happens = self.happens(trouble);
        self.world.poll();
        self.learn();
        happens
    }

    fn happens(&mut self, trouble: &Trouble) -> bool {
        match *trouble {
            Trouble::Mishap { engine, steps, mishap } => {
                let engine = self.world.config.engine(engine);
                let is_paging = self.world.is_paging_next(engine);
                let needs_reset = matches!(mishap, Mishap::FaultForAdapter | Mishap::ResetLies | Mishap::ResetFails);
                let resets = usize::from(needs_reset || is_paging || self.world.config.one_engine);
                let happens = self.resets_allowed + resets <= RESETS_MAX && self.begins(engine, steps);
                if happens {
                    self.resets_allowed += resets;
                    self.befalls(engine, mishap, is_paging);
                }
                happens
            }
            Trouble::FaultOfNothing { engine, ahead } => {
                let faulted_fence_id = self.world.last_submitted(engine) + 1 + ahead;
                let fault = DmaPageFaulted { faulted_fence_id, node_ordinal: engine, ..page_fault(FOUND) };
                self.world.call(|vidmm, _, _| vidmm.handle_interrupt(&NotifyInterrupt::DmaPageFaulted(fault)));
                true
            }
            Trouble::Interrupt { engine, ending } => {
                self.world.can_complete(engine) && {
                    self.complete(engine, ending);
                    true
                }
            }
            Trouble::Deliver => {
                self.world.deliver();
                true
            }
            Trouble::ForeignInterrupt { engine, ahead } => {
                let signal = EngineFence { engine, fence_id: self.world.last_submitted(engine) + 1 + ahead };
                self.world.call(|vidmm, _, _| vidmm.handle_completed(signal, DmaBuffer::User(Vec::new())));
                true
            }
            Trouble::Yield { engine } => {
                let is_asked = self.world.preempting.iter().any(|&(asked, _)| asked == engine);
                if is_asked && self.world.is_able(engine) {
                    self.world.yield_engine(engine);
                }
                is_asked
            }
            Trouble::YieldAgain { engine } => {
                self.world.yield_again(engine);
                true
            }
            Trouble::Wait { milliseconds, answers } => {
                self.wait(milliseconds, answers);
                true
            }
            Trouble::Answer => self.world.do_what_is_owed(),
        }
    }

    /// Ends, or breaks, the packet that the engine has begun.
    fn befalls(&mut self, engine: u32, mishap: Mishap, is_paging: bool) {
        let mut fault = page_fault(FOUND);
        match mishap {
            Mishap::Fault | Mishap::UnknownFault if is_paging => self.world.fault_quietly(PAGING, FOUND),
            Mishap::Fault | Mishap::UnknownFault => {
                fault.page_fault_flags.set(PageFaultFlags::FENCE_INVALID, mishap == Mishap::UnknownFault);
                self.world.fault_with(engine, fault);
            }
            Mishap::FaultForAdapter => {
                fault.page_fault_flags = PageFaultFlags::WRITE | PageFaultFlags::ADAPTER_RESET_REQUIRED;
                self.world.fault_with(engine, fault);
            }
            Mishap::IllegalCommand => self.world.illegal_command(engine),
            Mishap::Hang => self.world.trouble.hangs[engine as usize] = true,
            Mishap::ResetLies => self.world.hung[engine as usize] = true,
            Mishap::ResetFails => {
                self.world.trouble.hangs[engine as usize] = true;
                self.world.trouble.failing_resets = 1;
            }
        }
    }

    /// The engine comes so far with its next packet, and no farther.
    fn begins(&mut self, engine: u32, steps: usize) -> bool {
        let can = self.world.can_complete(engine);
        if can {
            self.world.begin(engine, steps);
            self.note_run(steps);
        }
        can
    }

    /// Time passes. The paging engine yields when it is asked to, and the others do if `answers`.
    pub(super) fn wait(&mut self, milliseconds: u64, answers: bool) {
        let end = self.world.now + milliseconds * MILLISECOND;
        while self.world.do_what_is_owed() {
            self.world.poll();
        }
        loop {
            self.world.run_paging();
            while self.world.yield_if(|engine| engine == PAGING || answers) {
                self.world.run_paging();
            }
            let Some(wake) = self.world.vidmm.next_wake().filter(|&wake| wake < end) else { break };
            assert!(wake > self.world.now, "the time that is waited for is to come");
            self.world.now = wake;
        }
        self.world.now = end;
        self.world.run_paging();
    }

    // The consequences.

    pub(super) fn is_in_error(&self, device: usize) -> bool {
        self.world.trouble.told.contains_key(&self.devices[device].client.device)
    }

    /// Takes in what events say.
    pub(super) fn learn(&mut self) {
        let events = self.world.events[self.num_events..].to_vec();
        self.num_events = self.world.events.len();
        for event in &events {
            match *event {
                Event::AdapterInError { ref violation } => panic!("the adapter stopped: {violation:?}"),
                Event::DeviceInError { device, .. } => self.forget_list(device),
                Event::AdapterResetBegun { cause } => {
                    let resets = self.world.trouble.adapter_resets.len();
                    assert!(
                        resets <= self.resets_allowed,
                        "I12: the adapter is reset for {cause:?}, but nothing happened"
                    );
                }
                Event::ContentLost { allocation, is_kept: false } => {
                    // FLT-34: it reads as zero from now on.
                    let alloc = self.allocs.iter().rev().find(|alloc| alloc.id == allocation).expect("it was created");
                    self.contents[alloc.content].fill(0);
                }
                Event::ContentLost { allocation, is_kept: true } => {
                    // FLT-34: it is what the GPU left there.
                    let alloc = self.allocs.iter().rev().find(|alloc| alloc.id == allocation).expect("it was created");
                    // Events are heard late: by now the allocation may be gone, and its backing store with it.
                    let Some(handle) = self.world.living_handle(allocation) else { continue };
                    let store = self.world.machine.known[&handle].backing_store;
                    if !self.world.host.holds(store.offset) {
                        continue;
                    }
                    let content = self.contents[alloc.content].iter_mut();
                    (0..).zip(content).for_each(|(page, token)| {
                        *token = self.world.machine.read(store.offset_by(page * PAGE_SIZE), &self.world.host);
                    });
                }
                Event::AdapterRestarted => self.survivors_are_whole(),
                _ => {}
            }
        }
    }

    /// FLT-04: a device in error requires nothing.
    fn forget_list(&mut self, device: DeviceId) {
        let Some(index) = self.devices.iter().position(|dev| dev.client.device == device) else { return };
        for alloc in self.allocs.iter_mut().filter(|alloc| alloc.device == index) {
            alloc.count = 0;
        }
    }

    /// I03: a reset leaves every content in the backing store, but of what was named.
    fn survivors_are_whole(&self) {
        for alloc in self.allocs.iter().filter(|alloc| alloc.alive && !alloc.is_offered) {
            self.is_in_backing_store(alloc);
        }
    }

    /// Clients that have borne it long enough leave their devices in error, and all that was on them, for new ones.
    pub(super) fn renew_devices(&mut self) {
        for device in 0..self.devices.len() {
            if !self.is_in_error(device) {
                continue;
            }
            self.devices[device].in_error_for += 1;
            if self.devices[device].in_error_for > self.patience {
                self.renew(device);
            }
        }
    }

    fn renew(&mut self, device: usize) {
        let Dev { client, contexts, .. } = self.devices[device];
        let Some(again) = self.world.new_beginning(client) else { return };
        for index in 0..self.allocs.len() {
            if self.allocs[index].alive && self.allocs[index].device == device {
                self.destroy_alloc(index);
            }
        }
        self.world.leave(client, &contexts);
        let contexts = [again.context, self.world.context(again, COPY)];
        self.devices[device] = Dev { client: again, contexts, in_error_for: 0 };
        for (kind, pages) in [(0, 3), (5, 2)] {
            self.create(device, pages, 0, kind);
        }
        self.learn();
    }
}

pub fn tempers() -> impl Strategy<Value = Tempers> {
    (0..6u32, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(patience, resets_at_once, stops_at_once, dependent)| Tempers {
            patience,
            resets_at_once,
            stops_at_once,
            dependent,
        },
    )
}

/// A number below `bound`, drawn alike where a pointer has 32 bits and where it has 64.
pub fn below(bound: u32) -> impl Strategy<Value = usize> {
    (0..bound).prop_map(|number| number as usize)
}

pub fn trouble() -> impl Strategy<Value = Trouble> {
    let engine = || RENDER..=COPY;
    let any_engine = || PAGING..=COPY;
    let steps = || prop_oneof![below(4), below(40)];
    let endings = || prop_oneof![Just(Ending::Lost), Just(Ending::Late), Just(Ending::Twice)];
    let mishap = |engine, mishap| {
        (engine, steps()).prop_map(move |(engine, steps)| Trouble::Mishap { engine, steps, mishap }).boxed()
    };
    prop_oneof![
        3 => mishap(engine(), Mishap::Fault),
        1 => mishap(engine(), Mishap::UnknownFault),
        1 => mishap(engine(), Mishap::FaultForAdapter),
        1 => mishap(engine(), Mishap::IllegalCommand),
        1 => (any_engine(), 0..3u64).prop_map(|(engine, ahead)| Trouble::FaultOfNothing { engine, ahead }),
        3 => mishap(engine(), Mishap::Hang),
        1 => mishap(engine(), Mishap::ResetLies),
        1 => mishap(engine(), Mishap::ResetFails),
        2 => mishap(PAGING..=PAGING, Mishap::Fault),
        1 => mishap(PAGING..=PAGING, Mishap::Hang),
        4 => (any_engine(), endings()).prop_map(|(engine, ending)| Trouble::Interrupt { engine, ending }),
        2 => Just(Trouble::Deliver),
        1 => (0..5u32, 0..3u64).prop_map(|(engine, ahead)| Trouble::ForeignInterrupt { engine, ahead }),
        3 => any_engine().prop_map(|engine| Trouble::Yield { engine }),
        1 => any_engine().prop_map(|engine| Trouble::YieldAgain { engine }),
        4 => (1..3000u64, any::<bool>())
            .prop_map(|(milliseconds, answers)| Trouble::Wait { milliseconds, answers }),
        2 => Just(Trouble::Answer),
    ]
}
