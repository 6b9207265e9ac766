//! Shrinks a scenario that fails, so that its reader sees only the steps that matter.

use std::path::Path;

use toml::{Table, Value};

use super::simpler::simpler_tables;
use crate::scenario::steps::{Action, Call, Step};
use crate::scenario::{ExplicitScenario, ScenarioFile};

/// The keys beside steps that are made simpler.
const MACHINE: [&str; 3] = ["faults", "adapter", "cost"];

/// Returns the smallest scenario that fails which at most `runs` runs of it show.
///
/// `fails` runs a scenario and names the rule by which it fails, if it does. The returned scenario fails by the same
/// rule. Steps are dropped first, together with the steps that depend on them, then names in lists. Then keys of steps
/// and of the machine go back to their defaults, and sizes, numbers and times become smaller. A scenario that does not
/// fail is returned as it is.
pub fn shrink<R: PartialEq>(
    scenario: &ExplicitScenario,
    runs: u32,
    fails: impl FnMut(&ExplicitScenario) -> Option<R>,
) -> ExplicitScenario {
    let mut shrinker = Shrinker { best: scenario.clone(), rule: None, fails, runs_left: runs };
    shrinker.rule = shrinker.run(scenario);
    if shrinker.rule.is_some() {
        while shrinker.drop_steps() | shrinker.shrink_groups() | shrinker.simplify() {}
    }
    shrinker.best
}

struct Shrinker<R, F> {
    /// The smallest scenario so far that fails by the rule.
    best: ExplicitScenario,
    rule: Option<R>,
    fails: F,
    runs_left: u32,
}

impl<R: PartialEq, F: FnMut(&ExplicitScenario) -> Option<R>> Shrinker<R, F> {
    fn run(&mut self, scenario: &ExplicitScenario) -> Option<R> {
        self.runs_left = self.runs_left.checked_sub(1)?;
        (self.fails)(scenario)
    }

    /// Keeps a scenario if it makes sense, differs from the present one, and fails by the same rule.
    fn keeps(&mut self, scenario: ExplicitScenario) -> bool {
        if scenario.steps.is_empty() || scenario == self.best || scenario.check().is_err() {
            return false;
        }
        let keeps = self.run(&scenario).is_some_and(|rule| Some(rule) == self.rule);
        if keeps {
            self.best = scenario;
        }
        keeps
    }

    /// Drops chunks of steps, each half as long as the ones before, the last steps first.
    fn drop_steps(&mut self) -> bool {
        let mut dropped = false;
        let mut length = self.best.steps.len().div_ceil(2);
        while length > 0 {
            let mut end = self.best.steps.len();
            while end > 0 && self.runs_left > 0 {
                let start = end.saturating_sub(length);
                let mut steps = self.best.steps.clone();
                steps.drain(start..end);
                dropped |= self.keeps_steps(steps);
                end = start.min(self.best.steps.len());
            }
            length /= 2;
        }
        dropped
    }

    /// Makes groups of allocations smaller.
    fn shrink_groups(&mut self) -> bool {
        let mut shrunk = false;
        for at in 0..self.best.steps.len() {
            let counts: [fn(u32) -> u32; 4] = [|_| 1, |count| count / 4, |count| count / 2, |count| count - 1];
            for smaller in counts {
                let mut steps = self.best.steps.clone();
                if let Some(count) = steps.get_mut(at).and_then(group) {
                    *count = smaller(*count).max(1);
                    shrunk |= self.keeps_steps(steps);
                }
            }
        }
        shrunk
    }

    /// Keeps these steps, without those that make no sense any more, if the scenario still fails by the same rule.
    fn keeps_steps(&mut self, steps: Vec<Step>) -> bool {
        let mut scenario = ExplicitScenario { steps, ..self.best.clone() };
        scenario.drop_orphans();
        self.keeps(scenario)
    }

    /// Makes the machine simpler, then each step.
    fn simplify(&mut self) -> bool {
        let mut simplified = self.simplify_part(machine, |table, machine| {
            MACHINE.iter().for_each(|&key| drop(table.remove(key)));
            table.extend(machine);
        });
        for at in 0..self.best.steps.len() {
            simplified |= self.simplify_part(
                |table| steps(table)[at].as_table().expect("a step is a table").clone(),
                |table, step| steps(table)[at] = Value::Table(step),
            );
        }
        simplified
    }

