//! Bytes that `vidmm-client` has copied out, beside a list that was written by hand for the workload (RES-22).

use crate::world::*;
use vidmm::*;
use vidmm_client::{Ladder, ManageFlags, Managed, ResidencyManager, ResidencySet};

const PAGES: u64 = 64;
const ALLOCATIONS: usize = 64;
const SUBMISSIONS: usize = 1000;
const MEMBERS: usize = 5;

/// An allocation of the workload, and the token that its last page has.
#[derive(Clone, Copy)]
struct Buffer {
    allocation: AllocationId,
    address: u64,
    pages: u64,
    token: u64,
}

/// A use of a buffer by a submission.
#[derive(Clone, Copy)]
struct Pick {
    buffer: usize,
    writes: bool,
}

/// Makes the picks of a submission resident, by its way of keeping a list.
trait Keeper {
    fn begin(&mut self, world: &mut World, buffers: &[Buffer], picks: &[Pick]);
    fn submitted(&mut self, fence_value: u64);
}

/// `vidmm-client`.
struct ByManager {
    manager: ResidencyManager,
    managed: Vec<Managed>,
    set: ResidencySet,
    fence: MonitoredFenceId,
    says_reads: bool,
}

impl ByManager {
    fn new(client: Client, buffers: &[Buffer], fence: MonitoredFenceId, says_reads: bool) -> Self {
        let mut manager = ResidencyManager::new(client.device, client.queue, Ladder::Trim);
        let manage =
            |buffer: &Buffer| manager.manage(buffer.allocation, buffer.pages * PAGE_SIZE, ManageFlags::empty());
        let managed = buffers.iter().map(manage).collect();
        Self { manager, managed, set: ResidencySet::new(), fence, says_reads }
    }
}

impl Keeper for ByManager {
    fn begin(&mut self, world: &mut World, _: &[Buffer], picks: &[Pick]) {
        self.set.clear();
        for pick in picks {
            let managed = self.managed[pick.buffer];
            _ = if pick.writes || !self.says_reads { self.set.insert(managed) } else { self.set.insert_read(managed) };
        }
        world.call(|vidmm, _, _| self.manager.begin_submission(vidmm, self.fence, &mut self.set)).unwrap();
    }

    fn submitted(&mut self, fence_value: u64) {
        self.manager.submitted(fence_value);
    }
}

/// A list of its own: the least recently used goes first, one by one, and says whether it was written.
struct ByHand {
    client: Client,
    /// The buffers on the list and whether they were written, the least recently used first.
    listed: Vec<Pick>,
}

impl Keeper for ByHand {
    fn begin(&mut self, world: &mut World, buffers: &[Buffer], picks: &[Pick]) {
        let mut missing = Vec::new();
        for pick in picks {
            match self.listed.iter().position(|listed| listed.buffer == pick.buffer) {
                Some(position) => {
                    let listed = self.listed.remove(position);
                    self.listed.push(Pick { writes: listed.writes || pick.writes, ..listed });
                }
                None => missing.push(*pick),
            }
        }
        let allocations: Vec<AllocationId> = missing.iter().map(|pick| buffers[pick.buffer].allocation).collect();
        while !allocations.is_empty() {
            let Err(error) = world.make_resident(self.client, &allocations) else { break };
            let MakeResidentError::NoMemory { num_bytes_to_trim, .. } = error else { panic!("{error}") };
            let mut trimmed = 0;
            while trimmed < num_bytes_to_trim {
                let Pick { buffer, writes } = self.listed.remove(0);
                trimmed += buffers[buffer].pages * PAGE_SIZE;
                let flags = if writes { IF_NECESSARY } else { IF_NECESSARY | NOT_WRITTEN };
                world.evict(self.client, &[buffers[buffer].allocation], flags).unwrap();
            }
        }
        self.listed.extend(missing);
    }

    fn submitted(&mut self, _: u64) {}
}

/// Skewed uses of which some write: the same for everybody.
fn workload() -> Vec<Vec<Pick>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % below
    };
    let mut submission = |_| {
        let mut picks: Vec<Pick> = Vec::new();
        while picks.len() < MEMBERS {
            // The smaller of two draws: the first buffers are used most.
            let buffer = random(ALLOCATIONS as u64).min(random(ALLOCATIONS as u64)) as usize;
            let writes = random(20) == 0;
            if picks.iter().all(|pick| pick.buffer != buffer) {
                picks.push(Pick { buffer, writes });
            }
        }
        picks
    };
    (0..SUBMISSIONS).map(&mut submission).collect()
}

/// Plays the workload, with one submission in flight. Returns the bytes that were copied in and out.
fn copies<K: Keeper>(keeper: impl FnOnce(Client, &[Buffer], MonitoredFenceId) -> K) -> (u64, u64) {
    let (mut world, client) = World::with_pages(PAGES);
    world.is_audited = false;
    let fence = world.fence();
    let create = |index: usize| {
        let pages = 1 + index as u64 % 4;
        let allocation = world.allocate(client, pages);
        Buffer { allocation, address: world.map(client, allocation), pages, token: 0 }
    };
    let mut buffers: Vec<Buffer> = (0..ALLOCATIONS).map(create).collect();
    let mut keeper = keeper(client, &buffers, fence);
    let mut expected = Vec::new();
    for (picks, value) in workload().iter().zip(1..) {
        keeper.begin(&mut world, &buffers, picks);
        let mut program = Vec::new();
        for pick in picks {
            let buffer = &mut buffers[pick.buffer];
            let at = buffer.address + (buffer.pages - 1) * PAGE_SIZE;
            program.push(Access::Read(at));
            expected.push(buffer.token);
            if pick.writes {
                buffer.token = value;
                program.push(Access::Write(at, value));
            }
        }
        world.submit_to(client.context, &program, &[], &[(fence, value)]);
        keeper.submitted(value);
        world.run_all();
    }
    assert!(world.read == expected, "no content was lost");
    let copies = world.statistics_of_copies();
    world.tear_down();
    copies
}

/// The manager says of each allocation whether it was written: so no more is copied out than by hand.
#[test]
fn the_client_copies_out_as_little_as_a_list_written_by_hand() {
    let by_hand = copies(|client, _, _| ByHand { client, listed: Vec::new() });
    let by_manager = copies(|client, buffers, fence| ByManager::new(client, buffers, fence, true));
    let all_written = copies(|client, buffers, fence| ByManager::new(client, buffers, fence, false));
    for (name, (bytes_in, bytes_out)) in
        [("by hand", by_hand), ("client", by_manager), ("client, all uses as writes", all_written)]
    {
        let ratio = bytes_out as f64 / by_hand.1 as f64;
        println!("{name}: {bytes_in} bytes in, {bytes_out} out, {ratio:.3} times as many as by hand");
    }
    assert!(by_hand.1 > 0, "some content is copied out");
    assert!(by_manager.1 * 100 <= by_hand.1 * 101, "more than 1 % above a list written by hand");
    assert!(all_written.1 > 5 * by_hand.1, "content that was only read would be copied out too");
}
