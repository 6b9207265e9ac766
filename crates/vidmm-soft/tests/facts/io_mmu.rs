//! Engines behind an IOMMU reach what the host maps, and what their own cache remembers of it.

use crate::common::*;
use proptest::prelude::*;
use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, PageSize};
use vidmm_runtime::{AllocationSegments, Content};
use vidmm_soft::encoding::{Command, SetRootPageTable, encode_to_vec};
use vidmm_soft::*;

const VA: u64 = 1 << 30;
const KIB_64: u64 = 64 << 10;

/// A rig behind an IOMMU, and the host that maps for it.
struct Machine {
    rig: Rig,
    host: SoftHost,
    global: bool,
}

impl Machine {
    fn new(model: AddressingModel) -> Self {
        let rig = Rig::new(SoftAdapterConfig::with_io_mmu(model));
        let host = SoftHost::new(rig.system.clone(), rig.io_mmu.clone(), None);
        Self { rig, host, global: model == AddressingModel::GpuVaIoMmuGlobal }
    }

    fn domain(&self, process: Process) -> IoMmuDomain {
        if self.global { IoMmuDomain::Global } else { IoMmuDomain::Process(process.handle) }
    }

    /// Commits `pages` ramp pages and maps them at `address`. Returns their digests.
    fn map_new(&mut self, process: Process, address: u64, pages: u64, seed: u64) -> Vec<u64> {
        let memory = self.host.commit_backing_store(pages * PAGE).unwrap();
        self.rig.system.lock().write_pages(memory.offset / PAGE, pages, Content::Ramp, |page| seed + page);
        let domain = self.domain(process);
        self.host.map_io_mmu(domain, GpuVirtualAddress(address), memory, pages * PAGE, false);
        (0..pages).map(|page| words_digest(&ramp_words(seed + page))).collect()
    }

    fn unmap(&mut self, process: Process, address: u64, pages: u64) {
        let domain = self.domain(process);
        self.host.unmap_io_mmu(domain, GpuVirtualAddress(address), pages * PAGE);
    }

    /// Lets the driver encode a notification, and runs that.
    fn notify(&mut self, process: Process, operation: &PagingOperation) {
        let commands = self.rig.build(operation);
        self.rig.run_well(process, commands);
    }

    fn fault_of(&mut self, process: Process, address: u64) -> Vec<(u64, bool)> {
        faults(&self.rig.run(process, kernel(1, 0, &[range(address, 1)], &[])))
    }

    fn misuses(&self) -> Vec<IoMmuMisuseKind> {
        self.rig.io_mmu.misuses().iter().map(|misuse| misuse.kind).collect()
    }
}

#[test]
fn kernels_read_and_write_what_is_mapped_for_their_process() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
    let (one, two) = (machine.rig.process(), machine.rig.process());
    let of_one = machine.map_new(one, VA, 40, 100);
    let of_two = machine.map_new(two, VA, 40, 900);
    assert_eq!(machine.rig.read(one, range(VA, 40)), of_one);
    assert_eq!(machine.rig.read(two, range(VA, 40)), of_two);
    machine.rig.write_local(one, VA + PAGE, 1, 5);
    assert_eq!(machine.rig.digest(one, VA + PAGE), Some(expected(5, &[])));
    assert_eq!(machine.rig.digest(two, VA + PAGE), Some(of_two[1]));
    assert_eq!(machine.fault_of(one, VA + 40 * PAGE), [(VA + 40 * PAGE, false)]);
    assert_eq!(machine.rig.digest(one, VA - PAGE), None);
    assert_eq!(machine.misuses(), []);
}

#[test]
fn all_processes_share_the_global_domain() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmuGlobal);
    let (one, two) = (machine.rig.process(), machine.rig.process());
    let content = machine.map_new(one, VA, 3, 100);
    assert_eq!(machine.rig.read(two, range(VA, 3)), content);
    assert_eq!(machine.rig.digest(one, VA), Some(content[0]));
}

#[test]
fn writes_to_a_read_only_mapping_fault() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
    let process = machine.rig.process();
    let memory = machine.host.commit_backing_store(KIB_64).unwrap();
    for (address, size) in [(VA, KIB_64), (2 * VA, PAGE)] {
        let domain = machine.domain(process);
        machine.host.map_io_mmu(domain, GpuVirtualAddress(address), memory, size, true);
        assert_eq!(machine.fault_of(process, address), []);
        let events = machine.rig.run(process, kernel(1, 0, &[], &[range(address, 1)]));
        assert_eq!(faults(&events), [(address, true)]);
    }
}

