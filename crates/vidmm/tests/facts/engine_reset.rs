//! Engines that stop or hang: who suffers, and what runs again (FLT-01 to FLT-26, P42 to P45, I12).

use crate::world::*;
use vidmm::contract::*;
use vidmm::event::PreemptReason;
use vidmm::*;

const SECOND: Nanoseconds = 1000 * MILLISECOND;

fn timed(pages: u64) -> World {
    World::new(Config { tdr: TdrOptions::default(), ..Config::pages(pages) })
}

fn has(world: &World, wanted: impl Fn(&Output) -> bool) -> bool {
    world.outputs.iter().any(wanted)
}

/// P42, FLT-03: a fault stops its engine, which is reset; another engine and paging go on meanwhile.
#[test]
fn a_fault_stops_its_engine_alone() {
    let mut world = World::new(Config { resets_at_once: false, ..Config::pages(16) });
    let (guilty, other) = (world.client(), world.client());
    let copy = world.context(other, COPY);
    world.submit(guilty, &[]);
    world.submit(other, &[Access::Tag(9)]);
    world.poll();
    world.fault(RENDER, 0xDEAD_0000);
    assert_eq!(world.engine_resets(), [RENDER]);
    let (_, at) = world.resident(other, 4);
    world.submit_to(copy, &[Access::Write(at, 7)], &[], &[]);
    world.poll();
    world.complete(COPY);
    assert_eq!(world.token(other, at), Some(7));
    assert_eq!(world.read, [0u64; 0], "what is behind the fault waits for the reset");
    world.reset_engine(RENDER);
    world.run_all();
    assert_eq!(world.read, [9]);
    let virtual_address = GpuVirtualAddress(0xDEAD_0000);
    assert_eq!(world.devices_in_error(), [(guilty.device, DeviceErrorReason::PageFault { virtual_address })]);
    world.tear_down();
}

/// FLT-10: the report of a fault names what is mapped there, and the nearest mappings on either side.
#[test]
fn a_fault_names_what_is_mapped_there_and_beside_it() {
    const BASE: u64 = 1 << 20;
    // The page that faults; which mapping is there, below it, and above it.
    let faults = [
        (0, [Some(0), None, Some(1)]),
        (3, [Some(1), Some(0), Some(2)]),
        (4, [None, Some(1), Some(2)]),
        (7, [None, Some(1), Some(2)]),
        (9, [Some(2), Some(1), None]),
        (10, [None, Some(2), None]),
    ];
    for (page, named) in faults {
        let (mut world, client) = World::with_pages(16);
        // Two side by side, and one that is farther away.
        let mapped = [0, 2, 8].map(|first| {
            let allocation = world.allocate(client, 2);
            let base_address = Some(GpuVirtualAddress(BASE + first * PAGE_SIZE));
            world
                .try_map(client, &MapGpuVirtualAddress { base_address, ..MapGpuVirtualAddress::whole(allocation) })
                .unwrap();
            allocation
        });
        world.submit(client, &[]);
        world.poll();
        world.fault(RENDER, BASE + page * PAGE_SIZE);
        let said = world.events.iter().find_map(|event| match *event {
            Event::PageFault { allocation, below, above, .. } => {
                Some([allocation, below.map(|near| near.allocation), above.map(|near| near.allocation)])
            }
            _ => None,
        });
        assert_eq!(said, Some(named.map(|named| named.map(|index: usize| mapped[index]))), "page {page}");
        world.run_all();
        world.tear_down();
    }
}

