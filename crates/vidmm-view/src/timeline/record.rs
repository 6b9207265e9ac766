//! The records that the timeline yields.

use vidmm::contract::{EngineFence, EngineKind, PagingOperationKind};
use vidmm::event::{ContentSource, EvictReason, SuspendReason, WantedBy};
use vidmm::{
    AllocationId, ContextId, DeviceId, Extent, MemorySegmentGroup, MonitoredFenceId, Nanoseconds, PagingQueueId,
    PlanNo, ProcessId, SegmentId,
};

/// One fact of a run. Times are nanoseconds of the run's clock.
///
/// A record comes when all of it is known. A span therefore comes at its end, and an eviction when its cost is known. So records
/// are not in the order of their times, except those of one kind that have a single time.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// The adapter started.
    Adapter(Adapter),
    /// An object exists from now on.
    Created(Created),
    /// An object is gone.
    Gone(Gone),
    /// A range of a segment has another holder from now on.
    Range(RangeChange),
    /// Bytes of a segment that a process has in one way, from now on. There is one record for each change of the sum.
    Occupancy(Occupancy),
    /// The budget of a process, from now on.
    Budget(Budget),
    /// The bytes that the lists of a process's devices name, from now on.
    Listed(Listed),
    /// A packet that an engine ran, or was to run.
    Packet(Packet),
    /// An operation that the driver encoded.
    Operation(Operation),
    /// A time for which work waited.
    Wait(Wait),
    /// A request that was answered with a paging fence.
    Request(Request),
    /// A plan, from its decision to its end.
    Plan(Plan),
    /// An allocation that was brought into a place.
    PageIn(PageIn),
    /// An allocation that left its place.
    Eviction(Eviction),
    /// A part of an allocation that was copied out ahead of an eviction, and stayed (D37).
    Cleaning(Cleaning),
    /// A time for which a device was out of its turn.
    Suspension(Suspension),
    /// A kernel's access to an allocation over the bus, of a kernel that took longer for such accesses.
    BusAccess(BusAccess),
    /// An error, or a finding of a check.
    Finding(Finding),
}

/// The adapter.
#[derive(Clone, PartialEq, Debug)]
pub struct Adapter {
    /// The time of its start.
    pub at: Nanoseconds,
    /// Memory segments, then apertures, then system memory.
    pub segments: Vec<Segment>,
    /// The engines, by ordinal.
    pub engines: Vec<EngineKind>,
}

/// A place where allocations may be resident.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its number; 0 is system memory.
    pub segment: SegmentId,
    /// Its name in messages, such as `local memory`.
    pub name: String,
    /// Its size in bytes; of system memory the bytes that may be resident there.
    pub size: u64,
    /// The group in which its bytes count.
    pub group: Option<MemorySegmentGroup>,
    /// Whether it is a memory segment.
    pub is_memory: bool,
}

/// An object that exists from now on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Created {
    /// The time of the event.
    pub at: Nanoseconds,
    /// The number of the event.
    pub number: u64,
    /// The object.
    pub object: Object,
}

/// An object, and the facts that it is created with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Object {
    /// A process.
    Process(ProcessId),
    /// A device of a process.
    Device(DeviceId, ProcessId),
    /// A context of a device, and its engine.
    Context(ContextId, DeviceId, u32),
    /// A paging queue of a device.
    PagingQueue(PagingQueueId, DeviceId),
    /// An allocation of a device and its process, and its size in bytes.
    Allocation(AllocationId, DeviceId, ProcessId, u64),
}

/// An object that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gone {
    /// The time of the event.
    pub at: Nanoseconds,
    /// The object.
    pub object: GoneObject,
}

/// The name of an object that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GoneObject {
    /// A process.
    Process(ProcessId),
    /// A device.
    Device(DeviceId),
    /// A context.
    Context(ContextId),
    /// A paging queue.
    PagingQueue(PagingQueueId),
    /// An allocation.
    Allocation(AllocationId),
}

/// A range of a segment that has another holder from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeChange {
    /// The time of the decision.
    pub at: Nanoseconds,
    /// The segment.
    pub segment: SegmentId,
    /// The range.
    pub extent: Extent,
    /// Its holder now.
    pub holder: Holder,
}

/// The holder of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// None: the range is free.
    Free,
    /// An allocation.
    Allocation(AllocationId),
    /// An allocation that leaves it: the range is promised to a later plan, and free when this plan has entered.
    Leaving(AllocationId, PlanNo),
    /// A page table of a process; none if it is the paging process's.
    PageTable(Option<ProcessId>),
}

/// The reason why bytes of a segment are taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Holding {
    /// The list of a device names the allocation.
    Listed,
    /// Only lists of suspended devices name it.
    Suspended,
    /// It is offered.
    Offered,
    /// No list names it: it stays until its room is wanted.
    Unlisted,
    /// Its caller has destroyed it, and its last use has not ended.
    Destroyed,
    /// It leaves, and its plan has not entered.
    Leaving,
    /// Page tables.
    PageTable,
}

