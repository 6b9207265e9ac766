//! The errors of a Vulkan device.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Once;

use ash::vk;

/// Why a Vulkan device cannot be used, or cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VulkanError {
    /// The Vulkan loader is not installed, or cannot be loaded.
    #[error("no Vulkan: the loader could not be loaded ({0}); install your GPU's Vulkan driver, or Mesa's lavapipe")]
    NoLoader(String),
    /// There is no device at all.
    #[error("Vulkan has no device: no driver is installed for a GPU of this machine")]
    NoDevice,
    /// There are devices, but none that can be used.
    #[error("no Vulkan device can be used: {}", listed(.0))]
    NoUsableDevice(Vec<VulkanError>),
    /// A device lacks a feature that the manager needs.
    #[error("{device} lacks {feature}")]
    Lacks {
        /// The name of the device.
        device: String,
        /// The feature.
        feature: Feature,
    },
    /// A layer that was asked for is not installed.
    #[error("the Vulkan layer {0} is not installed")]
    NoLayer(&'static str),
    /// A call has failed.
    #[error("{call} has failed: {result}")]
    Call {
        /// The call.
        call: &'static str,
        /// Its answer.
        result: vk::Result,
    },
    /// The memory that a run needs is more than the device has.
    #[error("the Vulkan device has {limit} MiB for this run, and it needs more; a larger --scale needs less")]
    OutOfMemory {
        /// The bytes that it has, in MiB.
        limit: u64,
    },
    /// The addresses that a run needs are more than the device has for sparse buffers.
    #[error(
        "the Vulkan device has {limit} MiB of addresses for sparse buffers, and this run needs more; a larger --scale needs less"
    )]
    OutOfAddresses {
        /// The bytes of addresses that it has, in MiB.
        limit: u64,
    },
    /// The mappings of a run are more than the device can keep.
    #[error("the Vulkan device keeps {limit} mapped ranges, and this run needs more")]
    TooManyRanges {
        /// How many ranges it keeps.
        limit: usize,
    },
    /// The GPU has not answered in time.
    #[error("the Vulkan device has not finished its work in {seconds} s")]
    TimedOut {
        /// How long that was.
        seconds: u64,
    },
}

/// The value of a call that the run cannot go on without.
pub(crate) fn sure<T>(result: Result<T, VulkanError>) -> T {
    result.unwrap_or_else(|error| error.end_run())
}

/// A feature that the manager needs of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// Version 1.2 of the interface.
    Vulkan12,
    /// `sparseBinding`.
    SparseBinding,
    /// `sparseResidencyBuffer`.
    SparseResidencyBuffer,
    /// `sparseResidencyAliased`.
    SparseResidencyAliased,
    /// `bufferDeviceAddress`.
    BufferDeviceAddress,
    /// `timelineSemaphore`.
    TimelineSemaphore,
    /// `shaderInt64`.
    ShaderInt64,
    /// A queue family that binds memory and computes.
    SparseComputeQueue,
    /// A queue that binds memory and copies.
    SparseTransferQueue,
    /// A type of memory that a sparse buffer can be bound to.
    BindableMemory,
    /// A type of memory that the CPU sees, coherent with its caches.
    HostMemory,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vulkan12 => "Vulkan 1.2",
            Self::SparseBinding => "sparseBinding (buffers whose memory is bound page by page)",
            Self::SparseResidencyBuffer => "sparseResidencyBuffer (buffers that are bound in part)",
            Self::SparseResidencyAliased => "sparseResidencyAliased (memory that is bound twice)",
            Self::BufferDeviceAddress => "bufferDeviceAddress (GPU virtual addresses in shaders)",
            Self::TimelineSemaphore => "timelineSemaphore (fences that count)",
            Self::ShaderInt64 => "shaderInt64 (64-bit integers in shaders)",
            Self::SparseComputeQueue => "a queue family that both binds sparse memory and computes",
            Self::SparseTransferQueue => "a queue that both binds sparse memory and copies",
            Self::BindableMemory => "a memory type of its own that a sparse buffer can be bound to",
            Self::HostMemory => "a memory type that is visible to the host and coherent",
        })
    }
}

impl VulkanError {
    /// The answer of a call that has failed.
    pub(crate) fn of(call: &'static str) -> impl Fn(vk::Result) -> Self {
        move |result| Self::Call { call, result }
    }

    /// Ends the run with this error. The GPU's trait has no way to refuse: what the manager was told has happened has not.
    ///
    /// # Panics
    ///
    /// Always: see [`caught`].
    pub(crate) fn end_run(self) -> ! {
        let message = self.to_string();
        ENDED.set(Some(self));
        panic!("{message}")
    }
}

thread_local! {
    /// The error that has ended a run on this thread.
    static ENDED: Cell<Option<VulkanError>> = const { Cell::new(None) };
}

fn listed(errors: &[VulkanError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Runs `run`, and returns the error of a Vulkan device that could not go on in it. Such an error is a panic on its way, of
/// which nothing is printed.
///
/// # Errors
///
/// That error.
///
/// # Panics
///
/// If `run` panics for another reason.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, VulkanError> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            let ended = ENDED.take();
            let message = panic.payload().downcast_ref::<String>();
            let is_this = ended.as_ref().is_some_and(|ended| message == Some(&ended.to_string()));
            ENDED.set(ended);
            if !is_this {
                before(panic);
            }
        }));
    });
    // A state that the end of the run left half changed is not looked at any more.
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| ENDED.take().unwrap_or_else(|| resume_unwind(payload)))
}
