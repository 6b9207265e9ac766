//! The edits fit the core as it is: where a change of the core moves what a bug changes, this says which edit must follow.

use std::{collections::BTreeSet, fs, path::Path};

use vidmm_saboteur::{BUGS, Edit, is_planted, plant, sabotage};

#[test]
fn each_edit_fits_its_file() {
    let files: BTreeSet<&str> = BUGS.iter().map(|bug| bug.file).collect();
    for file in files {
        let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        let edited = sabotage(file, &source).unwrap_or_else(|misfit| panic!("{misfit}"));
        for (bug, number) in BUGS.iter().zip(1..).filter(|(bug, _)| bug.file == file) {
            let condition = format!("is_planted({number})");
            assert_eq!(edited.matches(&condition).count(), 1, "{}", bug.name);
        }
    }
}

#[test]
fn a_text_that_is_gone_is_named() {
    let file = BUGS[0].file;
    let misfit = sabotage(file, "fn nothing() {}").unwrap_err();
    assert_eq!((misfit.bug, misfit.times), (BUGS[0].name, 0));
    assert!(misfit.to_string().contains(file));
}

#[test]
fn names_and_numbers_are_unique() {
    let names: BTreeSet<&str> = BUGS.iter().map(|bug| bug.name).collect();
    assert_eq!(names.len(), BUGS.len());
    assert!(BUGS.iter().zip(1..).all(|(bug, number)| bug.number() == number));
}

#[test]
fn a_mistake_differs_from_what_is_right() {
    for bug in BUGS {
        let is_other = match bug.edit {
            Edit::Expression { right, wrong } | Edit::Statement { right, wrong } => right != wrong,
            Edit::Without(right) => !right.is_empty(),
            Edit::Before { wrong, .. } => !wrong.is_empty(),
        };
        assert!(is_other, "{}", bug.name);
    }
}

#[test]
fn a_bug_is_planted_until_it_is_dropped_and_in_its_thread() {
    let planted = plant(&BUGS[2]);
    assert!(is_planted(3) && !is_planted(1));
    assert!(!std::thread::spawn(|| is_planted(3)).join().unwrap());
    drop(planted);
    assert!(!is_planted(3));
}
