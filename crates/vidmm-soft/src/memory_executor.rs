//! The model GPU's own executor: the bytes of commands are in the memories that page tables are walked in.

use std::ops::Range;

use vidmm::{PAGE_SIZE, PhysicalAddress};
use vidmm_runtime::{Content, Surface};

use crate::digest::KernelState;
use crate::executor::{Executor, View};
use crate::memory::{PageContents, SparseMemory};
use crate::physical::{Memories, PhysicalRun, Place};
use crate::surface::page_key;

impl Executor for Memories {
    type Bytes = PageContents;

    fn memories(&self) -> &Memories {
        self
    }

    fn memories_mut(&mut self) -> &mut Memories {
        self
    }

    fn read(&mut self, runs: &[PhysicalRun]) -> PageContents {
        let memory = self.lock();
        let mut contents = PageContents::default();
        for run in runs {
            match run.place {
                Place::Zero => contents.push_zeros(run.pages),
                Place::Segment { segment, page } => {
                    let memory = memory.segment(segment).expect("a run is in memory");
                    memory.read_contents(page, run.pages, &mut contents);
                }
            }
        }
        contents
    }

    fn write(&mut self, bytes: &PageContents, runs: &[PhysicalRun]) {
        let mut skip = 0;
        for run in runs {
            write(self, run, |memory, page| memory.write_contents(page, run.pages, bytes, skip));
            skip += run.pages;
        }
    }

    fn fill(&mut self, runs: &[PhysicalRun], pattern: u32) {
        for run in runs {
            write(self, run, |memory, page| memory.fill(page, run.pages, pattern));
        }
    }

    fn flip_bit(&mut self, address: PhysicalAddress, bit: u32) {
        if let Some(memory) = self.lock().segment_mut(address.segment) {
            memory.flip_bit(address.offset / PAGE_SIZE, bit);
        }
    }

    fn digests(&mut self, view: &View<'_>, marked: &[Range<u64>]) -> Vec<u64> {
        match view.range.surface.filter(|_| !marked.is_empty()) {
            None => self.plain_digests(view),
            Some(surface) => {
                let mut contents = self.read(view.runs);
                for page in marked.iter().cloned().flatten() {
                    contents.xor(page, page_key(surface.number, surface.first_page + page));
                }
                (0..contents.num_pages()).map(|page| contents.digest(page)).collect()
            }
        }
    }

    fn write_output(&mut self, view: &View<'_>, content: Content, state: KernelState, output: u64) {
        let mut first = 0;
        for run in view.runs {
            write(self, run, |memory, page| {
                memory.write_pages(page, run.pages, content, |page| state.seed(output, first + page));
                if let Some(Surface { number, first_page }) = view.range.surface {
                    memory.xor_pages(page, run.pages, |page| page_key(number, first_page + first + page));
                }
            });
            first += run.pages;
        }
    }

    fn write_plain(&mut self, bytes: &PageContents, view: &View<'_>) {
        let mut plain = bytes.clone();
        if let Some(Surface { number, first_page }) = view.range.surface {
            (0..plain.num_pages()).for_each(|page| plain.xor(page, page_key(number, first_page + page)));
        }
        self.write(&plain, view.runs);
    }

    fn page_digest(&self, address: PhysicalAddress, key: u64) -> Option<u64> {
        let PhysicalAddress { segment, offset } = self.page_of(address)?;
        let page = offset / PAGE_SIZE;
        self.look(segment, |memory| {
            if key == 0 {
                return memory.page_digest(page);
            }
            let mut contents = PageContents::default();
            memory.read_contents(page, 1, &mut contents);
            contents.xor(0, key);
            contents.digest(0)
        })
    }

    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        let page = address.offset / PAGE_SIZE;
        let mut memory = self.lock();
        let there = memory.contains(address.segment, page, 1);
        if let Some(memory) = memory.segment_mut(address.segment).filter(|_| there) {
            memory.write_pages(page, 1, content, |_| seed);
        }
        there
    }

    fn lose_power(&mut self) {
        self.local_mut().for_each(SparseMemory::spoil);
        self.forget_apertures();
    }
}

impl Memories {
    /// The digests of the pages of `view`, as they are in memory.
    fn plain_digests(&mut self, view: &View<'_>) -> Vec<u64> {
        let memory = self.lock();
        let mut digests = Vec::with_capacity(view.range.num_pages as usize);
        for run in view.runs {
            match run.place {
                Place::Zero => digests.resize(digests.len() + run.pages as usize, 0),
                Place::Segment { segment, page } => {
                    let memory = memory.segment(segment).expect("a run is in memory");
                    memory.for_each_digest(page, run.pages, |digest| digests.push(digest));
                }
            }
        }
        digests
    }
}

/// Lets `write` write to where `run` is, unless it is nowhere.
fn write(memories: &mut Memories, run: &PhysicalRun, write: impl FnOnce(&mut SparseMemory, u64)) {
    if let Place::Segment { segment, page } = run.place
        && let Some(memory) = memories.lock().segment_mut(segment)
    {
        write(memory, page);
    }
}
