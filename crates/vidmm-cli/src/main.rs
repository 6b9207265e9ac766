//! The command line of vidmm.

fn main() {}