#[test]
fn unmapped_pages_can_be_used_until_the_driver_flushes_them() {
    for model in [AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal] {
        for pages in [16, 3] {
            let mut machine = Machine::new(model);
            let process = machine.rig.process();
            let content = machine.map_new(process, VA, pages, 100);
            machine.rig.read(process, range(VA, pages));
            machine.unmap(process, VA, pages);
            assert_eq!(machine.rig.digest(process, VA), None, "the IOMMU is right");
            assert_eq!(machine.rig.read(process, range(VA, pages)), content, "and the cache is stale");
            let other = machine.map_new(process, VA, pages, 500);
            assert_eq!(machine.rig.read(process, range(VA, pages)), content);
            machine.notify(process, &notify_io_mmu_unmap(Some(process.handle), VA, pages * PAGE));
            assert_eq!(machine.rig.read(process, range(VA, pages)), other);
            machine.unmap(process, VA, pages);
            machine.notify(process, &notify_io_mmu_unmap(Some(process.handle), VA, pages * PAGE));
            assert_eq!(machine.fault_of(process, VA), [(VA, false)]);
        }
    }
}

#[test]
fn a_flush_of_other_addresses_or_another_process_leaves_the_cache_stale() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
    let (process, other) = (machine.rig.process(), machine.rig.process());
    let content = machine.map_new(process, VA, 16, 100);
    machine.rig.read(process, range(VA, 16));
    machine.unmap(process, VA, 16);
    for (named, address) in [(process, VA - KIB_64), (process, VA + KIB_64), (other, VA)] {
        machine.notify(process, &notify_io_mmu_unmap(Some(named.handle), address, KIB_64));
        assert_eq!(machine.rig.read(process, range(VA, 16)), content);
    }
}

#[test]
fn a_notification_that_names_no_process_makes_the_driver_flush_everything() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
    let (one, two) = (machine.rig.process(), machine.rig.process());
    for process in [one, two] {
        machine.map_new(process, VA, 16, 100);
        machine.rig.read(process, range(VA, 16));
        machine.unmap(process, VA, 16);
    }
    machine.notify(one, &notify_io_mmu_unmap(None, 7 * VA, KIB_64));
    for process in [one, two] {
        assert_eq!(machine.fault_of(process, VA), [(VA, false)]);
    }
}

#[test]
fn new_mappings_are_seen_at_once() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
    let process = machine.rig.process();
    assert_eq!(machine.fault_of(process, VA), [(VA, false)]);
    let content = machine.map_new(process, VA, 16, 100);
    assert_eq!(machine.rig.read(process, range(VA, 16)), content);
}

#[test]
fn every_entry_goes_into_the_cache_once() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
    let process = machine.rig.process();
    machine.map_new(process, VA, 35, 100);
    machine.rig.read(process, range(VA, 35));
    machine.rig.read(process, range(VA, 35));
    let counters = machine.rig.gpu.counters();
    assert_eq!((counters.io_mmu_cache_fills, counters.tlb_fills), (35, 0), "one for each page");
}

/// NTF-04: what a kernel uses between the notification that a part of a mapping goes and its unmap leaves nothing of that part in
/// the cache.
#[test]
fn a_use_of_neighbours_after_the_notification_does_not_fill_the_cache_again() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
    let process = machine.rig.process();
    machine.map_new(process, VA, 16, 100);
    machine.rig.read(process, range(VA, 16));
    machine.notify(process, &notify_io_mmu_unmap(Some(process.handle), VA + 8 * PAGE, 8 * PAGE));
    machine.rig.read(process, range(VA, 8));
    machine.unmap(process, VA + 8 * PAGE, 8);
    let content = machine.map_new(process, VA + 8 * PAGE, 8, 500);
    assert_eq!(machine.rig.read(process, range(VA + 8 * PAGE, 8)), content);
}

