//! Clients of the library, in Rust and in C.

#[cfg(target_os = "linux")]
mod c_client;
mod client;
mod hw_queues;
mod legal;
mod pressure;
mod properties;
mod replay;
mod right_clients;
mod rules;
mod sharing;
mod updates;
