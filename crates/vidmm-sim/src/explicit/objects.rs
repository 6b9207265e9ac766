//! The objects that steps have created, by their names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use vidmm::contract::{CpuVirtualAddress, Direction};
use vidmm::{
    AllocationId, ContextId, DeviceId, GpuVirtualAddress, MonitoredFenceId, PAGE_SIZE, PagingQueueId, PhysicalAddress,
    ProcessId, TrimNotificationId,
};
use vidmm_runtime::PageRange;

use super::ledger::{Part, Work};
use crate::scenario::steps::Undone;

/// Everything that steps have created.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub processes: BTreeMap<String, ProcessId>,
    pub devices: BTreeMap<String, Device>,
    pub allocations: BTreeMap<String, Allocation>,
    pub mappings: BTreeMap<String, Mapping>,
    pub reservations: BTreeMap<String, Reservation>,
    pub fences: BTreeMap<String, MonitoredFenceId>,
    /// The context and the number of each use that has not ended.
    pub uses: BTreeMap<String, (ContextId, u64)>,
    /// The fences that nobody has created.
    pub forged_fences: BTreeSet<String>,
    /// How many handles steps have forged.
    pub num_forged: u32,
    /// Kernel n is number n + 1.
    pub kernels: Vec<KernelState>,
    /// Kernels that have not ended, oldest first, by the fence that their end signals.
    pub waiting: BTreeMap<MonitoredFenceId, VecDeque<usize>>,
}

/// A device with its paging queue, if it has a list of its own, and a context on each engine.
#[derive(Debug)]
pub(crate) struct Device {
    pub process: ProcessId,
    pub device: DeviceId,
    pub queue: Option<PagingQueueId>,
    /// The priority of that.
    pub priority: i32,
    /// Another of another priority, which takes every second call where rules judge.
    pub second_queue: Option<PagingQueueId>,
    pub engines: [EngineQueue; 2],
    pub trim_notifications: Vec<TrimNotificationId>,
    /// Its self-scheduled context, once a step has begun a use.
    pub self_scheduled: Option<ContextId>,
}

/// A context with the fence that counts its kernels.
#[derive(Debug)]
pub(crate) struct EngineQueue {
    pub context: ContextId,
    pub fence: MonitoredFenceId,
    pub submitted: u64,
}

/// The writes of the CPU to a copy that it sees.
#[derive(Clone, Copy, Debug)]
pub struct WrittenCopy {
    /// Which write it was.
    pub write: u64,
    /// How many kernels there were at that time.
    pub num_kernels: usize,
    /// Whether what was in local memory may have been copied over it since.
    pub is_overwritten: bool,
}

#[derive(Debug)]
pub(crate) struct Allocation {
    pub id: AllocationId,
    /// The device that created it.
    pub device: String,
    /// The devices that have opened it.
    pub openers: Vec<String>,
    pub pages: u64,
    /// The alignment that its driver asked for, in bytes; 0 if it asked for none.
    pub alignment: u64,
    /// The banks of local memory where its driver would rather have it, in order (SEG-43).
    pub banks: Vec<u8>,
    /// The end of the bank at which it is to be.
    pub bank_direction: Direction,
    /// Whether engines address it physically.
    pub is_one_range: bool,
    pub surface: Option<u32>,
    /// The CPU sees a copy of it, which the GPU's is brought up to date from when the last lock ends.
    pub keeps_copy: bool,
    /// The writes of the CPU to that copy since then.
    pub written_copy: Option<WrittenCopy>,
    /// Where the CPU sees it, and how often it is locked.
    pub lock: Option<(CpuVirtualAddress, u32)>,
    /// The caller's memory that is its backing store, and its bytes.
    pub existing: Option<(PhysicalAddress, u64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub process: ProcessId,
    pub device: String,
    pub virtual_address: GpuVirtualAddress,
    /// Bytes that are mapped, with those behind the allocation's last page that kernels see.
    pub size: u64,
    pub part: Part,
    /// Writes through it fault.
    pub read_only: bool,
    /// Its addresses are another's now, or may soon be.
    pub is_freed: bool,
}

/// Addresses that were reserved.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    pub process: ProcessId,
    /// The device that reserved them: later work of it finds them as they are to be.
    pub device: String,
    /// Where nothing is mapped they read as zero.
    pub reads_zero: bool,
    pub addresses: Range<u64>,
    /// The addresses that were ever mapped there.
    pub used: Vec<Range<u64>>,
}

impl Device {
    /// The paging queue of the call that is made in this step of the machine.
    ///
    /// # Errors
    ///
    /// If the device has none.
    pub fn queue_at(&self, step: u64) -> Result<PagingQueueId, Undone> {
        let second = self.second_queue.filter(|_| step.is_multiple_of(2));
        second.or(self.queue).ok_or_else(Undone::no_paging_queue)
    }
}

