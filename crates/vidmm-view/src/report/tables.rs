//! The tables of a page, from the records of a timeline.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use vidmm::contract::{EngineKind, PagingOperationKind};
use vidmm::event::ContentSource;
use vidmm::{AllocationId, MemorySegmentGroup, Nanoseconds, ProcessId, SegmentId};
use vidmm_trace::explain::words;

use super::columns::{Table, optional};
use super::findings::Findings;
use super::names::Names;
use super::reuse::Reuse;
use crate::timeline::Record;
use crate::timeline::record::{
    Created, Eviction, Gone, GoneObject, Holder, Holding, Object, Packet, PacketContent, PacketEnd, PageIn, Plan,
    Request, Wait, WaitedFor,
};

/// The tables so far.
#[derive(Debug)]
pub(super) struct Tables {
    allocations: Table<7>,
    gone: Table<2>,
    occupancy: Table<3>,
    ranges: Table<6>,
    packets: Table<15>,
    operations: Table<6>,
    waits: Table<7>,
    evictions: Table<20>,
    page_ins: Table<9>,
    plans: Table<12>,
    plan_waits: Table<3>,
    requests: Table<8>,
    request_plans: Table<2>,
    suspensions: Table<5>,
    budgets: Table<5>,
    listed: Table<3>,
    bus_accesses: Table<6>,
    rows: BTreeMap<AllocationId, u64>,
    accounts: Accounts,
    /// The policy that chooses among allocations of equal priority, if the log says so.
    policy: Option<String>,
    reasons: Names,
    suspend_reasons: Names,
    operation_kinds: Names,
    segments: Vec<Value>,
    engines: Vec<&'static str>,
    processes: Vec<Value>,
    devices: Vec<Value>,
    contexts: Vec<Value>,
    findings: Findings,
    pub reuse: Reuse,
    /// The last time that a record has.
    end: Nanoseconds,
}

/// The sums of occupancy that a page has: segment, process and the reason, by number.
type Accounts = BTreeMap<(SegmentId, Option<ProcessId>, Holding), u64>;

impl Tables {
    pub fn new(policy: Option<String>) -> Self {
        Self {
            policy,
            allocations: Table::new(["index", "generation", "device", "process", "size", "created", "number"]),
            gone: Table::new(["allocation", "at"]),
            occupancy: Table::new(["at", "account", "bytes"]),
            ranges: Table::new(["at", "segment", "offset", "size", "holder", "of"]),
            packets: Table::new([
                "engine",
                "fence",
                "queued",
                "start",
                "end",
                "how",
                "paging",
                "device",
                "context",
                "submission",
                "submitted",
                "hidden",
                "bytes",
                "operations",
                "plan",
            ]),
            operations: Table::new(["fence", "plan", "kind", "allocation", "bytes", "encoded"]),
            waits: Table::new(["device", "submission", "from", "to", "on", "a", "b"]),
            evictions: Table::new([
                "number",
                "at",
                "plan",
                "allocation",
                "process",
                "segment",
                "bytes",
                "bytesOut",
                "reason",
                "discarded",
                "forDevice",
                "forAllocation",
                "forQueue",
                "forValue",
                "movedTo",
                "returnedAt",
                "returnedPlan",
                "bytesIn",
                "lostOut",
                "lostIn",
            ]),
            page_ins: Table::new(["number", "at", "end", "plan", "allocation", "segment", "bytes", "content", "lost"]),
            plans: Table::new([
                "plan", "decided", "entered", "end", "engine", "fence", "bytesIn", "bytesOut", "filled", "lost",
                "waits", "after",
            ]),
            plan_waits: Table::new(["plan", "device", "submission"]),
            requests: Table::new(["device", "queue", "value", "asked", "granted", "end", "count", "allocation"]),
            request_plans: Table::new(["request", "plan"]),
            suspensions: Table::new(["device", "from", "to", "reason", "for"]),
            budgets: Table::new(["at", "process", "group", "budget", "requested"]),
            listed: Table::new(["at", "process", "bytes"]),
            bus_accesses: Table::new(["at", "device", "kernel", "allocation", "bytes", "lost"]),
            rows: BTreeMap::new(),
            accounts: BTreeMap::new(),
            reasons: Names::default(),
            suspend_reasons: Names::default(),
            operation_kinds: Names::default(),
            segments: Vec::new(),
            engines: Vec::new(),
            processes: Vec::new(),
            devices: Vec::new(),
            contexts: Vec::new(),
            findings: Findings::default(),
            reuse: Reuse::default(),
            end: 0,
        }
    }

