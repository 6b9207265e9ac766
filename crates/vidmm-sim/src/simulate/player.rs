//! A player makes calls as programs do: its next call depends on the answers so far.

use super::cast::{Cast, Device, Process};
use super::dice::Dice;
use super::habits::{MOVES_IN_A_LULL, Move};
use super::owners::Owners;
use super::reservations::Reservations;
use super::world::World;
use crate::explicit::Session;
use crate::features::Features;
use crate::scenario::steps::{
    Action, Answer, Call, CreateDevice, CreateProcess, DestroyDevice, KillProcess, Look, ResidencyLists, Step,
};

/// The answer to a call that was not made: it named an object that was never made, say.
const PASSED_OVER: Answer = Answer::InvalidHandle;

/// All programs of a world, and their calls.
pub(super) struct Player<'s, 'a> {
    pub session: &'s mut Session<'a>,
    pub world: World,
    pub dice: Dice,
    /// The queues that programs run themselves; none if this world's programs have none.
    pub owners: Option<Owners>,
    /// The addresses that programs reserve; none if this world's programs reserve none.
    pub reservations: Option<Reservations>,
    /// The dice of announcements; none if this world's programs announce nothing.
    pub announcements: Option<Dice>,
    pub cast: Cast,
    /// The steps so far.
    pub steps: Vec<Step>,
}

impl<'s, 'a> Player<'s, 'a> {
    pub fn new(session: &'s mut Session<'a>, world: World, seed: u64, dice: Dice) -> Self {
        let (owners, reservations) = (Owners::draw(seed, &world), Reservations::draw(seed, &world));
        let mut announcements = Dice::of_announcements(seed);
        let announcements = announcements.chance(20).then_some(announcements);
        Self { session, world, dice, owners, reservations, announcements, cast: Cast::default(), steps: Vec::new() }
    }

    /// Whether there is a finding, or the adapter is in error, so that more steps would show nothing.
    pub fn is_over(&self) -> bool {
        !self.session.report.findings.is_empty() || self.session.adapter_error.is_some()
    }

    /// Makes one move.
    pub fn make_move(&mut self) {
        self.find_errors();
        let Some(device) = self.any_device() else { return };
        let moves = if self.is_lull() { &MOVES_IN_A_LULL[..] } else { &self.world.habits.moves };
        match self.dice.weighted(moves) {
            Move::Work => self.work(device),
            Move::List => self.change_list(device),
            Move::Create => self.create(device),
            Move::Destroy => self.destroy(device),
            Move::Offer => self.offer_or_reclaim(device),
            Move::Cpu => self.use_cpu(device),
            Move::Budget => self.change_budgets(device),
            Move::Properties => self.change_properties(device),
            Move::Share => self.share(device),
            Move::Look => self.look(device),
            Move::Time => self.let_time_pass(),
            Move::Upheaval => self.upheave(),
            Move::Unusual => self.make_unusual_call(device),
            Move::Exit => self.exit(device),
        }
        self.run_own_queues(device);
        self.use_reservations(device);
        self.announce(device);
    }

    /// Whether programs hardly do anything but work.
    fn is_lull(&self) -> bool {
        self.steps.len().checked_div(self.world.habits.lull).is_some_and(|part| part % 2 == 1)
    }

    /// Makes a call and returns its answer. A call that names an object which was never made is refused.
    pub fn call(&mut self, call: impl Into<Call>) -> Answer {
        self.play(Action::Call(call.into()))
    }

    /// Looks at something, or lets time pass.
    pub fn see(&mut self, look: impl Into<Look>) {
        self.play(Action::Look(look.into()));
    }

    fn play(&mut self, action: Action) -> Answer {
        if self.is_over() {
            return PASSED_OVER;
        }
        let line = self.steps.len() + 1;
        self.steps.push(Step { line, action, expect: None });
        self.session.step.0 = line;
        let answer = self.session.play(&self.steps[line - 1]);
        answer.unwrap_or(PASSED_OVER)
    }

    /// Whether the machine has all of these features.
    pub fn has(&self, features: Features) -> bool {
        !self.world.lacks.intersects(features)
    }

    /// Whether a program makes a mistake now.
    pub fn misuses(&mut self) -> bool {
        let misuse = self.world.misuse;
        self.dice.chance(misuse)
    }

    /// Devices in error are of no use: their processes end.
    fn find_errors(&mut self) {
        for device in self.cast.living_devices() {
            let Device { name, process, .. } = &self.cast.devices[device];
            let process = *process;
            let id = self.session.objects.devices.get(name).map(|device| device.device);
            if id.is_some_and(|id| self.session.errors.contains_key(&id)) && self.dice.chance(30) {
                self.kill(process, 0);
            }
        }
    }

    /// A living device of a process that is awake; one is made if there is none, and now and then if there is room.
    fn any_device(&mut self) -> Option<usize> {
        let mut living = self.cast.living_devices();
        let processes = self.cast.living_processes();
        let has_room = processes.len() < self.world.max_processes && !self.is_lull();
        if living.is_empty() || (has_room && self.dice.chance(4)) {
            return self.create_device();
        }
        let nap = self.steps.len().checked_div(self.world.habits.nap);
        if let Some(nap) = nap.filter(|_| processes.len() > 1) {
            let is_awake = |device: &usize| self.cast.devices[*device].process != processes[nap % processes.len()];
            // A process that alone has devices does not sleep: no step would follow.
            if living.iter().any(is_awake) {
                living.retain(is_awake);
            }
        }
        self.dice.pick(&living)
    }

    /// Creates a device, and a process for it unless one may have another.
    fn create_device(&mut self) -> Option<usize> {
        let living = self.cast.living_processes();
        let process = match self.dice.pick(&living) {
            Some(process)
                if living.len() >= self.world.max_processes || self.dice.chance(self.world.habits.more_devices) =>
            {
                process
            }
            _ => {
                let name = self.cast.name("p");
                if !self.call(CreateProcess { process: name.clone() }).is_done() {
                    return None;
                }
                self.cast.processes.push(Process { name, lives: true, is_suspended: false, reserved: 0 });
                self.cast.processes.len() - 1
            }
        };
        let device = self.cast.name("d");
        let (name, priority) = (self.cast.processes[process].name.clone(), self.dice.below(3) as i32);
        let is_physical = self.world.scenario.adapter.is_physical();
        let has_list = !is_physical || self.dice.chance(50);
        let residency = (is_physical && has_list).then_some(ResidencyLists::DeviceList);
        let create = CreateDevice { device: device.clone(), process: Some(name), priority, residency };
        if !self.call(create).is_done() {
            return None;
        }
        self.cast.devices.push(Device { name: device, process, lives: true, listens: 0, has_list });
        Some(self.cast.devices.len() - 1)
    }

    /// Ends a device of a process that has others.
    pub fn destroy_device(&mut self, device: usize) {
        if self.call(DestroyDevice { device: self.cast.devices[device].name.clone() }).is_done() {
            self.cast.bury_device(device);
        }
    }

    /// Ends the process of a device, unless it is the last.
    fn exit(&mut self, device: usize) {
        if self.cast.living_processes().len() > 1 {
            self.kill(self.cast.devices[device].process, 0);
        }
    }

    /// Ends a process, now or when the GPU has made so many steps.
    pub fn kill(&mut self, process: usize, after: u32) {
        self.cast.processes[process].lives = false;
        let name = self.cast.processes[process].name.clone();
        self.call(KillProcess { process: name, after, after_up_to: 0 });
        for device in self.cast.living_devices() {
            if self.cast.devices[device].process == process {
                self.cast.bury_device(device);
            }
        }
    }
}
