//! Random allocations on random adapters, whose drivers run out of buffers and answer busy: what is sent when they come and
//! go is judged by the auditor, and their bytes by a ledger (NTF-01..09, U-15, I02, I09, I10, I29).

use crate::world::*;
use proptest::prelude::*;
use vidmm::contract::*;
use vidmm::*;

/// How an allocation leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Evicted,
    EvictedNotWritten,
    Destroyed,
}

#[derive(Clone, Debug)]
struct Plan {
    place: Place,
    flags2: AllocationFlags2,
    /// Of what there is room for, in 65536ths.
    size: u64,
    /// Part of the allocation that each mapping shows, in 256ths: first and length.
    mappings: Vec<(u64, u64, bool)>,
    /// Pages that are written, in 65536ths of the allocation.
    writes: Vec<u64>,
    ways: Vec<Way>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let places = vec![Place::Local, Place::System, Place::Aperture, Place::LocalOrSystem];
    let ways = vec![Way::Evicted, Way::EvictedNotWritten, Way::Destroyed];
    (
        prop::sample::select(places),
        0..4u32,
        1..65536u64,
        prop::collection::vec((0..256u64, 1..=256u64, any::<bool>()), 0..4),
        prop::collection::vec(0..65536u64, 1..12),
        prop::collection::vec(prop::sample::select(ways), 1..4),
    )
        .prop_map(|(place, flags, size, mappings, writes, ways)| Plan {
            place,
            flags2: AllocationFlags2::from_bits_truncate(flags << 4),
            size,
            mappings,
            writes,
            ways,
        })
}

fn adapter() -> impl Strategy<Value = Config> {
    let revisions = vec![NotificationRevision::Current, NotificationRevision::August2024];
    let mmu = (1..5u32, any::<bool>(), any::<bool>()).prop_map(|(root_bits, local, invalid_not_cached)| {
        // Windows of 32 to 256 pages: an eighth of the addresses (U-16).
        let pages = 16 << root_bits;
        let config = Config::integrated(AddressingModel::GpuMmu, 4 * pages);
        let segment_bytes = if local { 4 * pages * PAGE_SIZE } else { 0 };
        Config { segment_bytes, level_bits: vec![4, 3, root_bits], invalid_not_cached, ..config }
    });
    let behind = prop::sample::select(vec![AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal]);
    // Windows of 7 * 64 pages in the narrowest global space, and of 4 or 5 MiB elsewhere.
    let behind = (behind, any::<bool>(), 4..6u32).prop_map(|(model, narrow, mib)| {
        let io_mmu_bits = if narrow { 32 } else { 40 };
        Config { io_mmu_bits, paging_va_mib: Some(mib), ..Config::integrated(model, 4096) }
    });
    let buffers = (1..4u32, prop_oneof![Just(8usize), Just(64), Just(1000), Just(4096), Just(6000)]);
    let adapter = prop_oneof![2 => mmu, 1 => behind];
    (adapter, prop::sample::select(revisions), buffers).prop_map(|(config, revision, (buffers, operation_bytes))| {
        Config { revision, buffer_bytes: buffers * 4096, operation_bytes, ..config }
    })
}

/// A driver that answers busy to every so many operations, and full after so many in one buffer.
fn answer(busy_every: u32, full_after: u32) -> impl FnMut(&mut BuildPagingBuffer<'_>) -> Option<BuildStatus> {
    let (mut calls, mut in_buffer) = (0, 0);
    move |build| {
        calls += 1;
        in_buffer = if build.dma_buffer_write_offset == 0 { 0 } else { in_buffer + 1 };
        let may_be_busy = build.operation.allocation().is_some() && !build.allocation_is_idle;
        if full_after > 0 && in_buffer >= full_after && *build.multipass_offset == 0 {
            Some(BuildStatus::InsufficientDmaBuffer)
        } else if may_be_busy && busy_every > 0 && calls % busy_every == 0 {
            Some(BuildStatus::AllocationBusy)
        } else {
            None
        }
    }
}

/// One of them, as far as the adapter has what it asks for.
struct Subject {
    allocation: AllocationId,
    pages: u64,
    backing_store: PhysicalAddress,
    /// The mappings that can be written to: address, first page, pages.
    writable: Vec<(u64, u64, u64)>,
}

struct Subjects {
    world: World,
    client: Client,
}

