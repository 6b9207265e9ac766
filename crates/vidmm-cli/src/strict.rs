//! The findings of strict mode: work that uses what its device has evicted or offered.

use std::io::{self, Write};

use vidmm_sim::UseFinding;

use crate::{
    known::Known,
    sarif,
    style::{BAD, BOLD},
};

/// Whether no use is illegal but those that are known.
pub fn all_known(uses: &[UseFinding], known: &Known) -> bool {
    uses.iter().all(|found| known.has(&found.key()))
}

/// Writes the illegal uses of a run, behind `indent`.
pub fn write(out: &mut impl Write, uses: &[UseFinding], known: &Known, indent: &str) -> io::Result<()> {
    for found in uses {
        let (style, name) = if known.has(&found.key()) { (BOLD, "known") } else { (BAD, "finding") };
        writeln!(out, "{indent}{style}{name:<11}{style:#} {found}")?;
        writeln!(out, "{indent}{:<12}event {}", "", found.event)?;
    }
    Ok(())
}

/// The illegal uses of a run, for other tools.
pub fn entries(uses: &[UseFinding], known: &Known) -> Vec<sarif::Entry> {
    let entry = |found: &UseFinding| sarif::Entry {
        rule: found.ended.fact().to_owned(),
        message: found.to_string(),
        line: found.line.unwrap_or_default(),
        key: found.key(),
        is_known: known.has(&found.key()),
    };
    uses.iter().map(entry).collect()
}