#[test]
fn an_eviction_is_notified_in_a_window_that_was_another_before() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
    let paging = machine.rig.paging_process();
    let allocation = machine.rig.allocation(4 * PAGE, AllocationSegments::System, Some(3));
    machine.map_new(paging, VA, 4, 100);
    machine.rig.read(paging, range(VA, 4));
    machine.unmap(paging, VA, 4);
    machine.map_new(paging, VA, 4, 500);
    // Compressed through another address of the same memory, so that nothing of the window is cached anew.
    let memory = machine.rig.io_mmu.translate(IoMmuDomain::Process(paging.handle), GpuVirtualAddress(VA)).unwrap();
    machine.host.map_io_mmu(IoMmuDomain::Process(paging.handle), GpuVirtualAddress(2 * VA), memory, 4 * PAGE, false);
    let compressed = compressed(range(2 * VA, 4), 3, 0);
    machine.rig.run_well(paging, kernel(9, 0, &[], &[compressed]));
    let plain = machine.rig.read(paging, compressed);
    machine.notify(paging, &notify_eviction(allocation, 0, 4 * PAGE, VA));
    assert_eq!(machine.rig.read(paging, range(2 * VA, 4)), plain);
}

#[test]
fn engines_use_the_kind_of_address_space_that_the_adapter_has() {
    let mut bytes = [Vec::new(), Vec::new()];
    let [io_mmu, page_tables] = &mut bytes;
    let process = KmdProcessHandle(1);
    encode_to_vec(&Command::SetAddressSpace(process), io_mmu);
    let root = SetRootPageTable { process, root: system(0), num_entries: 1 };
    encode_to_vec(&Command::SetRootPageTable(root), page_tables);
    for (config, [right, wrong]) in [
        (SoftAdapterConfig::with_io_mmu(AddressingModel::GpuVaIoMmu), [&*io_mmu, &*page_tables]),
        (SoftAdapterConfig::without_local_memory(), [&*page_tables, &*io_mmu]),
    ] {
        let mut rig = Rig::new(config);
        let process = rig.process();
        rig.run_well(process, right.clone());
        let events = rig.run(process, wrong.clone());
        assert!(is_refusal(&events), "{events:?}");
    }
}

#[test]
fn there_are_no_page_tables_to_write() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
    let process = machine.rig.process();
    let commands = machine.rig.map(process, VA, Pte::valid(system(VA)), 1, PageSize::Kib4);
    let events = machine.rig.run(process, commands);
    assert!(is_refusal(&events), "{events:?}");
}

#[test]
fn a_host_that_breaks_the_contract_is_noted_and_changes_nothing() {
    use IoMmuMisuseKind::*;
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmuGlobal);
    let process = machine.rig.process();
    let content = machine.map_new(process, VA, 16, 100);
    let memory = machine.host.commit_backing_store(KIB_64).unwrap();
    let domain = IoMmuDomain::Global;
    let mut map = |address, memory, size| {
        machine.host.map_io_mmu(domain, GpuVirtualAddress(address), memory, size, false);
        machine.host.io_mmu().misuses().last().map(|misuse| (misuse.kind, misuse.virtual_address.0, misuse.size))
    };
    for (address, size) in [(VA, KIB_64), (VA + 15 * PAGE, PAGE), (VA - PAGE, 2 * PAGE)] {
        assert_eq!(map(address, memory, size), Some((MappedOverMapping, address, size)));
    }
    assert_eq!(map(2 * VA, memory, KIB_64 + PAGE), Some((MappedUncommitted, 2 * VA, KIB_64 + PAGE)));
    assert_eq!(map(2 * VA, local(0), PAGE), Some((MappedUncommitted, 2 * VA, PAGE)));
    assert_eq!(map(2 * VA, memory, 100), Some((MappedPartOfPage, 2 * VA, 100)));
    assert_eq!(map(2 * VA, memory, 0), Some((MappedPartOfPage, 2 * VA, 0)));
    let mut unmap = |domain, address, size| {
        machine.host.unmap_io_mmu(domain, GpuVirtualAddress(address), size);
        machine.host.io_mmu().misuses().last().map(|misuse| (misuse.kind, misuse.virtual_address.0, misuse.size))
    };
    for (address, size) in [(VA, 0), (VA, 100), (VA, KIB_64 + PAGE), (VA - PAGE, 2 * PAGE), (VA + KIB_64, PAGE)] {
        assert_eq!(unmap(domain, address, size), Some((UnmappedNotMapped, address, size)));
    }
    let another = IoMmuDomain::Process(process.handle);
    assert_eq!(unmap(another, VA, KIB_64), Some((UnmappedNotMapped, VA, KIB_64)));
    assert_eq!(machine.rig.read(process, range(VA, 16)), content);
    assert_eq!(machine.rig.io_mmu.num_mappings(), 1);
    assert_eq!(machine.misuses().len(), 13);
    // Neighbours and what is free again can be mapped.
    for (address, size) in [(VA - PAGE, PAGE), (VA + KIB_64, KIB_64)] {
        machine.host.map_io_mmu(domain, GpuVirtualAddress(address), memory, size, false);
    }
    machine.unmap(process, VA, 16);
    machine.host.map_io_mmu(domain, GpuVirtualAddress(VA), memory, KIB_64, false);
    assert_eq!((machine.misuses().len(), machine.rig.io_mmu.num_mappings()), (13, 3));
}

