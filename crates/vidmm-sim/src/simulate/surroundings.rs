//! What happens round the programs: time, budgets, the user, power, the end of processes.

use vidmm::{PriorityBand, Visibility};
use vidmm_trace::ByteSize;

use super::player::Player;
use crate::scenario::Duration;
use crate::scenario::steps::{
    Call, Group, Intervals, Look, Power, ProcessPriority, QueryVideoMemory, ReserveVideoMemory, Until,
};

impl Player<'_, '_> {
    /// Time passes: mostly little, now and then so much that packets count as hung.
    pub fn let_time_pass(&mut self) {
        if !self.cast.fences.is_empty() && self.dice.chance(40) {
            let fence = self.cast.fences.swap_remove(0);
            self.call(Call::Signal(fence));
        }
        let until = match self.dice.below(40) {
            0 => Until::For(Duration { ns: self.dice.log_within(50_000_000, 6_000_000_000) }),
            1 if self.cast.fences.is_empty() => Until::Idle,
            _ => Until::For(Duration { ns: self.dice.log_within(100, 3_000_000) }),
        };
        // What is suspended or without power may wait for ever.
        let is_held = self.session.is_down || self.cast.processes.iter().any(|known| known.lives && known.is_suspended);
        if until != Until::Idle || !is_held {
            self.see(Look::Wait(until));
        }
    }

    /// Who is in front, and who may have how much.
    pub fn change_budgets(&mut self, device: usize) {
        let process = self.cast.devices[device].process;
        let name = self.cast.processes[process].name.clone();
        let device_name = self.cast.devices[device].name.clone();
        let group = if self.dice.chance(70) { Group::Local } else { Group::NonLocal };
        match self.dice.below(7) {
            0 | 1 => {
                let bands = [PriorityBand::Dwm, PriorityBand::Focus, PriorityBand::Normal, PriorityBand::Normal];
                let seen = [Visibility::Minimized, Visibility::Occluded, Visibility::Visible];
                let band = self.dice.pick(&bands).unwrap_or_default();
                let visibility = self.dice.pick(&seen).unwrap_or_default();
                self.call(Call::ProcessPriority(ProcessPriority { process: name, band, visibility }));
            }
            2 => {
                let most = self.world.scenario.local_memory_bytes.max(1 << 20) / 2;
                let size = if self.dice.chance(30) { 0 } else { self.dice.within(0, most) & !0xFFFF };
                self.call(Call::ReserveVideoMemory(ReserveVideoMemory { process: name, group, size: ByteSize(size) }));
            }
            3 => _ = self.call(Call::NotifyBudget(name)),
            4 if self.cast.devices[device].listens => {
                self.cast.devices[device].listens = false;
                self.call(Call::UnregisterTrim(device_name));
            }
            4 | 5 => {
                if !self.cast.devices[device].listens && self.call(Call::RegisterTrim(device_name)).is_done() {
                    self.cast.devices[device].listens = true;
                }
            }
            _ => {
                let min = self.dice.log_within(1_000_000, 1_000_000_000);
                let [min, max, idle] = [min, min * 4, min * 60].map(|ns| Duration { ns });
                self.call(Call::TrimIntervals(Intervals { min, max, idle }));
            }
        }
    }

    /// Looks at content and at books from outside.
    pub fn look(&mut self, device: usize) {
        let process = self.cast.processes[self.cast.devices[device].process].name.clone();
        let group = if self.dice.chance(70) { Group::Local } else { Group::NonLocal };
        self.see(Look::VideoMemory(QueryVideoMemory {
            process,
            group,
            budget: None,
            usage: None,
            requested: None,
            reservation: None,
            available_for_reservation: None,
        }));
    }

    /// A process ends, is suspended or resumed, or power goes or comes.
    pub fn upheave(&mut self) {
        if !self.world.has_upheavals {
            return;
        }
        if self.session.is_down {
            self.call(Call::Power(Power::Up));
            return;
        }
        let living = self.cast.living_processes();
        let Some(process) = self.dice.pick(&living) else { return };
        match self.dice.below(8) {
            0 | 1 => {
                let after = if self.dice.chance(50) { 0 } else { self.dice.log_within(1, 64) as u32 };
                self.kill(process, after);
            }
            2 => _ = self.call(Call::Power(Power::Down)),
            _ => {
                let (name, suspends) =
                    (self.cast.processes[process].name.clone(), !self.cast.processes[process].is_suspended);
                self.cast.processes[process].is_suspended = suspends;
                let wakes = self.dice.chance(50);
                self.call(if suspends { Call::SuspendProcess(name, wakes) } else { Call::ResumeProcess(name) });
            }
        }
    }
}