/// FLT-23: work of others that was behind the fault runs again, in its order, with new fences, and nothing is run twice.
#[test]
fn packets_behind_the_guilty_one_run_again_in_order() {
    let mut world = World::new(Config::pages(16));
    let (other, guilty) = (world.client(), world.client());
    let fence = world.fence();
    world.submit(other, &[Access::Tag(1)]);
    world.poll();
    world.submit(guilty, &[]);
    world.poll();
    world.submit_to(other.context, &[Access::Tag(2)], &[], &[(fence, 1)]);
    world.submit_to(other.context, &[Access::Tag(3)], &[], &[(fence, 2)]);
    world.poll();
    world.complete(RENDER);
    world.fault(RENDER, 0);
    let again: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Resubmitted { before, signal, .. } => Some((before.fence_id, signal.fence_id)),
            _ => None,
        })
        .collect();
    assert_eq!(again, [(3, 5), (4, 6)]);
    world.run_all();
    assert_eq!(world.read, [1, 2, 3]);
    assert_eq!(world.vidmm.monitored_fence_value(fence), Ok(2));
    world.tear_down();
}

/// FLT-23, D7: a packet of another engine that waits for one which gets a new fence waits for that.
#[test]
fn a_packet_that_waits_for_one_that_runs_again_waits_for_its_new_fence() {
    let mut world = World::new(Config::pages(16));
    let (guilty, other) = (world.client(), world.client());
    let copy = world.context(other, COPY);
    let fence = world.fence();
    world.submit(guilty, &[]);
    world.submit_to(other.context, &[Access::Tag(1)], &[], &[(fence, 1)]);
    world.submit_to(other.context, &[Access::Tag(2)], &[], &[(fence, 2)]);
    world.submit_to(copy, &[Access::Tag(3)], &[(fence, 2)], &[]);
    world.poll();
    world.fault(RENDER, 0);
    assert_eq!(world.preempting, [(COPY, 1)], "it gives the packet back that waits");
    assert_eq!(world.engine_resets(), [0u32; 0], "and the reset follows");
    world.yield_engine(COPY);
    world.run_all();
    assert_eq!(world.read, [1, 2, 3]);
    world.tear_down();
}

/// FLT-23: a packet whose wait was over before the fault is not disturbed.
#[test]
fn a_packet_that_waits_for_none_that_runs_again_goes_on() {
    let mut world = World::new(Config::pages(16));
    let (guilty, other) = (world.client(), world.client());
    let copy = world.context(other, COPY);
    let fence = world.fence();
    world.submit_to(other.context, &[Access::Tag(1)], &[], &[(fence, 1)]);
    world.submit_to(copy, &[Access::Tag(2)], &[(fence, 1)], &[]);
    world.poll();
    world.submit(guilty, &[]);
    world.poll();
    world.complete(RENDER);
    world.fault(RENDER, 0);
    assert_eq!(world.preempting, [], "its packet keeps the fences that it has");
    world.run_all();
    assert_eq!((world.read, world.vidmm.statistics().preemptions), (vec![1, 2], 1));
}

/// P44: a reset that fails is promoted to one of the adapter.
#[test]
fn a_reset_that_fails_becomes_one_of_the_adapter() {
    let mut world = World::new(Config { resets_at_once: false, ..Config::pages(16) });
    let (guilty, other) = (world.client(), world.client());
    world.submit(guilty, &[]);
    world.poll();
    world.fault(RENDER, 0);
    world.call(|vidmm, _, _| vidmm.handle_engine_reset(RENDER, Err(ResetEngineError), Vec::new()));
    world.poll();
    assert!(has(&world, |output| matches!(output, Output::RestartFromTimeout)));
    let virtual_address = GpuVirtualAddress(0);
    let told = [
        (guilty.device, DeviceErrorReason::PageFault { virtual_address }),
        (other.device, DeviceErrorReason::AdapterReset),
    ];
    assert_eq!(world.devices_in_error(), told);
    let client = world.client();
    let (_, at) = world.resident(client, 4);
    world.submit(client, &[Access::Write(at, 7)]);
    world.run_all();
    assert_eq!(world.token(client, at), Some(7));
    world.tear_down();
}

