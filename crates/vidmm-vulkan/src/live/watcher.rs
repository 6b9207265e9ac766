//! Threads that wait for the GPU, so that the worker does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::device::{Point, VulkanDevice};

use super::command::Command;
use super::error::Error;

/// How long a thread waits at a time, in nanoseconds: then it looks whether it is to end.
const GLANCE: u64 = 50_000_000;

/// Waits for points, one after the other, and tells the worker of each.
pub(super) struct Watcher {
    points: Option<Sender<Vec<Point>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// A watcher that sends what `ended` makes for each point.
    pub fn new(device: Arc<VulkanDevice>, to: Sender<Command>, ended: fn() -> Command) -> Result<Self, Error> {
        let (points, from) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let watch = move || watch(&device, &from, &to, &seen, ended);
        let thread = thread::Builder::new().name("vidmm watcher".to_owned()).spawn(watch);
        let thread = thread.map_err(|error| Error::Lost(format!("no thread: {error}")))?;
        Ok(Self { points: Some(points), is_over, thread: Some(thread) })
    }

    /// Waits until all of `points` are reached, after those before.
    pub fn watch(&self, points: impl Into<Vec<Point>>) {
        if let Some(to) = &self.points {
            // A thread that has ended has told why.
            let _ = to.send(points.into());
        }
    }
}

fn watch(
    device: &VulkanDevice,
    all: &Receiver<Vec<Point>>,
    to: &Sender<Command>,
    is_over: &AtomicBool,
    ended: fn() -> Command,
) {
    for points in all {
        loop {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            match device.wait_points(&points, GLANCE) {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => {
                    let _ = to.send(Command::Failed(error));
                    return;
                }
            }
        }
        if to.send(ended()).is_err() {
            return;
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.points = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
