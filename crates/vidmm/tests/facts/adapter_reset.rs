//! Resets of the adapter: what is lost, who is told, and that everything works again (FLT-30 to FLT-34, BPB-27, P44, P46).

use std::collections::VecDeque;

use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

const SECOND: Nanoseconds = 1000 * MILLISECOND;

fn lost(world: &World) -> Vec<AllocationId> {
    let lost = |event: &Event| match event {
        Event::ContentLost { allocation, is_kept: false } => Some(*allocation),
        _ => None,
    };
    world.events.iter().filter_map(lost).collect()
}

/// The paging engine faults on a page-in of nobody in particular.
fn reset(world: &mut World) {
    let client = world.client();
    let allocation = world.allocate(client, 1);
    let _: Residency = world.make_resident(client, &[allocation]).unwrap();
    world.poll();
    world.fault(PAGING, 0xBAD_0000);
}

/// FLT-33, U-43: every device is in error, each is told once, and new ones work.
#[test]
fn every_device_is_told_once_and_new_ones_work() {
    let mut world = World::new(Config::pages(16));
    let clients = [(); 3].map(|()| world.client());
    let (a, _) = world.resident(clients[0], 4);
    world.submit(clients[1], &[]);
    world.poll();
    reset(&mut world);
    for client in clients {
        let times = world.devices_in_error().iter().filter(|&&(device, _)| device == client.device).count();
        assert_eq!(times, 1);
        let error = DeviceInError { device: client.device, reason: DeviceErrorReason::AdapterReset };
        let refused = world.call(|vidmm, _, _| vidmm.submit(client.context, SubmitDesc::default()));
        assert_eq!(refused, Err(error.into()));
    }
    let refused = world.call(|vidmm, _, host| vidmm.lock(host, clients[0].device, a));
    assert!(matches!(refused, Err(LockError::DeviceInError(_))), "{refused:?}");
    world.run_all();
    let again = world.sibling(clients[0]);
    let (_, at) = world.resident(again, 16);
    world.submit(again, &[Access::Write(at, 7)]);
    world.run_all();
    assert_eq!(world.token(again, at), Some(7));
    world.tear_down();
}

/// FLT-32, BPB-27: between reset and restart each allocation in the memory segment gets a transfer of no bytes, each in the
/// aperture is unmapped, and no other operation is sent.
#[test]
fn the_driver_is_told_of_all_that_was_resident() {
    let mut world = World::new(Config::pages(64));
    let client = world.client();
    let (a, _) = world.create_resident(client, Place::Local, 4, SILENT);
    let (b, _) = world.create_resident(client, Place::Aperture, 4, SILENT);
    let (c, _) = world.create_resident(client, Place::Local, 4, SILENT);
    world.evict(client, &[c], SOON).unwrap();
    world.run_all();
    let before = world.driver.calls.len();
    reset(&mut world);
    let purged = world.driver.calls[before..].iter().map(|call| call.operation).filter(|operation| {
        matches!(operation, PagingOperation::Transfer(_) | PagingOperation::UnmapApertureSegment(_))
    });
    let purged: Vec<_> = purged.collect();
    let of = |allocation: AllocationId| {
        let handle = world.handle(allocation);
        purged.iter().find(|operation| operation.allocation() == Some(handle))
    };
    assert!(matches!(of(a), Some(PagingOperation::Transfer(transfer)) if transfer.transfer_size == 0), "{purged:?}");
    assert!(matches!(of(b), Some(PagingOperation::UnmapApertureSegment(_))), "{purged:?}");
    assert_eq!(of(c), None);
    world.run_all();
    world.tear_down();
}

/// FLT-34: content that had its only copy in the memory segment is lost, and named; backing stores survive.
#[test]
fn content_only_in_local_memory_is_lost_and_named() {
    let mut world = World::new(Config::pages(16));
    let client = world.client();
    let (written, at) = world.resident(client, 2);
    let (saved, saved_at) = world.resident(client, 2);
    world.submit(client, &[Access::Write(at, 5), Access::Write(saved_at, 6)]);
    world.run_all();
    world.evict(client, &[saved], SOON).unwrap();
    world.run_all();
    reset(&mut world);
    assert_eq!(lost(&world), [written]);
    world.run_all();
    world.tear_down();
}