/// FLT-22, 0x119: a packet that a driver says it has aborted must have been under way.
#[test]
fn an_aborted_fence_must_have_been_under_way() {
    for (last_aborted, is_right) in [(0, false), (1, true), (2, true), (3, true), (4, false), (u64::MAX, false)] {
        let mut world = World::new(Config { resets_at_once: false, ..Config::pages(16) });
        let client = world.client();
        (0..3).for_each(|_| _ = world.submit(client, &[]));
        world.poll();
        world.complete(RENDER);
        world.fault(RENDER, 0);
        let packets = core::mem::take(&mut world.engines[RENDER as usize]);
        let returned: ReturnedBuffers = packets.into_iter().map(|p| (p.signal.fence_id, p.buffer)).collect();
        world.call(|vidmm, _, _| vidmm.handle_engine_reset(RENDER, Ok(last_aborted), returned));
        world.poll();
        let violation = Violation::AbortedFence { engine: RENDER, last_aborted, last_completed: 1, last_submitted: 3 };
        let is_violation = |output: &Output| matches!(output, Output::AdapterInError(found) if *found == violation);
        assert_eq!(has(&world, is_violation), !is_right, "{last_aborted}");
    }
}

/// P45, FLT-22: a packet that has run for a quantum is asked to yield; an engine that does not answer within TdrDelay is reset,
/// and whose packet it was is in error.
#[test]
fn a_hang_is_found_and_costs_its_device_alone() {
    let mut world = timed(16);
    let (guilty, other) = (world.client(), world.client());
    world.submit(guilty, &[]);
    world.submit(other, &[Access::Tag(1)]);
    world.poll();
    let begun = world.now;
    world.wait(100 * MILLISECOND);
    assert_eq!(world.preempting, [(RENDER, 1)]);
    world.wait(2 * SECOND - MILLISECOND);
    assert_eq!(world.engine_resets(), [0u32; 0]);
    world.wait(MILLISECOND);
    assert_eq!(world.engine_resets(), [RENDER], "FLT-22: within a quantum and TdrDelay");
    assert_eq!(world.now - begun, 2100 * MILLISECOND);
    world.run_all();
    assert_eq!(world.read, [1]);
    assert_eq!(world.devices_in_error(), [(guilty.device, DeviceErrorReason::EngineTimeout)]);
    world.tear_down();
}

/// FLT-22: an engine that yields harms no packet: those that it gives back run again.
#[test]
fn an_engine_that_yields_goes_on() {
    let mut world = timed(16);
    let client = world.client();
    world.submit(client, &[Access::Tag(1)]);
    world.submit(client, &[Access::Tag(2)]);
    world.poll();
    world.wait(100 * MILLISECOND);
    world.complete(RENDER);
    world.yield_engine(RENDER);
    world.run_all();
    assert_eq!(world.read, [1, 2]);
    assert_eq!(world.devices_in_error(), []);
    world.tear_down();
}

/// P47: an interrupt that is lost at the end of all work is made good by the answer to the request to yield.
#[test]
fn a_lost_last_interrupt_is_found_by_asking() {
    let mut world = timed(16);
    let client = world.client();
    let fence = world.fence();
    world.submit_to(client.context, &[], &[], &[(fence, 1)]);
    world.poll();
    world.lose_interrupt(RENDER);
    world.wait(100 * MILLISECOND);
    world.run_all();
    assert_eq!(world.vidmm.monitored_fence_value(fence), Ok(1));
    assert_eq!(world.devices_in_error(), []);
    world.tear_down();
}

/// FLT-21: a driver that claims success while the engine still hangs is found out, and no second device is blamed.
#[test]
fn a_reset_that_lies_is_found_out() {
    let mut world = timed(16);
    let (guilty, innocent) = (world.client(), world.client());
    world.submit(guilty, &[]);
    world.submit(innocent, &[]);
    world.poll();
    world.hung[RENDER as usize] = true;
    world.wait(2100 * MILLISECOND);
    assert_eq!(world.engine_resets(), [RENDER]);
    world.wait(2 * SECOND);
    assert!(has(&world, |output| matches!(output, Output::ResetFromTimeout)));
    let told = [(guilty.device, DeviceErrorReason::EngineTimeout), (innocent.device, DeviceErrorReason::AdapterReset)];
    assert_eq!(world.devices_in_error(), told);
    world.run_all();
    world.tear_down();
}