    /// The row of an allocation.
    pub fn row(&self, allocation: AllocationId) -> Option<u64> {
        self.rows.get(&allocation).copied()
    }

    pub fn add(&mut self, record: &Record) {
        match record {
            Record::Adapter(adapter) => {
                self.segments = adapter.segments.iter().map(segment).collect();
                self.engines = adapter.engines.iter().copied().map(engine).collect();
            }
            Record::Created(created) => self.created(created),
            Record::Gone(gone) => self.gone(gone),
            Record::Occupancy(of) => {
                let next = self.accounts.len() as u64;
                let account = *self.accounts.entry((of.segment, of.process, of.holding)).or_insert(next);
                self.occupancy.push([of.at, account, of.bytes]);
                self.end = self.end.max(of.at);
            }
            Record::Range(of) => {
                let (holder, holds) = match of.holder {
                    Holder::Free => (0, 0),
                    Holder::Allocation(id) => (1, optional(self.row(id))),
                    Holder::Leaving(id, _) => (2, optional(self.row(id))),
                    Holder::PageTable(process) => (3, optional(process.map(|process| process.to_bits()))),
                };
                self.ranges.push([of.at, of.segment.0.into(), of.extent.offset, of.extent.size, holder, holds]);
            }
            Record::Packet(packet) => self.packet(packet),
            Record::Operation(of) => drop(self.operations.push([
                optional(of.packet.map(|fence| fence.fence_id)),
                of.plan,
                self.operation_kinds.number(PagingOperationKind::name(of.kind)),
                optional(of.allocation.and_then(|id| self.row(id))),
                of.bytes,
                of.is_encoded.into(),
            ])),
            Record::Wait(wait) => self.wait(wait),
            Record::Eviction(eviction) => self.eviction(eviction),
            Record::PageIn(page_in) => self.page_in(page_in),
            // The plan of the copy draws the bytes.
            Record::Cleaning(_) => {}
            Record::Plan(plan) => self.plan(plan),
            Record::Request(request) => self.request(request),
            Record::Suspension(of) => {
                let reason = self.suspend_reasons.number(words::suspend_reason(of.reason));
                let wanted_by = optional(of.wanted_by.map(|device| device.to_bits()));
                self.suspensions.push([of.device.to_bits(), of.from, optional(of.to), reason, wanted_by]);
            }
            Record::Budget(of) => {
                let group = u64::from(of.group == MemorySegmentGroup::NonLocal);
                self.budgets.push([of.at, of.process.to_bits(), group, of.budget, of.requested]);
            }
            Record::Listed(of) => drop(self.listed.push([of.at, of.process.to_bits(), of.bytes])),
            Record::BusAccess(of) => drop(self.bus_accesses.push([
                of.at,
                of.device.to_bits(),
                of.kernel,
                optional(self.row(of.allocation)),
                of.bytes,
                of.lost_ns,
            ])),
            Record::Finding(finding) => {
                let row = finding.allocation.and_then(|id| self.row(id));
                self.findings.add(finding, row);
            }
        }
    }

