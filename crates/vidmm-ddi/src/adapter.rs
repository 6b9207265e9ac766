//! One adapter of a driver: what the manager's driver, the GPU and the callbacks share.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vidmm::Nanoseconds;
use vidmm::contract::{AllocationFlags, KmdContextHandle, KmdProcessHandle, NotifyInterrupt};
use vidmm_runtime::GpuEvent;

use crate::abi::*;
use crate::callbacks;
use crate::compression::Compression;
use crate::dice::Dice;
use crate::dma_buffers::DmaBuffers;
use crate::guards::Guarded;
use crate::inbox;
use crate::loaded::Loaded;
use crate::mdls::Mdls;
use crate::memory::{Memory, PageNumbers, set_page_numbers};
use crate::numbers::{Fences, Numbers};
use crate::progress::{Entry, Progress};
use crate::reports::{note_deepest, remark, report};
use crate::targets::Targets;

/// The levels at which Windows calls a driver (ABI-04).
pub(crate) const PASSIVE_LEVEL: u8 = 0;
pub(crate) const DISPATCH_LEVEL: u8 = 2;
pub(crate) const DEVICE_LEVEL: u8 = 5;

/// The driver's reports in its interrupt routine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notification {
    Completed {
        node_ordinal: u32,
        fence_id: u32,
    },
    Preempted {
        node_ordinal: u32,
        fence_id: u32,
        last_completed: u32,
    },
    /// The process is a handle of the driver's.
    Faulted {
        interrupt: NotifyInterrupt,
    },
}

/// The pages of each range that a kernel reads, and of each that it writes.
pub(crate) type Shape = (Vec<u64>, Vec<u64>);

/// The next step behind a report of an interrupt (FLT-13).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Owes {
    #[default]
    Nothing,
    /// DxgkCbQueueDpc.
    QueueDpc,
    /// DxgkCbNotifyDpc.
    NotifyDpc,
}

/// An allocation that was asked for.
#[derive(Clone, Default)]
pub(crate) struct Wanted {
    /// Bytes.
    pub size: u64,
    /// The private data of the resource that it is part of; empty if it is part of none.
    pub resource: Vec<u8>,
    /// Its compression surface; 0 if it is never compressed.
    pub surface: u32,
    /// The flags that the driver is to set.
    pub flags: AllocationFlags,
    /// The pixels of the surface that the allocation is: width, height. None if no presentation has the surface for its source.
    pub pixels: Option<(u32, u32)>,
}

/// A power component of the driver's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Component {
    /// The states, from F0 on.
    pub num_states: u32,
    /// The driver tells the end of a transition.
    pub is_completed_by_driver: bool,
}

/// The way of interrupts to the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Interrupts {
    #[default]
    Arrive,
    /// The next interrupt goes astray.
    GoAstray,
    /// The interrupt with this message has gone astray.
    Lost(u32),
}

/// The machine around an adapter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// Decides addresses, fences, the next buffer, and turns of threads.
    pub seed: u64,
    /// The bits of the machine's addresses.
    pub address_bits: u32,
    /// The driver's threads race, and a run may not repeat.
    pub is_racing: bool,
    /// Fences go on at 1 behind the largest fence.
    pub fences_wrap: bool,
}

