//! Sets of descriptors.

use std::ffi::c_void;
use std::sync::Arc;

use ash::vk;

use super::chain::{Device, hooks};
use super::list;
use super::structures::Allocator;
use crate::descriptors::{Layout, Set, Slot, Use, access};
use crate::tables::Tables;

/// The descriptors of a write.
///
/// # Safety
///
/// The write comes from the program, with arrays of the stated lengths.
pub unsafe fn written(tables: &Tables, write: &vk::WriteDescriptorSet<'_>) -> Vec<Option<Use>> {
    let Some(access) = access(write.descriptor_type) else { return vec![None; write.descriptor_count as usize] };
    if is_view(write.descriptor_type) {
        // SAFETY: writes of this type have views.
        let views = unsafe { list(write.p_texel_buffer_view, write.descriptor_count) };
        return views.iter().map(|&view| tables.view(view, access)).collect();
    }
    // SAFETY: writes of this type have buffers.
    let infos = unsafe { list(write.p_buffer_info, write.descriptor_count) };
    infos.iter().map(|info| tables.range(info.buffer, info.offset, info.range, access)).collect()
}

fn is_view(of: vk::DescriptorType) -> bool {
    matches!(of, vk::DescriptorType::UNIFORM_TEXEL_BUFFER | vk::DescriptorType::STORAGE_TEXEL_BUFFER)
}

/// The descriptors of an update by a template.
///
/// # Safety
///
/// `data` is what the program gave for the template.
pub unsafe fn templated(
    tables: &Tables,
    template: vk::DescriptorUpdateTemplate,
    data: *const c_void,
) -> Vec<(Slot, Vec<Option<Use>>)> {
    let entries = tables.templates.get(&template).map(|(_, entries)| entries);
    let mut all = Vec::new();
    for entry in entries.iter().flat_map(|entries| entries.iter()) {
        let read = |number: u32| {
            let access = access(entry.descriptor_type)?;
            // SAFETY: the entry says where the program's data have each descriptor.
            let at = unsafe { data.byte_add(entry.offset + number as usize * entry.stride) };
            if is_view(entry.descriptor_type) {
                // SAFETY: the entry's type has views.
                return tables.view(unsafe { at.cast::<vk::BufferView>().read_unaligned() }, access);
            }
            // SAFETY: the entry's type has buffers.
            let info = unsafe { at.cast::<vk::DescriptorBufferInfo>().read_unaligned() };
            tables.range(info.buffer, info.offset, info.range, access)
        };
        all.push(((entry.dst_binding, entry.dst_array_element), (0..entry.descriptor_count).map(read).collect()));
    }
    all
}

fn reset_pool(device: &Device, pool: vk::DescriptorPool) {
    device.tables().sets.retain(|_, (of, _)| *of != pool);
}

