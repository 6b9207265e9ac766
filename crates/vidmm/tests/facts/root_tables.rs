//! Root tables of two levels: they grow as addresses come into use (GVA-15, GVA-16, GVA-18).

use crate::world::*;
use vidmm::*;

/// Bytes of addresses that an entry of the root covers. The first are never used (GVA-58).
const COVERED: u64 = PAGE_SIZE_64K;

fn world(first_root_bits: u32) -> (World, Client) {
    let first_root_bits = Some(first_root_bits);
    let mut world = World::new(Config { level_bits: vec![4, 9], first_root_bits, ..Config::pages(64) });
    let client = world.client();
    (world, client)
}

impl World {
    /// Maps an allocation where the entry of the root at an index is for it, and makes it resident.
    fn bring_in_at(&mut self, client: Client, index: u64) -> u64 {
        let a = self.allocate(client, 1);
        let at = GpuVirtualAddress(index * COVERED);
        let desc = MapGpuVirtualAddress { base_address: Some(at), ..MapGpuVirtualAddress::whole(a) };
        self.try_map(client, &desc).unwrap();
        self.bring_in(client, &[a]);
        at.0
    }

    /// The entries of the root that the driver was told of before each submission of work.
    fn entries_at_work(&self) -> Vec<u32> {
        let work = self.driver.submitted.iter().filter(|(submit, _)| !submit.paging);
        work.map(|(_, root)| root.unwrap().num_entries).collect()
    }
}

#[test]
fn a_root_grows_by_doubling_as_addresses_come_into_use() {
    let (mut world, client) = world(0);
    let mut at = Vec::new();
    for index in [1, 2, 3, 4, 300] {
        at.push(world.bring_in_at(client, index));
        write(&mut world, client, *at.last().unwrap(), index);
    }
    assert_eq!(world.entries_at_work(), [2, 4, 4, 8, 512]);
    let tokens: Vec<u64> = at.iter().map(|&at| read(&mut world, client, at)).collect();
    assert_eq!(tokens, [1, 2, 3, 4, 300]);
    assert!(world.driver.submitted.iter().all(|(submit, root)| !submit.paging || root.unwrap().num_entries == 512));
    world.tear_down();
}

#[test]
fn a_root_begins_with_the_entries_of_its_description() {
    for (first_root_bits, entries) in [(0, 1), (3, 8), (9, 512), (31, 512), (u32::MAX, 512)] {
        let (mut world, client) = world(first_root_bits);
        world.submit(client, &[]);
        world.run_all();
        assert_eq!(world.entries_at_work(), [entries]);
        world.bring_in_at(client, 7);
        world.submit(client, &[]);
        world.run_all();
        assert_eq!(world.entries_at_work(), [entries, entries.max(8)]);
    }
}

/// The target context is guaranteed not to be scheduled (GVA-17).
#[test]
fn a_context_hears_of_more_entries_when_none_of_its_work_is_under_way() {
    let (mut world, client) = world(0);
    let other = world.sibling(client);
    let at = world.bring_in_at(client, 1);
    world.submit(client, &[Access::Write(at, 1)]);
    world.poll();
    world.bring_in_at(client, 2);
    world.submit(client, &[]);
    world.submit(other, &[]);
    world.run_paging();
    assert_eq!(world.entries_at_work(), [2, 4], "the work of the other context is handed out at once");
    world.complete(RENDER);
    world.run_all();
    assert_eq!(world.entries_at_work(), [2, 4, 4]);
}

#[test]
fn addresses_of_another_process_do_not_count() {
    let (mut world, client) = world(0);
    let other = world.client();
    world.bring_in_at(other, 300);
    let at = world.bring_in_at(client, 1);
    write(&mut world, client, at, 1);
    assert_eq!(world.entries_at_work(), [2]);
}

#[test]
fn a_root_that_has_grown_is_told_again_after_power_was_lost() {
    let (mut world, client) = world(0);
    let at = world.bring_in_at(client, 5);
    write(&mut world, client, at, 5);
    world.call(|vidmm, _, _| vidmm.power_down());
    world.run_all();
    world.call(|vidmm, _, _| vidmm.power_up());
    assert_eq!(read(&mut world, client, at), 5);
    assert_eq!(world.entries_at_work(), [8, 8]);
}

/// A reservation reads as zero where nothing is mapped, so that the root must reach it (GVA-20).
#[test]
fn a_root_grows_for_reserved_addresses_that_read_as_zero() {
    let first_root_bits = Some(0);
    for has_zero in [true, false] {
        let config = Config { level_bits: vec![4, 9], first_root_bits, has_zero, ..Config::pages(64) };
        let mut world = World::new(config);
        let client = world.client();
        let base = Some(GpuVirtualAddress(20 * COVERED));
        world.call(|vidmm, _, host| vidmm.reserve_gpu_virtual_address(host, client.queue, base, COVERED)).unwrap();
        world.submit(client, &[]);
        world.run_all();
        assert_eq!(world.entries_at_work(), [if has_zero { 32 } else { 1 }]);
    }
}
