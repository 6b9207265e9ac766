//! An allocation: the driver's description, the place, and the state.

mod cleaning;
mod cold;
mod flags;
mod homes;
pub(crate) mod lock;
mod mappings;
mod openings;
mod record;
mod seldom;
mod state;
mod whole_mapping;
pub(crate) mod worth;

pub(crate) use self::{
    cold::{Owner, Rehoming},
    flags::AllocationState,
    record::{Allocation, Allocations, Store},
};
