//! References that the manager plays, beside a naive cache and the offline optimum.

use microlp::{ComparisonOp, OptimizationDirection, Problem};
use proptest::prelude::*;
use vidmm::policy::PolicyChoice;
use vidmm_replay::{Lists, PAGE, PlayError, PlayOptions, Played, References, Setup, Trace, Use, bounds, play, suite};
use vidmm_trace::Lifetime;

const LISTS: [Lists; 2] = [Lists::Anew, Lists::Kept];

fn trace(references: &References) -> Trace {
    references.clone().into()
}

fn played(references: &References, local_memory: u64, policy: PolicyChoice, lists: Lists) -> Played {
    play(&trace(references), &PlayOptions { lists, ..PlayOptions::new(local_memory, policy) }).unwrap()
}

fn min_split(references: &References, local_memory: u64) -> u64 {
    bounds::min_split(&trace(references), &Setup::new(local_memory)).unwrap().bytes_in
}

fn min_whole(references: &References, local_memory: u64) -> u64 {
    bounds::min_whole(&trace(references), &Setup::new(local_memory)).unwrap().bytes_in
}

/// Bytes that a least recently used order brings in, from a list of what is resident.
fn naive_lru(references: &References, local_memory: u64) -> u64 {
    let size = |object: usize| references.objects()[object].size;
    let (mut resident, mut bytes_in): (Vec<usize>, u64) = (Vec::new(), 0);
    for list in references.submissions() {
        for object in list.iter().map(|used| used.object()) {
            match resident.iter().position(|&other| other == object) {
                Some(at) => drop(resident.remove(at)),
                None => bytes_in += size(object),
            }
            resident.push(object);
        }
        while resident.iter().map(|&object| size(object)).sum::<u64>() > local_memory {
            resident.remove(0);
        }
    }
    bytes_in
}

/// The least that whole objects of one size, used one at a time, have to be brought in: every choice is tried.
fn least(uses: &[usize], at: usize, resident: &[usize], room: usize) -> u64 {
    let Some(&used) = uses.get(at) else { return 0 };
    if resident.contains(&used) {
        return least(uses, at + 1, resident, room);
    }
    let with = |mut rest: Vec<usize>| {
        rest.push(used);
        least(uses, at + 1, &rest, room)
    };
    if resident.len() < room {
        return 1 + with(resident.to_vec());
    }
    let without = |&leaving: &usize| resident.iter().copied().filter(|&other| other != leaving).collect();
    1 + resident.iter().map(|leaving| with(without(leaving))).min().expect("there is room for one")
}

/// The least bytes in, as a linear program (the flow of Berger, Beckmann and Harchol-Balter's FOO, with bytes of objects): of each object,
/// some pages stay from one use to the next, and all that stays while a submission runs fits beside the submission's list.
fn linear_program(references: &References, local_memory: u64) -> u64 {
    let size = |object: usize| references.objects()[object].size / PAGE;
    let mut program = Problem::new(OptimizationDirection::Maximize);
    let (mut last, mut stays) = (vec![None; references.objects().len()], Vec::new());
    let (mut pages, mut room) = (0, Vec::new());
    for (number, list) in references.submissions().enumerate() {
        let mut left = local_memory / PAGE;
        for object in list.iter().map(|used| used.object()) {
            (pages, left) = (pages + size(object), left - size(object));
            if let Some(before) = last[object].replace(number) {
                stays.push((before, number, program.add_var(1.0, (0.0, size(object) as f64))));
            }
        }
        room.push(left);
    }
    for (number, left) in room.into_iter().enumerate() {
        let beside = stays.iter().filter(|(from, to, _)| *from < number && number < *to);
        let sum = Vec::from_iter(beside.map(|&(.., stay)| (stay, 1.0)));
        program.add_constraint(&sum[..], ComparisonOp::Le, left as f64);
    }
    let solution = program.solve().unwrap().into_solution().unwrap();
    (pages - solution.objective().round() as u64) * PAGE
}

/// Objects of up to eight pages, and lists of up to four of them.
fn references() -> impl Strategy<Value = References> {
    let sizes = proptest::collection::vec(1..=8_u64, 12);
    let lists = proptest::collection::vec(proptest::collection::btree_set(0..12_u32, 1..=4), 1..80);
    (sizes, lists).prop_map(|(sizes, lists)| {
        let mut references = References::new("random", sizes.into_iter().map(|pages| pages * PAGE));
        lists.into_iter().for_each(|list| references.submit(list.into_iter().map(Use::read)));
        references
    })
}

