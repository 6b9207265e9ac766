//! The values of fences in memory that the client can read, and not write.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of a page.
const PAGE: usize = 4096;

/// Values of a page.
const SLOTS: usize = PAGE / size_of::<u64>();

/// The client's addresses of the first pages, for the handler of faults.
static READ: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

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
            let page = Page::new()?;
            if let Some(read) = READ.get(self.pages.len()) {
                read.store(page.read.addr(), Ordering::Release);
            }
            self.pages.push(page);
            name_writers();
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

/// Lets a client that writes a fence's value be named before it dies.
fn name_writers() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        // SAFETY: a struct of zeros is an action without flags and without blocked signals.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_flags = libc::SA_SIGINFO;
        action.sa_sigaction = fault as *const () as usize;
        // SAFETY: both pointers are to actions.
        unsafe {
            let mut before = std::mem::zeroed();
            libc::sigaction(libc::SIGSEGV, &action, &mut before);
            if before.sa_sigaction != libc::SIG_DFL {
                // The client has a handler of its own.
                libc::sigaction(libc::SIGSEGV, &before, std::ptr::null_mut());
            }
        }
    });
}

/// Says that a fence was written, if the fault is in a page of fences. The access faults again, and ends the process.
extern "C" fn fault(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel gives the handler a struct.
    let address = unsafe { (*info).si_addr() }.addr();
    if READ.iter().any(|page| page.load(Ordering::Acquire) == address & !(PAGE - 1)) {
        let text = b"vidmm-kmt: the client wrote the value of a fence, which only the GPU and the system write\n";
        // SAFETY: the text has so many bytes. A handler may write.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }
    // SAFETY: the default action of a signal is always there.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
