//! Fairness: how evenly the processes of a trace pay for sharing the memory.

use crate::{Object, PlayError, PlayOptions, References, Setup, Step, Trace, TraceError, Use, is_exact, play, study};

/// A process of a trace, as a trace of its own.
#[derive(Debug)]
pub struct Alone {
    trace: Trace,
    /// The number of submissions before the figures begin.
    warm_up: usize,
}

/// The processes of a trace, each alone. The first `warm_up` submissions of the trace are left out of all figures.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn alone(trace: &Trace, warm_up: usize) -> Result<Vec<Alone>, TraceError> {
    let (page, processes) = (trace.measure().page, trace.measure().processes);
    let mut all = vec![(References::with_page(trace.name(), page), 0); processes as usize];
    // Each object. Once used, an object has a process, and a number in the trace of the process.
    let mut objects: Vec<(Object, Option<(u32, u32)>)> = Vec::new();
    let (mut stream, mut step, mut number) = (trace.open(false)?, Step::default(), 0);
    while stream.read(&mut step)? {
        objects.extend(step.objects.iter().map(|&object| (object, None)));
        let (references, warm) = &mut all[step.process as usize];
        let mut uses = Vec::new();
        for used in &step.uses {
            let (object, known) = &mut objects[used.object()];
            let (_, own) = *known.get_or_insert_with(|| (step.process, references.add(object.size, object.lifetime)));
            uses.push(if used.is_write() { Use::write(own) } else { Use::read(own) });
        }
        references.submit_for(uses, step.nanoseconds);
        *warm += usize::from(number < warm_up);
        number += 1;
        for (process, own) in step.dying.iter().filter_map(|&object| objects[object as usize].1) {
            all[process as usize].0.drop_object(own);
        }
    }
    let alone = |(references, warm_up)| Alone { trace: Trace::from(references).with_page(page), warm_up };
    Ok(all.into_iter().map(alone).collect())
}

/// The fairness of a run in which the processes brought in these `bytes_in`: 1 if all pay equally, and 0 at the least.
///
/// Alone, a process has the same memory and policy. A process pays by a quotient: the bytes in of the run, divided by the bytes in
/// alone. Fairness is the smallest quotient, divided by the largest (Gabor, Weiss and Mendelson, MICRO 2006).
///
/// # Errors
///
/// As [`play`].
///
/// # Panics
///
/// As [`play`].
pub fn fairness(alone: &[Alone], bytes_in: &[u64], options: &PlayOptions) -> Result<f64, PlayError> {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for (Alone { trace, warm_up }, &beside) in alone.iter().zip(bytes_in) {
        // A process without a submission that counts pays nothing.
        if trace.measure().submissions == *warm_up as u64 {
            continue;
        }
        let options = PlayOptions { setup: Setup { warm_up: *warm_up, ..options.setup }, ..*options };
        let played = if is_exact(trace, &options) { study(trace, &options) } else { play(trace, &options) };
        let by = played?.bytes_in;
        let quotient = if beside == by { 1.0 } else { beside as f64 / by as f64 };
        (least, most) = (least.min(quotient), most.max(quotient));
    }
    Ok(if least >= most { 1.0 } else { least / most })
}
