//! Batches of paging on the program's queue: copies and binds behind what was submitted before, and in front of what is submitted next.

use std::collections::VecDeque;

use ash::vk;

use super::stores::{Stores, overlap};
use crate::homes::{Bind, Copy, CopyKind, Place};

/// `PFN_vkSetDeviceLoaderData`: gives an object that a layer has made the table of the loader's.
pub type SetLoaderData = unsafe extern "system" fn(vk::Device, *mut std::ffi::c_void) -> vk::Result;

/// An object that goes when earlier batches have ended.
pub enum Garbage {
    Buffer(vk::Buffer),
    Memory(vk::DeviceMemory),
}

struct Batch {
    number: u64,
    commands: vk::CommandBuffer,
    ended: vk::Fence,
    copied: vk::Semaphore,
    bound: vk::Semaphore,
}

/// The batches of a queue.
pub struct Batches {
    pool: vk::CommandPool,
    set_loader_data: Option<SetLoaderData>,
    free: Vec<Batch>,
    under_way: VecDeque<Batch>,
    submitted: u64,
    ended: u64,
    garbage: VecDeque<(u64, Garbage)>,
}

type Result<T> = std::result::Result<T, vk::Result>;

impl Batches {
    pub fn new(raw: &ash::Device, family: u32, set_loader_data: Option<SetLoaderData>) -> Result<Self> {
        let flags = vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER | vk::CommandPoolCreateFlags::TRANSIENT;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(family).flags(flags);
        // SAFETY: the device lives, and has the family.
        let pool = unsafe { raw.create_command_pool(&info, None) }?;
        let (free, under_way, garbage) = (Vec::new(), VecDeque::new(), VecDeque::new());
        Ok(Self { pool, set_loader_data, free, under_way, submitted: 0, ended: 0, garbage })
    }

    /// Takes back what has ended.
    pub fn collect(&mut self, raw: &ash::Device) {
        // SAFETY: the fence is the batch's, which was submitted.
        while self.under_way.front().is_some_and(|batch| unsafe { raw.get_fence_status(batch.ended) } == Ok(true)) {
            let batch = self.under_way.pop_front().expect("there is a first");
            self.ended = batch.number;
            self.free.push(batch);
        }
        while self.garbage.front().is_some_and(|(number, _)| *number <= self.ended) {
            let (_, garbage) = self.garbage.pop_front().expect("there is a first");
            // SAFETY: the program has destroyed the object, and no batch names the object any more.
            unsafe {
                match garbage {
                    Garbage::Buffer(buffer) => raw.destroy_buffer(buffer, None),
                    Garbage::Memory(memory) => raw.free_memory(memory, None),
                }
            }
        }
    }

    /// An object goes as soon as the batches so far have ended.
    pub fn discard(&mut self, raw: &ash::Device, garbage: Garbage) {
        self.garbage.push_back((self.submitted, garbage));
        self.collect(raw);
    }

    /// Waits on the host for the batches so far.
    pub fn wait(&mut self, raw: &ash::Device) {
        let fences = Vec::from_iter(self.under_way.iter().map(|batch| batch.ended));
        if !fences.is_empty() {
            // SAFETY: the fences are those of batches. On a lost device the wait ends with an error, and all is over.
            let _ = unsafe { raw.wait_for_fences(&fences, true, u64::MAX) };
        }
        self.collect(raw);
    }

    fn take(&mut self, raw: &ash::Device) -> Result<Batch> {
        self.collect(raw);
        if let Some(mut batch) = self.free.pop() {
            // SAFETY: the batch has ended.
            unsafe { raw.reset_fences(&[batch.ended]) }?;
            batch.number = self.submitted + 1;
            return Ok(batch);
        }
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        // SAFETY: the device lives; the loader's function takes an object that a layer has just made.
        unsafe {
            let commands = raw.allocate_command_buffers(&info)?[0];
            if let Some(set) = self.set_loader_data {
                set(raw.handle(), vk::Handle::as_raw(commands) as *mut std::ffi::c_void).result()?;
            }
            let semaphore = || raw.create_semaphore(&vk::SemaphoreCreateInfo::default(), None);
            let (copied, bound) = (semaphore()?, semaphore()?);
            let ended = raw.create_fence(&vk::FenceCreateInfo::default(), None)?;
            Ok(Batch { number: self.submitted + 1, commands, ended, copied, bound })
        }
    }

