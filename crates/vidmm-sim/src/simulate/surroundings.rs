//! The surroundings of the programs: time, budgets, the user, power, the end of processes.

use vidmm::{PriorityBand, Visibility};
use vidmm_trace::ByteSize;

use super::player::Player;
use crate::features::Features;
use crate::scenario::Duration;
use crate::scenario::steps::{
    Group, IgnoreBudget, Intervals, NotifyBudget, Power, PowerState, ProcessPriority, QueryVideoMemory, RegisterTrim,
    ReserveVideoMemory, RestrictBudget, ResumeProcess, Signal, SuspendProcess, TrimIntervals, UnregisterTrim, Until,
    Wait,
};

impl Player<'_, '_> {
    /// Lets time pass: mostly little, now and then so much that packets count as hung.
    pub fn let_time_pass(&mut self) {
        if !self.cast.fences.is_empty() && self.dice.chance(40) {
            let fence = self.cast.fences.swap_remove(0);
            self.call(Signal { fence });
        }
        let (shortest, longest) = self.world.habits.wait;
        let until = match self.dice.below(40) {
            0 => Until::For(Duration { ns: self.dice.log_within(50_000_000, 6_000_000_000) }),
            1 if self.cast.fences.is_empty() => Until::Idle,
            _ => Until::For(Duration { ns: self.dice.log_within(shortest, longest) }),
        };
        if until != Until::Idle || !self.is_held() {
            self.see(Wait { until });
        }
    }

    /// Whether work may wait for ever: it is suspended, or without power.
    pub fn is_held(&self) -> bool {
        self.session.is_down || self.cast.processes.iter().any(|known| known.lives && known.is_suspended)
    }

    /// Changes the priority, the budget or the reservation of a process.
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
                self.call(ProcessPriority { process: name, band, visibility });
            }
            2 => {
                let most = self.world.scenario.local_memory_bytes.max(1 << 20) / 2;
                let reserved = self.cast.processes[process].reserved;
                let size = match self.dice.chance(self.world.habits.adjusts) {
                    true => self.dice.within(reserved - reserved / 32, reserved + reserved / 32),
                    false if self.dice.chance(30) => 0,
                    false => self.dice.within(0, most) & !0xFFFF,
                };
                self.cast.processes[process].reserved = size;
                self.call(ReserveVideoMemory { process: name, group, size: ByteSize(size) });
            }
            3 if self.dice.chance(20) => _ = self.call(IgnoreBudget { process: name }),
            3 => _ = self.call(NotifyBudget { process: name }),
            4 if self.cast.devices[device].listens > 0 => {
                self.call(UnregisterTrim { device: device_name });
                self.cast.devices[device].listens -= 1;
            }
            4 | 5 => {
                // A device may be registered more than once.
                let is_wanted = self.cast.devices[device].listens == 0 || self.dice.chance(20);
                if is_wanted && self.call(RegisterTrim { device: device_name }).is_done() {
                    self.cast.devices[device].listens += 1;
                }
            }
            _ if self.dice.chance(30) => {
                let most = self.world.scenario.local_memory_bytes.max(1 << 20);
                let size = self.dice.chance(70).then(|| ByteSize(self.dice.log_within(1 << 12, 2 * most)));
                self.call(RestrictBudget { group, size });
            }
            _ => {
                let min = self.dice.log_within(1_000_000, 1_000_000_000);
                let [min, max, idle] = [min, min * 4, min * 60].map(|ns| Duration { ns });
                self.call(TrimIntervals { intervals: Intervals { min, max, idle } });
            }
        }
    }

    /// Queries the video memory of a process.
    pub fn look(&mut self, device: usize) {
        let process = self.cast.processes[self.cast.devices[device].process].name.clone();
        let group = if self.dice.chance(70) { Group::Local } else { Group::NonLocal };
        self.see(QueryVideoMemory { process, group, ..QueryVideoMemory::default() });
    }

    /// Ends, suspends or resumes a process, or takes and gives power.
    pub fn upheave(&mut self) {
        if !self.world.has_upheavals {
            return;
        }
        if self.session.is_down {
            self.call(Power { power: PowerState::Up });
            return;
        }
        let living = self.cast.living_processes();
        let Some(process) = self.dice.pick(&living) else { return };
        match self.dice.below(8) {
            0 | 1 => {
                let devices = self.cast.living_devices();
                let of_process = devices.into_iter().filter(|&device| self.cast.devices[device].process == process);
                let devices: Vec<usize> = of_process.collect();
                if devices.len() > 1 && self.dice.chance(60) {
                    return self.destroy_device(devices[0]);
                }
                let after = if self.dice.chance(50) { 0 } else { self.dice.log_within(1, 64) as u32 };
                self.kill(process, after);
            }
            2 if self.has(Features::POWER) => _ = self.call(Power { power: PowerState::Down }),
            _ => {
                let is_again = self.dice.chance(15);
                let known = &mut self.cast.processes[process];
                // A call may be made twice.
                known.is_suspended ^= !is_again;
                let (process, suspends) = (known.name.clone(), known.is_suspended);
                let allow_wake_on_submission = self.dice.chance(50);
                match suspends {
                    true => self.call(SuspendProcess { process, allow_wake_on_submission }),
                    false => self.call(ResumeProcess { process }),
                };
            }
        }
    }
}