    /// Tries each simplification of a part of the scenario's file.
    fn simplify_part(&mut self, part: impl Fn(&mut Table) -> Table, put_back: impl Fn(&mut Table, Table)) -> bool {
        let (mut simplified, mut next) = (false, 0);
        while self.runs_left > 0 {
            let mut table = table_of(&self.best);
            let Some(simpler) = simpler_tables(&part(&mut table)).into_iter().nth(next) else { break };
            put_back(&mut table, simpler);
            let keeps = scenario_of(&table, self.best.seed).is_some_and(|scenario| self.keeps(scenario));
            simplified |= keeps;
            next += usize::from(!keeps);
        }
        simplified
    }
}

/// How many allocations a step creates as a group.
fn group(step: &mut Step) -> Option<&mut u32> {
    match &mut step.action {
        Action::Call(Call::CreateAllocation(create)) => create.count.as_mut().filter(|count| **count > 1),
        _ => None,
    }
}

/// The file of a scenario. Its seed may be too large for a table.
fn table_of(scenario: &ExplicitScenario) -> Table {
    let scenario = ExplicitScenario { seed: 0, ..scenario.clone() };
    scenario.to_toml().parse().expect("what is written is TOML")
}

/// The scenario of a file, if it is one.
fn scenario_of(table: &Table, seed: u64) -> Option<ExplicitScenario> {
    let text = toml::to_string(table).ok()?;
    match ScenarioFile::parse(&text, Path::new("")) {
        Ok(ScenarioFile::Explicit(scenario)) => Some(ExplicitScenario { seed, ..*scenario }),
        _ => None,
    }
}

/// The keys of a file that describe the machine.
fn machine(table: &mut Table) -> Table {
    let keys = MACHINE.iter().filter_map(|&key| Some((key.to_owned(), table.get(key)?.clone())));
    keys.collect()
}

