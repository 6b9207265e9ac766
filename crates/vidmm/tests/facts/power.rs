//! Power: all that is resident is saved before the adapter loses it, and comes back (P60).

use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

fn power_down(world: &mut World) {
    world.call(|vidmm, _, _| vidmm.power_down());
}

fn power_up(world: &mut World) {
    world.call(|vidmm, _, _| vidmm.power_up());
}

/// How often it was said that the adapter may lose power.
fn said_powered_down(world: &World) -> usize {
    world.outputs.iter().filter(|output| matches!(output, Output::PoweredDown)).count()
}

/// Page tables in system memory, where the GPU or the CPU writes them, page tables in local memory, and an adapter with
/// allocations everywhere.
fn adapters() -> [Config; 4] {
    let in_segment = Config { tables_in_system: false, level_bits: vec![6, 6, 6], ..Config::pages(64) };
    let by_cpu = Config { update_mode: PageTableUpdateMode::CpuVirtual, ..Config::pages(16) };
    [Config::pages(16), by_cpu, in_segment, Config::discrete(16, 32)]
}

/// P60: every byte is what it was, wherever tables and content live.
#[test]
fn content_survives_a_power_cycle() {
    for config in adapters() {
        let mut world = World::new(config.clone());
        let clients = [(); 2].map(|()| world.client());
        let mut written: Vec<(Client, u64, u64)> = Vec::new();
        for (client, token) in clients.into_iter().zip([100, 200]) {
            let places: &[Place] = match config.aperture_bytes {
                0x2_0000 => &[Place::Local, Place::System, Place::Aperture],
                _ => &[Place::Local, Place::Local],
            };
            for (place, token) in places.iter().zip(token..) {
                let (_, at) = world.create_resident(client, *place, 3, SILENT);
                write(&mut world, client, at, token);
                written.push((client, at, token));
            }
        }
        for _ in 0..2 {
            power_down(&mut world);
            world.run_all();
            assert_eq!(world.placed.len(), 0, "nothing is resident");
            power_up(&mut world);
            world.read.clear();
            for &(client, at, _) in &written {
                world.submit(client, &[Access::Read(at)]);
            }
            world.run_all();
            let tokens: Vec<u64> = written.iter().map(|&(.., token)| token).collect();
            assert_eq!(world.read, tokens);
        }
        assert_eq!(said_powered_down(&world), 2);
        world.tear_down();
    }
}

/// P60: the tables of the paging process are written before any other operation, and every table before it is used.
#[test]
fn the_tables_of_the_paging_process_come_first() {
    for config in adapters() {
        let mut world = World::new(config);
        let at_start = world.driver.operations.len();
        let client = world.client();
        let (_, at) = world.resident(client, 4);
        write(&mut world, client, at, 7);
        power_down(&mut world);
        world.run_all();
        let since = world.driver.operations.len();
        power_up(&mut world);
        world.run_all();
        world.submit(client, &[Access::Read(at)]);
        world.run_all();
        let operations = world.operations_since(since);
        assert_eq!(operations[..at_start], world.driver.operations[..at_start], "as at adapter start");
        let is_for_paging = |operation: &PagingOperation| matches!(operation, PagingOperation::UpdatePageTable(op) if op.process == PAGING_PROCESS);
        assert!(at_start > 0 && operations[..at_start].iter().all(is_for_paging));
        let powered_up = world.events.iter().position(|event| *event == Event::PoweredUp).unwrap();
        let root = |event: &Event| matches!(event, Event::RootPageTableSet { .. });
        assert!(world.events[powered_up..].iter().any(root), "GVA-17: the context is told its root again");
        assert_eq!(world.read, [7]);
        world.tear_down();
    }
}

/// P60: work under way ends first; then all content is saved, also content that was brought in a moment ago.
#[test]
fn power_goes_down_while_paging() {
    let (mut world, client) = World::with_pages(8);
    let (a, a_at) = world.resident(client, 4);
    write(&mut world, client, a_at, 7);
    let b = world.allocate(client, 4);
    let b_at = world.map(client, b);
    world.submit(client, &[Access::Read(a_at)]);
    let _: Residency = world.make_resident(client, &[b]).unwrap();
    world.submit(client, &[Access::Write(b_at, 8)]);
    world.poll();
    power_down(&mut world);
    world.poll();
    assert!(world.can_complete(PAGING) && world.can_complete(RENDER), "both engines are busy");
    world.run_paging();
    assert_eq!((said_powered_down(&world), world.evicted().len()), (0, 0), "I17: the work is in flight");
    world.complete(RENDER);
    assert!(world.can_complete(RENDER), "what was handed out before runs too");
    world.run_all();
    assert_eq!(said_powered_down(&world), 1);
    assert!(!world.placed.contains_key(&a) && !world.placed.contains_key(&b));
    power_up(&mut world);
    world.submit(client, &[Access::Read(a_at), Access::Read(b_at)]);
    world.run_all();
    assert_eq!(world.read, [7, 7, 8]);
    world.tear_down();
}