/// FLT-26: engines that a reset harms are asked to yield first, and reset too if they do not within half a second.
#[test]
fn dependent_engines_yield_or_are_reset_too() {
    for yields in [false, true] {
        let mut world = World::new(Config {
            tdr: TdrOptions { quantum: 10 * SECOND, ..TdrOptions::default() },
            dependent_engines: [1, 6, 6],
            ..Config::pages(16)
        });
        let (guilty, other) = (world.client(), world.client());
        let copy = world.context(other, COPY);
        world.submit(guilty, &[]);
        world.submit_to(copy, &[Access::Tag(1)], &[], &[]);
        world.poll();
        world.fault(RENDER, 0);
        assert_eq!(world.preempting, [(COPY, 1)]);
        let asked = |event: &Event| {
            matches!(event, Event::PreemptRequested { engine: COPY, reason: PreemptReason::Dependent, .. })
        };
        assert!(world.events.iter().any(asked));
        if yields {
            world.complete(COPY);
            world.yield_engine(COPY);
            world.run_all();
            assert_eq!((world.engine_resets(), world.read.as_slice()), (vec![RENDER], &[1][..]));
            assert_eq!(world.devices_in_error().len(), 1);
        } else {
            world.wait(500 * MILLISECOND);
            assert_eq!(world.engine_resets(), [RENDER, COPY], "in ordinal order");
            assert_eq!(world.devices_in_error()[1], (other.device, DeviceErrorReason::DependentEngineReset));
        }
        world.run_all();
        world.tear_down();
    }
}

/// FLT-26: an engine that a reset harms yields before it also if it has got its work while another yielded.
#[test]
fn a_dependent_engine_with_new_work_yields_too() {
    let mut world = World::new(Config {
        tdr: TdrOptions { quantum: 10 * SECOND, ..TdrOptions::default() },
        dependent_engines: [1, 7, 6],
        ..Config::pages(16)
    });
    let (guilty, other) = (world.client(), world.client());
    let copy = world.context(other, COPY);
    let allocation = world.allocate(other, 1);
    world.run_all();
    world.submit(guilty, &[]);
    world.submit_to(copy, &[Access::Tag(1)], &[], &[]);
    world.poll();
    world.fault(RENDER, 0);
    assert_eq!(world.preempting, [(COPY, 1)]);
    _ = world.make_resident(other, &[allocation]).unwrap();
    world.poll();
    world.complete(COPY);
    world.yield_engine(COPY);
    world.poll();
    assert_eq!((world.preempting.as_slice(), world.engine_resets()), (&[(PAGING, 1)][..], vec![]));
    world.complete(PAGING);
    world.yield_engine(PAGING);
    world.run_all();
    assert_eq!((world.engine_resets(), world.read.as_slice()), (vec![RENDER], &[1][..]));
    world.tear_down();
}

/// FLT-31: a process whose work hangs engines five times within a minute loses the GPU; others keep it.
#[test]
fn a_process_that_hangs_engines_loses_the_gpu() {
    let mut world = timed(16);
    let other = world.client();
    let first = world.client();
    let innocent = world.sibling(first);
    let mut client = first;
    for round in 0..5 {
        world.submit(client, &[]);
        world.poll();
        world.wait(2100 * MILLISECOND);
        world.run_all();
        assert_eq!(world.engine_resets().len(), round + 1);
        if round < 4 {
            client = world.sibling(first);
        }
    }
    assert!(world.events.contains(&Event::ProcessBlocked { process: first.process }));
    assert!(
        world.devices_in_error().contains(&(innocent.device, DeviceErrorReason::ProcessBlocked)),
        "all its devices"
    );
    let refused = world.call(|vidmm, _, _| vidmm.create_device(first.process));
    assert_eq!(refused, Err(CreateError::ProcessBlocked));
    world.submit(other, &[Access::Tag(1)]);
    world.run_all();
    assert_eq!(world.read, [1]);
    world.tear_down();
}

