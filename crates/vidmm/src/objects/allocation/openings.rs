//! The devices that have an allocation open, and the entries of their lists.

use super::{
    cold::{Opening, Owner},
    record::Allocation,
};
use crate::{contract::KmdOpenHandle, id::DeviceIx, objects::list::ListEntry};

impl Allocation {
    /// The entry of `device`; none if the allocation is not open there.
    pub fn entry(&self, device: DeviceIx) -> Option<&ListEntry> {
        if device == self.device {
            return Some(&self.entry);
        }
        self.openings().find(|opening| opening.device == device).map(|opening| &opening.entry)
    }

    /// The entry of `device`.
    ///
    /// # Panics
    ///
    /// If the allocation is not open there.
    #[inline]
    pub fn entry_mut(&mut self, device: DeviceIx) -> &mut ListEntry {
        self.find_entry_mut(device).expect("a list names what is open on its device")
    }

    /// The entry of `device`, for a change; none if the allocation is not open there.
    #[inline]
    pub fn find_entry_mut(&mut self, device: DeviceIx) -> Option<&mut ListEntry> {
        if device == self.device {
            return Some(&mut self.entry);
        }
        let mut openings = self.cold.iter_mut().flat_map(|cold| &mut cold.openings);
        openings.find(|opening| opening.device == device).map(|opening| &mut opening.entry)
    }

    /// All devices with the allocation, and their entries; the owner's device first.
    pub fn entries(&self) -> impl Iterator<Item = (DeviceIx, &ListEntry)> {
        let own = core::iter::once((self.device, &self.entry));
        own.chain(self.openings().map(|opening| (opening.device, &opening.entry)))
    }

    /// The openings on devices besides the owner's, closed openings included.
    pub fn openings(&self) -> impl Iterator<Item = &Opening> {
        self.cold.iter().flat_map(|cold| &cold.openings)
    }

    /// Whether a device may name the allocation in calls.
    pub fn is_open_on(&self, device: DeviceIx) -> bool {
        device == self.device || self.openings().any(|opening| opening.device == device && !opening.is_closed)
    }

    /// Opens the allocation on another device.
    pub fn open(&mut self, owner: Owner, handle: KmdOpenHandle) {
        let Owner { process, device } = owner;
        let opening = Opening { device, process, handle: Some(handle), entry: ListEntry::default(), is_closed: false };
        self.cold_mut().openings.push(opening);
    }

    /// Closes the allocation on a device: calls cannot name the allocation there any more.
    pub fn close(&mut self, device: DeviceIx) {
        let mut openings = self.cold.iter_mut().flat_map(|cold| &mut cold.openings);
        let opening = openings.find(|opening| opening.device == device);
        opening.expect("only what is open is closed").is_closed = true;
    }

    /// Drops the opening of a device.
    pub fn forget_opening(&mut self, device: DeviceIx) -> Option<Opening> {
        let openings = &mut self.cold.as_mut()?.openings;
        let at = openings.iter().position(|opening| opening.device == device)?;
        Some(openings.remove(at))
    }

    /// Closes the allocation for the owner, and makes the first other device the owner (U-34). Without another device, does
    /// nothing and
    /// returns `false`.
    pub fn transfer_ownership(&mut self) -> bool {
        let heir = self.openings().find(|opening| !opening.is_closed).map(|opening| opening.device);
        let Some(mut heir) = heir.and_then(|device| self.forget_opening(device)) else { return false };
        let whole = self.whole_mapping();
        self.whole_mapping = None;
        core::mem::swap(&mut self.entry, &mut heir.entry);
        core::mem::swap(&mut self.device, &mut heir.device);
        core::mem::swap(&mut self.process, &mut heir.process);
        heir.is_closed = true;
        let cold = self.cold_mut();
        cold.openings.push(heir);
        cold.mappings.extend(whole);
        true
    }

    /// Whether `is_so` holds for any device's entry.
    pub fn any_entry(&self, is_so: impl Fn(DeviceIx, &ListEntry) -> bool) -> bool {
        let of_opening = |opening: &Opening| is_so(opening.device, &opening.entry);
        is_so(self.device, &self.entry) || self.cold().is_some_and(|cold| cold.openings.iter().any(of_opening))
    }

    /// Whether any entry pins the allocation.
    pub fn is_pinned(&self) -> bool {
        self.any_entry(|_, entry| entry.is_pinning())
    }

    /// Whether a suspended device is to have the allocation back.
    pub fn is_to_restore(&self) -> bool {
        self.any_entry(|_, entry| entry.is_to_restore())
    }

    /// Whether an entry of `device` pins the allocation.
    pub fn is_pinned_by(&self, device: DeviceIx) -> bool {
        self.entry(device).is_some_and(ListEntry::is_pinning)
    }

    /// Whether a list names the allocation, or anything outstanding requires the allocation.
    pub fn is_required(&self) -> bool {
        self.any_entry(|_, entry| entry.count > 0 || entry.is_outstanding())
    }
}
