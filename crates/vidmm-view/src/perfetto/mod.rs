//! A trace for [Perfetto](https://ui.perfetto.dev), from the timeline.
//!
//! A [`PerfettoWriter`] takes the records of a [`Timeline`](crate::timeline::Timeline) and writes packets. It keeps the
//! last slices, so that a slice which waited for another can be joined with it by a flow, and the operations of paging
//! buffers under way: its memory does not grow with the length of a run.
//!
//! Tracks: the engines with their packets, and in each paging packet its operations; for each process its contexts with
//! their submissions from call to end, its requests, its budgets, and its bytes by segment and reason; the bytes of
//! each segment; the bytes that plans moved. Flows lead from a submission to its packet, and from a packet or a request
//! to the packet that waited for its fence.
//!
//! A log tells the times of a packet and not those of its operations. Transfers and fills share the packet's time by
//! their bytes, in order; other operations have a place in that order and no length.

mod output;
mod proto;
mod window;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
};

use vidmm::contract::{EngineFence, EngineKind, PagingOperationKind};
use vidmm::{ContextId, DeviceId, MemorySegmentGroup, Nanoseconds, ProcessId, SegmentId};

use self::output::{Output, Subject};
use self::proto::TrackEvent;
use self::window::{Fence, Slice, Window, number, words};
use crate::timeline::Record;
use crate::timeline::record::{
    Adapter, GoneObject, Object, Occupancy, Operation, Packet, PacketContent, PacketEnd, Plan, Request, Wait, WaitedFor,
};

/// Writes a trace.
#[derive(Debug)]
pub struct PerfettoWriter<W> {
    out: Output<W>,
    window: Window,
    adapter: Option<Adapter>,
    devices: BTreeMap<DeviceId, ProcessId>,
    /// Operations of the paging packets under way.
    operations: BTreeMap<EngineFence, Vec<Operation>>,
    /// Waits of the submissions under way.
    waits: BTreeMap<(DeviceId, u64), Vec<Wait>>,
    /// Bytes of each account, and of each segment that are taken.
    held: BTreeMap<Subject, u64>,
    taken: BTreeMap<SegmentId, u64>,
    /// The segments of which more or less is taken since a time: their sums are right when all changes of that time are
    /// known.
    changed: (Nanoseconds, BTreeSet<SegmentId>),
    /// Bytes that plans have copied in, copied out and filled.
    moved: [u64; 3],
}

impl<W: Write> PerfettoWriter<W> {
    /// Begins a trace. `out` should be buffered.
    pub fn new(out: W) -> Self {
        Self {
            out: Output::new(out),
            window: Window::default(),
            adapter: None,
            devices: BTreeMap::new(),
            operations: BTreeMap::new(),
            waits: BTreeMap::new(),
            held: BTreeMap::new(),
            taken: BTreeMap::new(),
            changed: (0, BTreeSet::new()),
            moved: [0; 3],
        }
    }

