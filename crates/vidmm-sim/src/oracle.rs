//! The oracle: the expected inputs of each kernel, worked out from the workload alone.
//!
//! It keeps no page. A buffer's content follows from the state of the kernel that wrote it last, and a page's digest follows
//! from that in a few operations.

use vidmm_trace::Workload;

use crate::prediction::{Content, KernelState, OutputSeed, PAGE_BYTES};

/// Judges the pages that kernels read.
///
/// Kernels that use one buffer must be judged in the order of the workload, each once: a kernel's inputs are what the
/// kernels before it must have written. A buffer belongs to one process, so it is enough that the kernels of each
/// process are judged in order; processes may interleave in any way. The runner guarantees that, because the kernels of
/// a process complete in the workload's order. Where it breaks its word, right pages are reported as wrong.
#[derive(Clone, Debug)]
pub struct Oracle {
    content: Content,
    buffers: Vec<BufferState>,
    kernels: Vec<KernelUses>,
}

/// The content that a buffer must have.
#[derive(Clone, Copy, Debug)]
struct BufferState {
    /// The number of pages that kernels touch: all that its bytes reach into.
    pages: u64,
    /// The source of the seeds of its pages; none while no kernel has written it, when every page is zero.
    written: Option<OutputSeed>,
}

/// The buffers that a kernel uses, in the workload's order.
#[derive(Clone, Debug)]
struct KernelUses {
    reads: Vec<u32>,
    writes: Vec<u32>,
}

/// The verdict of the oracle on one kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// The pages that the kernel had to read.
    pub pages: u64,
    /// The pages that are wrong: those with another digest than they must have, and the `miscounted`.
    pub wrong: u64,
    /// The pages that the kernel had to read and did not, or read and should not have. Each input too many counts as
    /// one page at least. They mean a mistake in the runner or in a command, rather than in memory.
    pub miscounted: u64,
    /// The first page with a wrong digest, in the order of reading; none if all wrong pages are miscounted.
    pub first: Option<WrongPage>,
}

/// A page that had another digest than it must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongPage {
    /// The buffer, by its index in the workload.
    pub buffer: u32,
    /// The page in the buffer, counted from 0.
    pub page: u64,
    /// The digest that it must have.
    pub expected: u64,
    /// The digest that the kernel found.
    pub found: u64,
}

impl Oracle {
    /// Starts with buffers that nothing has written, for a run that fills pages with `content`.
    pub fn new(workload: &Workload, content: Content) -> Self {
        let pages = workload.buffers.iter().map(|buffer| buffer.bytes.div_ceil(PAGE_BYTES));
        let kernels = workload.kernels.iter();
        Self {
            content,
            buffers: pages.map(|pages| BufferState { pages, written: None }).collect(),
            kernels: kernels.map(|k| KernelUses { reads: k.reads.clone(), writes: k.writes.clone() }).collect(),
        }
    }

    /// Adds a kernel that the workload does not have: its number is the next.
    pub fn add_kernel(&mut self, reads: &[u32], writes: &[u32]) {
        self.kernels.push(KernelUses { reads: reads.to_owned(), writes: writes.to_owned() });
    }

    /// The number of kernels.
    pub fn num_kernels(&self) -> usize {
        self.kernels.len()
    }

    /// The read buffers of a kernel, then the written buffers.
    pub fn buffers_of(&self, kernel: usize) -> impl Iterator<Item = u32> {
        let uses = self.kernels.get(kernel).into_iter();
        uses.flat_map(|uses| uses.reads.iter().chain(&uses.writes).copied())
    }

    /// The number of pages of `buffer` that kernels touch; 0 for a buffer that the workload does not have.
    pub fn pages(&self, buffer: u32) -> u64 {
        self.buffers.get(buffer as usize).map_or(0, |state| state.pages)
    }

