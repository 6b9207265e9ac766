//! The oracle, compared with a reference that stores every word.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use vidmm_sim::{Content, Oracle, Verdict, WrongPage};
use vidmm_trace::{Buffer, Cost, Engine, Kernel, Lifetime, Workload};

/// A page as it lies in memory.
type Page = [u64; 512];

/// A GPU that stores all words of all pages, and follows the specification word by word.
struct Reference {
    content: Content,
    buffers: Vec<Vec<Page>>,
}

impl Reference {
    fn new(workload: &Workload, content: Content) -> Self {
        let zeroed = |buffer: &Buffer| vec![[0; 512]; buffer.bytes.div_ceil(4096) as usize];
        Self { content, buffers: workload.buffers.iter().map(zeroed).collect() }
    }

    /// Runs kernel number `number`, and returns the digests of its input pages.
    fn run(&mut self, number: usize, kernel: &Kernel) -> Vec<Vec<u64>> {
        let input = |&buffer: &u32| self.buffers[buffer as usize].iter().map(digest).collect();
        let inputs: Vec<Vec<u64>> = kernel.reads.iter().map(input).collect();
        let state = inputs.iter().flatten().fold(mix(0x76_69_64_6D_6D, number as u64), |state, &d| mix(state, d));
        for (j, &buffer) in kernel.writes.iter().enumerate() {
            for (p, page) in self.buffers[buffer as usize].iter_mut().enumerate() {
                let seed = mix(mix(state, j as u64 + 1), p as u64);
                for (i, word) in page.iter_mut().enumerate() {
                    let rise = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    *word = if self.content == Content::Ramp { seed.wrapping_add(rise) } else { seed };
                }
            }
        }
        inputs
    }
}

