//! Contiguous placement in a linear segment.
//!
//! Without GPU virtual addresses an allocation lies entirely inside one segment, in one contiguous range (SEG-13, SEG-16), so
//! that fragmentation can refuse it. [`LinearSegment`] keeps what is free of one segment. All of it is pure: it knows neither
//! allocations nor time.
//!
//! # Where a request is placed
//!
//! WDDM says from which end a place is sought and not which is taken (SEG-44, U-5). Ours is best fit: a smallest hole that is
//! long enough, so that large holes stay whole.
//!
//! - Among holes of one size, one in the half of the segment that the [`Direction`] names is taken, the last that came to be.
//!   From 64 MiB up it is the one nearest to the start.
//! - In its hole the request lies at the end that the direction names, as near as its alignment allows.
//! - An alignment may be missed by many holes that are long enough. After 32 of them, the smallest hole that cannot miss it is
//!   taken; if there is none, all are looked at. So `None` always means that nothing fits.
//! - A [`HintedBank`] is tried before all of this, among the parts of holes inside that bank.
//!
//! # What it costs
//!
//! A hole costs 24 bytes, and what is placed nothing. Beside that a segment has 128 KiB at most for the sizes, and 4 bytes for
//! each block into which it is divided: at first 256 blocks, which are halved wherever holes are so dense that to give a range
//! back means to look at more than 8 of a block, until they have 256 KiB. So taking and giving back look at a few holes of one
//! block, and find a size in a bit set or, from 64 MiB up, in a tree.
//!
//! # Moving what is in the way
//!
//! [`LinearSegment::plan_compaction`] says which ranges to move so that a hole comes to be, or that no moves can do it.
//!
//! ```
//! use vidmm::linear::{Direction, LinearSegment};
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

mod banks;
mod by_size;
mod compaction;
mod direction;
mod holes;
mod moves;
mod run;
mod segment;
mod transaction;

pub use banks::{BankRangeTableError, HintedBank, MAX_BANKS};
pub use compaction::{Compaction, CompactionError};
pub use direction::Direction;
pub use moves::{Movable, Move};
pub use segment::LinearSegment;
pub use transaction::Transaction;

/// The size of the largest segment, in bytes: 1 TiB.
pub const MAX_SEGMENT_SIZE: u64 = 1 << 40;

const MAX_PAGES: u32 = (MAX_SEGMENT_SIZE / crate::units::PAGE_SIZE) as u32;
