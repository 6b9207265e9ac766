//! `vidmm sim`.

use std::{
    error::Error,
    io::{self, Write},
    ops::RangeInclusive,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use vidmm::{NumberedEvent, policy::PolicyChoice};
use vidmm_sim::{
    Campaign, Coverage, ExplicitScenario, Failure, Features, MachineFactory, Observer, SimDesc, Tally, Unobserved,
    replay, shrink, simulate,
};
use vidmm_trace::LogHeader;

use crate::{
    args::{PolicyArg, SimArgs, count_of, jobs, program, quoted, settings},
    output::{Files, write_file},
    progress,
    report::{unless_closed, write_not_judged},
    style::{BAD, BOLD, GOOD, counted, number},
};

/// The number of runs in which a failing scenario is shrunk.
const SHRINK_RUNS: u32 = 4000;

/// Set by the first signal that asks the program to end.
static IS_STOPPED: AtomicBool = AtomicBool::new(false);

/// The exit status of a campaign that a signal has ended, and that found nothing: as a shell has it.
const INTERRUPTED: i32 = 130;

/// Ends the program at the second signal. After the first one the results so far are printed.
pub fn heed_signals() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        if IS_STOPPED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
    })
}

/// Runs seeds, and prints the findings. Returns whether there are none.
pub fn run(args: &SimArgs, factory: &dyn MachineFactory) -> Result<bool, Box<dyn Error>> {
    let of_one_seed = [("--events", args.events.is_some()), ("--shrink", args.shrink.is_some())];
    if let (None, Some((name, _))) = (args.seed, of_one_seed.iter().find(|(_, is_given)| *is_given)) {
        return Err(format!("{name} is for one world; name it with --seed").into());
    }
    if let Some(which) = &args.planted {
        return crate::planted::run(args, which, factory);
    }
    let policy = args.policy.as_ref().map(PolicyArg::choice).transpose()?;
    let seeds = seeds_of(args);
    let jobs = jobs(args.jobs);
    let count = count_of(&seeds);
    if let (Some(seed), Some(events)) = (args.seed, &args.events) {
        write_events(args, (seed, policy), events, factory)?;
    }
    let campaign = Campaign {
        seeds,
        steps: args.steps,
        profile: args.profile,
        policy,
        digest: args.digest,
        coverage: args.coverage,
        jobs,
        max_failures: args.max_failures as usize,
    };
    let bar = progress::bar("Judging", count, "worlds");
    let begun = Instant::now();
    let tally = campaign.run(factory, &IS_STOPPED, &|seed, tally| {
        bar.set_position(tally.seeds);
        // A campaign takes a night: its findings are printed at once, and again at the end.
        if let (Some(failure), None) = (tally.failures.get(&seed), args.seed) {
            bar.suspend(|| eprintln!("seed {seed}: {failure}"));
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let shrunk = match (&args.shrink, tally.failures.first_key_value()) {
        (Some(path), Some((_, failure))) => Some(write_shrunk(path, failure, factory)?),
        _ => None,
    };
    let mut out = anstream::stdout().lock();
    unless_closed(write(&mut out, args, &tally, seconds, factory.lacks()))?;
    if let (Some(steps), Some(path)) = (shrunk, &args.shrink) {
        unless_closed(writeln!(
            out,
            "shrunk      to {steps} steps; replay with `{} run {}`",
            program(),
            path.display()
        ))?;
    }
    let has_found = !tally.failures.is_empty() || !tally.not_started.is_empty();
    if IS_STOPPED.load(Ordering::Relaxed) && !has_found {
        std::process::exit(INTERRUPTED);
    }
    let is_covered = !args.coverage || tally.coverage.unmet().iter().all(|(_, reason)| reason.is_some());
    Ok(!has_found && tally.has_judged() && is_covered)
}

fn seeds_of(args: &SimArgs) -> RangeInclusive<u64> {
    args.seed.map_or_else(|| args.seeds.clone(), |seed| seed..=seed)
}

/// Runs a seed once more, and writes its events.
fn write_events(
    args: &SimArgs,
    (seed, policy): (u64, Option<PolicyChoice>),
    events: &Path,
    factory: &dyn MachineFactory,
) -> Result<(), Box<dyn Error>> {
    let mut header = LogHeader::new(format!("seed-{seed}"), seed);
    header.level = args.events_level.into();
    header.settings = settings(&[], seed, None);
    let mut log = Log(Files::create(Some(events), None, &[], header)?);
    let &SimArgs { steps, profile, .. } = args;
    simulate(SimDesc { seed, steps, profile, policy, digest: false }, factory, &mut log)?;
    Ok(log.0.finish_log()?)
}

/// Shrinks the scenario of a failure, and writes it to a file. Returns the number of steps that are left.
fn write_shrunk(path: &Path, failure: &Failure, factory: &dyn MachineFactory) -> Result<usize, String> {
    let bar = progress::bar("Shrinking", u64::from(SHRINK_RUNS), "runs at most");
    let rule = |scenario: &ExplicitScenario| {
        bar.inc(1);
        let outcome = replay(scenario, factory, &mut Unobserved).ok()?;
        Some(outcome.failure?.finding.rule)
    };
    let scenario = shrink(&failure.scenario, SHRINK_RUNS, rule);
    bar.finish_and_clear();
    write_file(path, scenario.to_toml())?;
    Ok(scenario.steps.len())
}

struct Log(Files);

impl Observer for Log {
    fn event(&mut self, event: &NumberedEvent) {
        self.0.event(event);
    }

    fn goes_on(&self) -> bool {
        !IS_STOPPED.load(Ordering::Relaxed)
    }
}

/// Points that were met less often are named.
const RARE: u64 = 10;

/// Says what a campaign has not met, or hardly.
fn write_coverage(out: &mut impl Write, coverage: &Coverage) -> io::Result<()> {
    let (points, unmet) = (Coverage::points(), coverage.unmet());
    writeln!(out, "coverage    {} of {} points met", points.len() - unmet.len(), points.len())?;
    for (point, reason) in &unmet {
        match reason {
            Some(reason) => writeln!(out, "not met     {point}: {reason}")?,
            None => writeln!(out, "{BAD}never met{BAD:#}   {point}")?,
        }
    }
    for (point, times) in points.iter().map(|point| (point, coverage.times(point))) {
        if (1..RARE).contains(&times) {
            writeln!(out, "rare        {point}: {times}")?;
        }
    }
    Ok(())
}

fn write(out: &mut impl Write, args: &SimArgs, tally: &Tally, seconds: f64, lacks: Features) -> io::Result<()> {
    let Tally {
        seeds,
        stopped,
        machine_steps,
        kernels,
        pages,
        virtual_ns,
        digest,
        failures,
        not_started,
        not_drawn,
        over_at_once,
        without_pages,
        coverage,
    } = tally;
    writeln!(out, "{BOLD}sim{BOLD:#}         {} seeds, profile {}", number(*seeds), args.profile)?;
    writeln!(
        out,
        "steps       {}, each judged; {} kernels, {} pages",
        number(*machine_steps),
        number(*kernels),
        number(*pages)
    )?;
    writeln!(out, "time        {seconds:.1} s; {:.1} s of virtual time", *virtual_ns as f64 / 1e9)?;
    if args.digest {
        writeln!(out, "digest      {digest:#018x}")?;
    }
    if !lacks.is_empty() {
        writeln!(out, "not drawn   {lacks}")?;
        write_not_judged(out, lacks, "")?;
    }
    if *not_drawn > 0 {
        writeln!(out, "{BAD}no world{BAD:#}    for {} seeds: the machine lacks too much", number(*not_drawn))?;
    }
    if IS_STOPPED.load(Ordering::Relaxed) {
        writeln!(
            out,
            "{BAD}interrupted{BAD:#} after {} of {} seeds",
            number(seeds - stopped),
            number(count_of(&seeds_of(args)))
        )?;
    }
    if *over_at_once > 0 {
        let worlds = counted(*over_at_once, "world", "worlds");
        writeln!(
            out,
            "not judged  {worlds}: a fault that was drawn with it put the adapter in error before the first step"
        )?;
    }
    if *without_pages > 0 {
        let worlds = counted(*without_pages, "world", "worlds");
        writeln!(out, "not judged  {worlds}, but for the event log: nobody read a page")?;
    }
    if args.coverage {
        write_coverage(out, coverage)?;
    }
    for (seed, problem) in not_started {
        writeln!(out, "{BAD}not started{BAD:#} seed {seed}: {problem}")?;
    }
    for (seed, failure) in failures {
        let Failure { finding, scenario } = failure;
        if args.seed.is_some() {
            let played = scenario.steps.iter().rev().take(args.show_last);
            for step in played.collect::<Vec<_>>().into_iter().rev() {
                writeln!(out, "  {:>6}    {}", step.line, step.action)?;
            }
        }
        let at = if finding.line == 0 { "the end".to_owned() } else { format!("step {}", finding.line) };
        writeln!(out, "{BAD}finding{BAD:#}     seed {seed}, {at}: {failure}")?;
        writeln!(out, "            in {}", finding.step)?;
        let policy = args.policy.as_ref().map_or_else(String::new, |policy| format!(" --policy {policy}"));
        let program = quoted(&program());
        let (steps, profile) = (args.steps, args.profile);
        let gpu = args.gpu.as_ref().map_or_else(String::new, |gpu| format!(" --gpu {}", quoted(gpu)));
        writeln!(out, "replay      {program} sim --seed {seed} --steps {steps} --profile {profile}{policy}{gpu}")?;
    }
    if !tally.has_judged() {
        return writeln!(out, "{BAD}found{BAD:#}       nothing was judged");
    }
    let style = if failures.is_empty() && not_started.is_empty() { GOOD } else { BAD };
    writeln!(out, "{style}found{style:#}       {}", failures.len() + not_started.len())
}
