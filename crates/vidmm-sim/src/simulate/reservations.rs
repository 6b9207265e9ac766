//! Programs that reserve addresses, and map allocations there (GVA-50, GVA-52).

use super::dice::Dice;
use super::world::World;

/// The reservations of a world's programs, and the dice that they are drawn with.
pub(super) struct Reservations {
    pub dice: Dice,
    pub those: Vec<Reservation>,
    /// Some programs map single pages again and again.
    pub has_crowds: bool,
}

/// A reservation.
#[derive(Clone)]
pub(super) struct Reservation {
    pub name: String,
    pub process: usize,
    pub pages: u64,
}

impl Reservations {
    /// Those of a world; a quarter of the worlds have some, where there are addresses.
    pub fn draw(seed: u64, world: &World) -> Option<Self> {
        let mut dice = Dice::of_reservations(seed);
        if !dice.chance(25) || world.scenario.adapter.is_physical() {
            return None;
        }
        let has_crowds = dice.chance(20);
        Some(Self { dice, those: Vec::new(), has_crowds })
    }
}
