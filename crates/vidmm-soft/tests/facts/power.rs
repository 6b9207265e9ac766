//! The CPU's writes, and what is left of them when the adapter has lost its power.

use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};
use vidmm_runtime::{Content, Gpu};
use vidmm_soft::{
    CostModel, LOCAL_SEGMENT, ModelGpuFaults, SoftAdapterConfig, SoftMachine, machine, ramp_words, words_digest,
};

fn page(segment: SegmentId, number: u64) -> PhysicalAddress {
    PhysicalAddress { segment, offset: number * PAGE_SIZE }
}

fn gpu() -> impl Gpu {
    let SoftMachine { gpu, .. } =
        machine(&SoftAdapterConfig::default(), CostModel::default(), ModelGpuFaults::default(), None);
    gpu
}

#[test]
fn the_cpu_writes_what_a_kernel_would_write() {
    let mut gpu = gpu();
    for (segment, seed) in [(SegmentId::SYSTEM, 7), (LOCAL_SEGMENT, 8)] {
        assert!(gpu.write_page(page(segment, 16), Content::Ramp, seed));
        assert_eq!(gpu.page_digest(page(segment, 16)), Some(words_digest(&ramp_words(seed))));
        assert_eq!(gpu.page_digest(page(segment, 17)), Some(0));
    }
    assert!(!gpu.write_page(page(LOCAL_SEGMENT, 1 << 40), Content::Ramp, 1));
    assert!(!gpu.write_page(page(SegmentId(9), 0), Content::Ramp, 1));
}

#[test]
fn without_power_local_memory_is_lost_and_system_memory_is_not() {
    let mut gpu = gpu();
    let places = [page(LOCAL_SEGMENT, 3), page(SegmentId::SYSTEM, 16)];
    places.iter().for_each(|&place| assert!(gpu.write_page(place, Content::Uniform, 5)));
    let before = places.map(|place| gpu.page_digest(place));
    gpu.lose_power();
    assert_ne!(gpu.page_digest(places[0]), before[0]);
    assert_ne!(gpu.page_digest(places[0]), Some(0), "what was lost does not read as zero");
    assert_ne!(gpu.page_digest(page(LOCAL_SEGMENT, 100)), Some(0), "nor does what was never written");
    assert_eq!(gpu.page_digest(places[1]), before[1]);
}