impl Subjects {
    fn new(config: Config, busy_every: u32, full_after: u32) -> Self {
        let mut world = World::new(config);
        world.driver.answer = Box::new(answer(busy_every, full_after));
        let client = world.client();
        Self { world, client }
    }

    /// The pages that a mapping shows are whole ones.
    fn create(&mut self, plan: &Plan) -> Subject {
        let config = &self.world.config;
        let place = match plan.place {
            Place::Local | Place::LocalOrSystem if config.segment_bytes == 0 => Place::System,
            place => place,
        };
        let room = if place == Place::Local { config.segment_bytes } else { config.commit_limit() } / PAGE_SIZE;
        let pages = (room * plan.size / 65536).max(1);
        let allocation = self.world.create(self.client, place, pages, plan.flags2);
        let mut writable = Vec::new();
        for &(first, length, write) in &plan.mappings {
            let first = pages * first / 256;
            let length = (pages * length / 256).max(1).min(pages - first);
            let whole = MapGpuVirtualAddress::whole(allocation);
            let desc = MapGpuVirtualAddress { offset: first * PAGE_SIZE, size: length * PAGE_SIZE, write, ..whole };
            // The narrow spaces of this test may be full.
            let Ok(mapped) = self.world.try_map(self.client, &desc) else { continue };
            writable.extend(write.then_some((mapped.virtual_address.0, first, length)));
        }
        self.world.run_all();
        let known = self.world.machine.known[&self.world.handle(allocation)];
        Subject { allocation, pages: known.size / PAGE_SIZE, backing_store: known.backing_store, writable }
    }

    /// Comes, is written to, and goes, once for each way: only what work was given and is wanted is copied out of local memory.
    fn live(&mut self, plan: &Plan) {
        let Subject { allocation, pages, backing_store, writable } = self.create(plan);
        let handle = self.world.handle(allocation);
        let mut tokens = vec![0; pages as usize];
        for (round, &way) in (1..).zip(&plan.ways) {
            self.world.bring_in(self.client, &[allocation]);
            let is_local = self.world.config.segment_bytes > 0 && self.world.placed[&allocation] == LOCAL;
            let is_written = way != Way::EvictedNotWritten || round == 1;
            let mut has_work = false;
            let is_compressed = plan.flags2.contains(EVICTION) || is_local;
            for &write in plan.writes.iter().filter(|_| is_written) {
                let page = write * pages / 65536;
                let covers = |&&(_, first, length): &&(u64, u64, u64)| (first..first + length).contains(&page);
                let Some(&(address, first, _)) = writable.iter().find(covers) else { continue };
                let (address, token) = (address + (page - first) * PAGE_SIZE, (round << 32) + page + 1);
                let access = if is_compressed {
                    Access::WriteSurface(address, handle, page, token)
                } else {
                    Access::Write(address, token)
                };
                self.world.submit(self.client, &[access]);
                has_work = true;
                tokens[page as usize] = token;
            }
            self.world.run_all();

            let copied_before = self.world.statistics_of_copies().1;
            match way {
                Way::Destroyed => self.world.destroy(allocation),
                _ => {
                    let flags = if is_written { SOON } else { NOT_WRITTEN };
                    self.world.evict(self.client, &[allocation], flags).unwrap();
                }
            }
            self.world.run_all();
            let copied = self.world.statistics_of_copies().1 - copied_before;
            let is_copied = is_local && has_work && way != Way::Destroyed;
            assert_eq!(copied, if is_copied { pages * PAGE_SIZE } else { 0 }, "U-15: {way:?}, round {round}");
            if way == Way::Destroyed {
                return;
            }
            for (page, &token) in (0..).zip(&tokens) {
                let found = self.world.machine.read(backing_store.offset_by(page * PAGE_SIZE), &self.world.host);
                assert_eq!(found, token, "I02: page {page}, round {round}");
            }
        }
        self.world.destroy(allocation);
        self.world.run_all();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn evictions_and_unmaps_are_notified_as_the_documents_say(
        config in adapter(),
        plans in prop::collection::vec(plan(), 1..4),
        busy_every in 0..6u32,
        full_after in 0..6u32,
    ) {
        let mut subjects = Subjects::new(config, busy_every, full_after);
        for plan in &plans {
            subjects.live(plan);
        }
        subjects.world.tear_down();
    }
}
