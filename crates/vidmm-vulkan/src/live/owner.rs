//! A process without its handles: it lives as long as one of its devices.

use std::sync::Arc;

use vidmm::ProcessId;

use super::client::Client;
use super::command::Command;
use super::error::Error;

pub(super) struct ProcessInner {
    client: Arc<Client>,
    id: ProcessId,
}

impl ProcessInner {
    pub(super) fn create(client: &Arc<Client>) -> Result<Arc<Self>, Error> {
        let id = client.ask(Command::CreateProcess)?;
        Ok(Arc::new(Self { client: client.clone(), id }))
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    pub(super) fn id(&self) -> ProcessId {
        self.id
    }
}

impl Drop for ProcessInner {
    fn drop(&mut self) {
        // On an adapter that is lost all processes go with it.
        let _ = self.client.send(Command::DestroyProcess(self.id));
    }
}
