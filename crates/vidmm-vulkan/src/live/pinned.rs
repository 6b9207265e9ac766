//! Local memory that is the application's own.

use std::sync::Arc;

use super::client::Client;
use super::command::{Command, LocalMemory};
use super::error::Error;

/// Local memory that the manager leaves to the application, which has there what cannot be moved: see
/// [`Adapter::pin_local_memory`](super::Adapter::pin_local_memory). The manager has it again when the value is dropped.
pub struct PinnedMemory {
    client: Arc<Client>,
    bytes: u64,
}

impl PinnedMemory {
    pub(super) fn new(client: &Arc<Client>, bytes: u64) -> Result<Self, Error> {
        client.ask(|reply| Command::PinLocalMemory { bytes, reply })?;
        Ok(Self { client: client.clone(), bytes })
    }

    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the manager leaves by now all that is pinned on the adapter. It may need a while, or never get there: what frames in flight and
    /// lists of the application's own require stays, and so does a block of 16 MiB for the last allocation in it.
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    pub fn is_left(&self) -> Result<bool, Error> {
        let LocalMemory { bytes, pinned, allocated, .. } = self.client.ask(Command::LocalMemory)?;
        Ok(allocated + pinned <= bytes)
    }
}

impl std::fmt::Debug for PinnedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinnedMemory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        // An adapter that is lost has no local memory.
        let _ = self.client.send(Command::UnpinLocalMemory(self.bytes));
    }
}
