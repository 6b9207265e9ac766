//! Compression: a kernel's output to a surface is stored compressed, and made plain page for page.

use crate::common::*;
use proptest::prelude::*;
use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, PageSize};
use vidmm_runtime::{AllocationSegments, Content, PageRange, Surface};
use vidmm_soft::encoding::{Command, Decompress, encode_to_vec};
use vidmm_soft::*;

const SURFACE: u32 = 3;
const VA: u64 = 1 << 30;
const PAGES: u64 = 40;
const AT: u64 = 1 << 20;
/// Where the same memory is mapped again: a window of the paging process.
const WINDOW: u64 = 2 << 30;

/// `PAGES` pages of system memory, mapped at `VA` and at `WINDOW`.
fn rig_with(config: SoftAdapterConfig) -> (Rig, Process) {
    let mut rig = Rig::new(config);
    let process = rig.process();
    for address in [VA, WINDOW] {
        rig.map_now(process, address, Pte::valid(system(AT)), PAGES, PageSize::Kib4);
    }
    (rig, process)
}

fn rig() -> (Rig, Process) {
    rig_with(SoftAdapterConfig { local_memory_bytes: 256 << 20, max_command_bytes: 3 * PAGE, ..Default::default() })
}

fn surface_pages(first: u64, count: u64) -> PageRange {
    compressed(range(VA + first * PAGE, count), SURFACE, first)
}

/// Writes all pages compressed, with the content of kernel 1. Returns what the plain pages are.
fn write(rig: &mut Rig, process: Process, content: Content) -> Vec<u64> {
    rig.run_well(process, kernel_with(content, 1, 0, &[], &[surface_pages(0, PAGES)]));
    let seed = |page| KernelState::new(1).seed(0, page);
    let digest = |page| match content {
        Content::Uniform => uniform_digest(seed(page)),
        Content::Ramp => words_digest(&ramp_words(seed(page))),
    };
    (0..PAGES).map(digest).collect()
}

fn in_memory(rig: &Rig) -> Vec<u64> {
    (0..PAGES).map(|page| rig.system.lock().page_digest(AT / PAGE + page)).collect()
}

fn decompress(virtual_address: u64, bytes: u64, first_page: u64) -> Vec<u8> {
    let mut commands = Vec::new();
    let command = Command::Decompress(Decompress {
        virtual_address: GpuVirtualAddress(virtual_address),
        bytes,
        surface: Surface { number: SURFACE, first_page },
        allocation: KmdAllocationHandle(1),
        allocation_offset: 0,
    });
    encode_to_vec(&command, &mut commands);
    commands
}

/// The digest of a ramp or uniform page with `seed` as page `page` of the surface has it, by the words of the encoding.
fn compressed_digest(content: Content, seed: u64, page: u64) -> u64 {
    let key = mix(u64::from(SURFACE) + 1, page) | 1;
    match content {
        Content::Uniform => uniform_digest(seed ^ key),
        Content::Ramp => words_digest(&ramp_words(seed).map(|word| word ^ key)),
    }
}

#[test]
fn memory_holds_other_bytes_than_kernels_see() {
    for content in [Content::Uniform, Content::Ramp] {
        let (mut rig, process) = rig();
        let plain = write(&mut rig, process, content);
        let seed = |page| KernelState::new(1).seed(0, page);
        let stored: Vec<_> = (0..PAGES).map(|page| compressed_digest(content, seed(page), page)).collect();
        assert_eq!(in_memory(&rig), stored);
        assert!(stored.iter().zip(&plain).all(|(stored, plain)| stored != plain));
        assert_eq!(rig.read(process, surface_pages(0, PAGES)), plain);
        assert_eq!(rig.read(process, surface_pages(7, 3)), plain[7..10]);
        assert_eq!(rig.read(process, range(VA, PAGES)), stored, "without the surface they are as they are");
        assert_eq!(rig.gpu.counters().pages_compressed, PAGES);
    }
}

#[test]
fn results_of_kernels_do_not_depend_on_compression() {
    let (mut rig, process) = rig();
    write(&mut rig, process, Content::Ramp);
    rig.run_well(process, kernel(2, 0, &[surface_pages(0, 4)], &[surface_pages(8, 4)]));
    let compressed = rig.read(process, surface_pages(8, 4));
    let plain: Vec<_> = rig.read(process, surface_pages(0, 4));
    let mut state = KernelState::new(2);
    plain.iter().for_each(|&digest| state.absorb(digest));
    let computed: Vec<_> = (0..4).map(|page| uniform_digest(state.seed(0, page))).collect();
    assert_eq!(compressed, computed);
}

#[test]
fn a_uniform_page_stays_cheap() {
    let (mut rig, process) = rig();
    let before = rig.system.lock().resident_bytes();
    write(&mut rig, process, Content::Uniform);
    let cost = rig.system.lock().resident_bytes() - before;
    assert!(cost < 512 * 9, "{cost}: a chunk of 512 words");
}

