//! The last lines of a run about devices that waited behind others.

use std::io::{self, Write};

use vidmm_sim::HeldUp;

use crate::style::BAD;

/// The number of waits that are shown.
const MOST: usize = 8;

/// Writes the waits of devices behind others that kept their memory.
pub fn write(out: &mut impl Write, held_up: &[HeldUp], indent: &str) -> io::Result<()> {
    for wait in held_up.iter().take(MOST) {
        writeln!(out, "{indent}{BAD}held up{BAD:#}     {wait}")?;
    }
    match held_up.len().saturating_sub(MOST) {
        0 => Ok(()),
        more => writeln!(out, "{indent}            and {more} more waits"),
    }
}
