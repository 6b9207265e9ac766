//! Packets, one at a time, to a file; and the tracks that they are on.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use prost::Message;
use vidmm::{ContextId, MemorySegmentGroup, Nanoseconds, PagingQueueId, ProcessId, SegmentId};

use super::proto::{CounterDescriptor, Kind, ProcessDescriptor, Trace, TracePacket, TrackDescriptor, TrackEvent, Unit};
use crate::timeline::record::Holding;

/// A track by its subject.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// The head of the engines.
    Engines,
    Engine(u32),
    /// The head of the counters of segments, and of the bytes that plans moved.
    Memory,
    Segment(SegmentId),
    BytesIn,
    BytesOut,
    BytesFilled,
    Process(ProcessId),
    Held(ProcessId, SegmentId, Holding),
    Listed(ProcessId),
    Budget(ProcessId, MemorySegmentGroup),
    Context(ProcessId, ContextId),
    Requests(ProcessId, PagingQueueId),
}

/// A track that has been described. Each is a sequence of its own, in which times rise.
#[derive(Clone, Copy, Debug)]
struct Track {
    number: u32,
    /// The time of its last event.
    last: Nanoseconds,
}

/// A trace that is being written.
#[derive(Debug)]
pub struct Output<W> {
    out: W,
    packet: Vec<u8>,
    /// The tracks of each subject. Slices that overlap, or that come late, are on several tracks of one name, which
    /// viewers join.
    tracks: BTreeMap<Subject, Vec<Track>>,
    described: u32,
    processes: i32,
}

impl<W: Write> Output<W> {
    pub fn new(out: W) -> Self {
        Self { out, packet: Vec::new(), tracks: BTreeMap::new(), described: 0, processes: 0 }
    }

    pub fn into_inner(self) -> W {
        self.out
    }

    /// Writes a counter's value. A value that comes late stands at the time of the last one, since times rise.
    pub fn count(&mut self, subject: Subject, name: &str, at: Nanoseconds, bytes: u64) -> io::Result<()> {
        let track = self.track(subject, name, |_| true)?;
        let event =
            TrackEvent { counter_value: Some(i64::try_from(bytes).unwrap_or(i64::MAX)), ..of_kind(Kind::Counter) };
        self.event(subject, track, at, event)
    }

    /// The first track of a subject on which a slice can begin at a time.
    pub fn track_free_at(&mut self, subject: Subject, name: &str, at: Nanoseconds) -> io::Result<usize> {
        self.track(subject, name, |track| track.last <= at)
    }

    /// Begins a slice on a track of a subject.
    pub fn begin(&mut self, subject: Subject, track: usize, at: Nanoseconds, event: TrackEvent) -> io::Result<()> {
        self.event(subject, track, at, TrackEvent { r#type: Some(Kind::SliceBegin.into()), ..event })
    }

    /// Ends the innermost slice of a track.
    pub fn end(&mut self, subject: Subject, track: usize, at: Nanoseconds) -> io::Result<()> {
        self.event(subject, track, at, of_kind(Kind::SliceEnd))
    }

    fn event(&mut self, subject: Subject, track: usize, at: Nanoseconds, event: TrackEvent) -> io::Result<()> {
        let track = &mut self.tracks.get_mut(&subject).expect("it has been described")[track];
        track.last = track.last.max(at);
        let (number, at) = (track.number, track.last);
        let event = TrackEvent { track_uuid: Some(number.into()), ..event };
        self.write(TracePacket {
            timestamp: Some(at),
            trusted_packet_sequence_id: Some(number),
            track_event: Some(event),
            track_descriptor: None,
        })
    }

    /// The first track of a subject that will do; a new one with this name if there is none.
    fn track(&mut self, subject: Subject, name: &str, will_do: impl Fn(&Track) -> bool) -> io::Result<usize> {
        let tracks = self.tracks.entry(subject).or_default();
        match tracks.iter().position(will_do) {
            Some(track) => Ok(track),
            None => {
                let track = tracks.len();
                self.describe(subject, name)?;
                Ok(track)
            }
        }
    }

    /// The number of the one track of a head.
    fn head(&mut self, subject: Subject) -> io::Result<u32> {
        let name = match subject {
            Subject::Engines => "engines".to_owned(),
            Subject::Memory => "memory".to_owned(),
            Subject::Process(process) => process.to_string(),
            _ => unreachable!("others stand below a head"),
        };
        let track = self.track(subject, &name, |_| true)?;
        Ok(self.tracks[&subject][track].number)
    }

    fn describe(&mut self, subject: Subject, name: &str) -> io::Result<()> {
        let parent = match subject {
            Subject::Engines | Subject::Memory | Subject::Process(_) => None,
            Subject::Engine(_) => Some(Subject::Engines),
            Subject::Segment(_) | Subject::BytesIn | Subject::BytesOut | Subject::BytesFilled => Some(Subject::Memory),
            Subject::Held(process, ..)
            | Subject::Listed(process)
            | Subject::Budget(process, _)
            | Subject::Context(process, _)
            | Subject::Requests(process, _) => Some(Subject::Process(process)),
        };
        let parent = parent.map(|parent| self.head(parent)).transpose()?;
        let is_counter = !matches!(
            subject,
            Subject::Engines
                | Subject::Memory
                | Subject::Process(_)
                | Subject::Engine(_)
                | Subject::Context(..)
                | Subject::Requests(..)
        );
        self.described += 1;
        let mut descriptor = TrackDescriptor {
            uuid: Some(self.described.into()),
            name: Some(name.to_owned()),
            parent_uuid: parent.map(u64::from),
            counter: is_counter.then_some(CounterDescriptor { unit: Some(Unit::SizeBytes.into()) }),
            process: None,
        };
        if matches!(subject, Subject::Process(_)) {
            self.processes += 1;
            let (pid, process_name) = (Some(self.processes), descriptor.name.take());
            descriptor.process = Some(ProcessDescriptor { pid, process_name });
        }
        self.tracks.entry(subject).or_default().push(Track { number: self.described, last: 0 });
        self.write(TracePacket {
            timestamp: None,
            trusted_packet_sequence_id: Some(self.described),
            track_event: None,
            track_descriptor: Some(descriptor),
        })
    }

    fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        self.packet.clear();
        Trace { packet: vec![packet] }.encode(&mut self.packet)?;
        self.out.write_all(&self.packet)
    }
}

fn of_kind(kind: Kind) -> TrackEvent {
    TrackEvent { r#type: Some(kind.into()), ..TrackEvent::default() }
}
