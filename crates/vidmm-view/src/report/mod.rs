//! The report: one page that tells of a run, for a browser without a network.
//!
//! [`write`] reads a log once and writes the page. All numbers are in it, packed; the page draws them at any magnification.
//! Text from the log is data of the page, and never markup.

mod columns;
mod names;
mod page;
mod reuse;
mod stories;
mod tables;

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};
use vidmm_trace::{Explanations, LogError, LogReader};

use crate::timeline::Timeline;
use tables::Tables;

/// The steps of one allocation that a page tells.
const STEPS_MAX: usize = 400;

/// The reason why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The page cannot be written.
    #[error("cannot write the page: {0}")]
    Io(#[from] io::Error),
}

/// Reads a log to its end, or to its damage if it may be damaged, and writes the page of it.
///
/// # Errors
///
/// If the log cannot be read, or the page not be written.
pub fn write<R: BufRead>(log: &mut LogReader<R>, out: &mut impl Write) -> Result<(), ReportError> {
    let mut tables = Tables::new();
    let mut timeline = Timeline::new();
    let mut explanations = Explanations::new(STEPS_MAX);
    let (mut events, mut last_at) = (0u64, 0);
    for event in &mut *log {
        let event = event?;
        (events, last_at) = (events + 1, event.at);
        tables.reuse.event(&event.event);
        explanations.event(&event);
        timeline.event(&event).for_each(|record| tables.add(&record));
    }
    timeline.finish().for_each(|record| tables.add(&record));
    let stories = stories::blocks(explanations, &tables);
    let mut blob = Vec::new();
    let mut facts = tables.pack(&mut blob);
    let header = log.header();
    facts.insert(
        "run".to_owned(),
        json!({
            "scenario": header.scenario,
            "seed": header.seed.to_string(),
            "version": header.vidmm_version,
            "level": header.level,
            "settings": header.settings,
            "events": events,
            "lastAt": last_at,
            "damage": log.damage().map(ToString::to_string),
        }),
    );
    page::write(&header.scenario, &Value::Object(facts), &blob, &stories, out)?;
    Ok(())
}
