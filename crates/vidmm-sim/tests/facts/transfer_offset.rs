//! A driver that takes the addresses of a transfer for those of the part (BPB-21, D16).

use std::path::Path;

use vidmm::PAGE_SIZE;
use vidmm::contract::{BuildPagingBuffer, BuildStatus, Kmd, PagingOperation, Transfer};
use vidmm_runtime::{HookedKmd, KmdHook, Machine, TransferOffset};
use vidmm_sim::{Bench, Benched, MachineDesc, ScenarioFile, Unobserved, replay};

/// Before the reference driver, which adds both offsets: it is told of another transfer.
struct Mistakes(fn(Transfer) -> Transfer);

impl KmdHook for Mistakes {
    fn build_paging_buffer(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let PagingOperation::Transfer(op) = *build.operation else { return driver.build_paging_buffer(build) };
        let operation = PagingOperation::Transfer(self.0(op));
        let mut changed = BuildPagingBuffer {
            operation: &operation,
            dma_buffer: &mut *build.dma_buffer,
            dma_buffer_private_data: &mut *build.dma_buffer_private_data,
            multipass_offset: &mut *build.multipass_offset,
            ..*build
        };
        let status = driver.build_paging_buffer(&mut changed);
        (build.dma_bytes_written, build.private_bytes_written) =
            (changed.dma_bytes_written, changed.private_bytes_written);
        status
    }
}

fn adds_nothing(op: Transfer) -> Transfer {
    Transfer { transfer_offset: 0, mdl_offset: 0, ..op }
}

/// The last page of each later part stays where it is.
fn is_a_page_short(op: Transfer) -> Transfer {
    let is_later = op.transfer_offset > 0 && op.transfer_size > PAGE_SIZE;
    Transfer { transfer_size: op.transfer_size - if is_later { PAGE_SIZE } else { 0 }, ..op }
}

/// An allocation leaves local memory for another, which takes the place of its last 64 KiB alone.
const OUT: &str = r#"
name = "out"
judge = "rules"

[adapter]
addressing-model = "physical"
local-memory = "512 KiB"

[[step]]
create-allocation = "A"
size = "256 KiB"

[[step]]
create-allocation = "B"
size = "320 KiB"
direction = "from-end"

[[step]]
render = "first"
commands = ["write A[0..64]@0"]

[[step]]
wait = "idle"

[[step]]
render = "second"
commands = ["write B[0..80]@0"]

[[step]]
wait = "idle"
"#;

/// The findings, with unlikely choices of forty seeds: with some of them transfers have several parts.
fn found(mistake: fn(Transfer) -> Transfer, transfer_offset: TransferOffset) -> Vec<String> {
    let machine = |desc: &MachineDesc| {
        let machine = crate::soft::machine(desc)?;
        Ok(Machine { kmd: Box::new(HookedKmd::new(machine.kmd, Mistakes(mistake))), ..machine })
    };
    let factory = Benched { factory: &machine, bench: Bench { verify: true, transfer_offset } };
    let Ok(ScenarioFile::Explicit(scenario)) = ScenarioFile::parse(OUT, Path::new("out.toml")) else {
        panic!("it is a scenario of steps")
    };
    let ends = (1..=40).map(|seed| {
        let mut scenario = scenario.clone();
        scenario.adapter.buggify = Some(seed);
        replay(&scenario, &factory, &mut Unobserved).expect("the machine starts")
    });
    ends.filter_map(|outcome| Some(outcome.failure?.finding.to_string())).collect()
}

#[test]
fn a_driver_that_adds_no_offset_is_found_as_such() {
    let found = found(adds_nothing, TransferOffset::Documented);
    assert!(!found.is_empty());
    for finding in found {
        assert!(finding.contains("BPB-21") && finding.contains("the driver adds no offset"), "{finding}");
    }
}

#[test]
fn a_driver_that_adds_no_offset_is_right_where_addresses_are_advanced() {
    assert_eq!(found(adds_nothing, TransferOffset::PreAdvanced), Vec::<String>::new());
}

#[test]
fn a_driver_that_leaves_a_page_of_a_later_part_out_is_not_taken_for_one_that_adds_no_offset() {
    let found = found(is_a_page_short, TransferOffset::Documented);
    assert!(!found.is_empty());
    for finding in found {
        assert!(finding.contains("BPB-20") && finding.contains("page "), "{finding}");
        assert!(!finding.contains("offset"), "{finding}");
    }
}
