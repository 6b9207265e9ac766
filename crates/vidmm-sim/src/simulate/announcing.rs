//! Programs with announcements of their next needs (D37).

use super::player::Player;
use crate::scenario::steps::Announce;

impl Player<'_, '_> {
    /// Now and then a device announces allocations, on the list or not. Some announcements name foreign allocations.
    pub fn announce(&mut self, device: usize) {
        let Some(mut dice) = self.announcements.take() else { return };
        if dice.chance(25) {
            let is_wrong = self.world.misuse > 0 && dice.chance(2);
            let known = self.cast.those(|known| known.is_known_to(device) != is_wrong);
            let soon = dice.some(&known, 6);
            let allocations = self.cast.names(&soon);
            self.call(Announce { allocations, device: Some(self.cast.devices[device].name.clone()) });
        }
        self.announcements = Some(dice);
    }
}