/// U-22: pages of what was mapped at once can be unmapped; the rest stays.
#[test]
fn pages_of_a_mapping_can_be_unmapped() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
    let process = machine.rig.process();
    let content = machine.map_new(process, VA, 16, 100);
    let domain = machine.domain(process);
    for (first, pages, left) in [(4, 3, 2), (0, 1, 2), (15, 1, 2), (1, 3, 1)] {
        machine.host.unmap_io_mmu(domain, GpuVirtualAddress(VA + first * PAGE), pages * PAGE);
        assert_eq!(machine.rig.io_mmu.num_mappings(), left);
    }
    assert_eq!(machine.rig.read(process, range(VA + 7 * PAGE, 8)), content[7..15]);
    let memory = machine.host.commit_backing_store(KIB_64).unwrap();
    machine.host.map_io_mmu(domain, GpuVirtualAddress(VA + 4 * PAGE), memory, 3 * PAGE, false);
    assert_eq!(machine.misuses(), []);
}

#[test]
fn memory_that_is_given_back_while_it_is_mapped_is_noted() {
    let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
    let process = machine.rig.process();
    let domain = machine.domain(process);
    let (first, second) =
        (machine.host.commit_backing_store(KIB_64).unwrap(), machine.host.commit_backing_store(KIB_64).unwrap());
    machine.host.map_io_mmu(domain, GpuVirtualAddress(VA), first.offset_by(PAGE), PAGE, false);
    machine.host.decommit_backing_store(second, KIB_64);
    assert_eq!(machine.misuses(), []);
    machine.host.decommit_backing_store(first, KIB_64);
    let [misuse] = machine.rig.io_mmu.misuses()[..] else { panic!("{:?}", machine.misuses()) };
    assert_eq!((misuse.kind, misuse.virtual_address.0), (IoMmuMisuseKind::DecommittedWhileMapped, VA));
    assert_eq!(misuse.to_string(), format!("gave back what is mapped: 4096 bytes at 0x40000000 of {domain:?}"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Ranges that come and go, in 64 KiB that are mapped as a whole, in parts, or by several mappings.
    #[test]
    fn pages_flushed_at_each_unmapping_are_read_as_they_are_mapped(
        steps in prop::collection::vec((0u64..60, 1u64..40), 1..20),
    ) {
        let mut machine = Machine::new(AddressingModel::GpuVaIoMmu);
        let process = machine.rig.process();
        let mut pages: Vec<Option<u64>> = vec![None; 100];
        let mut mapped: Vec<(u64, u64)> = Vec::new();
        for (seed, (first, count)) in steps.into_iter().enumerate() {
            let overlaps = |range: &(u64, u64)| range.0 < first + count && first < range.0 + range.1;
            let (gone, kept) = mapped.into_iter().partition::<Vec<_>, _>(overlaps);
            mapped = kept;
            for (first, count) in gone {
                machine.unmap(process, VA + first * PAGE, count);
                machine.notify(process, &notify_io_mmu_unmap(Some(process.handle), VA + first * PAGE, count * PAGE));
                pages[first as usize..][..count as usize].fill(None);
            }
            let digests = machine.map_new(process, VA + first * PAGE, count, seed as u64 * 1000);
            mapped.push((first, count));
            for (page, digest) in (first as usize..).zip(digests) {
                pages[page] = Some(digest);
            }
            for (page, content) in (0..).zip(&pages) {
                let events = machine.rig.run(process, kernel(1, 0, &[range(VA + page * PAGE, 1)], &[]));
                prop_assert_eq!(reads(&events).first().map(|read| read.1[0][0]), *content, "page {}", page);
            }
        }
        prop_assert_eq!(machine.misuses(), []);
    }
}
