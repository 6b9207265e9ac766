//! The application's end of the channel to the worker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, ThreadId, current};

use crate::device::VulkanDevice;

use super::command::{Command, Reply, UseNo};
use super::error::Error;
use super::names::Names;

/// Why the adapter is lost, once it is: the worker says so before it ends.
#[derive(Debug, Default)]
pub(super) struct Status {
    lost: OnceLock<String>,
}

impl Status {
    /// The adapter is lost. The first reason stays.
    pub fn lose(&self, reason: String) {
        let _ = self.lost.set(reason);
    }

    /// Refuses, if the adapter is lost.
    pub fn check(&self) -> Result<(), Error> {
        match self.lost.get() {
            None => Ok(()),
            Some(reason) => Err(Error::Lost(reason.clone())),
        }
    }

    /// The error of a call that got no answer.
    fn unanswered(&self) -> Error {
        let ended = || Error::Lost("its worker has ended".to_owned());
        self.check().err().unwrap_or_else(ended)
    }
}

/// The part of an adapter that all its handles share. With the last of them the worker ends.
pub(super) struct Client {
    pub device: Arc<VulkanDevice>,
    pub names: Arc<Names>,
    status: Arc<Status>,
    commands: Sender<Command>,
    worker: Mutex<Option<JoinHandle<()>>>,
    worker_thread: ThreadId,
    uses: AtomicU64,
}

impl Client {
    pub fn new(
        device: Arc<VulkanDevice>,
        names: Arc<Names>,
        status: Arc<Status>,
        commands: Sender<Command>,
        worker: JoinHandle<()>,
    ) -> Self {
        let worker_thread = worker.thread().id();
        let (worker, uses) = (Mutex::new(Some(worker)), AtomicU64::new(0));
        Self { device, names, status, commands, worker, worker_thread, uses }
    }

    /// The number of a new use.
    pub fn number_use(&self) -> UseNo {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a command that needs no answer.
    pub fn send(&self, command: Command) -> Result<(), Error> {
        self.status.check()?;
        self.commands.send(command).map_err(|_| self.status.unanswered())
    }

    /// Sends a command, and waits for the worker's answer. The worker waits for no GPU.
    pub fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Error> {
        let answer = self.begin_asking(command)?;
        self.finish_asking(&answer)
    }

    /// Sends a command whose answer is taken later.
    pub fn begin_asking<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<Answer<T>, Error> {
        if current().id() == self.worker_thread {
            return Err(Error::InCallBack);
        }
        let (reply, answer) = channel();
        self.send(command(reply))?;
        Ok(answer)
    }

    /// The answer.
    pub fn finish_asking<T>(&self, answer: &Answer<T>) -> Result<T, Error> {
        answer.recv().unwrap_or_else(|_| Err(self.status.unanswered()))
    }

    /// The error of an answer that will not come.
    pub fn unanswered(&self) -> Error {
        self.status.unanswered()
    }
}

/// An answer that is to come.
pub(super) type Answer<T> = std::sync::mpsc::Receiver<Result<T, Error>>;

impl Drop for Client {
    fn drop(&mut self) {
        // A worker that is gone needs no command.
        let _ = self.commands.send(Command::Stop);
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // The last handle may have been in a call-back, which the worker itself drops.
        if let Some(worker) = worker.filter(|_| current().id() != self.worker_thread) {
            // A panic of the worker was printed when it happened.
            let _ = worker.join();
        }
    }
}
