//! The driver's present call, in memory that outlives its process.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memmap2::{MmapOptions, MmapRaw};

macro_rules! entries {
    ($($entry:ident),* $(,)?) => {
        /// A function of a driver, or of its GPU's model.
        // `DriverEntry` is WDDM's name.
        #[allow(clippy::enum_variant_names)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Entry {
            $($entry),*
        }

        /// Their names, in order, each with the end of a text in C.
        const NAMES: &[&str] = &[$(concat!(stringify!($entry), "\0")),*];
    };
}

entries! {
    LibraryInitialisation,
    DriverEntry,
    DxgkDdiAddDevice,
    DxgkDdiStartDevice,
    DxgkDdiStopDevice,
    DxgkDdiRemoveDevice,
    DxgkDdiUnload,
    DxgkDdiInterruptRoutine,
    DxgkDdiDpcRoutine,
    DxgkDdiQueryAdapterInfo,
    DxgkDdiGetNodeMetadata,
    DxgkDdiCreateProcess,
    DxgkDdiDestroyProcess,
    DxgkDdiCreateDevice,
    DxgkDdiDestroyDevice,
    DxgkDdiCreateContext,
    DxgkDdiDestroyContext,
    DxgkDdiCreateAllocation,
    DxgkDdiDestroyAllocation,
    DxgkDdiGetStandardAllocationDriverData,
    DxgkDdiOpenAllocation,
    DxgkDdiCloseAllocation,
    DxgkDdiValidateUpdateAllocationProperty,
    DxgkDdiGetRootPageTableSize,
    DxgkDdiSetRootPageTable,
    DxgkDdiBuildPagingBuffer,
    DxgkDdiRender,
    DxgkDdiPatch,
    DxgkDdiSubmitCommand,
    DxgkDdiSubmitCommandVirtual,
    DxgkDdiPreemptCommand,
    DxgkDdiResetEngine,
    DxgkDdiResetFromTimeout,
    DxgkDdiRestartFromTimeout,
    DxgkDdiQueryDependentEngineGroup,
    DxgkDdiDescribeAllocation,
    DxgkDdiQueryCurrentFence,
    DxgkDdiQueryEngineStatus,
    DxgkDdiCollectDbgInfo,
    DxgkDdiSetPowerState,
    DxgkDdiSetPowerComponentFState,
    DxgkDdiPowerRuntimeControlRequest,
    DxgkDdiMapCpuHostAperture,
    DxgkDdiUnmapCpuHostAperture,
    DxgkDdiCancelCommand,
    DxgkDdiPresent,
    Timer,
    GetAllocationPrivateData,
    GpuRun,
    GpuReadPageTableEntry,
    GpuReadAperturePage,
    GpuReadCpuHostAperturePage,
}

/// The names of the paging operations, by number.
pub const OPERATIONS: [&str; 23] = [
    "TRANSFER",
    "FILL",
    "DISCARD_CONTENT",
    "READ_PHYSICAL",
    "WRITE_PHYSICAL",
    "MAP_APERTURE_SEGMENT",
    "UNMAP_APERTURE_SEGMENT",
    "SPECIAL_LOCK_TRANSFER",
    "VIRTUAL_TRANSFER",
    "VIRTUAL_FILL",
    "INIT_CONTEXT_RESOURCE",
    "UPDATE_PAGE_TABLE",
    "FLUSH_TLB",
    "UPDATE_CONTEXT_ALLOCATION",
    "COPY_PAGE_TABLE_ENTRIES",
    "NOTIFY_RESIDENCY",
    "SIGNAL_MONITORED_FENCE",
    "MAP_APERTURE_SEGMENT2",
    "NOTIFY_FENCE_RESIDENCY",
    "MAP_MMU",
    "UNMAP_MMU",
    "NOTIFY_RESIDENCY2",
    "NOTIFY_ALLOC",
];

