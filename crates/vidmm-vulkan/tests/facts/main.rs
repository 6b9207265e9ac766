//! The manager over Vulkan in real time, as an application sees it: a compute kernel judges every word.
//!
//! A test skips where there is no device, and says so; with `VIDMM_REQUIRE_VULKAN=1` it fails. Validation watches where its
//! layers are installed, and must be there with that variable.

// A program of tests has no readers but those of its code.
#![allow(missing_docs)]

#[path = "../../examples/vulkan_streaming/kernel.rs"]
mod kernel;

mod adopted;
mod endings;
mod frames;
mod images;
mod moving;
mod random;
mod ranges;
mod refusals;
mod system_memory;
mod turns;
mod vacating;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ash::vk;
use kernel::{Kernel, Step};
use vidmm::{EvictFlags, MakeResidentFlags};
use vidmm_vulkan::{
    Adapter, Buffer, Device, Error, Options, Point, Process, Submission, Unbinding, Validation, VulkanError,
    take_validation_messages,
};

pub const MIB: u64 = 1 << 20;

/// The words of a seed, as `stream.comp` has them.
pub fn words(seed: u32, count: u32) -> Vec<u8> {
    let word = |index: u32| {
        let x = index.wrapping_mul(0x9E37_79B9) ^ seed;
        let x = (x ^ x >> 16).wrapping_mul(0x85EB_CA6B);
        let x = (x ^ x >> 13).wrapping_mul(0xC2B2_AE35);
        x ^ x >> 16
    };
    (0..count).flat_map(|index| word(index).to_ne_bytes()).collect()
}

/// Long enough for a machine that is busy with other things.
pub const LONG: Duration = Duration::from_secs(60);

/// Long enough to see that something does not happen.
pub const SHORT: Duration = Duration::from_millis(100);

/// One test at a time: what is counted belongs to it, and so do the messages of validation.
static ALONE: Mutex<()> = Mutex::new(());

/// An adapter, a device of it, and the kernel. Fields are dropped in their order.
pub struct World {
    /// Counts the words that are wrong.
    wrong: Buffer,
    kernel: Kernel,
    pub device: Device,
    pub process: Process,
    pub adapter: Adapter,
    is_validated: bool,
    _alone: MutexGuard<'static, ()>,
}

/// An adapter with `local` bytes of local memory, by `open`; none where there is no Vulkan and none is required.
pub fn adapter(local: u64, validation: Validation) -> Option<(Adapter, bool)> {
    open(options(local), validation)
}

fn options(local: u64) -> Options {
    Options { local_bytes: Some(local), system_bytes: Some((5 * local).max(256 * MIB)), ..Options::default() }
}

fn open(options: Options, validation: Validation) -> Option<(Adapter, bool)> {
    let is_required = std::env::var_os("VIDMM_REQUIRE_VULKAN").is_some_and(|value| value != "0");
    let mut is_validated = validation == Validation::On;
    let opened = match Adapter::open(options, validation) {
        Err(Error::Vulkan(VulkanError::NoLayer(_))) if !is_required => {
            is_validated = false;
            Adapter::open(options, Validation::Off)
        }
        opened => opened,
    };
    match opened {
        Ok(adapter) => Some((adapter, is_validated)),
        Err(error) if is_required => panic!("VIDMM_REQUIRE_VULKAN says that there must be a device, and: {error}"),
        Err(error) => {
            // Not through `print`, which tests keep to themselves.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {error}\n").as_bytes());
            None
        }
    }
}

pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// A world whose local memory has `local` bytes, watched by validation.
    pub fn new(local: u64) -> Option<Self> {
        Self::with(local, Validation::On)
    }

    /// The same, where what is unmapped stays bound as long as nothing else is.
    pub fn with_lazy_unbinding(local: u64) -> Option<Self> {
        let alone = alone();
        let (adapter, is_validated) = open(Options { unbinding: Unbinding::Lazy, ..options(local) }, Validation::On)?;
        Some(Self::over(adapter, is_validated, alone))
    }

    pub fn with(local: u64, validation: Validation) -> Option<Self> {
        let alone = alone();
        let (adapter, is_validated) = adapter(local, validation)?;
        Some(Self::over(adapter, is_validated, alone))
    }

    pub fn over(adapter: Adapter, is_validated: bool, alone: MutexGuard<'static, ()>) -> Self {
        let process = adapter.create_process().expect("there is memory for a process");
        let device = process.create_device().expect("it is created");
        let kernel = Kernel::new(adapter.raw(), adapter.queue_family()).expect("the kernel is compiled");
        let wrong = device.create_buffer(64 << 10, vk::BufferUsageFlags::empty()).expect("there is memory");
        device.make_resident(&[&wrong], MakeResidentFlags::empty()).expect("there is room");
        Self { wrong, kernel, device, process, adapter, is_validated, _alone: alone }
    }

    pub fn buffer(&self, size: u64) -> Buffer {
        self.device.create_buffer(size, vk::BufferUsageFlags::empty()).expect("there is memory")
    }

    pub fn make_resident(&self, buffers: &[&Buffer]) -> Point {
        self.device.make_resident(buffers, MakeResidentFlags::empty()).expect("there is room")
    }

    /// Evicts now, and not only when memory is wanted.
    pub fn evict(&self, buffers: &[&Buffer]) {
        self.device.evict(buffers, EvictFlags::empty()).expect("they are on the list");
    }

    pub fn wait(&self, point: Point) {
        assert!(self.adapter.wait(point, LONG).expect("Vulkan waits"), "the GPU answers");
    }

    pub fn is_reached(&self, point: Point) -> bool {
        self.adapter.wait(point, SHORT).expect("Vulkan waits")
    }

    /// The step that checks all words of a buffer, and writes others.
    pub fn step(&self, buffer: &Buffer, expected: Option<u32>, next: Option<u32>) -> Step {
        self.step_in(buffer, 0..buffer.size(), expected, next)
    }

    /// The same of a part of it, which has words of its own.
    pub fn step_in(&self, buffer: &Buffer, bytes: Range<u64>, expected: Option<u32>, next: Option<u32>) -> Step {
        let count = ((bytes.end - bytes.start) / 4) as u32;
        Step { words: buffer.address() + bytes.start, wrong: self.wrong.address(), count, expected, next }
    }

    /// The memory of a resident buffer holds the words of a seed. This is not read through its addresses, which on lavapipe have
    /// memory of their own where nothing is bound: what a kernel wrote and a kernel reads could both be there.
    pub fn holds(&self, buffer: &Buffer, seed: u32) {
        let read = self.device.read(buffer, 0, buffer.size()).expect("it is resident").wait();
        assert!(read == Ok(words(seed, (buffer.size() / 4) as u32)), "its memory holds other words");
    }

    /// Runs the kernel on a buffer.
    pub fn run(&mut self, buffer: &Buffer, expected: Option<u32>, next: Option<u32>) {
        let commands = self.kernel.record(&[self.step(buffer, expected, next)]).expect("it is recorded");
        let work = Submission { commands: vec![commands], ..Submission::default() };
        // SAFETY: the commands use what is named here, and are kept until the point is reached.
        let point = unsafe { self.device.submit(&[buffer, &self.wrong], work) }.expect("they are resident");
        self.wait(point);
        self.kernel.recycle(commands);
    }

    pub fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// The words that were wrong so far.
    pub fn wrong_words(&self) -> u32 {
        let bytes = self.device.read(&self.wrong, 0, 4).expect("it is resident").wait().expect("the GPU answers");
        u32::from_ne_bytes(bytes.try_into().expect("there are 4 bytes"))
    }

    /// No word was wrong, and validation has said nothing, up to the end of the adapter.
    pub fn is_clean(self) {
        assert_eq!(self.wrong_words(), 0, "words are wrong");
        let Self { wrong, kernel, device, process, adapter, is_validated, _alone } = self;
        drop((wrong, kernel, device, process, adapter));
        if is_validated {
            assert_eq!(take_validation_messages(), [""; 0]);
        }
    }
}