impl Mapping {
    /// The addresses, and whose they are.
    pub fn addresses(&self) -> (ProcessId, Range<u64>) {
        let start = self.virtual_address.0;
        (self.process, start..start + self.size.max(self.part.pages * PAGE_SIZE))
    }

    /// The parts before `start` and from `end` on, both in bytes of it, when the rest is freed; none if that is nothing.
    pub fn without(&self, start: u64, end: u64) -> [Option<Self>; 2] {
        let part = |from: u64, to: u64| {
            let pages = self.part.pages.min(to / PAGE_SIZE);
            let before = (from / PAGE_SIZE).min(pages);
            let part = Part { first_page: self.part.first_page + before, pages: pages - before, ..self.part.clone() };
            let virtual_address = GpuVirtualAddress(self.virtual_address.0 + from);
            (from < to).then(|| Self { virtual_address, size: to - from, part, ..self.clone() })
        };
        [part(0, start), part(end, self.size)]
    }
}

/// A process that is to be killed when the GPU has made so many more steps.
#[derive(Debug)]
pub(crate) struct Doomed {
    pub process: String,
    pub steps_left: u32,
}

/// A kernel that was submitted.
#[derive(Debug)]
pub(crate) struct KernelState {
    pub name: String,
    /// The submission: the kernel itself, or the command buffer that it is in.
    pub submission: String,
    pub work: Work,
    /// The addresses that it writes to, as they were mapped when it was submitted.
    pub outputs: Vec<(ProcessId, Range<u64>)>,
    pub device: DeviceId,
    /// The fence value that its end signals.
    pub fence: MonitoredFenceId,
    pub value: u64,
    pub fault_is_expected: bool,
    /// Its device had made everything resident that it uses.
    pub is_covered: bool,
    /// It writes through a mapping that is read-only.
    pub must_fault: bool,
    /// It is no command of the GPU.
    pub is_illegal: bool,
    pub faulted: bool,
    pub aborted: bool,
    pub begun: bool,
    pub ended: bool,
}

impl KernelState {
    /// The allocations that the kernel uses may be gone when it runs, or its addresses be others': its content is unknown, and so is
    /// whether it may write.
    pub fn uncover(&mut self) {
        (self.is_covered, self.must_fault) = (false, false);
    }
}

impl Objects {
    /// A kernel was submitted. Returns its index.
    pub fn add_kernel(&mut self, kernel: KernelState) -> usize {
        let index = self.kernels.len();
        self.waiting.entry(kernel.fence).or_default().push_back(index);
        self.kernels.push(kernel);
        index
    }

    /// Addresses of a process that were reserved read as zero no longer: kernels that are still to use them may find anything there.
    pub fn uncover_zeros(&mut self, process: ProcessId, addresses: &Range<u64>) {
        let Self { kernels, waiting, reservations, .. } = self;
        for &index in waiting.values().flatten() {
            let kernel = &mut kernels[index];
            let meets = |(name, range): &(String, PageRange)| {
                let (start, end) = (range.virtual_address.0, range.virtual_address.0 + range.num_pages * PAGE_SIZE);
                let is_its = reservations.get(name).is_none_or(|reservation| reservation.process == process);
                is_its && start < addresses.end && addresses.start < end
            };
            if kernel.work.zeros.iter().any(meets) {
                kernel.uncover();
            }
        }
    }

    /// The last kernel of what was submitted under that name; names are checked before a scenario is run.
    pub fn last_kernel(&self, submission: &str) -> Option<usize> {
        self.kernels.iter().rposition(|kernel| kernel.submission == submission)
    }

    /// Whether any kernel of what was submitted under that name has begun.
    pub fn has_begun(&self, submission: &str) -> bool {
        self.kernels.iter().any(|kernel| kernel.submission == submission && kernel.begun)
    }

    pub fn process(&self, name: &str) -> Result<ProcessId, Undone> {
        named(&self.processes, name).copied()
    }

    pub fn device(&self, name: &str) -> Result<&Device, Undone> {
        named(&self.devices, name)
    }

    pub fn allocation(&self, name: &str) -> Result<&Allocation, Undone> {
        named(&self.allocations, name)
    }

    pub fn ids(&self, names: &[String]) -> Result<Vec<AllocationId>, Undone> {
        names.iter().map(|name| Ok(self.allocation(name)?.id)).collect()
    }

    /// The device that a step names, or that created the first of the allocations: without any, it is refused.
    pub fn device_of(&self, device: Option<&str>, allocations: &[String]) -> Result<&Device, Undone> {
        match (device, allocations.first()) {
            (Some(device), _) => self.device(device),
            (None, Some(first)) => self.device(&self.allocation(first)?.device),
            (None, None) => Err(Undone::empty()),
        }
    }
}

/// The thing of that name.
pub(super) fn named<'a, T>(things: &'a BTreeMap<String, T>, name: &str) -> Result<&'a T, Undone> {
    things.get(name).ok_or_else(|| Undone::Absent(name.to_owned()))
}
