//! Sequences of calls on the manager with a driver that is right, on adapters of every kind, with trouble and without:
//! every page has its content, everything comes to its end, and nothing is left. Names of no object are refused and
//! change nothing.

mod steps;
mod wrong;

use vidmm::Event;

use super::{Target, none};
use crate::choices::Choices;
use crate::model::{Model, Tempers};

pub const TARGET: Target = Target { name: "calls", run, seeds: none, words: &[], max_len: 224 };

fn run(data: &[u8]) {
    let mut model = play(data);
    model.run_all();
    model.world.tear_down();
}

/// The events of such a sequence, for tests that need events of every kind.
pub fn events(data: &[u8]) -> Vec<Event> {
    play(data).world.events
}

fn play(data: &[u8]) -> Model {
    let choices = &Choices::new(data);
    let (config, only_local) = steps::adapter(choices);
    let siblings: Vec<bool> = (0..1 + choices.below(3)).map(|_| choices.one_in(2)).collect();
    let busy_every = choices.below(6) as u32;
    let mut model = match choices.one_in(2) {
        true => Model::with_trouble(config, only_local, &siblings, busy_every, &tempers(choices)),
        false => Model::new(config, only_local, &siblings, busy_every),
    };
    // The audit takes longer than most calls, so it runs once after each step.
    model.world.is_audited = false;
    for device in 0..4 {
        model.create(
            device % siblings.len(),
            1 + choices.below(24),
            choices.below(3) as u32,
            choices.any::<u8>().into(),
        );
    }
    while !choices.is_over() {
        match choices.below(12) {
            11 => wrong::call(&mut model.world, choices),
            _ => model.step(&steps::step(choices)),
        }
        model.world.vidmm.check().unwrap();
    }
    model
}

fn tempers(choices: &Choices<'_>) -> Tempers {
    Tempers {
        patience: choices.below(4) as u32,
        resets_at_once: choices.one_in(2),
        stops_at_once: choices.one_in(2),
        dependent: choices.one_in(2),
    }
}
