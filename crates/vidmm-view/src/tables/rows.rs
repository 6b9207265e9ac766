//! The tables of a log: their columns, and their rows from events and from the records of the timeline.
//!
//! Ids, numbers, times in nanoseconds and sizes in bytes are those of the log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vidmm::{AllocationId, MemorySegmentGroup, Nanoseconds, NumberedEvent};

use super::column::{Column, Kind, Value};
use crate::timeline::Record;
use crate::timeline::record::{
    Budget, Created, Eviction, GoneObject, Object, Occupancy, Operation, Packet, PacketContent, PacketEnd, PageIn,
    Wait, WaitedFor,
};

/// Declares tables: for each its name, and for each of its columns the name, the kind, and the value that a row has.
macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident, $name:literal, $row:ident, |$it:ident: $type:ty| {
        $($column:ident: $kind:ident = $value:expr,)*
    })*) => {
        /// A table.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Table {
            $($(#[$doc])* $table,)*
        }

        impl Table {
            /// All tables.
            pub const ALL: &[Self] = &[$(Self::$table),*];

            /// Its name, and that of its file.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$table => $name,)* }
            }

            /// Its columns.
            pub const fn columns(self) -> &'static [Column] {
                match self {
                    $(Self::$table => &[$(Column { name: stringify!($column), kind: Kind::$kind }),*],)*
                }
            }
        }

        $(fn $row<'a>($it: &'a $type) -> Vec<Value<'a>> { vec![$(Value::from($value)),*] })*
    };
}

tables! {
    /// Every event, as the log has it.
    Events, "events", event_row, |it: EventRow<'_>| {
        number: Integer = it.event.number,
        at: Integer = it.event.at,
        occurred_at: Integer = it.event.occurred_at,
        event: Name = it.kind,
        process: Integer = it.names.process,
        device: Integer = it.names.device,
        context: Integer = it.names.context,
        queue: Integer = it.names.queue,
        allocation: Integer = it.names.allocation,
        plan: Integer = it.names.plan,
        fields: Text = it.fields,
    }

    /// Paging operations that drivers were asked to encode.
    Operations, "operations", operation_row, |it: Operation| {
        number: Integer = it.number,
        at: Integer = it.at,
        operation: Name = it.kind.name(),
        allocation: Integer = it.allocation,
        bytes: Integer = it.bytes,
        plan: Integer = it.plan,
        is_encoded: Integer = it.is_encoded,
        engine: Integer = it.packet.map(|packet| packet.engine),
        fence: Integer = it.packet.map(|packet| packet.fence_id),
    }

    /// Packets that engines ran, or were to run.
    Packets, "packets", packet_row, |it: Packet| {
        engine: Integer = it.signal.engine,
        fence: Integer = it.signal.fence_id,
        content: Name = if work(it).is_some() { "work" } else { "paging" },
        device: Integer = work(it).map(|(device, ..)| device),
        context: Integer = work(it).and_then(|(_, context, ..)| context),
        submission: Integer = work(it).map(|(_, _, submission, _)| submission),
        submitted_at: Integer = work(it).map(|(.., submitted_at)| submitted_at),
        queued_at: Integer = it.queued_at,
        started_at: Integer = it.started_at,
        ended_at: Integer = it.ended_at,
        end: Name = match it.end {
            PacketEnd::Completed => "completed",
            PacketEnd::Aborted => "aborted",
            PacketEnd::Open => "open",
        },
        hidden_ns: Integer = it.hidden_ns,
    }

    /// Times for which work waited.
    Waits, "waits", wait_row, |it: Wait| {
        device: Integer = it.device,
        submission: Integer = it.submission,
        started_at: Integer = it.from,
        ended_at: Integer = it.to,
        waited_for: Name = match it.on {
            WaitedFor::Packet(_) => "packet",
            WaitedFor::Engine(_) => "engine",
            WaitedFor::Turn => "turn",
            WaitedFor::MonitoredFence(..) => "monitored fence",
            WaitedFor::Request(..) => "request",
            WaitedFor::Order => "order",
        },
        engine: Integer = match it.on { WaitedFor::Packet(on) | WaitedFor::Engine(on) => Some(on.engine), _ => None },
        fence: Integer = match it.on { WaitedFor::Packet(on) | WaitedFor::Engine(on) => Some(on.fence_id), _ => None },
        monitored_fence: Integer = match it.on { WaitedFor::MonitoredFence(fence, _) => Some(fence), _ => None },
        queue: Integer = match it.on { WaitedFor::Request(queue, _) => Some(queue), _ => None },
        value: Integer = match it.on {
            WaitedFor::MonitoredFence(_, value) | WaitedFor::Request(_, value) => Some(value),
            _ => None,
        },
    }

    /// Allocations from their creation until they are gone.
    Allocations, "allocations", allocation_row, |it: Life| {
        allocation: Integer = it.allocation,
        device: Integer = it.device,
        process: Integer = it.process,
        bytes: Integer = it.bytes,
        number: Integer = it.number,
        created_at: Integer = it.created_at,
        gone_at: Integer = it.gone_at,
    }

    /// Allocations that were brought into a place.
    PageIns, "page_ins", page_in_row, |it: PageIn| {
        number: Integer = it.number,
        at: Integer = it.at,
        ended_at: Integer = it.ended_at,
        allocation: Integer = it.allocation,
        segment: Integer = it.segment.0 as u32,
        bytes: Integer = it.bytes,
        content: Name = name_in_log(&it.content),
        plan: Integer = it.plan,
        lost_ns: Integer = it.lost_ns,
    }

    /// Allocations that left a place.
    Evictions, "evictions", eviction_row, |it: Eviction| {
        number: Integer = it.number,
        at: Integer = it.at,
        allocation: Integer = it.allocation,
        process: Integer = it.process,
        segment: Integer = it.segment.0 as u32,
        bytes: Integer = it.bytes,
        bytes_out: Integer = it.bytes_out,
        reason: Name = name_in_log(&it.reason),
        is_discarded: Integer = it.discarded,
        plan: Integer = it.plan,
        wanted_by_device: Integer = it.wanted_by.map(|by| by.device),
        wanted_by_allocation: Integer = it.wanted_by.and_then(|by| by.allocation),
        moved_to: Integer = it.moved_to.map(|segment| segment.0 as u32),
        returned_at: Integer = it.returned.map(|returned| returned.at),
        returned_bytes_in: Integer = it.returned.map(|returned| returned.bytes_in),
        lost_ns: Integer = it.lost_ns(),
    }

    /// Bytes of a segment that a process has in one way, from a time on.
    Occupancies, "occupancy", occupancy_row, |it: Occupancy| {
        at: Integer = it.at,
        segment: Integer = it.segment.0 as u32,
        process: Integer = it.process,
        holding: Name = it.holding.name(),
        bytes: Integer = it.bytes,
    }

    /// Budgets of processes, from a time on.
    Budgets, "budgets", budget_row, |it: Budget| {
        at: Integer = it.at,
        process: Integer = it.process,
        group: Name = match it.group {
            MemorySegmentGroup::Local => "local",
            MemorySegmentGroup::NonLocal => "non-local",
        },
        budget: Integer = it.budget,
        requested: Integer = it.requested,
    }
}

