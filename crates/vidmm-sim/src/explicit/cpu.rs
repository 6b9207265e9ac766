//! The CPU's part: it sees an allocation at one address, wherever that is (RES-86).

use vidmm::PAGE_SIZE;
use vidmm::contract::CpuVirtualAddress;
use vidmm_runtime::Content;

use super::ledger::Part;
use super::objects::Allocation;
use super::session::Session;
use crate::scenario::steps::{Answered, CpuRead, CpuWrite, Lock, Make, See, Undone, Unlock};

impl Session<'_> {
    /// Ends one lock of each of the allocations, up to the first that is refused.
    pub fn unlock(&mut self, names: &[String]) -> Result<Answered, Undone> {
        for name in names {
            let allocation = self.objects.allocation(name)?;
            let (id, before) = (allocation.id, allocation.lock);
            let (vidmm, _, host) = self.runtime.borrow();
            vidmm.unlock(host, id)?;
            if let Some((address, 1)) = before {
                self.copy_taken(name);
                self.check_hidden(name, address);
            }
            let left = before.and_then(|(address, locks)| (locks > 1).then(|| (address, locks - 1)));
            self.objects.allocations.entry(name.clone()).and_modify(|known| known.lock = left);
        }
        Ok(Answered::ok())
    }

    /// An allocation was destroyed, or its owner is gone: all its locks have ended.
    pub fn locks_ended(&mut self, name: &str) {
        let known = self.objects.allocations.get_mut(name);
        if let Some((address, _)) = known.and_then(|known| known.lock.take()) {
            self.copy_taken(name);
            self.check_hidden(name, address);
        }
    }

    /// With the last lock the CPU's view ends too: its address shows nothing, or what was locked since (RES-86).
    fn check_hidden(&mut self, name: &str, address: CpuVirtualAddress) {
        let is_taken = |known: &Allocation| known.lock.is_some_and(|(of, _)| of == address);
        let is_shown = self.runtime.cpu_page_digest(address).is_some();
        if is_shown && !self.objects.allocations.values().any(is_taken) {
            self.broke("RES-86", format!("{name} is not locked any more, but the CPU still sees it at {address}"));
        }
    }

    /// Where the CPU sees an allocation. That it does not is found.
    fn locked_at(&mut self, name: &str) -> Result<Option<CpuVirtualAddress>, Undone> {
        let address = self.objects.allocation(name)?.lock.map(|(address, _)| address);
        if address.is_none() {
            self.found(format!("{name} is not locked; write a step with `lock = \"{name}\"` before this one"));
        }
        Ok(address)
    }
}

/// Locks each of the allocations, up to the first that is refused.
impl Make<Session<'_>> for Lock {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let mut places = Vec::new();
        for name in &self.allocations {
            let allocation = session.objects.allocation(name)?;
            let (id, before) = (allocation.id, allocation.lock);
            let device = self.device.as_ref().unwrap_or(&allocation.device).clone();
            session.device(&device)?;
            let device = session.objects.device(&device)?.device;
            let (vidmm, _, host) = session.runtime.borrow();
            let address = vidmm.lock(host, device, id)?;
            if let Some((known, _)) = before.filter(|&(known, _)| known != address) {
                session.found(format!("{name} is locked at {known}, and now at {address} as well"));
            }
            let locks = before.map_or(0, |(_, locks)| locks) + 1;
            session.objects.allocations.entry(name.clone()).and_modify(|known| known.lock = Some((address, locks)));
            places.push(address.to_string());
        }
        Ok(Answered::ok().and(&format!("at {}", places.join(", "))))
    }
}

impl Make<Session<'_>> for Unlock {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        session.unlock(&self.allocations)
    }
}

/// The CPU writes every page of the allocations.
impl See<Session<'_>> for CpuWrite {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        let races = |name: &String| session.is_in_use(name) || !session.is_seen(name);
        if session.rules.is_some() && self.allocations.iter().any(races) {
            return Err(Undone::Races);
        }
        for name in &self.allocations {
            let Some(address) = session.locked_at(name)? else { continue };
            session.cpu_writes += 1;
            let seeds = session.ledger.cpu_write(name, session.cpu_writes);
            session.copy_written(name);
            let is_missed = |(page, seed): (u64, u64)| {
                !session.runtime.cpu_write_page(CpuVirtualAddress(address.0 + page * PAGE_SIZE), Content::Ramp, seed)
            };
            let missed = (0..).zip(seeds).position(is_missed);
            if let Some(page) = missed {
                session.found(format!("the CPU sees nothing at page {page} of {name}, which is locked at {address}"));
            }
        }
        Ok(())
    }
}

/// The CPU reads every page of the allocations, and compares them with what was written last.
impl See<Session<'_>> for CpuRead {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        let races = |session: &mut Session<'_>, name| {
            session.is_in_use(name) || session.sees_copy(name) || !session.is_seen(name)
        };
        if session.rules.is_some() && self.allocations.iter().any(|name| races(session, name)) {
            return Err(Undone::Races);
        }
        for name in &self.allocations {
            let pages = session.objects.allocation(name)?.pages;
            let Some(address) = session.locked_at(name)? else { continue };
            let part = Part { allocation: name.clone(), first_page: 0, pages };
            let digest = |page: u64| session.runtime.cpu_page_digest(CpuVirtualAddress(address.0 + page * PAGE_SIZE));
            let comparison = session.ledger.compare(&part, digest);
            session.report.system_pages_checked += comparison.pages;
            session.compared(&comparison, "the CPU sees", &format!(" of {name} at {address}"));
        }
        Ok(())
    }
}
