//! The state: the parts that say what is true now, in the order in which they stand on one another.

use crate::{
    adapter::Adapter, addresses::Addresses, engines::Engines, memory::Memory, moment::Moment, objects::Objects,
    residency::Residents, shares::Shares,
};

/// The parts that say what is true now. The parts above them, which say what is under way, take it as an argument.
pub(crate) struct State {
    pub adapter: Adapter,
    pub moment: Moment,
    pub objects: Objects,
    pub engines: Engines,
    pub memory: Memory,
    pub shares: Shares,
    pub residency: Residents,
    pub addresses: Addresses,
}
