//! WDDM's structs as the C headers have them, field by field, under WDDM's own names.
//!
//! A struct is here if it crosses the border. `tests/layout.rs` compares each with the C headers and with the offsets in
//! `tests/layout.json`. A union is here with the members that are read or written; its size is the union's.

#![allow(non_camel_case_types, non_snake_case, clippy::upper_case_acronyms)]

use std::ffi::c_void;

/// A struct of C.
pub trait Zeroed {
    /// All bytes zero.
    fn zeroed() -> Self;
}

/// Defines structs with C's layout, and for each a row of [`TWINS`] for the comparison.
macro_rules! twin {
    ($($name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct $name {
                $(pub $field: $type),*
            }

            impl $crate::abi::Zeroed for $name {
                fn zeroed() -> Self {
                    // SAFETY: every field is a number, a pointer, an optional function or an array or struct of these: zero is a value.
                    unsafe { std::mem::zeroed() }
                }
            }
        )*

        /// The size of each struct of this file, and the offset of each field.
        pub const TWINS: &[(&str, usize, &[(&str, usize)])] = &[
            $((
                stringify!($name),
                size_of::<$name>(),
                &[$((stringify!($field), std::mem::offset_of!($name, $field))),*],
            )),*
        ];
    };
}

mod adapter;
mod objects;
mod paging;
mod submission;
mod tables;
mod test;

pub use adapter::{TWINS as ADAPTER_TWINS, *};
pub use objects::{TWINS as OBJECT_TWINS, *};
pub use paging::{TWINS as PAGING_TWINS, *};
pub use submission::{TWINS as SUBMISSION_TWINS, *};
pub use tables::{TWINS as TABLE_TWINS, *};
pub use test::*;

pub type HANDLE = *mut c_void;
pub type NTSTATUS = i32;
pub type BOOLEAN = u8;

pub const STATUS_SUCCESS: NTSTATUS = 0;
pub const STATUS_UNSUCCESSFUL: NTSTATUS = 0xC000_0001_u32 as i32;
pub const STATUS_INVALID_HANDLE: NTSTATUS = 0xC000_0008_u32 as i32;
pub const STATUS_INVALID_PARAMETER: NTSTATUS = 0xC000_000D_u32 as i32;
pub const STATUS_NO_MEMORY: NTSTATUS = 0xC000_0017_u32 as i32;
pub const STATUS_ILLEGAL_INSTRUCTION: NTSTATUS = 0xC000_001D_u32 as i32;
pub const STATUS_REVISION_MISMATCH: NTSTATUS = 0xC000_0059_u32 as i32;
pub const STATUS_PRIVILEGED_INSTRUCTION: NTSTATUS = 0xC000_0096_u32 as i32;
pub const STATUS_NOT_SUPPORTED: NTSTATUS = 0xC000_00BB_u32 as i32;
pub const STATUS_INSUFFICIENT_RESOURCES: NTSTATUS = 0xC000_009A_u32 as i32;
pub const STATUS_INVALID_USER_BUFFER: NTSTATUS = 0xC000_00E8_u32 as i32;
pub const STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER: NTSTATUS = 0xC01E_0001_u32 as i32;
pub const STATUS_GRAPHICS_DRIVER_MISMATCH: NTSTATUS = 0xC01E_0009_u32 as i32;
pub const STATUS_GRAPHICS_ALLOCATION_BUSY: NTSTATUS = 0xC01E_0102_u32 as i32;

/// Every struct of this module.
#[cfg_attr(not(test), allow(dead_code))]
pub fn twins() -> impl Iterator<Item = &'static (&'static str, usize, &'static [(&'static str, usize)])> {
    [ADAPTER_TWINS, OBJECT_TWINS, PAGING_TWINS, SUBMISSION_TWINS, TABLE_TWINS].into_iter().flatten()
}