const CALLS: usize = 0;
const ENTRY: usize = 1;
const OPERATION: usize = 2;
const ALLOCATION: usize = 3;
const BUILDS: usize = 4;
const STEPS: usize = 5;
const FROM_THREADS: usize = 6;
const LAST_ENTRY: usize = 7;
/// How often each paging operation was asked for.
const BY_OPERATION: usize = 8;
/// A text with an end: why the process ends.
const LAST_WORDS: usize = BY_OPERATION + OPERATIONS.len();
const LAST_WORDS_BYTES: usize = 256;
/// The places of the locks that the driver holds: a kind, and an offset in the library.
const HELD_LOCKS: usize = LAST_WORDS + LAST_WORDS_BYTES / 8;
const HELD_LOCKS_MAX: usize = 8;
const WORDS: usize = HELD_LOCKS + HELD_LOCKS_MAX;

impl Entry {
    /// The function's name, as a text in C.
    pub fn c_name(self) -> *const c_char {
        NAMES[self as usize].as_ptr().cast()
    }
}

/// The driver's present call, in a page of memory that another process can look at.
#[derive(Clone, Debug)]
pub struct Progress(Arc<MmapRaw>);

/// The call that the driver was in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Running {
    /// The function.
    pub function: &'static str,
    /// The paging operation, if the function builds one.
    pub operation: Option<&'static str>,
    /// The number of the operation's allocation; 0 if it has none.
    pub allocation: u64,
    /// Calls until then, this one included.
    pub calls: u64,
}

impl std::fmt::Display for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.function)?;
        if let Some(operation) = self.operation {
            write!(f, " of {operation}")?;
        }
        if self.allocation != 0 {
            write!(f, " of allocation {:#x}", self.allocation)?;
        }
        write!(f, ", call {}", self.calls)
    }
}

