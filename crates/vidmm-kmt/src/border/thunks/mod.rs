//! The functions of `d3dkmthk.h`: each reads a struct of the caller's, makes a call, and writes the answer into the struct.
//!
//! A function that is not here is answered with `STATUS_NOT_SUPPORTED`, and counted in the log.

use std::ffi::c_void;

use super::client;
use crate::call::{Call, FenceValue, Reply};

/// The elements of an array of the caller's.
///
/// # Safety
///
/// `array` is null, or has `count` elements.
unsafe fn elements<T: Copy>(array: *const T, count: u32) -> Vec<T> {
    if array.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller says so.
    (0..count as usize).map(|at| unsafe { array.add(at).read_unaligned() }).collect()
}

/// Bytes of the caller's.
///
/// # Safety
///
/// `data` is null, or has `size` bytes.
unsafe fn bytes(data: *const c_void, size: u32) -> Vec<u8> {
    // SAFETY: the caller says so.
    unsafe { elements(data.cast::<u8>(), size) }
}

/// The flags of a struct, which are a union of bits and a number of 32 bits.
fn bits<T>(flags: &T) -> u32 {
    const { assert!(size_of::<T>() == 4) };
    // SAFETY: each bit pattern of the four bytes is a number.
    unsafe { std::ptr::from_ref(flags).cast::<u32>().read_unaligned() }
}

/// The pointer at the begin of a union.
fn pointer<T, P>(union: &T) -> *const P {
    const { assert!(size_of::<T>() >= size_of::<*const P>()) };
    // SAFETY: the union is at least as large as a pointer, and each bit pattern is one.
    unsafe { std::ptr::from_ref(union).cast::<*const P>().read_unaligned() }
}

/// Fences with their values.
///
/// # Safety
///
/// Both arrays have `count` elements, or are null.
unsafe fn fences(handles: *const u32, values: *const u64, count: u32) -> Vec<FenceValue> {
    // SAFETY: the caller says so.
    let (handles, values) = unsafe { (elements(handles, count), elements(values, count)) };
    handles.into_iter().zip(values).map(|(fence, value)| FenceValue { fence, value }).collect()
}

/// The client's address of a fence's value.
fn fence_address(slot: u64) -> *mut c_void {
    client::with(|client| client.fence_address(slot as usize)).unwrap_or(std::ptr::null_mut())
}

/// A function, or a part of one, that is not there: counted by name.
fn not_supported(function: impl ToString) -> Reply {
    client::call(Call::NotSupported { function: function.to_string() })
}

/// Defines functions that read one struct. The body answers a [`Reply`]; its status is the function's.
macro_rules! thunks {
    ($($(#[$doc:meta])* $name:ident($args:ident: $type:ty) $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The struct, and the arrays in it, are as the function's page says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($args: *mut $type) -> i32 {
            // SAFETY: the caller gives a struct, or null.
            let Some($args) = (unsafe { $args.as_mut() }) else { return Status::INVALID_PARAMETER.0 };
            let reply: Reply = $body;
            reply.status.0
        }
    )*};
}

mod adapters;
mod allocations;
mod devices;
mod hw_queues;
mod residency;
mod semaphores;
mod sharing;
mod work;

/// Defines functions that are not supported.
macro_rules! not_supported {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "` is not supported.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> i32 {
            not_supported(stringify!($name)).status.0
        }
    )*};
}

not_supported! {
    D3DKMTOpenSyncObjectNtHandleFromName
}
