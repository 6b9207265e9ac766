//! Clients drawn by seeds keep the rules: nothing is found, whatever faults the system has.

use std::collections::VecDeque;

use vidmm_kmt::{Call, FenceValue, Neighbour, Reply, Settings, Status};

use crate::client::{ASSUME_NOT_IN_USE, CANT_TRIM_FURTHER, Client, MIB, MUST_SUCCEED, parsed};
use crate::pressure::SCENARIO;

/// An allocation of a right client.
#[derive(Clone, Copy)]
struct Held {
    allocation: u32,
    commands: u64,
    is_offered: bool,
    /// The number of the last submission that may use the allocation.
    used: u64,
}

struct Right {
    client: Client,
    seed: u64,
    draws: u64,
    held: VecDeque<Held>,
    /// Allocations that are off the list.
    evicted: Vec<Held>,
    /// Whether the client has asked for notifications to trim. Such a client gives something back before each submission.
    is_told_to_trim: bool,
    /// The MakeResidents that were accepted.
    accepted: u64,
}

impl Right {
    fn start(seed: u64) -> Self {
        let faults = ["refuse@1/5", "refuse-final@1/7", "pending@1/4", "late@1/3", "at-once@1/6", "suspend@1/9"];
        let faults = parsed(&[&faults[..], &["trim@1/6"]].concat()[..seed as usize % 8]);
        let scenario = Neighbour::Scenario { name: "neighbour".to_owned(), text: SCENARIO.to_owned() };
        let neighbour = [None, Some(Neighbour::Size(16 * MIB)), Some(scenario)][seed as usize % 3].clone();
        let settings = Settings {
            local_memory: (24 + seed % 5 * 10) * MIB,
            null_hardware: seed.is_multiple_of(2),
            seed,
            faults,
            neighbour,
            ..Settings::default()
        };
        let mut client = Client::start(settings);
        let is_told_to_trim = seed % 4 < 2;
        if is_told_to_trim {
            client.call(Call::RegisterTrimNotification { device: client.device });
        }
        Self { client, seed, draws: 0, held: VecDeque::new(), evicted: Vec::new(), is_told_to_trim, accepted: 0 }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.draws += 1;
        vidmm_runtime::mixed(self.seed.wrapping_mul(1 << 20) + self.draws) % below
    }

    /// Waits for a value of the paging fence: by the context, by the CPU, or by looking at the fence's memory.
    fn wait(&mut self, value: u64) {
        let (device, fences) = (self.client.device, vec![FenceValue { fence: self.client.paging_fence, value }]);
        if value == 0 {
            return;
        }
        if self.draw(2) == 0 {
            self.client.wait(value);
        } else {
            let wait = Call::WaitFromCpu { device, fences, any: false };
            assert_eq!(self.client.call(wait).status, Status::SUCCESS, "seed {}", self.seed);
        }
    }

    /// Makes an allocation resident as the documents say: after a refusal the client trims, and asks again.
    fn make_resident(&mut self, allocation: u32) -> bool {
        let mut made = self.client.make_resident(allocation, 0);
        while made.status == Status::NO_MEMORY {
            let mut trimmed = 0;
            while trimmed < made.num_bytes_to_trim.max(1)
                && let Some(held) = self.oldest_that_work_has_used()
            {
                self.client.evict(held.allocation);
                self.evicted.push(Held { is_offered: false, ..held });
                trimmed += 2 * MIB;
            }
            let is_last = trimmed == 0 && self.client.finish().status == Status::SUCCESS;
            let flags = if is_last { CANT_TRIM_FURTHER } else { 0 };
            if is_last && !self.held.is_empty() {
                // Everything is idle now, so there is something to trim.
                let held = self.held.pop_front().expect("there is one");
                self.reclaim(held);
                self.client.submit(held.commands);
                self.client.finish();
                self.client.evict(held.allocation);
                self.evicted.push(Held { is_offered: false, ..held });
                made = self.client.make_resident(allocation, 0);
                continue;
            }
            made = self.client.make_resident(allocation, flags);
            if flags == CANT_TRIM_FURTHER && made.status == Status::NO_MEMORY {
                made = self.client.make_resident(allocation, flags | MUST_SUCCEED);
                break;
            }
        }
        if made.status.is_success() {
            self.accepted += 1;
            self.wait(made.value());
        }
        made.status.is_success()
    }

