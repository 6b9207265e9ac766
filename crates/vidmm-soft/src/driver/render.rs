//! Translating command buffers of users, who are not trusted.

use std::collections::BTreeMap;

use vidmm::PAGE_SIZE;
use vidmm::contract::{AllocationListElement, PatchLocation, Render, RenderStatus};

use super::{Allocation, SoftKmd};
use crate::encoding::{Command, Decoder, kernel_address_offset};

impl Allocation {
    /// Its bytes in whole pages.
    pub(super) fn size_in_pages(&self) -> u64 {
        self.size.next_multiple_of(PAGE_SIZE)
    }
}

impl SoftKmd {
    /// Copies whole portions from the byte `multipass_offset` of the commands on, as many as fit, with the bindings of the portions.
    /// A portion programs the state and binds all allocations of its kernels (SPL-06): a DMA buffer may begin with any portion.
    pub(super) fn render_commands(&self, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        let commands = Commands::decode(render.command)?;
        self.check_patch_locations(&commands, render)?;
        let shift = *render.multipass_offset;
        let (start, size) = (shift as usize, render.command.len());
        let room = render.dma_buffer.len();
        let split_points = render.patch_location_list_in.iter().map(|location| location.split_offset as usize);
        let ends = split_points.filter(|&split| split > start).chain([size]);
        let end = ends.take_while(|end| end.checked_sub(start).is_some_and(|bytes| bytes <= room)).last();
        let end = end.ok_or(RenderStatus::InsufficientDmaBuffer)?;
        let is_last = end == size;
        let written = &mut render.dma_buffer[..end - start];
        written.copy_from_slice(&render.command[start..end]);
        render.dma_bytes_written = end - start;
        *render.multipass_offset = u32::try_from(end).map_err(|_| RenderStatus::InvalidParameter)?;
        for location in render.patch_location_list_in {
            let element = &render.allocation_list[location.allocation_index as usize];
            if let (Some(at), true) = ((location.patch_offset as usize).checked_sub(start), element.address.is_some()) {
                self.write_address(written, at, element, location);
            }
            let split = location.split_offset as usize;
            if split >= start && (split < end || is_last) {
                render.patch_location_list_out.push(PatchLocation {
                    patch_offset: location.patch_offset.saturating_sub(shift),
                    split_offset: location.split_offset - shift,
                    ..*location
                });
            }
        }
        if is_last { Ok(()) } else { Err(RenderStatus::InsufficientDmaBuffer) }
    }

    /// Whether every address of the commands is that of an allocation that is bound there, and no access leaves it.
    fn check_patch_locations(&self, commands: &Commands, render: &Render<'_>) -> Result<(), RenderStatus> {
        let locations = render.patch_location_list_in;
        // Which element each slot holds behind a split point: the last that is bound there.
        let mut bound = BTreeMap::new();
        for location in locations {
            bound.insert((location.split_offset, location.slot_id), location.allocation_index);
        }
        if !locations.is_sorted_by_key(|location| location.split_offset) {
            return Err(RenderStatus::InvalidHandle);
        }
        let mut fields = commands.fields.clone();
        for location in locations {
            let element = render.allocation_list.get(location.allocation_index as usize);
            let element = element.ok_or(RenderStatus::InvalidHandle)?;
            let is_between_commands = commands.starts.binary_search(&(location.split_offset as usize)).is_ok();
            let is_held = bound[&(location.split_offset, location.slot_id)] == location.allocation_index;
            if !is_between_commands || location.patch_offset as usize > render.command.len() {
                return Err(RenderStatus::InvalidHandle);
            }
            if element.allocation.is_none() {
                continue;
            }
            let field = fields.remove(&(location.patch_offset as usize)).ok_or(RenderStatus::InvalidHandle)?;
            let is_its_portion = last_split_offset(locations, field.command_start) == Some(location.split_offset);
            if !is_held || !is_its_portion || !self.is_inside(element, location, &field) {
                return Err(RenderStatus::InvalidHandle);
            }
        }
        // An address of the user's own choice would reach anybody's memory.
        if fields.is_empty() { Ok(()) } else { Err(RenderStatus::PrivilegedInstruction) }
    }

    /// Whether the pages of `field` are `element`'s, and may be written if they are.
    fn is_inside(&self, element: &AllocationListElement, location: &PatchLocation, field: &AddressField) -> bool {
        let known = element.allocation.and_then(|allocation| self.allocations.get(&allocation));
        let end = field.bytes.and_then(|bytes| bytes.checked_add(location.allocation_offset.into()));
        known.zip(end).is_some_and(|(allocation, end)| end <= allocation.size_in_pages())
            && u64::from(location.allocation_offset).is_multiple_of(PAGE_SIZE)
            && (element.write_operation || !field.write)
    }
}

/// The commands of a user, decoded.
struct Commands {
    /// Where each command begins, in bytes, and where the last ends.
    starts: Vec<usize>,
    /// The addresses in them, by where they are.
    fields: BTreeMap<usize, AddressField>,
}

/// The address of a range of a kernel.
#[derive(Clone, Copy)]
struct AddressField {
    /// Where the kernel's command begins.
    command_start: usize,
    /// How many bytes are accessed; none if it is more than a number can say.
    bytes: Option<u64>,
    /// Whether they are written.
    write: bool,
}

impl Commands {
    fn decode(bytes: &[u8]) -> Result<Self, RenderStatus> {
        let mut commands = Self { starts: vec![0], fields: BTreeMap::new() };
        let mut decoder = Decoder::new(bytes);
        while let Some(command) = decoder.next() {
            match command.map_err(|_| RenderStatus::IllegalInstruction)? {
                Command::Kernel(kernel) => {
                    let command_start = commands.starts[commands.starts.len() - 1];
                    let reads = kernel.inputs.iter().map(|range| (range, false));
                    let ranges = reads.chain(kernel.outputs.iter().map(|range| (range, true)));
                    commands.fields.extend(ranges.enumerate().filter(|(_, (range, _))| range.num_pages > 0).map(
                        |(index, (range, write))| {
                            let bytes = range.num_pages.checked_mul(PAGE_SIZE);
                            (command_start + kernel_address_offset(index), AddressField { command_start, bytes, write })
                        },
                    ));
                }
                Command::SetState(_) => {}
                _ => return Err(RenderStatus::PrivilegedInstruction),
            }
            commands.starts.push(decoder.offset());
        }
        Ok(commands)
    }
}

/// The split point that the command at `command_start` is behind: the core may cut the DMA buffer at every one that a patch
/// location names (SPL-11).
fn last_split_offset(locations: &[PatchLocation], command_start: usize) -> Option<u32> {
    let after = locations.partition_point(|location| location.split_offset as usize <= command_start);
    after.checked_sub(1).map(|last| locations[last].split_offset)
}
