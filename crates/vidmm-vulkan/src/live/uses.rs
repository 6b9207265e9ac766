//! The uses of an application: what it does with buffers on the GPU.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::device::Point;

use super::client::Client;
use super::command::{Command, UseNo};
use super::error::Error;

/// A use of buffers that an application submits by itself, begun by [`Device::begin_use`](super::Device::begin_use).
///
/// From its turn on until its end, the manager moves none of what the device has made resident.
#[must_use = "a use that is dropped has used nothing"]
pub struct Use {
    client: Arc<Client>,
    number: UseNo,
    turn: Point,
    has_ended: bool,
}

impl fmt::Debug for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Use").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Use {
    pub(super) fn new(client: Arc<Client>, number: UseNo, turn: Point) -> Self {
        Self { client, number, turn, has_ended: false }
    }

    /// The point that the application's submission must wait for: all that the device has made resident is in place from then
    /// on, and stays there.
    pub fn turn(&self) -> Point {
        self.turn
    }

    /// The use ends when `at` is reached: a point of a semaphore that [the adapter has made](super::Adapter::create_semaphore),
    /// which the application's submission signals. A use ends once; later calls change nothing.
    ///
    /// # Errors
    ///
    /// If the point is of another's semaphore, or the adapter is lost. The use goes on then.
    pub fn end(&mut self, at: Point) -> Result<(), Error> {
        if !self.client.device.has_made(at.semaphore) {
            return Err(Error::ForeignPoint);
        }
        if !self.has_ended {
            self.client.send(Command::End { number: self.number, at: Some(at) })?;
            self.has_ended = true;
        }
        Ok(())
    }
}

impl Drop for Use {
    /// Nothing was submitted: the use ends with its turn.
    fn drop(&mut self) {
        if !self.has_ended {
            // On an adapter that is lost there is nothing to end.
            let _ = self.client.send(Command::End { number: self.number, at: None });
        }
    }
}

/// Bytes of a buffer that are on their way to the host.
#[must_use = "the bytes are wanted"]
pub struct Download {
    client: Arc<Client>,
    bytes: Receiver<Vec<u8>>,
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download").finish_non_exhaustive()
    }
}

impl Download {
    pub(super) fn new(client: Arc<Client>, bytes: Receiver<Vec<u8>>) -> Self {
        Self { client, bytes }
    }

    /// Waits for the GPU, and returns the bytes.
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    pub fn wait(self) -> Result<Vec<u8>, Error> {
        self.bytes.recv().map_err(|_| self.client.unanswered())
    }
}
