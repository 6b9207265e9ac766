//! The model GPU keeps where it was told that allocations are, and finds kernels that believe something else (BPB-51).

use crate::common::patching::*;
use crate::common::*;
use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, PhysicalAddress, SegmentId};
use vidmm_runtime::{AllocationDesc, Umd};
use vidmm_soft::encoding::{Command, Decoder, NotifyResidency, UseAllocation};
use vidmm_soft::*;

const THING: KmdAllocationHandle = KmdAllocationHandle(1);

fn told(address: Option<u64>) -> Vec<u8> {
    let address = address.map(GpuVirtualAddress);
    bytes_of(&Command::NotifyResidency(NotifyResidency { allocation: THING, address }))
}

fn used(address: u64) -> Vec<u8> {
    bytes_of(&Command::UseAllocation(UseAllocation { allocation: THING, address: GpuVirtualAddress(address) }))
}

/// Whether all of `commands` end well, as a packet each.
fn end_well(commands: &[Vec<u8>]) -> bool {
    let mut rig = PatchRig::new(config());
    let user = rig.user;
    commands.iter().all(|commands| !is_refusal(&rig.rig.run(user, commands.clone())))
}

#[test]
fn an_allocation_is_used_where_the_gpu_was_told_that_it_is() {
    assert!(end_well(&[told(Some(PAGE)), used(PAGE), used(PAGE), told(None), told(Some(0)), used(0)]));
}

#[test]
fn work_that_believes_an_allocation_elsewhere_is_stopped() {
    assert!(!end_well(&[used(PAGE)]), "the GPU was never told");
    assert!(!end_well(&[told(Some(PAGE)), told(None), used(PAGE)]), "it has left");
    assert!(!end_well(&[told(Some(PAGE)), told(None), told(Some(2 * PAGE)), used(PAGE)]), "it has moved");
}

#[test]
fn a_word_that_is_said_twice_is_refused() {
    assert!(!end_well(&[told(Some(PAGE)), told(Some(2 * PAGE))]));
    assert!(!end_well(&[told(None)]));
}

/// The notices that the GPU was given go with its memory.
#[test]
fn after_a_loss_of_power_nothing_is_resident() {
    let mut rig = PatchRig::new(config());
    let user = rig.user;
    assert!(!is_refusal(&rig.rig.run(user, told(Some(PAGE)))));
    vidmm_runtime::Gpu::lose_power(&mut rig.rig.gpu);
    assert!(!is_refusal(&rig.rig.run(user, told(Some(PAGE)))), "it comes again");
}

/// The driver announces what a portion uses in local memory, if the GPU is told of it; what is in the aperture, and
/// what it is not told of, it does not.
#[test]
fn the_driver_announces_what_the_gpu_is_told_of() {
    let mut kmd = SoftKmd::new(config());
    let process = kmd.create_process(false).unwrap();
    let context = kmd.create_context(process, RENDER_ENGINE, false).unwrap();
    let mut create = |explicit_residency_notification| {
        let local = AllocationDesc::local(PAGE);
        let desc = AllocationDesc { accessed_physically: true, explicit_residency_notification, ..local };
        kmd.create_allocation(&SoftUmd.allocation_private_data(&desc)).unwrap().allocation
    };
    let (asked, other) = (create(true), create(false));
    let list = [(asked, local(PAGE)), (asked, aperture(0)), (other, local(0))];
    kmd.patch(&mut Patch {
        context,
        dma_buffer: &mut [],
        dma_buffer_size: 0,
        dma_buffer_private_data: &mut [],
        dma_buffer_submission_start_offset: 0,
        dma_buffer_submission_end_offset: 0,
        allocation_list: &list.map(|(allocation, address)| element(allocation, false, Some(address))),
        patch_location_list: &[],
        patch_location_list_submission_start: 0,
        patch_location_list_submission_length: 0,
        submission_fence_id: 1,
    });
    let submit = SubmitCommand {
        context,
        node_ordinal: RENDER_ENGINE,
        submission_fence_id: 1,
        paging: false,
        dma_buffer_submission_offsets: None,
    };
    let mut announced = || {
        let mut preamble = Vec::new();
        kmd.submit_command(&submit, &mut preamble);
        let commands = Decoder::new(&preamble).map(Result::unwrap);
        commands.filter(|command| matches!(command, Command::UseAllocation(used) if used.allocation == asked)).count()
    };
    assert_eq!((announced(), announced()), (1, 0), "once, with the portion that was patched");
}

/// One command for each word, with the address that kernels use.
#[test]
fn the_driver_passes_each_word_on() {
    let mut rig = PatchRig::new(config());
    let nowhere = PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 };
    for (physical_address, resident) in [(local(PAGE), true), (nowhere, false), (local(2 * PAGE), true)] {
        let op = vidmm::contract::NotifyResidency { allocation: THING, physical_address, resident };
        rig.page(&PagingOperation::NotifyResidency(op));
    }
    assert_eq!(rig.rig.gpu.counters().commands.notify_residency, 3);
}
