//! The choice: buffers that move by ranges, and memory with homes.

use std::ffi::c_void;

use ash::vk::{self, BufferUsageFlags as Usage};

use super::chain::Device;
use super::structures::find;
use crate::driver::PAGE_BYTES;

/// The uses in the sight of the layer: a buffer with others stays in place.
const SEEN: Usage = Usage::from_raw(
    Usage::TRANSFER_SRC.as_raw()
        | Usage::TRANSFER_DST.as_raw()
        | Usage::UNIFORM_TEXEL_BUFFER.as_raw()
        | Usage::STORAGE_TEXEL_BUFFER.as_raw()
        | Usage::UNIFORM_BUFFER.as_raw()
        | Usage::STORAGE_BUFFER.as_raw()
        | Usage::INDEX_BUFFER.as_raw()
        | Usage::VERTEX_BUFFER.as_raw()
        | Usage::INDIRECT_BUFFER.as_raw()
        | Usage::CONDITIONAL_RENDERING_EXT.as_raw(),
);

/// The creation of a sparse buffer in place of the program's. Otherwise the reason why the buffer stays in place.
pub fn sparse<'a>(device: &Device, info: &vk::BufferCreateInfo<'a>) -> Result<vk::BufferCreateInfo<'a>, &'static str> {
    if device.residency.is_none() {
        return Err("buffers of a device without residency");
    }
    if info.size < PAGE_BYTES {
        return Err("small buffers");
    }
    if !info.flags.is_empty() || !info.p_next.is_null() {
        return Err("buffers of special creation");
    }
    if info.usage.contains(Usage::SHADER_DEVICE_ADDRESS) {
        return Err("buffers with addresses");
    }
    if !SEEN.contains(info.usage) {
        return Err("buffers of other uses");
    }
    use vk::BufferCreateFlags as Flags;
    Ok(info.flags(Flags::SPARSE_BINDING | Flags::SPARSE_RESIDENCY | Flags::SPARSE_ALIASED))
}

/// The kinds of memory that the program allocates from the virtual heap.
pub enum Kind {
    /// A home of ranges, with the flags of the allocation.
    Home(Option<vk::MemoryAllocateFlagsInfo<'static>>),
    /// Memory of one resource in place.
    Dedicated,
    /// Real local memory, for a reason.
    Real(&'static str),
}

/// The kind of an allocation with a chain.
///
/// # Safety
///
/// `next` begins a chain of the program.
pub unsafe fn kind(device: &Device, next: *const c_void) -> Kind {
    let Some(residency) = &device.residency else { return Kind::Real("memory of a device without residency") };
    let mut at = next;
    // SAFETY: each structure of a chain begins with its type and the next.
    while let Some(structure) = unsafe { at.cast::<vk::BaseInStructure<'_>>().as_ref() } {
        match structure.s_type {
            vk::StructureType::MEMORY_ALLOCATE_FLAGS_INFO
            | vk::StructureType::MEMORY_DEDICATED_ALLOCATE_INFO
            | vk::StructureType::MEMORY_PRIORITY_ALLOCATE_INFO_EXT => {}
            vk::StructureType::EXPORT_MEMORY_ALLOCATE_INFO => return Kind::Real("exports"),
            _ => return Kind::Real("memory of special allocation"),
        }
        at = structure.p_next.cast();
    }
    // SAFETY: the chain is the program's.
    let (flags, dedicated) =
        unsafe { (find::<vk::MemoryAllocateFlagsInfo<'_>>(next), find::<vk::MemoryDedicatedAllocateInfo<'_>>(next)) };
    if flags.is_some_and(|flags| flags.flags.contains(vk::MemoryAllocateFlags::DEVICE_MASK)) {
        return Kind::Real("memory of a device group");
    }
    let is_managed = |of: &vk::MemoryDedicatedAllocateInfo<'_>| residency.state().managed.contains_key(&of.buffer);
    if dedicated.is_some_and(|of| !is_managed(of)) {
        return Kind::Dedicated;
    }
    Kind::Home(flags.map(|of| vk::MemoryAllocateFlagsInfo::default().flags(of.flags)))
}
