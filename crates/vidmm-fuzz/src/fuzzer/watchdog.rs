//! Finds an execution that does not end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cpu_time::ProcessTime;

/// The CPU time that an execution may take: on a busy machine the clock says nothing. The time of other threads of the
/// process counts, too.
pub const LONGEST: Duration = Duration::from_secs(15);

/// The input that is being executed, and the start of its execution.
type Current = Arc<Mutex<Option<(ProcessTime, Vec<u8>)>>>;

/// Watches executions from a thread of its own.
pub struct Watchdog(Current);

impl Watchdog {
    /// Calls `too_long`, which does not return, with the input of an execution that takes longer than [`LONGEST`].
    pub fn new(too_long: impl Fn(&[u8]) -> std::convert::Infallible + Send + 'static) -> Self {
        let current = Current::default();
        let watched = Arc::downgrade(&current);
        std::thread::spawn(move || {
            while let Some(current) = watched.upgrade() {
                let hung = current.lock().ok().and_then(|current| {
                    current.as_ref().filter(|(since, _)| since.elapsed() > LONGEST).map(|(_, input)| input.clone())
                });
                if let Some(input) = hung {
                    match too_long(&input) {}
                }
                drop(current);
                std::thread::sleep(LONGEST / 30);
            }
        });
        Self(current)
    }

    /// Runs `execution` of `input` under the watch.
    pub fn watch<T>(&self, input: &[u8], execution: impl FnOnce() -> T) -> T {
        self.note(Some((ProcessTime::now(), input.to_vec())));
        let answer = execution();
        self.note(None);
        answer
    }

    fn note(&self, now: Option<(ProcessTime, Vec<u8>)>) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = now;
    }
}
