//! The CPU's view: addresses that the host hands out, and the memory behind them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vidmm::contract::{CpuAddressError, CpuVirtualAddress};
use vidmm::{Extent, PAGE_SIZE_64K, PhysicalAddress, SegmentId};
use vidmm_runtime::CpuView;

/// The first address that is handed out.
const FIRST: u64 = 1 << 44;

/// The CPU's page tables: a handle that the host and whoever plays the CPU share.
///
/// Addresses are never handed out twice, so that what is used after its end shows nothing.
#[derive(Clone, Debug, Default)]
pub struct CpuAddresses(Arc<Mutex<Views>>);

#[derive(Debug, Default)]
struct Views {
    /// By first address.
    views: BTreeMap<u64, View>,
    handed_out: u64,
}

#[derive(Debug)]
struct View {
    segment: SegmentId,
    extents: Vec<Extent>,
}

impl CpuAddresses {
    /// Shows extents at new addresses.
    ///
    /// # Errors
    ///
    /// If no addresses are left.
    pub fn map(&self, segment: SegmentId, extents: &[Extent]) -> Result<CpuVirtualAddress, CpuAddressError> {
        let size: u64 = extents.iter().map(|extent| extent.size).sum();
        let mut shared = self.lock();
        let address = FIRST + shared.handed_out;
        // A gap behind each view: who reads past its end reads nothing.
        let taken = size.checked_next_multiple_of(PAGE_SIZE_64K).and_then(|size| size.checked_add(PAGE_SIZE_64K));
        let handed_out = taken.and_then(|taken| shared.handed_out.checked_add(taken));
        shared.handed_out = handed_out.filter(|&bytes| bytes <= FIRST).ok_or(CpuAddressError { size })?;
        shared.views.insert(address, View { segment, extents: extents.to_vec() });
        Ok(CpuVirtualAddress(address))
    }

    /// Shows other extents at the same addresses.
    ///
    /// # Panics
    ///
    /// If nothing is shown there: the core has lost track.
    pub fn rotate(&self, address: CpuVirtualAddress, segment: SegmentId, extents: &[Extent]) {
        let mut shared = self.lock();
        let view = shared.views.get_mut(&address.0).expect("what is rotated was mapped");
        *view = View { segment, extents: extents.to_vec() };
    }

    /// Shows nothing there any more.
    ///
    /// # Panics
    ///
    /// If nothing was shown there.
    pub fn unmap(&self, address: CpuVirtualAddress) {
        self.lock().views.remove(&address.0).expect("what is unmapped was mapped");
    }

    fn lock(&self) -> MutexGuard<'_, Views> {
        // Every change leaves the views whole, so a panic elsewhere does not spoil them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CpuView for CpuAddresses {
    fn shown(&self, address: CpuVirtualAddress) -> Option<PhysicalAddress> {
        let shared = self.lock();
        let (&first, view) = shared.views.range(..=address.0).next_back()?;
        let mut offset = address.0 - first;
        for extent in &view.extents {
            if offset < extent.size {
                return Some(PhysicalAddress { segment: view.segment, offset: extent.offset + offset });
            }
            offset -= extent.size;
        }
        None
    }
}
