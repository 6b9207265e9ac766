//! Names of the core's objects: an index, and a generation so that a dead name names nothing (I27).

use alloc::vec::Vec;
use core::{
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
};

/// The name of an object of kind `K`: valid until the object is destroyed, never reused for another.
pub struct Id<K> {
    index: u32,
    generation: u32,
    kind: PhantomData<fn() -> K>,
}

/// A kind of object. Ours; sealed by being useless outside.
pub trait Kind {
    /// Its name in messages.
    const NAME: &'static str;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $id:ident, $ix:ident, $kind:ident, $name:literal;)*) => {
        /// The kinds of objects, which only tell [`Id`]s apart.
        pub mod kind {
            $(#[doc = concat!("Kind of a ", $name, ".")] pub enum $kind {}
            impl super::Kind for $kind { const NAME: &'static str = $name; })*
        }
        $($(#[$doc])* pub type $id = Id<kind::$kind>;)*
        $(#[allow(dead_code, reason = "not every kind is indexed")] #[doc = concat!("The index of a ", $name, ".")] pub(crate) type $ix = Ix<kind::$kind>;)*
    };
}

kinds! {
    /// A process that uses the adapter.
    ProcessId, ProcessIx, Process, "process";
    /// A device: the unit that has a residency list, and that is put in error.
    #[doc(alias = "hDevice")]
    DeviceId, DeviceIx, Device, "device";
    /// A context: a queue of work for one engine.
    #[doc(alias = "hContext")]
    ContextId, ContextIx, Context, "context";
    /// A paging queue (RES-30).
    #[doc(alias = "hPagingQueue")]
    PagingQueueId, PagingQueueIx, PagingQueue, "paging queue";
    /// A monitored fence (SYN-01).
    #[doc(alias = "hSyncObject")]
    MonitoredFenceId, MonitoredFenceIx, MonitoredFence, "monitored fence";
    /// A registration for trim notifications (RES-40).
    TrimNotificationId, TrimNotificationIx, TrimNotification, "trim notification";
    /// An allocation.
    #[doc(alias = "hAllocation")]
    AllocationId, AllocationIx, Allocation, "allocation";
}

impl<K> Id<K> {
    /// The index alone, which another object may have by now.
    pub(crate) const fn ix(self) -> Ix<K> {
        Ix { index: self.index, kind: PhantomData }
    }

    /// The name as one number: the generation above, the index below.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The name that [`to_bits`](Self::to_bits) gave; other numbers name nothing.
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32, kind: PhantomData }
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Id<K> {}
impl<K> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_bits().hash(state);
    }
}
impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}
impl<K> Eq for Id<K> {}
impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.to_bits().cmp(&other.to_bits())
    }
}
impl<K: Kind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl<K: Kind> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", K::NAME, self.index)?;
        if self.generation > 0 {
            write!(f, ".{}", self.generation)?;
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
impl<K> serde::Serialize for Id<K> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.to_bits())
    }
}

#[cfg(feature = "serde")]
impl<'de, K> serde::Deserialize<'de> for Id<K> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <u64 as serde::Deserialize>::deserialize(deserializer).map(Self::from_bits)
    }
}

/// The index of an object of kind `K` that lives. Ours: the core names objects by it, and keeps it no longer than the
/// object lives.
pub(crate) struct Ix<K> {
    index: u32,
    kind: PhantomData<fn() -> K>,
}

impl<K> Ix<K> {
    /// The smallest index.
    pub const FIRST: Self = Self::new(0);

    pub const fn new(index: u32) -> Self {
        Self { index, kind: PhantomData }
    }

    pub const fn get(self) -> u32 {
        self.index
    }

    pub const fn next(self) -> Self {
        Self::new(self.index + 1)
    }

    /// Where a table of all objects of the kind has it.
    pub const fn at(self) -> usize {
        self.index as usize
    }
}

impl<K> Clone for Ix<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Ix<K> {}
impl<K> PartialEq for Ix<K> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}
impl<K> Eq for Ix<K> {}
impl<K> PartialOrd for Ix<K> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Ix<K> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.index.cmp(&other.index)
    }
}
impl<K> fmt::Display for Ix<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.index, f)
    }
}
impl<K: Kind> fmt::Debug for Ix<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", K::NAME, self.index)
    }
}

/// A plan's number, in the order in which plans are decided, from 1. Ours.
pub type PlanNo = u64;

