//! What contiguous placement refuses and costs, beside a virtual block of vk-mem with its default strategy (goals P1 and P2). All
//! placers get the same requests in one process and take turns. It needs a C++ compiler, and no Vulkan device.
//!
//! ```text
//! cargo run --release --manifest-path peers/vk-mem/Cargo.toml
//! ```

#[allow(dead_code)]
#[path = "../../../crates/vidmm/benches/support/clock.rs"]
mod clock;
#[allow(dead_code)]
#[path = "../../../crates/vidmm/benches/support/draws.rs"]
mod draws;

#[path = "../../../crates/vidmm/benches/linear"]
mod linear {
    #![allow(dead_code)]
    pub mod churn;
    pub mod game_mix;
    pub mod placers;
    pub mod timing;
}

use linear::{
    churn,
    placers::{BestFit, OffsetAllocator, Placer, Vidmm},
    timing::{Population, Run, Trace},
};
use vk_mem::{
    VirtualAllocation, VirtualAllocationCreateFlags, VirtualAllocationCreateInfo, VirtualBlock,
    VirtualBlockCreateFlags, VirtualBlockCreateInfo,
};

/// A virtual block with its default strategy.
struct VkMem {
    block: VirtualBlock,
    unit: u64,
}

impl Placer for VkMem {
    type Range = VirtualAllocation;

    fn new(size: u32, unit: u64, _ranges: usize) -> Self {
        let info = VirtualBlockCreateInfo {
            size: u64::from(size) * unit,
            flags: VirtualBlockCreateFlags::empty(),
            allocation_callbacks: None,
        };
        Self { block: VirtualBlock::new(info).expect("a block of a size above 0"), unit }
    }

    fn take(&mut self, units: u32) -> Option<VirtualAllocation> {
        let info = VirtualAllocationCreateInfo {
            size: u64::from(units) * self.unit,
            alignment: 0,
            user_data: 0,
            flags: VirtualAllocationCreateFlags::empty(),
        };
        // SAFETY: the block lives, and its size and alignment are valid.
        let taken = unsafe { self.block.allocate(info) };
        taken.ok().map(|(allocation, _)| allocation)
    }

    fn give(&mut self, mut range: VirtualAllocation) {
        // SAFETY: the block has given the allocation out, and it comes back once.
        unsafe { self.block.free(&mut range) }
    }
}

impl Drop for VkMem {
    fn drop(&mut self) {
        // SAFETY: nothing uses what is left in the block.
        unsafe { self.block.clear() }
    }
}

const SEEDS: u64 = 6;
const WARM_ROUNDS: usize = 11;
const ROUNDS: usize = 11;

fn main() {
    println!(
        "refused of the game mix in 8 GiB, in %           vidmm  best fit  offset-allocator    vk-mem  ratio to vk-mem"
    );
    for load in [80, 90, 95] {
        let ours = churn::refused::<Vidmm>(SEEDS, load);
        let best_fit = churn::refused::<BestFit>(SEEDS, load);
        let offset = churn::refused::<OffsetAllocator>(SEEDS, load);
        let theirs = churn::refused::<VkMem>(SEEDS, load);
        let ratio = ours / theirs;
        println!("  at {load} % load {ours:>38.3} {best_fit:>9.3} {offset:>17.2} {theirs:>9.2} {ratio:>16.3}");
    }
    println!("taking and giving back a range, in ns");
    for population in [Population { ranges: 100_000, unit: 64 << 10 }, Population { ranges: 1_000_000, unit: 4 << 10 }]
    {
        pairs(population);
    }
}

fn pairs(population: Population) {
    let trace = Trace::draw(population, WARM_ROUNDS + ROUNDS, 100_000);
    let (mut ours, mut best_fit) = (Run::<Vidmm>::new(&trace), Run::<BestFit>::new(&trace));
    let (mut offset, mut theirs) = (Run::<OffsetAllocator>::new(&trace), Run::<VkMem>::new(&trace));
    let mut round =
        |at| [ours.round(&trace, at), best_fit.round(&trace, at), offset.round(&trace, at), theirs.round(&trace, at)];
    let rounds: Vec<[f64; 4]> = (0..WARM_ROUNDS + ROUNDS).map(&mut round).skip(WARM_ROUNDS).collect();
    let column = |of: usize| median(rounds.iter().map(|times| times[of]).collect());
    let ratio = median(rounds.iter().map(|times| times[0] / times[3]).collect());
    let [ours, best_fit, offset, theirs] = [0, 1, 2, 3].map(column);
    let ranges = population.ranges;
    println!("  {ranges:>9} ranges {ours:>32.0} {best_fit:>9.0} {offset:>17.0} {theirs:>9.0} {ratio:>16.2}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
