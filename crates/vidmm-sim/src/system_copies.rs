//! The CPU's view of buffers that were evicted: plain bytes, however the GPU stored them.

use vidmm::{AllocationId, PAGE_SIZE, PhysicalAddress};
use vidmm_runtime::Runtime;

use crate::oracle::{Oracle, Verdict, WrongPage};

/// Judges the copies in system memory of buffers that are not resident.
pub(crate) struct SystemCopies<'a> {
    pub oracle: &'a Oracle,
    /// Whether there is anything to judge: the buffers were in system memory, or compressed.
    pub enabled: bool,
    /// The sum of all verdicts so far.
    pub verdict: &'a mut Verdict,
    /// The wrong copies.
    pub wrong: &'a mut Vec<WrongCopy>,
}

/// A wrong copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrongCopy {
    pub page: WrongPage,
    /// Wrong pages of the copy.
    pub wrong: u64,
    pub allocation: AllocationId,
    /// The address of the page in system memory.
    pub address: PhysicalAddress,
}

impl SystemCopies<'_> {
    /// Judges every page of a buffer, if system memory has all of its content and nothing is under way for it. Returns
    /// whether it did.
    pub fn judge(&mut self, runtime: &mut Runtime, buffer: u32, allocation: AllocationId) -> bool {
        if !self.enabled {
            return false;
        }
        let Ok(Some(copy)) = runtime.vidmm().system_copy(allocation) else { return false };
        let address = |page: u64| copy.offset_by(page * PAGE_SIZE);
        let pages = 0..self.oracle.pages(buffer);
        let found: Vec<u64> = pages.map_while(|page| runtime.page_digest(address(page))).collect();
        let verdict = self.oracle.judge_copy(buffer, &found);
        self.verdict.add(&verdict);
        if !verdict.is_right() {
            // Missing pages have no digest.
            let missing = WrongPage { buffer, page: found.len() as u64, expected: 0, found: 0 };
            let page = verdict.first.unwrap_or(missing);
            self.wrong.push(WrongCopy { page, wrong: verdict.wrong, allocation, address: address(page.page) });
        }
        true
    }
}
