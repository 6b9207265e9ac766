//! What the CPU sees: the addresses that locked allocations have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use vidmm::contract::CpuVirtualAddress;
use vidmm::{Extent, PAGE_SIZE, PAGE_SIZE_64K, PhysicalAddress, SegmentId};

/// The first address; below it nothing is ever mapped, so that a null pointer with an offset shows nothing.
const FIRST: u64 = 1 << 32;

/// The views that a host has given, as a handle: whoever plays the CPU asks it what is where.
#[derive(Clone, Debug, Default)]
pub struct CpuViews(Arc<Mutex<BTreeMap<u64, View>>>);

#[derive(Debug)]
struct View {
    size: u64,
    segment: SegmentId,
    /// None while the content is on its way.
    extents: Vec<Extent>,
}

impl CpuViews {
    /// The physical address that `address` shows; none if nothing is mapped there, or while the content moves.
    pub fn resolve(&self, address: CpuVirtualAddress) -> Option<PhysicalAddress> {
        self.with(|views| {
            let (&start, view) = views.range(..=address.0).next_back()?;
            let mut offset = address.0 - start;
            for extent in &view.extents {
                if offset < extent.size {
                    return Some(PhysicalAddress { segment: view.segment, offset: extent.offset + offset });
                }
                offset -= extent.size;
            }
            None
        })
    }

    /// How many views there are.
    pub fn count(&self) -> usize {
        self.with(|views| views.len())
    }

    /// Addresses are handed out above all that are in use, whole units of 64 KiB, with a page between them that shows nothing.
    pub(crate) fn map(&self, segment: SegmentId, extents: &[Extent]) -> Option<CpuVirtualAddress> {
        let size: u64 = extents.iter().map(|extent| extent.size).sum();
        self.with(|views| {
            let end = views.last_key_value().map_or(FIRST, |(&start, view)| start + view.size + PAGE_SIZE);
            let start = end.checked_next_multiple_of(PAGE_SIZE_64K)?;
            start.checked_add(size)?.checked_add(PAGE_SIZE_64K)?;
            views.insert(start, View { size, segment, extents: extents.to_vec() });
            Some(CpuVirtualAddress(start))
        })
    }

    pub(crate) fn rotate(&self, address: CpuVirtualAddress, segment: SegmentId, extents: &[Extent]) {
        self.with(|views| {
            let view = views.get_mut(&address.0).expect("rotation of what was not mapped");
            (view.segment, view.extents) = (segment, extents.to_vec());
        });
    }

    pub(crate) fn unmap(&self, address: CpuVirtualAddress) {
        let view = self.with(|views| views.remove(&address.0));
        assert!(view.is_some(), "unmap of what was not mapped: {address}");
    }

    fn with<T>(&self, access: impl FnOnce(&mut BTreeMap<u64, View>) -> T) -> T {
        access(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
