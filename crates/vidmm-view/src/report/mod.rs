//! The report: one page that tells of a run, for a browser without a network.
//!
//! A [`Report`] reads a log once and writes the page. All numbers are in it, packed; the page draws them at any magnification.
//! Text from the log is data of the page, and never markup.

mod columns;
mod findings;
mod names;
mod page;
mod reuse;
mod stories;
mod tables;

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};
use vidmm::{ProcessId, SegmentId};
use vidmm_trace::{Explanations, LogError, LogReader};

use crate::{
    statistics::{ProcessSegmentStatistics, Statistics},
    timeline::Timeline,
};
use tables::Tables;

/// The steps that are remembered of all allocations that are not gone: some 300 MiB. Those beyond are only counted.
const STEPS_MAX: usize = 1_000_000;

/// All that a page shows of a run.
#[derive(Debug)]
pub struct Report {
    title: String,
    facts: Value,
    /// The columns of all tables.
    columns: Vec<u8>,
    /// Blocks of stories, compressed.
    stories: Vec<Vec<u8>>,
}

impl Report {
    /// Reads a log to its end, or to its damage if it may be damaged.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn of<R: BufRead>(log: &mut LogReader<R>) -> Result<Self, LogError> {
        let policy = log.header().settings.get("policy").cloned();
        let mut explanations = Explanations::new(STEPS_MAX).under(policy.as_ref());
        let mut tables = Tables::new(policy);
        let mut timeline = Timeline::new();
        let mut statistics = Statistics::default();
        let (mut events, mut last_at) = (0u64, 0);
        for event in &mut *log {
            let event = event?;
            (events, last_at) = (events + 1, event.at);
            tables.reuse.event(&event.event);
            explanations.event(&event);
            timeline.event(&event).for_each(|record| {
                tables.add(&record);
                statistics.record(&record);
            });
        }
        timeline.finish().for_each(|record| {
            tables.add(&record);
            statistics.record(&record);
        });
        let stories = stories::blocks(explanations, &tables);
        let mut columns = Vec::new();
        let mut facts = tables.pack(&mut columns);
        let header = log.header();
        let run = json!({
            "scenario": header.scenario,
            "seed": header.seed.to_string(),
            "version": header.vidmm_version,
            "level": header.level,
            "settings": header.settings,
            "events": events,
            "lastAt": last_at,
            "damage": log.damage().map(ToString::to_string),
        });
        facts.insert("run".to_owned(), run);
        facts.insert("statistics".to_owned(), sums(statistics));
        Ok(Self { title: header.scenario.clone(), facts: Value::Object(facts), columns, stories })
    }

    /// Writes the page.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        page::write(self, out)
    }
}

/// The rows of the statistics: names, and amounts in bytes.
fn sums(mut statistics: Statistics) -> Value {
    let names = statistics.segments().clone();
    let row = |(process, segment, row): (ProcessId, SegmentId, &ProcessSegmentStatistics)| {
        let memory = names.get(&segment).map_or("system memory", String::as_str);
        let bytes =
            [row.peak_bytes_resident, row.bytes_paged_in, row.bytes_paged_out, row.bytes_filled, row.bytes_demoted];
        json!({ "process": process.to_string(), "memory": memory, "bytes": bytes, "evicted": row.reasons() })
    };
    statistics.rows().map(row).collect()
}
