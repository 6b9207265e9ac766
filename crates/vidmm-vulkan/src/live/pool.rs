//! A pool of small buffers, which share the ranges of larger ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;

use super::buffer::{Buffer, BufferDesc};
use super::device::Device;
use super::error::Error;

/// The bytes of the shared buffers, and of their ranges.
const SHARED: u64 = 4 << 20;
const RANGE: u64 = 256 << 10;

/// Small buffers begin at multiples of this: no limit of Vulkan on offsets in buffers asks for more.
const ALIGNMENT: u64 = 256;

/// Small buffers, packed into sparse buffers of 4 MiB with ranges of 256 KiB. A [`Buffer`] takes 64 KiB at least.
///
/// A small buffer comes and goes with the neighbours in the range.
pub struct Pool(Arc<PoolInner>);

/// A part of a shared buffer of a [`Pool`], free for a further small buffer when the value is dropped. End uses on
/// [queues of your own](super::Use) first; on the manager's queue later work waits for earlier work.
///
/// The first content is zeros, or the bytes of a dropped small buffer.
pub struct SmallBuffer {
    pool: Arc<PoolInner>,
    buffer: Arc<Buffer>,
    bytes: Range<u64>,
    /// The number of the shared buffer.
    shared: u64,
}

struct PoolInner {
    device: Device,
    usage: vk::BufferUsageFlags,
    packed: Mutex<Packed>,
}

/// The shared buffers by number. A place in the pool is the number of a shared buffer times [`SHARED`], plus the offset.
#[derive(Default)]
struct Packed {
    buffers: BTreeMap<u64, Arc<Buffer>>,
    /// The bytes of the holes by their places, and the same by size.
    holes: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl Packed {
    /// Takes the first bytes of the smallest hole that has as many.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let &(size, place) = self.by_size.range((bytes, 0)..).next()?;
        self.close(place, size);
        if size > bytes {
            self.open(place + bytes, size - bytes);
        }
        Some(place)
    }

    /// Frees taken bytes, and joins free neighbours in the shared buffer. Returns the hole.
    fn free(&mut self, mut place: u64, mut bytes: u64) -> (u64, u64) {
        let before = self.holes.range(..place).next_back().map(|(&place, &size)| (place, size));
        if let Some((hole, size)) = before.filter(|&(hole, size)| hole + size == place && !place.is_multiple_of(SHARED))
        {
            self.close(hole, size);
            (place, bytes) = (hole, bytes + size);
        }
        let end = place + bytes;
        if let Some(&size) = self.holes.get(&end).filter(|_| !end.is_multiple_of(SHARED)) {
            self.close(end, size);
            bytes += size;
        }
        self.open(place, bytes);
        (place, bytes)
    }

    fn open(&mut self, place: u64, bytes: u64) {
        self.holes.insert(place, bytes);
        self.by_size.insert((bytes, place));
    }

    fn close(&mut self, place: u64, bytes: u64) {
        self.holes.remove(&place);
        self.by_size.remove(&(bytes, place));
    }
}

impl PoolInner {
    fn packed(&self) -> MutexGuard<'_, Packed> {
        self.packed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// A pool without buffers. `usage` is the application's usage of the buffers, beside the usage of [every buffer](Buffer::raw).
    pub fn new(device: &Device, usage: vk::BufferUsageFlags) -> Self {
        Self(Arc::new(PoolInner { device: device.clone(), usage, packed: Mutex::default() }))
    }

    /// Creates a small buffer of 1 byte to 4 MiB, which begins at a multiple of 256 bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Small`] for other sizes. As for [`Device::create_buffer`] if another shared buffer is needed.
    pub fn create_buffer(&self, size: u64) -> Result<SmallBuffer, Error> {
        if size == 0 || size > SHARED {
            return Err(Error::Small { asked: size, most: SHARED });
        }
        let bytes = size.next_multiple_of(ALIGNMENT);
        let mut packed = self.0.packed();
        let place = match packed.take(bytes) {
            Some(place) => place,
            None => {
                let desc = BufferDesc { usage: self.0.usage, range_bytes: RANGE, ..BufferDesc::new(SHARED) };
                let buffer = Arc::new(self.0.device.create_buffer_with(desc)?);
                let number = packed.buffers.last_key_value().map_or(0, |(&last, _)| last + 1);
                packed.buffers.insert(number, buffer);
                packed.open(number * SHARED, SHARED);
                packed.take(bytes).unwrap_or(number * SHARED)
            }
        };
        let (shared, offset) = (place / SHARED, place % SHARED);
        let buffer = packed.buffers[&shared].clone();
        Ok(SmallBuffer { pool: self.0.clone(), buffer, bytes: offset..offset + size, shared })
    }
}

impl SmallBuffer {
    /// The shared buffer, for frames together with [`bytes`](Self::bytes): `frame.insert_range(small.buffer(), small.bytes())`.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The bytes of the small buffer in the shared buffer.
    pub fn bytes(&self) -> Range<u64> {
        self.bytes.clone()
    }

    /// The address in shaders, which never changes.
    pub fn address(&self) -> vk::DeviceAddress {
        self.buffer.address() + self.bytes.start
    }
}

impl Drop for SmallBuffer {
    fn drop(&mut self) {
        let Range { start, end } = self.bytes;
        let mut packed = self.pool.packed();
        let (place, bytes) = packed.free(self.shared * SHARED + start, (end - start).next_multiple_of(ALIGNMENT));
        if bytes == SHARED {
            packed.close(place, bytes);
            packed.buffers.remove(&self.shared);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("device", &self.0.device).finish_non_exhaustive()
    }
}

impl fmt::Debug for SmallBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmallBuffer").field("buffer", &self.buffer).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