impl Holding {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 7] =
        [Self::Listed, Self::Suspended, Self::Offered, Self::Unlisted, Self::Destroyed, Self::Leaving, Self::PageTable];

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Listed => "on a list",
            Self::Suspended => "on a list of a suspended device",
            Self::Offered => "offered",
            Self::Unlisted => "on no list",
            Self::Destroyed => "destroyed, still in use",
            Self::Leaving => "leaving",
            Self::PageTable => "page tables",
        }
    }
}

/// Bytes of a segment that a process has in one way, from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occupancy {
    /// The time. All changes of one time are one record.
    pub at: Nanoseconds,
    /// The segment.
    pub segment: SegmentId,
    /// The process; none for the tables of the paging process.
    pub process: Option<ProcessId>,
    /// The reason.
    pub holding: Holding,
    /// The bytes from now on.
    pub bytes: u64,
}

/// The budget of a process, as it was published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The time.
    pub at: Nanoseconds,
    /// The process.
    pub process: ProcessId,
    /// The group.
    pub group: MemorySegmentGroup,
    /// The budget in bytes.
    pub budget: u64,
    /// The bytes of the group that its lists name.
    pub requested: u64,
}

/// The bytes that the lists of a process name, wherever they are resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The time. All changes of one time are one record.
    pub at: Nanoseconds,
    /// The process.
    pub process: ProcessId,
    /// The bytes from now on. An allocation counts once for each device that lists it; an offered one does not.
    pub bytes: u64,
}

/// A packet of an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The fence that its end signals; its engine is in there.
    pub signal: EngineFence,
    /// Its content.
    pub content: PacketContent,
    /// The time at which it was handed to its engine.
    pub queued_at: Nanoseconds,
    /// The time at which it began: when it had been handed out, the packet before it had ended, and its waits were over. The log
    /// has no such time, and this one follows from those that it has.
    pub started_at: Nanoseconds,
    /// The time at which it ended.
    pub ended_at: Nanoseconds,
    /// Its end.
    pub end: PacketEnd,
    /// Of a paging packet, the time for which work of any engine ran beside it: that much of it was hidden. 0 of work.
    pub hidden_ns: Nanoseconds,
}

/// The content of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PacketContent {
    /// Work of a user.
    Work {
        /// The device.
        device: DeviceId,
        /// The context, if the log names it.
        context: Option<ContextId>,
        /// Its number within the device.
        submission: u64,
        /// The time of the submission.
        submitted_at: Nanoseconds,
    },
    /// A paging buffer.
    Paging {
        /// Bytes of commands.
        bytes: u32,
        /// The operations in it; 0 in a log of decisions.
        operations: u32,
        /// The plans of which it has operations; none in a log of decisions.
        plans: Vec<PlanNo>,
    },
}

/// The end of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketEnd {
    /// It was carried out.
    Completed,
    /// It was aborted by a reset, or its work was dropped.
    Aborted,
    /// The log ends before it.
    Open,
}

/// An operation that the driver encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// The number of the event.
    pub number: u64,
    /// The time at which it was encoded.
    pub at: Nanoseconds,
    /// The plan that it belongs to.
    pub plan: PlanNo,
    /// Its kind.
    pub kind: PagingOperationKind,
    /// The allocation that it is about.
    pub allocation: Option<AllocationId>,
    /// The bytes of memory that it is about.
    pub bytes: u64,
    /// Whether the driver encoded it; if not, it is asked again.
    pub is_encoded: bool,
    /// The packet that it is in; none if it is in none.
    pub packet: Option<EngineFence>,
}

/// A time for which work waited, and the last thing that it waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The device.
    pub device: DeviceId,
    /// The submission.
    pub submission: u64,
    /// The start.
    pub from: Nanoseconds,
    /// The end.
    pub to: Nanoseconds,
    /// The thing that ended last.
    pub on: WaitedFor,
}

/// The thing that work waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitedFor {
    /// A packet: the work was handed out, was the next of its engine, and the engine stood still for it.
    Packet(EngineFence),
    /// The packet before it on its engine.
    Engine(EngineFence),
    /// Its device's turn: the work was not handed out.
    Turn,
    /// A monitored fence and its value: the work was not handed out.
    MonitoredFence(MonitoredFenceId, u64),
    /// A request of its device, and its paging fence value: the work was not handed out.
    Request(PagingQueueId, u64),
    /// Work before it, or an order that the log does not tell: the work was not handed out.
    Order,
}

/// A request that was answered with a paging fence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The device, if the log names it.
    pub device: Option<DeviceId>,
    /// The queue.
    pub queue: PagingQueueId,
    /// The value of its fence.
    pub paging_fence_value: u64,
    /// The allocations that it names.
    pub allocations: Vec<AllocationId>,
    /// The time of the call.
    pub asked_at: Nanoseconds,
    /// The time at which it was granted.
    pub granted_at: Option<Nanoseconds>,
    /// The time at which its fence was signalled.
    pub ended_at: Option<Nanoseconds>,
    /// The plans that it waited for.
    pub plans: Vec<PlanNo>,
}

