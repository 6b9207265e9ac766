//! The memory that content moves between: local memory, and the buffers by which copies reach the homes.

use std::collections::HashMap;

use ash::vk;

use crate::homes::Copy;

/// Memory and buffers of copies are of at most so many bytes, since devices bound both.
pub const CHUNK_BYTES: u64 = 512 << 20;

/// Local memory in chunks, and the buffers of homes.
#[derive(Default)]
pub struct Stores {
    local: Vec<(vk::DeviceMemory, vk::Buffer)>,
    homes: HashMap<vk::DeviceMemory, Vec<vk::Buffer>>,
}

type Result<T> = std::result::Result<T, vk::Result>;

/// Whether two copies have bytes in common.
pub fn overlap(one: &Copy, other: &Copy) -> bool {
    let meet = |one: u64, other: u64, bytes: (u64, u64)| one < other + bytes.1 && other < one + bytes.0;
    let bytes = (one.bytes, other.bytes);
    meet(one.local, other.local, bytes) || one.home == other.home && meet(one.at, other.at, bytes)
}

/// The sizes of the chunks of some bytes.
fn chunks(bytes: u64) -> impl Iterator<Item = u64> {
    (0..bytes.div_ceil(CHUNK_BYTES)).map(move |at| CHUNK_BYTES.min(bytes - at * CHUNK_BYTES))
}

fn copy_buffer(raw: &ash::Device, bytes: u64) -> Result<vk::Buffer> {
    let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
    // SAFETY: the device lives.
    unsafe { raw.create_buffer(&vk::BufferCreateInfo::default().size(bytes).usage(usage), None) }
}

impl Stores {
    /// Allocates local memory.
    pub fn new(raw: &ash::Device, memory_type: u32, bytes: u64) -> Result<Self> {
        let mut stores = Self::default();
        for bytes in chunks(bytes) {
            let made = stores.add_local(raw, memory_type, bytes);
            if let Err(error) = made {
                stores.destroy(raw);
                return Err(error);
            }
        }
        Ok(stores)
    }

    fn add_local(&mut self, raw: &ash::Device, memory_type: u32, bytes: u64) -> Result<()> {
        let buffer = copy_buffer(raw, bytes)?;
        // SAFETY: the buffer was just made.
        unsafe {
            let needs = raw.get_buffer_memory_requirements(buffer);
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(memory_type);
            let memory = raw.allocate_memory(&info, None).inspect_err(|_| raw.destroy_buffer(buffer, None))?;
            self.local.push((memory, buffer));
            raw.bind_buffer_memory(buffer, memory, 0)
        }
    }

    /// Makes the buffers by which copies reach a home.
    pub fn add_home(&mut self, raw: &ash::Device, memory: vk::DeviceMemory, bytes: u64) -> Result<()> {
        self.homes.insert(memory, Vec::new());
        for (at, bytes) in (0..).zip(chunks(bytes)) {
            let buffer = copy_buffer(raw, bytes)?;
            self.homes.entry(memory).or_default().push(buffer);
            // SAFETY: buffer and memory were just made.
            unsafe { raw.bind_buffer_memory(buffer, memory, at * CHUNK_BYTES) }?;
        }
        Ok(())
    }

    /// The buffers of a home that goes.
    pub fn remove_home(&mut self, memory: vk::DeviceMemory) -> Vec<vk::Buffer> {
        self.homes.remove(&memory).unwrap_or_default()
    }

    /// The pieces of a copy: buffer and offset of the home, buffer and offset of local memory, and bytes.
    pub fn pieces(&self, copy: &Copy) -> Vec<(vk::Buffer, u64, vk::Buffer, u64, u64)> {
        let Some(home) = self.homes.get(&copy.home) else { return Vec::new() };
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < copy.bytes {
            let (at, local) = (copy.at + done, copy.local + done);
            let rest = |at: u64| CHUNK_BYTES - at % CHUNK_BYTES;
            let bytes = (copy.bytes - done).min(rest(at)).min(rest(local));
            let (home, local_buffer) =
                (home[(at / CHUNK_BYTES) as usize], self.local[(local / CHUNK_BYTES) as usize].1);
            pieces.push((home, at % CHUNK_BYTES, local_buffer, local % CHUNK_BYTES, bytes));
            done += bytes;
        }
        pieces
    }

    /// The pieces of a part of local memory: memory, offset and bytes.
    pub fn local_pieces(&self, local: u64, bytes: u64) -> Vec<(vk::DeviceMemory, u64, u64)> {
        let mut pieces = Vec::new();
        let mut at = local;
        while at < local + bytes {
            let count = (local + bytes - at).min(CHUNK_BYTES - at % CHUNK_BYTES);
            pieces.push((self.local[(at / CHUNK_BYTES) as usize].0, at % CHUNK_BYTES, count));
            at += count;
        }
        pieces
    }

    /// Destroys what the layer has made. The memory of homes is the program's.
    pub fn destroy(&mut self, raw: &ash::Device) {
        let of_homes = self.homes.drain().flat_map(|(_, buffers)| buffers);
        // SAFETY: nothing is under way.
        unsafe {
            of_homes.for_each(|buffer| raw.destroy_buffer(buffer, None));
            for (memory, buffer) in self.local.drain(..) {
                raw.destroy_buffer(buffer, None);
                raw.free_memory(memory, None);
            }
        }
    }
}
