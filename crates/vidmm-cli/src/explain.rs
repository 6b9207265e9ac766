//! `vidmm explain`.

use std::{error::Error, io::Write};

use vidmm_trace::{Explanation, LogReader, allocation_name, log};

use crate::{args::ExplainArgs, report::unless_closed, style::printable};

/// Reads the log and prints the explanation of the allocation.
pub fn explain(args: &ExplainArgs) -> Result<bool, Box<dyn Error>> {
    let allocation = allocation_name(&args.allocation)?;
    let path = args.events.display();
    let log = log::open(&args.events).map_err(|error| format!("{path}: cannot read: {error}"))?;
    let mut log = LogReader::new(log).map_err(|error| format!("{path}: {error}"))?;
    if args.damaged {
        log = log.damaged();
    }
    let mut explanation = Explanation::new(allocation).under(log.header().settings.get("policy"));
    for event in &mut log {
        explanation.event(&event.map_err(|error| format!("{path}: {error}"))?);
    }
    if let Some(damage) = log.damage() {
        anstream::eprintln!("note: {path} is read up to here: {}", printable(&damage.to_string()));
    }
    let text = explanation.finish().map_err(|error| format!("{path}: {error}"))?;
    unless_closed(anstream::stdout().lock().write_all(text.as_bytes()))?;
    Ok(true)
}
