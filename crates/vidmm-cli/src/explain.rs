//! `vidmm explain`.

use std::{error::Error, io::Write};

use vidmm_trace::{Explanation, allocation_name};

use crate::{args::ExplainArgs, progress::read_log, report::unless_closed};

/// Reads the log and prints the explanation of the allocation.
pub fn explain(args: &ExplainArgs) -> Result<bool, Box<dyn Error>> {
    let allocation = allocation_name(&args.allocation)?;
    let path = args.events.display();
    let explanation = read_log(&args.events, args.damaged, |log| {
        let mut explanation = Explanation::new(allocation).under(log.header().settings.get("policy"));
        for event in log {
            explanation.event(&event.map_err(|error| format!("{path}: {error}"))?);
        }
        Ok(explanation)
    })?;
    let text = explanation.finish().map_err(|error| format!("{path}: {error}"))?;
    unless_closed(anstream::stdout().lock().write_all(text.as_bytes()))?;
    Ok(true)
}
