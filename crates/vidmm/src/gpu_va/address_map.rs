//! A map from addresses that costs little more than its entries: there is one for each mapping of a GPU.
//!
//! The entries lie in order in chunks, and the chunks in order in one list. A chunk that is full is cut in two, but not
//! if the new entry comes after all of it: so addresses that are handed out one after another fill whole chunks, where
//! the nodes of a tree would stay half empty. Neighbours that have become small are joined.

use alloc::vec::Vec;

/// Entries of a chunk at most.
const CHUNK: usize = 256;

#[derive(Debug)]
pub(crate) struct AddressMap<T> {
    /// No chunk is empty.
    chunks: Vec<Chunk<T>>,
}

#[derive(Debug)]
struct Chunk<T> {
    /// The address of the first entry, so that a search looks at the list alone.
    first: u64,
    entries: Vec<(u64, T)>,
}

impl<T> Default for AddressMap<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Copy> AddressMap<T> {
    /// Adds an entry at an address that has none.
    pub fn insert(&mut self, address: u64, value: T) {
        let Some(at) = self.chunk_of(address) else {
            return self.insert_first(address, value);
        };
        let entries = &mut self.chunks[at].entries;
        let position = entries.partition_point(|&(other, _)| other < address);
        debug_assert!(entries.get(position).is_none_or(|&(other, _)| other != address), "the address has no entry");
        if entries.len() < CHUNK {
            return entries.insert(position, (address, value));
        }
        let mut entries = if position == CHUNK { Vec::new() } else { entries.split_off(CHUNK / 2) };
        if position < CHUNK / 2 {
            self.chunks[at].entries.insert(position, (address, value));
        } else {
            let position = entries.partition_point(|&(other, _)| other < address);
            entries.insert(position, (address, value));
        }
        self.chunks.insert(at + 1, Chunk { first: entries[0].0, entries });
        self.join_small(at + 1);
    }

    /// Takes the entry at an address out.
    pub fn remove(&mut self, address: u64) -> Option<T> {
        let (at, position) = self.find(address)?;
        let chunk = &mut self.chunks[at];
        let (_, value) = chunk.entries.remove(position);
        match chunk.entries.first() {
            Some(&(first, _)) => chunk.first = first,
            None => drop(self.chunks.remove(at)),
        }
        self.join_small(at);
        self.join_small(at.saturating_sub(1));
        Some(value)
    }

    /// The last entry at or before an address.
    pub fn up_to(&self, address: u64) -> Option<(u64, T)> {
        let entries = &self.chunks[self.chunk_of(address)?].entries;
        entries[..entries.partition_point(|&(other, _)| other <= address)].last().copied()
    }

    /// The first entry after an address.
    pub fn after(&self, address: u64) -> Option<(u64, T)> {
        let at = self.chunk_of(address).unwrap_or(0);
        let mut entries = self.chunks.iter().skip(at).take(2).flat_map(|chunk| &chunk.entries);
        entries.find(|&&(other, _)| other > address).copied()
    }

    /// The chunk that has the last entry at or before an address.
    fn chunk_of(&self, address: u64) -> Option<usize> {
        self.chunks.partition_point(|chunk| chunk.first <= address).checked_sub(1)
    }

    fn find(&self, address: u64) -> Option<(usize, usize)> {
        let at = self.chunk_of(address)?;
        let position = self.chunks[at].entries.binary_search_by_key(&address, |&(other, _)| other);
        Some((at, position.ok()?))
    }

    /// Adds an entry before all others.
    fn insert_first(&mut self, address: u64, value: T) {
        match self.chunks.first_mut().filter(|chunk| chunk.entries.len() < CHUNK) {
            Some(chunk) => {
                chunk.first = address;
                chunk.entries.insert(0, (address, value));
            }
            None => self.chunks.insert(0, Chunk { first: address, entries: Vec::from([(address, value)]) }),
        }
    }

    /// Joins a chunk with the next one if both together are no more than half of one.
    fn join_small(&mut self, at: usize) {
        let Some([chunk, next]) = self.chunks.get_mut(at..).and_then(|chunks| chunks.first_chunk_mut()) else { return };
        if chunk.entries.len() + next.entries.len() <= CHUNK / 2 {
            chunk.entries.append(&mut next.entries);
            self.chunks.remove(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::{BTreeMap, btree_map::Entry};

    use proptest::prelude::*;

    use super::{AddressMap, CHUNK};

    #[test]
    fn addresses_in_order_fill_whole_chunks() {
        let mut map = AddressMap::default();
        (0..10 * CHUNK as u64).for_each(|address| map.insert(address, ()));
        assert_eq!(map.chunks.len(), 10);
    }

    #[test]
    fn a_mapping_between_a_full_chunk_and_a_small_one_joins_the_small_one() {
        let mut map = AddressMap::default();
        let end = CHUNK as u64;
        (0..end).chain([end + 2, end + 1]).for_each(|address| map.insert(address, ()));
        assert_eq!(map.chunks.len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn it_holds_what_a_tree_holds(
            rounds in proptest::collection::vec((any::<bool>(), proptest::collection::vec(0..2000_u64, 0..600)), 1..8),
        ) {
            let (mut map, mut tree) = (AddressMap::default(), BTreeMap::new());
            for (grows, addresses) in rounds {
                for address in addresses {
                    if !grows {
                        prop_assert_eq!(map.remove(address), tree.remove(&address));
                    } else if let Entry::Vacant(vacant) = tree.entry(address) {
                        map.insert(address, address / 3);
                        vacant.insert(address / 3);
                    }
                }
                for address in 0..2000 {
                    let last = tree.range(..=address).next_back().map(|(&address, &value)| (address, value));
                    prop_assert_eq!(map.up_to(address), last);
                }
                prop_assert!(map.chunks.iter().all(|chunk| chunk.first == chunk.entries[0].0));
                let halves = map.chunks.windows(2).all(|pair| pair[0].entries.len() + pair[1].entries.len() > CHUNK / 2);
                prop_assert!(halves, "no two neighbours are small");
            }
        }
    }
}
