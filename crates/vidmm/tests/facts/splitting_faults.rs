//! Faults in the middle of a split DMA buffer: only its device suffers, and what it kept in place is free again (FLT-20
//! to FLT-34, P39).

use crate::patching::*;
use vidmm::contract::*;
use vidmm::*;

/// A buffer of `count` portions in a memory that holds one allocation: each writes a token to its own.
fn split_buffer(world: &mut World, client: Client, count: u64, pages: u64) -> Vec<AllocationId> {
    let allocations: Vec<AllocationId> = (0..count).map(|_| world.local(client, pages)).collect();
    let mut writer = Writer::new();
    for (number, &allocation) in allocations.iter().enumerate() {
        writer = writer.split().write(0, allocation, 0, number as u64 + 1);
    }
    world.render(client.context, writer.finish());
    allocations
}

/// Runs paging to its end, and the render engine until it has run so many portions.
fn run_portions(world: &mut World, count: usize) {
    world.poll();
    for _ in 0..count {
        while world.complete(PAGING) {
            world.poll();
        }
        assert!(world.complete(RENDER));
        world.poll();
    }
    while world.complete(PAGING) {
        world.poll();
    }
}

/// The packet that the render engine runs faults; the driver resets the engine, and it runs again.
fn fault(world: &mut World) {
    let faulted_fence_id = world.engines[RENDER as usize].front().expect("a portion is under way").signal.fence_id;
    let fault = DmaPageFaulted {
        faulted_fence_id,
        faulted_primitive_api_sequence_number: DmaPageFaulted::PRIMITIVE_API_SEQUENCE_NUMBER_UNKNOWN,
        faulted_pipeline_stage: 0,
        faulted_bind_table_entry: DmaPageFaulted::BIND_TABLE_ENTRY_UNKNOWN,
        page_fault_flags: PageFaultFlags::ENGINE_RESET_REQUIRED,
        faulted_virtual_address: GpuVirtualAddress(0x1000),
        node_ordinal: RENDER,
        page_table_level: 0,
        fault_error_code: FaultErrorCode::PAGE_FAULT,
        faulted_process: None,
    };
    world.call(|vidmm, _, _| vidmm.handle_interrupt(&NotifyInterrupt::DmaPageFaulted(fault)));
    world.poll();
    answer_reset(world, faulted_fence_id);
}

fn answer_reset(world: &mut World, last_aborted: u64) {
    assert!(world.outputs.iter().any(|output| matches!(output, Output::ResetEngine { engine: RENDER })));
    world.engines[RENDER as usize].pop_front();
    let left = world.give_back(RENDER);
    world.call(|vidmm, _, _| vidmm.handle_engine_reset(RENDER, Ok(last_aborted), left));
    world.completed[RENDER as usize] = last_aborted;
    world.poll();
    answer_preemption(world, last_aborted);
}

/// The engine proves that it runs.
fn answer_preemption(world: &mut World, last_completed: u64) {
    let asked = world.outputs.iter().rev().find_map(|output| match *output {
        Output::PreemptCommand { engine: RENDER, preemption_fence_id } => Some(preemption_fence_id),
        _ => None,
    });
    let left = world.give_back(RENDER);
    world
        .call(|vidmm, _, _| vidmm.handle_preempted(RENDER, asked.expect("it is asked to yield"), last_completed, left));
    world.poll();
}

#[test]
fn a_fault_in_the_middle_of_a_split_buffer_ends_it_and_frees_the_cut_for_others() {
    for portions_before in 0..4 {
        let mut world = World::new(Config::pages(8));
        let (guilty, other) = (world.client(), world.client());
        split_buffer(&mut world, guilty, 6, 8);
        let of_other = split_buffer(&mut world, other, 3, 8);
        run_portions(&mut world, portions_before);
        fault(&mut world);
        let reasons = world.errors();
        assert!(matches!(reasons[..], [DeviceErrorReason::PageFault { .. }]), "{reasons:?}");
        world.run_all();
        assert!(world.vidmm.is_idle(), "the other buffer is not held up by what was cut");
        for (number, &allocation) in of_other.iter().enumerate() {
            world.render(other.context, Writer::new().split().read(0, allocation, 0).finish());
            world.run_all();
            assert_eq!(world.read.pop(), Some(number as u64 + 1));
        }
        assert_eq!(world.errors().len(), 1);
    }
}

/// Memory that the portions of a buffer keep in place across a cut is free when its device is in error.
#[test]
fn bound_allocations_may_go_when_their_device_is_in_error() {
    let mut world = World::new(Config::pages(8));
    let (guilty, other) = (world.client(), world.client());
    let bound = world.local(guilty, 4);
    let mut writer = Writer::new().split().write(9, bound, 0, 5);
    for number in 0..4 {
        let allocation = world.local(guilty, 4);
        writer = writer.split().write(0, allocation, 0, number);
    }
    world.render(guilty.context, writer.finish());
    run_portions(&mut world, 1);
    fault(&mut world);
    let whole = world.local(other, 8);
    world.render(other.context, Writer::new().split().write(0, whole, 7, 3).read(0, whole, 7).finish());
    world.run_all();
    assert_eq!(world.read, [3]);
    assert!(world.vidmm.is_idle());
}

/// FLT-32: after a reset of the adapter everything is placed anew for those who come back.
#[test]
fn after_a_reset_of_the_adapter_new_devices_split_again() {
    let mut world = World::new(Config::pages(8));
    let lost = world.client();
    split_buffer(&mut world, lost, 6, 8);
    run_portions(&mut world, 2);
    // A reset of the engine that fails is promoted to one of the adapter.
    let faulted_fence_id = world.engines[RENDER as usize].front().expect("a portion is under way").signal.fence_id;
    let illegal = NotifyInterrupt::DmaFaulted { faulted_fence_id, node_ordinal: RENDER };
    world.call(|vidmm, _, _| vidmm.handle_interrupt(&illegal));
    world.poll();
    world.call(|vidmm, _, _| vidmm.handle_engine_reset(RENDER, Err(ResetEngineError), Vec::new()));
    world.poll();
    let mut returned = Vec::new();
    for engine in [PAGING, RENDER, COPY] {
        let left = world.give_back(engine).into_iter();
        returned.extend(left.map(|(fence_id, buffer)| (EngineFence { engine, fence_id }, buffer)));
    }
    world.forget_memory();
    world.call(|vidmm, _, _| vidmm.handle_reset_from_timeout(returned));
    world.poll();
    world.call(|vidmm, _, _| vidmm.handle_restart_from_timeout(Ok(())));
    world.poll();
    assert_eq!(world.errors().len(), 1, "told once");
    let client = world.client();
    let allocations = split_buffer(&mut world, client, 4, 8);
    world.run_all();
    assert!(world.vidmm.is_idle());
    for (number, &allocation) in allocations.iter().enumerate() {
        world.render(client.context, Writer::new().split().read(0, allocation, 0).finish());
        world.run_all();
        assert_eq!(world.read.pop(), Some(number as u64 + 1));
    }
}