/// I03: a copy that was under way counts as not done: out of memory the content is lost, into memory the old copy stays right.
#[test]
fn a_transfer_under_way_counts_as_not_done() {
    let mut world = World::new(Config::pages(16));
    let client = world.client();
    let (leaving, at) = world.resident(client, 2);
    let (coming, coming_at) = world.resident(client, 2);
    world.submit(client, &[Access::Write(at, 5), Access::Write(coming_at, 6)]);
    world.run_all();
    world.evict(client, &[coming], SOON).unwrap();
    world.run_all();
    world.evict(client, &[leaving], SOON).unwrap();
    world.poll();
    let _: Residency = world.make_resident(client, &[coming]).unwrap();
    world.poll();
    world.fault(PAGING, 0xBAD_0000);
    assert_eq!(lost(&world), [leaving]);
    world.run_all();
    world.tear_down();
}

/// FLT-32, BPB-20: a driver hears that an allocation is gone which was about to be copied out, and has no place any more.
#[test]
fn the_driver_is_told_of_what_was_about_to_leave() {
    let mut world = World::new(Config::pages(16));
    let client = world.client();
    let (leaving, at) = world.resident(client, 2);
    world.submit(client, &[Access::Write(at, 5)]);
    world.poll();
    world.evict(client, &[leaving], SOON).unwrap();
    world.poll();
    assert!(
        world.call(|vidmm, _, _| vidmm.query_allocation_residency(leaving))
            == Ok(AllocationResidencyStatus::NotResident)
    );
    reset(&mut world);
    let is_farewell = |event: &&Event| {
        matches!(event, Event::PurgeOperation { allocation, operation: PagingOperation::Transfer(transfer), .. }
            if *allocation == leaving && transfer.transfer_size == 0)
    };
    assert_eq!(world.events.iter().filter(is_farewell).count(), 1);
    world.run_all();
    world.tear_down();
}

/// P46, FLT-31: after five resets within a minute the sixth hang stops the adapter, in the defined way.
#[test]
fn the_sixth_hang_within_a_minute_stops_the_adapter() {
    let mut world = World::new(Config::pages(16));
    for _ in 0..5 {
        reset(&mut world);
        assert!(!world.outputs.iter().any(|output| matches!(output, Output::AdapterInError(_))));
        world.run_all();
        world.wait(SECOND);
    }
    reset(&mut world);
    let violation = Violation::TooManyResets { resets: 5, seconds: 60 };
    let stopped = |output: &Output| matches!(output, Output::AdapterInError(found) if *found == violation);
    assert_eq!(world.outputs.iter().filter(|output| stopped(output)).count(), 1);
}

/// FLT-31, U-42: the window slides: resets that are older than a minute do not count.
#[test]
fn resets_are_forgotten_after_a_minute() {
    let mut world = World::new(Config::pages(16));
    for _ in 0..12 {
        reset(&mut world);
        world.run_all();
        world.wait(13 * SECOND);
    }
    assert!(!world.outputs.iter().any(|output| matches!(output, Output::AdapterInError(_))));
    world.tear_down();
}

/// FLT-30: a driver that does not come back from a reset has TdrDdiDelay; then the adapter stops.
#[test]
fn a_driver_that_does_not_return_from_a_reset_stops_the_adapter() {
    let mut world = World::new(Config { resets_at_once: false, ..Config::pages(16) });
    let client = world.client();
    world.submit(client, &[]);
    world.poll();
    world.fault(RENDER, 0);
    world.wait(5 * SECOND - 1);
    let stopped = |world: &World| world.outputs.iter().any(|output| matches!(output, Output::AdapterInError(_)));
    assert!(!stopped(&world));
    world.wait(1);
    assert!(stopped(&world));
    assert_eq!(world.vidmm.next_wake(), None, "nothing is waited for any more");
}

