//! Bugs of the manager that are planted on purpose, so that every check can be seen to find what it is for.
//!
//! The core knows nothing of them. Each is an edit of its source: a text that occurs once in a file, and the mistake that
//! stands beside it in a copy of the workspace, behind the condition that the bug is planted. The program of this crate writes
//! that copy and lets cargo run there:
//!
//! ```text
//! cargo run -p vidmm-saboteur -- test --workspace --test planted
//! ```
//!
//! One build has all bugs, and at most one is planted at a time: [`plant`] says which, for the thread that plays a world.

mod bugs;
mod edit;

use std::{cell::Cell, fmt, marker::PhantomData};

pub use bugs::BUGS;
pub use edit::{Edit, MisfitError, sabotage};

/// A bug of the manager that can be planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bug {
    /// Its name, as the command line writes it.
    pub name: &'static str,
    /// The rule that must find it.
    pub rule: &'static str,
    /// The worlds that can show it.
    pub shown_in: World,
    /// The mistake, in a sentence.
    pub what: &'static str,
    /// The file where it is made, below the folder `crates`.
    pub file: &'static str,
    /// The change of that file.
    pub edit: Edit,
}

/// The worlds that can show a bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum World {
    /// Any.
    Any,
    /// With page tables.
    PageTables,
    /// Behind an IOMMU.
    IoMmu,
    /// Without GPU virtual addresses.
    Patching,
    /// In which a kernel faults.
    PageFault,
    /// In which a packet hangs.
    Hang,
    /// In which every paging buffer faults.
    PagingFaults,
    /// Without GPU virtual addresses; some paging buffers fault.
    PatchingFaults,
    /// In which lists have little room.
    Pressure,
    /// In which there is little local memory.
    LittleMemory,
    /// In which the paging process sees little at a time.
    SmallWindows,
    /// In which the host often has no memory for backing store.
    FailedCommits,
    /// Processes sleep in turns for long, while allocations fill the memory.
    Sleepers,
    /// Processes reserve memory, change their bands, and evict allocations only if necessary.
    Rivals,
    /// Programs submit work without a pause, or in turn, while memory becomes free and is reserved.
    Streams,
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Any => "any",
            Self::PageTables => "page tables",
            Self::IoMmu => "an IOMMU",
            Self::Patching => "patching",
            Self::PageFault => "a page fault",
            Self::Hang => "a hang",
            Self::PagingFaults => "paging faults",
            Self::PatchingFaults => "patching faults",
            Self::Pressure => "pressure",
            Self::LittleMemory => "little memory",
            Self::SmallWindows => "small windows",
            Self::FailedCommits => "failed commits",
            Self::Sleepers => "sleepers",
            Self::Rivals => "rivals",
            Self::Streams => "streams",
        })
    }
}

impl Bug {
    /// The number of the bug: its place in [`BUGS`], from 1.
    ///
    /// # Panics
    ///
    /// If the bug is none of them.
    pub fn number(&self) -> usize {
        1 + BUGS.iter().position(|bug| bug.name == self.name).expect("a bug is one of all")
    }
}

/// Whether this build is of the copy, so that the bugs are in the manager.
pub const IS_AT_WORK: bool = cfg!(feature = "at-work");

thread_local! {
    /// The number of the bug that is planted; 0 if none is.
    static PLANTED: Cell<usize> = const { Cell::new(0) };
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// A bug that is planted in all managers of this thread until it is dropped.
#[derive(Debug)]
#[must_use = "the bug is gone when this is dropped"]
pub struct PlantedBug {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

/// Plants a bug in all managers of this thread.
///
/// # Panics
///
/// If another is planted.
pub fn plant(bug: &Bug) -> PlantedBug {
    let before = PLANTED.replace(bug.number());
    assert_eq!(before, 0, "one bug is planted at a time");
    PlantedBug { _thread: PhantomData }
}

impl Drop for PlantedBug {
    fn drop(&mut self) {
        PLANTED.set(0);
    }
}

/// Whether the bug of this number is planted. Edited sources ask.
#[inline]
pub fn is_planted(number: usize) -> bool {
    PLANTED.get() == number
}

/// Whether it is the third time again that this thread asks, whatever it did in between.
pub fn is_every_third_time() -> bool {
    let asked = ASKED.get();
    ASKED.set(asked.wrapping_add(1));
    asked.is_multiple_of(3)
}
