//! The mappings of an allocation.

use alloc::vec::Vec;

use super::{record::Allocation, whole_mapping::WholeMapping};
use crate::gpu_va::Mapping;

impl Allocation {
    /// All mappings.
    pub fn mappings(&self) -> impl Iterator<Item = Mapping> {
        self.whole_mapping().into_iter().chain(self.cold.iter().flat_map(|cold| cold.mappings.iter().copied()))
    }

    pub(super) fn whole_mapping(&self) -> Option<Mapping> {
        self.whole_mapping.map(|whole| whole.unpack(self.owner(), self.size))
    }

    /// Adds a mapping.
    pub fn add_mapping(&mut self, mapping: Mapping) {
        let whole = WholeMapping::pack(&mapping);
        if self.whole_mapping.is_none() && whole.unpack(self.owner(), self.size) == mapping {
            self.whole_mapping = Some(whole);
        } else {
            self.cold_mut().mappings.push(mapping);
        }
    }

    /// Removes and returns the mappings that `is_taken`.
    pub fn take_mappings(&mut self, is_taken: impl Fn(&Mapping) -> bool) -> Vec<Mapping> {
        let whole = self.whole_mapping().filter(&is_taken);
        if whole.is_some() {
            self.whole_mapping = None;
        }
        let others = self.cold.iter_mut().flat_map(|cold| cold.mappings.extract_if(.., |mapping| is_taken(mapping)));
        whole.into_iter().chain(others).collect()
    }
}
