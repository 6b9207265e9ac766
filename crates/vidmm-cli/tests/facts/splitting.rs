//! DMA buffers that are split: their output, their results, which are those of the unsplit buffers, and the findings of
//! mistakes.

use crate::common::{Scratch, splitting_scenarios, steps, summary, vidmm_run, workspace};
use serde_json::Value;

fn path_of(name: &str) -> String {
    format!("scenarios/splitting/{name}.toml")
}

/// Runs one of the scenarios, and returns its portions.
fn portions(name: &str, more: &[&str]) -> Vec<Value> {
    rows(&path_of(name), more)
}

fn rows(path: &str, more: &[&str]) -> Vec<Value> {
    let scratch = Scratch::new();
    let figures = scratch.path("figures.json");
    vidmm_run(&[&[path, "--summary", &figures], more].concat()).expect(0);
    summary(&figures)["portions"]["rows"].as_array().expect("the adapter patches").clone()
}

/// Runs a scenario with another text in the place of a part of its own.
fn changed(name: &str, before: &str, after: &str) -> (Scratch, String) {
    let text = std::fs::read_to_string(workspace().join(path_of(name))).expect("it is there");
    assert!(text.contains(before), "{name} has no `{before}`");
    let scratch = Scratch::new();
    let path = scratch.file("changed.toml", text.replace(before, after));
    (scratch, path)
}

fn bytes(row: &Value) -> (u64, u64) {
    (row["start_offset"].as_u64().expect("a number"), row["end_offset"].as_u64().expect("a number"))
}

#[test]
fn portions_cover_their_dma_buffer_once_and_in_order() {
    for scenario in splitting_scenarios() {
        let mut ends = std::collections::BTreeMap::new();
        for row in rows(&scenario, &[]) {
            let (start, end) = bytes(&row);
            let before = ends.insert(row["dma_buffer"].to_string(), end).unwrap_or(0);
            assert!(start == before && start < end, "{scenario}: {row}");
        }
    }
}

#[test]
fn a_buffer_that_fits_is_not_split_and_computes_the_same() {
    let split = portions("p33-first-split", &[]);
    assert_eq!(split.len(), 6);
    let unsplit = portions("p33-first-split", &["--local-memory", "12 MiB"]);
    assert_eq!(unsplit.len(), 1);
    assert_eq!(bytes(&unsplit[0]), (0, bytes(&split[5]).1));
}

#[test]
fn each_portion_ends_at_the_first_allocation_that_does_not_fit() {
    let ends: Vec<Value> = portions("p33-first-split", &[]).iter().map(|row| row["end"].clone()).collect();
    let no_room = |name: &str| Value::from(format!("no room for {name}"));
    let mut expected: Vec<Value> = ["A3", "A5", "A7", "A9", "A11"].map(no_room).into();
    expected.push("end of the buffer".into());
    assert_eq!(ends, expected);
}

#[test]
fn bound_allocations_keep_their_address() {
    let addresses: Vec<String> = portions("p36-bound-means-fixed", &[])
        .iter()
        .flat_map(|row| row["slots"].as_array().expect("a list").clone())
        .filter(|slot| slot["allocation"] == "K")
        .map(|slot| format!("{} {}", slot["address"], slot["state"]))
        .collect();
    assert_eq!(addresses.len(), 4);
    let address = |shown: &String| shown.rsplit_once(' ').expect("a state follows").0.to_owned();
    assert!(addresses.iter().all(|shown| address(shown) == address(&addresses[0])), "{addresses:?}");
    assert!(addresses[1].ends_with("\"fixed\"") && addresses[2].ends_with("\"fixed\""), "{addresses:?}");
}

#[test]
fn a_texture_moves_only_if_it_is_reprogrammed() {
    let states = |name: &str| -> Vec<String> {
        let slots = portions(name, &[]).into_iter().flat_map(|row| row["slots"].as_array().expect("a list").clone());
        slots.filter(|slot| slot["allocation"] == "texture").map(|slot| slot["state"].to_string()).collect()
    };
    assert_eq!(states("p37-reprogrammed-may-move"), ["\"bound\"", "\"moved\""]);
    assert_eq!(states("p37-fixed-is-in-the-way"), ["\"bound\""]);
}