/// The steps of a file.
fn steps(table: &mut Table) -> &mut Vec<Value> {
    table.get_mut("step").and_then(Value::as_array_mut).expect("a scenario has steps")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::steps::{Look, Until, Wait};

    fn parse(text: &str) -> ExplicitScenario {
        match ScenarioFile::parse(text, Path::new("tiny.toml")) {
            Ok(ScenarioFile::Explicit(scenario)) => *scenario,
            other => panic!("{text}\n{other:?}"),
        }
    }

    /// A long scenario: allocations, each of them used, by two processes.
    fn long(allocations: usize) -> ExplicitScenario {
        let mut text = "seed = 18446744073709551615\nfaults = [\"skip-tlb-flush@3\", \"hang-packet\"]\n[cost]\nbus-gb-per-s = 3.0\n\
            [adapter]\nlocal-memory = \"64 MiB\"\npage-size = \"4 KiB\"\npaging-buffer = \"8 KiB\"\ntdr.delay = \"1 s\"\n\
            [[step]]\ncreate-process = \"Q\"\n[[step]]\ncreate-device = \"E\"\nprocess = \"Q\"\n"
            .to_owned();
        for number in 0..allocations {
            let device = ["D", "E"][number % 2];
            text += &format!(
                "[[step]]\ncreate-allocation = \"A{number}\"\nsize = \"{} MiB\"\npriority = \"low\"\ndevice = \"{device}\"\n\
                 [[step]]\nmap = \"A{number}\"\n[[step]]\nmake-resident = [\"A{number}\", \"A{}\"]\nflags = [\"must-succeed\", \
                 \"cant-trim-further\"]\n[[step]]\nkernel = \"K{number}\"\nwrites = \"A{number}\"\nnanoseconds = 500000\n[[step]]\n\
                 wait = \"20 ms\"\n[[step]]\nevict = \"A{number}\"\n",
                number + 2,
                number - number % 2 * 2 % (number + 1),
            );
        }
        parse(&text)
    }

    fn evicts(scenario: &ExplicitScenario, name: &str) -> bool {
        scenario.steps.iter().any(|step| match &step.action {
            Action::Call(Call::Evict(evict)) => evict.allocations.iter().any(|allocation| allocation == name),
            _ => false,
        })
    }

    /// The shrunk scenario without its name and seed, and how many runs it took.
    fn shrunk(
        scenario: &ExplicitScenario,
        runs: u32,
        mut fails: impl FnMut(&ExplicitScenario) -> Option<&'static str>,
    ) -> (String, u32) {
        let mut taken = 0;
        let small = shrink(scenario, runs, |scenario| {
            taken += 1;
            scenario.check().expect("only what makes sense is run");
            fails(scenario)
        });
        assert_eq!((&small.name, small.seed), (&scenario.name, scenario.seed));
        let text = small.to_toml();
        (text.split_once("\n\n").expect("steps follow").1.to_owned(), taken)
    }

    #[test]
    fn a_failing_step_is_left_with_the_steps_that_it_depends_on() {
        let (text, runs) = shrunk(&long(40), 2000, |scenario| evicts(scenario, "A17").then_some("I05"));
        assert_eq!(text, "[[step]]\ncreate-allocation = \"A17\"\nsize = \"4 KiB\"\n\n[[step]]\nevict = \"A17\"\n");
        assert!(runs < 200, "{runs} runs for 242 steps");
    }

    #[test]
    fn a_long_interplay_becomes_its_few_steps() {
        let fails = |scenario: &ExplicitScenario| {
            let kernels = scenario.steps.iter().filter(|step| matches!(step.action, Action::Call(Call::Kernel(_))));
            (kernels.count() >= 3 && evicts(scenario, "A3") && evicts(scenario, "A38")).then_some("I01")
        };
        let (text, _) = shrunk(&long(40), 2000, fails);
        assert_eq!(text.matches("[[step]]").count(), 7, "{text}");
    }

    #[test]
    fn the_smaller_scenario_fails_by_the_same_rule() {
        let fails = |scenario: &ExplicitScenario| Some(if scenario.steps.len() > 100 { "I05" } else { "I01" });
        let (text, _) = shrunk(&long(40), 2000, fails);
        assert_eq!(text.matches("[[step]]").count(), 101);
    }

    #[test]
    fn the_machine_keeps_the_keys_without_which_it_does_not_fail() {
        let fails = |scenario: &ExplicitScenario| {
            let fits = scenario.local_memory_bytes >= 5 << 20 && scenario.adapter.tdr.delay.ns >= 1000;
            (fits && scenario.local_memory_bytes < 256 << 20 && scenario.faults.len() == 1).then_some("I06")
        };
        let mut scenario = long(2);
        scenario.faults.truncate(1);
        let small = shrink(&scenario, 2000, fails);
        assert_eq!(small.local_memory_bytes, 8 << 20);
        assert_eq!(small.cost, Default::default());
        assert_eq!(small.adapter.paging_buffer, vidmm_trace::ByteSize::kib(64), "it is the default");
        assert_eq!((small.faults.len(), small.steps.len()), (1, 1));
    }

    #[test]
    fn groups_lose_members_and_lists_lose_names() {
        let text = "[[step]]\ncreate-allocation = \"A\"\nsize = \"1 MiB\"\ncount = 100\n[[step]]\nmap = \"A\"\n[[step]]\n\
            kernel = \"K\"\nreads = \"A\"\n";
        let reads_two = |scenario: &ExplicitScenario| {
            let last = scenario.steps.last().map(|step| &step.action);
            matches!(last, Some(Action::Call(Call::Kernel(kernel))) if kernel.reads.len() >= 2).then_some("I04")
        };
        let small = shrink(&parse(text), 2000, reads_two);
        let Action::Call(Call::Kernel(kernel)) = &small.steps[2].action else { panic!("{small:?}") };
        assert_eq!(kernel.reads.len(), 2);
        let Action::Call(Call::CreateAllocation(create)) = &small.steps[0].action else { panic!("{small:?}") };
        assert!(create.count == Some(2), "{create:?}");
    }

    #[test]
    fn waits_become_short() {
        let waits = |scenario: &ExplicitScenario| {
            let long = |step: &Step| match &step.action {
                Action::Look(Look::Wait(Wait { until: Until::For(duration) })) => duration.ns >= 1000,
                _ => false,
            };
            scenario.steps.iter().any(long).then_some("I22")
        };
        let (text, _) = shrunk(&long(10), 2000, waits);
        let wait = text.strip_prefix("[[step]]\nwait = \"").and_then(|text| text.strip_suffix("\"\n"));
        let wait: crate::scenario::Duration = wait.expect("one step is left").parse().expect("it is a time");
        assert!((1000..2000).contains(&wait.ns), "{wait}");
    }

    #[test]
    fn runs_are_counted_and_a_scenario_that_does_not_fail_stays() {
        let (_, runs) = shrunk(&long(40), 30, |_| Some("I01"));
        assert!(runs <= 30);
        let scenario = long(3);
        assert_eq!(shrink(&scenario, 2000, |_| None::<u8>), scenario);
    }
}