    /// Submits copies and, behind them, binds. What is submitted to the queue before is through when a copy begins, and what is submitted to
    /// the queue later begins behind the binds.
    ///
    /// # Safety
    ///
    /// The caller has the queue alone; buffers and memory live.
    pub unsafe fn submit(
        &mut self,
        raw: &ash::Device,
        stores: &Stores,
        queue: vk::Queue,
        copies: &[Copy],
        binds: &[(vk::Buffer, Vec<vk::SparseMemoryBind>)],
    ) -> Result<()> {
        if copies.is_empty() && binds.is_empty() {
            return Ok(());
        }
        let batch = self.take(raw)?;
        let commands = [batch.commands];
        let commands = if copies.is_empty() { &commands[..0] } else { &commands[..] };
        // SAFETY: the caller's; the objects are those of the batch, which is not under way.
        unsafe {
            if !copies.is_empty() {
                record(raw, stores, batch.commands, copies)?;
            }
            let (copied, bound) = ([batch.copied], [batch.bound]);
            let info = vk::SubmitInfo::default().command_buffers(commands);
            if binds.is_empty() {
                raw.queue_submit(queue, &[info], batch.ended)?;
            } else {
                raw.queue_submit(queue, &[info.signal_semaphores(&copied)], vk::Fence::null())?;
                let of_buffers = binds
                    .iter()
                    .map(|(buffer, binds)| vk::SparseBufferMemoryBindInfo::default().buffer(*buffer).binds(binds));
                let of_buffers = Vec::from_iter(of_buffers);
                let info = vk::BindSparseInfo::default().buffer_binds(&of_buffers);
                let info = info.wait_semaphores(&copied).signal_semaphores(&bound);
                raw.queue_bind_sparse(queue, &[info], vk::Fence::null())?;
                let stages = [vk::PipelineStageFlags::ALL_COMMANDS];
                let info = vk::SubmitInfo::default().wait_semaphores(&bound).wait_dst_stage_mask(&stages);
                raw.queue_submit(queue, &[info], batch.ended)?;
            }
        }
        self.submitted = batch.number;
        self.under_way.push_back(batch);
        Ok(())
    }

    /// Destroys all. The device is idle.
    pub fn destroy(&mut self, raw: &ash::Device) {
        self.wait(raw);
        for batch in self.free.drain(..) {
            // SAFETY: the batch has ended.
            unsafe {
                raw.destroy_fence(batch.ended, None);
                raw.destroy_semaphore(batch.copied, None);
                raw.destroy_semaphore(batch.bound, None);
            }
        }
        // SAFETY: no command buffer of the pool is under way.
        unsafe { raw.destroy_command_pool(self.pool, None) };
    }
}

/// Records copies with the barriers that they need.
///
/// # Safety
///
/// The command buffer is not under way; the stores live.
unsafe fn record(raw: &ash::Device, stores: &Stores, commands: vk::CommandBuffer, copies: &[Copy]) -> Result<()> {
    let (transfer, all) = (vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::ALL_COMMANDS);
    let (read, write) = (vk::AccessFlags::TRANSFER_READ, vk::AccessFlags::TRANSFER_WRITE);
    let anything = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
    // SAFETY: the caller's.
    let barrier = |from, before: vk::AccessFlags, to, behind: vk::AccessFlags| unsafe {
        let barrier = [vk::MemoryBarrier::default().src_access_mask(before).dst_access_mask(behind)];
        raw.cmd_pipeline_barrier(commands, from, to, vk::DependencyFlags::empty(), &barrier, &[], &[]);
    };
    let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
    // SAFETY: the caller's.
    unsafe { raw.begin_command_buffer(commands, &info) }?;
    barrier(all, anything, transfer, read | write);
    let mut open: Vec<Copy> = Vec::new();
    for copy in copies {
        // A copy begins behind those before that have bytes in common.
        if open.iter().any(|before| overlap(before, copy)) {
            barrier(transfer, read | write, transfer, read | write);
            open.clear();
        }
        open.push(*copy);
        for (home, at, local, local_at, bytes) in stores.pieces(copy) {
            // SAFETY: the caller's; the pieces lie in the buffers.
            unsafe {
                let region = |src_offset, dst_offset| [vk::BufferCopy { src_offset, dst_offset, size: bytes }];
                match copy.kind {
                    CopyKind::In => raw.cmd_copy_buffer(commands, home, local, &region(at, local_at)),
                    CopyKind::Out => raw.cmd_copy_buffer(commands, local, home, &region(local_at, at)),
                    CopyKind::Zeros => raw.cmd_fill_buffer(commands, local, local_at, bytes, 0),
                }
            }
        }
    }
    barrier(transfer, write, all, anything);
    // SAFETY: the caller's.
    unsafe { raw.end_command_buffer(commands) }
}

/// The binds of each buffer, for Vulkan.
pub fn by_buffer(stores: &Stores, binds: &[Bind]) -> Vec<(vk::Buffer, Vec<vk::SparseMemoryBind>)> {
    let mut of_buffers: Vec<(vk::Buffer, Vec<vk::SparseMemoryBind>)> = Vec::new();
    for bind in binds {
        let new = match bind.place {
            Place::Local(local) => stores.local_pieces(local, bind.bytes),
            Place::Home(memory, at) => vec![(memory, at, bind.bytes)],
            Place::Nothing => vec![(vk::DeviceMemory::null(), 0, bind.bytes)],
        };
        let at = of_buffers.iter().rposition(|(buffer, _)| *buffer == bind.buffer).unwrap_or_else(|| {
            of_buffers.push((bind.buffer, Vec::new()));
            of_buffers.len() - 1
        });
        let mut offset = bind.offset;
        for (memory, memory_offset, bytes) in new {
            let bind = vk::SparseMemoryBind::default().resource_offset(offset).size(bytes);
            of_buffers[at].1.push(bind.memory(memory).memory_offset(memory_offset));
            offset += bytes;
        }
    }
    of_buffers
}
