//! Moves of programs that reserve addresses, and map allocations there (GVA-50, GVA-52).

use vidmm::{PAGE_SIZE, PAGE_SIZE_64K};
use vidmm_trace::ByteSize;

use super::cast::View;
use super::player::Player;
use super::reservations::{Reservation, Reservations};
use crate::scenario::steps::{FreeVa, Kernel, Map, ReserveVa, Until, Wait};

/// The most reservations of a world at a time.
const RESERVATIONS_MAX: usize = 3;

/// The largest reservation of most, in units of 64 KiB.
const UNITS_MAX: u64 = 16;

/// The largest reservation of all, with whole tables.
const LARGE_UNITS_MAX: u64 = 8192;

/// The mappings of a crowd.
const CROWD: u32 = 300;

/// The addresses for a mapping.
enum Where {
    /// The manager chooses.
    Anywhere,
    /// From this address on.
    At(u64),
    /// In the named reservation, at an offset.
    In(String, ByteSize),
}

impl Player<'_, '_> {
    /// Reserves addresses, maps an allocation there, or gives a reservation back, all or a part of it.
    pub fn use_reservations(&mut self, device: usize) {
        let Some(Reservations { dice, those, has_crowds }) = &mut self.reservations else { return };
        let (process, has_crowds) = (self.cast.devices[device].process, *has_crowds);
        those.retain(|of| self.cast.processes[of.process].lives);
        let own: Vec<usize> = (0..those.len()).filter(|&at| those[at].process == process).collect();
        match (dice.below(100), dice.pick(&own)) {
            (0..4, _) if those.len() < RESERVATIONS_MAX => self.reserve(device),
            (4..10, Some(at)) => self.map_reserved(device, at),
            (10..12, Some(at)) => self.unreserve(at),
            (12..15, _) => self.map_chosen(device),
            (15..16, _) if has_crowds => self.map_crowd(device),
            (16..20, Some(at)) => self.read_zeros(device, at),
            _ => {}
        }
    }

    fn reserve(&mut self, device: usize) {
        let base_address = self.choose_address().map(|address| address & !(PAGE_SIZE_64K - 1));
        let Some(Reservations { dice, those, .. }) = &mut self.reservations else { return };
        let base_address = base_address.filter(|_| dice.chance(40));
        let units = match dice.chance(30) {
            true => dice.log_within(UNITS_MAX, LARGE_UNITS_MAX),
            false => dice.within(1, UNITS_MAX),
        };
        let name = self.cast.name("v");
        let (process, device) = (self.cast.devices[device].process, self.cast.devices[device].name.clone());
        those.push(Reservation { name: name.clone(), process, pages: units * (PAGE_SIZE_64K / PAGE_SIZE) });
        let size = ByteSize(units * PAGE_SIZE_64K);
        if !self.call(ReserveVa { name, device: Some(device), size, base_address }).is_done() {
            self.reservations.iter_mut().for_each(|of| drop(of.those.pop()));
        }
    }

    /// Maps some pages of an allocation at some page of a reservation, mapped or not.
    fn map_reserved(&mut self, device: usize, at: usize) {
        let usable = self.cast.usable_by(device);
        let Some(Reservations { dice, those, .. }) = &mut self.reservations else { return };
        let (Some(allocation), Reservation { name: reservation, pages: reserved, .. }) =
            (dice.pick(&usable), those[at].clone())
        else {
            return;
        };
        let known = &self.cast.allocations[allocation];
        let first = dice.below(reserved as usize) as u64;
        let pages = dice.within(1, known.pages.min(reserved - first).max(1));
        self.map_first(device, allocation, pages, Where::In(reservation, ByteSize(first * PAGE_SIZE)));
    }

    /// An address near a known address, free or mapped; or far from known addresses, perhaps outside of every process's part
    /// of the space
    /// (U-17).
    fn choose_address(&mut self) -> Option<u64> {
        let objects = &self.session.objects;
        let reserved = objects.reservations.values().flat_map(|of| [of.addresses.start, of.addresses.end]);
        let mapped = objects.mappings.values().filter(|of| !of.is_freed).map(|of| of.virtual_address.0);
        let known = Vec::from_iter(reserved.chain(mapped));
        let Reservations { dice, .. } = self.reservations.as_mut()?;
        let near = dice.pick(&known)?;
        let by = dice.within(0, 8) * if dice.chance(50) { PAGE_SIZE } else { PAGE_SIZE_64K };
        let is_far = dice.chance(20);
        Some(match dice.chance(50) {
            _ if is_far => near ^ 1 << dice.within(20, 47),
            true => near + by,
            false => near.saturating_sub(by),
        })
    }

    /// Maps an allocation at an address of the program's choice.
    fn map_chosen(&mut self, device: usize) {
        let Some(address) = self.choose_address() else { return };
        let usable = self.cast.usable_by(device);
        let Some(Reservations { dice, .. }) = &mut self.reservations else { return };
        if let Some(allocation) = dice.pick(&usable) {
            self.map_first(device, allocation, self.cast.allocations[allocation].pages, Where::At(address));
        }
    }

    /// Maps the first page of an allocation again and again.
    fn map_crowd(&mut self, device: usize) {
        let usable = self.cast.usable_by(device);
        let Some(Reservations { dice, .. }) = &mut self.reservations else { return };
        if let Some(allocation) = dice.pick(&usable) {
            (0..CROWD).for_each(|_| self.map_first(device, allocation, 1, Where::Anywhere));
        }
    }

    /// Maps the first pages of an allocation for a device.
    fn map_first(&mut self, device: usize, allocation: usize, pages: u64, place: Where) {
        let (base_address, reservation, at) = match place {
            Where::Anywhere => (None, None, ByteSize(0)),
            Where::At(address) => (Some(address), None, ByteSize(0)),
            Where::In(reservation, at) => (None, Some(reservation), at),
        };
        let name = self.cast.name("m");
        let map = Map {
            allocations: self.cast.names(&[allocation]),
            name: Some(name.clone()),
            device: Some(self.cast.devices[device].name.clone()),
            size: ByteSize(pages * PAGE_SIZE),
            base_address,
            r#in: reservation,
            at,
            ..Map::default()
        };
        if self.call(map).is_done() {
            self.cast.allocations[allocation].views.push(View { name, device, is_read_only: false, pages });
        }
    }

    /// Reads zeros, and waits for the end: mostly before a mapping there, and before the end of the reservation.
    fn read_zeros(&mut self, device: usize, at: usize) {
        let Some(Reservations { those, .. }) = &self.reservations else { return };
        let (reservation, name) = (those[at].name.clone(), self.cast.devices[device].name.clone());
        let known = self.session.objects.reservations.get(&reservation);
        let is_there = known.is_some_and(|known| known.reads_zero && known.device == name);
        if !is_there || self.is_held() || !self.cast.fences.is_empty() {
            return;
        }
        let kernel = Kernel { zeros: vec![reservation], device: Some(name), ..Kernel::new(self.cast.name("k")) };
        self.call(kernel);
        self.see(Wait { until: Until::Idle });
    }

    /// Gives a reservation back, or its end.
    fn unreserve(&mut self, at: usize) {
        let Some(Reservations { dice, those, .. }) = &mut self.reservations else { return };
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