/// One adapter. Nothing in it is borrowed while the driver is called, because the driver calls back.
pub(crate) struct Adapter {
    driver: Arc<Loaded>,
    /// The driver's own context of the adapter.
    context: Cell<HANDLE>,
    /// Set once the driver has described its segments.
    memory: RefCell<Option<Rc<Memory>>>,
    pub dma: DmaBuffers,
    pub mdls: Mdls,
    pub processes: Numbers,
    pub contexts: Numbers,
    pub allocations: Numbers,
    /// Allocations as devices have the allocations open.
    pub opened: Numbers,
    /// Draws of the border's own.
    pub dice: Dice,
    pub fences: Fences,
    /// DXGK_DRIVERCAPS.HighestAcceptableAddress; none without a limit (DRV-08).
    pub highest_acceptable_address: Cell<Option<u64>>,
    /// The driver's reports, and the function that it was in.
    pub notifications: RefCell<Vec<(Notification, &'static str)>>,
    /// Reads and writes of kernels that were not told yet.
    pub kernel_events: RefCell<Vec<GpuEvent>>,
    pub dpc_is_queued: Cell<bool>,
    /// Since the last report of an interrupt no DPC was queued; and since a DPC ran, Dxgkrnl was not told.
    pub owes: Cell<Owes>,
    pub interrupts: Cell<Interrupts>,
    /// So often data for a debugger was collected, and so often the power was lost.
    pub debug_reports: Cell<usize>,
    pub losses_of_power: Cell<usize>,
    /// The last user program from the GPU's model has faulted.
    pub has_faulted: Cell<bool>,
    /// The driver resets single engines (FLT-20).
    pub resets_engines: Cell<bool>,
    /// DxgkDdiCancelCommand is called for work that the hardware never gets (DRV-13).
    pub cancels: Cell<bool>,
    /// Translated work was dropped, and nothing has told the driver.
    pub drops: Cell<bool>,
    /// The power components.
    pub components: RefCell<Vec<Component>>,
    /// Draws for power components and host apertures: further draws are as before.
    pub component_dice: Dice,
    /// The set of the segments that the manager does not know of, and the driver reports: the driver may name the segments.
    pub hidden_segments: Cell<u32>,
    /// Whether engines use physical addresses.
    pub is_physical: Cell<bool>,
    /// Whether Patch is called for paging buffers too: documents disagree (DRV-01).
    pub patches_paging: Cell<bool>,
    /// The translations, and the paging buffer that the hardware runs.
    pub targets: Targets,
    /// The process of each context.
    pub process_of: RefCell<BTreeMap<KmdContextHandle, KmdProcessHandle>>,
    /// Bytes of private data beside each paging buffer.
    pub paging_private_size: Cell<usize>,
    /// Whether DMA buffers may be split (DRV-05).
    pub splits: Cell<bool>,
    /// The allocations that are about to be created, by their private data.
    pub wanted: RefCell<BTreeMap<Vec<u8>, Wanted>>,
    /// The pages that are compressed.
    pub compression: RefCell<Compression>,
    /// The kernels that programs have handed in, by number.
    pub handed_in: RefCell<BTreeMap<u64, Shape>>,
    /// DxgkDdiStartDevice has succeeded.
    is_started: Cell<bool>,
    /// The time that the driver's kernel was told last.
    time: Cell<Nanoseconds>,
    /// The shim's counts from before the adapter was added.
    counts_before: VIDMM_SHIM_COUNTS,
    /// The driver's threads race, and a run may not repeat.
    is_racing: bool,
    /// Memory of users vanishes in calls of Render (DRV-12): drawn for one seed of eight.
    pub user_memory_vanishes: bool,
    /// Memory of users changes in calls of Render (DRV-12): drawn for another seed of eight.
    pub user_memory_changes: bool,
}

/// So often a wait of the driver's threads ends by time, before vidmm gives up the report.
const TURNS_MAX: u32 = 1000;

/// A thread of the driver's reports what has happened, and releases data, in this time of the world.
const THREADS_RUN_FOR: Duration = Duration::from_secs(1);

/// Threads that race have this time of the machine, unless all of the threads wait for events: the machine may have more to do than to
/// run the threads.
const THREADS_RACE_FOR: Duration = Duration::from_secs(5);

/// So often vidmm looks whether threads that race have come to wait.
const LOOK_EACH: Duration = Duration::from_millis(1);

/// The oddities of an adapter, each in one seed of eight.
fn drawn(seed: u64) -> u32 {
    match seed % 8 {
        3 => VIDMM_DRAWN_TRIM,
        1 => VIDMM_DRAWN_STACK,
        _ => 0,
    }
}

thread_local! {
    /// The adapters of this thread: a device handle is the address of one.
    static ADAPTERS: RefCell<BTreeSet<usize>> = const { RefCell::new(BTreeSet::new()) };
    /// The adapter that was looked up last.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// Reports that a handle is none of an adapter.
pub(crate) fn no_such_adapter() {
    report("SHIM-HANDLE", "a callback was given a handle that is not DXGKRNL_INTERFACE.DeviceHandle");
}

/// Whether an adapter is one of this thread's.
pub(crate) fn is_of_this_thread(handle: HANDLE) -> bool {
    LAST.get() == handle.addr() || ADAPTERS.with_borrow(|adapters| adapters.contains(&handle.addr()))
}

/// The adapter of a device handle, if it is one.
///
/// # Safety
///
/// The reference must not outlive the callback that looks it up: the adapter is dropped by its owner, which is not active then.
pub(crate) unsafe fn of_handle<'a>(handle: HANDLE) -> Option<&'a Adapter> {
    let address = handle.addr();
    if LAST.get() != address {
        if !ADAPTERS.with_borrow(|adapters| adapters.contains(&address)) {
            no_such_adapter();
            return None;
        }
        LAST.set(address);
    }
    // SAFETY: it is in the set, so it is the address of an adapter that is alive on this thread.
    Some(unsafe { &*handle.cast::<Adapter>() })
}

impl Adapter {
    /// Adds and starts an adapter of `driver`. `ask` asks the questions between the two.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn start(driver: Arc<Loaded>, surroundings: Surroundings, ask: impl FnOnce(&Self)) -> Result<Rc<Self>, String> {
        let Surroundings { seed, address_bits, is_racing, fences_wrap } = surroundings;
        let counts_before = driver.counts();
        let pages = PageNumbers::new(&Dice::new(seed), address_bits);
        set_page_numbers(pages);
        // SAFETY: the function takes numbers, and no thread of the driver's runs between two adapters.
        unsafe { (driver.shim().SetMachine)(seed, pages.highest_address(), is_racing.into(), drawn(seed)) };
        let dice = Dice::new(!seed);
        let fences = if fences_wrap { Fences::wrapping(&dice) } else { Fences::new(&dice) };
        let adapter = Rc::new(Self {
            driver,
            context: Cell::new(std::ptr::null_mut()),
            memory: RefCell::new(None),
            dma: DmaBuffers::new(Dice::new(seed)),
            mdls: Mdls::new(seed % 8 == 6),
            processes: Numbers::default(),
            contexts: Numbers::default(),
            allocations: Numbers::default(),
            opened: Numbers::default(),
            dice,
            fences,
            highest_acceptable_address: Cell::new(None),
            notifications: RefCell::default(),
            kernel_events: RefCell::default(),
            dpc_is_queued: Cell::new(false),
            owes: Cell::default(),
            interrupts: Cell::default(),
            debug_reports: Cell::default(),
            losses_of_power: Cell::default(),
            has_faulted: Cell::new(false),
            resets_engines: Cell::new(false),
            cancels: Cell::new(false),
            drops: Cell::new(false),
            components: RefCell::default(),
            component_dice: Dice::new(seed ^ 0xF0),
            hidden_segments: Cell::new(0),
            is_physical: Cell::new(false),
            patches_paging: Cell::new(seed % 2 == 1),
            targets: Targets::default(),
            process_of: RefCell::default(),
            paging_private_size: Cell::new(0),
            splits: Cell::new(true),
            wanted: RefCell::default(),
            compression: RefCell::default(),
            handed_in: RefCell::default(),
            is_started: Cell::new(false),
            time: Cell::new(Nanoseconds::MAX),
            counts_before,
            is_racing,
            user_memory_vanishes: seed % 8 == 2,
            user_memory_changes: seed % 8 == 5,
        });
        adapter.set_time(0);
        ADAPTERS.with_borrow_mut(|adapters| adapters.insert(Rc::as_ptr(&adapter).addr()));
        inbox::open(Rc::as_ptr(&adapter).addr(), Arc::clone(&adapter.driver));
        let ddi = adapter.ddi();
        let (add, start) = (ddi.DxgkDdiAddDevice, ddi.DxgkDdiStartDevice);
        let (Some(add), Some(start)) = (add, start) else { return Err("the driver's table has no entry".into()) };
        let mut context = std::ptr::null_mut();
        let mut device_object = [0u64; 64];
        // SAFETY: the object is opaque and lives for the call; the driver writes one handle.
        let status = adapter.call(Entry::DxgkDdiAddDevice, PASSIVE_LEVEL, || unsafe {
            add(device_object.as_mut_ptr().cast(), &mut context)
        });
        if status < 0 {
            return Err(format!("DxgkDdiAddDevice failed with status {status:#x}"));
        }
        adapter.context.set(context);
        ask(&adapter);
        let mut interface = callbacks::interface(Rc::as_ptr(&adapter).cast_mut().cast());
        let (mut info, mut sources, mut children) = (DXGK_START_INFO::zeroed(), 0, 0);
        let is_at_end = seed % 2 == 0;
        let interface = adapter.guarded(0, &mut interface, is_at_end);
        let info = adapter.guarded(1, &mut info, !is_at_end);
        // SAFETY: the table is whole, and no other has it.
        unsafe { (adapter.driver.shim().PauseInCallbacks)(interface) };
        // SAFETY: all pointers are to whole structs that live for the call; the driver copies the interface.
        let status = adapter.call(Entry::DxgkDdiStartDevice, PASSIVE_LEVEL, || unsafe {
            start(context, info, interface, &mut sources, &mut children)
        });
        if status < 0 {
            return Err(format!("DxgkDdiStartDevice failed with status {status:#x}"));
        }
        adapter.is_started.set(true);
        Ok(adapter)
    }

    /// A copy of a struct between pages without access, by the shim's number of the struct: an access beside the struct is a crash with
    /// the struct's name. Without memory for the copy it is the struct itself.
    fn guarded<T>(&self, number: u32, object: &mut T, is_at_end: bool) -> *mut T {
        let object = std::ptr::from_mut(object);
        // SAFETY: the object is whole; the copy is the shim's, and stays until the next copy with the number.
        let copy = unsafe { (self.driver.shim().GuardedCopy)(number, object.cast(), size_of::<T>(), is_at_end.into()) };
        if copy.is_null() { object } else { copy.cast() }
    }

    /// Whether the interrupt is connected (DRV-09).
    pub fn is_started(&self) -> bool {
        self.is_started.get()
    }

    /// The driver's table.
    pub fn ddi(&self) -> &DRIVER_INITIALIZATION_DATA {
        &self.driver.ddi
    }

    /// The driver.
    pub fn driver(&self) -> &Loaded {
        &self.driver
    }

    /// The adapter's handle, the first argument of its functions.
    pub fn handle(&self) -> HANDLE {
        self.context.get()
    }

    /// Says where the driver is.
    pub fn progress(&self) -> &Progress {
        &self.driver.progress
    }

    /// Gives the adapter its memory.
    pub fn set_memory(&self, memory: Rc<Memory>) {
        self.memory.replace(Some(memory));
    }

    /// The adapter's memory, once it has one.
    pub fn memory(&self) -> Option<Rc<Memory>> {
        self.memory.borrow().clone()
    }

    /// Calls the driver at a level of interrupts, and looks at what it left behind.
    pub fn call<T>(&self, entry: Entry, irql: u8, call: impl FnOnce() -> T) -> T {
        let shim = self.driver.shim();
        let before = self.progress().enter(entry);
        // SAFETY: the function takes a number, and a static text.
        unsafe { (shim.BeginCall)(irql, entry.c_name()) };
        let result = call();
        // SAFETY: as above; it calls routines that the driver has queued with their own contexts.
        unsafe { (shim.EndCall)((before == 0).into()) };
        if before == 0 && self.driver.counts().LocksHeld > self.counts_before.LocksHeld {
            report("SHIM-LOCK", format!("{entry:?} has returned with a lock held"));
        }
        self.progress().leave(before);
        if before == 0 {
            self.run_dpc();
        }
        result
    }

    /// Calls the driver with a struct, and looks at the bytes around the struct.
    pub fn call_with<T: Copy, R>(&self, entry: Entry, irql: u8, args: &mut T, call: impl FnOnce(*mut T) -> R) -> R {
        let mut guarded = Guarded::new(*args);
        let result = self.call_guarded(entry, irql, &mut guarded, call);
        *args = *guarded;
        result
    }

    /// The same with a struct that was made between its guards.
    pub fn call_guarded<T, R>(
        &self,
        entry: Entry,
        irql: u8,
        args: &mut Guarded<T>,
        call: impl FnOnce(*mut T) -> R,
    ) -> R {
        let object = args.as_mut_ptr();
        let result = self.call(entry, irql, || call(object));
        if let Some(damage) = args.damage() {
            report("SHIM-STRUCT", format!("{entry:?}: {damage}"));
        }
        result
    }

    /// Reports what is owed to Dxgkrnl once nothing of the driver runs any more (FLT-13).
    pub fn settle(&self) {
        match self.owes.take() {
            Owes::Nothing => {}
            Owes::QueueDpc => report("FLT-13", "DxgkCbNotifyInterrupt was called, and no DPC was queued behind it"),
            Owes::NotifyDpc => report("FLT-13", "the DPC has run, and has not called DxgkCbNotifyDpc"),
        }
    }

    /// Dxgkrnl's name of an object of the driver's, for DxgkCbGetHandleData.
    pub fn name_handle(&self, object: HANDLE) -> u32 {
        inbox::name(std::ptr::from_ref(self).addr(), object)
    }

    /// The object is about to be destroyed: threads of the driver have time for the release, for which Windows waits (DRV-10).
    pub fn forget_handle(&self, object: HANDLE) {
        let address = std::ptr::from_ref(self).addr();
        if self.driver.counts().Threads > 0 {
            self.step_threads(|| !inbox::is_acquired(address, object));
        }
        if inbox::is_acquired(address, object) {
            let message = "an allocation of DxgkCbAcquireHandleData is destroyed";
            report("SHIM-HANDLE", format!("{message} before the release: Windows waits for ever (DRV-10)"));
        }
        inbox::forget(address, object);
    }

    /// Tells the driver's kernel the world's time: timers fire.
    pub fn set_time(&self, now: Nanoseconds) {
        if self.time.replace(now) == now {
            return;
        }
        let set_time = self.driver.shim().SetTime;
        // SAFETY: the function takes a number; it calls routines that the driver has set timers for with their own contexts.
        let fire = || unsafe { set_time(now) };
        match self.driver.counts().Timers {
            0 => fire(),
            _ => self.call(Entry::Timer, PASSIVE_LEVEL, fire),
        }
    }

    /// Notes a report of the driver's, with the manager's numbers of packets in place of the driver's fences.
    pub fn note(&self, notification: Notification, function: &'static str) {
        let of = |fence_id| self.fences.packet_of(fence_id);
        let with_packet = |interrupt| match interrupt {
            NotifyInterrupt::DmaPageFaulted(mut fault) => {
                fault.faulted_fence_id = of(fault.faulted_fence_id as u32).into();
                NotifyInterrupt::DmaPageFaulted(fault)
            }
            NotifyInterrupt::DmaFaulted { faulted_fence_id, node_ordinal } => {
                NotifyInterrupt::DmaFaulted { faulted_fence_id: of(faulted_fence_id as u32).into(), node_ordinal }
            }
        };
        let numbered = match notification {
            Notification::Completed { node_ordinal, fence_id } => {
                Notification::Completed { node_ordinal, fence_id: of(fence_id) }
            }
            Notification::Preempted { node_ordinal, fence_id, last_completed } => {
                let (fence_id, last_completed) = (of(fence_id), of(last_completed));
                Notification::Preempted { node_ordinal, fence_id, last_completed }
            }
            Notification::Faulted { interrupt } => Notification::Faulted { interrupt: with_packet(interrupt) },
        };
        self.notifications.borrow_mut().push((numbered, function));
    }

    /// A machine with the driver has no page above an address (DRV-08).
    pub fn limit_addresses(&self, highest: u64) {
        let most = 1 << PageNumbers::ADDRESS_BITS.end();
        let limit = self.highest_acceptable_address.get().unwrap_or(u64::MAX).min(highest);
        self.highest_acceptable_address.set(Some(limit).filter(|&limit| limit < most - 1));
    }

    /// Takes the reports that the driver's own threads have made until now: they are older than what this thread reports next.
    pub fn take_reports_of_threads(&self) {
        for notification in inbox::take(std::ptr::from_ref(self).addr()) {
            self.progress().note_thread();
            self.note(notification, "a thread of the driver");
        }
    }

    /// Takes these reports, and runs the DPC that a thread asks for. Returns whether a thread has asked.
    pub fn look_at_threads(&self) -> bool {
        self.take_reports_of_threads();
        let dpc_is_queued = inbox::take_dpc(std::ptr::from_ref(self).addr());
        if dpc_is_queued {
            self.dpc_is_queued.set(true);
            self.run_dpc();
            self.take_reports_of_threads();
        }
        dpc_is_queued
    }

    /// Waits until `is_told`, or until the driver's own threads have nothing more to report.
    pub fn wait_for_threads(&self, is_told: impl Fn() -> bool) {
        if self.driver.counts().Threads > 0 {
            self.step_threads(|| {
                self.look_at_threads();
                is_told()
            });
        }
    }

    /// Lets the driver's threads go on until `is_over`, or until the threads do nothing more. Threads in turns have run already until each
    /// waits: time may pass.
    fn step_threads(&self, is_over: impl Fn() -> bool) {
        let mut steps = if self.is_racing { 0 } else { TURNS_MAX };
        while steps > 0 && !is_over() {
            // SAFETY: the function takes a number; the driver's threads run meanwhile, and no other.
            let has_run = unsafe { (self.driver.shim().StepThreads)(THREADS_RUN_FOR.as_nanos() as u64) };
            steps = if has_run != 0 { steps - 1 } else { 0 };
        }
        let (begun, address) = (Instant::now(), std::ptr::from_ref(self).addr());
        while self.is_racing && !is_over() && begun.elapsed() < THREADS_RACE_FOR {
            // SAFETY: the function has no arguments.
            let are_idle = unsafe { (self.driver.shim().ThreadsAreIdle)() } != 0;
            // All reports of idle threads are in the inbox by now.
            if are_idle && !self.look_at_threads() {
                return;
            }
            inbox::wait(address, LOOK_EACH);
        }
    }

    fn run_dpc(&self) {
        if let (true, Some(dpc)) = (self.dpc_is_queued.take(), self.ddi().DxgkDdiDpcRoutine) {
            // SAFETY: the context is what AddDevice returned.
            self.call(Entry::DxgkDdiDpcRoutine, DISPATCH_LEVEL, || unsafe { dpc(self.handle()) });
        }
    }

    /// Looks at the stack of the deepest call (DRV-14): the figures are ours.
    fn judge_stack(&self) {
        let mut name = std::ptr::null();
        // SAFETY: the function writes the name of a call, which is static.
        let bytes = unsafe { (self.driver.shim().TakeDeepest)(&mut name) };
        if bytes == 0 || name.is_null() {
            return;
        }
        // SAFETY: not null, and a text with an end.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        match bytes >> 10 {
            24.. => report(
                "STACK",
                format!("{name} takes {} KiB of stack: over 24 KiB, our figure (DRV-14)", bytes.div_ceil(1 << 10)),
            ),
            // Remarks with the same words are one.
            12.. => remark("STACK", format!("{name} takes over 12 KiB of stack, our figure (DRV-14)")),
            _ => {}
        }
        note_deepest(&name, bytes);
    }