/// D9, GVA-25: page tables are built again after a reset, also for processes that lived before it.
#[test]
fn tables_are_built_again() {
    for tables_in_system in [false, true] {
        let mut world = World::new(Config { tables_in_system, ..Config::pages(64) });
        let client = world.client();
        world.resident(client, 4);
        reset(&mut world);
        world.run_all();
        let again = world.sibling(client);
        let (a, at) = world.resident(again, 4);
        world.submit(again, &[Access::Write(at, 7)]);
        world.evict(again, &[a], SOON).unwrap();
        world.run_all();
        world.bring_in(again, &[a]);
        assert_eq!(world.token(again, at), Some(7));
        world.tear_down();
    }
}

/// FLT-32: answers that nobody waits for are named, and change nothing.
#[test]
fn answers_to_no_reset_are_named_and_harmless() {
    let (mut world, client) = World::with_pages(16);
    world.submit(client, &[]);
    world.poll();
    world.call(|vidmm, _, _| vidmm.handle_reset_from_timeout(Vec::new()));
    world.call(|vidmm, _, _| vidmm.handle_restart_from_timeout(Ok(())));
    world.call(|vidmm, _, _| vidmm.handle_engine_reset(RENDER, Ok(1), Vec::new()));
    world.call(|vidmm, _, _| vidmm.handle_preempted(RENDER, 1, 1, Vec::new()));
    let expected = [
        DriverFinding::AdapterResetUnasked,
        DriverFinding::ResetUnasked { engine: RENDER },
        DriverFinding::PreemptedUnasked { engine: RENDER, preemption_fence_id: 1 },
    ];
    assert_eq!(world.vidmm.driver_findings(), expected);
    world.run_all();
    assert_eq!(world.devices_in_error(), []);
    world.tear_down();
}

/// NTF-02, FLT-34: content that its driver had not put right yet can be read by nobody: it is named, and its bytes stay.
#[test]
fn content_that_waits_for_its_notification_is_kept_as_the_gpu_left_it() {
    let mut world = World::new(Config::integrated(AddressingModel::GpuMmu, 64));
    let client = world.client();
    let (told_late, at) = world.create_resident(client, Place::System, 2, EVICTION);
    let handle = world.handle(told_late);
    world.submit(client, &[Access::WriteSurface(at, handle, 0, 5)]);
    world.run_all();
    let (clean, _) = world.create_resident(client, Place::System, 2, EVICTION);
    world.evict(client, &[clean], NOT_WRITTEN).unwrap();
    // Paging buffers hold what comes before it: its plan is decided, and not built.
    let others: Vec<_> = (0..8).map(|_| world.create(client, Place::System, 2, SILENT)).collect();
    others.iter().for_each(|&other| _ = world.map(client, other));
    let _: Residency = world.make_resident(client, &others).unwrap();
    world.evict(client, &[told_late], SOON).unwrap();
    world.poll();
    world.fault(PAGING, 0xBAD_0000);
    assert!(world.events.contains(&Event::ContentLost { allocation: told_late, is_kept: true }));
    assert_eq!(lost(&world), [], "nothing was in a memory segment");
    world.run_all();
    world.tear_down();
}

/// I03: work that waits for a page-in may have run before the GPU stopped, although nobody has heard that the page-in ended:
/// the copy that it came from need not be right.
#[test]
fn content_that_work_may_have_written_since_it_came_in_is_lost() {
    for has_work in [false, true] {
        let mut world = World::new(Config { stops_at_once: false, ..Config::pages(16) });
        let (client, other) = (world.client(), world.client());
        let (a, at) = world.resident(client, 2);
        world.evict(client, &[a], SOON).unwrap();
        world.run_all();
        let _: Residency = world.make_resident(client, &[a]).unwrap();
        if has_work {
            world.submit(client, &[Access::Write(at, 5)]);
        }
        world.poll();
        while world.can_complete(PAGING) {
            world.lose_interrupt(PAGING);
        }
        if has_work {
            world.run_packet(RENDER);
        }
        world.submit(other, &[]);
        world.poll();
        let page_fault_flags = PageFaultFlags::ADAPTER_RESET_REQUIRED;
        world.fault_with(RENDER, DmaPageFaulted { page_fault_flags, ..page_fault(0) });
        world.poll();
        while world.do_what_is_owed() {
            world.poll();
        }
        assert_eq!(lost(&world).contains(&a), has_work);
        world.run_all();
        world.tear_down();
    }
}

