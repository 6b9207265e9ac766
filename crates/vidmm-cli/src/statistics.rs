//! `vidmm run --statistics`: the sums of a run, by process and segment.

use std::io::{self, Write};

use vidmm::NumberedEvent;
use vidmm_trace::{ByteSize, explain::words::time};
use vidmm_view::{
    statistics::{ProcessSegmentStatistics, Statistics},
    timeline::Timeline,
};

use crate::style::BOLD;

/// Adds up the events of a run while it runs.
#[derive(Default)]
pub struct Counted {
    timeline: Timeline,
    statistics: Statistics,
}

impl Counted {
    /// Counts an event.
    pub fn event(&mut self, event: &NumberedEvent) {
        let Self { timeline, statistics } = self;
        timeline.event(event).for_each(|record| statistics.record(&record));
    }

    /// Writes the table.
    pub fn write(self, out: &mut impl Write) -> io::Result<()> {
        let Self { timeline, mut statistics } = self;
        timeline.finish().for_each(|record| statistics.record(&record));
        let size = |bytes: u64| if bytes == 0 { "-".to_owned() } else { ByteSize(bytes).to_string() };
        writeln!(
            out,
            "\n{BOLD}{:<12}{:<16}{:>10}{:>10}{:>10}{:>10}{:>10}  evicted{BOLD:#}",
            "process", "memory", "peak", "in", "out", "filled", "demoted"
        )?;
        let names = statistics.segments().clone();
        for (process, segment, row) in statistics.rows() {
            let ProcessSegmentStatistics { peak_bytes_resident, bytes_paged_in, bytes_paged_out, .. } = *row;
            let [peak, paged_in, out_of] = [peak_bytes_resident, bytes_paged_in, bytes_paged_out].map(size);
            let [filled, demoted] = [row.bytes_filled, row.bytes_demoted].map(size);
            let (process, memory) = (process.to_string(), names.get(&segment).map_or("system memory", String::as_str));
            let amounts = format!("{peak:>10}{paged_in:>10}{out_of:>10}{filled:>10}{demoted:>10}");
            writeln!(out, "{process:<12}{memory:<16}{amounts}  {}", row.reasons())?;
        }
        for (process, over_bus) in statistics.over_bus() {
            let (process, lost) = (process.to_string(), time(over_bus.lost_ns));
            write!(out, "{process:<12}{lost} lost to access over the bus ({})", ByteSize(over_bus.bytes))?;
            match over_bus.worst() {
                Some((allocation, lost_ns)) => writeln!(out, ", {} of that for {allocation}", time(lost_ns))?,
                None => writeln!(out)?,
            }
        }
        Ok(())
    }
}
