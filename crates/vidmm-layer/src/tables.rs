//! The objects of a device by their handles.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ash::vk;

use crate::descriptors::{Layout, Set, Use};
use crate::ranges::{Access, Ranges};
use crate::record::{Record, Step};
use crate::submission::Queues;
use crate::trace;

/// How deep command buffers may execute others.
const MAX_DEPTH: u32 = 8;

/// The place of pushed descriptors, and where a program's data have each descriptor.
pub type Template = (vk::PipelineBindPoint, Arc<[vk::DescriptorUpdateTemplateEntry]>);

/// The objects of a device.
#[derive(Default)]
pub struct Tables {
    /// The number of the device in the trace.
    pub number: u64,
    /// For each type of memory, whether the memory is the device's own.
    pub local_types: Vec<bool>,
    memories: HashMap<vk::DeviceMemory, u64>,
    buffers: HashMap<vk::Buffer, Buffer>,
    /// The sizes of the bound buffers by number, and the memory of each.
    live: HashMap<u64, (u64, u64)>,
    pub views: HashMap<vk::BufferView, (vk::Buffer, u64, u64)>,
    pub layouts: HashMap<vk::DescriptorSetLayout, Arc<Layout>>,
    pub templates: HashMap<vk::DescriptorUpdateTemplate, Template>,
    pub sets: HashMap<vk::DescriptorSet, (vk::DescriptorPool, Set)>,
    pub commands: HashMap<vk::CommandBuffer, (vk::CommandPool, Record)>,
    pub queues: Queues,
}

#[derive(Clone, Copy)]
struct Buffer {
    bytes: u64,
    /// 0 before the buffer is bound.
    number: u64,
}

impl Tables {
    pub fn allocate(&mut self, memory: vk::DeviceMemory, bytes: u64, kind: u32) {
        let is_local = self.local_types.get(kind as usize).is_some_and(|&is_local| is_local);
        self.memories.insert(memory, trace::new_memory(self.number, bytes, is_local));
    }

    pub fn free(&mut self, memory: vk::DeviceMemory) {
        if let Some(number) = self.memories.remove(&memory) {
            self.live.retain(|_, (_, of)| *of != number);
            trace::event(format_args!("free {number}"));
        }
    }

    pub fn create(&mut self, buffer: vk::Buffer, bytes: u64) {
        self.buffers.insert(buffer, Buffer { bytes, number: 0 });
    }

    pub fn bind(&mut self, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: u64) {
        if let (Some(buffer), Some(&memory)) = (self.buffers.get_mut(&buffer), self.memories.get(&memory)) {
            buffer.number = trace::new_buffer(memory, offset, buffer.bytes);
            self.live.insert(buffer.number, (buffer.bytes, memory));
        }
    }

    pub fn destroy(&mut self, buffer: vk::Buffer) {
        let known = self.buffers.remove(&buffer);
        if let Some(Buffer { number: number @ 1.., .. }) = known {
            self.live.remove(&number);
            trace::event(format_args!("destroy {number}"));
        }
    }

    /// The number of a bound buffer.
    pub fn number_of(&self, buffer: vk::Buffer) -> Option<u64> {
        self.buffers.get(&buffer).map(|buffer| buffer.number).filter(|&number| number > 0)
    }

    /// A range of a buffer, which is bound. A size beyond the end, as `VK_WHOLE_SIZE`, is up to the end.
    pub fn range(&self, buffer: vk::Buffer, offset: u64, bytes: u64, access: Access) -> Option<Use> {
        let &Buffer { bytes: all, number } = self.buffers.get(&buffer).filter(|buffer| buffer.number > 0)?;
        Some(Use { buffer: number, range: offset..offset.saturating_add(bytes).min(all), access })
    }

    /// The range of a view.
    pub fn view(&self, view: vk::BufferView, access: Access) -> Option<Use> {
        let &(buffer, offset, bytes) = self.views.get(&view)?;
        self.range(buffer, offset, bytes, access)
    }

    /// The ranges that command buffers use.
    pub fn uses_of(&self, buffers: &[vk::CommandBuffer]) -> Vec<Use> {
        let mut uses = BTreeMap::<u64, Ranges>::new();
        buffers.iter().for_each(|&buffer| self.add_uses(buffer, MAX_DEPTH, &mut uses));
        let of = |(&buffer, ranges): (&u64, &Ranges)| {
            ranges.joined().into_iter().map(move |(range, access)| Use { buffer, range, access })
        };
        uses.iter().flat_map(of).collect()
    }

    fn add_uses(&self, buffer: vk::CommandBuffer, depth: u32, uses: &mut BTreeMap<u64, Ranges>) {
        let Some((_, record)) = self.commands.get(&buffer) else { return };
        for step in record.steps() {
            match step {
                Step::Use(range) => self.add_use(range, uses),
                Step::Set(set, offsets) => {
                    let set = self.sets.get(set).into_iter();
                    set.flat_map(|(_, set)| set.uses(offsets)).for_each(|range| self.add_use(&range, uses));
                }
                Step::Secondary(_) if depth == 0 => {}
                Step::Secondary(buffer) => self.add_uses(*buffer, depth - 1, uses),
            }
        }
    }

    /// A descriptor may outlive the buffer, if no shader uses the descriptor.
    fn add_use(&self, Use { buffer, range, access }: &Use, uses: &mut BTreeMap<u64, Ranges>) {
        if let Some(&(bytes, _)) = self.live.get(buffer) {
            uses.entry(*buffer).or_default().add(range.start..range.end.min(bytes), *access);
        }
    }
}