/// FLT-31: hangs count for a minute. Of six, each 20 seconds after the last, four are within one at most.
#[test]
fn a_process_that_hangs_engines_now_and_then_keeps_the_gpu() {
    let mut world = timed(16);
    let first = world.client();
    for round in 1..=6 {
        let client = world.sibling(first);
        world.submit(client, &[]);
        world.wait(20_000 * MILLISECOND);
        world.run_all();
        assert_eq!(world.engine_resets().len(), round);
    }
    assert!(!world.events.contains(&Event::ProcessBlocked { process: first.process }));
    world.tear_down();
}

/// FLT-22: a hang is found when its time is over, also while the manager waits for a later time anyway.
#[test]
fn a_hang_is_found_in_time_while_a_period_of_trims_runs() {
    let mut world = timed(16);
    let client = world.client();
    world.call(|vidmm, _, _| vidmm.register_trim_notification(client.device)).unwrap();
    world.submit(client, &[]);
    world.wait(2100 * MILLISECOND);
    world.run_all();
    assert_eq!(world.devices_in_error(), [(client.device, DeviceErrorReason::EngineTimeout)]);
    world.tear_down();
}

/// P41, FLT-02, RES-04: a submission that names what is not on its device's list is refused, and its device in error.
#[test]
fn a_list_that_names_what_is_not_resident_is_refused() {
    let mut world = World::new(Config::pages(16));
    let (guilty, other) = (world.client(), world.client());
    let (listed, _) = world.resident(guilty, 2);
    let (absent, _) = world.resident(guilty, 2);
    world.evict(guilty, &[absent], IF_NECESSARY).unwrap();
    let submit = |world: &mut World, client: Client, allocations: &[AllocationId]| {
        let desc = SubmitDesc { allocations: allocations.to_vec(), ..SubmitDesc::default() };
        world.call(|vidmm, _, _| vidmm.submit(client.context, desc))
    };
    assert_eq!(submit(&mut world, guilty, &[listed]), Ok(1));
    world.poll();
    let refused = submit(&mut world, guilty, &[listed, absent]);
    assert_eq!(refused, Err(SubmitError::NotResident { position: 1 }));
    assert_eq!(world.devices_in_error(), [], "not before it is polled");
    world.submit(other, &[Access::Tag(1)]);
    world.run_all();
    assert_eq!(world.devices_in_error(), [(guilty.device, DeviceErrorReason::NotResident { allocation: absent })]);
    assert_eq!(world.read, [1]);
    assert_eq!(world.completed[RENDER as usize], 2, "nothing was submitted");
    world.tear_down();
}

/// U-26, FLT-02: a handle that names nothing is refused, and harms no device: nobody knows what was meant.
#[test]
fn a_list_that_names_a_destroyed_allocation_is_only_refused() {
    let (mut world, client) = World::with_pages(16);
    let (gone, _) = world.resident(client, 2);
    world.destroy(gone);
    world.run_all();
    let desc = SubmitDesc { allocations: vec![gone], ..SubmitDesc::default() };
    let refused = world.call(|vidmm, _, _| vidmm.submit(client.context, desc));
    assert!(matches!(refused, Err(SubmitError::InvalidHandle(_))), "{refused:?}");
    world.submit(client, &[Access::Tag(1)]);
    world.run_all();
    assert_eq!((world.devices_in_error(), world.read.as_slice()), (vec![], &[1][..]));
    world.tear_down();
}

/// FLT-04, U-43: the memory of a device in error is given back, so that others can have the room.
#[test]
fn a_device_in_error_requires_nothing() {
    let mut world = World::new(Config::pages(16));
    let (guilty, other) = (world.client(), world.client());
    world.resident(guilty, 12);
    world.submit(guilty, &[]);
    world.poll();
    world.fault(RENDER, 0);
    let (_, at) = world.resident(other, 16);
    world.submit(other, &[Access::Write(at, 7)]);
    world.run_all();
    assert_eq!(world.token(other, at), Some(7));
    world.tear_down();
}

