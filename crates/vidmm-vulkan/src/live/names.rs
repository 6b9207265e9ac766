//! The names of allocations by the application.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
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
    /// The bytes of a buffer, where the rest is not meant.
    pub range: Option<Range<u64>>,
}

impl fmt::Display for NamedAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.id, f)?;
        if let Some(name) = &self.name {
            write!(f, " `{name}`")?;
        }
        match &self.range {
            Some(Range { start, end }) => write!(f, " (bytes {start} to {end})"),
            None => Ok(()),
        }
    }
}

impl From<AllocationId> for NamedAllocation {
    fn from(id: AllocationId) -> Self {
        Self { id, name: None, range: None }
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
        NamedAllocation { name: self.all().get(&id).cloned(), ..id.into() }
    }

    pub fn set(&self, id: AllocationId, name: Arc<str>) {
        self.all().insert(id, name);
    }

    pub fn forget(&self, id: AllocationId) {
        self.all().remove(&id);
    }
}
