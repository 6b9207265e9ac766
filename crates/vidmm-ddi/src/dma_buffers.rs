//! DMA buffers as the driver knows the buffers: the same memory and the same address from begin to end (DRV-01).
//!
//! A seed chooses the next buffer among many free buffers. The manager's own copy of the bytes is compared and
//! judged; the hardware runs the memory of the driver's buffer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use memmap2::{MmapOptions, MmapRaw};
use vidmm::PAGE_SIZE;
use vidmm::contract::EngineFence;

use crate::dice::Dice;
use crate::guards::{BEFORE, BEHIND, Damage, GUARD, Reach};
use crate::reports::report;
use crate::targets::Effect;

/// The least room of a buffer for users' work in bytes, so that most buffers serve most work.
const USER_BYTES: usize = 4 << 20;

/// Bytes in front of a buffer: a page, so that a buffer begins at a page (DRV-01).
const FRONT: usize = PAGE_SIZE as usize;

/// The distance of two buffers in the hardware's addresses.
const STRIDE: u64 = 64 << 20;

/// As long as fewer buffers of a kind are free, another buffer is made.
const FREE_MIN: usize = 3;

/// Bytes for the driver behind a page of guards, and guards behind the end.
struct Room {
    memory: MmapRaw,
    size: usize,
}

impl Room {
    /// Zeros.
    fn new(capacity: usize) -> Self {
        let pages = FRONT + (capacity + BEHIND).next_multiple_of(PAGE_SIZE as usize);
        let memory: MmapRaw =
            MmapOptions::new().len(pages).map_anon().expect("the machine has memory for a DMA buffer").into();
        let mut room = Self { memory, size: 0 };
        room.set_size(capacity);
        room
    }

    fn capacity(&self) -> usize {
        self.memory.len() - FRONT - BEHIND
    }

    /// Sets the end in front of the guards behind, and mends the guards.
    fn set_size(&mut self, size: usize) {
        assert!(size <= self.capacity());
        self.size = size;
        // SAFETY: the guards are within the memory.
        unsafe {
            self.start().sub(BEFORE).write_bytes(GUARD, BEFORE);
            self.start().add(size).write_bytes(GUARD, BEHIND);
        }
    }

    fn start(&self) -> *mut u8 {
        self.memory.as_mut_ptr().wrapping_add(FRONT)
    }

    /// The offset of an address in the room.
    fn offset_of(&self, address: *const u8) -> Option<usize> {
        address.addr().checked_sub(self.start().addr()).filter(|&offset| offset <= self.size)
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.memory.len() - FRONT);
        // SAFETY: the range is in the memory, and the memory is initialised. No thread of the driver has a right to write meanwhile.
        unsafe { std::slice::from_raw_parts(self.start().add(range.start), range.len()) }
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.size);
        // SAFETY: the range is in the memory; the source is the manager's.
        unsafe { self.start().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Takes the damage of the guards, which are whole again.
    fn take_damage(&mut self, reach: Reach) -> Option<Damage> {
        let (before, behind) = reach.bytes();
        // SAFETY: the guards are in the memory, and the memory is initialised. No thread of the driver has a right to write meanwhile.
        let in_front = unsafe { std::slice::from_raw_parts(self.start().sub(before), before) };
        let damage = Damage::find(in_front, self.bytes(self.size..self.size + behind))?;
        self.set_size(self.size);
        Some(damage)
    }

    /// The written bytes from `offset` to the driver's pointer.
    fn written(&mut self, offset: usize, pointer: *const u8, reach: Reach) -> Result<&[u8], Damage> {
        self.take_damage(reach).map_or(Ok(()), Err)?;
        let end = self.offset_of(pointer).filter(|&end| end >= offset).ok_or(Damage::Pointer)?;
        Ok(self.bytes(offset..end))
    }
}

/// A part of a buffer for the hardware to read: the driver has the packet.
struct Window {
    fence: EngineFence,
    range: Range<usize>,
    /// The hardware has read bytes of the part.
    was_read: bool,
}

