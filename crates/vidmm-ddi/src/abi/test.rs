//! vidmm's own structs: `vidmm_test.h` and `vidmm_host.h`.

use super::*;

pub const VIDMM_HOST_VERSION: u32 = 9;
pub const VIDMM_TEST_INTERFACE_VERSION: u32 = 6;

/// The driver's stack is measured.
pub const VIDMM_DRAWN_STACK: u32 = 2;
/// Pageable pool is paged out at each rise to DISPATCH_LEVEL.
pub const VIDMM_DRAWN_TRIM: u32 = 1;

pub const VIDMM_TRANSLATION_MAPPED: u32 = 0;
pub const VIDMM_TRANSLATION_ZERO: u32 = 1;

#[repr(C)]
pub struct VIDMM_ALLOCATION {
    pub Size: u64,
    pub MayBeLocal: BOOLEAN,
    pub MayBeSystem: BOOLEAN,
    pub CpuVisible: BOOLEAN,
    pub PermanentSysMem: BOOLEAN,
    pub ExistingSysMem: BOOLEAN,
    pub NotifyEviction: BOOLEAN,
    pub Priority: u32,
    pub Surface: u32,
}

pub type GetAllocationPrivateData = unsafe extern "C" fn(*const VIDMM_ALLOCATION, *mut u8, u32) -> u32;

#[repr(C)]
pub struct VIDMM_GPU {
    pub Run: Option<unsafe extern "C" fn(HANDLE, u32)>,
    pub Translate: Option<unsafe extern "C" fn(HANDLE, u32, u64, BOOLEAN, *mut u32, *mut u64) -> u32>,
    pub ReadPageTableEntry:
        Option<unsafe extern "C" fn(HANDLE, u32, u64, u32, BOOLEAN, u32, *mut DXGK_PTE, *mut DXGK_PTE) -> BOOLEAN>,
    pub ReadAperturePage: Option<unsafe extern "C" fn(HANDLE, u32, u64, *mut u64) -> BOOLEAN>,
    pub Compresses: BOOLEAN,
    pub NumQueuedPackets: u32,
    pub ReadCpuHostAperturePage: Option<unsafe extern "C" fn(HANDLE, u32, u32, *mut u64) -> BOOLEAN>,
}

#[repr(C)]
pub struct VIDMM_TEST_INTERFACE {
    pub Version: u32,
    pub GetAllocationPrivateData: Option<GetAllocationPrivateData>,
    pub Gpu: *const VIDMM_GPU,
    pub GetResourcePrivateData: Option<GetAllocationPrivateData>,
    pub TakesWriteBehind: BOOLEAN,
}

#[repr(C)]
pub struct VIDMM_HOST {
    pub Version: u32,
    pub Report: unsafe extern "C" fn(*const std::ffi::c_char, *const std::ffi::c_char),
    pub Initialize: unsafe extern "C" fn(*const DRIVER_INITIALIZATION_DATA) -> NTSTATUS,
    pub ReadMemory: unsafe extern "C" fn(HANDLE, u32, u64, *mut u8, usize) -> BOOLEAN,
    pub WriteMemory: unsafe extern "C" fn(HANDLE, u32, u64, *const u8, usize) -> BOOLEAN,
    pub CopyPage: unsafe extern "C" fn(HANDLE, u32, u64, u32, u64) -> BOOLEAN,
    pub FillPage: unsafe extern "C" fn(HANDLE, u32, u64, u32) -> BOOLEAN,
    pub DecompressPage: unsafe extern "C" fn(HANDLE, u32, u64, u32, u64) -> BOOLEAN,
    pub MapDmaBuffer: unsafe extern "C" fn(HANDLE, u64, usize) -> *const u8,
    pub RunUserWork: unsafe extern "C" fn(HANDLE, u32, u64, usize, *mut u64, *mut BOOLEAN) -> BOOLEAN,
    pub RaiseInterrupt: unsafe extern "C" fn(HANDLE, u32),
    pub ReadSystemPage: unsafe extern "C" fn(u64, *mut u8) -> BOOLEAN,
    pub WriteSystemPage: unsafe extern "C" fn(u64, *const u8) -> BOOLEAN,
    pub PhysicalAddressOf: unsafe extern "C" fn(*const u8) -> u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct VIDMM_SHIM_COUNTS {
    pub Allocations: u64,
    pub PoolBlocks: u64,
    pub PoolBytes: u64,
    pub LocksHeld: u64,
    pub OpenHandles: u64,
    pub Threads: u64,
    pub WorkItems: u64,
    pub Timers: u64,
}

#[repr(C)]
pub struct VIDMM_SHIM {
    pub Version: u32,
    pub GetCounts: unsafe extern "C" fn(*mut VIDMM_SHIM_COUNTS),
    pub CheckPool: unsafe extern "C" fn(),
    pub FailAt: unsafe extern "C" fn(u64),
    pub BeginCall: unsafe extern "C" fn(u8, *const std::ffi::c_char),
    pub EndCall: unsafe extern "C" fn(BOOLEAN),
    pub SetTime: unsafe extern "C" fn(u64),
    pub GetIrql: unsafe extern "C" fn() -> u8,
    pub Forget: unsafe extern "C" fn(),
    pub SetRegistryValue: unsafe extern "C" fn(*const std::ffi::c_char, *const std::ffi::c_char),
    pub RetireMdl: unsafe extern "C" fn(*mut MDL),
    pub GetResources: unsafe extern "C" fn() -> *const c_void,
    pub MapRegisters: unsafe extern "C" fn(u64, usize) -> *mut c_void,
    pub SetMachine: unsafe extern "C" fn(u64, u64, BOOLEAN, u32),
    pub SetLastWords: unsafe extern "C" fn(*mut std::ffi::c_char, usize),
    pub SetHeldLocks: unsafe extern "C" fn(*mut u64, u32),
    pub ReportLeaks: unsafe extern "C" fn(u64),
    pub StepThreads: unsafe extern "C" fn(u64) -> BOOLEAN,
    pub GuardedCopy: unsafe extern "C" fn(u32, *const c_void, usize, BOOLEAN) -> *mut c_void,
    pub PauseInCallbacks: unsafe extern "C" fn(*mut DXGKRNL_INTERFACE),
    pub TakeDeepest: unsafe extern "C" fn(*mut *const std::ffi::c_char) -> u64,
    pub VanishedCopy: unsafe extern "C" fn(u32, *const c_void, usize) -> *mut c_void,
    pub ChangingCopy: unsafe extern "C" fn(u32, *const c_void, usize) -> *mut c_void,
    pub SetChange: unsafe extern "C" fn(u64, BOOLEAN),
    pub CountMoments: unsafe extern "C" fn(BOOLEAN) -> u64,
    pub NewMdlMemory: unsafe extern "C" fn(usize) -> *mut c_void,
    pub HideMdlMemory: unsafe extern "C" fn(*mut c_void),
    pub FreeMdlMemory: unsafe extern "C" fn(),
    pub ThreadsAreIdle: unsafe extern "C" fn() -> BOOLEAN,
}
