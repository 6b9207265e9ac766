//! The verifier: what a driver encoded has the effect that is documented, or a finding says which operation has not (D27).
//!
//! A verifier stands between the core and a driver, and before the GPU itself. It notes each operation that the driver encodes,
//! and, when the GPU is about to begin the packet, what the operation will find. When the packet ends, and before the GPU begins
//! anything that waits for it, the verifier compares memory, page tables and apertures with what the documents say, as far as
//! the GPU's [`Probe`](crate::Probe) shows them. It needs no knowledge of the encoding.

mod documented;
mod effect;
mod finding;
mod page;
mod state;
mod under_way;
mod watch;

use std::cell::RefCell;
use std::rc::Rc;

pub(crate) use finding::Named;
pub use finding::{Offsets, PageContent, Request, Wrong, WrongEffect};
use state::State;
pub use state::may_be_empty;
use watch::{DriverWatch, VerifiedGpu};

use crate::{HookedKmd, Machine};

/// A verifier, which watches the GPU of a machine already.
///
/// It watches in two places, so that faults that are made on purpose are between them: a GPU that loses interrupts is not the
/// driver's mistake, and a driver's mistake must not be taken for a request.
pub struct Verifier(Rc<RefCell<State>>);

impl Verifier {
    /// Puts a verifier before the GPU of `machine`.
    pub fn watch_gpu(machine: Machine) -> (Machine, Self) {
        let state = Rc::new(RefCell::new(State::new(machine.gpu)));
        let gpu = Box::new(VerifiedGpu(state.clone()));
        (Machine { gpu, ..machine }, Self(state))
    }

    /// Puts it before the driver of `machine`, too.
    pub fn watch_driver(self, machine: Machine) -> Machine {
        let kmd = Box::new(HookedKmd::new(machine.kmd, DriverWatch(self.0)));
        Machine { kmd, ..machine }
    }
}