/// The use of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// None: the buffer is free.
    Free,
    /// Paging operations. The manager's buffer is at this address.
    Paging { key: usize },
    /// Users' work, translated in a context, with the size in bytes.
    Rendered { context: u64, size: usize },
    /// Users' work, handed over untranslated.
    Plain,
}

struct Slot {
    room: Room,
    private: Room,
    is_paging: bool,
    used_for: Use,
    used: usize,
    private_used: usize,
    /// The end of the last part that the driver was handed.
    handed: usize,
    windows: Vec<Window>,
    /// The MDLs of the operations in the buffer.
    mdls: Vec<usize>,
    /// The effects of the operations, in order.
    effects: Vec<Effect>,
}

/// A part of a translated buffer that the driver never got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsubmitted {
    /// The buffer.
    pub number: usize,
    pub start: usize,
    pub end: usize,
}

/// The place of a call's bytes in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The buffer.
    pub number: usize,
    pub dma: *mut u8,
    pub private: *mut u8,
    /// The offsets in the buffer and in the private data.
    pub offset: usize,
    pub private_offset: usize,
}

/// A buffer as a submission names the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub address: u64,
    pub dma: *mut u8,
    pub private: *mut u8,
    /// Bytes of private data: all bytes, and bytes before the driver's pointer.
    pub private_size: u32,
    pub private_used: u32,
}

impl Named {
    /// The end of the private data of a submission: the driver's pointer, or the whole block for an unmoved pointer (DRV-02).
    pub fn private_end(&self) -> u32 {
        if self.private_used == 0 { self.private_size } else { self.private_used }
    }
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    /// By the address of the manager's buffer.
    paging: BTreeMap<usize, usize>,
    /// Free buffers: of users, and of paging operations.
    free: [Vec<usize>; 2],
    dice: Dice,
    base: u64,
    /// The guards that are looked at after each call. Before a submission all guards are looked at.
    reach: Reach,
    /// MDLs of free buffers.
    retired: Vec<usize>,
}

/// The buffers of an adapter. None is borrowed while the driver is called.
#[derive(Default)]
pub(crate) struct DmaBuffers(RefCell<State>);

impl State {
    fn address(&self, number: usize) -> u64 {
        self.base + number as u64 * STRIDE
    }

    /// A free buffer, or a new buffer.
    fn take(&mut self, used_for: Use, capacity: usize, private_size: usize) -> usize {
        let is_paging = matches!(used_for, Use::Paging { .. });
        let free = &mut self.free[usize::from(is_paging)];
        // A paging buffer keeps the private data, and the size of the data (DRV-02).
        let fits = |slot: &Slot| match is_paging {
            true => slot.room.capacity() >= capacity && slot.private.size == private_size,
            false => slot.room.capacity() >= capacity && slot.private.capacity() >= private_size,
        };
        let fitting = Vec::from_iter((0..free.len()).filter(|&at| fits(&self.slots[free[at]])));
        let number = if fitting.len() < FREE_MIN {
            let room = Room::new(if is_paging { capacity } else { capacity.max(USER_BYTES) });
            let (used_for, windows, mdls) = (Use::Free, Vec::new(), Vec::new());
            let private = Room::new(private_size);
            let effects = Vec::new();
            let (used, private_used, handed) = (0, 0, 0);
            let slot = Slot { room, private, is_paging, used_for, used, private_used, handed, windows, mdls, effects };
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            free.swap_remove(fitting[self.dice.below(fitting.len() as u64) as usize])
        };
        let slot = &mut self.slots[number];
        (slot.used_for, slot.used, slot.private_used, slot.handed) = (used_for, 0, 0, 0);
        if slot.room.size != capacity {
            slot.room.set_size(capacity);
        }
        if slot.private.size != private_size {
            slot.private.set_size(private_size);
        }
        number
    }

