//! Memory: which ranges of segments are free, taken and promised, and how much system memory may be resident.

pub(crate) mod aperture;
pub(crate) mod commit;
pub(crate) mod linear_placer;
pub(crate) mod placer;

use crate::{
    budget::account::{Account, Accounts, Homes, PerAccount},
    id::PlanNo,
    memory::{
        aperture::ApertureRanges,
        commit::CommitLimit,
        placer::{PagePlacer, Placer},
    },
};

/// The places that allocations can be in.
pub(crate) struct Memory {
    /// Those of the memory segments; system memory has one of no bytes.
    pub placers: PerAccount<Placer>,
    pub commit: CommitLimit,
    pub aperture: ApertureRanges,
    /// The ends of memory segments that hold nothing but page tables (D19); of no bytes where tables lie anywhere.
    pub table_areas: PerAccount<PagePlacer>,
    /// Bytes of page tables that live in a segment, placed or promised to a mapping that was admitted (D9).
    pub table_bytes: PerAccount<u64>,
}

impl Memory {
    /// The memory of an adapter in which nothing is pinned.
    pub(crate) fn new(
        placers: PerAccount<Placer>,
        table_areas: PerAccount<PagePlacer>,
        commit: CommitLimit,
        aperture: ApertureRanges,
    ) -> Self {
        let table_bytes = placers.accounts().none();
        Self { placers, table_areas, commit, aperture, table_bytes }
    }

    /// The accounts that residency is counted in.
    pub(crate) fn accounts(&self) -> Accounts {
        self.placers.accounts()
    }

    /// The homes that allocations may have.
    pub(crate) fn homes(&self) -> Homes {
        Homes { accounts: self.accounts(), num_apertures: self.aperture.parts().count() as u8 }
    }

    /// The pages of a memory segment that page tables are placed in.
    pub(crate) fn table_placer(&mut self, account: Account) -> &mut PagePlacer {
        if self.has_table_area(account) { &mut self.table_areas[account] } else { self.placers[account].pages() }
    }

    /// Whether page tables lie in an area of their own, where nothing else makes room for them.
    pub(crate) fn has_table_area(&self, account: Account) -> bool {
        self.table_areas[account].size() > 0
    }

    /// Bytes of an account that lists may use: of a memory segment all but page tables.
    pub(crate) fn list_capacity(&self, account: Account) -> u64 {
        match account {
            Account::SYSTEM => self.commit.limit(),
            memory if self.has_table_area(memory) => self.placers[memory].size(),
            memory => self.placers[memory].size() - self.table_bytes[memory],
        }
    }

    /// Bytes that can be taken in an account without a victim.
    pub(crate) fn available(&self, account: Account) -> u64 {
        match account {
            Account::SYSTEM => self.commit.available(),
            memory => self.placers[memory].available(),
        }
    }

    /// Bytes of an account that cannot be taken without a victim.
    pub(crate) fn used(&self, account: Account) -> u64 {
        let size = match account {
            Account::SYSTEM => self.commit.limit(),
            memory => self.placers[memory].size(),
        };
        size - self.available(account)
    }

    /// No plan is under way, and nothing is resident in system memory or shown by an aperture.
    pub(crate) fn forget_plans(&mut self) {
        self.commit.clear();
        self.aperture.clear_shown();
    }

    /// `plan` has entered the stream, or is given up.
    pub(crate) fn entered(&mut self, plan: PlanNo) {
        for account in self.accounts().memory() {
            self.placers[account].entered(plan);
            self.table_areas[account].entered(plan);
        }
        self.commit.entered(plan);
        self.aperture.entered(plan);
    }
}
