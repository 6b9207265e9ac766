//! The residency of a device: what the program makes, and how submissions find in place what they use.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;

use super::batches::{Batches, Garbage, by_buffer};
use super::stores::Stores;
use super::structures::Allocator;
use crate::descriptors::Use;
use crate::driver::{PAGE_BYTES, RANGE_BYTES};
use crate::figures::Figures;
use crate::homes::{Bind, Homes, Place};
use crate::manager::{Manager, Slot, UseError};
use crate::parts::{Part, Uses, plan};
use crate::settings::Mode;
use crate::types::MemoryTypes;

/// Bytes of the homes of all devices of this process.
static HOME_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of a home.
type Bytes = (vk::DeviceMemory, Range<u64>);

/// The residency of a device.
pub struct Residency {
    pub raw: ash::Device,
    pub mode: Mode,
    pub types: MemoryTypes,
    pub state: Mutex<State>,
}

/// The state of a device's residency.
pub struct State {
    pub manager: Manager,
    pub homes: Homes,
    pub stores: Stores,
    pub batches: Batches,
    /// The buffers whose ranges move, with the bytes that memory is bound to.
    pub managed: HashMap<vk::Buffer, u64>,
    /// The other buffers: the reason, and the place in a home.
    pub plain: HashMap<vk::Buffer, (&'static str, Option<Bytes>)>,
    /// The images in homes.
    pub images: HashMap<vk::Image, Bytes>,
    /// Binds of managed buffers to memory that is no home.
    pub elsewhere: Vec<(vk::DeviceMemory, Bind)>,
    /// Memory that is no home, and that managed buffers were bound to.
    foreign: HashSet<vk::DeviceMemory>,
    pub figures: Figures,
    /// The file for the figures.
    file: Option<PathBuf>,
    /// The process that made the device.
    pub process: u32,
    /// Whether ranges that are not in local memory are bound to their homes.
    is_bound_home: bool,
}

/// Bytes of all homes in this process.
pub fn home_bytes() -> u64 {
    HOME_BYTES.load(Ordering::Relaxed)
}

impl State {
    pub fn new(manager: Manager, stores: Stores, batches: Batches, mode: Mode, file: Option<PathBuf>) -> Self {
        Self {
            manager,
            homes: Homes::default(),
            stores,
            batches,
            managed: HashMap::new(),
            plain: HashMap::new(),
            images: HashMap::new(),
            elsewhere: Vec::new(),
            foreign: HashSet::new(),
            figures: Figures::default(),
            file,
            process: std::process::id(),
            is_bound_home: mode == Mode::BindsHome,
        }
    }

    /// Counts what stays in place, and says so once for each reason.
    pub fn pin(&mut self, reason: &str, bytes: u64) {
        if self.figures.pin(reason, bytes) {
            eprintln!("vidmm: pinned: {reason}");
        }
    }

    /// Writes figures and log of the device out. Nothing is used any more.
    pub fn tell(&mut self) {
        let statistics = self.manager.statistics();
        for (name, value) in [
            ("local-bytes", self.manager.local_bytes),
            ("mode-b", u64::from(!self.is_bound_home)),
            ("page-ins", statistics.page_ins),
            ("bytes-in", statistics.bytes_paged_in),
            ("bytes-filled", statistics.bytes_filled),
            ("evictions", statistics.evictions),
            ("bytes-out", statistics.bytes_paged_out),
            ("home-bytes", self.homes.bytes()),
        ] {
            self.figures.set(name, value);
        }
        if let Err(error) = self.manager.end_log() {
            eprintln!("vidmm: {error}");
        }
        self.figures.write(self.file.as_deref());
    }

    /// The manager cannot go on: all content goes home, and stays there.
    fn give_up(&mut self, reason: &str) {
        if self.figures.without.is_none() {
            eprintln!("vidmm: residency ends: {reason}");
            self.figures.without = Some(reason.to_owned());
        }
        self.is_bound_home = true;
        for slot in self.homes.all() {
            self.homes.send_home(slot);
        }
    }