    /// Takes the allocation that has been on the list for longest, if work has used it.
    fn oldest_that_work_has_used(&mut self) -> Option<Held> {
        let at = self.held.iter().position(|held| held.used > 0 && !held.is_offered)?;
        self.held.remove(at)
    }

    fn reclaim(&mut self, held: Held) {
        if held.is_offered {
            let (paging_queue, allocations) = (self.client.queue, vec![held.allocation]);
            let reclaimed = self.client.call(Call::ReclaimAllocations { paging_queue, allocations });
            self.wait(reclaimed.value());
        }
    }

    fn step(&mut self) {
        match self.draw(8) {
            0 | 1 if self.held.len() + self.evicted.len() < 24 => {
                let size = (1 + self.draw(4)) * MIB;
                let allocation = self.client.create(size);
                let mapped = self.client.map(allocation);
                assert!(mapped.status.is_success(), "seed {}: {mapped:?}", self.seed);
                self.wait(mapped.value());
                let held = Held { allocation, commands: mapped.address, is_offered: false, used: 0 };
                if self.make_resident(allocation) { self.held.push_back(held) } else { self.evicted.push(held) }
            }
            2 if !self.evicted.is_empty() => {
                let at = self.draw(self.evicted.len() as u64) as usize;
                let held = self.evicted.swap_remove(at);
                if self.make_resident(held.allocation) {
                    self.held.push_back(Held { used: 0, ..held });
                } else {
                    self.evicted.push(held);
                }
            }
            3 if !self.evicted.is_empty() => {
                let held = self.evicted.swap_remove(0);
                self.client.destroy(held.allocation, 0);
            }
            4 if !self.held.is_empty() => {
                let at = self.draw(self.held.len() as u64) as usize;
                let held = self.held.remove(at).expect("it is there");
                let flags = if self.client.finish().status == Status::SUCCESS { ASSUME_NOT_IN_USE } else { 0 };
                self.client.destroy(held.allocation, flags);
            }
            5 if !self.held.is_empty() => {
                let at = self.draw(self.held.len() as u64) as usize;
                let held = self.held[at];
                if held.is_offered {
                    self.reclaim(held);
                } else if held.used > 0 {
                    let (device, allocations) = (self.client.device, vec![held.allocation]);
                    self.client.call(Call::OfferAllocations { device, allocations, priority: 1 });
                }
                self.held[at].is_offered = !held.is_offered && held.used > 0;
            }
            _ => self.submit(),
        }
    }

    fn submit(&mut self) {
        if self.is_told_to_trim
            && let Some(at) = self.held.iter().position(|held| !held.is_offered)
        {
            let held = self.held.remove(at).expect("it is there");
            self.client.evict(held.allocation);
            match self.make_resident(held.allocation) {
                true => self.held.push_back(Held { used: 0, ..held }),
                false => self.evicted.push(held),
            }
        }
        let Some(held) = self.held.iter().rev().find(|held| !held.is_offered).copied() else { return };
        let submitted: Reply = self.client.submit(held.commands);
        assert_eq!(submitted.status, Status::SUCCESS, "seed {}: {submitted:?}", self.seed);
        let number = self.client.submitted;
        self.held.iter_mut().for_each(|held| held.used = number);
        if self.draw(3) == 0 {
            self.client.finish();
        }
    }
}

#[test]
fn fifty_right_clients_have_no_finding() {
    let mut accepted = 0;
    for seed in 0..50 {
        let mut right = Right::start(seed);
        (0..300).for_each(|_| right.step());
        accepted += right.accepted;
        let findings = right.client.session.findings().to_vec();
        assert_eq!(findings, [], "seed {seed}");
        assert_eq!(right.client.end(), [], "seed {seed}");
    }
    assert!(accepted > 1000, "{accepted}");
}
