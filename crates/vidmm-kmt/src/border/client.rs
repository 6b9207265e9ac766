//! The session of this process, and the thread that lets time pass between calls.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::fence_pages::FencePages;
use super::private_data::PrivateData;
use crate::call::{Call, FenceValue, Reply};
use crate::log::CallLog;
use crate::session::Session;
use crate::settings::{SETTINGS_VARIABLE, Settings};

/// Time passes when no call has come for so long, or for twice as long.
const PAUSE: Duration = Duration::from_micros(100);

/// A client's function that is told to trim.
pub type TrimCallback = unsafe extern "C" fn(*mut TrimNotification);

/// `D3DKMT_TRIMNOTIFICATION`.
#[repr(C)]
pub struct TrimNotification {
    context: *mut c_void,
    flags: u32,
    num_bytes_to_trim: u64,
}

/// The session, and what the client sees of it.
pub struct Client {
    session: Session,
    calls: Option<CallLog>,
    fences: FencePages,
    /// The CPU's memory of allocations: the address, and the size where the memory is the library's.
    memory: BTreeMap<u32, (*mut c_void, Option<usize>)>,
    /// The private data of shared resources.
    shared: BTreeMap<u32, Rc<PrivateData>>,
    trims: BTreeMap<u32, (TrimCallback, *mut c_void)>,
    /// Waits that signal an event: the descriptor of the event, the fences, and whether one of them is enough.
    events_waited: Vec<(i32, Vec<FenceValue>, bool)>,
    /// Whether the process ends. Destructors may still make calls, and nobody writes the log after them.
    is_ending: bool,
}

// SAFETY: the session and the pointers are used by one thread at a time, which holds the lock of `CLIENT`.
unsafe impl Send for Client {}

static CLIENT: Mutex<Option<Client>> = Mutex::new(None);

/// Whether this process was forked from the client's. Such a process must not take the lock: the thread with the lock is not there.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// The number of calls, for the thread that looks whether any have come.
static CALLS: AtomicU64 = AtomicU64::new(0);

fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Acquire)
}

extern "C" fn forked() {
    IS_FORKED.store(true, Ordering::Release);
}

fn lock() -> MutexGuard<'static, Option<Client>> {
    CLIENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The settings of this process.
pub fn settings() -> Settings {
    let Ok(text) = std::env::var(SETTINGS_VARIABLE) else { return Settings::default() };
    serde_json::from_str(&text).unwrap_or_else(|error| die(&format!("the variable {SETTINGS_VARIABLE}: {error}")))
}

/// The client of this process, started by the first call. None in a process that was forked from the client's.
pub fn with<T>(act: impl FnOnce(&mut Client) -> T) -> Option<T> {
    if is_forked() {
        return None;
    }
    let mut client = lock();
    let client = client.get_or_insert_with(|| {
        // SAFETY: the functions are of this library, which is never unloaded: a thread runs in it.
        unsafe { (libc::atexit(end), libc::pthread_atfork(None, None, Some(forked))) };
        thread::spawn(pass_time);
        Client::start(settings())
    });
    Some(act(client))
}

/// Makes a call, and tells the client to trim where the manager says so.
pub fn call(call: Call) -> Reply {
    let made = with(|client| {
        let reply = client.call(&call);
        (reply, client.take_trims())
    });
    let Some((reply, trims)) = made else {
        return Reply::refused(crate::Status::NOT_SUPPORTED, "a forked process has no adapter");
    };
    tell(trims);
    reply
}

/// Calls the client's functions without the lock: they call back.
fn tell(trims: Vec<(TrimCallback, TrimNotification)>) {
    for (callback, mut notification) in trims {
        // SAFETY: the client registered the function for such a struct.
        unsafe { callback(&mut notification) };
    }
}

fn pass_time() {
    let mut seen = 0;
    loop {
        thread::sleep(PAUSE);
        let calls = CALLS.load(Ordering::Relaxed);
        if std::mem::replace(&mut seen, calls) != calls {
            continue;
        }
        let trims = match &mut *lock() {
            Some(client) => {
                client.session.idle();
                client.publish();
                client.flush();
                client.take_trims()
            }
            None => Vec::new(),
        };
        tell(trims);
    }
}

extern "C" fn end() {
    if is_forked() {
        return;
    }
    if let Some(client) = &mut *lock() {
        client.is_ending = true;
        client.log_time();
        client.flush();
    }
}

/// Ends the process: the library cannot go on.
fn die(error: &str) -> ! {
    eprintln!("vidmm-kmt: {error}");
    std::process::abort()
}

