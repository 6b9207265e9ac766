//! Drivers in C under the manager: one program for all families of tests.

mod build_systems;
mod common;
mod layout;
mod names;
mod policies;
mod reference;
mod shim;
