//! Random sequences of calls and completions, against a ledger that knows nothing of the manager: how often each allocation
//! was made resident, and the token that each of its pages must hold (I02, I04, I06, I07, I13, I28, I29, I32). On adapters of
//! every kind, with allocations of every place that ask for every notification.

use crate::model::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_finds_what_it_requires_and_everything_ends(
        (config, only_local) in adapter(),
        siblings in prop::collection::vec(any::<bool>(), 1..4),
        busy_every in 0..9u32,
        creates in prop::collection::vec((0..3usize, 1..41u64, 0..3u32, any::<u32>()), 8..20),
        steps in prop::collection::vec(step(), 1..120),
        tempers in prop::option::weighted(0.7, tempers()),
    ) {
        let mut model = match &tempers {
            Some(tempers) => Model::with_trouble(config, only_local, &siblings, busy_every, tempers),
            None => Model::new(config, only_local, &siblings, busy_every),
        };
        for (device, pages, priority, kind) in creates {
            model.create(device % siblings.len(), pages, priority, kind);
        }
        for step in &steps {
            model.step(step);
        }
        model.run_all();
        model.world.tear_down();
    }
}