/// The number of a submission within its device, in the order of the calls, from 1.
pub type SubmissionNo = u64;

/// A handle that names no living object of its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind} {index} does not exist: it was destroyed, or never created by this adapter")]
pub struct InvalidHandle {
    /// The kind of object that it should have named.
    pub kind: &'static str,
    /// Its index.
    pub index: u32,
}

/// Set beside the generation of an object that lives and that no call can name any more.
const WITHDRAWN: u32 = 1 << 31;

/// Objects of one kind by name. Indices are reused, last freed first; generations are not.
pub(crate) struct Slots<K, T> {
    /// Apart from the values, so that neither pads the other. The bit [`WITHDRAWN`] is no part of a name.
    generations: Vec<u32>,
    values: Vec<Option<T>>,
    free: Vec<Ix<K>>,
}

impl<K: Kind, T> Slots<K, T> {
    pub fn new() -> Self {
        Self { generations: Vec::new(), values: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, value: T) -> Id<K> {
        let index = self.next_index();
        if self.free.pop().is_none() {
            self.generations.push(0);
            self.values.push(None);
            assert!(self.values.len() <= 1 << 31, "more objects than indices");
        }
        self.values[index.at()] = Some(value);
        self.id(index)
    }

    /// The index that the next object gets.
    pub fn next_index(&self) -> Ix<K> {
        self.free.last().copied().unwrap_or(Ix::new(self.values.len() as u32))
    }

    /// Destroys the object; its name dies with it.
    pub fn remove(&mut self, index: Ix<K>) -> T {
        let value = self.values[index.at()].take().expect("only living objects are removed");
        self.generations[index.at()] = ((self.generations[index.at()] & !WITHDRAWN) + 1) & !WITHDRAWN;
        self.free.push(index);
        value
    }

    /// The name of an object means nothing in calls any more; the object lives on until it is removed, and events name it.
    pub fn withdraw(&mut self, index: Ix<K>) {
        self.generations[index.at()] |= WITHDRAWN;
    }

    /// The index of a caller's handle, if it names a living object.
    pub fn lookup(&self, id: Id<K>) -> Result<Ix<K>, InvalidHandle> {
        self.find(id).map(|(index, _)| index)
    }

    /// The index and the object of a caller's handle, if it names a living object.
    #[inline]
    pub fn find(&self, id: Id<K>) -> Result<(Ix<K>, &T), InvalidHandle> {
        let index = id.ix();
        let is_name = id.generation & WITHDRAWN == 0 && self.generations.get(index.at()) == Some(&id.generation);
        let named = self.values.get(index.at()).filter(|_| is_name).and_then(Option::as_ref);
        named.map(|value| (index, value)).ok_or(InvalidHandle { kind: K::NAME, index: id.index })
    }

    /// The same, also where the handle was withdrawn and the object is not gone yet.
    pub fn lookup_withdrawn(&self, id: Id<K>) -> Result<Ix<K>, InvalidHandle> {
        let index = id.ix();
        let is_withdrawn = self.contains(index) && self.generations[index.at()] == id.generation | WITHDRAWN;
        if is_withdrawn { Ok(index) } else { self.lookup(id) }
    }

    pub fn contains(&self, index: Ix<K>) -> bool {
        self.values.get(index.at()).is_some_and(Option::is_some)
    }

    /// The object of an index, if it lives.
    pub fn get_mut(&mut self, index: Ix<K>) -> Option<&mut T> {
        self.values.get_mut(index.at())?.as_mut()
    }

    pub fn id(&self, index: Ix<K>) -> Id<K> {
        Id { index: index.index, generation: self.generations[index.at()] & !WITHDRAWN, kind: PhantomData }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Ix<K>, &T)> {
        self.values.iter().enumerate().filter_map(|(index, value)| Some((Ix::new(index as u32), value.as_ref()?)))
    }
}

impl<K, T> core::ops::Index<Ix<K>> for Slots<K, T> {
    type Output = T;
    #[inline]
    fn index(&self, index: Ix<K>) -> &T {
        self.values[index.at()].as_ref().expect("the core only indexes living objects")
    }
}

impl<K, T> core::ops::IndexMut<Ix<K>> for Slots<K, T> {
    #[inline]
    fn index_mut(&mut self, index: Ix<K>) -> &mut T {
        self.values[index.at()].as_mut().expect("the core only indexes living objects")
    }
}