    /// Takes the next record of a timeline.
    ///
    /// # Errors
    ///
    /// If the trace cannot be written.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Adapter(adapter) => self.adapter = Some(adapter.clone()),
            Record::Created(created) => {
                if let Object::Device(device, process) = created.object {
                    self.devices.insert(device, process);
                }
            }
            Record::Gone(gone) => {
                if let GoneObject::Device(device) = gone.object {
                    self.devices.remove(&device);
                    self.waits.retain(|&(of, _), _| of != device);
                }
            }
            Record::Occupancy(occupancy) => return self.occupancy(occupancy),
            Record::Listed(listed) => {
                return self.out.count(Subject::Listed(listed.process), "on lists", listed.at, listed.bytes);
            }
            Record::Budget(budget) => {
                let name = match budget.group {
                    MemorySegmentGroup::Local => "budget, local",
                    MemorySegmentGroup::NonLocal => "budget, non-local",
                };
                return self.out.count(Subject::Budget(budget.process, budget.group), name, budget.at, budget.budget);
            }
            Record::Operation(operation) => {
                if let Some(packet) = operation.packet.filter(|_| operation.is_encoded) {
                    self.operations.entry(packet).or_default().push(*operation);
                }
            }
            Record::Wait(wait) => self.waits.entry((wait.device, wait.submission)).or_default().push(*wait),
            Record::Packet(packet) => return self.packet(packet),
            Record::Request(request) => return self.request(request),
            Record::Plan(plan) => return self.plan(plan),
            Record::Range(_)
            | Record::PageIn(_)
            | Record::Cleaning(_)
            | Record::Eviction(_)
            | Record::Suspension(_)
            | Record::BusAccess(_)
            | Record::Finding(_) => {}
        }
        Ok(())
    }

    /// Ends the trace, and returns the writer.
    ///
    /// # Errors
    ///
    /// If the trace cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.count_taken()?;
        while let Some(slice) = self.window.pop() {
            self.write(slice)?;
        }
        let mut out = self.out.into_inner();
        out.flush()?;
        Ok(out)
    }

    fn occupancy(&mut self, occupancy: &Occupancy) -> io::Result<()> {
        let &Occupancy { at, segment, process, holding, bytes } = occupancy;
        if at > self.changed.0 {
            self.count_taken()?;
        }
        self.changed.0 = at;
        self.changed.1.insert(segment);
        // The paging process is no user's: its tables count in the segment alone.
        let subject = process.map(|process| Subject::Held(process, segment, holding));
        let before = self.held.insert(subject.unwrap_or(Subject::Segment(segment)), bytes).unwrap_or(0);
        let taken = self.taken.entry(segment).or_default();
        *taken = (*taken + bytes).saturating_sub(before);
        match subject {
            Some(subject) => {
                let name = format!("{}: {}", self.segment_name(segment), holding.name());
                self.out.count(subject, &name, at, bytes)
            }
            None => Ok(()),
        }
    }

    /// Writes the sums of the segments that have changed.
    fn count_taken(&mut self) -> io::Result<()> {
        let at = self.changed.0;
        for segment in std::mem::take(&mut self.changed.1) {
            let (name, taken) = (self.segment_name(segment), self.taken.get(&segment).copied().unwrap_or(0));
            self.out.count(Subject::Segment(segment), &name, at, taken)?;
        }
        Ok(())
    }

    fn plan(&mut self, plan: &Plan) -> io::Result<()> {
        let Some(at) = plan.ended_at else { return Ok(()) };
        let moved = [plan.bytes_in, plan.bytes_out, plan.bytes_filled];
        let subjects = [Subject::BytesIn, Subject::BytesOut, Subject::BytesFilled];
        for (which, name) in ["copied in", "copied out", "filled"].into_iter().enumerate() {
            if moved[which] > 0 {
                self.moved[which] += moved[which];
                self.out.count(subjects[which], name, at, self.moved[which])?;
            }
        }
        Ok(())
    }

    fn request(&mut self, request: &Request) -> io::Result<()> {
        let Some(process) = request.device.and_then(|device| self.devices.get(&device)) else { return Ok(()) };
        let (queue, value) = (request.queue, request.paging_fence_value);
        let mut facts =
            vec![number("paging fence value", value), number("allocations", request.allocations.len() as u64)];
        facts.extend(request.granted_at.map(|at| number("granted at", at)));
        facts.extend(request.ended_at.is_none().then(|| words("end", "the log ends before it")));
        let to = request.ended_at.or(request.granted_at).unwrap_or(request.asked_at);
        self.push(Slice {
            subject: Subject::Requests(*process, queue),
            track: format!("requests of {queue}"),
            from: request.asked_at,
            to: to.max(request.asked_at),
            event: event("request", format!("request {value}"), facts),
            operations: Vec::new(),
            signals: Some(Fence::Paging(queue, value)),
            waited_for: None,
        })
    }

    fn packet(&mut self, packet: &Packet) -> io::Result<()> {
        let mut facts = vec![number("fence", packet.signal.fence_id), number("queued at", packet.queued_at)];
        facts.extend(match packet.end {
            PacketEnd::Completed => None,
            PacketEnd::Aborted => Some(words("end", "aborted")),
            PacketEnd::Open => Some(words("end", "the log ends before it")),
        });
        let mut slice = Slice {
            subject: Subject::Engine(packet.signal.engine),
            track: self.engine_name(packet.signal.engine),
            from: packet.started_at,
            to: packet.ended_at,
            event: TrackEvent::default(),
            operations: Vec::new(),
            signals: Some(Fence::Packet(packet.signal)),
            waited_for: None,
        };
        match packet.content {
            PacketContent::Paging { bytes, .. } => {
                facts.extend([number("bytes of commands", bytes.into()), number("hidden ns", packet.hidden_ns)]);
                slice.event = event("paging", "paging buffer".to_owned(), facts);
                slice.operations = self.operations.remove(&packet.signal).unwrap_or_default();
                // An engine ends its packets in order, so those before it that are still here were dropped or have
                // another fence now.
                let first = EngineFence { fence_id: 0, ..packet.signal };
                let dead: Vec<_> = self.operations.range(first..packet.signal).map(|(&fence, _)| fence).collect();
                dead.iter().for_each(|fence| drop(self.operations.remove(fence)));
            }
            PacketContent::Work { device, context, submission, submitted_at } => {
                let waits = self.waits.remove(&(device, submission)).unwrap_or_default();
                facts.extend(waits.iter().map(|wait| words("waited", wait_in_words(wait))));
                slice.waited_for = waits.iter().rev().find_map(|wait| fence_of(wait.on));
                slice.event = event("work", format!("{device} submission {submission}"), facts);
                if let (Some(&process), Some(context)) = (self.devices.get(&device), context) {
                    self.submission(process, context, submission, submitted_at, &mut slice)?;
                }
            }
        }
        self.push(slice)
    }

    /// The slice of a submission on the track of its context, and the flow to its packet.
    fn submission(
        &mut self,
        process: ProcessId,
        context: ContextId,
        submission: u64,
        submitted_at: Nanoseconds,
        packet: &mut Slice,
    ) -> io::Result<()> {
        let flow = self.window.next_flow();
        packet.event.terminating_flow_ids.push(flow);
        let mut event = event("submission", format!("submission {submission}"), Vec::new());
        event.flow_ids.push(flow);
        self.push(Slice {
            subject: Subject::Context(process, context),
            track: context.to_string(),
            from: submitted_at,
            to: packet.to,
            event,
            operations: Vec::new(),
            signals: None,
            waited_for: None,
        })
    }

    fn push(&mut self, slice: Slice) -> io::Result<()> {
        self.window.push(slice).map_or(Ok(()), |slice| self.write(slice))
    }

    fn write(&mut self, slice: Slice) -> io::Result<()> {
        let Slice { subject, track, from, to, event: of_slice, operations, .. } = slice;
        let track = self.out.track_free_at(subject, &track, from)?;
        self.out.begin(subject, track, from, of_slice)?;
        let all: u128 = operations.iter().map(moved).sum();
        let mut done = 0;
        for operation in operations {
            let after = |bytes: u128| from + (u128::from(to - from) * bytes / all.max(1)) as u64;
            let start = after(done);
            done += moved(&operation);
            let mut facts = vec![number("plan", operation.plan), number("bytes", operation.bytes)];
            facts.extend(operation.allocation.map(|allocation| words("allocation", allocation)));
            let event = event("operation", operation.kind.name().to_owned(), facts);
            self.out.begin(subject, track, start, event)?;
            self.out.end(subject, track, after(done))?;
        }
        self.out.end(subject, track, to)
    }

    fn segment_name(&self, segment: SegmentId) -> String {
        let segments = self.adapter.iter().flat_map(|adapter| &adapter.segments);
        let name = segments.into_iter().find(|known| known.segment == segment).map(|known| known.name.clone());
        name.unwrap_or_else(|| format!("{segment:?}"))
    }

    fn engine_name(&self, engine: u32) -> String {
        let kind = self.adapter.as_ref().and_then(|adapter| adapter.engines.get(engine as usize));
        let kind = match kind {
            Some(EngineKind::Paging) => ", paging",
            Some(EngineKind::Render3d) => ", 3D",
            Some(EngineKind::Copy) => ", copy",
            None => "",
        };
        format!("engine {engine}{kind}")
    }
}

