//! The denominator: a stand-in for the residency managers that applications carry today.
//!
//! D3DX12Residency and GPGMM keep one heap node of some 88 bytes per allocation in a doubly linked LRU list. Each submission
//! names all the allocations that it uses: they are recorded, each once, then each is looked at again and moved to the young
//! end of the list; what is missing is counted, and the old end is evicted until that fits. This does the same and no more:
//! MakeResident and Evict only count bytes. Links are indices into one array of 88-byte nodes, since this workspace has no
//! unsafe code; nodes that a program allocates one after another lie in the same way, and a step along the list is the same
//! dependent load. Against D3DX12Residency itself it took 0.54-0.83 of the time on unchanged lists and 0.7-1.0 on zipf draws
//! (measured once, outside this repository), so a ratio to it errs to the peer's side.
//!
//! Like its models it evicts nothing that unfinished submissions use, and goes over its budget instead.

const NONE: u64 = u64::MAX;

/// One allocation: 88 bytes, as `sizeof(D3DX12Residency::ManagedObject)`.
#[derive(Clone, Copy)]
struct Node {
    older: u64,
    younger: u64,
    size: u64,
    /// The last submission that recorded it, so that it is recorded once.
    recorded_in: u64,
    /// The last submission that uses it.
    last_use: u64,
    resident: bool,
    _what_else_a_managed_object_holds: [u64; 5],
}

const _: () = assert!(size_of::<Node>() == 88);

/// The manager: nodes, their LRU list, a budget.
pub struct PtrLru {
    nodes: Vec<Node>,
    oldest: u64,
    youngest: u64,
    budget: u64,
    used: u64,
    submission: u64,
    /// Submissions that the GPU is behind.
    lag: u64,
    recorded: Vec<u32>,
    missing: Vec<u32>,
    pub misses: u64,
    /// Submissions after which more was resident than the budget.
    pub over_budget: u64,
}

impl PtrLru {
    pub fn new(nodes: usize, size: u64, budget: u64, lag: u64) -> Self {
        let node = Node {
            older: NONE,
            younger: NONE,
            size,
            recorded_in: 0,
            last_use: 0,
            resident: false,
            _what_else_a_managed_object_holds: [0; 5],
        };
        Self {
            nodes: vec![node; nodes],
            oldest: NONE,
            youngest: NONE,
            budget,
            used: 0,
            submission: 0,
            lag,
            recorded: Vec::new(),
            missing: Vec::new(),
            misses: 0,
            over_budget: 0,
        }
    }

    /// A submission that uses `handles`.
    pub fn submit(&mut self, handles: &[u32]) {
        self.submission += 1;
        self.record(handles);
        let wanted = self.touch();
        self.make_room(wanted);
        self.misses += self.missing.len() as u64;
        self.used += wanted;
        self.over_budget += u64::from(self.used > self.budget);
        for &handle in &self.missing {
            self.nodes[handle as usize].resident = true;
        }
    }

    fn record(&mut self, handles: &[u32]) {
        self.recorded.clear();
        for &handle in handles {
            let node = &mut self.nodes[handle as usize];
            if node.recorded_in != self.submission {
                node.recorded_in = self.submission;
                self.recorded.push(handle);
            }
        }
    }

    /// Makes all recorded nodes the youngest, and returns the bytes of those that are missing.
    fn touch(&mut self) -> u64 {
        self.missing.clear();
        let mut wanted = 0;
        for at in 0..self.recorded.len() {
            let handle = self.recorded[at];
            self.nodes[handle as usize].last_use = self.submission;
            if self.nodes[handle as usize].resident {
                self.unlink(handle);
            } else {
                self.missing.push(handle);
                wanted += self.nodes[handle as usize].size;
            }
            self.link_youngest(handle);
        }
        wanted
    }

    fn make_room(&mut self, wanted: u64) {
        let completed = self.submission.saturating_sub(1 + self.lag);
        while self.used + wanted > self.budget && self.oldest != NONE {
            let victim = self.oldest as u32;
            let node = &mut self.nodes[victim as usize];
            if node.last_use > completed {
                return;
            }
            node.resident = false;
            self.used -= node.size;
            self.unlink(victim);
        }
    }

    fn unlink(&mut self, handle: u32) {
        let Node { older, younger, .. } = self.nodes[handle as usize];
        match older {
            NONE => self.oldest = younger,
            _ => self.nodes[older as usize].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            _ => self.nodes[younger as usize].older = older,
        }
    }

    fn link_youngest(&mut self, handle: u32) {
        let older = core::mem::replace(&mut self.youngest, handle.into());
        let node = &mut self.nodes[handle as usize];
        (node.older, node.younger) = (older, NONE);
        match older {
            NONE => self.oldest = handle.into(),
            _ => self.nodes[older as usize].younger = handle.into(),
        }
    }
}