/// FLT-10: a driver that reports broken hardware stops the adapter.
#[test]
fn broken_hardware_stops_the_adapter() {
    let (mut world, client) = World::with_pages(16);
    world.submit(client, &[]);
    world.poll();
    let page_fault_flags = PageFaultFlags::FATAL_HARDWARE_ERROR | PageFaultFlags::FENCE_INVALID;
    let fault = DmaPageFaulted { page_fault_flags, node_ordinal: RENDER, ..page_fault(0) };
    world.call(|vidmm, _, _| vidmm.handle_interrupt(&NotifyInterrupt::DmaPageFaulted(fault)));
    world.poll();
    assert!(has(&world, |output| matches!(output, Output::AdapterInError(Violation::FatalHardwareError))));
}

/// D7: packets of several engines run again in an order in which none comes before one that it waits for.
#[test]
fn packets_that_engines_give_back_come_again_in_the_order_of_their_waits() {
    let mut world = timed(16);
    let client = world.client();
    let copy = world.context(client, COPY);
    let fence = world.fence();
    world.submit_to(copy, &[Access::Tag(1)], &[], &[(fence, 1)]);
    world.submit_to(client.context, &[Access::Tag(2)], &[(fence, 1)], &[]);
    world.wait(100 * MILLISECOND);
    assert_eq!(world.preempting, [(COPY, 1), (RENDER, 1)], "who waits for what comes again comes again too");
    world.yield_engine(RENDER);
    world.yield_engine(COPY);
    world.run_all();
    assert_eq!(world.read, [1, 2]);
    assert_eq!(world.devices_in_error(), []);
    world.tear_down();
}

/// FLT-22: an answer that comes when the engine is being reset brings packets back that the answer to the reset does not; nothing
/// was aborted, so nobody is to blame.
#[test]
fn buffers_that_an_engine_gives_back_too_late_are_kept() {
    let mut world = World::new(Config { resets_at_once: false, tdr: TdrOptions::default(), ..Config::pages(16) });
    let (guilty, other) = (world.client(), world.client());
    world.submit(guilty, &[Access::Tag(1)]);
    world.submit(other, &[Access::Tag(2)]);
    world.wait(2100 * MILLISECOND);
    assert_eq!(world.engine_resets(), [RENDER]);
    world.yield_engine(RENDER);
    world.reset_engine(RENDER);
    world.run_all();
    assert_eq!(world.read, [1, 2]);
    assert_eq!(world.devices_in_error(), []);
    world.tear_down();
}

/// An answer that was given before is named, and is not taken for one of an engine that is to be reset.
#[test]
fn an_engine_answers_once() {
    let mut world = World::new(Config {
        tdr: TdrOptions::default(),
        dependent_engines: [1, 6, 6],
        resets_at_once: false,
        ..Config::pages(16)
    });
    let (guilty, other) = (world.client(), world.client());
    let copy = world.context(other, COPY);
    world.submit_to(copy, &[Access::Tag(1)], &[], &[]);
    world.submit(guilty, &[]);
    world.wait(100 * MILLISECOND);
    world.yield_engine(RENDER);
    world.yield_engine(COPY);
    world.poll();
    // Its group is busy: the reset waits until it has yielded, and the fault's own engine has not.
    world.fault(RENDER, 0);
    world.yield_again(RENDER);
    world.poll();
    let again = DriverFinding::PreemptedUnasked { engine: RENDER, preemption_fence_id: 1 };
    assert_eq!(world.vidmm.driver_findings(), [again]);
    world.yield_engine(COPY);
    world.poll();
    world.reset_engine(RENDER);
    world.run_all();
    assert_eq!(world.read, [1]);
    assert_eq!(world.devices_in_error().len(), 1);
    world.tear_down();
}

