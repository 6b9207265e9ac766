//! For callers: who keeps what on a device's residency list, so that nobody writes a residency manager again.
//!
//! [`VidMm`](crate::VidMm) does what it is told: MakeResident, Evict. Deciding *what* to evict is the caller's, and every
//! engine and every user-mode driver writes it again (RES-05, RES-57). Here it is once, over the public calls alone:
//!
//! - A [`ResidencySet`] collects what one submission uses; naming something twice costs a look at a stamp.
//! - A [`ResidencyManager`] makes a set resident before its submission, and evicts what was used longest ago when there is no
//!   room. A refusal leads to one of two ladders ([`Ladder`], RES-14). It answers trim notifications (RES-42), and
//!   [`trim`](ResidencyManager::trim)s a program that goes idle.
//! - A [`Renamer`] has as many allocations for one dynamic buffer as the GPU is behind (RES-05).
//!
//! # What it costs
//!
//! A set that is begun again, unchanged, right after itself costs nothing that depends on its size. Another set costs one
//! write of a stamp of four bytes for each member. Victims are found in the order of the stamps; that order is worked
//! out only when something must be evicted, and each sorting of it is paid for by the uses and evictions since the last one.
//!
//! # How it is used
//!
//! ```
//! use vidmm::client::{BeginSubmissionError, ManageFlags, Managed, Ready, ResidencyManager, ResidencySet};
//! use vidmm::{ContextId, FenceValueDesc, MonitoredFenceId, Output, SubmitDesc, SubmitError, VidMm};
//!
//! struct Engine {
//!     manager: ResidencyManager,
//!     context: ContextId,
//!     fence: MonitoredFenceId,
//!     submitted: u64,
//! }
//!
//! impl Engine {
//!     /// A frame: what it uses is made resident, then it is submitted.
//!     fn frame(&mut self, vidmm: &mut VidMm, textures: &[Managed], set: &mut ResidencySet) -> Result<(), FrameError> {
//!         set.clear();
//!         textures.iter().for_each(|&texture| _ = set.insert(texture));
//!         let Ready { .. } = self.manager.begin_submission(vidmm, set)?;
//!         self.submitted += 1;
//!         let signals = vec![FenceValueDesc { fence: self.fence, value: self.submitted }];
//!         vidmm.submit(self.context, SubmitDesc { signals, ..SubmitDesc::default() })?;
//!         self.manager.submitted(self.submitted);
//!         Ok(())
//!     }
//!
//!     /// The outputs of `poll` that the manager should know.
//!     fn hear(&mut self, vidmm: &mut VidMm, output: &Output) {
//!         match *output {
//!             Output::MonitoredFenceSignaled { fence, value } if fence == self.fence => self.manager.fence_reached(value),
//!             Output::TrimNotification { device, flags, group, num_bytes_to_trim, .. } if device == self.manager.device() => {
//!                 let trimmed = self.manager.trim_notification(vidmm, flags, group, num_bytes_to_trim);
//!                 trimmed.expect("only the manager evicts");
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//!
//! #[derive(Debug)]
//! enum FrameError { NoMemory(BeginSubmissionError), Submit(SubmitError) }
//! impl From<BeginSubmissionError> for FrameError {
//!     fn from(error: BeginSubmissionError) -> Self { Self::NoMemory(error) }
//! }
//! impl From<SubmitError> for FrameError {
//!     fn from(error: SubmitError) -> Self { Self::Submit(error) }
//! }
//! ```

mod managed;
mod set;
mod order;
mod uses;
mod manager;
mod begin;
mod trimming;
mod renamer;

pub use begin::{BeginSubmissionError, Ready};
pub use managed::{Forgotten, ManageFlags, Managed};
pub use manager::{Ladder, ResidencyManager};
pub use renamer::{RenameError, Renamer};
pub use set::ResidencySet;
