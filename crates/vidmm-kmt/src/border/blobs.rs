//! The private data of drivers. The layouts are the library's own: the library is also the helper library of Intel's driver.

use std::ffi::c_void;

use super::tokens;
use crate::call::{AllocationInfo, Memory};

/// The first word of a struct of the helper. The number of tokens follows, and then the tokens.
pub const TOKENS: u64 = 0x3153_4E45_4B4F_5456;

/// The first word of `struct vidmm_kmt_allocation`, for clients without a format of their own.
pub const ALLOCATION: u64 = 0x3143_4F4C_4C41_5456;

/// Tokens of an allocation.
const SIZE: u16 = 3919;
const LOCAL_ONLY: u16 = 3800;
const NON_LOCAL_ONLY: u16 = 3807;
const NOT_LOCKABLE: u16 = 3806;

/// Tokens of the fence that the end of a command buffer signals.
const MONITOR_FENCE_VA: u16 = 3730;
const MONITOR_FENCE_VALUE: u16 = 3731;

/// The words of private data.
///
/// # Safety
///
/// `data` is null, or `size` bytes can be read there.
pub unsafe fn words(data: *const c_void, size: u32) -> Vec<u32> {
    if data.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller says so; the words need no alignment.
    (0..size as usize / 4).map(|at| unsafe { data.cast::<u32>().add(at).read_unaligned() }).collect()
}

fn quad(words: &[u32], at: usize) -> Option<u64> {
    Some(u64::from(*words.get(at)?) | u64::from(*words.get(at + 1)?) << 32)
}

/// The tokens of a struct that the helper made.
pub fn tokens_of(words: &[u32]) -> Option<&[u32]> {
    let number = usize::try_from(quad(words, 2)?).ok()?;
    words.get(4..4_usize.checked_add(number)?).filter(|_| quad(words, 0) == Some(TOKENS))
}

/// The allocation that private data describes; none where the format is unknown.
pub fn allocation(words: &[u32]) -> Option<AllocationInfo> {
    if quad(words, 0) == Some(ALLOCATION) {
        let memory = match words.get(4)? {
            0 => Memory::Local,
            1 => Memory::System,
            2 => Memory::LocalOrSystem,
            _ => return None,
        };
        return Some(AllocationInfo { size: quad(words, 2)?, memory, lockable: *words.get(5)? != 0 });
    }
    let tokens = tokens_of(words)?;
    let is_set = |id| tokens::find(tokens, id).is_some_and(|value| value != 0);
    let memory = match (is_set(LOCAL_ONLY), is_set(NON_LOCAL_ONLY)) {
        (true, false) => Memory::Local,
        (false, true) => Memory::System,
        _ => Memory::LocalOrSystem,
    };
    Some(AllocationInfo { size: tokens::find(tokens, SIZE)?, memory, lockable: !is_set(NOT_LOCKABLE) })
}

/// The GPU virtual address of the fence that the end of a command buffer signals, and the value; 0 and 0 without a fence.
pub fn fence_of_commands(words: &[u32]) -> (u64, u64) {
    let tokens = tokens_of(words).unwrap_or_default();
    let value = |id| tokens::find(tokens, id).unwrap_or(0);
    (value(MONITOR_FENCE_VA), value(MONITOR_FENCE_VALUE))
}