    /// Takes the manager's steps over.
    pub fn step(&mut self) {
        for step in self.manager.steps() {
            self.homes.apply(step);
        }
    }

    /// Destroys ranges in the manager.
    fn destroy_ranges(&mut self, slots: Vec<Slot>) {
        for slot in slots {
            if let Err(error) = self.manager.destroy(slot) {
                self.give_up(&error);
            }
        }
        self.step();
    }

    fn bytes(&self, uses: &Uses) -> u64 {
        uses.keys().map(|&slot| self.homes.bytes_of(slot)).sum()
    }

    fn fits(&self, uses: &Uses) -> bool {
        self.bytes(uses) <= self.manager.local_bytes
    }

    /// A range is used in the home. Where local memory has content, the content goes home, and the manager begins anew.
    fn serve_from_home(&mut self, slot: Slot) {
        let bytes = self.homes.bytes_of(slot);
        self.figures.add("served", 1);
        self.figures.add("served-bytes", bytes);
        if !self.homes.send_home(slot) {
            return;
        }
        if let Err(error) = self.manager.destroy(slot) {
            return self.give_up(&error);
        }
        self.step();
        match self.manager.create(bytes) {
            Ok(new) => self.homes.rename(slot, new),
            Err(error) => self.give_up(&error),
        }
    }

    /// Lets the uses find their ranges in place. Returns false where mode B has no room.
    fn bring_in(&mut self, uses: &Uses, mode: Mode) -> bool {
        if self.figures.without.is_some() {
            return true;
        }
        let mut listed = Vec::from_iter(uses.iter().map(|(&slot, &is_written)| (slot, is_written)));
        if !self.fits(uses) {
            if mode == Mode::BindsNothing {
                return false;
            }
            let mut room = self.manager.local_bytes;
            let mut beyond = Vec::new();
            listed.retain(|&(slot, _)| {
                let bytes = self.homes.bytes_of(slot);
                let has_room = bytes <= room;
                room -= if has_room { bytes } else { 0 };
                beyond.extend((!has_room).then_some(slot));
                has_room
            });
            beyond.into_iter().for_each(|slot| self.serve_from_home(slot));
        }
        match self.manager.use_ranges(&listed) {
            Ok(()) => {}
            Err(UseError::NoRoom) if mode == Mode::BindsNothing => return false,
            Err(UseError::NoRoom) => listed.into_iter().for_each(|(slot, _)| self.serve_from_home(slot)),
            Err(UseError::Lost(reason)) => self.give_up(&reason),
        }
        self.step();
        true
    }