hooks! {
    fn create_layout(
        device: vk::Device, info: &vk::DescriptorSetLayoutCreateInfo<'_>, allocator: Allocator<'_>,
        layout: *mut vk::DescriptorSetLayout
    ) -> vk::Result = c"vkCreateDescriptorSetLayout" => |this, next| {
        let result = next();
        if result == vk::Result::SUCCESS {
            // SAFETY: array and length come from the program together.
            let bindings = unsafe { list(info.p_bindings, info.binding_count) };
            let all = bindings.iter().map(|one| (one.binding, (one.descriptor_type, one.descriptor_count)));
            // SAFETY: a successful call has made the layout.
            this.tables().layouts.insert(unsafe { *layout }, Arc::new(Layout::from_iter(all)));
        }
        result
    }

    fn destroy_layout(
        device: vk::Device, layout: vk::DescriptorSetLayout, allocator: Allocator<'_>
    ) = c"vkDestroyDescriptorSetLayout" => |this, next| {
        this.tables().layouts.remove(&layout);
        next();
    }

    fn allocate_sets(
        device: vk::Device, info: &vk::DescriptorSetAllocateInfo<'_>, sets: *mut vk::DescriptorSet
    ) -> vk::Result = c"vkAllocateDescriptorSets" => |this, next| {
        let result = next();
        if result == vk::Result::SUCCESS {
            let mut tables = this.tables();
            let count = info.descriptor_set_count;
            // SAFETY: a successful call has made a set for each layout.
            let (layouts, sets) = unsafe { (list(info.p_set_layouts, count), list(sets, count)) };
            for (layout, set) in layouts.iter().zip(sets) {
                let layout = tables.layouts.get(layout).map(Arc::clone).unwrap_or_default();
                tables.sets.insert(*set, (info.descriptor_pool, Set::new(layout)));
            }
        }
        result
    }

    fn free_sets(
        device: vk::Device, pool: vk::DescriptorPool, count: u32, sets: *const vk::DescriptorSet
    ) -> vk::Result = c"vkFreeDescriptorSets" => |this, next| {
        let mut tables = this.tables();
        // SAFETY: array and length come from the program together.
        unsafe { list(sets, count) }.iter().for_each(|set| _ = tables.sets.remove(set));
        drop(tables);
        next()
    }

    fn reset_pool_of_sets(
        device: vk::Device, pool: vk::DescriptorPool, flags: vk::DescriptorPoolResetFlags
    ) -> vk::Result = c"vkResetDescriptorPool" => |this, next| {
        reset_pool(&this, pool);
        next()
    }

    fn destroy_pool_of_sets(
        device: vk::Device, pool: vk::DescriptorPool, allocator: Allocator<'_>
    ) = c"vkDestroyDescriptorPool" => |this, next| {
        reset_pool(&this, pool);
        next();
    }

    fn update(
        device: vk::Device, num_writes: u32, writes: *const vk::WriteDescriptorSet<'_>, num_copies: u32,
        copies: *const vk::CopyDescriptorSet<'_>
    ) = c"vkUpdateDescriptorSets" => |this, next| {
        let mut tables = this.tables();
        // SAFETY: arrays and lengths come from the program together.
        let (writes, copies) = unsafe { (list(writes, num_writes), list(copies, num_copies)) };
        for write in writes {
            // SAFETY: the write is the program's.
            let descriptors = unsafe { written(&tables, write) };
            if let Some((_, set)) = tables.sets.get_mut(&write.dst_set) {
                set.write((write.dst_binding, write.dst_array_element), descriptors);
            }
        }
        for copy in copies {
            let from = (copy.src_binding, copy.src_array_element);
            let read = tables.sets.get(&copy.src_set).map(|(_, set)| set.read(from, copy.descriptor_count));
            if let (Some(read), Some((_, set))) = (read, tables.sets.get_mut(&copy.dst_set)) {
                set.write((copy.dst_binding, copy.dst_array_element), read);
            }
        }
        drop(tables);
        next();
    }

    fn create_template(
        device: vk::Device, info: &vk::DescriptorUpdateTemplateCreateInfo<'_>, allocator: Allocator<'_>,
        template: *mut vk::DescriptorUpdateTemplate
    ) -> vk::Result = c"vkCreateDescriptorUpdateTemplate", c"vkCreateDescriptorUpdateTemplateKHR" => |this, next| {
        let result = next();
        if result == vk::Result::SUCCESS {
            // SAFETY: the program gave an array of that length, and a successful call has made the template.
            let (entries, template) =
                unsafe { (list(info.p_descriptor_update_entries, info.descriptor_update_entry_count), *template) };
            this.tables().templates.insert(template, (info.pipeline_bind_point, entries.into()));
        }
        result
    }

    fn destroy_template(
        device: vk::Device, template: vk::DescriptorUpdateTemplate, allocator: Allocator<'_>
    ) = c"vkDestroyDescriptorUpdateTemplate", c"vkDestroyDescriptorUpdateTemplateKHR" => |this, next| {
        this.tables().templates.remove(&template);
        next();
    }

    fn update_by_template(
        device: vk::Device, set: vk::DescriptorSet, template: vk::DescriptorUpdateTemplate, data: *const c_void
    ) = c"vkUpdateDescriptorSetWithTemplate", c"vkUpdateDescriptorSetWithTemplateKHR" => |this, next| {
        let mut tables = this.tables();
        // SAFETY: the data are those of the program for the template.
        let all = unsafe { templated(&tables, template, data) };
        if let Some((_, set)) = tables.sets.get_mut(&set) {
            all.into_iter().for_each(|(slot, descriptors)| set.write(slot, descriptors));
        }
        drop(tables);
        next();
    }
}
