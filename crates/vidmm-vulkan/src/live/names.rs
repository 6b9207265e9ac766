//! The names that an application gives its allocations.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vidmm::AllocationId;

/// An allocation, as errors and statistics tell it: by the manager's name, and by the application's, if
/// [it has one](super::Allocation::set_name).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedAllocation {
    /// The manager's name.
    pub id: AllocationId,
    /// The application's name.
    pub name: Option<Arc<str>>,
}

impl fmt::Display for NamedAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} `{name}`", self.id),
            None => fmt::Display::fmt(&self.id, f),
        }
    }
}

impl From<AllocationId> for NamedAllocation {
    fn from(id: AllocationId) -> Self {
        Self { id, name: None }
    }
}

/// The application's names, which its own side and the worker look at.
#[derive(Default)]
pub(super) struct Names(Mutex<BTreeMap<AllocationId, Arc<str>>>);

impl Names {
    fn all(&self) -> MutexGuard<'_, BTreeMap<AllocationId, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn of(&self, id: AllocationId) -> NamedAllocation {
        NamedAllocation { id, name: self.all().get(&id).cloned() }
    }

    pub fn set(&self, id: AllocationId, name: Arc<str>) {
        self.all().insert(id, name);
    }

    pub fn forget(&self, id: AllocationId) {
        self.all().remove(&id);
    }
}