fn mix(a: u64, b: u64) -> u64 {
    let mut x = (a ^ b.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 32;
    x.wrapping_add(b)
}

fn digest(page: &Page) -> u64 {
    page.iter().fold(0, |digest, &word| digest.wrapping_mul(0xD6E8_FEB8_6659_FD93).wrapping_add(word))
}

/// A kernel of `process`.
fn kernel(reads: &[u32], writes: &[u32], process: u32) -> Kernel {
    Kernel {
        engine: Engine::Compute,
        reads: reads.to_vec(),
        writes: writes.to_vec(),
        cost: Cost::Nanoseconds(1),
        not_before_ns: 0,
        process,
    }
}

/// A workload of buffers of those sizes in bytes.
fn workload(sizes: &[u64], kernels: Vec<Kernel>) -> Workload {
    let buffer = |(name, &bytes)| Buffer { name, bytes, lifetime: Lifetime::Whole };
    Workload { name: "test".to_owned(), buffers: (0..).zip(sizes).map(buffer).collect(), kernels }
}

/// A buffer of three pages written by kernel 0, updated in place by kernel 1 and read by kernel 2, which also reads a
/// buffer that no kernel wrote.
fn chain() -> Workload {
    workload(&[3 * 4096, 4096], vec![kernel(&[], &[0], 0), kernel(&[0], &[0], 0), kernel(&[1, 0], &[1], 0)])
}

/// The pages that the kernels of `workload` read when all goes well.
fn right_inputs(workload: &Workload, content: Content) -> Vec<Vec<Vec<u64>>> {
    let mut gpu = Reference::new(workload, content);
    workload.kernels.iter().enumerate().map(|(number, kernel)| gpu.run(number, kernel)).collect()
}

/// Both contents, one after the other.
const CONTENTS: [Content; 2] = [Content::Uniform, Content::Ramp];

/// Any content.
fn any_content() -> impl Strategy<Value = Content> {
    prop_oneof![Just(Content::Uniform), Just(Content::Ramp)]
}

/// Any small workload of one process; buffer sizes are not whole pages.
fn any_workload() -> impl Strategy<Value = Workload> {
    let sizes = vec(1..20_000_u64, 1..6);
    sizes.prop_flat_map(|sizes| {
        let indices = || btree_set(0..sizes.len() as u32, 0..4).prop_map(|set| set.into_iter().collect::<Vec<_>>());
        let uses = (indices().prop_shuffle(), indices().prop_shuffle());
        let kernels = vec(uses.prop_map(|(reads, writes)| kernel(&reads, &writes, 0)), 1..12);
        (Just(sizes.clone()), kernels).prop_map(|(sizes, kernels)| workload(&sizes, kernels))
    })
}

/// Two workloads as the two processes of one, and an order of their kernels in which each process keeps its own order.
fn two_processes(first: Workload, second: Workload, picks: &[bool]) -> (Workload, Vec<usize>) {
    let shift = first.buffers.len() as u32;
    let border = first.kernels.len();
    let mut both = first;
    both.buffers.extend(second.buffers);
    for mut kernel in second.kernels {
        kernel.reads.iter_mut().chain(&mut kernel.writes).for_each(|buffer| *buffer += shift);
        both.kernels.push(Kernel { process: 1, ..kernel });
    }
    let (mut of_first, mut of_second) = (0..border, border..both.kernels.len());
    let mut order = Vec::new();
    for &pick in picks {
        order.extend(if pick { of_first.next() } else { of_second.next() });
    }
    order.extend(of_second.chain(of_first));
    (both, order)
}

proptest! {
    #[test]
    fn agrees_with_the_reference(workload in any_workload(), content in any_content()) {
        let mut oracle = Oracle::new(&workload, content);
        for (number, inputs) in right_inputs(&workload, content).iter().enumerate() {
            let pages = inputs.iter().flatten().count() as u64;
            prop_assert_eq!(oracle.judge(number, inputs), Verdict { pages, ..Verdict::default() });
        }
    }

    #[test]
    fn processes_may_interleave(
        first in any_workload(),
        second in any_workload(),
        picks in vec(any::<bool>(), 24),
        content in any_content(),
    ) {
        let (workload, order) = two_processes(first, second, &picks);
        let inputs = right_inputs(&workload, content);
        let mut oracle = Oracle::new(&workload, content);
        for number in order {
            prop_assert!(oracle.judge(number, &inputs[number]).is_right());
        }
    }

    #[test]
    fn never_panics(workload in any_workload(), kernel in 0..14_usize, inputs in vec(vec(any::<u64>(), 0..8), 0..6)) {
        let mut oracle = Oracle::new(&workload, Content::Uniform);
        let verdict = oracle.judge(kernel, &inputs);
        let expected: Vec<u64> = workload.kernels.get(kernel).map_or(vec![], |k| {
            k.reads.iter().map(|&buffer| oracle.pages(buffer)).collect()
        });
        prop_assert_eq!(verdict.pages, expected.iter().sum::<u64>());
        let same_shape = kernel < workload.kernels.len()
            && expected == inputs.iter().map(|input| input.len() as u64).collect::<Vec<_>>();
        prop_assert_eq!(verdict.miscounted == 0, same_shape);
        prop_assert!(verdict.wrong >= verdict.miscounted);
    }
}

#[test]
fn a_flipped_bit_is_found_and_named() {
    let workload = chain();
    for content in CONTENTS {
        for (bit, word) in [(0, 0), (1, 511), (40, 17), (63, 0), (63, 511)] {
            let mut gpu = Reference::new(&workload, content);
            let mut oracle = Oracle::new(&workload, content);
            assert!(oracle.judge(0, &gpu.run(0, &workload.kernels[0])).is_right());
            let expected = digest(&gpu.buffers[0][2]);
            gpu.buffers[0][2][word] ^= 1 << bit;
            let found = digest(&gpu.buffers[0][2]);
            let verdict = oracle.judge(1, &gpu.run(1, &workload.kernels[1]));
            let first = Some(WrongPage { buffer: 0, page: 2, expected, found });
            assert_eq!(verdict, Verdict { pages: 3, wrong: 1, miscounted: 0, first });
        }
    }
}

#[test]
fn a_wrong_page_spreads_to_the_pages_computed_from_it() {
    let workload = chain();
    let mut gpu = Reference::new(&workload, Content::Uniform);
    let mut oracle = Oracle::new(&workload, Content::Uniform);
    oracle.judge(0, &gpu.run(0, &workload.kernels[0]));
    gpu.buffers[0][1][5] ^= 1;
    assert_eq!(oracle.judge(1, &gpu.run(1, &workload.kernels[1])).wrong, 1);
    let verdict = oracle.judge(2, &gpu.run(2, &workload.kernels[2]));
    assert_eq!((verdict.pages, verdict.wrong), (4, 3));
    assert_eq!(verdict.first.map(|page| (page.buffer, page.page)), Some((0, 0)));
}

#[test]
fn the_oracle_goes_on_from_the_expected_outputs() {
    let workload = chain();
    let inputs = right_inputs(&workload, Content::Ramp);
    let mut oracle = Oracle::new(&workload, Content::Ramp);
    assert!(oracle.judge(0, &inputs[0]).is_right());
    assert_eq!(oracle.judge(1, &[vec![1, 2, 3]]).wrong, 3);
    assert!(oracle.judge(2, &inputs[2]).is_right());
}

#[test]
fn swapped_pages_and_old_content_are_wrong() {
    let workload = chain();
    let inputs = right_inputs(&workload, Content::Uniform);
    let mut oracle = Oracle::new(&workload, Content::Uniform);
    oracle.judge(0, &inputs[0]);
    let [a, b, c] = inputs[1][0][..] else { panic!("three pages") };
    assert_eq!(oracle.clone().judge(1, &[vec![b, a, c]]).wrong, 2);
    oracle.judge(1, &inputs[1]);
    let stale = inputs[1][0].clone();
    assert_eq!(oracle.judge(2, &[vec![0], stale]).wrong, 3);
}

#[test]
fn a_buffer_that_no_kernel_wrote_is_zero() {
    let workload = workload(&[10_000], vec![kernel(&[0], &[], 0)]);
    for content in CONTENTS {
        let mut oracle = Oracle::new(&workload, content);
        assert_eq!(oracle.pages(0), 3);
        assert!(oracle.judge(0, &[vec![0, 0, 0]]).is_right());
        let first = Some(WrongPage { buffer: 0, page: 1, expected: 0, found: 9 });
        assert_eq!(oracle.judge(0, &[vec![0, 9, 0]]), Verdict { pages: 3, wrong: 1, miscounted: 0, first });
    }
}

#[test]
fn wrong_numbers_of_inputs_and_pages_are_counted() {
    let workload = chain();
    let inputs = right_inputs(&workload, Content::Uniform);
    let mut oracle = Oracle::new(&workload, Content::Uniform);
    oracle.judge(0, &inputs[0]);
    let pages = &inputs[1][0];
    let miscounted = |wrong| Verdict { pages: 3, wrong, miscounted: wrong, first: None };
    let judge = |inputs: &[Vec<u64>]| oracle.clone().judge(1, inputs);
    assert_eq!(judge(&[]), miscounted(3));
    assert_eq!(judge(&[pages[..1].to_vec()]), miscounted(2));
    assert_eq!(judge(&[[&pages[..], &[7, 7]].concat()]), miscounted(2));
    assert_eq!(judge(&[pages.clone(), vec![]]), miscounted(1));
    assert_eq!(judge(&[pages.clone(), vec![1, 2]]), miscounted(2));
    assert_eq!(oracle.judge(99, &[]), Verdict { wrong: 1, miscounted: 1, ..Verdict::default() });
    // A missing input does not lead the oracle astray.
    oracle.judge(1, &[]);
    assert!(oracle.judge(2, &inputs[2]).is_right());
}

#[test]
fn an_invalid_workload_is_judged_without_panic() {
    let workload = workload(&[4096], vec![kernel(&[9, 0], &[9, 0], 0)]);
    let mut oracle = Oracle::new(&workload, Content::Uniform);
    assert_eq!(oracle.pages(9), 0);
    assert_eq!(oracle.judge(0, &[vec![1], vec![0]]).pages, 1);
}

#[test]
fn verdicts_add_up() {
    let page = |page| Some(WrongPage { buffer: 0, page, expected: 1, found: 2 });
    let mut total = Verdict { pages: 5, ..Verdict::default() };
    total.add(&Verdict { pages: 4, wrong: 2, miscounted: 1, first: page(3) });
    total.add(&Verdict { pages: 1, wrong: 1, miscounted: 0, first: page(0) });
    assert_eq!(total, Verdict { pages: 10, wrong: 3, miscounted: 1, first: page(3) });
    assert!(!total.is_right());
}
