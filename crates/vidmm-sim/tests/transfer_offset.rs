//! A driver that takes the addresses of a transfer for those of the part (BPB-21, D16).

#[path = "../../vidmm-cli/src/soft.rs"]
mod soft;

use vidmm::contract::{BuildPagingBuffer, BuildStatus, Kmd, PagingOperation, Transfer};
use vidmm_runtime::{HookedKmd, KmdHook, Machine, TransferOffset};
use vidmm_sim::{Bench, Benched, Campaign, MachineDesc, Profile, Tally};

/// Before the reference driver, which adds both offsets: the driver behind it adds none.
struct AddsNothing;

impl KmdHook for AddsNothing {
    fn build_paging_buffer(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let PagingOperation::Transfer(op) = *build.operation else { return driver.build_paging_buffer(build) };
        let operation = PagingOperation::Transfer(Transfer { transfer_offset: 0, mdl_offset: 0, ..op });
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

fn machine(desc: &MachineDesc) -> Result<Machine, String> {
    let machine = soft::machine(desc)?;
    Ok(Machine { kmd: Box::new(HookedKmd::new(machine.kmd, AddsNothing)), ..machine })
}

fn played(transfer_offset: TransferOffset) -> Tally {
    let factory = Benched { factory: &machine, bench: Bench { verify: true, transfer_offset } };
    let campaign = Campaign {
        seeds: 1..=120,
        steps: 500,
        profile: Profile::Calm,
        policy: None,
        digest: false,
        coverage: false,
        jobs: 2,
        max_failures: 1000,
    };
    campaign.run(&factory, &|_, _| {})
}

#[test]
fn a_driver_that_adds_no_offset_is_found_as_such() {
    let tally = played(TransferOffset::Documented);
    let failures: Vec<String> = tally.failures.values().map(|failure| failure.finding.to_string()).collect();
    assert!(!failures.is_empty());
    for failure in failures {
        assert!(failure.contains("BPB-21") && failure.contains("the driver adds no offset"), "{failure}");
    }
}

#[test]
fn a_driver_that_adds_no_offset_is_right_where_addresses_are_advanced() {
    let tally = played(TransferOffset::PreAdvanced);
    assert!(tally.failures.is_empty(), "{:?}", tally.failures.values().next().map(|failure| &failure.finding));
    assert_eq!(tally.seeds, 120);
}
