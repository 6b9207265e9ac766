//! `vidmm explain`.

use std::{
    error::Error,
    fs::File,
    io::{BufReader, Write},
};

use vidmm_trace::{Explanation, LogReader, allocation_name};

use crate::{args::ExplainArgs, report::unless_closed};

/// Reads the log and prints the explanation of the allocation.
pub fn explain(args: &ExplainArgs) -> Result<bool, Box<dyn Error>> {
    let allocation = allocation_name(&args.allocation)?;
    let path = args.events.display();
    let log = File::open(&args.events).map_err(|error| format!("{path}: cannot read: {error}"))?;
    let log = LogReader::new(BufReader::new(log)).map_err(|error| format!("{path}: {error}"))?;
    let mut explanation = Explanation::new(allocation);
    for event in log {
        explanation.event(&event.map_err(|error| format!("{path}: {error}"))?);
    }
    let text = explanation.finish().map_err(|error| format!("{path}: {error}"))?;
    unless_closed(anstream::stdout().lock().write_all(text.as_bytes()))?;
    Ok(true)
}