/// FLT-22: an engine that has nothing under way is not waited for. Packets that it got since and gives back when it
/// answers at last run again.
#[test]
fn an_answer_that_nobody_waits_for_any_more_still_counts() {
    let mut world = timed(16);
    let client = world.client();
    world.submit(client, &[Access::Tag(1)]);
    world.wait(100 * MILLISECOND);
    world.complete(RENDER);
    world.submit(client, &[Access::Tag(2)]);
    world.wait(2 * SECOND);
    assert_eq!(world.engines[RENDER as usize].len(), 1, "the time to answer is over");
    let over = Event::PreemptTimedOut { engine: RENDER, preemption_fence_id: 1 };
    assert!(world.events.contains(&over), "the log says that the engine gets packets again");
    world.wait(100 * MILLISECOND);
    assert_eq!(world.preempting, [(RENDER, 1), (RENDER, 2)]);
    world.yield_engine(RENDER);
    world.yield_engine(RENDER);
    world.run_all();
    assert_eq!(world.read, [1, 2]);
    assert_eq!(world.devices_in_error(), []);
    world.tear_down();
}

/// I12, FLT-22: whose packet hung turns out at the reset: the end of the one before it was not reported.
#[test]
fn a_lost_interrupt_before_a_hang_blames_nobody_else() {
    let mut world = timed(16);
    let (innocent, guilty) = (world.client(), world.client());
    let fence = world.fence();
    world.submit_to(innocent.context, &[Access::Tag(1)], &[], &[(fence, 1)]);
    world.poll();
    world.submit(guilty, &[Access::Tag(2)]);
    world.poll();
    world.lose_interrupt(RENDER);
    world.wait(2100 * MILLISECOND);
    world.run_all();
    assert_eq!(world.devices_in_error(), [(guilty.device, DeviceErrorReason::EngineTimeout)]);
    assert_eq!((world.read.as_slice(), world.vidmm.monitored_fence_value(fence)), (&[1][..], Ok(1)));
    world.tear_down();
}

/// FLT-22: an engine that goes on while those that depend on it yield is not reset, and nobody is to blame.
#[test]
fn an_engine_that_goes_on_after_all_is_not_reset() {
    let mut world =
        World::new(Config { tdr: TdrOptions::default(), dependent_engines: [1, 6, 6], ..Config::pages(16) });
    let (slow, other) = (world.client(), world.client());
    let copy = world.context(other, COPY);
    world.submit(slow, &[Access::Tag(1)]);
    world.poll();
    world.wait(50 * MILLISECOND);
    world.submit_to(copy, &[Access::Tag(2)], &[], &[]);
    world.poll();
    world.wait(2050 * MILLISECOND);
    world.complete(RENDER);
    while let Some(&(engine, _)) = world.preempting.first() {
        if world.can_complete(engine) {
            world.complete(engine);
        }
        world.yield_engine(engine);
        world.poll();
    }
    world.run_all();
    assert_eq!((world.engine_resets(), world.devices_in_error()), (vec![], vec![]));
    assert_eq!(world.read, [1, 2]);
    world.tear_down();
}

/// FLT-26, FLT-31: a device whose engine is reset with another one loses its packet, and has hung nothing.
#[test]
fn a_device_that_is_harmed_by_a_reset_has_not_hung_the_gpu() {
    let tdr = TdrOptions { limit_count: 1, ..TdrOptions::default() };
    let mut world = World::new(Config { tdr, dependent_engines: [1, 6, 6], ..Config::pages(16) });
    let (guilty, harmed) = (world.client(), world.client());
    let copy = world.context(harmed, COPY);
    world.submit(guilty, &[]);
    world.poll();
    // The packet of the other engine has run for a quantum, and been asked to yield, when the first one's time is over.
    world.wait(1900 * MILLISECOND);
    world.submit_to(copy, &[], &[], &[]);
    world.poll();
    world.wait(200 * MILLISECOND);
    assert!(world.engine_resets().is_empty());
    world.wait(500 * MILLISECOND);
    world.run_all();
    assert_eq!(world.engine_resets(), [RENDER, COPY]);
    let told =
        [(guilty.device, DeviceErrorReason::EngineTimeout), (harmed.device, DeviceErrorReason::DependentEngineReset)];
    assert_eq!(world.devices_in_error(), told);
    let mut create = |of: Client| world.call(|vidmm, _, _| vidmm.create_device(of.process)).err();
    assert_eq!((create(guilty), create(harmed)), (Some(CreateError::ProcessBlocked), None));
}