impl Client {
    fn start(settings: Settings) -> Self {
        let session = Session::start(settings.clone()).unwrap_or_else(|error| die(&error));
        let calls = settings.calls.as_ref().map(|path| {
            CallLog::create(path, &settings).unwrap_or_else(|error| die(&format!("{}: {error}", path.display())))
        });
        Self {
            session,
            calls,
            fences: FencePages::default(),
            memory: BTreeMap::new(),
            shared: BTreeMap::new(),
            trims: BTreeMap::new(),
            events_waited: Vec::new(),
            is_ending: false,
        }
    }

    fn call(&mut self, call: &Call) -> Reply {
        self.log_time();
        let reply = self.session.call(call);
        if let Some(log) = &mut self.calls {
            log.line(&self.session, call, &reply);
        }
        self.publish();
        self.free_memory();
        if self.is_ending {
            self.flush();
        }
        CALLS.fetch_add(1, Ordering::Relaxed);
        reply
    }

    /// Logs the time that has passed since the last call.
    fn log_time(&mut self) {
        if let (Some(log), Some(passed)) = (&mut self.calls, self.session.take_time_passed()) {
            log.line(&self.session, &passed, &Reply::default());
        }
    }

    /// Shows the client the values of fences, and signals events.
    fn publish(&mut self) {
        for (slot, value) in self.session.take_changed() {
            self.fences.set(slot, value);
        }
        let session = &self.session;
        self.events_waited.retain(|(event, fences, any)| {
            let is_over = session.has_reached(fences, *any);
            if is_over {
                let one = 1_u64;
                // SAFETY: eight bytes are read; a descriptor that the client has closed is its own mistake.
                unsafe { libc::write(*event, (&raw const one).cast(), size_of::<u64>()) };
            }
            !is_over
        });
    }

    fn flush(&mut self) {
        if let Some(Err(error)) = self.calls.as_mut().map(CallLog::flush) {
            die(&format!("the log of the calls: {error}"));
        }
    }

    fn take_trims(&mut self) -> Vec<(TrimCallback, TrimNotification)> {
        let trims = self.session.take_trims().into_iter();
        let known = trims.filter_map(|(handle, flags, num_bytes_to_trim)| {
            let &(callback, context) = self.trims.get(&handle)?;
            Some((callback, TrimNotification { context, flags, num_bytes_to_trim }))
        });
        known.collect()
    }

    /// Signals an event when fences have their values.
    pub fn signal_event(&mut self, event: i32, fences: Vec<FenceValue>, any: bool) {
        self.events_waited.push((event, fences, any));
        self.publish();
    }

    /// The client's function for a notification.
    pub fn register(&mut self, handle: u32, callback: TrimCallback, context: *mut c_void) {
        self.trims.insert(handle, (callback, context));
    }

    /// The client's address of a fence's value.
    pub fn fence_address(&mut self, slot: usize) -> *mut c_void {
        let address = self.fences.address(slot).unwrap_or_else(|error| die(&format!("a page of fences: {error}")));
        self.fences.set(slot, self.session.value(slot));
        address.cast()
    }

    /// The client's own memory is an allocation's.
    pub fn give_memory(&mut self, allocation: u32, memory: *mut c_void) {
        self.memory.insert(allocation, (memory, None));
    }

    /// The CPU's address of an allocation, which stays until nobody has the allocation open. Null if there is no memory.
    pub fn memory(&mut self, allocation: u32) -> *mut c_void {
        let Some((allocation, size)) = self.session.memory_of(allocation) else { return std::ptr::null_mut() };
        if let Some(&(memory, _)) = self.memory.get(&allocation) {
            return memory;
        }
        let size = size as usize;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return std::ptr::null_mut();
        }
        self.memory.insert(allocation, (memory, Some(size)));
        memory
    }

    /// Keeps the private data of a shared resource.
    pub fn share(&mut self, resource: u32, private: PrivateData) {
        self.shared.insert(resource, Rc::new(private));
    }

    /// A shared resource has been opened, and can be shared by the new handle too.
    pub fn share_again(&mut self, resource: u32, opened: u32) {
        let private = self.private_data(resource);
        self.shared.insert(opened, private);
    }

    /// The private data of a shared resource.
    pub fn private_data(&self, resource: u32) -> Rc<PrivateData> {
        self.shared.get(&resource).cloned().unwrap_or_default()
    }

    /// Gives back the memory of allocations that are gone, and forgets resources that are gone.
    fn free_memory(&mut self) {
        for handle in self.session.take_gone() {
            self.shared.remove(&handle);
            if let Some((memory, Some(size))) = self.memory.remove(&handle) {
                // SAFETY: the mapping is the library's, and the client's right to it ended with the allocation.
                unsafe { libc::munmap(memory, size) };
            }
        }
    }
}
