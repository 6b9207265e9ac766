//! A process: the unit that has a budget.

use std::fmt;
use std::sync::Arc;

use vidmm::{MemorySegmentGroup, VideoMemoryInfo};

use super::client::Client;
use super::command::Command;
use super::device::Device;
use super::error::Error;
use super::owner::ProcessInner;

/// A part of an application that has a budget of its own, and devices.
///
/// All processes of an adapter share one Vulkan device, which does not keep them apart: a shader of one reaches the buffers of
/// all others.
#[derive(Clone)]
pub struct Process(Arc<ProcessInner>);

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("process", &self.0.id()).finish_non_exhaustive()
    }
}

impl Process {
    pub(super) fn create(client: &Arc<Client>) -> Result<Self, Error> {
        Ok(Self(ProcessInner::create(client)?))
    }

    /// Creates a device, whose residency list is empty.
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    pub fn create_device(&self) -> Result<Device, Error> {
        Device::of_process(self.0.clone())
    }

    /// The budget of local memory, and the usage, in bytes (RES-51).
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    pub fn budget(&self) -> Result<VideoMemoryInfo, Error> {
        self.budget_of(MemorySegmentGroup::Local)
    }

    /// The same of a group: of local memory, or of system memory, which is the other.
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    #[doc(alias = "D3DKMTQueryVideoMemoryInfo")]
    pub fn budget_of(&self, group: MemorySegmentGroup) -> Result<VideoMemoryInfo, Error> {
        let process = self.0.id();
        self.0.client().ask(|reply| Command::Budget { process, group, reply })
    }
}
