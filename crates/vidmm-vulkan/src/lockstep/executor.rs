//! The executor: what the commands of the reference driver do to Vulkan's memory.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use vidmm::{PAGE_SIZE, PhysicalAddress};
use vidmm_runtime::{Content, Surface};
use vidmm_soft::{Executor, KernelState, MappingChange, Memories, PhysicalRun, Translation, View};

use super::tables::Tables;
use crate::error::sure;
use crate::kernels::{Arguments, FLAG_RAMP, FLAG_SEED, FLAG_SURFACE, Kernel};
use crate::memory::{Reach, VulkanMemory};

/// Executes commands on a Vulkan device.
///
/// The model GPU has page tables on the CPU. A Vulkan device keeps tables of the device's own, and mappings of the model GPU's tables are
/// bound. Kernels run as shaders on the process's addresses. Copies and fills go to the memory itself: their addresses
/// were translated before, and nothing is bound for them.
///
/// A transfer reads and writes at the end, as one copy.
///
/// # Panics
///
/// All methods end the run if the device fails or has no memory left: see [`caught`](crate::caught).
pub struct VulkanExecutor {
    tables: Memories,
    /// The mappings by the model GPU's page tables; none where the driver of real time maps, copies and fills.
    mappings: Option<Tables>,
    memory: Rc<RefCell<VulkanMemory>>,
}

impl fmt::Debug for VulkanExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VulkanExecutor").finish_non_exhaustive()
    }
}

impl VulkanExecutor {
    /// An executor over `memory`; page tables are in `tables`.
    pub(crate) fn new(tables: Memories, mappings: Option<Tables>, memory: Rc<RefCell<VulkanMemory>>) -> Self {
        Self { tables, mappings, memory }
    }

    /// Runs `kernel` on all pages of `view` that are somewhere; `arguments` says those for the pages of a reach.
    fn dispatch(&self, kernel: Kernel, view: &View<'_>, arguments: impl Fn(&Reach) -> Arguments) {
        let mut memory = self.memory.borrow_mut();
        for reach in sure(memory.reach(view)) {
            sure(memory.recorder.dispatch(kernel, arguments(&reach), reach.pages));
        }
    }
}

impl Executor for VulkanExecutor {
    /// The places of a transfer's source: a transfer reads at the end.
    type Bytes = Vec<PhysicalRun>;

    fn memories(&self) -> &Memories {
        &self.tables
    }

    fn memories_mut(&mut self) -> &mut Memories {
        &mut self.tables
    }

    fn note(&mut self, change: MappingChange) {
        if let Some(mappings) = &mut self.mappings {
            mappings.note(change, &self.memory.borrow());
        }
    }

    fn bind(&mut self, translation: &Translation) {
        let mut memory = self.memory.borrow_mut();
        if let Some(mappings) = &mut self.mappings {
            mappings.look(&mut self.tables, translation, &mut memory);
        }
        sure(memory.bind());
    }

    fn read(&mut self, runs: &[PhysicalRun]) -> Vec<PhysicalRun> {
        runs.to_vec()
    }

    fn write(&mut self, source: &Vec<PhysicalRun>, runs: &[PhysicalRun]) {
        if self.mappings.is_some() {
            sure(self.memory.borrow_mut().copy(source, runs));
        }
    }

    fn fill(&mut self, runs: &[PhysicalRun], pattern: u32) {
        if self.mappings.is_some() {
            sure(self.memory.borrow_mut().fill(runs, pattern));
        }
    }

    fn flip_bit(&mut self, address: PhysicalAddress, bit: u32) {
        sure(self.memory.borrow_mut().flip_bit(address, bit));
    }

    fn digests(&mut self, view: &View<'_>, marked: &[Range<u64>]) -> Vec<u64> {
        let mut memory = self.memory.borrow_mut();
        let to = sure(memory.read_back(view.range.num_pages));
        let reached = sure(memory.reach(view));
        for part in reached.iter().flat_map(|reach| by_mark(reach, marked)) {
            let arguments = Arguments {
                pages: part.reach.address,
                first: to + part.reach.first * 8,
                ..of_surface(view.range.surface.filter(|_| part.is_marked), part.reach.first)
            };
            sure(memory.recorder.dispatch(Kernel::Digest, arguments, part.reach.pages));
        }
        let found = sure(memory.read(view.range.num_pages));
        // A page without memory reads as zero, with a digest of zero.
        let mut digests = vec![0; found.len()];
        for reach in reached {
            let pages = reach.first as usize..(reach.first + reach.pages) as usize;
            digests[pages.clone()].copy_from_slice(&found[pages]);
        }
        digests
    }

