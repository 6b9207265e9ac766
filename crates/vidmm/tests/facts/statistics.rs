//! Statistics of segments and processes are what the event log adds up to.

use std::collections::BTreeMap;

use vidmm::contract::AddressingModel;
use vidmm::event::{ContentSource, Event, EvictReason};
use vidmm::*;

use crate::world::*;

/// The traffic that events tell of, for each process and segment, and the allocations that are there.
#[derive(Default)]
struct Told {
    sizes: BTreeMap<AllocationId, (ProcessId, u64)>,
    places: BTreeMap<AllocationId, SegmentId>,
    paged_in: BTreeMap<(ProcessId, SegmentId), u64>,
    paged_out: BTreeMap<(ProcessId, SegmentId), u64>,
    filled: BTreeMap<(ProcessId, SegmentId), u64>,
    evicted: BTreeMap<(ProcessId, SegmentId, String), u64>,
}

impl Told {
    fn of(world: &World, owners: &[(AllocationId, Client, u64)]) -> Self {
        let sizes = owners.iter().map(|&(id, client, pages)| (id, (client.process, pages * PAGE_SIZE))).collect();
        let mut told = Self { sizes, ..Self::default() };
        for event in &world.events {
            match *event {
                Event::Placed { allocation, segment, content, .. } => {
                    let (process, size) = told.sizes[&allocation];
                    let segment = memory(segment);
                    told.places.insert(allocation, segment);
                    match content {
                        ContentSource::Fill => *told.filled.entry((process, segment)).or_default() += size,
                        ContentSource::BackingStore => *told.paged_in.entry((process, segment)).or_default() += size,
                        ContentSource::InPlace => {}
                    }
                }
                Event::Evicted { allocation, segment, copied, reason, .. } => {
                    let (process, size) = told.sizes[&allocation];
                    let segment = memory(segment);
                    told.places.remove(&allocation);
                    *told.evicted.entry((process, segment, format!("{reason:?}"))).or_default() += size;
                    if copied {
                        *told.paged_out.entry((process, segment)).or_default() += size;
                    }
                }
                _ => {}
            }
        }
        told
    }

    fn check(&self, world: &World, clients: &[Client]) {
        for segment in [LOCAL, SegmentId::SYSTEM] {
            let mut sum = (0, 0);
            for &Client { process, .. } in clients {
                let found = world.vidmm.query_statistics(QueryStatistics::ProcessSegment(process, segment)).unwrap();
                let key = (process, segment);
                let traffic = found.traffic;
                let counted = [traffic.bytes_paged_in, traffic.bytes_paged_out, traffic.bytes_filled];
                let told = [&self.paged_in, &self.paged_out, &self.filled];
                assert_eq!(counted, told.map(|bytes| bytes.get(&key).copied().unwrap_or(0)), "{key:?}");
                for reason in EvictReason::ALL {
                    let told = self.evicted.get(&(process, segment, format!("{reason:?}"))).copied().unwrap_or(0);
                    assert_eq!(traffic.bytes_evicted(reason), told, "{key:?} {reason:?}");
                }
                let there = self.places.iter().filter(|&(id, &at)| at == segment && self.sizes[id].0 == process);
                let sizes = Vec::from_iter(there.map(|(id, _)| self.sizes[id].1));
                let resident = (sizes.iter().sum::<u64>(), sizes.len() as u64);
                assert_eq!((found.bytes_resident, found.allocations_resident), resident, "{key:?}");
                sum = (sum.0 + found.bytes_resident, sum.1 + traffic.bytes_paged_in + traffic.bytes_filled);
            }
            let all = world.vidmm.query_statistics(QueryStatistics::Segment(segment)).unwrap();
            assert_eq!((all.bytes_resident, all.traffic.bytes_paged_in + all.traffic.bytes_filled), sum, "{segment:?}");
        }
    }
}

/// System memory is counted as a whole.
fn memory(segment: SegmentId) -> SegmentId {
    if segment == LOCAL { LOCAL } else { SegmentId::SYSTEM }
}

