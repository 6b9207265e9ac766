//! Programs that run queues of their own, beside what they submit (D25).

use super::dice::Dice;
use super::world::World;

/// The uses of a world's programs, and the dice that they are drawn with.
pub(super) struct Owners {
    pub dice: Dice,
    /// The names of those that have not ended, oldest first.
    pub uses: Vec<String>,
}

impl Owners {
    /// Those of a world; a quarter of the worlds have some. Where a driver patches addresses no program runs a queue.
    pub fn draw(seed: u64, world: &World) -> Option<Self> {
        let mut dice = Dice::of_owners(seed);
        (dice.chance(25) && !world.scenario.adapter.is_physical()).then(|| Self { dice, uses: Vec::new() })
    }
}