    fn write_output(&mut self, view: &View<'_>, content: Content, state: KernelState, output: u64) {
        self.dispatch(Kernel::Write, view, |reach| {
            let of_surface = of_surface(view.range.surface, reach.first);
            Arguments {
                pages: reach.address,
                first: state.word(),
                number: output,
                page: reach.first,
                flags: of_surface.flags | flag_of(content),
                ..of_surface
            }
        });
    }

    fn write_plain(&mut self, source: &Vec<PhysicalRun>, view: &View<'_>) {
        if !begins_with(source, view.runs) {
            sure(self.memory.borrow_mut().copy(source, view.runs));
        }
        self.dispatch(Kernel::Decompress, view, |reach| Arguments {
            pages: reach.address,
            ..of_surface(view.range.surface, reach.first)
        });
    }

    fn run_foreign(&mut self, token: u32, runs: &[PhysicalRun], offset: u64) {
        sure(self.memory.borrow_mut().run_foreign_on(token, runs, offset));
    }

    fn page_digest(&self, address: PhysicalAddress, key: u64) -> Option<u64> {
        let address = self.tables.page_of(address)?;
        sure(self.memory.borrow_mut().page_digest(address, key))
    }

    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        let is_there = self.tables.lock().contains(address.segment, address.offset / PAGE_SIZE, 1);
        let mut memory = self.memory.borrow_mut();
        if is_there && let Some(pages) = sure(memory.page_address(address)) {
            let flags = FLAG_SEED | flag_of(content);
            let arguments = Arguments { pages, first: seed, flags, ..Arguments::default() };
            sure(memory.recorder.dispatch(Kernel::Write, arguments, 1));
        }
        is_there
    }

    fn lose_power(&mut self) {
        self.tables.lose_power();
        if let Some(mappings) = &mut self.mappings {
            mappings.forget_roots();
        }
        sure(self.memory.borrow_mut().spoil());
    }
}

fn flag_of(content: Content) -> u32 {
    match content {
        Content::Uniform => 0,
        Content::Ramp => FLAG_RAMP,
    }
}

/// The arguments for pages from the `first` of a range on, which belongs to a surface or to none.
fn of_surface(surface: Option<Surface>, first: u64) -> Arguments {
    match surface {
        None => Arguments::default(),
        Some(Surface { number, first_page }) => Arguments {
            surface: number.into(),
            surface_page: first_page + first,
            flags: FLAG_SURFACE,
            ..Arguments::default()
        },
    }
}

/// Whether the pages of `source` begin with those of `runs`.
fn begins_with(source: &[PhysicalRun], runs: &[PhysicalRun]) -> bool {
    let Some((last, before)) = runs.split_last() else { return true };
    let same = source.get(before.len()).filter(|_| source.starts_with(before));
    same.is_some_and(|run| run.place == last.place && run.pages >= last.pages)
}

/// A part of a reach whose pages are all marked, or none.
struct Part {
    reach: Reach,
    is_marked: bool,
}

/// Cuts a reach at the borders of `marked`, which are pages of its view, in order.
fn by_mark(reach: &Reach, marked: &[Range<u64>]) -> Vec<Part> {
    let end = reach.first + reach.pages;
    let mut parts = Vec::new();
    let mut first = reach.first;
    let mut push = |until: u64, is_marked| {
        if first < until {
            let address = reach.address + (first - reach.first) * PAGE_SIZE;
            parts.push(Part { reach: Reach { first, pages: until - first, address }, is_marked });
            first = until;
        }
    };
    for run in marked {
        push(run.start.min(end), false);
        push(run.end.min(end), true);
    }
    push(end, false);
    parts
}

#[cfg(test)]
mod tests {
    use super::by_mark;
    use crate::memory::Reach;

    #[test]
    fn marks_cut_a_reach() {
        let reach = Reach { first: 4, pages: 8, address: 0x10_0000 };
        let parts: Vec<_> = by_mark(&reach, &[0..2, 3..6, 8..9, 20..30])
            .into_iter()
            .map(|part| (part.reach.first, part.reach.pages, part.reach.address, part.is_marked))
            .collect();
        let expected =
            [(4, 2, 0x10_0000, true), (6, 2, 0x10_2000, false), (8, 1, 0x10_4000, true), (9, 3, 0x10_5000, false)];
        assert_eq!(parts, expected);
        assert_eq!(by_mark(&reach, &[]).len(), 1);
    }
}
