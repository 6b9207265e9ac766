//! The CPU's view of the addresses that the host hands out.

use vidmm::contract::CpuVirtualAddress;
use vidmm::{Extent, PhysicalAddress, SegmentId};
use vidmm_runtime::CpuView;
use vidmm_soft::{CpuAddresses, LOCAL_SEGMENT};

const SYSTEM: SegmentId = SegmentId::SYSTEM;

fn extent(offset: u64, size: u64) -> Extent {
    Extent { offset, size }
}

fn at(address: CpuVirtualAddress, offset: u64) -> CpuVirtualAddress {
    CpuVirtualAddress(address.0 + offset)
}

fn physical(segment: SegmentId, offset: u64) -> Option<PhysicalAddress> {
    Some(PhysicalAddress { segment, offset })
}

#[test]
fn extents_are_seen_one_after_another_and_nothing_behind_them() {
    let cpu = CpuAddresses::default();
    let address = cpu.map(LOCAL_SEGMENT, &[extent(0x10000, 0x2000), extent(0x50000, 0x1000)]).unwrap();
    assert_eq!(cpu.shown(address), physical(LOCAL_SEGMENT, 0x10000));
    assert_eq!(cpu.shown(at(address, 0x1FFF)), physical(LOCAL_SEGMENT, 0x11FFF));
    assert_eq!(cpu.shown(at(address, 0x2000)), physical(LOCAL_SEGMENT, 0x50000));
    assert_eq!(cpu.shown(at(address, 0x3000)), None);
    assert_eq!(cpu.shown(CpuVirtualAddress(address.0 - 1)), None);
}

#[test]
fn memory_that_moves_is_seen_at_the_same_address() {
    let cpu = CpuAddresses::default();
    let first = cpu.map(SYSTEM, &[extent(0x10000, 0x1000)]).unwrap();
    let second = cpu.map(SYSTEM, &[extent(0x20000, 0x1000)]).unwrap();
    cpu.rotate(first, LOCAL_SEGMENT, &[extent(0, 0x1000)]);
    assert_eq!(cpu.shown(first), physical(LOCAL_SEGMENT, 0));
    assert_eq!(cpu.shown(second), physical(SYSTEM, 0x20000));
}

#[test]
fn addresses_that_were_given_back_show_nothing_for_ever() {
    let cpu = CpuAddresses::default();
    let first = cpu.map(SYSTEM, &[extent(0x10000, 0x1000)]).unwrap();
    cpu.unmap(first);
    let second = cpu.map(SYSTEM, &[extent(0x20000, 0x1000)]).unwrap();
    assert_ne!(first, second);
    assert_eq!(cpu.shown(first), None);
    assert!(cpu.map(SYSTEM, &[extent(0, u64::MAX)]).is_err(), "addresses are bounded");
}