    /// Judges a copy of `buffer` that no kernel may write: its content must be that of the kernels judged so far.
    /// `found` has the digest of each of its pages.
    pub fn judge_copy(&self, buffer: u32, found: &[u64]) -> Verdict {
        let state = self.buffers.get(buffer as usize);
        state.map_or_else(
            || Verdict::of_miscounted(found.len() as u64),
            |state| state.judge_copy(self.content, buffer, found),
        )
    }

    /// Judges the inputs of kernel number `kernel` of the workload, and goes on to its expected outputs.
    ///
    /// `inputs` has the digest of each page of each input, inputs in the order of the kernel's `reads`. The expected
    /// outputs follow from the expected inputs, not from `inputs`. So each verdict stands for itself: every kernel that
    /// reads a wrong page reports it, and so does every kernel that reads pages computed from it. For a kernel that the
    /// workload does not have, all inputs are too many.
    pub fn judge(&mut self, kernel: usize, inputs: &[Vec<u64>]) -> Verdict {
        let Some(uses) = self.kernels.get(kernel) else {
            return Verdict::of_miscounted(surplus(inputs).max(1));
        };
        let mut state = KernelState::new(kernel as u64);
        let mut verdict = Verdict::default();
        for (at, &buffer) in uses.reads.iter().enumerate() {
            let found = inputs.get(at).map_or(&[][..], Vec::as_slice);
            let Some(&expected) = self.buffers.get(buffer as usize) else { continue };
            verdict.add(&expected.judge(self.content, buffer, found, &mut state));
        }
        let unexpected = inputs.get(uses.reads.len()..).unwrap_or_default();
        verdict.add(&Verdict::of_miscounted(surplus(unexpected)));
        for (output, &buffer) in (0..).zip(&uses.writes) {
            if let Some(buffer) = self.buffers.get_mut(buffer as usize) {
                buffer.written = Some(state.output(output));
            }
        }
        verdict
    }
}

impl BufferState {
    /// Judges a copy of the buffer.
    fn judge_copy(&self, content: Content, buffer: u32, found: &[u64]) -> Verdict {
        self.judge(content, buffer, found, &mut KernelState::new(0))
    }

    /// Judges one input, and mixes the digests that its pages must have into the kernel's state.
    fn judge(&self, content: Content, buffer: u32, found: &[u64], state: &mut KernelState) -> Verdict {
        let mut verdict = Verdict { pages: self.pages, ..Verdict::default() };
        let compared = self.pages.min(found.len() as u64);
        for (page, &found) in (0..compared).zip(found) {
            let expected = self.digest(content, page);
            state.read(expected);
            if expected != found {
                verdict.wrong += 1;
                verdict.first.get_or_insert(WrongPage { buffer, page, expected, found });
            }
        }
        for page in compared..self.pages {
            state.read(self.digest(content, page));
        }
        verdict.miscounted = self.pages.abs_diff(found.len() as u64);
        verdict.wrong += verdict.miscounted;
        verdict
    }

    /// The digest that a page must have. A page that nothing wrote is zero, and so is its digest.
    fn digest(&self, content: Content, page: u64) -> u64 {
        self.written.map_or(0, |seed| seed.digest(content, page))
    }
}

impl Verdict {
    /// The verdict on that many pages too many or too few.
    fn of_miscounted(pages: u64) -> Self {
        Self { wrong: pages, miscounted: pages, ..Self::default() }
    }

    /// Whether every page was right.
    pub fn is_right(&self) -> bool {
        self.wrong == 0
    }

    /// Adds a later verdict to this one. The first wrong page is that of the earlier verdict, if it has one.
    pub fn add(&mut self, later: &Verdict) {
        self.pages = self.pages.saturating_add(later.pages);
        self.wrong = self.wrong.saturating_add(later.wrong);
        self.miscounted = self.miscounted.saturating_add(later.miscounted);
        self.first = self.first.or(later.first);
    }
}

/// The number of pages that inputs count as which the kernel does not have.
fn surplus(inputs: &[Vec<u64>]) -> u64 {
    inputs.iter().map(|input| input.len().max(1) as u64).sum()
}