proptest! {
    #[test]
    fn the_optimum_is_that_of_a_linear_program(references in references(), spare in 0..40_u64) {
        let local_memory = trace(&references).measure().largest_list + spare * PAGE;
        prop_assert_eq!(min_split(&references, local_memory), linear_program(&references, local_memory));
    }

    #[test]
    fn the_manager_brings_in_what_a_naive_cache_does(references in references(), spare in 0..40_u64) {
        let local_memory = trace(&references).measure().largest_list + spare * PAGE;
        for lists in LISTS {
            let Played { bytes_in, misses, bytes_out, uses, .. } = played(&references, local_memory, PolicyChoice::LRU, lists);
            prop_assert_eq!(bytes_in, naive_lru(&references, local_memory));
            prop_assert!(misses <= uses && (misses > 0) == (bytes_in > 0));
            prop_assert_eq!((bytes_out, uses), (0, references.len() as u64));
        }
    }

    #[test]
    fn each_miss_brings_in_an_object(uses in proptest::collection::vec(0..12_u32, 1..100), room in 1..12_u64, in_flight in 1..20_u64) {
        let mut references = References::new("one size", [PAGE; 12]);
        uses.into_iter().for_each(|object| references.submit([Use::read(object)]));
        for lists in LISTS {
            let setup = Setup { in_flight, ..Setup::new(room * PAGE) };
            let options = PlayOptions { setup, lists, policy: PolicyChoice::LRU };
            let Played { misses, bytes_in, .. } = play(&trace(&references), &options).unwrap();
            prop_assert_eq!(misses * PAGE, bytes_in);
        }
    }

    #[test]
    fn no_policy_brings_in_less_than_the_optimum(references in references(), spare in 0..40_u64) {
        let local_memory = trace(&references).measure().largest_list + spare * PAGE;
        let optimum = min_split(&references, local_memory);
        prop_assert!(optimum <= min_whole(&references, local_memory));
        for warm_up in [0, 20] {
            let setup = Setup { warm_up, ..Setup::new(local_memory) };
            let pfoo = bounds::pfoo_lower(&trace(&references), &setup).unwrap();
            prop_assert!(pfoo <= bounds::min_split(&trace(&references), &setup).unwrap().bytes_in, "{}", pfoo);
        }
        for policy in PolicyChoice::ALL {
            prop_assert!(optimum <= played(&references, local_memory, policy, Lists::Anew).bytes_in, "{}", policy);
        }
    }

    #[test]
    fn of_one_size_both_optima_are_the_least_of_all_choices(uses in proptest::collection::vec(0..5_usize, 1..12), room in 1..5_usize) {
        let mut references = References::new("one size", [PAGE; 5]);
        uses.iter().for_each(|&object| references.submit([Use::read(object as u32)]));
        let least = least(&uses, 0, &[], room) * PAGE;
        let local_memory = room as u64 * PAGE;
        prop_assert_eq!(min_split(&references, local_memory), least);
        prop_assert_eq!(min_whole(&references, local_memory), least);
    }
}

/// Two objects in turn, and memory for one and a half: half of each hit fits beside the object in use.
#[test]
fn the_lower_bound_takes_a_hit_in_part() {
    let mut references = References::new("turn", [2 * PAGE; 2]);
    (0..10).for_each(|at| references.submit([Use::read(at % 2)]));
    // Eight hits of 2 pages each take 2 submissions; 3 pages over 10 submissions are 30, and each page of a hit costs 2.
    let bound = bounds::pfoo_lower(&trace(&references), &Setup::new(3 * PAGE)).unwrap();
    assert_eq!(bound, (20 - 15) * PAGE);
}

/// An object that is made at its first use is not brought in, and one that is dropped after its last is not copied out.
#[test]
fn objects_that_are_made_and_dropped_meanwhile_move_no_bytes() {
    let mut references = References::new("made", [PAGE]);
    for _ in 0..20 {
        let made = references.add(2 * PAGE, Lifetime::Temporary);
        references.submit([Use::write(made)]);
        references.submit([Use::read(made), Use::read(0)]);
    }
    assert_eq!(references.footprint(), 3 * PAGE);
    for lists in LISTS {
        let Played { bytes_in, bytes_out, .. } = played(&references, 3 * PAGE, PolicyChoice::LRU, lists);
        assert_eq!((bytes_in, bytes_out), (PAGE, 0), "{lists:?}");
    }
    assert_eq!(min_split(&references, 3 * PAGE), PAGE);
}

/// An object that is written is copied out when it leaves, and comes back.
#[test]
fn written_objects_are_copied_out() {
    let mut references = References::new("written", [PAGE; 3]);
    (0..30).for_each(|at| references.submit([Use::write(at % 3)]));
    let Played { bytes_in, bytes_out, evictions, misses, .. } =
        played(&references, 2 * PAGE, PolicyChoice::LRU, Lists::Anew);
    assert_eq!((bytes_in, misses), (30 * PAGE, 30));
    assert_eq!((bytes_out, evictions), (28 * PAGE, 28));
}

#[test]
fn figures_of_the_warm_up_are_left_out() {
    let mut references = References::new("turn", [PAGE; 4]);
    (0..40).for_each(|at| references.submit([Use::read(at % 4)]));
    let all = PlayOptions::new(4 * PAGE, PolicyChoice::LRU);
    let warm = PlayOptions { setup: Setup { warm_up: 4, ..all.setup }, ..all };
    let trace = trace(&references);
    let [all_played, after] = [all, warm].map(|options| play(&trace, &options).unwrap());
    assert_eq!((all_played.misses, after.misses, after.uses), (4, 0, 36));
    assert_eq!(bounds::min_split(&trace, &warm.setup).unwrap().bytes_in, 0);
}

#[test]
fn a_submission_that_does_not_fit_is_refused() {
    let mut references = References::new("large", [PAGE; 4]);
    references.submit((0..4).map(Use::read));
    let refused = play(&trace(&references), &PlayOptions::new(3 * PAGE, PolicyChoice::LRU)).unwrap_err();
    assert!(matches!(refused, PlayError::TooLarge { largest_list, .. } if largest_list == 4 * PAGE), "{refused}");
}

/// The figures by which one can tell that another's generators are the same.
#[test]
fn layers_in_turn_cost_lru_eight_times_the_optimum_and_predict_a_fifth_more_than_it() {
    let references = suite::cyclic(1);
    assert_eq!((references.objects().len(), references.submissions().len(), references.len()), (500, 3200, 83_200));
    let local_memory = references.footprint() * 90 / 100;
    let optimum = min_split(&references, local_memory) as f64;
    let ratio = |policy| played(&references, local_memory, policy, Lists::Kept).bytes_in as f64 / optimum;
    let (lru, predict) = (ratio(PolicyChoice::LRU), ratio(PolicyChoice::PREDICT));
    assert!((7.85..8.17).contains(&lru) && predict <= 1.22, "{lru} {predict}");
}
