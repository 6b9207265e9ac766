//! Drivers in C under the manager: one program for all families of tests.

mod common;
mod layout;
mod reference;
