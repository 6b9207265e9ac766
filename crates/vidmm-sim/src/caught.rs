//! Panics of the manager, of a driver or of a GPU, which are findings too.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::machine::MachineFactory;

thread_local! {
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `action`, which may panic. Returns the message and the place of a panic; nothing is printed.
pub fn caught(action: impl FnOnce()) -> Option<String> {
    listen();
    let was_catching = IS_CATCHING.replace(true);
    // A state that a panic left half changed is not looked at any more.
    let result = catch_unwind(AssertUnwindSafe(action));
    IS_CATCHING.set(was_catching);
    result.err().map(|_| MESSAGE.take())
}

/// As [`caught`], unless panics of the factory's machines are none of the driver's or the GPU's: those are passed on.
pub(crate) fn caught_of(factory: &dyn MachineFactory, action: impl FnOnce()) -> Option<String> {
    if factory.panics_are_findings() {
        return caught(action);
    }
    action();
    None
}

/// Installs a hook that keeps the message of panics that are caught, and passes on the others.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if IS_CATCHING.get() {
                MESSAGE.set(panic.to_string());
            } else {
                before(panic);
            }
        }));
    });
}
