//! How a driver is asked to encode, and what its answers do (3.1, BPB-01..09, P48..P51).

use crate::world::*;
use vidmm::contract::*;
use vidmm::*;
use vidmm_trace::Invariant;

/// The driver's answer instead of encoding, the first time that it is asked for a fill.
fn at_first_fill(world: &mut World, mut answer: impl FnMut(&mut BuildPagingBuffer<'_>) -> BuildStatus + 'static) {
    let mut is_first = true;
    world.driver.answer = Box::new(move |build| {
        let hit = is_first && matches!(build.operation, PagingOperation::VirtualFill(_));
        is_first &= !hit;
        hit.then(|| answer(build))
    });
}

fn failure(world: &World) -> Option<Violation> {
    world.outputs.iter().find_map(|output| match output {
        Output::AdapterInError(violation) => Some(violation.clone()),
        _ => None,
    })
}

/// BPB-02, BPB-03: operations share a buffer, packed without gaps; a new buffer begins at 0.
#[test]
fn operations_are_packed_into_buffers() {
    let (mut world, client) = World::with_pages(8);
    world.driver.calls.clear();
    world.resident(client, 8);
    let mut end = 0;
    for call in &world.driver.calls {
        assert!(call.write_offset == end || call.write_offset == 0);
        assert_eq!(call.room, 4096 - call.write_offset as usize);
        end = call.write_offset + call.bytes as u32;
    }
    let buffers = world.driver.submitted.iter().filter(|(submit, _)| submit.paging).count();
    assert!(world.driver.calls.len() > 2 * buffers, "several operations share a buffer");
    assert_eq!(world.vidmm.statistics().paging_buffers, buffers as u64);
}

/// BPB-04, P48: a full buffer goes to the GPU; the same operation comes again, with the driver's progress untouched.
#[test]
fn a_full_buffer_continues_in_a_new_one() {
    for operation_bytes in [8, 1000, 4088, 4096, 4104, 20_000] {
        let mut world = World::new(Config { operation_bytes, ..Config::pages(8) });
        let client = world.client();
        let (a, at) = world.resident(client, 4);
        world.submit(client, &[Access::Write(at, 7)]);
        world.evict(client, &[a], SOON).unwrap();
        world.run_all();
        world.bring_in(client, &[a]);
        assert_eq!(world.token(client, at), Some(7), "operations of {operation_bytes} bytes");
        let mut expected = 0;
        for (call, next) in world.driver.calls.iter().zip(&world.driver.calls[1..]) {
            assert_eq!(call.multipass_before, expected);
            expected = call.multipass_after;
            match call.status {
                BuildStatus::Success => expected = 0,
                _ => assert_eq!(next.operation, call.operation),
            }
        }
    }
}

/// BPB-04: each partial buffer is a submission of its own, with its own fence.
#[test]
fn partial_buffers_are_submitted_one_by_one() {
    let mut world = World::new(Config { operation_bytes: 3 * 4096, ..Config::pages(8) });
    let client = world.client();
    let a = world.allocate(client, 1);
    let before = world.driver.calls.len();
    let packets = world.completed[PAGING as usize];
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    world.run_all();
    let operations = world.driver.calls[before..].iter().filter(|call| call.status == BuildStatus::Success).count();
    assert_eq!(world.completed[PAGING as usize] - packets, 3 * operations as u64);
}

/// BPB-05, U-10: no progress in a fresh buffer is an error of the driver.
#[test]
fn a_driver_that_never_progresses_is_stopped() {
    let (mut world, client) = World::with_pages(8);
    world.driver.answer = Box::new(|_| Some(BuildStatus::InsufficientDmaBuffer));
    let a = world.allocate(client, 1);
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    world.run_all();
    assert!(matches!(failure(&world), Some(Violation::NoProgress { .. })), "{:?}", failure(&world));
}

/// The violation of a driver that answers each build of a fill so.
fn failure_of_fills(answer: impl Fn(&mut BuildPagingBuffer<'_>) -> BuildStatus + 'static) -> (Violation, World) {
    let (mut world, client) = World::with_pages(8);
    world.driver.answer =
        Box::new(move |build| matches!(build.operation, PagingOperation::VirtualFill(_)).then(|| answer(build)));
    let a = world.allocate(client, 1);
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    world.run_all();
    (failure(&world).expect("the adapter is in error"), world)
}

/// U-10: a driver that moves its offset and writes nothing, again and again, does not keep a poll going for ever. The operation and
/// the allocation are named.
#[test]
fn a_driver_that_progresses_without_a_byte_in_two_new_buffers_is_stopped() {
    let (found, world) = failure_of_fills(|build| {
        *build.multipass_offset += 1;
        BuildStatus::InsufficientDmaBuffer
    });
    let allocation = world.driver.calls.last().and_then(|call| call.operation.allocation());
    assert!(allocation.is_some());
    assert_eq!(found, Violation::NoProgress { operation: PagingOperationKind::VirtualFill, allocation });
    assert!(found.to_string().contains("VIRTUAL_FILL of the allocation with the driver's handle"), "{found}");
}

/// U-10: a driver that writes a few bytes into each buffer and never comes to an end is stopped too, after more buffers than an
/// encoding of the operation could take.
#[test]
fn a_driver_that_never_ends_an_operation_is_stopped() {
    let (found, world) = failure_of_fills(|build| {
        build.dma_buffer[..16].fill(0);
        build.dma_bytes_written = 16;
        *build.multipass_offset += 1;
        BuildStatus::InsufficientDmaBuffer
    });
    let Violation::TooManyPasses { operation, passes, .. } = found else { panic!("{found}") };
    assert_eq!((operation, passes), (PagingOperationKind::VirtualFill, 64 + 1 + 1), "64, and one for each page");
    let fills = world.driver.calls.iter().filter(|call| matches!(call.operation, PagingOperation::VirtualFill(_)));
    assert_eq!(fills.count() as u64, passes);
}

/// BPB-05: progress without a byte is progress, once; and a buffer that others have filled is no fresh one.
#[test]
fn progress_counts_even_without_bytes() {
    let (mut world, client) = World::with_pages(8);
    let mut calls = 0;
    world.driver.answer = Box::new(move |build| {
        calls += 1;
        (calls % 2 > 0).then(|| {
            *build.multipass_offset += u32::from(*build.multipass_offset < 4);
            BuildStatus::InsufficientDmaBuffer
        })
    });
    let a = world.allocate(client, 1);
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    world.run_all();
    assert_eq!((failure(&world), world.paging_fence(client)), (None, 1));
}

/// BPB-06, P49: after a busy answer the GPU is let come to rest, and the driver is asked again with the flag.
#[test]
fn a_busy_allocation_is_let_come_to_rest() {
    let (mut world, client) = World::with_pages(8);
    at_first_fill(&mut world, |build| {
        assert!(!build.allocation_is_idle);
        BuildStatus::AllocationBusy
    });
    let a = world.allocate(client, 1);
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    world.poll();
    assert_eq!(world.driver.calls.last().unwrap().status, BuildStatus::AllocationBusy);
    assert!(!world.engines[PAGING as usize].is_empty(), "what was encoded before is handed out");
    world.run_all();
    let fills: Vec<&Call> =
        world.driver.calls.iter().filter(|call| matches!(call.operation, PagingOperation::VirtualFill(_))).collect();
    assert_eq!(fills.iter().map(|call| call.allocation_is_idle).collect::<Vec<_>>(), [false, true]);
    assert!(!world.driver.calls.last().unwrap().allocation_is_idle, "the flag is for that one operation");
    assert_eq!((failure(&world), world.paging_fence(client)), (None, 1));
}

/// BPB-06: an operation that takes several buffers after a busy answer is idle in each: none is begun before the GPU has run the last.
#[test]
fn an_operation_that_was_busy_is_idle_in_each_of_its_buffers() {
    let mut world = World::new(Config { operation_bytes: 3 * 4096, ..Config::pages(8) });
    let client = world.client();
    at_first_fill(&mut world, |_| BuildStatus::AllocationBusy);
    let a = world.allocate(client, 1);
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    world.poll();
    let is_fill = |call: &&Call| matches!(call.operation, PagingOperation::VirtualFill(_));
    while world.can_complete(PAGING) {
        let before = world.driver.calls.iter().filter(is_fill).count();
        world.complete(PAGING);
        let fills = world.driver.calls.iter().filter(is_fill).count();
        assert!(fills <= before + 1, "a buffer has run before the operation goes on in another");
    }
    let fills: Vec<_> =
        world.driver.calls.iter().filter(is_fill).map(|call| (call.allocation_is_idle, call.status)).collect();
    let full = (true, BuildStatus::InsufficientDmaBuffer);
    assert_eq!(fills, [(false, BuildStatus::AllocationBusy), full, full, (true, BuildStatus::Success)]);
    assert_eq!((failure(&world), world.paging_fence(client)), (None, 1));
}

/// U-11.
#[test]
fn busy_while_idle_is_an_error_of_the_driver() {
    let (mut world, client) = World::with_pages(8);
    world.driver.answer = Box::new(|build| {
        matches!(build.operation, PagingOperation::VirtualFill(_)).then_some(BuildStatus::AllocationBusy)
    });
    let a = world.allocate(client, 1);
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    world.run_all();
    let operation = PagingOperationKind::VirtualFill;
    let allocation = Some(world.handle(a));
    assert_eq!(failure(&world), Some(Violation::BusyWhileIdle { operation, allocation }));
}

/// P50, BPB-01: any other status puts the adapter in error. The operation does not count as done, and nothing of its buffer runs.
#[test]
fn an_illegal_status_is_an_error_of_the_driver() {
    const STATUS_NOT_SUPPORTED: i32 = 0xC000_00BB_u32 as i32;
    let (mut world, client) = World::with_pages(8);
    at_first_fill(&mut world, |build| {
        build.dma_bytes_written = 8;
        BuildStatus::Other(STATUS_NOT_SUPPORTED)
    });
    let a = world.allocate(client, 1);
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    let submitted = world.driver.submitted.len();
    world.run_all();
    let operation = PagingOperationKind::VirtualFill;
    let violation = failure(&world).expect("the adapter is in error");
    assert_eq!(violation, Violation::IllegalStatus { operation, status: STATUS_NOT_SUPPORTED });
    let words = "BPB-01: illegal status 0xc00000bb from BuildPagingBuffer, for VIRTUAL_FILL";
    assert_eq!(violation.to_string(), words);
    let statistics = world.vidmm.statistics();
    assert_eq!(
        (statistics.operations[operation], world.driver.submitted.len()),
        (0, submitted),
        "it is not taken as done"
    );
    assert_eq!(world.paging_fence(client), 0);
}

/// P51, I21: a driver that claims more than there is puts the adapter in error, whatever it answers.
#[test]
fn an_overrun_is_found() {
    for status in [BuildStatus::Success, BuildStatus::InsufficientDmaBuffer, BuildStatus::AllocationBusy] {
        for (more, more_private) in [(1, 0), (0, 1), (usize::MAX / 2, 0), (0, usize::MAX)] {
            let (mut world, client) = World::with_pages(8);
            world.audit.expect(Invariant::I21);
            at_first_fill(&mut world, move |build| {
                build.dma_bytes_written = build.dma_buffer.len().min(usize::MAX - more) + more;
                build.private_bytes_written = build.dma_buffer_private_data.len() + more_private;
                status
            });
            let a = world.allocate(client, 1);
            let _: Residency = world.make_resident(client, &[a]).unwrap();
            world.run_all();
            let violation = failure(&world);
            let names_fill = |operation| operation == Some(PagingOperationKind::VirtualFill);
            let is_named =
                matches!(violation, Some(Violation::BufferOverrun { operation, .. }) if names_fill(operation));
            assert!(is_named, "{violation:?}");
        }
    }
}

/// An adapter in error does no more: nothing is built, nothing is handed out, and calls are refused.
#[test]
fn an_adapter_in_error_is_silent() {
    let mut world = World::new(Config::pages(8));
    let (client, other) = (world.client(), world.client());
    let fence = world.fence();
    world.submit_to(other.context, &[], &[(fence, 1)], &[]);
    world.driver.answer = Box::new(|_| Some(BuildStatus::InsufficientDmaBuffer));
    let a = world.allocate(client, 1);
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    world.run_all();
    assert!(matches!(world.outputs.last(), Some(Output::AdapterInError(_))));
    let calls = world.driver.calls.len();
    world.signal(fence, 1);
    world.run_all();
    assert_eq!((world.driver.calls.len(), world.completed[RENDER as usize]), (calls, 0));
    let answer = world.make_resident(client, &[a]);
    let reason = DeviceErrorReason::AdapterInError;
    assert_eq!(answer, Err(DeviceInError { device: client.device, reason }.into()));
    let answer = world.call(|vidmm, _, _| vidmm.submit(other.context, SubmitDesc::default()));
    assert_eq!(answer, Err(DeviceInError { device: other.device, reason }.into()));
}

/// SEG-35: private data is zeroed once, and never touched again.
#[test]
fn private_data_is_the_drivers_own() {
    let mut world = World::new(Config { private_bytes: 64, ..Config::pages(8) });
    let client = world.client();
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = seen.clone();
    world.driver.answer = Box::new(move |build| {
        if matches!(build.operation, PagingOperation::VirtualFill(_)) {
            log.borrow_mut().push((build.dma_buffer_private_data.len(), build.dma_buffer_private_data[0]));
            build.dma_buffer_private_data[0] += 1;
            build.private_bytes_written = 4;
        }
        None
    });
    for _ in 0..3 {
        let (a, _) = world.resident(client, 4);
        world.destroy(a);
        world.run_all();
    }
    let seen = seen.borrow();
    assert!(seen.iter().all(|&(room, _)| room == 64), "each buffer begins with all of it: {seen:?}");
    assert!(seen.last().unwrap().1 > 0, "bytes of an earlier use are still there: {seen:?}");
}

/// SEG-35: private data that is used up makes a buffer full too, even one without commands.
#[test]
fn used_up_private_data_makes_a_buffer_full() {
    let mut world = World::new(Config { private_bytes: 8, ..Config::pages(8) });
    let client = world.client();
    world.driver.answer = Box::new(|build| {
        if !matches!(build.operation, PagingOperation::FlushTlb(_)) {
            return None;
        }
        if build.dma_buffer_private_data.len() < 8 {
            return Some(BuildStatus::InsufficientDmaBuffer);
        }
        build.private_bytes_written = 8;
        Some(BuildStatus::Success)
    });
    let a = world.allocate(client, 4);
    world.map(client, a);
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    world.poll();
    // The machine would miss the flushes, so nothing is executed.
    while !world.engines[PAGING as usize].is_empty() {
        let packet = world.take_packet(PAGING);
        world.call(|vidmm, _, _| vidmm.handle_completed(packet.signal, packet.buffer));
        world.poll();
    }
    assert_eq!((failure(&world), world.paging_fence(client)), (None, 2));
}

/// BPB-07, BPB-09: paging buffers run in the system context on the paging engine.
#[test]
fn paging_runs_in_the_system_context() {
    let (mut world, client) = World::with_pages(8);
    world.resident(client, 1);
    for (submit, root) in &world.driver.submitted {
        assert!(submit.paging && submit.node_ordinal == PAGING && root.is_some());
    }
    let ids: Vec<u64> = world.driver.submitted.iter().map(|(submit, _)| submit.submission_fence_id).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
}