    fn created(&mut self, Created { at, number, object }: &Created) {
        match *object {
            Object::Process(process) => self.processes.push(json!([process.to_bits(), at])),
            Object::Device(device, process) => self.devices.push(json!([device.to_bits(), process.to_bits(), at])),
            Object::Context(context, device, engine) => {
                self.contexts.push(json!([context.to_bits(), device.to_bits(), engine]));
            }
            Object::PagingQueue(..) => {}
            Object::Allocation(allocation, device, process, size) => {
                let bits = allocation.to_bits();
                let name = [bits & u64::from(u32::MAX), bits >> 32];
                let row = [name[0], name[1], device.to_bits(), process.to_bits(), size, *at, *number];
                self.rows.insert(allocation, self.allocations.rows());
                self.allocations.push(row);
            }
        }
    }

    fn gone(&mut self, Gone { at, object }: &Gone) {
        if let GoneObject::Allocation(allocation) = object
            && let Some(row) = self.row(*allocation)
        {
            self.gone.push([row, *at]);
        }
    }

    fn packet(&mut self, packet: &Packet) {
        let how = match packet.end {
            PacketEnd::Completed => 0,
            PacketEnd::Aborted => 1,
            PacketEnd::Open => 2,
        };
        let common = [
            packet.signal.engine.into(),
            packet.signal.fence_id,
            packet.queued_at,
            packet.started_at,
            packet.ended_at,
            how,
        ];
        let rest = match packet.content {
            PacketContent::Work { device, context, submission, submitted_at } => {
                let context = optional(context.map(|context| context.to_bits()));
                [0, device.to_bits(), context, submission, submitted_at, packet.hidden_ns, 0, 0, 0]
            }
            PacketContent::Paging { bytes, operations, ref plans } => {
                let first = optional(plans.first().copied());
                [1, 0, 0, 0, packet.queued_at, packet.hidden_ns, bytes.into(), operations.into(), first]
            }
        };
        let mut row = [0; 15];
        row[..6].copy_from_slice(&common);
        row[6..].copy_from_slice(&rest);
        self.packets.push(row);
        self.end = self.end.max(packet.ended_at);
    }

    fn wait(&mut self, wait: &Wait) {
        let (on, a, b) = match wait.on {
            WaitedFor::Packet(fence) => (0, fence.engine.into(), fence.fence_id),
            WaitedFor::Engine(fence) => (1, fence.engine.into(), fence.fence_id),
            WaitedFor::Turn => (2, 0, 0),
            WaitedFor::MonitoredFence(fence, value) => (3, fence.to_bits(), value),
            WaitedFor::Request(queue, value) => (4, queue.to_bits(), value),
            WaitedFor::Order => (5, 0, 0),
        };
        self.waits.push([wait.device.to_bits(), wait.submission, wait.from, wait.to, on, a, b]);
    }

    fn eviction(&mut self, of: &Eviction) {
        let wanted = of.wanted_by;
        let request = wanted.and_then(|wanted| wanted.request);
        let reason = self.reasons.number(words::evict_reason(of.reason, self.policy.as_deref()));
        self.evictions.push([
            of.number,
            of.at,
            of.plan,
            optional(self.row(of.allocation)),
            optional(of.process.map(|process| process.to_bits())),
            of.segment.0.into(),
            of.bytes,
            of.bytes_out,
            reason,
            of.discarded.into(),
            optional(wanted.map(|wanted| wanted.device.to_bits())),
            optional(wanted.and_then(|wanted| wanted.allocation).and_then(|id| self.row(id))),
            optional(request.map(|request| request.queue.to_bits())),
            request.map_or(0, |request| request.paging_fence_value),
            optional(of.moved_to.map(|segment| segment.0.into())),
            optional(of.returned.map(|returned| returned.at)),
            of.returned.map_or(0, |returned| returned.plan),
            of.returned.map_or(0, |returned| returned.bytes_in),
            of.lost_out_ns,
            of.returned.map_or(0, |returned| returned.lost_ns),
        ]);
    }

