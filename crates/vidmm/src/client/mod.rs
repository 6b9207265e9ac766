//! A residency manager for callers: an engine or a user-mode driver need not write its own.
//!
//! [`VidMm`](crate::VidMm) does as it is told: MakeResident, Evict. The caller decides *what* to evict, and every
//! engine and every user-mode driver writes that again (RES-05, RES-57). Here it is once, over the public calls alone:
//!
//! - A [`ResidencySet`] collects the allocations that one submission uses, and which of them it writes. Naming one twice costs a
//!   look at a stamp.
//! - A [`ResidencyManager`] makes a set resident before its submission. When there is no room, it evicts what was used longest
//!   ago. A refusal leads to one of two ladders ([`Ladder`], RES-14). It answers trim notifications (RES-42), and
//!   [`trim`](ResidencyManager::trim)s a program that goes idle.
//! - A [`Renamer`] has as many allocations for one dynamic buffer as the GPU is behind (RES-05).
//!
//! # Reads and writes
//!
//! An allocation that no set has written since the manager made it resident is evicted with
//! [`NOT_WRITTEN_TO`](crate::EvictFlags::NOT_WRITTEN_TO): its content is not copied out, since system memory has it (RES-22). So say
//! [`insert_read`](ResidencySet::insert_read) wherever a submission only reads. A plain [`insert`](ResidencySet::insert) is a write,
//! which is always safe. An allocation that work outside all sets writes is managed with
//! [`ManageFlags::WRITTEN_BY_OTHERS`]. Content that the CPU writes under a lock is kept in any case.
//!
//! # Queues
//!
//! Each queue of work on the device signals a monitored fence of its own. A submission is begun for the fence of its queue; the
//! manager tells queues apart by it. An allocation was used in a period if any queue used it then. So a long submission in one
//! queue keeps what it uses, and nothing of the others.
//!
//! # What it costs
//!
//! | call | cost |
//! |---|---|
//! | [`begin_submission`](ResidencyManager::begin_submission) of the last set again, unchanged | constant |
//! | of another set | for each member one write of a stamp of four bytes; for each written one a bit more |
//! | an eviction, whatever for | for each victim the logarithm of how many are listed |
//! | the search for victims | the same for each allocation that seemed older than the victim, and was used since |
//! | [`trim_notification`](ResidencyManager::trim_notification), periodic | that, and the same for each allocation that one queue had no longer used when the period began, and another had |
//! | [`trim`](ResidencyManager::trim) | each allocation that is listed or internal, once |
//!
//! Nothing is sorted, and an allocation that counts in another memory than the one that is short is not looked at. There is
//! one exception: when nothing more can be evicted in that memory, the manager asks once for the memory of each listed
//! allocation, since it may have changed.
//!
//! Each allocation costs some 60 bytes, and four for each fence.
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
//!     /// A frame reads textures and writes its target: they are made resident, then it is submitted.
//!     fn frame(
//!         &mut self,
//!         vidmm: &mut VidMm,
//!         textures: &[Managed],
//!         target: Managed,
//!         set: &mut ResidencySet,
//!     ) -> Result<(), FrameError> {
//!         set.clear();
//!         textures.iter().for_each(|&texture| _ = set.insert_read(texture));
//!         set.insert(target);
//!         let Ready { .. } = self.manager.begin_submission(vidmm, self.fence, set)?;
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
//!             Output::MonitoredFenceSignaled { fence, value } => self.manager.fence_reached(fence, value),
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