/// BPB-55: a range of the IOMMU that comes, leaves and comes again while plans wait is unmapped as often as it was mapped.
#[test]
fn ranges_that_wait_to_be_mapped_again_are_unmapped_once() {
    let mut world = World::new(Config::integrated(AddressingModel::GpuVaIoMmu, 16));
    let client = world.client();
    let (a, _) = world.create_resident(client, Place::System, 12, SILENT);
    let (b, _) = {
        let b = world.create(client, Place::System, 12, SILENT);
        (b, world.map(client, b))
    };
    for _ in 0..2 {
        world.evict(client, &[a], SOON).unwrap();
        let _: Residency = world.make_resident(client, &[b]).unwrap();
        world.poll();
        world.evict(client, &[b], SOON).unwrap();
        let _: Residency = world.make_resident(client, &[a]).unwrap();
        world.poll();
    }
    world.submit(client, &[]);
    world.poll();
    let page_fault_flags = PageFaultFlags::ADAPTER_RESET_REQUIRED;
    world.fault_with(RENDER, DmaPageFaulted { page_fault_flags, ..page_fault(0) });
    world.poll();
    assert!(world.host.io_mmu.is_empty(), "{:?}", world.host.io_mmu);
    world.run_all();
    world.tear_down();
}

fn violations(world: &World) -> Vec<Violation> {
    let violation = |output: &Output| match output {
        Output::AdapterInError(violation) => Some(violation.clone()),
        _ => None,
    };
    world.outputs.iter().filter_map(violation).collect()
}

/// FLT-31, FLT-32: a GPU that its driver cannot start again stays stopped.
#[test]
fn a_restart_that_fails_stops_the_adapter() {
    let mut world = World::new(Config { stops_at_once: false, ..Config::pages(16) });
    reset(&mut world);
    world.reset_adapter();
    world.poll();
    assert!(world.outputs.iter().any(|output| matches!(output, Output::RestartFromTimeout)));
    world.call(|vidmm, _, _| vidmm.handle_restart_from_timeout(Err(RestartError)));
    world.poll();
    assert_eq!(violations(&world), [Violation::RestartFailed]);
    assert!(world.engines.iter().all(VecDeque::is_empty), "nothing runs any more");
}

/// FLT-32, BPB-27: the driver cannot refuse a call between reset and restart; a new buffer has room for it.
#[test]
fn a_driver_that_refuses_to_be_told_what_was_resident_stops_the_adapter() {
    for refusal in [BuildStatus::InsufficientDmaBuffer, BuildStatus::AllocationBusy] {
        let mut world = World::new(Config { stops_at_once: false, ..Config::pages(16) });
        let client = world.client();
        world.resident(client, 4);
        reset(&mut world);
        world.driver.answer =
            Box::new(move |build| matches!(build.operation, PagingOperation::Transfer(_)).then_some(refusal));
        world.reset_adapter();
        world.poll();
        assert_eq!(violations(&world), [Violation::PurgeRefused]);
        assert!(!world.outputs.iter().any(|output| matches!(output, Output::RestartFromTimeout)));
    }
}