    /// Lists of pages of ended packets lead nowhere from now on.
    pub fn retire_mdls(&self) {
        self.mdls.retire(&self.driver, self.dma.take_retired());
    }

    /// Lets the driver look at its interrupt, and runs the DPC that it asks for.
    pub fn interrupt(&self, message_number: u32) {
        if self.interrupts.get() == Interrupts::GoAstray && !self.has_faulted.get() {
            self.interrupts.set(Interrupts::Lost(message_number));
            return;
        }
        let ddi = self.ddi();
        let Some(routine) = ddi.DxgkDdiInterruptRoutine else { return };
        inbox::synchronized(|| {
            // SAFETY: the context is what AddDevice returned.
            self.call(Entry::DxgkDdiInterruptRoutine, DEVICE_LEVEL, || unsafe {
                routine(self.handle(), message_number)
            });
        });
        self.run_dpc();
    }
}

impl Drop for Adapter {
    /// Stops and removes the adapter, and counts what it leaves.
    fn drop(&mut self) {
        let handle = self.handle();
        if !handle.is_null() {
            if let Some(stop) = self.ddi().DxgkDdiStopDevice.filter(|_| self.is_started.get()) {
                // SAFETY: the context is what AddDevice returned.
                self.call(Entry::DxgkDdiStopDevice, PASSIVE_LEVEL, || unsafe { stop(handle) });
            }
            if let Some(remove) = self.ddi().DxgkDdiRemoveDevice {
                // SAFETY: as above; the adapter is used no more.
                self.call(Entry::DxgkDdiRemoveDevice, PASSIVE_LEVEL, || unsafe { remove(handle) });
            }
        }
        self.judge_stack();
        // SAFETY: the function has no arguments.
        unsafe { (self.driver.shim().CheckPool)() };
        let (before, after) = (self.counts_before, self.driver.counts());
        if after.PoolBlocks > before.PoolBlocks {
            // SAFETY: the function takes a number.
            let report_leaks = || unsafe { (self.driver.shim().ReportLeaks)(before.Allocations) };
            callbacks::with_dropped_work(self.drops.get(), report_leaks);
        }
        if after.OpenHandles > before.OpenHandles {
            let handles = after.OpenHandles - before.OpenHandles;
            report("SHIM-OPEN-HANDLE", format!("{handles} handles are left open after RemoveDevice"));
        }
        if after.WorkItems > before.WorkItems {
            let items = after.WorkItems - before.WorkItems;
            report("SHIM-WORK-ITEM", format!("work items that are not freed after RemoveDevice: {items}"));
        }
        if after.Timers > 0 {
            report("SHIM-DEFERRED", format!("timers that are set after RemoveDevice: {}", after.Timers));
        }
        // SAFETY: the function has no arguments, and the driver has no operation any more.
        unsafe { (self.driver.shim().FreeMdlMemory)() };
        // SAFETY: the function has no arguments. What is left would run in a world in which its adapter is not there.
        unsafe { (self.driver.shim().Forget)() };
        if after.Threads > 0 {
            report("SHIM-THREAD", format!("{} threads of the driver run on after RemoveDevice", after.Threads));
        }
        let address = std::ptr::from_mut(self).addr();
        inbox::close(address);
        ADAPTERS.with_borrow_mut(|adapters| adapters.remove(&address));
        LAST.set(0);
    }
}

/// The address of the adapter whose handle this thread has looked up last, or else of any of the thread's.
pub(crate) fn last_of_this_thread() -> Option<usize> {
    ADAPTERS.with_borrow(|adapters| adapters.get(&LAST.get()).or_else(|| adapters.iter().next()).copied())
}

/// Runs `action` for that adapter.
pub(crate) fn with_last<T>(action: impl FnOnce(&Adapter) -> Option<T>) -> Option<T> {
    let last = last_of_this_thread()?;
    // SAFETY: it is in the set, so it is the address of an adapter that is alive on this thread, whose owner waits for the driver.
    action(unsafe { &*(last as *const Adapter) })
}