    fn page_in(&mut self, of: &PageIn) {
        let content = match of.content {
            ContentSource::Fill => 0,
            ContentSource::BackingStore => 1,
            ContentSource::InPlace => 2,
        };
        self.page_ins.push([
            of.number,
            of.at,
            optional(of.ended_at),
            of.plan,
            optional(self.row(of.allocation)),
            of.segment.0.into(),
            of.bytes,
            content,
            of.lost_ns,
        ]);
    }

    fn plan(&mut self, plan: &Plan) {
        for &(device, submission) in &plan.waits {
            self.plan_waits.push([plan.plan, device.to_bits(), submission]);
        }
        self.plans.push([
            plan.plan,
            plan.decided_at,
            optional(plan.entered_at),
            optional(plan.ended_at),
            optional(plan.signal.map(|signal| signal.engine.into())),
            plan.signal.map_or(0, |signal| signal.fence_id),
            plan.bytes_in,
            plan.bytes_out,
            plan.bytes_filled,
            plan.lost_ns,
            plan.waits.len() as u64,
            plan.after.len() as u64,
        ]);
    }

    fn request(&mut self, request: &Request) {
        let row = self.requests.push([
            optional(request.device.map(|device| device.to_bits())),
            request.queue.to_bits(),
            request.paging_fence_value,
            request.asked_at,
            optional(request.granted_at),
            optional(request.ended_at),
            request.allocations.len() as u64,
            optional(request.allocations.first().and_then(|&id| self.row(id))),
        ]);
        for &plan in &request.plans {
            self.request_plans.push([row, plan]);
        }
    }

    /// Appends all columns to `blob`. Returns what the page needs to read them, and all that is no table of numbers.
    pub fn pack(self, blob: &mut Vec<u8>) -> Map<String, Value> {
        let mut accounts: Vec<_> = self.accounts.into_iter().collect();
        accounts.sort_by_key(|&(_, number)| number);
        let accounts: Vec<Value> = accounts
            .into_iter()
            .map(|((segment, process, holding), _)| {
                json!([segment.0, process.map(|process| process.to_bits()), holding as u8])
            })
            .collect();
        let tables = json!({
            "allocations": self.allocations.pack(blob),
            "gone": self.gone.pack(blob),
            "occupancy": self.occupancy.pack(blob),
            "ranges": self.ranges.pack(blob),
            "packets": self.packets.pack(blob),
            "operations": self.operations.pack(blob),
            "waits": self.waits.pack(blob),
            "evictions": self.evictions.pack(blob),
            "pageIns": self.page_ins.pack(blob),
            "plans": self.plans.pack(blob),
            "planWaits": self.plan_waits.pack(blob),
            "requests": self.requests.pack(blob),
            "requestPlans": self.request_plans.pack(blob),
            "suspensions": self.suspensions.pack(blob),
            "busAccesses": self.bus_accesses.pack(blob),
            "budgets": self.budgets.pack(blob),
            "listed": self.listed.pack(blob),
        });
        let entries = [
            ("tables", tables),
            ("accounts", accounts.into()),
            ("holdings", Holding::ALL.map(Holding::name).to_vec().into()),
            ("reasons", self.reasons.into_value()),
            ("suspendReasons", self.suspend_reasons.into_value()),
            ("operationKinds", self.operation_kinds.into_value()),
            ("segments", self.segments.into()),
            ("engines", self.engines.into()),
            ("processes", self.processes.into()),
            ("devices", self.devices.into()),
            ("contexts", self.contexts.into()),
            ("findings", self.findings.into_value()),
            ("reuse", self.reuse.into_value()),
            ("end", self.end.into()),
        ];
        entries.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
    }
}

fn segment(segment: &crate::timeline::record::Segment) -> Value {
    json!({
        "segment": segment.segment.0,
        "name": segment.name,
        "size": segment.size,
        "isMemory": segment.is_memory,
        "group": segment.group.map(|group| u8::from(group == MemorySegmentGroup::NonLocal)),
    })
}

/// The name of an engine's kind.
const fn engine(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Paging => "paging",
        EngineKind::Render3d => "3D",
        EngineKind::Copy => "copy",
    }
}