    fn release(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        let used_for = std::mem::replace(&mut slot.used_for, Use::Free);
        slot.windows.clear();
        slot.effects.clear();
        self.retired.append(&mut slot.mdls);
        if used_for == Use::Free {
            return;
        }
        self.free[usize::from(slot.is_paging)].push(number);
        if let Use::Paging { key } = used_for
            && self.paging.get(&key) == Some(&number)
        {
            self.paging.remove(&key);
        }
    }

    fn named(&self, number: usize) -> Named {
        let slot = &self.slots[number];
        Named {
            address: self.address(number),
            dma: slot.room.start(),
            private: if slot.private.size == 0 { std::ptr::null_mut() } else { slot.private.start() },
            private_size: slot.private.size as u32,
            private_used: slot.private_used as u32,
        }
    }

    fn place(&self, number: usize, offset: usize) -> Place {
        let slot = &self.slots[number];
        let has_private = slot.private.size > slot.private_used;
        Place {
            number,
            dma: slot.room.start().wrapping_add(offset),
            private: match has_private {
                true => slot.private.start().wrapping_add(slot.private_used),
                false => std::ptr::null_mut(),
            },
            offset,
            private_offset: slot.private_used,
        }
    }

    /// The buffer and the offset of an address of the hardware's.
    fn find(&self, address: u64) -> Option<(usize, usize)> {
        let past = address.checked_sub(self.base)?;
        let (number, offset) = (usize::try_from(past / STRIDE).ok()?, (past % STRIDE) as usize);
        (number < self.slots.len()).then_some((number, offset))
    }
}

/// The number of newly written bytes, or the damage if the driver has left the room.
pub(crate) type Written = Result<usize, Damage>;

impl DmaBuffers {
    pub fn new(dice: Dice) -> Self {
        let drawn = dice.below(1 << 16);
        let reach = if drawn.is_multiple_of(8) { Reach::Far } else { Reach::Near };
        Self(RefCell::new(State { dice, base: (1 << 32) + drawn * (1 << 20), reach, ..State::default() }))
    }

    /// The place for an operation at `offset` of the manager's paging buffer `key` of `size` bytes.
    pub fn paging(&self, key: usize, offset: usize, size: usize, private_room: usize) -> Place {
        let mut state = self.0.borrow_mut();
        if let Some(&number) = state.paging.get(&key) {
            let slot = &state.slots[number];
            if slot.room.size == size && (offset > 0 || slot.used == 0) {
                return state.place(number, offset);
            }
            // The manager fills the buffer anew.
            state.release(number);
        }
        let number = state.take(Use::Paging { key }, size, private_room);
        state.paging.insert(key, number);
        state.place(number, offset)
    }

    /// A buffer of `room` bytes for users' work of a context, with zeros in the private data.
    pub fn rendered(&self, context: u64, room: usize, private_size: usize) -> Place {
        let mut state = self.0.borrow_mut();
        let number = state.take(Use::Rendered { context, size: usize::MAX }, room, private_size);
        let private = &state.slots[number].private;
        // SAFETY: the bytes are in the room.
        unsafe { private.start().write_bytes(0, private_size) };
        state.place(number, 0)
    }

    /// Copies the bytes from a call, up to the pointer `dma`, to `into`.
    pub fn take_dma(&self, place: Place, dma: *const u8, into: &mut [u8]) -> Written {
        let State { slots, reach, .. } = &mut *self.0.borrow_mut();
        let slot = &mut slots[place.number];
        let written = slot.room.written(place.offset, dma, *reach)?;
        let length = written.len();
        into.get_mut(..length).ok_or(Damage::Pointer)?.copy_from_slice(written);
        slot.used = place.offset + length;
        Ok(length)
    }

    /// Copies the private data from a call, up to the pointer `private`, to `into`.
    pub fn take_private(&self, place: Place, private: *const u8, into: &mut [u8]) -> Written {
        let State { slots, reach, .. } = &mut *self.0.borrow_mut();
        let slot = &mut slots[place.number];
        let written = slot.private.written(place.private_offset, private, *reach)?;
        let copied = written.len().min(into.len());
        into[..copied].copy_from_slice(&written[..copied]);
        let length = written.len();
        slot.private_used = place.private_offset + length;
        Ok(length)
    }

