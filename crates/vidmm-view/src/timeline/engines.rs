//! The packets of each engine: when they began, what they waited for, and how much paging was hidden.

use std::collections::{BTreeMap, VecDeque};

use vidmm::Nanoseconds;
use vidmm::contract::EngineFence;

use super::record::{Packet, PacketContent, PacketEnd, Record, Wait, WaitedFor};

/// The ends of packets that are remembered before the oldest, which no packet under way waits for, are dropped.
const ENDS_KEPT: usize = 1 << 14;

/// All engines.
#[derive(Debug, Default)]
pub(super) struct Engines {
    engines: BTreeMap<u32, Engine>,
    ends: BTreeMap<EngineFence, Nanoseconds>,
    /// Paging packets that have ended, until no work can begin any more that would have run beside them.
    paging: VecDeque<Packet>,
    /// Intervals in which work ran, as far as they may have been beside those.
    work: Vec<(Nanoseconds, Nanoseconds)>,
    /// The latest time that an event has told.
    now: Nanoseconds,
    /// The time of the last poll: no packet is handed out before it any more.
    polled: Nanoseconds,
}

#[derive(Debug, Default)]
struct Engine {
    queue: VecDeque<Queued>,
    /// The last packet that has ended, and its end.
    last: Option<(EngineFence, Nanoseconds)>,
}

#[derive(Debug)]
struct Queued {
    signal: EngineFence,
    waits: Vec<EngineFence>,
    content: PacketContent,
    queued_at: Nanoseconds,
}

impl Engines {
    /// Takes note of the time of an event.
    pub fn polled(&mut self, at: Nanoseconds) {
        (self.polled, self.now) = (at, self.now.max(at));
    }

    /// A packet was handed to its engine.
    pub fn queue(&mut self, signal: EngineFence, waits: Vec<EngineFence>, content: PacketContent, at: Nanoseconds) {
        let engine = self.engines.entry(signal.engine).or_default();
        engine.queue.push_back(Queued { signal, waits, content, queued_at: at });
    }

    /// A packet that came back was handed to its engine again, behind those that are there.
    pub fn resubmit(&mut self, before: EngineFence, signal: EngineFence, waits: Vec<EngineFence>) {
        let Some(engine) = self.engines.get_mut(&before.engine) else { return };
        let Some(position) = engine.queue.iter().position(|queued| queued.signal == before) else { return };
        if let Some(queued) = engine.queue.remove(position) {
            engine.queue.push_back(Queued { signal, waits, ..queued });
        }
    }

    /// A packet has ended.
    pub fn end(&mut self, signal: EngineFence, ended_at: Nanoseconds, end: PacketEnd, out: &mut Vec<Record>) {
        self.now = self.now.max(ended_at);
        let Some(engine) = self.engines.get_mut(&signal.engine) else { return };
        let Some(position) = engine.queue.iter().position(|queued| queued.signal == signal) else { return };
        let Some(queued) = engine.queue.remove(position) else { return };
        let (before, last) = (engine.last, queued.last_wait(&self.ends));
        // A packet that is dropped behind others has not run.
        let has_run = end == PacketEnd::Completed || position == 0;
        let free_at = before.map_or(0, |(_, at)| at).max(queued.queued_at);
        let started_at = match has_run {
            true => free_at.max(last.map_or(0, |(_, at)| at)).min(ended_at),
            false => ended_at,
        };
        if has_run {
            engine.last = Some((signal, ended_at));
        }
        self.ends.insert(signal, ended_at);
        if let PacketContent::Work { device, submission, .. } = queued.content {
            let wait = |from, to, on| Record::Wait(Wait { device, submission, from, to, on });
            if let Some((before, at)) = before.filter(|&(_, at)| at > queued.queued_at) {
                out.push(wait(queued.queued_at, at.min(started_at), WaitedFor::Engine(before)));
            }
            if let Some((on, _)) = last.filter(|_| started_at > free_at) {
                out.push(wait(free_at, started_at, WaitedFor::Packet(on)));
            }
        }
        let Queued { content, queued_at, .. } = queued;
        let packet = Packet { signal, content, queued_at, started_at, ended_at, end, hidden_ns: 0 };
        match packet.content {
            PacketContent::Paging { .. } => self.paging.push_back(packet),
            PacketContent::Work { .. } => {
                self.work.push((started_at, ended_at));
                out.push(Record::Packet(packet));
            }
        }
        self.settle(false, out);
        self.forget_ends();
    }