/// FLT-11: a fault of a packet that the driver does not know is whose the engine's reset aborts; the end of the packet
/// before it was not reported.
#[test]
fn a_fault_of_an_unknown_packet_is_whose_the_reset_aborts() {
    let mut world = World::new(Config::pages(16));
    let (innocent, guilty) = (world.client(), world.client());
    let fence = world.fence();
    world.submit_to(innocent.context, &[Access::Tag(1)], &[], &[(fence, 1)]);
    world.poll();
    world.submit(guilty, &[]);
    world.poll();
    world.lose_interrupt(RENDER);
    let unknown = PageFaultFlags::FENCE_INVALID | PageFaultFlags::ENGINE_RESET_REQUIRED;
    world.fault_with(RENDER, DmaPageFaulted { page_fault_flags: unknown, ..page_fault(0x1000) });
    world.run_all();
    let virtual_address = GpuVirtualAddress(0x1000);
    assert_eq!(world.devices_in_error(), [(guilty.device, DeviceErrorReason::PageFault { virtual_address })]);
    assert_eq!((world.read.as_slice(), world.vidmm.monitored_fence_value(fence)), (&[1][..], Ok(1)));
    world.tear_down();
}

/// FLT-22, FLT-24: an interrupt that arrives while its engine is reset does not count, and its device is in error if the reset
/// fails.
#[test]
fn a_packet_that_ends_during_its_engines_reset_costs_its_device_all_the_same() {
    let mut world = World::new(Config { resets_at_once: false, tdr: TdrOptions::default(), ..Config::pages(16) });
    let (slow, other) = (world.client(), world.client());
    world.submit(slow, &[]);
    world.wait(2100 * MILLISECOND);
    assert_eq!(world.engine_resets(), [RENDER]);
    world.complete(RENDER);
    world.trouble.failing_resets = 1;
    world.do_what_is_owed();
    world.run_all();
    let told = [(slow.device, DeviceErrorReason::EngineTimeout), (other.device, DeviceErrorReason::AdapterReset)];
    assert_eq!(world.devices_in_error(), told);
    world.tear_down();
}

/// FLT-31: a reset that fails is one of the adapter, and does not count among those that cost a process the GPU.
#[test]
fn only_resets_of_engines_cost_a_process_the_gpu() {
    for fails in [false, true] {
        let tdr = TdrOptions { limit_count: 1, ..TdrOptions::default() };
        let mut world = World::new(Config { tdr, ..Config::pages(16) });
        let client = world.client();
        world.submit(client, &[]);
        world.poll();
        world.trouble.failing_resets = u32::from(fails);
        world.wait(2100 * MILLISECOND);
        world.run_all();
        assert_eq!(world.devices_in_error(), [(client.device, DeviceErrorReason::EngineTimeout)]);
        let again = world.call(|vidmm, _, _| vidmm.create_device(client.process));
        assert_eq!(again.err(), (!fails).then_some(CreateError::ProcessBlocked));
    }
}

/// FLT-22: an engine that was reset has nothing left: what its driver does not give back would never end.
#[test]
fn a_packet_that_a_reset_engine_does_not_give_back_stops_the_adapter() {
    for kept in 0..3 {
        let mut world = World::new(Config { resets_at_once: false, ..Config::pages(16) });
        let client = world.client();
        (0..3).for_each(|_| _ = world.submit(client, &[]));
        world.poll();
        world.fault(RENDER, 0);
        let packets = core::mem::take(&mut world.engines[RENDER as usize]);
        let returned = packets.into_iter().skip(1).map(|packet| (packet.signal.fence_id, packet.buffer));
        world.call(|vidmm, _, _| vidmm.handle_engine_reset(RENDER, Ok(1), returned.take(kept).collect()));
        world.poll();
        let missing = EngineFence { engine: RENDER, fence_id: 2 + kept as u64 };
        let is_missing = |output: &Output| matches!(output, Output::AdapterInError(Violation::PacketNotReturned { missing: found }) if *found == missing);
        assert_eq!(has(&world, is_missing), kept < 2, "{kept} came back");
    }
}
