//! Buffers that a driver writes to, with bytes around them that it must not touch.

use vidmm::PAGE_SIZE;

/// A buffer for the driver with bytes behind its end that are looked at after each call.
#[derive(Default)]
pub(crate) struct Bounce {
    pages: Vec<Page>,
    /// Where the bytes begin that the driver must not write.
    end: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_SIZE as usize]);

const GUARD: u8 = 0xC5;
const GUARD_BYTES: usize = 1024;

impl Bounce {
    /// The first of `room` bytes at `offset` in a buffer that begins at a page (BPB-02).
    pub fn start(&mut self, offset: usize, room: usize) -> *mut u8 {
        let end = offset + room;
        if self.end != end || self.pages.is_empty() {
            self.pages = vec![Page([GUARD; PAGE_SIZE as usize]); (end + GUARD_BYTES).div_ceil(PAGE_SIZE as usize)];
            self.end = end;
        }
        self.pages.as_mut_ptr().cast::<u8>().wrapping_add(offset)
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: pages are bytes without gaps.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast(), self.pages.len() * PAGE_SIZE as usize) }
    }

    /// The bytes that the driver says it wrote, from `offset` on; none if its pointer or a byte is beyond the room.
    pub fn written(&mut self, offset: usize, pointer: *const u8) -> Option<&[u8]> {
        let is_whole = self.bytes()[self.end..self.end + GUARD_BYTES].iter().all(|&byte| byte == GUARD);
        let past = pointer.addr().checked_sub(self.pages.as_ptr().addr());
        let Some(past) = past.filter(|&past| is_whole && (offset..=self.end).contains(&past)) else {
            self.pages.clear();
            return None;
        };
        Some(&self.bytes()[offset..past])
    }
}