    /// The log ends: packets under way stay open.
    pub fn finish(&mut self, out: &mut Vec<Record>) {
        let open: Vec<EngineFence> =
            self.engines.values().flat_map(|engine| engine.queue.iter().map(|queued| queued.signal)).collect();
        for signal in open {
            self.end(signal, self.now, PacketEnd::Open, out);
        }
        self.settle(true, out);
    }

    /// The time before which no packet that is still to end can have waited.
    pub fn horizon(&self) -> Nanoseconds {
        let first = self.engines.values().filter_map(|engine| {
            let first = engine.queue.iter().map(|queued| queued.queued_at).min()?;
            Some(first.max(engine.last.map_or(0, |(_, at)| at)))
        });
        first.min().unwrap_or(self.now)
    }

    /// Yields paging packets beside which no more work can have run.
    fn settle(&mut self, all: bool, out: &mut Vec<Record>) {
        let known_until = if all { Nanoseconds::MAX } else { self.known_until() };
        while let Some(packet) = self.paging.front().filter(|packet| packet.ended_at <= known_until) {
            let (start, end) = (packet.started_at, packet.ended_at);
            let mut hidden = 0;
            let mut covered = start;
            self.work.sort_unstable();
            for &(from, to) in &self.work {
                let (from, to) = (from.max(covered), to.min(end));
                hidden = to.saturating_sub(from).saturating_add(hidden);
                covered = covered.max(to);
            }
            if let Some(packet) = self.paging.pop_front() {
                out.push(Record::Packet(Packet { hidden_ns: hidden, ..packet }));
            }
        }
        let needed = self.needed_from();
        if self.work.len() > 64 {
            self.work.retain(|&(_, to)| to > needed);
        }
    }

    /// The time before which no paging packet can have begun that is still to be settled.
    fn needed_from(&self) -> Nanoseconds {
        let settling = self.paging.front().map(|packet| packet.started_at);
        let queued = self.engines.values().flat_map(|engine| {
            let paging = engine.queue.iter().filter(|queued| matches!(queued.content, PacketContent::Paging { .. }));
            paging.map(|queued| queued.queued_at.max(engine.last.map_or(0, |(_, at)| at)))
        });
        settling.into_iter().chain(queued).min().unwrap_or(self.polled)
    }

    /// The time until which all intervals of work are known.
    fn known_until(&self) -> Nanoseconds {
        let runs_since = self.engines.values().filter_map(|engine| {
            let first = engine.queue.front()?;
            let is_work = matches!(first.content, PacketContent::Work { .. });
            let is_ready = first.waits.iter().all(|wait| self.has_ended(*wait));
            let free_at = engine.last.map_or(0, |(_, at)| at).max(first.queued_at);
            let last_wait = first.last_wait(&self.ends).map_or(0, |(_, at)| at);
            (is_work && is_ready).then_some(free_at.max(last_wait))
        });
        runs_since.min().unwrap_or(Nanoseconds::MAX).min(self.now)
    }

    fn has_ended(&self, fence: EngineFence) -> bool {
        let is_queued = |engine: &Engine| engine.queue.iter().any(|queued| queued.signal == fence);
        !self.engines.get(&fence.engine).is_some_and(is_queued)
    }

    fn forget_ends(&mut self) {
        if self.ends.len() > ENDS_KEPT {
            let queued = self.engines.values().flat_map(|engine| &engine.queue).map(|queued| queued.queued_at);
            let oldest = queued.min().unwrap_or(self.now);
            self.ends.retain(|_, ended_at| *ended_at > oldest);
        }
    }
}