    /// Puts copies and binds onto the queue.
    ///
    /// # Safety
    ///
    /// The caller has the queue alone.
    unsafe fn flush(&mut self, raw: &ash::Device, queue: vk::Queue) -> Result<(), vk::Result> {
        let copies = self.homes.copies();
        let mut binds = self.homes.binds(self.is_bound_home);
        binds.extend(self.elsewhere.drain(..).map(|(_, bind)| bind));
        let binds = by_buffer(&self.stores, &binds);
        // SAFETY: the caller's.
        unsafe { self.batches.submit(raw, &self.stores, queue, &copies, &binds) }
    }
}

impl Residency {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a call of the program in parts, each behind the paging that the part needs. `uses` has the uses of each command buffer of each
    /// batch of the call, and `can_split` whether a batch can be submitted in parts.
    ///
    /// # Safety
    ///
    /// The program calls a function of the queue.
    pub unsafe fn submit(
        &self,
        queue: vk::Queue,
        uses: &[Vec<Vec<Use>>],
        can_split: &[bool],
        mut send: impl FnMut(&Part) -> vk::Result,
    ) -> vk::Result {
        let mut state = self.state();
        state.figures.add("submissions", 1);
        let of_buffers = |buffers: &Vec<Vec<Use>>| Vec::from_iter(buffers.iter().map(|uses| state.homes.slots(uses)));
        let infos = Vec::from_iter(uses.iter().map(of_buffers));
        let Some(parts) = plan(&infos, can_split, |uses| state.fits(uses), self.mode) else {
            let largest = infos.iter().flatten().map(|uses| state.bytes(uses)).max().unwrap_or(0);
            let local = state.manager.local_bytes;
            eprintln!("vidmm: a submission is refused: it needs {largest} bytes at once, and local memory has {local}");
            state.figures.add("refused", 1);
            return vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
        };
        if parts.len() > infos.len().max(1) {
            state.figures.add("split", 1);
        }
        for (part, uses) in parts {
            if !state.bring_in(&uses, self.mode) {
                eprintln!("vidmm: a submission is refused: the manager has no room");
                state.figures.add("refused", 1);
                return vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
            }
            // SAFETY: the caller's.
            let flushed = unsafe { state.flush(&self.raw, queue) };
            let result = flushed.map_or_else(|error| error, |()| send(&part));
            if result != vk::Result::SUCCESS {
                return result;
            }
        }
        vk::Result::SUCCESS
    }

    /// Allocates a home.
    ///
    /// # Safety
    ///
    /// The allocator is the program's.
    pub unsafe fn allocate(
        &self,
        bytes: u64,
        flags: Option<vk::MemoryAllocateFlagsInfo<'static>>,
        allocator: Allocator<'_>,
    ) -> Result<vk::DeviceMemory, vk::Result> {
        let mut state = self.state();
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        if home_bytes().saturating_add(bytes) > self.types.heap_bytes() {
            return Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        }
        let mut info = vk::MemoryAllocateInfo::default().allocation_size(bytes).memory_type_index(self.types.system);
        let mut flags = flags;
        if let Some(flags) = &mut flags {
            info = info.push_next(flags);
        }
        // SAFETY: the allocator is the program's.
        let memory = unsafe { self.raw.allocate_memory(&info, allocator.as_ref()) }?;
        let mut slots = Vec::new();
        let mut made = state.stores.add_home(&self.raw, memory, bytes);
        for at in (0..bytes).step_by(RANGE_BYTES as usize) {
            if made.is_err() {
                break;
            }
            match state.manager.create(RANGE_BYTES.min(bytes - at)) {
                Ok(slot) => slots.push(slot),
                Err(error) => {
                    eprintln!("vidmm: no home: {error}");
                    made = Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
                }
            }
        }
        state.step();
        if let Err(error) = made {
            state.destroy_ranges(slots);
            // SAFETY: buffers and memory were just made, and nothing names them.
            unsafe {
                state.stores.remove_home(memory).into_iter().for_each(|buffer| self.raw.destroy_buffer(buffer, None));
                self.raw.free_memory(memory, allocator.as_ref());
            }
            return Err(error);
        }
        state.homes.add(memory, bytes, slots);
        let all = HOME_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let most = state.figures.get("home-bytes-max").max(all);
        state.figures.set("home-bytes-max", most);
        Ok(memory)
    }

    /// Frees memory. Returns whether the layer has done or will do all.
    ///
    /// # Safety
    ///
    /// The program calls vkFreeMemory.
    pub unsafe fn free(&self, memory: vk::DeviceMemory, allocator: Allocator<'_>) -> bool {
        let mut state = self.state();
        state.elsewhere.retain(|(of, _)| *of != memory);
        if !state.homes.has(memory) {
            // A bind to the memory may be under way.
            return state.foreign.remove(&memory) && self.discard(&mut state, Garbage::Memory(memory), allocator);
        }
        HOME_BYTES.fetch_sub(state.homes.bytes_in(memory), Ordering::Relaxed);
        let slots = state.homes.remove(memory);
        state.destroy_ranges(slots);
        for buffer in state.stores.remove_home(memory) {
            state.batches.discard(&self.raw, Garbage::Buffer(buffer));
        }
        self.discard(&mut state, Garbage::Memory(memory), allocator)
    }

