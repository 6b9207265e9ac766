//! A driver's shared library.

use std::cell::RefCell;
use std::ffi::{CString, OsStr};
use std::path::Path;
use std::sync::Arc;

use libloading::Library;

use crate::abi::*;
use crate::callbacks;
use crate::loaded::Loaded;
use crate::progress::{Entry, Progress};

/// The reason why a driver cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The library cannot be opened.
    #[error("the library cannot be opened: {0}; build it with `-shared -fPIC`, and give a path with a slash")]
    Open(libloading::Error),
    /// A function is missing.
    #[error("the library has no `{0}`: {1}")]
    NoFunction(&'static str, &'static str),
    /// The library was built for another vidmm.
    #[error("the library was built with the headers of another version: build it anew")]
    Version,
    /// `DriverEntry` failed.
    #[error("DriverEntry failed with status {0:#x}")]
    Entry(NTSTATUS),
    /// `DriverEntry` did not call `DxgkInitialize`.
    #[error("DriverEntry did not call DxgkInitialize")]
    NotInitialized,
    /// The table lacks functions without which no adapter starts.
    #[error("the driver's table lacks {}", .0.join(", "))]
    Lacks(Vec<&'static str>),
}

/// A driver that is loaded. A clone is the same driver.
#[derive(Clone)]
pub struct Driver(pub(crate) Arc<Loaded>);

thread_local! {
    /// The table that a driver's `DriverEntry` hands over.
    static TABLE: RefCell<Option<DRIVER_INITIALIZATION_DATA>> = const { RefCell::new(None) };
}

/// `DxgkInitialize`.
///
/// # Safety
///
/// `data` is a whole table, or null.
pub(crate) unsafe extern "C" fn initialize(data: *const DRIVER_INITIALIZATION_DATA) -> NTSTATUS {
    if data.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: not null, and by the caller a whole table.
    TABLE.set(Some(unsafe { *data }));
    STATUS_SUCCESS
}

impl Driver {
    /// Loads the library at `path` and calls its `DriverEntry`. `progress` tells where the driver is, from now on. The registry has
    /// these values, each with its name.
    ///
    /// # Errors
    ///
    /// If there is no such library, or it is no driver.
    pub fn load(path: &Path, progress: &Progress, registry: &[(CString, CString)]) -> Result<Self, LoadError> {
        // A name without a slash would be looked for in the system's folders.
        let path = if path.components().count() == 1 { Path::new(".").join(path) } else { path.to_owned() };
        Self::load_name(path.as_os_str(), progress, registry)
    }

    fn load_name(name: &OsStr, progress: &Progress, registry: &[(CString, CString)]) -> Result<Self, LoadError> {
        type Connect = unsafe extern "C" fn(*const VIDMM_HOST) -> *const VIDMM_SHIM;
        type GetTestInterface = unsafe extern "C" fn() -> *const VIDMM_TEST_INTERFACE;
        type DriverEntry = unsafe extern "C" fn(HANDLE, HANDLE) -> NTSTATUS;
        let before = progress.enter(Entry::LibraryInitialisation);
        // SAFETY: opening runs the library's constructors; a user who names a driver asks for that.
        let library = unsafe { Library::new(name) };
        progress.leave(before);
        let library = library.map_err(LoadError::Open)?;
        // SAFETY: the headers declare the function so.
        let connect = unsafe { library.get::<Connect>(b"VidmmConnect\0") };
        let connect = connect.map_err(|_| LoadError::NoFunction("VidmmConnect", "link shim/shim.c into it"))?;
        // SAFETY: as above.
        let test = unsafe { library.get::<GetTestInterface>(b"VidmmGetTestInterface\0") };
        // SAFETY: as above.
        let entry = unsafe { library.get::<DriverEntry>(b"DriverEntry\0") };
        let entry = entry.map_err(|_| LoadError::NoFunction("DriverEntry", "define the driver's entry"))?;
        // SAFETY: the host's table is static, and has the layout of vidmm_host.h.
        let shim = unsafe { connect(&callbacks::HOST) };
        // SAFETY: the function has no arguments, and returns a static table or null.
        let test = test.map_or(std::ptr::null(), |test| unsafe { test() });
        // SAFETY: a table that is not null begins with its version.
        let is_other = unsafe { test.as_ref() }.is_some_and(|test| test.Version != VIDMM_TEST_INTERFACE_VERSION);
        if shim.is_null() || is_other {
            return Err(LoadError::Version);
        }
        let (last_words, size) = progress.last_words_buffer();
        // SAFETY: the shim's table is static in the library; the buffer lives as long as the driver, which keeps the progress.
        unsafe { ((*shim).SetLastWords)(last_words.cast(), size) };
        let (held, count) = progress.held_locks_buffer();
        // SAFETY: as above.
        unsafe { ((*shim).SetHeldLocks)(held, count as u32) };
        for (name, value) in registry {
            // SAFETY: the shim's table is static in the library, and the function copies two strings with an end.
            unsafe { ((*shim).SetRegistryValue)(name.as_ptr(), value.as_ptr()) };
        }
        TABLE.set(None);
        let mut driver_object = [0u64; 64];
        let mut registry_path = [0u64; 2];
        let before = progress.enter(Entry::DriverEntry);
        // SAFETY: both objects are opaque to the driver, live for the call, and are zero: the path is empty.
        let status = unsafe { entry(driver_object.as_mut_ptr().cast(), registry_path.as_mut_ptr().cast()) };
        progress.leave(before);
        if status < 0 {
            return Err(LoadError::Entry(status));
        }
        let ddi = TABLE.take().ok_or(LoadError::NotInitialized)?;
        let lacks = lacking(&ddi);
        if !lacks.is_empty() {
            return Err(LoadError::Lacks(lacks));
        }
        let progress = progress.clone();
        Ok(Self(Arc::new(Loaded { ddi, shim, test, progress, _library: library })))
    }
}

/// The functions without which no adapter starts, and which the table does not have.
fn lacking(ddi: &DRIVER_INITIALIZATION_DATA) -> Vec<&'static str> {
    let needed = [
        ("DxgkDdiAddDevice", ddi.DxgkDdiAddDevice.is_some()),
        ("DxgkDdiStartDevice", ddi.DxgkDdiStartDevice.is_some()),
        ("DxgkDdiQueryAdapterInfo", ddi.DxgkDdiQueryAdapterInfo.is_some()),
        ("DxgkDdiCreateAllocation", ddi.DxgkDdiCreateAllocation.is_some()),
        ("DxgkDdiDestroyAllocation", ddi.DxgkDdiDestroyAllocation.is_some()),
        ("DxgkDdiCreateDevice", ddi.DxgkDdiCreateDevice.is_some()),
        ("DxgkDdiCreateContext", ddi.DxgkDdiCreateContext.is_some()),
        ("DxgkDdiBuildPagingBuffer", ddi.DxgkDdiBuildPagingBuffer.is_some()),
    ];
    needed.into_iter().filter(|&(_, is_there)| !is_there).map(|(name, _)| name).collect()
}
