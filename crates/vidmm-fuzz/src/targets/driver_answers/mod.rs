//! A driver and engines with arbitrary answers, under a caller with arbitrary calls: the manager never panics, its
//! records agree, and at most the adapter is in error, for a rule that is named.

mod calls;
mod interrupts;
mod objects;

use super::{Target, none};
use crate::choices::Choices;
use crate::rig::{Driver, Host, Rig, adapter};

pub const TARGET: Target = Target { name: "driver_answers", run, seeds: none, words: &[], max_len: 224 };

fn run(data: &[u8]) {
    let choices = Choices::new(data);
    let (mut driver, host) = (Driver::new(adapter(&choices), choices.clone()), Host::new(choices.clone()));
    driver.paging_va_mib = choices.pick(&[None, Some(0), Some(1)]);
    let mut rig = Rig::start(driver, host, choices.clone()).expect("the adapter is possible");
    rig.run_all();
    rig.begin();
    (rig.driver.is_wild, rig.host.is_short) = (true, true);
    while !choices.is_over() {
        match choices.below(16) {
            0..=6 => rig.call(),
            7..=11 => rig.go_on(),
            _ => rig.misreport(),
        }
        rig.check();
    }
    // Nothing odd happens any more, and all work must end.
    rig.run_all();
    rig.check();
}
