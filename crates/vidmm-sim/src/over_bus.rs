//! The time lost to kernels' accesses over the bus, by allocation (D35).

use vidmm::event::BusAccess;
use vidmm::{AllocationId, Nanoseconds};

/// The accesses of a kernel to system memory, at a cost of `lost_ns` for the kernel: the allocation and the bytes of each part. All parts
/// of an allocation are a single access.
pub(crate) fn accesses(
    parts: impl Iterator<Item = (Option<AllocationId>, u64)>,
    lost_ns: Nanoseconds,
) -> Vec<BusAccess> {
    let mut accesses: Vec<BusAccess> = Vec::new();
    for (allocation, bytes) in parts.filter(|&(_, bytes)| bytes > 0) {
        let Some(allocation) = allocation else { continue };
        match accesses.iter_mut().find(|access| access.allocation == allocation) {
            Some(access) => access.bytes += bytes,
            None => accesses.push(BusAccess { allocation, bytes, lost_ns: 0 }),
        }
    }
    // Each access gets a part of the rest: the sum is exact.
    let (mut left_ns, mut left) = (lost_ns, accesses.iter().map(|access| access.bytes).sum::<u64>());
    for access in &mut accesses {
        access.lost_ns = (u128::from(left_ns) * u128::from(access.bytes) / u128::from(left.max(1))) as u64;
        (left_ns, left) = (left_ns - access.lost_ns, left - access.bytes);
    }
    accesses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_time_is_shared_by_bytes() {
        let [a, b] = [1, 2].map(AllocationId::from_bits);
        let parts = [(Some(a), 4096), (Some(b), 4096), (None, 4096), (Some(a), 4096), (Some(b), 0)];
        let shares = accesses(parts.into_iter(), 100);
        let expected = [(a, 8192, 66), (b, 4096, 34)];
        assert_eq!(shares, expected.map(|(allocation, bytes, lost_ns)| BusAccess { allocation, bytes, lost_ns }));
    }
}
