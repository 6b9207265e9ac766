//! Handles of 32 bits: the index of a slot, and the generation of the slot, so that a dead handle is known.

use std::collections::VecDeque;

/// Bits of an index.
const INDEX_BITS: u32 = 20;

/// A handle is never 0: this bit is always set.
const MARK: u32 = 1 << 30;

/// The objects by handle.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    slots: Vec<Slot<T>>,
    /// Free slots: the slot that was freed first is used first, so that a dead handle stays dead for long.
    free: VecDeque<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    object: Option<T>,
    /// The number of the call that added the object.
    added_by: u64,
    /// The number of the call that removed the last object.
    removed_by: u64,
}

/// The reason why a handle names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dead {
    /// No reply has given the handle.
    Unknown,
    /// The object was removed by the call of this number.
    RemovedBy(u64),
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: VecDeque::new() }
    }
}

impl<T> Handles<T> {
    /// How many objects can be added.
    pub fn room(&self) -> usize {
        (1 << INDEX_BITS) - self.slots.len() + self.free.len()
    }

    /// Adds an object, by the call of a number. None if there are no more handles.
    pub fn insert(&mut self, object: T, call: u64) -> Option<u32> {
        let index = match self.free.pop_front() {
            Some(index) => index,
            None if self.slots.len() >> INDEX_BITS == 0 => {
                self.slots.push(Slot { generation: 0, object: None, added_by: 0, removed_by: 0 });
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        let slot = &mut self.slots[index as usize];
        (slot.object, slot.added_by) = (Some(object), call);
        Some(MARK | slot.generation << INDEX_BITS | index)
    }

    /// The object of a handle.
    pub fn get(&self, handle: u32) -> Result<&T, Dead> {
        self.slot(handle).and_then(|index| self.slots[index].object.as_ref().ok_or(self.dead(index)))
    }

    /// The object of a handle, to be changed.
    pub fn get_mut(&mut self, handle: u32) -> Result<&mut T, Dead> {
        let index = self.slot(handle)?;
        let dead = self.dead(index);
        self.slots[index].object.as_mut().ok_or(dead)
    }

    /// The number of the call that added the object of a handle.
    pub fn added_by(&self, handle: u32) -> Option<u64> {
        self.slot(handle).ok().map(|index| self.slots[index].added_by)
    }

    /// Removes the object of a handle, by the call of a number.
    pub fn remove(&mut self, handle: u32, call: u64) -> Result<T, Dead> {
        let index = self.slot(handle)?;
        let dead = self.dead(index);
        let slot = &mut self.slots[index];
        let object = slot.object.take().ok_or(dead)?;
        slot.generation = (slot.generation + 1) % (MARK >> INDEX_BITS);
        slot.removed_by = call;
        self.free.push_back(index as u32);
        Ok(object)
    }

    /// All objects, in the order of the slots.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.object.as_ref())
    }

    fn slot(&self, handle: u32) -> Result<usize, Dead> {
        let index = (handle & ((1 << INDEX_BITS) - 1)) as usize;
        let slot = self.slots.get(index).filter(|_| handle & !(MARK - 1) == MARK).ok_or(Dead::Unknown)?;
        let generation = (handle & (MARK - 1)) >> INDEX_BITS;
        if generation == slot.generation { Ok(index) } else { Err(self.dead(index)) }
    }

    fn dead(&self, index: usize) -> Dead {
        match self.slots[index].removed_by {
            0 => Dead::Unknown,
            call => Dead::RemovedBy(call),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Dead, Handles};

    #[test]
    fn a_dead_handle_names_the_call_that_removed_the_object() {
        let mut handles = Handles::default();
        let first = handles.insert('a', 3).expect("there is room");
        assert_eq!((handles.get(first), handles.added_by(first)), (Ok(&'a'), Some(3)));
        assert_eq!(handles.remove(first, 7), Ok('a'));
        assert_eq!(handles.get(first), Err(Dead::RemovedBy(7)));
        let second = handles.insert('b', 8).expect("there is room");
        assert_ne!(first, second);
        assert_eq!(handles.remove(first, 9), Err(Dead::RemovedBy(7)));
        assert_eq!(handles.get(second), Ok(&'b'));
        assert_eq!(handles.get(0), Err(Dead::Unknown));
    }

    #[test]
    fn the_last_handle_is_followed_by_none() {
        let mut handles = Handles::default();
        assert!((0..1 << 20).all(|number| handles.insert(number, 1).is_some()));
        assert_eq!((handles.insert(0, 1), handles.room()), (None, 0));
    }
}