impl Queued {
    /// The fence of its waits that was signalled last, and when.
    fn last_wait(&self, ends: &BTreeMap<EngineFence, Nanoseconds>) -> Option<(EngineFence, Nanoseconds)> {
        let ended = self.waits.iter().filter_map(|wait| Some((*wait, *ends.get(wait)?)));
        ended.max_by_key(|&(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use vidmm::DeviceId;

    use super::*;

    const PAGING: u32 = 0;
    const WORK: u32 = 1;

    fn fence(engine: u32, fence_id: u64) -> EngineFence {
        EngineFence { engine, fence_id }
    }

    fn work(submission: u64) -> PacketContent {
        PacketContent::Work { device: DeviceId::from_bits(0), context: None, submission, submitted_at: 0 }
    }

    fn paging() -> PacketContent {
        PacketContent::Paging { bytes: 0, operations: 0, plans: Vec::new() }
    }

    /// The packets among the records: signal, start, end, hidden.
    fn packets(out: &[Record]) -> Vec<(EngineFence, u64, u64, u64)> {
        let packets = out.iter().filter_map(|record| match record {
            Record::Packet(of) => Some((of.signal, of.started_at, of.ended_at, of.hidden_ns)),
            _ => None,
        });
        packets.collect()
    }

    /// The waits among the records: from, to, and the thing.
    fn waits(out: &[Record]) -> Vec<(u64, u64, WaitedFor)> {
        let waits = out.iter().filter_map(|record| match record {
            Record::Wait(of) => Some((of.from, of.to, of.on)),
            _ => None,
        });
        waits.collect()
    }

    #[test]
    fn a_packet_begins_behind_the_one_before_it_and_the_last_of_its_waits() {
        let (mut engines, mut out) = (Engines::default(), Vec::new());
        engines.queue(fence(PAGING, 1), Vec::new(), paging(), 10);
        engines.queue(fence(WORK, 1), Vec::new(), work(1), 10);
        engines.queue(fence(WORK, 2), vec![fence(PAGING, 1)], work(2), 10);
        engines.end(fence(WORK, 1), 30, PacketEnd::Completed, &mut out);
        engines.end(fence(PAGING, 1), 50, PacketEnd::Completed, &mut out);
        engines.end(fence(WORK, 2), 70, PacketEnd::Completed, &mut out);
        engines.finish(&mut out);
        let expected = [(fence(WORK, 1), 10, 30, 0), (fence(PAGING, 1), 10, 50, 20), (fence(WORK, 2), 50, 70, 0)];
        let mut found = packets(&out);
        found.sort_by_key(|&(.., end, _)| end);
        assert_eq!(found, expected, "20 of the 40 nanoseconds of paging were beside work");
        assert_eq!(
            waits(&out),
            [(10, 30, WaitedFor::Engine(fence(WORK, 1))), (30, 50, WaitedFor::Packet(fence(PAGING, 1)))]
        );
    }

    #[test]
    fn paging_is_settled_only_when_work_beside_it_has_ended() {
        let (mut engines, mut out) = (Engines::default(), Vec::new());
        engines.queue(fence(WORK, 1), Vec::new(), work(1), 0);
        engines.queue(fence(PAGING, 1), Vec::new(), paging(), 0);
        engines.end(fence(PAGING, 1), 40, PacketEnd::Completed, &mut out);
        assert_eq!(packets(&out), [], "the work that runs beside it has not ended");
        engines.end(fence(WORK, 1), 100, PacketEnd::Completed, &mut out);
        assert_eq!(packets(&out), [(fence(WORK, 1), 0, 100, 0), (fence(PAGING, 1), 0, 40, 40)]);
    }

    #[test]
    fn a_packet_that_is_dropped_behind_another_has_not_run() {
        let (mut engines, mut out) = (Engines::default(), Vec::new());
        engines.queue(fence(WORK, 1), Vec::new(), work(1), 0);
        engines.queue(fence(WORK, 2), Vec::new(), work(2), 0);
        engines.end(fence(WORK, 2), 20, PacketEnd::Aborted, &mut out);
        engines.end(fence(WORK, 1), 30, PacketEnd::Aborted, &mut out);
        assert_eq!(packets(&out), [(fence(WORK, 2), 20, 20, 0), (fence(WORK, 1), 0, 30, 0)]);
    }

    #[test]
    fn intervals_of_work_are_forgotten_when_no_paging_can_have_been_beside_them() {
        let (mut engines, mut out) = (Engines::default(), Vec::new());
        for number in 1..10_000 {
            engines.polled(number * 10);
            engines.queue(fence(WORK, number), Vec::new(), work(number), number * 10);
            engines.end(fence(WORK, number), number * 10 + 5, PacketEnd::Completed, &mut out);
        }
        assert!(engines.work.len() < 100, "{} intervals are kept", engines.work.len());
        assert!(engines.ends.len() <= ENDS_KEPT + 1, "{} ends are kept", engines.ends.len());
    }
}