#[test]
fn a_notification_makes_its_chunk_plain_and_nothing_else() {
    for content in [Content::Uniform, Content::Ramp] {
        let (mut rig, process) = rig();
        let allocation = rig.allocation(PAGES * PAGE, AllocationSegments::System, Some(SURFACE));
        let plain = write(&mut rig, process, content);
        let stored = in_memory(&rig);
        // The chunk from page 16 to before page 26: four commands.
        let commands = rig.build(&notify_eviction(allocation, 16 * PAGE, 10 * PAGE, WINDOW + 16 * PAGE));
        rig.run_well(process, commands);
        let now = in_memory(&rig);
        assert_eq!(now[16..26], plain[16..26]);
        assert_eq!((&now[..16], &now[26..]), (&stored[..16], &stored[26..]));
        assert_eq!(rig.gpu.counters().bytes_decompressed, 10 * PAGE);
        assert_eq!(rig.gpu.counters().commands.decompress, 4);
        assert_eq!(rig.read(process, surface_pages(0, PAGES)), plain, "the marks are right");
    }
}

#[test]
fn all_chunks_together_make_the_allocation_plain() {
    let (mut rig, process) = rig();
    let allocation = rig.allocation(PAGES * PAGE, AllocationSegments::System, Some(SURFACE));
    let plain = write(&mut rig, process, Content::Ramp);
    for first in (0..PAGES).step_by(16) {
        let count = 16.min(PAGES - first);
        let commands = rig.build(&notify_eviction(allocation, first * PAGE, count * PAGE, WINDOW + first * PAGE));
        rig.run_well(process, commands);
    }
    assert_eq!(in_memory(&rig), plain);
    assert_eq!(rig.read(process, surface_pages(0, PAGES)), plain);
}

#[test]
fn a_page_that_is_not_compressed_is_left_alone() {
    let (mut rig, process) = rig();
    rig.run_well(process, kernel_with(Content::Ramp, 1, 0, &[], &[surface_pages(4, 2)]));
    rig.write_local(process, VA, 4, 2);
    let before = in_memory(&rig);
    for _ in 0..2 {
        rig.run_well(process, decompress(WINDOW, PAGES * PAGE, 0));
        let after = in_memory(&rig);
        assert_eq!((&after[..4], &after[6..]), (&before[..4], &before[6..]));
        assert_eq!(rig.gpu.counters().bytes_decompressed, 2 * PAGE, "once");
    }
    assert_eq!(rig.read(process, surface_pages(0, PAGES)), in_memory(&rig));
}

#[test]
fn a_page_that_is_made_plain_as_another_is_wrong() {
    let (mut rig, process) = rig();
    let plain = write(&mut rig, process, Content::Ramp);
    let stored = in_memory(&rig);
    // Chunk 16 to 26, taken to be the first: as a driver does that ignores the offset.
    rig.run_well(process, decompress(WINDOW + 16 * PAGE, 10 * PAGE, 0));
    let now = in_memory(&rig);
    for page in 16..26 {
        assert!(now[page] != plain[page] && now[page] != stored[page], "page {page}");
    }
    // Beyond the surface's marks there is nothing to do: the bytes stay compressed.
    rig.run_well(process, decompress(WINDOW, 10 * PAGE, 1000));
    assert_eq!(in_memory(&rig)[..10], stored[..10]);
}

#[test]
fn a_page_out_is_plain_and_a_page_in_brings_bytes_as_they_are() {
    let (mut rig, process) = rig();
    let allocation = rig.allocation(PAGES * PAGE, AllocationSegments::LocalOrSystem, Some(SURFACE));
    let plain = write(&mut rig, process, Content::Ramp);
    let stored = in_memory(&rig);
    rig.map_now(process, 3 * VA, Pte::valid(local(0)), 4, PageSize::Kib64);
    let transfer = |source, destination, transfer_direction| {
        PagingOperation::VirtualTransfer(TransferVirtual {
            allocation,
            allocation_offset_in_bytes: 5 * PAGE,
            transfer_size_in_bytes: 10 * PAGE,
            source_virtual_address: GpuVirtualAddress(source),
            destination_virtual_address: GpuVirtualAddress(destination),
            transfer_direction,
            flags: TransferVirtualFlags::empty(),
        })
    };
    let page_in = rig.build(&transfer(WINDOW + 5 * PAGE, 3 * VA, MemoryTransferDirection::SystemToLocal));
    rig.run_well(process, page_in);
    assert_eq!(rig.read(process, range(3 * VA, 10)), stored[5..15]);
    assert_eq!(rig.read(process, compressed(range(3 * VA, 10), SURFACE, 5)), plain[5..15]);
    let page_out = rig.build(&transfer(3 * VA, WINDOW + 20 * PAGE, MemoryTransferDirection::LocalToSystem));
    rig.run_well(process, page_out);
    assert_eq!(in_memory(&rig)[20..30], plain[5..15]);
    assert_eq!(rig.gpu.counters().bytes_decompressed, 10 * PAGE);
}

