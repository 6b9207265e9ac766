//! The host hands out system memory that reads as zero.

use proptest::prelude::*;
use vidmm::contract::Host;
use vidmm::{PAGE_SIZE, PAGE_SIZE_64K};
use vidmm_runtime::Content;
use vidmm_soft::{IoMmu, SYSTEM_MEMORY_BYTES, SoftHost, SystemMemory};

proptest! {
    #[test]
    fn ranges_are_aligned_apart_and_zero(steps in prop::collection::vec((any::<bool>(), 1u64..100, any::<u64>()), 1..80)) {
        let memory = SystemMemory::new();
        let mut host = SoftHost::new(memory.clone(), IoMmu::new(), None);
        let mut held: Vec<(vidmm::PhysicalAddress, u64)> = Vec::new();
        for (give_back, pages, choice) in steps {
            if give_back && !held.is_empty() {
                let (address, size) = held.swap_remove(choice as usize % held.len());
                host.decommit_backing_store(address, size);
                continue;
            }
            let size = pages * PAGE_SIZE;
            let address = host.commit_backing_store(size).unwrap();
            prop_assert!(address.segment.is_system() && address.offset != 0);
            prop_assert!(address.offset.is_multiple_of(PAGE_SIZE_64K));
            for &(other, bytes) in &held {
                prop_assert!(address.offset + size <= other.offset || other.offset + bytes <= address.offset);
            }
            let first = address.offset / PAGE_SIZE;
            for page in 0..pages {
                prop_assert_eq!(memory.lock().page_digest(first + page), 0);
            }
            memory.lock().write_pages(first, pages, Content::Ramp, |page| page + 1);
            held.push((address, size));
        }
        prop_assert_eq!(host.committed_bytes(), held.iter().map(|&(_, size)| size).sum::<u64>());
        for (address, size) in held {
            host.decommit_backing_store(address, size);
        }
        prop_assert_eq!(memory.lock().resident_bytes(), 0);
        // Neighbours were joined: all of the space is one range again.
        prop_assert!(host.commit_backing_store(SYSTEM_MEMORY_BYTES - PAGE_SIZE_64K).is_ok());
    }
}

#[test]
fn the_commit_limit_holds_and_a_refusal_changes_nothing() {
    let mut host = SoftHost::new(SystemMemory::new(), IoMmu::new(), Some(10 * PAGE_SIZE));
    let held = host.commit_backing_store(8 * PAGE_SIZE).unwrap();
    assert_eq!(host.commit_backing_store(3 * PAGE_SIZE).unwrap_err().size, 3 * PAGE_SIZE);
    host.commit_backing_store(2 * PAGE_SIZE).unwrap();
    host.decommit_backing_store(held, 8 * PAGE_SIZE);
    assert_eq!(host.committed_bytes(), 2 * PAGE_SIZE);
    host.commit_backing_store(8 * PAGE_SIZE).unwrap();
}

#[test]
fn sizes_without_end_are_refused() {
    let mut host = SoftHost::new(SystemMemory::new(), IoMmu::new(), None);
    for size in [0, SYSTEM_MEMORY_BYTES, u64::MAX] {
        assert!(host.commit_backing_store(size).is_err());
    }
}

#[test]
#[should_panic(expected = "decommit of what was not committed")]
fn memory_is_given_back_once() {
    let mut host = SoftHost::new(SystemMemory::new(), IoMmu::new(), None);
    let address = host.commit_backing_store(PAGE_SIZE).unwrap();
    host.decommit_backing_store(address, PAGE_SIZE);
    host.decommit_backing_store(address, PAGE_SIZE);
}
