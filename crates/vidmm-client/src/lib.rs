//! A residency manager for callers: an engine or a user-mode driver need not write a manager of its own.
//!
//! [`VidMm`](vidmm::VidMm) obeys MakeResident and Evict. The caller chooses the allocations to evict, and every engine and
//! every user-mode driver writes the choice again (RES-05, RES-57). This crate has the choice once, over the public calls
//! alone:
//!
//! - A [`ResidencySet`] collects the allocations of a submission, with a mark for writes. A second insert costs a look at a
//!   stamp.
//! - A [`ResidencyManager`] makes a set resident before the submission. Without room, the manager evicts the least recently
//!   used allocations, or the victims of a policy of the core ([`with_policy`](ResidencyManager::with_policy)). A refusal leads to one of two ladders ([`Ladder`], RES-14). The manager answers trim notifications
//!   (RES-42), and [`trim`](ResidencyManager::trim)s an idle program.
//! - A [`Renamer`] has as many allocations for one dynamic buffer as the GPU is behind (RES-05).
//!
//! # Reads and writes
//!
//! An allocation without a write by any set since MakeResident is evicted with
//! [`NOT_WRITTEN_TO`](vidmm::EvictFlags::NOT_WRITTEN_TO): the content is not copied out, since system memory has a copy
//! (RES-22). Call [`insert_read`](ResidencySet::insert_read) wherever a submission only reads. A plain
//! [`insert`](ResidencySet::insert) is a write, which is always safe. Manage an allocation with writes outside of all sets with
//! [`ManageFlags::WRITTEN_BY_OTHERS`]. CPU writes under a lock are kept in any case.
//!
//! # Queues
//!
//! Each queue of work on the device signals a monitored fence of its own. A submission begins with the fence of the queue; the
//! manager tells queues apart by the fence. An allocation was used in a period if any queue used the allocation in the period.
//! So a long submission in a queue keeps its own allocations, and no allocations of further queues.
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
//! With a policy each member of another set costs a call of the policy beside; an eviction and a periodic trim cost the policy's
//! choice for each victim, and a call for each allocation with a use since the eviction before.
//!
//! Nothing is sorted, and the manager looks only at allocations of the short memory, with an exception: when nothing more can
//! be evicted, the manager asks once for the memory of each listed allocation, since the memory may have changed.
//!
//! Each allocation costs some 60 bytes, and four for each fence.
//!
//! # How it is used
//!
//! ```
//! use vidmm_client::{BeginSubmissionError, ManageFlags, Managed, Ready, ResidencyManager, ResidencySet};
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

#![no_std]

extern crate alloc;

mod managed;
mod set;
mod order;
mod chosen;
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