/// An event, and its line of the log in parts.
struct EventRow<'a> {
    event: &'a NumberedEvent,
    kind: &'a str,
    /// The fields of its own, as a JSON object.
    fields: &'a str,
    names: Names,
}

/// The names of objects that many events have.
#[derive(Deserialize)]
struct Names {
    process: Option<u64>,
    device: Option<u64>,
    context: Option<u64>,
    queue: Option<u64>,
    allocation: Option<u64>,
    plan: Option<u64>,
}

/// An allocation and its time.
#[derive(Debug)]
struct Life {
    allocation: AllocationId,
    device: vidmm::DeviceId,
    process: vidmm::ProcessId,
    bytes: u64,
    number: u64,
    created_at: Nanoseconds,
    gone_at: Option<Nanoseconds>,
}

/// Makes the rows of all tables from a log and its timeline. It keeps the allocations that are alive.
#[derive(Debug, Default)]
pub struct Rows {
    lives: BTreeMap<AllocationId, Life>,
}

impl Rows {
    /// Gives the row of an event to `row`, and returns its answer.
    pub fn event<R>(&mut self, event: &NumberedEvent, row: impl FnOnce(Table, Vec<Value<'_>>) -> R) -> R {
        let line = serde_json::to_string(event).expect("an event can be written");
        let (_, of_kind) =
            line.split_once("\"event\":\"").expect("an event has a kind, which is written before its fields");
        let (kind, fields) = of_kind.split_once('"').expect("a kind ends");
        let fields = format!("{{{}", fields.trim_start_matches(','));
        let names = serde_json::from_str(&fields).expect("fields are an object, and ids are numbers");
        row(Table::Events, event_row(&EventRow { event, kind, fields: &fields, names }))
    }

    /// The row of a record, if a table has it.
    pub fn record<'a>(&mut self, record: &'a Record) -> Option<(Table, Vec<Value<'a>>)> {
        Some(match record {
            Record::Operation(it) => (Table::Operations, operation_row(it)),
            Record::Packet(it) => (Table::Packets, packet_row(it)),
            Record::Wait(it) => (Table::Waits, wait_row(it)),
            Record::PageIn(it) => (Table::PageIns, page_in_row(it)),
            Record::Eviction(it) => (Table::Evictions, eviction_row(it)),
            Record::Occupancy(it) => (Table::Occupancies, occupancy_row(it)),
            Record::Budget(it) => (Table::Budgets, budget_row(it)),
            Record::Created(Created { at, number, object: Object::Allocation(allocation, device, process, bytes) }) => {
                let (allocation, device, process, bytes) = (*allocation, *device, *process, *bytes);
                let (number, created_at, gone_at) = (*number, *at, None);
                self.lives.insert(allocation, Life { allocation, device, process, bytes, number, created_at, gone_at });
                return None;
            }
            Record::Gone(gone) => match gone.object {
                GoneObject::Allocation(allocation) => {
                    let life = Life { gone_at: Some(gone.at), ..self.lives.remove(&allocation)? };
                    (Table::Allocations, owned(allocation_row(&life)))
                }
                _ => return None,
            },
            _ => return None,
        })
    }

    /// The rows of all that is alive at the end of the log.
    pub fn finish(self) -> impl Iterator<Item = (Table, Vec<Value<'static>>)> {
        self.lives.into_values().map(|life| (Table::Allocations, owned(allocation_row(&life))))
    }
}

fn owned(row: Vec<Value<'_>>) -> Vec<Value<'static>> {
    row.into_iter().map(Value::into_owned).collect()
}

/// The device, the context, the number and the time of the submission that a packet is.
fn work(packet: &Packet) -> Option<(vidmm::DeviceId, Option<vidmm::ContextId>, u64, Nanoseconds)> {
    match packet.content {
        PacketContent::Work { device, context, submission, submitted_at } => {
            Some((device, context, submission, submitted_at))
        }
        PacketContent::Paging { .. } => None,
    }
}

/// The name of a reason or a source as the log writes it: some are objects with a kind.
fn name_in_log(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("it can be written");
    let name = value.get("kind").unwrap_or(&value);
    name.as_str().expect("its name is text").to_owned()
}
