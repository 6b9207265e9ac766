//! The tables of a loaded driver.

use libloading::Library;

use crate::abi::*;
use crate::progress::{Entry, Progress};

/// The tables that a library handed over.
pub(crate) struct Loaded {
    pub ddi: DRIVER_INITIALIZATION_DATA,
    pub shim: *const VIDMM_SHIM,
    pub test: *const VIDMM_TEST_INTERFACE,
    pub progress: Progress,
    /// Last: what the tables point to is in the library.
    pub _library: Library,
}

// SAFETY: the tables are constant after the load. One thread at a time calls the functions: a machine of a driver is not Send, and
// `DriverMachines` lets one machine run at a time.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Loaded {
    /// The shim's functions.
    pub fn shim(&self) -> &VIDMM_SHIM {
        // SAFETY: checked at loading; the table is static in the library, which `self` keeps loaded.
        unsafe { &*self.shim }
    }

    /// The shim's counts.
    pub fn counts(&self) -> VIDMM_SHIM_COUNTS {
        let mut counts = VIDMM_SHIM_COUNTS::default();
        // SAFETY: the function writes the given struct.
        unsafe { (self.shim().GetCounts)(&mut counts) };
        counts
    }

    /// The driver's functions for tests, if it has any.
    pub fn test(&self) -> Option<&VIDMM_TEST_INTERFACE> {
        // SAFETY: as `shim`, or null.
        unsafe { self.test.as_ref() }
    }

    /// The model of its GPU.
    pub fn gpu(&self) -> Option<&VIDMM_GPU> {
        // SAFETY: null, or a static table in the library.
        let gpu = unsafe { self.test()?.Gpu.as_ref() }?;
        (gpu.Run.is_some() && gpu.Translate.is_some()).then_some(gpu)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Some(unload) = self.ddi.DxgkDdiUnload {
            let before = self.progress.enter(Entry::DxgkDdiUnload);
            // SAFETY: no adapter of the driver is left: each keeps it loaded.
            unsafe { unload() };
            self.progress.leave(before);
        }
    }
}
