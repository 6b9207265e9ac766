//! D3DKMT over the manager: a library in the place of `libdxcore.so`, on which unmodified user-mode drivers run.
//!
//! [`Session`] answers [`Call`]s. Calls are plain data: equal calls get equal answers. The functions in
//! C translate the structs of `d3dkmthk.h` into calls, and stand in front of one session for each process (module `border`). Kernels do
//! nothing at this depth: calls are judged, and no page is read.
//!
//! `vidmm exec --kmt` runs a program on the library. `vidmm replay` repeats the log of the calls without the program.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "the border is for Linux"))]

// A file imports only from those above it.
mod status;
mod call;
mod faults;
mod settings;
mod handles;
mod addresses;
mod objects;
mod rules;
mod neighbour;
mod log;
mod session;
mod pressure;
mod calls;
#[cfg(target_os = "linux")]
mod border;

pub use call::{AllocationInfo, Call, FenceValue, Memory, Reply, UpdateOperation};
pub use faults::{Fault, FaultKind};
pub use log::{CallLog, Counted, Line, LogError, Played, of_process, replay};
pub use rules::{Finding, Rule};
pub use session::Session;
pub use settings::{Neighbour, SETTINGS_VARIABLE, Settings};
pub use status::Status;
