//! Errors, and which device suffers for them (section 7, P42, P43, P47, I12).

use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

fn failure(world: &World) -> Option<Violation> {
    world.outputs.iter().find_map(|output| match output {
        Output::AdapterInError(violation) => Some(violation.clone()),
        _ => None,
    })
}

/// FLT-01, FLT-03, FLT-04, I12: a fault puts its device in error, and no other.
#[test]
fn a_page_fault_puts_its_device_in_error() {
    let mut world = World::new(Config::pages(16));
    let (guilty, other) = (world.client(), world.client());
    let (a, _) = world.resident(guilty, 4);
    let (_, at) = world.resident(other, 4);
    for client in [guilty, other] {
        world.submit(client, &[]);
    }
    world.poll();
    world.fault(RENDER, 0xDEAD_0000);
    let virtual_address = GpuVirtualAddress(0xDEAD_0000);
    let error = DeviceInError { device: guilty.device, reason: DeviceErrorReason::PageFault { virtual_address } };
    assert_eq!(world.devices_in_error(), [(error.device, error.reason)]);
    assert_eq!(world.make_resident(guilty, &[a]), Err(error.into()));
    assert_eq!(world.try_map(guilty, &MapGpuVirtualAddress::whole(a)), Err(error.into()));
    assert_eq!(world.try_allocate(guilty, 1, NORMAL), Err(error.into()));
    let refused = world.call(|vidmm, _, _| vidmm.submit(guilty.context, SubmitDesc::default()));
    assert_eq!(refused, Err(error.into()));
    world.submit(other, &[Access::Write(at, 7)]);
    world.run_all();
    assert_eq!(world.token(other, at), Some(7));
    world.tear_down();
}

/// FLT-04, FLT-33: queued work is dropped, and its fences reach the maximum, so that nobody waits for ever.
#[test]
fn fences_of_dropped_work_reach_the_maximum() {
    let mut world = World::new(Config::pages(16));
    let (guilty, other) = (world.client(), world.client());
    let fences = [0; 3].map(|_| world.fence());
    world.submit_to(guilty.context, &[], &[], &[(fences[0], 1)]);
    world.submit_to(guilty.context, &[], &[(fences[2], 1)], &[(fences[1], 1)]);
    world.submit_to(other.context, &[], &[(fences[0], 1), (fences[1], 1)], &[]);
    world.poll();
    world.fault(RENDER, 0);
    for fence in &fences[..2] {
        assert_eq!(world.vidmm.monitored_fence_value(*fence), Ok(u64::MAX));
    }
    assert_eq!(world.vidmm.monitored_fence_value(fences[2]), Ok(0), "which it only waited for");
    world.run_all();
    assert_eq!(world.completed[RENDER as usize], 2);
    world.tear_down();
}

/// FLT-33, I02: others that wait for work of a device in error do not run beside what the GPU still runs of it.
#[test]
fn fences_of_dropped_work_wait_for_what_is_in_flight() {
    let mut world = World::new(Config::pages(16));
    let (guilty, other) = (world.client(), world.client());
    let copy = world.context(guilty, COPY);
    let [done, gate, aborted] = [(); 3].map(|()| world.fence());
    world.submit_to(guilty.context, &[], &[], &[(done, 1)]);
    world.submit_to(guilty.context, &[], &[(gate, 1)], &[(done, 2)]);
    world.submit_to(copy, &[], &[], &[(aborted, 1)]);
    world.submit_to(other.context, &[], &[(done, 2)], &[]);
    world.poll();
    world.fault(COPY, 0xDEAD_0000);
    assert_eq!(world.devices_in_error().len(), 1);
    let values = |world: &World| [done, aborted].map(|fence| world.vidmm.monitored_fence_value(fence).unwrap());
    assert_eq!(values(&world), [0, 0], "the render engine still runs what signals the same fence");
    world.complete(RENDER);
    assert_eq!(values(&world), [u64::MAX; 2]);
    world.run_all();
    assert_eq!(world.completed[RENDER as usize], 2, "the other device has had its turn");
    world.tear_down();
}

/// I12: paging of the guilty device goes on and its fences signal; its memory can be had when it is destroyed.
#[test]
fn paging_of_a_device_in_error_comes_to_its_end() {
    let (mut world, client) = World::with_pages(16);
    let (a, at) = world.resident(client, 8);
    world.submit(client, &[Access::Read(at)]);
    world.evict(client, &[a], SOON).unwrap();
    let b = world.allocate(client, 16);
    let _: Residency = world.make_resident(client, &[b]).unwrap();
    world.submit(client, &[]);
    world.poll();
    world.fault(RENDER, 0);
    world.run_all();
    assert_eq!(world.paging_fence(client), 3);
    let virtual_address = GpuVirtualAddress(0);
    let error = DeviceInError { device: client.device, reason: DeviceErrorReason::PageFault { virtual_address } };
    assert_eq!(world.evict(client, &[b], SOON), Err(EvictError::DeviceInError(error)));
    let other = world.client();
    world.resident(other, 16);
    world.tear_down();
}

/// RES-13, FLT-04: work that is dropped holds no room.
#[test]
fn dropped_work_holds_no_room() {
    let (mut world, client) = World::with_pages(16);
    let fence = world.fence();
    let (a, _) = world.resident(client, 16);
    world.submit(client, &[]);
    world.submit_to(client.context, &[], &[(fence, 1)], &[]);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.poll();
    world.fault(RENDER, 0);
    world.run_all();
    let other = world.client();
    world.resident(other, 16);
    world.tear_down();
}