    /// Lets an object go when nothing under way names the object. Returns false if the driver is to do so at once: the program's functions for
    /// memory may not live longer.
    fn discard(&self, state: &mut State, garbage: Garbage, allocator: Allocator<'_>) -> bool {
        if !allocator.is_null() {
            state.batches.wait(&self.raw);
            return false;
        }
        state.batches.discard(&self.raw, garbage);
        true
    }

    /// A buffer has memory from now on.
    pub fn bind(&self, buffer: vk::Buffer, number: Option<u64>, memory: vk::DeviceMemory, offset: u64) {
        let mut state = self.state();
        let is_home = state.homes.has(memory);
        if let Some(&bytes) = state.managed.get(&buffer) {
            match number.filter(|_| is_home) {
                Some(number) => state.homes.place(buffer, number, memory, offset, bytes),
                None => {
                    let place = Place::Home(memory, offset);
                    state.foreign.insert(memory);
                    state.elsewhere.push((memory, Bind { buffer, offset: 0, bytes, place }));
                }
            }
            return;
        }
        if is_home {
            // SAFETY: the program binds the buffer, so the buffer lives.
            let bytes = unsafe { self.raw.get_buffer_memory_requirements(buffer) }.size;
            let (reason, place) = state.plain.entry(buffer).or_insert(("other buffers", None));
            *place = Some((memory, offset..offset + bytes));
            let reason = *reason;
            state.pin(reason, bytes);
            state.homes.fix(memory, offset..offset + bytes, true);
        }
    }

    /// Destroys a buffer. Returns whether the layer has done or will do all.
    ///
    /// # Safety
    ///
    /// The program calls vkDestroyBuffer.
    pub unsafe fn destroy_buffer(&self, buffer: vk::Buffer, allocator: Allocator<'_>) -> bool {
        let mut state = self.state();
        if let Some((_, Some((memory, bytes)))) = state.plain.remove(&buffer) {
            state.homes.fix(memory, bytes, false);
        }
        if state.managed.remove(&buffer).is_none() {
            return false;
        }
        state.homes.forget(buffer);
        state.elsewhere.retain(|(_, bind)| bind.buffer != buffer);
        self.discard(&mut state, Garbage::Buffer(buffer), allocator)
    }

    /// An image has memory from now on.
    pub fn bind_image(&self, image: vk::Image, memory: vk::DeviceMemory, offset: u64, is_whole: bool) {
        let mut state = self.state();
        if !state.homes.has(memory) {
            return;
        }
        // The planes of an image can be anywhere.
        let bytes = match is_whole {
            // SAFETY: the program binds the image, so the image lives.
            true => unsafe { self.raw.get_image_memory_requirements(image) }.size,
            false => state.homes.bytes_in(memory) - offset,
        };
        state.pin("images", bytes);
        state.homes.fix(memory, offset..offset + bytes, true);
        if is_whole {
            state.images.insert(image, (memory, offset..offset + bytes));
        }
    }

    /// The device is destroyed: figures and log are written out, and what the layer has made goes.
    pub fn end(&self) {
        let mut state = self.state();
        state.tell();
        HOME_BYTES.fetch_sub(state.homes.bytes(), Ordering::Relaxed);
        // SAFETY: nobody else uses the device, which the program destroys.
        let _ = unsafe { self.raw.device_wait_idle() };
        state.batches.destroy(&self.raw);
        state.stores.destroy(&self.raw);
    }

    /// An image is destroyed.
    pub fn destroy_image(&self, image: vk::Image) {
        let mut state = self.state();
        if let Some((memory, bytes)) = state.images.remove(&image) {
            state.homes.fix(memory, bytes, false);
        }
    }
}
