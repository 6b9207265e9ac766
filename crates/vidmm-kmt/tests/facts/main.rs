//! Clients of the library, in Rust and in C.

#[cfg(target_os = "linux")]
mod c_client;
mod client;
mod legal;
mod pressure;
mod replay;
mod rules;
mod sharing;
