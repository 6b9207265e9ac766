//! The values of fences in memory that the client can read, and not write.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page.
const PAGE: usize = 4096;

/// Values of a page.
const SLOTS: usize = PAGE / size_of::<u64>();

/// Pages with the values of fences. Each page has two mappings: one to write the values, and one for the client.
#[derive(Debug, Default)]
pub struct FencePages {
    pages: Vec<Page>,
}

#[derive(Debug)]
struct Page {
    written: *const AtomicU64,
    read: *mut u64,
}

impl FencePages {
    /// The client's address of a value.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn address(&mut self, slot: usize) -> io::Result<*mut u64> {
        while self.pages.len() <= slot / SLOTS {
            self.pages.push(Page::new()?);
        }
        Ok(self.pages[slot / SLOTS].read.wrapping_add(slot % SLOTS))
    }

    /// Writes a value. A value without an address yet is not written.
    pub fn set(&mut self, slot: usize, value: u64) {
        if let Some(page) = self.pages.get(slot / SLOTS) {
            // SAFETY: the mapping has `SLOTS` values, and lives as long as the process.
            unsafe { &*page.written.add(slot % SLOTS) }.store(value, Ordering::Release);
        }
    }
}

impl Page {
    fn new() -> io::Result<Self> {
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(c"vidmm fences".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and is closed below, after the mappings.
        let written = unsafe { libc::ftruncate(file, PAGE as libc::off_t) } == 0;
        let map = |protection| {
            // SAFETY: a new mapping, at an address of the kernel's choice.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, libc::MAP_SHARED, file, 0) };
            if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at) }
        };
        let mapped = if written {
            map(libc::PROT_READ | libc::PROT_WRITE).and_then(|written| Ok((written, map(libc::PROT_READ)?)))
        } else {
            Err(io::Error::last_os_error())
        };
        // SAFETY: the descriptor is open.
        unsafe { libc::close(file) };
        let (written, read) = mapped?;
        Ok(Self { written: written.cast(), read: read.cast() })
    }
}