/// Power that is wanted back while it goes down goes down first: what was saved is read back.
#[test]
fn down_and_up_at_once_is_a_whole_cycle() {
    let (mut world, client) = World::with_pages(8);
    let (_, at) = world.resident(client, 4);
    world.submit(client, &[Access::Write(at, 7)]);
    world.poll();
    power_down(&mut world);
    power_up(&mut world);
    world.run_all();
    assert_eq!(said_powered_down(&world), 1);
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!(world.read, [7]);
    // The last word counts.
    power_down(&mut world);
    power_up(&mut world);
    power_down(&mut world);
    world.run_all();
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!((said_powered_down(&world), world.read.len()), (2, 1), "it is still down");
    power_up(&mut world);
    world.run_all();
    assert_eq!(world.read, [7, 7]);
    world.tear_down();
}

/// Calls are accepted while power is down, nothing is handed out, and all of them take effect when it is back.
#[test]
fn calls_while_power_is_down_wait() {
    for config in adapters() {
        let mut world = World::new(config);
        let client = world.client();
        let (a, a_at) = world.resident(client, 3);
        write(&mut world, client, a_at, 7);
        power_down(&mut world);
        world.run_all();
        let operations = world.driver.operations.len();
        let b = world.allocate(client, 3);
        let b_at = world.map(client, b);
        let _: Residency = world.make_resident(client, &[b]).unwrap();
        world.submit(client, &[Access::Write(b_at, 8), Access::Read(b_at)]);
        world.evict(client, &[a], SOON).unwrap();
        let newcomer = world.client();
        let c = world.allocate(newcomer, 2);
        let c_at = world.map(newcomer, c);
        let _: Residency = world.make_resident(newcomer, &[c]).unwrap();
        world.submit(newcomer, &[Access::Write(c_at, 9), Access::Read(c_at)]);
        world.wait(10_000 * MILLISECOND);
        assert!(world.engines.iter().all(|engine| engine.is_empty()), "nothing is handed out");
        assert_eq!(world.driver.operations.len(), operations, "nothing is built");
        power_up(&mut world);
        world.run_all();
        world.read.sort_unstable();
        assert_eq!(world.read, [8, 9]);
        world.bring_in(client, &[a]);
        assert_eq!(world.token(client, a_at), Some(7));
        world.tear_down();
    }
}

/// Things can end while power is down.
#[test]
fn allocations_destroyed_while_power_is_down_do_not_come_back() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 4);
    let (_, b_at) = world.resident(client, 2);
    write(&mut world, client, b_at, 7);
    let going = world.client();
    world.resident(going, 1);
    power_down(&mut world);
    world.run_all();
    world.destroy(a);
    world.poll();
    power_up(&mut world);
    world.submit(client, &[Access::Read(b_at)]);
    world.run_all();
    assert_eq!(world.read, [7]);
    assert_eq!(world.placed.get(&a), None);
    world.tear_down();
}

/// A process that was suspended by a call stays so.
#[test]
fn a_suspended_process_stays_suspended() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.call(|vidmm, _, _| vidmm.suspend_process(client.process, false)).unwrap();
    power_down(&mut world);
    world.run_all();
    power_up(&mut world);
    world.submit(client, &[Access::Read(at)]);
    world.wait(1000 * MILLISECOND);
    assert_eq!(world.placed.get(&a), None);
    world.call(|vidmm, _, _| vidmm.resume_process(client.process)).unwrap();
    world.run_all();
    assert_eq!(world.read, [7]);
    world.tear_down();
}

/// Offered content is discarded, not saved: its owner can do without it.
#[test]
fn offered_content_is_not_saved() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.offer(client, &[a], OfferPriority::Low).unwrap();
    let copied = world.statistics_of_copies().1;
    power_down(&mut world);
    world.run_all();
    assert_eq!(world.statistics_of_copies().1, copied);
    power_up(&mut world);
    world.run_all();
    assert_eq!(world.reclaim(client, &[a]).unwrap().results, [ReclaimResult::Discarded]);
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!(world.read, [0]);
    world.tear_down();
}

