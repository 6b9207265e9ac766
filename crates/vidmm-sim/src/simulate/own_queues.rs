//! Moves of programs with queues of their own (D25).

use super::owners::Owners;
use super::player::Player;
use crate::scenario::steps::{BeginUse, EndUse};

/// The most uses that are open or wait to begin.
const USES_MAX: usize = 4;

impl Player<'_, '_> {
    /// Begins a use of the listed allocations of a device, or ends a use: mostly the oldest. A use may end before the begin,
    /// or twice.
    pub fn run_own_queues(&mut self, device: usize) {
        let Some(Owners { dice, uses }) = &mut self.owners else { return };
        if uses.len() < USES_MAX && dice.chance(10) {
            let (name, device) = (self.cast.name("u"), Some(self.cast.devices[device].name.clone()));
            uses.push(name.clone());
            self.call(BeginUse { name, device });
        } else if !uses.is_empty() && dice.chance(12) {
            let at = if dice.chance(80) { 0 } else { dice.below(uses.len()) };
            let name = if dice.chance(90) { uses.remove(at) } else { uses[at].clone() };
            self.call(EndUse { name });
        }
    }
}
