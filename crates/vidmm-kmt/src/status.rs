//! The statuses that functions answer.

use serde::{Deserialize, Serialize};

/// An `NTSTATUS`. Negative statuses are errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Status(pub i32);

impl Status {
    /// All is done.
    pub const SUCCESS: Self = Self(0);
    /// The call has been accepted, and ends with a paging fence (RES-11).
    pub const PENDING: Self = Self(0x103);
    /// A handle names nothing.
    pub const INVALID_HANDLE: Self = Self(0xC000_0008_u32 as i32);
    /// An argument is wrong.
    pub const INVALID_PARAMETER: Self = Self(0xC000_000D_u32 as i32);
    /// Memory is short (RES-13).
    pub const NO_MEMORY: Self = Self(0xC000_0017_u32 as i32);
    /// The function or the capability is not there.
    pub const NOT_SUPPORTED: Self = Self(0xC000_00BB_u32 as i32);
    /// Too much of something waits.
    pub const INSUFFICIENT_RESOURCES: Self = Self(0xC000_009A_u32 as i32);
    /// The device is in error (FLT-04).
    pub const DEVICE_REMOVED: Self = Self(0xC000_02B6_u32 as i32);
    /// Nothing will end a wait.
    pub const IO_TIMEOUT: Self = Self(0xC000_00B5_u32 as i32);
    /// A lock waits for paging (RES-80).
    pub const ALLOCATION_BUSY: Self = Self(0xC01E_0102_u32 as i32);
    /// The CPU cannot see the allocation (RES-83).
    pub const CANT_LOCK_MEMORY: Self = Self(0xC01E_0101_u32 as i32);

    /// Whether the call did what was asked, or will.
    pub fn is_success(self) -> bool {
        self.0 >= 0
    }
}