#[test]
fn every_split_point_can_be_taken() {
    let (_scratch, path) =
        changed("p33-first-split", "slots = 2", "slots = 2\n[adapter.preparation]\ntake-split-point = true");
    let taken = rows(&path, &["--local-memory", "12 MiB"]);
    assert_eq!(taken.len(), 6);
    assert!(taken[..5].iter().all(|row| row["end"] == "every split point"), "{taken:?}");
}

#[test]
fn a_buffer_whose_addresses_are_right_already_is_patched_only_on_demand() {
    let text = |knob: &str| {
        format!(
            "[adapter]\naddressing-model = \"physical\"\n[adapter.preparation]\n{knob}\n\
             [[step]]\ncreate-allocation = \"A\"\nsize = \"4 KiB\"\n\
             [[step]]\nrender = \"first\"\ncommands = [\"write A@0\"]\n[[step]]\nwait = \"idle\"\n\
             [[step]]\nrender = \"second\"\ncommands = [\"read A@0\"]\n[[step]]\nwait = \"idle\"\n"
        )
    };
    for (knob, patched) in [("", false), ("always-repatch = true", true), ("never-prepatch = true", true)] {
        let scratch = Scratch::new();
        let rows = rows(&scratch.file("steps.toml", text(knob)), &[]);
        assert_eq!(rows[0]["patched"], true, "{knob}: it was nowhere when it was rendered");
        assert_eq!(rows[1]["patched"], patched, "{knob}");
    }
}

#[test]
fn mistakes_are_found() {
    for (name, fault, words) in [
        (
            "p33-first-split",
            "skip-patch@2",
            "portion 2 of writes wrote to 0x4000000000000000, where nothing is resident",
        ),
        ("p34-slot-replaced", "drop-page-out@1", "the CPU sees a wrong page: page 0 of A"),
        ("p37-reprogrammed-may-move", "drop-page-out@3", "kernel draws.2 read a wrong page: page 0 of texture"),
        ("p48-transfer-full", "flip-bit-in-transfer@1", "the CPU sees a wrong page"),
    ] {
        let found = vidmm_run(&[&path_of(name), "--faults", fault]).expect(1);
        assert!(found.stdout.contains(words), "no `{words}`: {found}");
    }
}

#[test]
fn adapters_with_gpu_virtual_addresses_do_not_render() {
    let text = "[[step]]\ncreate-allocation = \"A\"\nsize = \"4 KiB\"\n\
                [[step]]\nrender = \"R\"\ncommands = [\"write A@0\"]\nexpect = \"not-supported\"\n";
    steps(text).expect(0);
}

#[test]
fn without_gpu_virtual_addresses_there_are_no_paging_queues() {
    let text = "[adapter]\naddressing-model = \"physical\"\n[[step]]\ncreate-allocation = \"A\"\nsize = \"4 KiB\"\n\
                [[step]]\nmake-resident = \"A\"\nexpect = \"not-supported\"\n\
                [[step]]\nmap = \"A\"\nexpect = \"not-supported\"\n\
                [[step]]\nevict = \"A\"\nexpect = \"not-supported\"\n\
                [[step]]\noffer = \"A\"\nexpect = \"not-supported\"\n";
    steps(text).expect(0);
}

#[test]
fn wrong_commands_are_answered_with_their_line_and_the_remedy() {
    for (commands, advice) in [
        ("\"write A@0 B@0\"", "write `split` before `B@0`"),
        ("\"unbind 0\"", "slot 0 holds nothing"),
        ("\"write C@0\"", "there is no allocation `C`"),
        ("\"copy A@0\"", "is no command"),
        ("", "without commands"),
    ] {
        let text = format!(
            "[adapter]\naddressing-model = \"physical\"\n\
             [[step]]\ncreate-allocation = \"A\"\nsize = \"4 KiB\"\n[[step]]\ncreate-allocation = \"B\"\nsize = \"4 KiB\"\n\
             [[step]]\nrender = \"R\"\ncommands = [{commands}]\n"
        );
        let refused = steps(&text).expect(2);
        assert!(refused.stderr.contains(advice), "no `{advice}`: {refused}");
        assert!(refused.stderr.contains("line 9") || refused.stderr.contains("line 11"), "no line: {refused}");
    }
}
