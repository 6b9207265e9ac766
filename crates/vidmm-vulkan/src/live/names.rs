//! The names of allocations by the application.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vidmm::AllocationId;

/// An allocation in errors and statistics: the manager's name, and the application's name of
/// [`set_name`](super::Allocation::set_name).
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

/// The application's names, for handles and for the worker.
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
