//! Programs that reserve addresses, and map allocations there (GVA-50, GVA-52).

use vidmm::{PAGE_SIZE, PAGE_SIZE_64K};
use vidmm_trace::ByteSize;

use super::cast::View;
use super::dice::Dice;
use super::player::Player;
use super::world::World;
use crate::scenario::steps::{FreeVa, Map, ReserveVa};

/// The most reservations that a world has at a time.
const RESERVATIONS_MAX: usize = 3;

/// The largest reservation, in units of 64 KiB.
const UNITS_MAX: u64 = 16;

/// The reservations of a world's programs, and the dice that they are drawn with.
pub(super) struct Reservations {
    dice: Dice,
    those: Vec<Reservation>,
}

/// A reservation.
#[derive(Clone)]
struct Reservation {
    name: String,
    process: usize,
    pages: u64,
}

impl Reservations {
    /// Those of a world; a quarter of the worlds have some, where there are addresses.
    pub fn draw(seed: u64, world: &World) -> Option<Self> {
        let mut dice = Dice::of_reservations(seed);
        (dice.chance(25) && !world.scenario.adapter.is_physical()).then(|| Self { dice, those: Vec::new() })
    }
}

impl Player<'_, '_> {
    /// Reserves addresses, maps an allocation there, or gives a reservation back, all or a part of it.
    pub fn use_reservations(&mut self, device: usize) {
        let Some(Reservations { dice, those }) = &mut self.reservations else { return };
        let process = self.cast.devices[device].process;
        those.retain(|of| self.cast.processes[of.process].lives);
        let own: Vec<usize> = (0..those.len()).filter(|&at| those[at].process == process).collect();
        match (dice.below(100), dice.pick(&own)) {
            (0..4, _) if those.len() < RESERVATIONS_MAX => self.reserve(process),
            (4..10, Some(at)) => self.map_reserved(device, at),
            (10..12, Some(at)) => self.unreserve(at),
            _ => {}
        }
    }

    fn reserve(&mut self, process: usize) {
        let Some(Reservations { dice, those }) = &mut self.reservations else { return };
        let units = dice.within(1, UNITS_MAX);
        let (name, process_name) = (self.cast.name("v"), self.cast.processes[process].name.clone());
        those.push(Reservation { name: name.clone(), process, pages: units * (PAGE_SIZE_64K / PAGE_SIZE) });
        let size = ByteSize(units * PAGE_SIZE_64K);
        if !self.call(ReserveVa { name, process: Some(process_name), size, base_address: None }).is_done() {
            self.reservations.iter_mut().for_each(|of| drop(of.those.pop()));
        }
    }

    /// Maps some pages of an allocation at some page of a reservation. Something may be mapped there already.
    fn map_reserved(&mut self, device: usize, at: usize) {
        let usable = self.cast.usable_by(device);
        let Some(Reservations { dice, those }) = &mut self.reservations else { return };
        let (Some(allocation), Reservation { name: reservation, pages: reserved, .. }) =
            (dice.pick(&usable), those[at].clone())
        else {
            return;
        };
        let known = &self.cast.allocations[allocation];
        let first = dice.below(reserved as usize) as u64;
        let pages = dice.within(1, known.pages.min(reserved - first).max(1));
        let name = self.cast.name("m");
        let map = Map {
            allocations: self.cast.names(&[allocation]),
            name: Some(name.clone()),
            device: Some(self.cast.devices[device].name.clone()),
            offset: ByteSize(0),
            size: ByteSize(pages * PAGE_SIZE),
            read_only: false,
            no_execute: false,
            base_address: None,
            r#in: Some(reservation),
            at: ByteSize(first * PAGE_SIZE),
        };
        if self.call(map).is_done() {
            self.cast.allocations[allocation].views.push(View { name, device, is_read_only: false, pages });
        }
    }

    /// Gives a reservation back, or its end.
    fn unreserve(&mut self, at: usize) {
        let Some(Reservations { dice, those }) = &mut self.reservations else { return };
        let Reservation { name, pages, .. } = those[at].clone();
        let kept = if dice.chance(50) { 0 } else { dice.below(pages as usize) as u64 };
        let free = FreeVa { mapping: name, offset: ByteSize(kept * PAGE_SIZE), size: ByteSize(0), rest: None };
        if !self.call(free).is_done() {
            return;
        }
        let Some(Reservations { those, .. }) = &mut self.reservations else { return };
        those[at].pages = kept;
        those.retain(|of| of.pages > 0);
    }
}
