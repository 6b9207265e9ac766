//! What the CPU does: it sees an allocation at one address, wherever that is (RES-86).

use vidmm::PAGE_SIZE;
use vidmm::contract::CpuVirtualAddress;
use vidmm_runtime::Content;

use super::answered::{Absent, Answered};
use super::ledger::Part;
use super::session::Session;

impl Session<'_> {
    /// Locks each of the allocations, up to the first that is refused.
    pub fn lock(&mut self, names: &[String]) -> Result<Answered, Absent> {
        let mut places = Vec::new();
        for name in names {
            let allocation = self.objects.allocation(name)?;
            let (id, before) = (allocation.id, allocation.lock);
            let device = self.objects.device(&allocation.device)?.device;
            let (vidmm, _, host) = self.runtime.borrow();
            let address = match vidmm.lock(host, device, id) {
                Ok(address) => address,
                Err(error) => return Ok(Answered::refused(&error)),
            };
            if let Some((known, _)) = before.filter(|&(known, _)| known != address) {
                self.found(format!("{name} is locked at {known}, and now at {address} as well"));
            }
            let locks = before.map_or(0, |(_, locks)| locks) + 1;
            self.objects.allocations.entry(name.clone()).and_modify(|known| known.lock = Some((address, locks)));
            places.push(address.to_string());
        }
        Ok(Answered::ok().and(&format!("at {}", places.join(", "))))
    }

    /// Ends one lock of each of the allocations, up to the first that is refused.
    pub fn unlock(&mut self, names: &[String]) -> Result<Answered, Absent> {
        for name in names {
            let allocation = self.objects.allocation(name)?;
            let (id, before) = (allocation.id, allocation.lock);
            let (vidmm, _, host) = self.runtime.borrow();
            if let Err(error) = vidmm.unlock(host, id) {
                return Ok(Answered::refused(&error));
            }
            if before.is_some_and(|(_, locks)| locks == 1) {
                self.copy_taken(name);
            }
            let left = before.and_then(|(address, locks)| (locks > 1).then(|| (address, locks - 1)));
            self.objects.allocations.entry(name.clone()).and_modify(|known| known.lock = left);
        }
        Ok(Answered::ok())
    }

    /// The CPU writes every page of the allocations.
    pub fn cpu_write(&mut self, names: &[String]) -> Result<(), Absent> {
        for name in names {
            let Some(address) = self.locked_at(name)? else { continue };
            self.cpu_writes += 1;
            let seeds = self.ledger.cpu_write(name, self.cpu_writes);
            self.copy_written(name);
            let is_missed = |(page, seed): (u64, u64)| {
                !self.runtime.cpu_write_page(CpuVirtualAddress(address.0 + page * PAGE_SIZE), Content::Ramp, seed)
            };
            let missed = (0..).zip(seeds).position(is_missed);
            if let Some(page) = missed {
                self.found(format!("the CPU sees nothing at page {page} of {name}, which is locked at {address}"));
            }
        }
        Ok(())
    }

    /// The CPU reads every page of the allocations, and compares them with what was written last.
    pub fn cpu_read(&mut self, names: &[String]) -> Result<(), Absent> {
        for name in names {
            let pages = self.objects.allocation(name)?.pages;
            let Some(address) = self.locked_at(name)? else { continue };
            let part = Part { allocation: name.clone(), first_page: 0, pages };
            let digest = |page: u64| self.runtime.cpu_page_digest(CpuVirtualAddress(address.0 + page * PAGE_SIZE));
            let comparison = self.ledger.compare(&part, digest);
            self.report.system_pages_checked += comparison.pages;
            self.compared(&comparison, "the CPU sees", &format!(" of {name} at {address}"));
        }
        Ok(())
    }

    /// Where the CPU sees an allocation. That it does not is found.
    fn locked_at(&mut self, name: &str) -> Result<Option<CpuVirtualAddress>, Absent> {
        let address = self.objects.allocation(name)?.lock.map(|(address, _)| address);
        if address.is_none() {
            self.found(format!("{name} is not locked; write a step with `lock = \"{name}\"` before this one"));
        }
        Ok(address)
    }
}