/// FLT-03: a device is told once, and what else it had under way does not run.
#[test]
fn a_device_is_in_error_once() {
    let (mut world, client) = World::with_pages(16);
    world.submit(client, &[]);
    world.submit(client, &[]);
    world.poll();
    world.fault(RENDER, 0);
    world.run_all();
    let reason = DeviceErrorReason::PageFault { virtual_address: GpuVirtualAddress(0) };
    assert_eq!(world.devices_in_error(), [(client.device, reason)]);
    assert_eq!(world.completed[RENDER as usize], 1);
    world.tear_down();
}

/// SYN-13, P47: fences that were never issued, of engines that there are not: each is named, and changes nothing.
#[test]
fn foreign_fences_are_named_and_harmless() {
    let fence = |engine, fence_id| EngineFence { engine, fence_id };
    for found in [
        fence(RENDER, 0),
        fence(RENDER, 3),
        fence(RENDER, u64::MAX),
        fence(COPY, 1),
        fence(COPY, 0),
        fence(PAGING, 1),
        fence(3, 1),
        fence(u32::MAX, 0),
    ] {
        let (mut world, client) = World::with_pages(16);
        let at = world.resident(client, 1).1;
        world.submit(client, &[Access::Write(at, 5)]);
        world.submit(client, &[Access::Write(at, 7)]);
        world.poll();
        world.call(|vidmm, _, _| vidmm.handle_completed(found, DmaBuffer::User(Vec::new())));
        let is_paging = found.engine == PAGING;
        let expected = match is_paging {
            true => DriverFinding::CompletedAgain { found },
            false => DriverFinding::CompletedForeign { found },
        };
        assert_eq!(world.vidmm.driver_findings(), [expected]);
        world.run_all();
        assert_eq!(world.token(client, at), Some(7));
        world.tear_down();
    }
}

/// FLT-11: a fault that names nothing under way is named, and changes nothing.
#[test]
fn a_fault_that_contradicts_itself_is_named_and_harmless() {
    let unknown = PageFaultFlags::FENCE_INVALID;
    for (engine, fence_id, flags) in [
        (RENDER, 3, PageFaultFlags::WRITE),
        (RENDER, 0, PageFaultFlags::WRITE),
        (COPY, 1, PageFaultFlags::ENGINE_RESET_REQUIRED),
        (7, 1, PageFaultFlags::ENGINE_RESET_REQUIRED),
        (RENDER, 0, unknown),
        (RENDER, 1, unknown | PageFaultFlags::ENGINE_RESET_REQUIRED),
        (7, 0, unknown | PageFaultFlags::ENGINE_RESET_REQUIRED),
    ] {
        let (mut world, client) = World::with_pages(16);
        world.submit(client, &[]);
        world.submit(client, &[]);
        world.poll();
        let fault = DmaPageFaulted {
            faulted_fence_id: fence_id,
            node_ordinal: engine,
            page_fault_flags: flags,
            ..page_fault(0x1000)
        };
        world.call(|vidmm, _, _| vidmm.handle_interrupt(&NotifyInterrupt::DmaPageFaulted(fault)));
        assert_eq!(world.vidmm.driver_findings(), [DriverFinding::FaultData { engine, fence_id }]);
        world.run_all();
        assert_eq!(world.devices_in_error(), []);
        world.tear_down();
    }
}

/// P47: a fence that was right once says nothing new when it comes again, or late.
#[test]
fn a_fence_completes_once() {
    let (mut world, client) = World::with_pages(16);
    world.submit(client, &[]);
    world.run_all();
    let found = EngineFence { engine: RENDER, fence_id: 1 };
    world.call(|vidmm, _, _| vidmm.handle_completed(found, DmaBuffer::User(Vec::new())));
    assert_eq!(world.vidmm.driver_findings(), [DriverFinding::CompletedAgain { found }]);
    world.submit(client, &[]);
    world.run_all();
    world.tear_down();
}

/// P47, SYN-13: an engine runs its packets in order, so the end of a later one tells of those before it.
#[test]
fn a_lost_interrupt_is_made_good_by_the_next() {
    let (mut world, client) = World::with_pages(16);
    let (a, at) = world.resident(client, 4);
    let fence = world.fence();
    world.submit_to(client.context, &[Access::Write(at, 5)], &[], &[(fence, 1)]);
    world.submit_to(client.context, &[], &[], &[(fence, 2)]);
    world.poll();
    world.lose_interrupt(RENDER);
    assert_eq!(world.vidmm.monitored_fence_value(fence), Ok(0));
    world.complete(RENDER);
    assert_eq!(world.vidmm.monitored_fence_value(fence), Ok(2));
    let found = EngineFence { engine: RENDER, fence_id: 2 };
    assert_eq!(world.vidmm.driver_findings(), [DriverFinding::InterruptLost { found, expected: 1 }]);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    world.tear_down();
}

/// D1: a completion may bring back a buffer that is not its own; the pool takes nothing foreign, and loses nothing.
#[test]
fn a_foreign_buffer_does_no_harm() {
    let (mut world, client) = World::with_pages(16);
    for _ in 0..20 {
        world.submit(client, &[]);
        world.poll();
        let packet = world.take_packet(RENDER);
        let foreign = DmaBuffer::Paging(PagingBuffer::new(0, 0));
        world.call(|vidmm, _, _| vidmm.handle_completed(packet.signal, foreign));
    }
    world.resident(client, 4);
    assert_eq!(failure(&world), None);
}
