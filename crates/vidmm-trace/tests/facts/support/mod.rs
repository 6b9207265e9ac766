//! Workloads for tests.

use proptest::collection::vec;
use proptest::prelude::*;
use vidmm_trace::{Buffer, Cost, Engine, Kernel, Lifetime, Workload};

/// A compute kernel of process 0 that takes a microsecond.
pub fn kernel(reads: &[u32], writes: &[u32]) -> Kernel {
    Kernel {
        engine: Engine::Compute,
        reads: reads.to_vec(),
        writes: writes.to_vec(),
        cost: Cost::Nanoseconds(1000),
        not_before_ns: 0,
        process: 0,
    }
}

/// A buffer that dies after its last use.
pub fn temporary(name: u64, bytes: u64) -> Buffer {
    Buffer { name, bytes, lifetime: Lifetime::Temporary }
}

/// A workload of buffers of those sizes.
pub fn workload(sizes: &[u64], kernels: Vec<Kernel>) -> Workload {
    let buffers = (0..).zip(sizes).map(|(name, &bytes)| temporary(name, bytes)).collect();
    Workload { name: "test".to_owned(), buffers, kernels }
}

/// Any lifetime.
fn lifetime() -> impl Strategy<Value = Lifetime> {
    prop_oneof![Just(Lifetime::Whole), Just(Lifetime::Temporary), Just(Lifetime::Kept)]
}

/// Any kernel over some of `buffers` buffers. It may use none.
fn any_kernel(buffers: u32) -> impl Strategy<Value = Kernel> {
    let indices = || proptest::collection::btree_set(0..buffers, 0..4);
    (indices(), indices(), 0..1_000_000_u64).prop_map(|(reads, writes, not_before_ns)| Kernel {
        not_before_ns,
        ..kernel(&Vec::from_iter(reads), &Vec::from_iter(writes))
    })
}

/// Any small workload of one process; some are invalid, because a buffer or a kernel is idle.
pub fn any_workload() -> impl Strategy<Value = Workload> {
    let buffers = vec((1..100_000_u64, lifetime()), 1..8);
    (buffers, 1..20_usize).prop_flat_map(|(buffers, kernels)| {
        let kernels = vec(any_kernel(buffers.len() as u32), kernels);
        let buffers: Vec<Buffer> =
            (0..).zip(buffers).map(|(name, (bytes, lifetime))| Buffer { name, bytes, lifetime }).collect();
        kernels.prop_map(move |kernels| Workload { name: "any".to_owned(), buffers: buffers.clone(), kernels })
    })
}