#[test]
fn statistics_are_the_sum_of_the_events() {
    let mut world = World::new(Config::discrete(16, 256));
    let clients = [world.client(), world.client()];
    let mut owners = Vec::new();
    for (turn, client) in clients.into_iter().cycle().take(6).enumerate() {
        let places = [Place::Local, Place::LocalOrSystem, Place::System];
        for place in places {
            let pages = 3 + turn as u64 % 2;
            let allocation = world.create(client, place, pages, SILENT);
            owners.push((allocation, client, pages));
            let address = world.map(client, allocation);
            world.bring_in(client, &[allocation]);
            write(&mut world, client, address, 7 + turn as u64);
            world.evict(client, &[allocation], IF_NECESSARY).unwrap();
            world.run_all();
            Told::of(&world, &owners).check(&world, &clients);
        }
    }
    let demoted = clients.map(|client| {
        let of = QueryStatistics::ProcessSegment(client.process, LOCAL);
        world.vidmm.query_statistics(of).unwrap().traffic.bytes_demoted
    });
    let told = Told::of(&world, &owners);
    let (paged_out, evicted): (u64, u64) = (told.paged_out.values().sum(), told.evicted.values().sum());
    assert!(paged_out > 0 && evicted >= paged_out, "memory was short");
    assert!(demoted.iter().sum::<u64>() > 0 && world.vidmm.statistics().demotions > 0);

    let asked = [owners[0].0, owners[3].0];
    let committed = |world: &World| {
        let of = QueryStatistics::Process(clients[0].process);
        world.vidmm.query_statistics(of).unwrap().bytes_committed
    };
    assert_eq!(committed(&world), 0, "no list names anything");
    world.bring_in(clients[0], &[asked[0]]);
    assert_eq!(committed(&world), 3 * PAGE_SIZE);
    // The traffic of a process that has ended stays in the segment's sums.
    let before = world.vidmm.query_statistics(QueryStatistics::Segment(LOCAL)).unwrap().traffic;
    world.end_process(clients[1]);
    world.run_all();
    let after = world.vidmm.query_statistics(QueryStatistics::Segment(LOCAL)).unwrap().traffic;
    assert_eq!(after.bytes_paged_in, before.bytes_paged_in);
    assert!(after.bytes_evicted(EvictReason::Destroyed) >= before.bytes_evicted(EvictReason::Destroyed));
    let gone = world.vidmm.query_statistics(QueryStatistics::Process(clients[1].process));
    assert!(matches!(gone, Err(QueryStatisticsError::InvalidHandle(_))));
}

#[test]
fn apertures_have_no_statistics_of_their_own() {
    let world = World::new(Config::discrete(16, 256));
    for segment in [SegmentId(2), SegmentId(31)] {
        let refused = world.vidmm.query_statistics(QueryStatistics::Segment(segment));
        assert_eq!(refused, Err(QueryStatisticsError::NoMemorySegment { segment }));
    }
    let local = world.vidmm.query_statistics(QueryStatistics::Segment(LOCAL)).unwrap();
    let info = local.commit_limit;
    assert!(0 < info && info <= 16 * PAGE_SIZE, "page tables take the rest");
}

#[test]
fn system_memory_is_counted_where_there_is_no_other() {
    let mut world = World::new(Config::integrated(AddressingModel::GpuVaIoMmu, 256));
    let client = world.client();
    let allocation = world.create(client, Place::System, 3, SILENT);
    world.bring_in(client, &[allocation]);
    world.run_all();
    let system = world.vidmm.query_statistics(QueryStatistics::Segment(SegmentId::SYSTEM)).unwrap();
    assert_eq!((system.bytes_resident, system.allocations_resident), (3 * PAGE_SIZE, 1));
    assert_eq!(system.bytes_committed, 3 * PAGE_SIZE);
    assert_eq!(system.commit_limit, 256 * PAGE_SIZE);
}
