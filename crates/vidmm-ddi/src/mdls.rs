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
    /// The MDL in memory of the shim's, with the page numbers behind it, which is hidden behind the packet's end; null otherwise.
    hidden: *mut MDL,
}

impl List {
    fn new() -> Self {
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
        Self { mdl: Box::new(mdl), pages: Vec::new(), hidden: std::ptr::null_mut() }
    }

    /// Moves the MDL into memory that can be hidden. Without memory the MDL stays.
    fn move_to_hidden(&mut self, driver: &Loaded) {
        let size = size_of::<MDL>() + size_of_val(&*self.pages);
        // SAFETY: the function takes a number, and returns so many bytes at a page's start, or null.
        let memory = unsafe { (driver.shim().NewMdlMemory)(size) }.cast::<MDL>();
        if memory.is_null() {
            return;
        }
        let pages = memory.wrapping_add(1).cast::<usize>();
        // SAFETY: the memory has room for the MDL and for the page numbers, and nothing else is there.
        unsafe { pages.copy_from_nonoverlapping(self.pages.as_ptr(), self.pages.len()) };
        self.mdl.Pages = pages;
        // SAFETY: as above.
        unsafe { memory.copy_from_nonoverlapping(&raw const *self.mdl, 1) };
        self.hidden = memory;
    }

    /// The MDL, as the driver sees it.
    fn mdl(&mut self) -> *mut MDL {
        if self.hidden.is_null() { &raw mut *self.mdl } else { self.hidden }
    }
}

#[derive(Default)]
struct State {
    lists: Vec<List>,
    /// Ended lists, oldest first.
    over: VecDeque<usize>,
}

/// The lists of an adapter's operations.
#[derive(Default)]
pub(crate) struct Mdls {
    state: RefCell<State>,
    /// Each list has memory of its own, which is hidden behind the end.
    hides: bool,
}

impl Mdls {
    pub fn new(hides: bool) -> Self {
        Self { hides, ..Self::default() }
    }

    /// A list of pages until the call of `retire`: the number of the list, and the MDL.
    pub fn new_list(&self, driver: &Loaded, pages: impl Iterator<Item = usize>) -> (usize, *const MDL) {
        let mut state = self.state.borrow_mut();
        let number = match state.over.len() > KEPT {
            true => state.over.pop_front().unwrap_or_default(),
            false => {
                state.lists.push(List::new());
                state.lists.len() - 1
            }
        };
        let list = &mut state.lists[number];
        let List { mdl, pages: numbers, .. } = list;
        numbers.clear();
        numbers.extend(pages);
        let count = numbers.len();
        numbers.extend([NO_PAGE as usize; GUARD_PAGES]);
        (mdl.Size, mdl.MdlFlags) = (size_of::<MDL>() as i16, 0);
        (mdl.ByteCount, mdl.ByteOffset) = ((count as u64 * PAGE_SIZE) as u32, 0);
        (mdl.StartVa, mdl.MappedSystemVa) = (std::ptr::null_mut(), std::ptr::null_mut());
        mdl.Pages = numbers.as_mut_ptr();
        if self.hides {
            list.move_to_hidden(driver);
        }
        (number, list.mdl())
    }

    /// Ends lists.
    pub fn retire(&self, driver: &Loaded, numbers: Vec<usize>) {
        if numbers.is_empty() {
            return;
        }
        /// `MDL_MAPPED_TO_SYSTEM_VA`.
        const IS_MAPPED: i16 = 1;
        for &number in &numbers {
            let mdl = self.state.borrow_mut().lists[number].mdl();
            // SAFETY: the MDL is in a box, or in memory of the shim's that is not hidden yet.
            if unsafe { (*mdl).MdlFlags } & IS_MAPPED != 0 {
                // SAFETY: as above; the shim takes the mapping's bytes back.
                unsafe { (driver.shim().RetireMdl)(mdl) };
            }
        }
        let mut state = self.state.borrow_mut();
        for number in numbers {
            let list = &mut state.lists[number];
            list.pages.fill(RETIRED_PAGE as usize);
            let hidden = std::mem::replace(&mut list.hidden, std::ptr::null_mut());
            if !hidden.is_null() {
                let pages = hidden.wrapping_add(1).cast::<usize>();
                // SAFETY: as many page numbers are behind the MDL; the shim hides its own memory.
                unsafe {
                    pages.copy_from_nonoverlapping(list.pages.as_ptr(), list.pages.len());
                    (driver.shim().HideMdlMemory)(hidden.cast());
                }
            }
            state.over.push_back(number);
        }
    }
}
