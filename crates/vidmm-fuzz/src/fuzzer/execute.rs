//! One execution, and whether it failed.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use crate::Target;

thread_local! {
    static IS_EXECUTING: Cell<bool> = const { Cell::new(false) };
    /// The message of the last panic.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// From now on a panic of a target prints nothing: [`failure`] returns what it says.
pub fn be_quiet() {
    let loud = take_hook();
    set_hook(Box::new(move |panic| match IS_EXECUTING.get() {
        true => SAID.set(panic.to_string()),
        false => loud(panic),
    }));
}

/// Feeds an input to a target: what the panic says, if it fails. After [`be_quiet`].
pub fn failure(target: &Target, input: &[u8]) -> Option<String> {
    IS_EXECUTING.set(true);
    let panicked = catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err();
    IS_EXECUTING.set(false);
    panicked.then(|| SAID.take())
}