impl Progress {
    /// Progress that this process alone sees.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub fn anonymous() -> io::Result<Self> {
        Ok(Self(Arc::new(MmapOptions::new().len(WORDS * 8).map_anon()?.into())))
    }

    /// Progress in `file`, for those who map the same file. A new file is made large enough.
    ///
    /// # Errors
    ///
    /// If the file cannot be mapped.
    pub fn shared(file: &File) -> io::Result<Self> {
        file.set_len(WORDS as u64 * 8)?;
        Ok(Self(Arc::new(MmapOptions::new().len(WORDS * 8).map_raw(file)?)))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < WORDS);
        // SAFETY: the mapping is aligned to a page, has WORDS words, lives as long as `self`, and is accessed by atomics alone.
        unsafe { &*self.0.as_ptr().cast::<AtomicU64>().add(at) }
    }

    /// Says that the driver is being called; returns the call that it was in before.
    pub(crate) fn enter(&self, entry: Entry) -> u64 {
        self.step();
        let before = self.word(ENTRY).load(Relaxed);
        if before == 0 {
            self.word(CALLS).store(self.word(CALLS).load(Relaxed) + 1, Relaxed);
        }
        self.word(ENTRY).store(entry as u64 + 1, Relaxed);
        self.word(LAST_ENTRY).store(entry as u64 + 1, Relaxed);
        before
    }

    /// Says that a call has returned to the one before it.
    pub(crate) fn leave(&self, before: u64) {
        self.word(ENTRY).store(before, Relaxed);
        self.step();
    }

    /// Says which operation the next call builds.
    pub(crate) fn build(&self, operation: u32, allocation: u64) {
        self.word(OPERATION).store(operation.into(), Relaxed);
        self.word(ALLOCATION).store(allocation, Relaxed);
        self.word(BUILDS).store(self.word(BUILDS).load(Relaxed) + 1, Relaxed);
        if (operation as usize) < OPERATIONS.len() {
            let word = self.word(BY_OPERATION + operation as usize);
            word.store(word.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Says that a thread of the driver's own has reported something.
    pub(crate) fn note_thread(&self) {
        self.word(FROM_THREADS).fetch_add(1, Relaxed);
    }

    /// How often threads of the driver's own have reported something.
    pub fn reports_from_threads(&self) -> u64 {
        self.word(FROM_THREADS).load(Relaxed)
    }

    /// Begins to count anew.
    pub fn begin(&self) {
        let counts = [CALLS, BUILDS, FROM_THREADS].into_iter().chain(BY_OPERATION..LAST_WORDS);
        counts.for_each(|at| self.word(at).store(0, Relaxed));
    }

    /// Forgets the process that had the driver.
    pub fn reset(&self) {
        (0..WORDS).for_each(|at| self.word(at).store(0, Relaxed));
    }

    /// Where the process of the driver writes why it ends, and the room.
    pub(crate) fn last_words_buffer(&self) -> (*mut u8, usize) {
        (self.0.as_mut_ptr().wrapping_add(LAST_WORDS * 8), LAST_WORDS_BYTES)
    }

    /// Where the driver's library writes the locks that are held, and the room.
    pub(crate) fn held_locks_buffer(&self) -> (*mut u64, usize) {
        (self.0.as_mut_ptr().wrapping_add(HELD_LOCKS * 8).cast(), HELD_LOCKS_MAX)
    }

    /// The locks that the driver holds, each with the place of the acquisition in the library.
    pub fn held_locks(&self) -> Vec<String> {
        let words = (HELD_LOCKS..WORDS).map(|at| self.word(at).load(Relaxed)).filter(|&word| word != 0);
        let kind = |word: u64| if word >> 48 == 1 { "spin lock" } else { "fast mutex" };
        words.map(|word| format!("a {} acquired at +{:#x}", kind(word), word & 0xFFFF_FFFF_FFFF)).collect()
    }

    /// Why the process of the driver has ended, as far as the process could tell; empty if it could not.
    pub fn last_words(&self) -> String {
        let words = (LAST_WORDS..HELD_LOCKS).flat_map(|at| self.word(at).load(Relaxed).to_le_bytes());
        String::from_utf8_lossy(&Vec::from_iter(words.take_while(|&byte| byte != 0))).into_owned()
    }

    /// A number that rises whenever the driver is called or has returned.
    pub fn steps(&self) -> u64 {
        self.word(STEPS).load(Relaxed)
    }

    fn step(&self) {
        self.word(STEPS).store(self.steps() + 1, Relaxed);
    }

    /// How often the driver was called.
    pub fn calls(&self) -> u64 {
        self.word(CALLS).load(Relaxed)
    }

    /// How often the driver was asked for a paging operation.
    pub fn builds(&self) -> u64 {
        self.word(BUILDS).load(Relaxed)
    }

    /// How often the driver was asked for each paging operation, by name; those that were never asked for are left out.
    pub fn operations(&self) -> BTreeMap<String, u64> {
        let counts = (BY_OPERATION..).zip(OPERATIONS).map(|(at, name)| (name.to_owned(), self.word(at).load(Relaxed)));
        counts.filter(|&(_, count)| count > 0).collect()
    }

    /// The call that the driver is in; none if it is in none.
    pub fn running(&self) -> Option<Running> {
        self.called(ENTRY)
    }

    /// The call that the driver was in last.
    pub fn last(&self) -> Option<Running> {
        self.called(LAST_ENTRY)
    }

    fn called(&self, word: usize) -> Option<Running> {
        let entry = self.word(word).load(Relaxed).checked_sub(1)?;
        let builds = entry == Entry::DxgkDdiBuildPagingBuffer as u64;
        let operation = self.word(OPERATION).load(Relaxed) as usize;
        Some(Running {
            function: NAMES.get(entry as usize)?.trim_end_matches('\0'),
            operation: OPERATIONS.get(operation).copied().filter(|_| builds),
            allocation: if builds { self.word(ALLOCATION).load(Relaxed) } else { 0 },
            calls: self.calls(),
        })
    }
}
