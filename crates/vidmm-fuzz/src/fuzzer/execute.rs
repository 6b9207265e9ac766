//! Executes a target once.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use crate::Target;

thread_local! {
    static IS_EXECUTING: Cell<bool> = const { Cell::new(false) };
    /// The message of the last panic.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Silences panics of targets: [`failure`] returns their message instead.
pub fn be_quiet() {
    let loud = take_hook();
    set_hook(Box::new(move |panic| match IS_EXECUTING.get() {
        true => SAID.set(panic.to_string()),
        false => loud(panic),
    }));
}

/// Feeds an input to a target. Returns the message of the panic if it fails. Needs [`be_quiet`] before.
pub fn failure(target: &Target, input: &[u8]) -> Option<String> {
    IS_EXECUTING.set(true);
    let panicked = catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err();
    IS_EXECUTING.set(false);
    panicked.then(|| SAID.take())
}