fn event(category: &str, name: String, facts: Vec<proto::DebugAnnotation>) -> TrackEvent {
    TrackEvent {
        categories: vec![category.to_owned()],
        name: Some(name),
        debug_annotations: facts,
        ..TrackEvent::default()
    }
}

/// The bytes that an operation copies or fills.
fn moved(operation: &Operation) -> u128 {
    use PagingOperationKind::{Fill, Transfer, VirtualFill, VirtualTransfer};
    let moves = matches!(operation.kind, Transfer | Fill | VirtualTransfer | VirtualFill);
    if moves { operation.bytes.into() } else { 0 }
}

/// The fence by which a wait is over, if a slice has it.
fn fence_of(on: WaitedFor) -> Option<Fence> {
    match on {
        WaitedFor::Packet(fence) => Some(Fence::Packet(fence)),
        WaitedFor::Request(queue, value) => Some(Fence::Paging(queue, value)),
        // Packets of one engine follow one another anyway; the rest has no slice.
        WaitedFor::Engine(_) | WaitedFor::Turn | WaitedFor::MonitoredFence(..) | WaitedFor::Order => None,
    }
}

fn wait_in_words(wait: &Wait) -> String {
    let on = match wait.on {
        WaitedFor::Packet(fence) => format!("fence {} of engine {}", fence.fence_id, fence.engine),
        WaitedFor::Engine(fence) => format!("fence {} of its own engine", fence.fence_id),
        WaitedFor::Turn => "the turn of its device".to_owned(),
        WaitedFor::MonitoredFence(fence, value) => format!("value {value} of {fence}"),
        WaitedFor::Request(queue, value) => format!("request {value} of {queue}"),
        WaitedFor::Order => "work before it".to_owned(),
    };
    format!("{} ns for {on}", wait.to - wait.from)
}