/// A plan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Its number.
    pub plan: PlanNo,
    /// The time of its decision.
    pub decided_at: Nanoseconds,
    /// The time at which it entered the stream.
    pub entered_at: Option<Nanoseconds>,
    /// The time at which the packet with its last operation ended.
    pub ended_at: Option<Nanoseconds>,
    /// That packet.
    pub signal: Option<EngineFence>,
    /// The submissions that it waited for before it entered.
    pub waits: Vec<(DeviceId, u64)>,
    /// The plans that entered before it.
    pub after: Vec<PlanNo>,
    /// Bytes that it copied in.
    pub bytes_in: u64,
    /// Bytes that it copied out.
    pub bytes_out: u64,
    /// Bytes that it filled.
    pub bytes_filled: u64,
    /// The time for which engines stood still for it. A wait is shared among the plans that ended during it, by the bytes that
    /// they moved.
    pub lost_ns: Nanoseconds,
}

/// An allocation that was brought into a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageIn {
    /// The number of the event that decided it.
    pub number: u64,
    /// The time of the decision.
    pub at: Nanoseconds,
    /// The time at which its plan ended.
    pub ended_at: Option<Nanoseconds>,
    /// The plan.
    pub plan: PlanNo,
    /// The allocation.
    pub allocation: AllocationId,
    /// The segment.
    pub segment: SegmentId,
    /// Its size in bytes.
    pub bytes: u64,
    /// The source of its content.
    pub content: ContentSource,
    /// Its part of the time for which engines stood still for the plan, by bytes.
    pub lost_ns: Nanoseconds,
}

/// A part of an allocation that is copied out ahead of an eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cleaning {
    /// The number of the event.
    pub number: u64,
    /// The time of the decision.
    pub at: Nanoseconds,
    /// The plan of the copy.
    pub plan: PlanNo,
    /// The allocation.
    pub allocation: AllocationId,
    /// The process of the allocation.
    pub process: Option<ProcessId>,
    /// The segment of the allocation.
    pub segment: Option<SegmentId>,
    /// The bytes of the part.
    pub bytes: u64,
    /// Whether the part is the last.
    pub is_last: bool,
}

/// A kernel's access to an allocation over the bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusAccess {
    /// The time of the event: the kernel has computed.
    pub at: Nanoseconds,
    /// The device of the kernel.
    pub device: DeviceId,
    /// The kernel's number.
    pub kernel: u64,
    /// The allocation.
    pub allocation: AllocationId,
    /// The bytes that the kernel read or wrote.
    pub bytes: u64,
    /// How much longer the kernel took for them.
    pub lost_ns: Nanoseconds,
}

/// An allocation that left its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eviction {
    /// The number of the event that decided it.
    pub number: u64,
    /// The time of the decision.
    pub at: Nanoseconds,
    /// The plan that took it out.
    pub plan: PlanNo,
    /// The victim.
    pub allocation: AllocationId,
    /// The process that it belongs to.
    pub process: Option<ProcessId>,
    /// The segment that it left.
    pub segment: SegmentId,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes that were copied out.
    pub bytes_out: u64,
    /// The reason.
    pub reason: EvictReason,
    /// Whether its content was lost with it: it was offered.
    pub discarded: bool,
    /// The device, request and allocation that the room was for, as the log says.
    pub wanted_by: Option<WantedBy>,
    /// The segment that the same plan brought it into: it was demoted, promoted or moved.
    pub moved_to: Option<SegmentId>,
    /// Its next arrival by a later plan.
    pub returned: Option<Returned>,
    /// The time for which engines stood still for the copy out: its part of the plan's, by bytes.
    pub lost_out_ns: Nanoseconds,
}

impl Eviction {
    /// The time for which engines stood still for it: for its copy out, and for its return.
    pub fn lost_ns(&self) -> Nanoseconds {
        self.lost_out_ns.saturating_add(self.returned.map_or(0, |returned| returned.lost_ns))
    }
}

/// The next arrival of an allocation that had left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Returned {
    /// The time of the decision.
    pub at: Nanoseconds,
    /// The plan.
    pub plan: PlanNo,
    /// The segment.
    pub segment: SegmentId,
    /// Bytes that were copied in.
    pub bytes_in: u64,
    /// The time for which engines stood still for it: its part of the plan's, by bytes.
    pub lost_ns: Nanoseconds,
}

/// A time for which a device was out of its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspension {
    /// The device.
    pub device: DeviceId,
    /// The time at which it yielded.
    pub from: Nanoseconds,
    /// The time at which it was resumed; none if that never came.
    pub to: Option<Nanoseconds>,
    /// The reason.
    pub reason: SuspendReason,
    /// The other device that needed the memory.
    pub wanted_by: Option<DeviceId>,
}

/// An error, or a finding of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The number of the event.
    pub number: u64,
    /// The time.
    pub at: Nanoseconds,
    /// Its weight.
    pub severity: Severity,
    /// The allocation that it is about.
    pub allocation: Option<AllocationId>,
    /// A paragraph for people.
    pub text: String,
}

/// The weight of a finding, the heaviest last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The driver's author should know it.
    Note,
    /// A call was refused, or content was lost.
    Warning,
    /// Something is wrong.
    Error,
}
