//! MakeResident: counts, admission, answers and fences (5.2, 5.4).

mod world;

use vidmm::*;
use world::*;

/// RES-18, CRE-42.
#[test]
fn a_fresh_allocation_reads_as_zero() {
    let (mut world, client) = World::with_pages(8);
    let (_, at) = world.resident(client, 2);
    assert_eq!(world.token(client, at), Some(0));
    assert_eq!(world.token(client, at + PAGE_SIZE), Some(0));
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!(world.read, [0]);
    world.tear_down();
}
