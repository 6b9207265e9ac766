//! `vidmm sim --planted`: whether each planted bug is found by the rule that it names, in which seed, in how many steps.

use std::{
    error::Error,
    io::{self, Write},
};

use vidmm_saboteur::BUGS;
use vidmm_sim::{Hunt, MachineFactory, Planted, Quarry};

use crate::{
    args::SimArgs,
    progress,
    report::unless_closed,
    style::{BAD, BOLD, GOOD, number},
};

/// Hunts the bugs that are asked for, `all` or some by name. Returns whether each was found by its rule.
pub fn run(args: &SimArgs, which: &str, factory: &dyn MachineFactory) -> Result<bool, Box<dyn Error>> {
    let bugs = chosen(which)?;
    let hunt = Hunt { seeds: *args.seeds.end(), steps: args.steps };
    let mut out = anstream::stdout().lock();
    unless_closed(head(&mut out))?;
    let (mut steps, mut num_free) = (Vec::new(), 0);
    let bar = progress::bar("Hunting", bugs.len() as u64, "bugs");
    for bug in bugs {
        let quarry = hunt.run(bug, factory);
        bar.inc(1);
        match quarry.seed {
            Some(_) => steps.push(quarry.steps),
            None => num_free += 1,
        }
        bar.suspend(|| unless_closed(row(&mut out, bug, &quarry)))?;
    }
    bar.finish_and_clear();
    steps.sort_unstable();
    unless_closed(foot(&mut out, &steps, num_free))?;
    Ok(num_free == 0)
}

fn chosen(which: &str) -> Result<Vec<Planted>, String> {
    if which == "all" {
        return Ok(Planted::all().collect());
    }
    // A mistake of a driver may be hunted in two ways.
    let by_name = |name: &str| {
        let known: Vec<_> = Planted::all().filter(|bug| bug.name() == name || bug.number() == name).collect();
        if known.is_empty() { Err(unknown(name)) } else { Ok(known) }
    };
    Ok(which.split(',').map(by_name).collect::<Result<Vec<_>, _>>()?.concat())
}

fn unknown(name: &str) -> String {
    if BUGS.iter().any(|bug| bug.name == name) {
        return format!(
            "`{name}` is a bug of the manager, which this build does not have; it is in the saboteur's: cargo run \
             -p vidmm-saboteur -- run --release -p vidmm-cli -- sim --planted {name}"
        );
    }
    let names: Vec<String> = Planted::all().map(|bug| bug.to_string()).collect();
    format!("`{name}` is no planted bug; they are {}", names.join(", "))
}

fn head(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{BOLD}{:<31} {:<5} {:<13} {:>5} {:>9}{BOLD:#}", "bug", "rule", "world", "seed", "steps")
}

fn row(out: &mut impl Write, bug: Planted, quarry: &Quarry) -> io::Result<()> {
    let (rule, world, steps) = (bug.rule(), bug.world(), number(quarry.steps));
    match quarry.seed {
        Some(seed) => writeln!(out, "{bug:<31} {rule:<5} {world:<13} {seed:>5} {steps:>9}"),
        None => {
            let others: Vec<String> = quarry.others.iter().map(|(rule, times)| format!("{rule} {times}")).collect();
            writeln!(out, "{bug:<31} {rule:<5} {world:<13} {BAD}{:>5}{BAD:#} {steps:>9}  {}", "none", others.join(", "))
        }
    }
}

fn foot(out: &mut impl Write, steps: &[u64], num_free: usize) -> io::Result<()> {
    let (style, median) = (if num_free == 0 { GOOD } else { BAD }, steps.get(steps.len() / 2).copied().unwrap_or(0));
    let found = steps.len();
    writeln!(
        out,
        "{style}found{style:#}       {found} by their rules, in {} steps in the median; {num_free} not",
        number(median)
    )
}