    /// An operation in the buffer names the MDLs: MDLs end with the buffer.
    pub fn keep_mdls(&self, number: usize, mdls: &mut Vec<usize>) {
        self.0.borrow_mut().slots[number].mdls.append(mdls);
    }

    /// An operation in the buffer has an effect.
    pub fn add_effect(&self, number: usize, effect: Effect) {
        self.0.borrow_mut().slots[number].effects.push(effect);
    }

    /// The effects of the operations in the buffer.
    pub fn effects(&self, number: usize) -> Vec<Effect> {
        self.0.borrow().slots[number].effects.clone()
    }

    /// The MDLs of buffers that have ended since the last call.
    pub fn take_retired(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.borrow_mut().retired)
    }

    /// The driver has written all of the buffer's work.
    pub fn end_render(&self, number: usize) {
        let slot = &mut self.0.borrow_mut().slots[number];
        if let Use::Rendered { size, .. } = &mut slot.used_for {
            *size = slot.used;
        }
    }

    /// The buffer of users' work with a token.
    pub fn of_token(&self, token: &[u8]) -> Option<usize> {
        let number = usize::try_from(u64::from_le_bytes(token.try_into().ok()?)).ok()?;
        let state = self.0.borrow();
        let is_rendered = |slot: &Slot| matches!(slot.used_for, Use::Rendered { .. });
        state.slots.get(number).is_some_and(is_rendered).then_some(number)
    }

    /// A translated buffer, as Patch names the buffer, and the first byte.
    pub fn patched(&self, number: usize) -> (Named, *mut u8) {
        let state = self.0.borrow();
        (state.named(number), state.slots[number].room.start())
    }

    /// The bytes of a buffer.
    pub fn content(&self, number: usize, size: usize) -> Vec<u8> {
        let room = &self.0.borrow().slots[number].room;
        room.bytes(0..size.min(room.size)).to_vec()
    }

    /// Reports, by a rule, writes of a call beside a buffer or beside the private data.
    pub fn must_be_whole(&self, number: usize, rule: &str, call: &str) {
        let slot = &mut self.0.borrow_mut().slots[number];
        let size = slot.room.size;
        if let Some(damage) = slot.room.take_damage(Reach::Far) {
            report(rule, format!("{call}: beside a DMA buffer of {size} bytes {damage}"));
        }
        let size = slot.private.size;
        if let Some(damage) = slot.private.take_damage(Reach::Far) {
            report(rule, format!("{call}: beside {size} bytes of private data {damage}"));
        }
    }

    /// The first byte of a paging buffer that has changed since the driver has encoded the operations.
    pub fn first_changed(&self, number: usize, commands: &[u8]) -> Option<usize> {
        let room = &self.0.borrow().slots[number].room;
        let bytes = room.bytes(0..commands.len().min(room.size));
        if bytes == commands { None } else { (0..bytes.len()).find(|&at| bytes[at] != commands[at]) }
    }

    /// The buffer of the manager's paging buffer at `key`, for a submission. A buffer that the driver never saw has a copy of
    /// the bytes.
    pub fn of_paging(&self, key: usize, bytes: &[u8], private_size: usize) -> usize {
        let mut state = self.0.borrow_mut();
        if let Some(&number) = state.paging.get(&key) {
            return number;
        }
        let room = bytes.len().next_multiple_of(PAGE_SIZE as usize);
        let number = state.take(Use::Paging { key }, room, private_size);
        state.paging.insert(key, number);
        state.slots[number].room.write(0, bytes);
        state.slots[number].used = bytes.len();
        number
    }

    /// A buffer with a copy of users' work, for a submission.
    pub fn plain(&self, bytes: &[u8], private: &[u8]) -> usize {
        let mut state = self.0.borrow_mut();
        let number = state.take(Use::Plain, bytes.len(), private.len());
        let slot = &mut state.slots[number];
        slot.room.write(0, bytes);
        slot.private.write(0, private);
        (slot.used, slot.private_used) = (bytes.len(), private.len());
        number
    }

    /// The packet of `fence` is handed to the driver, with a part of a buffer.
    pub fn submit(&self, number: usize, fence: EngineFence, range: Range<usize>) -> Named {
        let mut state = self.0.borrow_mut();
        let was_read = range.is_empty();
        let slot = &mut state.slots[number];
        slot.handed = slot.handed.max(range.end);
        slot.windows.push(Window { fence, range, was_read });
        state.named(number)
    }

    /// Whether the hardware has run the packet of `fence`.
    pub fn was_run(&self, number: usize, fence: EngineFence) -> bool {
        let state = self.0.borrow();
        state.slots[number].windows.iter().any(|window| window.fence == fence && window.was_read)
    }

    /// The packet of `fence` has ended, or was taken back. A part that was taken back may be submitted again, unless the work is
    /// plain.
    pub fn end(&self, number: usize, fence: EngineFence, is_taken_back: bool) {
        let mut state = self.0.borrow_mut();
        let slot = &mut state.slots[number];
        let end = slot.windows.iter().find(|window| window.fence == fence).map_or(0, |window| window.range.end);
        slot.windows.retain(|window| window.fence != fence);
        let is_over = match slot.used_for {
            Use::Rendered { size, .. } => !is_taken_back && end >= size,
            Use::Paging { .. } => !is_taken_back,
            Use::Plain => true,
            Use::Free => false,
        };
        if is_over {
            state.release(number);
        }
    }

    /// A buffer is given up.
    pub fn release(&self, number: usize) {
        self.0.borrow_mut().release(number);
    }

    /// The parts of a context's translated buffers that the driver never got.
    pub fn unsubmitted(&self, of: u64) -> Vec<Unsubmitted> {
        let state = self.0.borrow();
        let part = |(number, slot): (usize, &Slot)| match slot.used_for {
            Use::Rendered { context, size } if context == of && slot.handed < size && size < usize::MAX => {
                Some(Unsubmitted { number, start: slot.handed, end: size })
            }
            _ => None,
        };
        state.slots.iter().enumerate().filter_map(part).collect()
    }

    /// A context is destroyed: unsubmitted buffers of the context are free.
    pub fn release_context(&self, of: u64) {
        let mut state = self.0.borrow_mut();
        let is_its = |slot: &Slot| matches!(slot.used_for, Use::Rendered { context, .. } if context == of);
        let its = Vec::from_iter((0..state.slots.len()).filter(|&number| is_its(&state.slots[number])));
        its.into_iter().for_each(|number| state.release(number));
    }

    /// The first of the bytes at an address of the hardware's; none if a byte is outside of the parts with the driver.
    pub fn at(&self, address: u64, size: usize) -> Option<*const u8> {
        let mut state = self.0.borrow_mut();
        let (number, offset) = state.find(address)?;
        let slot = &mut state.slots[number];
        let end = offset.checked_add(size)?;
        let contains = |window: &&mut Window| window.range.start <= offset && end <= window.range.end;
        slot.windows.iter_mut().find(contains)?.was_read = true;
        Some(slot.room.start().wrapping_add(offset))
    }

    /// The same bytes.
    pub fn bytes(&self, address: u64, size: usize) -> Option<Vec<u8>> {
        self.at(address, size)?;
        let state = self.0.borrow();
        let (number, offset) = state.find(address)?;
        Some(state.slots[number].room.bytes(offset..offset + size).to_vec())
    }

    /// The hardware's address of the byte at a pointer.
    pub fn address_of(&self, pointer: *const u8) -> Option<u64> {
        let state = self.0.borrow();
        let offsets = state.slots.iter().map(|slot| slot.room.offset_of(pointer));
        let (number, offset) = offsets.enumerate().find_map(|(number, offset)| Some((number, offset?)))?;
        Some(state.address(number) + offset as u64)
    }
}
