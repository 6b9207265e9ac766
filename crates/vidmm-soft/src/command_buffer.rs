//! Command buffers of an adapter without GPU virtual addresses, as the user-mode driver writes them.

use std::collections::BTreeMap;

use vidmm::PAGE_SIZE;
use vidmm::contract::PatchLocation;
use vidmm_runtime::{BoundKernel, BoundRange, CommandStep, KernelCommand, PageRange, UserCommands};

use crate::encoding::{self, Command, kernel_address_offset};
use crate::physical_addresses::UNPATCHED_ADDRESS;

/// Lays out commands, and keeps the list of what is to be patched in them.
///
/// After every split point the state is programmed again (SPL-06), and a kernel binds its slots again, which lets the
/// core move what is in them (SPL-08). An allocation that stays bound and is not used keeps its place. Until they are
/// patched the addresses of kernels are [`UNPATCHED_ADDRESS`].
#[derive(Debug)]
pub struct CommandBuffer<E = SoftCommands> {
    encoding: E,
    commands: Vec<u8>,
    patch_locations: Vec<PatchLocation>,
    /// The last split point.
    split_offset: u32,
    /// Where the commands behind it begin.
    portion_start: usize,
    num_split_points: u64,
    /// Which element of the allocation list each slot holds.
    slots: BTreeMap<u32, u32>,
}

/// The bytes of the commands in a command buffer. Another GPU has its own; what is bound where is the same.
pub trait UserCommandEncoding {
    /// Appends the command that programs the state again behind the split point of this number (SPL-06).
    fn append_state(&self, number: u64, commands: &mut Vec<u8>);

    /// Appends a kernel.
    fn append_kernel(&self, kernel: KernelCommand, commands: &mut Vec<u8>);

    /// The offset of the address of range `index` in a kernel's command, in bytes; outputs count on behind the inputs.
    fn address_offset(&self, index: usize) -> usize;
}

/// The commands of the model GPU.
#[derive(Clone, Copy, Debug)]
pub struct SoftCommands;

impl UserCommandEncoding for SoftCommands {
    fn append_state(&self, number: u64, commands: &mut Vec<u8>) {
        encoding::encode_to_vec(&Command::SetState(number), commands);
    }

    fn append_kernel(&self, kernel: KernelCommand, commands: &mut Vec<u8>) {
        encoding::encode_to_vec(&Command::Kernel(kernel), commands);
    }

    fn address_offset(&self, index: usize) -> usize {
        kernel_address_offset(index)
    }
}

impl CommandBuffer {
    /// A buffer with nothing in it but a split point.
    #[expect(clippy::new_without_default, reason = "an empty buffer is not a default: it has a command")]
    pub fn new() -> Self {
        Self::with_encoding(SoftCommands)
    }
}

impl<E: UserCommandEncoding> CommandBuffer<E> {
    /// A buffer of commands of another encoding, with nothing in it but a split point.
    pub fn with_encoding(encoding: E) -> Self {
        let mut buffer = Self {
            encoding,
            commands: Vec::new(),
            patch_locations: Vec::new(),
            split_offset: 0,
            portion_start: 0,
            num_split_points: 0,
            slots: BTreeMap::new(),
        };
        buffer.begin_portion();
        buffer
    }

    /// Adds the step that [`CommandStep`] describes.
    ///
    /// # Panics
    ///
    /// As [`kernel`](Self::kernel).
    pub fn step(self, step: &CommandStep) -> Self {
        match step {
            CommandStep::SplitPoint => self.split_point(),
            &CommandStep::Bind { slot_id, allocation_index } => self.bind(slot_id, allocation_index),
            &CommandStep::Unbind { slot_id } => self.unbind(slot_id),
            CommandStep::Kernel(kernel) => self.kernel(kernel),
        }
    }

    /// Adds a split point (SPL-01), unless there is one already.
    pub fn split_point(mut self) -> Self {
        if self.commands.len() > self.portion_start {
            self.begin_portion();
        }
        self
    }

    /// Binds element `allocation_index` of the allocation list to a slot, for the kernels that follow.
    pub fn bind(mut self, slot_id: u32, allocation_index: u32) -> Self {
        self.slots.insert(slot_id, allocation_index);
        self
    }

    /// Empties a slot at the last split point: element 0 of the allocation list is bound to it, which has to be the null
    /// element (PAT-16).
    pub fn unbind(mut self, slot_id: u32) -> Self {
        self.slots.remove(&slot_id);
        self.patch_locations.push(PatchLocation {
            slot_id,
            patch_offset: self.split_offset,
            split_offset: self.split_offset,
            ..PatchLocation::default()
        });
        self
    }

    /// Adds a kernel.
    ///
    /// # Panics
    ///
    /// If nothing is bound to a slot that it names, if a range begins beyond 4 GiB of an allocation, or if the buffer grows
    /// beyond 4 GiB.
    pub fn kernel(mut self, kernel: &BoundKernel) -> Self {
        let start = self.commands.len();
        let ranges = |ranges: &[BoundRange]| ranges.iter().map(unpatched).collect();
        let command = KernelCommand {
            kernel: kernel.kernel,
            nanoseconds: kernel.nanoseconds,
            content: kernel.content,
            inputs: ranges(&kernel.inputs),
            outputs: ranges(&kernel.outputs),
        };
        self.encoding.append_kernel(command, &mut self.commands);
        for (index, range) in kernel.inputs.iter().chain(&kernel.outputs).enumerate() {
            if range.num_pages > 0 {
                self.refer(start + self.encoding.address_offset(index), range);
            }
        }
        self
    }

    /// The commands, and their patch locations in the order of their split offsets.
    pub fn finish(self) -> UserCommands {
        UserCommands { commands: self.commands, patch_locations: self.patch_locations }
    }

    fn begin_portion(&mut self) {
        self.split_offset = offset_of(self.commands.len());
        self.encoding.append_state(self.num_split_points, &mut self.commands);
        self.num_split_points += 1;
        self.portion_start = self.commands.len();
    }

    /// The address at `at` is that of `range`.
    fn refer(&mut self, at: usize, range: &BoundRange) {
        let bound = self.slots.get(&range.slot_id);
        let allocation_index = *bound.expect("a kernel names a slot that holds nothing");
        let allocation_offset = range.first_page.checked_mul(PAGE_SIZE).map(u32::try_from);
        let Some(Ok(allocation_offset)) = allocation_offset else {
            panic!("a range begins at page {} of an allocation: patch locations reach 4 GiB", range.first_page)
        };
        self.patch_locations.push(PatchLocation {
            allocation_index,
            slot_id: range.slot_id,
            driver_id: 0,
            allocation_offset,
            patch_offset: offset_of(at),
            split_offset: self.split_offset,
        });
    }
}

fn unpatched(range: &BoundRange) -> PageRange {
    PageRange { surface: range.surface, ..PageRange::plain(UNPATCHED_ADDRESS, range.num_pages) }
}

fn offset_of(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a command buffer is smaller than 4 GiB")
}
