//! `vidmm explain`.

use std::{error::Error, fs::File, io::BufReader};

use vidmm_trace::{Explanation, LogReader, allocation_name};

use crate::args::ExplainArgs;

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
    anstream::print!("{}", explanation.finish().map_err(|error| format!("{path}: {error}"))?);
    Ok(true)
}