/// Down twice is down once, and up without down is nothing.
#[test]
fn power_calls_do_not_add_up() {
    let (mut world, client) = World::with_pages(8);
    let (_, at) = world.resident(client, 4);
    let operations = world.driver.operations.len();
    power_up(&mut world);
    world.run_all();
    assert_eq!(world.driver.operations.len(), operations);
    power_down(&mut world);
    power_down(&mut world);
    world.run_all();
    power_down(&mut world);
    world.run_all();
    assert_eq!(said_powered_down(&world), 1);
    power_up(&mut world);
    power_up(&mut world);
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!(world.read, [0]);
    world.tear_down();
}

/// I16: the budget of a process that listens is the one that it was told last, also while there is no power.
#[test]
fn a_budget_that_changes_without_power_is_told() {
    let mut world = World::new(Config::pages(16));
    let client = world.client();
    world.call(|vidmm, _, _| vidmm.notify_budget_changes(client.process, true)).unwrap();
    let other = world.client();
    world.resident(other, 12);
    power_down(&mut world);
    world.run_all();
    assert_eq!(said_powered_down(&world), 1);
    let since = world.outputs.len();
    // Without power a process demands the reservation only (D30).
    world.reserve(other, 4 * PAGE_SIZE).unwrap();
    world.poll();
    let told = world.outputs[since..].iter().filter_map(|output| match *output {
        Output::BudgetChanged { group: MemorySegmentGroup::Local, budget, .. } => Some(budget),
        _ => None,
    });
    assert_eq!(Vec::from_iter(told), [12 * PAGE_SIZE]);
    power_up(&mut world);
    world.tear_down();
}

/// An adapter on which nothing is resident is down at once.
#[test]
fn an_idle_adapter_is_down_at_once() {
    let mut world = World::new(Config::pages(8));
    power_down(&mut world);
    world.poll();
    assert_eq!(said_powered_down(&world), 1);
    power_up(&mut world);
    world.run_all();
    let client = world.client();
    let (_, at) = world.resident(client, 8);
    assert_eq!(world.token(client, at), Some(0));
    world.tear_down();
}

/// FLT-32, P60: an adapter that is reset while it has no power writes no table before that is back, for devices in error either.
#[test]
fn a_reset_without_power_writes_nothing() {
    for config in adapters() {
        let mut world = World::new(config);
        let client = world.client();
        power_down(&mut world);
        world.run_all();
        assert_eq!(said_powered_down(&world), 1);
        let operations = world.driver.operations.len();
        let late = world.allocate(client, 2);
        world.map(client, late);
        let page_fault_flags = PageFaultFlags::FENCE_INVALID | PageFaultFlags::ADAPTER_RESET_REQUIRED;
        let fault = DmaPageFaulted { page_fault_flags, node_ordinal: PAGING, ..page_fault(0xBAD_0000) };
        world.call(|vidmm, _, _| vidmm.handle_interrupt(&NotifyInterrupt::DmaPageFaulted(fault)));
        world.run_all();
        assert!(world.events.contains(&Event::AdapterRestarted));
        world.wait(10_000 * MILLISECOND);
        assert_eq!(world.driver.operations.len(), operations, "nothing is built");
        power_up(&mut world);
        world.run_all();
        let other = world.client();
        let (_, at) = world.resident(other, 2);
        assert_eq!(world.token(other, at), Some(0));
        world.tear_down();
    }
}

/// FLT-22, P60: power goes only when an engine that was reset has proved that it runs; if it has not, the adapter is reset first.
#[test]
fn power_waits_for_the_proof_that_an_engine_runs() {
    for is_proved in [true, false] {
        let config = Config { tdr: TdrOptions::default(), resets_at_once: false, ..Config::pages(16) };
        let mut world = World::new(config);
        let client = world.client();
        let (_, at) = world.resident(client, 2);
        write(&mut world, client, at, 7);
        let guilty = world.client();
        world.submit(guilty, &[]);
        world.poll();
        world.fault(RENDER, 0xDEAD_0000);
        power_down(&mut world);
        world.reset_engine(RENDER);
        world.hung[RENDER as usize] = true;
        world.wait(1000 * MILLISECOND);
        assert_eq!((world.placed.len(), said_powered_down(&world)), (0, 0), "all is saved, and power is wanted still");
        world.hung[RENDER as usize] = !is_proved;
        if !is_proved {
            world.wait(2000 * MILLISECOND);
        }
        world.run_all();
        assert_eq!((world.trouble.adapter_resets.len(), said_powered_down(&world)), (usize::from(!is_proved), 1));
        power_up(&mut world);
        world.run_all();
        world.tear_down();
    }
}
