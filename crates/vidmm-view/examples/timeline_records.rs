//! Counts the records of a log, and adds up the times of its engines: `cargo run -p vidmm-view --example timeline_records EVENTS`.

use std::{collections::BTreeMap, error::Error, path::PathBuf};

use vidmm_trace::{LogReader, log};
use vidmm_view::timeline::{Record, Timeline, record::PacketContent};

fn main() -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("name the log of a run")?);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let (mut paging, mut hidden, mut work) = (0, 0, 0);
    for record in Timeline::of(LogReader::new(log::open(&path)?)?) {
        let record = record?;
        if let Record::Packet(packet) = &record {
            let ran = packet.ended_at - packet.started_at;
            match packet.content {
                PacketContent::Paging { .. } => (paging, hidden) = (paging + ran, hidden + packet.hidden_ns),
                PacketContent::Work { .. } => work += ran,
            }
        }
        let text = format!("{record:?}");
        let kind = text.split('(').next().unwrap_or_default().to_owned();
        *counts.entry(kind).or_default() += 1;
    }
    println!("{counts:#?}");
    println!("engines ran work for {work} ns, paging for {paging} ns, of which {hidden} ns beside work");
    Ok(())
}
