//! The worker's records of what applications have created.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use vidmm::contract::KmdProcessHandle;
use vidmm::{ContextId, DeviceId, PagingQueueId, ProcessId};

use crate::device::{Point, VulkanDevice};
use crate::error::VulkanError;

use super::command::OnTrim;
use super::frame_list::FrameList;
use super::resources::Resources;

/// All objects.
#[derive(Default)]
pub(super) struct Objects {
    pub processes: BTreeMap<ProcessId, ProcessRecord>,
    pub devices: BTreeMap<DeviceId, DeviceRecord>,
    pub queues: BTreeMap<PagingQueueId, DeviceId>,
    pub resources: Resources,
}

pub(super) struct ProcessRecord {
    pub handle: KmdProcessHandle,
    pub devices: usize,
    /// No handle to it is left: it goes with its last device.
    pub is_closing: bool,
}

pub(super) struct DeviceRecord {
    pub process: ProcessId,
    pub queue: PagingQueueId,
    pub context: ContextId,
    pub ready: Ready,
    /// The last point that the queue is to signal for it.
    pub done: Point,
    /// Values of the paging queue's fence, and the points that they reach.
    pub requests: VecDeque<(u64, u64)>,
    /// Uses that were begun and have not ended.
    pub uses: Arc<AtomicUsize>,
    /// Its buffers and images.
    pub resources: usize,
    pub on_trim: Option<OnTrim>,
    /// From its first frame on.
    pub frames: Option<FrameList>,
    /// The number of frames so far, refused frames too.
    pub frame_count: u64,
    /// No handle to it is left: it goes with its last use and its last allocation.
    pub is_closing: bool,
}

impl DeviceRecord {
    /// The requests up to this value of the paging queue's fence are over, or are when the queue gets there: their points come.
    pub fn reach(&mut self, device: &VulkanDevice, value: u64) -> Result<(), VulkanError> {
        while let Some(&(_, ready)) = self.requests.front().filter(|&&(of, _)| of <= value) {
            self.requests.pop_front();
            self.ready.come(device, ready)?;
        }
        Ok(())
    }
}

/// The points that the worker signals for a device. They are reached in their order, whatever the order of their reasons.
pub(super) struct Ready {
    /// The last that was signalled.
    signalled: Point,
    /// The last that was asked for.
    last: u64,
    /// Those that were asked for and have not come.
    outstanding: BTreeSet<u64>,
}

impl Ready {
    pub fn new(first: Point) -> Self {
        Self { signalled: first, last: first.value, outstanding: BTreeSet::new() }
    }

    /// The last point that was signalled.
    pub fn signalled(&self) -> Point {
        self.signalled
    }

    /// A point was asked for.
    pub fn expect(&mut self, value: u64) {
        self.last = self.last.max(value);
        self.outstanding.insert(value);
    }

    /// It has come: all that have none before them that is outstanding are signalled.
    pub fn come(&mut self, device: &VulkanDevice, value: u64) -> Result<(), VulkanError> {
        self.outstanding.remove(&value);
        let reached = self.outstanding.first().map_or(self.last, |first| first - 1);
        self.signal(device, reached)
    }

    /// All that were asked for come now: nobody is to wait for ever.
    pub fn release(&mut self, device: &VulkanDevice) -> Result<(), VulkanError> {
        self.outstanding.clear();
        self.signal(device, self.last)
    }

    fn signal(&mut self, device: &VulkanDevice, value: u64) -> Result<(), VulkanError> {
        if value > self.signalled.value {
            self.signalled.value = value;
            device.signal(self.signalled)?;
        }
        Ok(())
    }
}
