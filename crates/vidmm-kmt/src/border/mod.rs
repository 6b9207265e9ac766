//! The border to programs in C: the functions of `libdxcore.so`, in front of one session for each process.

mod audit;
mod blobs;
mod client;
mod dxcore;
mod fence_pages;
mod helper;
mod private_data;
mod thunks;
mod tokens;
