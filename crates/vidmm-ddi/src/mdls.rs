//! Lists of pages: an own object for each operation. Behind the end of the operation's packet the numbers lead nowhere (DRV-03).

use std::cell::RefCell;
use std::collections::VecDeque;

use vidmm::PAGE_SIZE;

use crate::abi::*;
use crate::loaded::Loaded;
use crate::memory::{NO_PAGE, RETIRED_PAGE};

/// How many page numbers behind the last one of a list lead nowhere.
const GUARD_PAGES: usize = 64;

/// So many ended lists keep numbers of no page.
const KEPT: usize = 64;

/// An MDL, and the page numbers.
struct List {
    mdl: Box<MDL>,
    pages: Vec<usize>,
}

#[derive(Default)]
struct State {
    lists: Vec<List>,
    /// Ended lists, oldest first.
    over: VecDeque<usize>,
}

/// The lists of an adapter's operations.
#[derive(Default)]
pub(crate) struct Mdls(RefCell<State>);

impl Mdls {
    /// A list of pages until the call of `retire`: the number of the list, and the MDL.
    pub fn new_list(&self, pages: impl Iterator<Item = usize>) -> (usize, *const MDL) {
        let mut state = self.0.borrow_mut();
        let number = match state.over.len() > KEPT {
            true => state.over.pop_front().unwrap_or_default(),
            false => {
                let mdl = MDL {
                    Next: std::ptr::null_mut(),
                    Size: 0,
                    MdlFlags: 0,
                    MappedSystemVa: std::ptr::null_mut(),
                    StartVa: std::ptr::null_mut(),
                    ByteCount: 0,
                    ByteOffset: 0,
                    Pages: std::ptr::null_mut(),
                };
                state.lists.push(List { mdl: Box::new(mdl), pages: Vec::new() });
                state.lists.len() - 1
            }
        };
        let List { mdl, pages: numbers } = &mut state.lists[number];
        numbers.clear();
        numbers.extend(pages);
        let count = numbers.len();
        numbers.extend([NO_PAGE as usize; GUARD_PAGES]);
        (mdl.Size, mdl.MdlFlags) = (size_of::<MDL>() as i16, 0);
        (mdl.ByteCount, mdl.ByteOffset) = ((count as u64 * PAGE_SIZE) as u32, 0);
        (mdl.StartVa, mdl.MappedSystemVa) = (std::ptr::null_mut(), std::ptr::null_mut());
        mdl.Pages = numbers.as_mut_ptr();
        (number, &raw const **mdl)
    }

    /// Ends lists.
    pub fn retire(&self, driver: &Loaded, numbers: Vec<usize>) {
        if numbers.is_empty() {
            return;
        }
        /// `MDL_MAPPED_TO_SYSTEM_VA`.
        const IS_MAPPED: i16 = 1;
        for &number in &numbers {
            let mapped = {
                let mdl = &mut self.0.borrow_mut().lists[number].mdl;
                (mdl.MdlFlags & IS_MAPPED != 0).then_some(&raw mut **mdl)
            };
            if let Some(mdl) = mapped {
                // SAFETY: the MDL is in a box; the shim takes the mapping's bytes back.
                unsafe { (driver.shim().RetireMdl)(mdl) };
            }
        }
        let mut state = self.0.borrow_mut();
        for number in numbers {
            state.lists[number].pages.fill(RETIRED_PAGE as usize);
            state.over.push_back(number);
        }
    }
}
