//! Updates of mappings in a reservation (GVA-54, GVA-55).

use vidmm_kmt::{Call, FenceValue, Reply, Rule, Status, UpdateOperation};

use crate::client::{Client, MIB};

const TILE: u64 = 64 << 10;
const BASE: u64 = 1 << 32;

/// A client with a resident tile pool of 1 MiB, and a reservation of 1 MiB.
fn with_tiles() -> (Client, u32) {
    let mut client = Client::small();
    let (object, base, size) = (client.queue, BASE, MIB);
    let reserve = Call::ReserveGpuVirtualAddress { object, base, minimum: 0, maximum: 0, size };
    assert!(client.call(reserve).status.is_success());
    let (pool, _) = client.ready(MIB);
    (client, pool)
}

fn map(pool: u32, base: u64, size: u64, offset: u64, allocation_size: u64) -> UpdateOperation {
    let (protection, driver_protection) = (1, 0);
    UpdateOperation::Map { base, size, allocation: pool, offset, allocation_size, protection, driver_protection }
}

/// An update that begins when the client's fence has `value`.
fn update(client: &mut Client, value: u64, operations: Vec<UpdateOperation>) -> Reply {
    let fence = FenceValue { fence: client.fence, value };
    client.call(Call::UpdateGpuVirtualAddress { context: client.context, fence, does_not_wait: false, operations })
}

/// The context's work waits for a value of the client's fence.
fn wait(client: &mut Client, value: u64) {
    let fences = vec![FenceValue { fence: client.fence, value }];
    client.call(Call::WaitFromGpu { context: client.context, fences });
}

fn submit(client: &mut Client, commands: u64) -> Reply {
    let (context, length) = (client.context, 64);
    client.call(Call::SubmitCommand { context, commands, length, fence_address: 0, fence_value: 0 })
}

fn reaches(client: &mut Client, value: u64) -> Status {
    let (device, fences) = (client.device, vec![FenceValue { fence: client.fence, value }]);
    client.call(Call::WaitFromCpu { device, fences, any: false }).status
}

/// Before, a reservation anywhere was refused: the first addresses are nobody's (GVA-58).
#[test]
fn addresses_are_reserved_anywhere_and_away_from_each_other() {
    let (mut client, _) = with_tiles();
    let object = client.queue;
    let reserve = Call::ReserveGpuVirtualAddress { object, base: 0, minimum: 0, maximum: 0, size: MIB };
    let [first, second] = [(); 2].map(|()| client.call(reserve.clone()).address);
    assert!(first > 0 && second >= first + MIB, "{first:#x} {second:#x}");
    assert_eq!(client.end(), []);
}

#[test]
fn work_may_run_where_an_update_has_mapped_a_tile() {
    let (mut client, pool) = with_tiles();
    assert_eq!(update(&mut client, 0, vec![map(pool, BASE, 4 * TILE, TILE, TILE)]).status, Status::SUCCESS);
    wait(&mut client, 1);
    for tile in 0..4 {
        submit(&mut client, BASE + tile * TILE);
    }
    assert_eq!(reaches(&mut client, 1), Status::SUCCESS);
    assert_eq!(client.end(), []);
}

#[test]
fn an_update_begins_with_its_fence_and_raises_it() {
    let (mut client, pool) = with_tiles();
    update(&mut client, 5, vec![map(pool, BASE, TILE, 0, 0)]);
    client.call(Call::TimePasses { until: 1_000_000_000 });
    let device = client.device;
    let signal = |value| Call::SignalFromCpu { device, fences: vec![FenceValue { fence: client.fence, value }] };
    let signal = signal(5);
    let query = Call::WaitFromCpu { device, fences: vec![FenceValue { fence: client.fence, value: 5 }], any: false };
    assert_eq!(client.call(query).status, Status::IO_TIMEOUT);
    client.call(signal);
    assert_eq!(reaches(&mut client, 6), Status::SUCCESS);
    assert_eq!(client.end(), []);
}

/// KMT-02, KMT-03.
#[test]
fn work_before_the_end_of_an_update_and_in_an_unmapped_tile_is_named() {
    let (mut client, pool) = with_tiles();
    update(&mut client, 0, vec![map(pool, BASE, 2 * TILE, 0, 0)]);
    wait(&mut client, 1);
    submit(&mut client, BASE);
    assert_eq!(reaches(&mut client, 1), Status::SUCCESS);
    update(
        &mut client,
        9,
        vec![
            UpdateOperation::Copy { source: BASE + TILE, base: BASE + 8 * TILE, size: TILE },
            UpdateOperation::Unmap { base: BASE, size: TILE },
        ],
    );
    let call = client.session.num_calls();
    submit(&mut client, BASE + 8 * TILE);
    let fences = vec![FenceValue { fence: client.fence, value: 9 }];
    client.call(Call::SignalFromCpu { device: client.device, fences });
    assert_eq!(reaches(&mut client, 10), Status::SUCCESS);
    submit(&mut client, BASE + 8 * TILE);
    submit(&mut client, BASE);
    assert_eq!(client.session.findings()[0].since, Some(call));
    assert_eq!(client.end(), [Rule::SubmittedBeforeMapped, Rule::CommandsNotResident]);
}

#[test]
fn an_update_that_is_not_possible_changes_nothing() {
    let (mut client, pool) = with_tiles();
    let wrong = [
        map(pool, BASE - TILE, TILE, 0, 0),
        map(pool, BASE + MIB, TILE, 0, 0),
        map(pool, BASE, TILE, MIB, 0),
        map(pool, BASE, 3 * TILE, 0, 2 * TILE),
        map(pool, BASE, 0, 0, 0),
        map(pool, BASE + 1, TILE, 0, 0),
        UpdateOperation::Copy { source: BASE - TILE, base: BASE, size: TILE },
    ];
    for operation in wrong {
        let operations = vec![map(pool, BASE, TILE, 0, 0), operation];
        assert_eq!(update(&mut client, 0, operations).status, Status::INVALID_PARAMETER, "{operation:?}");
    }
    submit(&mut client, BASE);
    assert_eq!(client.end(), [Rule::CommandsNotResident]);
}

/// GVA-55: the 129th update waits for the first, and none of them is lost.
#[test]
fn many_updates_keep_their_order() {
    let (mut client, pool) = with_tiles();
    for number in 0..300 {
        update(&mut client, number, vec![map(pool, BASE + number % 16 * TILE, TILE, number % 7 * TILE, 0)]);
    }
    assert_eq!(reaches(&mut client, 300), Status::SUCCESS);
    submit(&mut client, BASE);
    assert_eq!(client.end(), []);
}

#[test]
fn an_update_of_a_pool_that_is_destroyed_still_ends() {
    let (mut client, pool) = with_tiles();
    update(&mut client, 1, vec![map(pool, BASE, TILE, 0, 0)]);
    client.destroy(pool, 0);
    let fences = vec![FenceValue { fence: client.fence, value: 1 }];
    client.call(Call::SignalFromCpu { device: client.device, fences });
    assert_eq!(reaches(&mut client, 2), Status::SUCCESS);
    assert_eq!(client.end(), []);
}