#[test]
fn a_fill_leaves_no_mark_of_lost_content() {
    let (mut rig, process) = rig();
    let allocation = rig.allocation(PAGES * PAGE, AllocationSegments::Local, Some(SURFACE));
    write(&mut rig, process, Content::Ramp);
    let fill = rig.build(&PagingOperation::VirtualFill(FillVirtual {
        allocation,
        allocation_offset_in_bytes: 0,
        fill_size_in_bytes: PAGES * PAGE,
        fill_pattern: 0,
        destination_virtual_address: GpuVirtualAddress(WINDOW),
    }));
    rig.run_well(process, fill);
    assert_eq!(rig.read(process, surface_pages(0, PAGES)), [0; PAGES as usize]);
}

#[test]
fn one_surface_says_nothing_of_another() {
    let (mut rig, process) = rig();
    let plain = write(&mut rig, process, Content::Ramp);
    let stored = in_memory(&rig);
    for number in [SURFACE - 1, SURFACE + 1] {
        assert_eq!(rig.read(process, compressed(range(VA, PAGES), number, 0)), stored, "it has no marks");
    }
    assert_eq!(rig.read(process, surface_pages(0, PAGES)), plain);
}

#[test]
fn decompression_reads_at_its_start_and_writes_at_its_end() {
    let cost = CostModel { decompress_bytes_per_second: 1_000_000_000, ..FREE };
    let config = SoftAdapterConfig { local_memory_bytes: 256 << 20, ..Default::default() };
    let mut rig = Rig::with(config, cost, ModelGpuFaults::default());
    let process = rig.process();
    rig.map_now(process, VA, Pte::valid(system(AT)), PAGES, PageSize::Kib4);
    let plain = write(&mut rig, process, Content::Ramp);
    let begun = rig.now;
    rig.submit(process, PAGING_ENGINE, &[], decompress(VA, PAGE, 0));
    rig.submit(process, RENDER_ENGINE, &[], kernel(2, 100, &[], &[range(VA, 1)]));
    rig.drain();
    assert_eq!(in_memory(&rig)[0], plain[0], "what the kernel wrote meanwhile is lost");
    assert_eq!(rig.now, begun + PAGE);
}

#[test]
fn decompression_needs_all_pages_and_may_write_them() {
    let (mut rig, process) = rig();
    let faulting = |rig: &mut Rig, commands| faults(&rig.run(process, commands));
    assert_eq!(faulting(&mut rig, decompress(WINDOW, (PAGES + 1) * PAGE, 0)), [(WINDOW + PAGES * PAGE, true)]);
    let read_only = Pte { flags: PteFlags::VALID | PteFlags::READ_ONLY, address: system(AT) };
    rig.map_now(process, 3 * VA, read_only, 1, PageSize::Kib4);
    assert_eq!(faulting(&mut rig, decompress(3 * VA, PAGE, 0)), [(3 * VA, true)]);
}

#[test]
fn ranges_that_are_none_of_a_surface_mean_nothing() {
    let (mut rig, process) = rig();
    for commands in [
        decompress(WINDOW + 8, PAGE, 0),
        decompress(WINDOW, 100, 0),
        decompress(WINDOW, PAGE, u64::MAX),
        kernel(1, 0, &[compressed(range(VA, 1), SURFACE, u64::MAX)], &[]),
        kernel(1, 0, &[], &[compressed(range(VA, 2), SURFACE, u64::MAX - 1)]),
    ] {
        let events = rig.run(process, commands);
        assert!(is_refusal(&events), "{events:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write { first: u64, count: u64, ramp: bool },
    Decompress { first: u64, count: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let part = || (0..PAGES, 0u64..12).prop_map(|(first, count)| (first, count.min(PAGES - first)));
    prop_oneof![
        (part(), any::<bool>()).prop_map(|((first, count), ramp)| Step::Write { first, count, ramp }),
        part().prop_map(|(first, count)| Step::Decompress { first, count }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn each_page_is_marked_from_when_it_is_written_to_when_it_is_made_plain(steps in prop::collection::vec(step(), 1..30)) {
        let (mut rig, process) = rig();
        let (mut plain, mut stored) = (vec![0; PAGES as usize], vec![0; PAGES as usize]);
        for (number, step) in (1..).zip(steps) {
            match step {
                Step::Write { first, count, ramp } => {
                    let content = if ramp { Content::Ramp } else { Content::Uniform };
                    rig.run_well(process, kernel_with(content, number, 0, &[], &[surface_pages(first, count)]));
                    for page in 0..count {
                        let (seed, at) = (KernelState::new(number).seed(0, page), (first + page) as usize);
                        let words = if ramp { ramp_words(seed) } else { [seed; WORDS_PER_PAGE] };
                        plain[at] = words_digest(&words);
                        stored[at] = compressed_digest(content, seed, first + page);
                    }
                }
                Step::Decompress { first, count } => {
                    rig.run_well(process, decompress(WINDOW + first * PAGE, count * PAGE, first));
                    let part = first as usize..(first + count) as usize;
                    stored[part.clone()].copy_from_slice(&plain[part]);
                }
            }
            prop_assert_eq!(&in_memory(&rig), &stored);
            prop_assert_eq!(&rig.read(process, surface_pages(0, PAGES)), &plain);
        }
    }
}