/// FLT-31: an error while the GPU is stopped is no further reset.
#[test]
fn a_fault_of_a_gpu_that_is_being_stopped_is_no_further_reset() {
    let mut world = World::new(Config { stops_at_once: false, ..Config::pages(16) });
    let client = world.client();
    world.submit(client, &[]);
    world.poll();
    reset(&mut world);
    let page_fault_flags = PageFaultFlags::ADAPTER_RESET_REQUIRED;
    world.fault_with(RENDER, DmaPageFaulted { page_fault_flags, ..page_fault(0) });
    world.poll();
    assert_eq!(world.vidmm.statistics().adapter_resets, 1);
    assert_eq!(world.outputs.iter().filter(|output| matches!(output, Output::ResetFromTimeout)).count(), 1);
    world.reset_adapter();
    world.poll();
    world.restart_adapter();
    world.run_all();
    world.tear_down();
}

/// FLT-23: a device is to blame for a paging buffer's fault only if that names something of its own.
#[test]
fn a_device_with_nothing_in_the_faulting_paging_buffer_is_not_blamed_for_it() {
    let (mut world, first) = World::with_pages(16);
    let second = world.client();
    let allocations = [first, second].map(|client| (client, world.allocate(client, 2)));
    for (client, allocation) in allocations {
        world.map(client, allocation);
    }
    world.run_all();
    for (client, allocation) in allocations {
        let _: Residency = world.make_resident(client, &[allocation]).unwrap();
        world.poll();
    }
    assert_eq!(world.engines[PAGING as usize].len(), 2, "each is in a buffer of its own");
    world.fault(PAGING, 0xBAD_0000);
    let expected =
        [(first.device, DeviceErrorReason::PagingBufferFault), (second.device, DeviceErrorReason::AdapterReset)];
    assert_eq!(world.devices_in_error(), expected);
    world.run_all();
    world.tear_down();
}

/// FLT-34, I03: a page-in that faulted has not ended, and nothing that waited for it has written: its source is right.
#[test]
fn the_source_of_a_page_in_that_faults_is_kept() {
    let (mut world, client) = World::with_pages(16);
    let (a, at) = world.resident(client, 2);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    world.submit(client, &[Access::Read(at)]);
    world.poll();
    world.fault(PAGING, 0xBAD_0000);
    assert_eq!(lost(&world), []);
    world.run_all();
    world.tear_down();
}

/// FLT-34: content that the GPU wrote in system memory is there after a reset, also in local memory, for a device that opens it. The
/// GPU wrote it in implicit system memory, or through the aperture.
#[test]
fn content_in_system_memory_comes_into_local_memory_after_a_reset() {
    for flags in [AllocationFlags::empty(), AllocationFlags::ACCESSED_PHYSICALLY] {
        let mut world = World::new(Config::discrete(8, 16));
        let (owner, hog) = (world.client(), world.client());
        world.create_resident(hog, Place::Local, 8, SILENT);
        let mut info = world.config.allocation(Place::LocalOrSystem, 4, SILENT);
        info.flags |= flags;
        let shared = world.create_to_share(owner, info);
        let at = world.map(owner, shared);
        world.bring_in(owner, &[shared]);
        assert_ne!(world.placed[&shared], LOCAL);
        assert_eq!(world.placed[&shared].is_system(), flags.is_empty());
        write(&mut world, owner, at, 7);
        reset(&mut world);
        world.run_all();
        let newcomer = world.client();
        world.open(newcomer, shared).unwrap();
        let at = world.map(newcomer, shared);
        world.bring_in(newcomer, &[shared]);
        assert_eq!(world.placed[&shared], LOCAL);
        assert_eq!(read(&mut world, newcomer, at), 7);
        world.tear_down();
    }
}

/// FLT-34, RES-61: content that was offered and is lost with a reset is named.
#[test]
fn offered_content_that_is_lost_is_named() {
    let (mut world, client) = World::with_pages(16);
    let (a, at) = world.resident(client, 2);
    write(&mut world, client, at, 7);
    world.offer(client, &[a], OfferPriority::Normal).unwrap();
    world.run_all();
    reset(&mut world);
    assert_eq!(lost(&world), [a]);
    world.run_all();
    world.tear_down();
}
