//! Contiguous placement in a linear segment.
//!
//! Without GPU virtual addresses an allocation lies inside one segment, in one contiguous range (SEG-13, SEG-16), and
//! fragmentation can refuse an allocation. [`LinearSegment`] keeps the free ranges of one segment. The crate is pure: it knows neither
//! allocations nor time, and needs no operating system.
//!
//! # Where a request is placed
//!
//! WDDM says from which end the search begins, not which place is taken (SEG-44, U-5). The choice here is best fit: a smallest
//! hole that is long enough, so that large holes stay whole.
//!
//! - Among holes of equal size, the newest hole in the half of the segment named by the [`Direction`] is taken; from 64 MiB up,
//!   the hole nearest to the start.
//! - In the hole the request lies at the end named by the direction, as near as the alignment allows.
//! - Many long enough holes may miss an alignment. After 32 misses, the smallest hole that cannot miss is taken; without such a
//!   hole, all holes are examined. `None` always means that nothing fits.
//! - A [`HintedBank`] is tried first, among the parts of holes inside the bank.
//!
//! # What it costs
//!
//! A hole costs 24 bytes, a placed range nothing. A segment has at most 128 KiB for the sizes, and 4 bytes for each block: at
//! first 256 blocks. A block is halved when the return of a range would look at more than 8 holes of the block, down to 256
//! KiB. So taking and returning look at a few holes of a block, and find a size in a bit set or, from 64 MiB up, in a tree.
//!
//! # Moving what is in the way
//!
//! [`LinearSegment::plan_compaction`] says which ranges to move to make a hole, or that no moves can make the hole.
//!
//! ```
//! use vidmm_linear::{Direction, LinearSegment};
//!
//! const MIB: u64 = 1 << 20;
//! let mut segment = LinearSegment::new(256 * MIB);
//! let texture = segment.allocate(20 * MIB, 64 << 10, Direction::FromStart, &[]).expect("it is empty");
//!
//! // All of a request or nothing of it.
//! let mut transaction = segment.transaction();
//! transaction.free(texture);
//! assert!(transaction.allocate(300 * MIB, 4096, Direction::FromStart, &[]).is_none());
//! transaction.roll_back();
//! assert_eq!(segment.free_bytes(), 236 * MIB);
//! ```

#![no_std]

extern crate alloc;

mod banks;
mod by_size;
mod compaction;
mod direction;
mod extent;
mod hole;
mod holes;
mod moves;
mod number_set;
mod run;
mod segment;
mod transaction;

pub use banks::{BankRangeTableError, HintedBank, MAX_BANKS};
pub use compaction::{Compaction, CompactionError};
pub use direction::Direction;
pub use extent::{Extent, PAGE_SIZE};
pub use moves::{Movable, Move};
pub use segment::LinearSegment;
pub use transaction::Transaction;

/// The size of the largest segment, in bytes: 1 TiB.
pub const MAX_SEGMENT_SIZE: u64 = 1 << 40;

const MAX_PAGES: u32 = (MAX_SEGMENT_SIZE / PAGE_SIZE) as u32;
