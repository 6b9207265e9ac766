//! A description of a device, as `vidmm doctor` prints it.

use serde::Serialize;
use vidmm::{PAGE_SIZE, SegmentId};

use crate::error::{Feature, VulkanError};

/// A Vulkan device, as a probe finds it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Its kind: `discrete`, `integrated`, `virtual`, `cpu` or `other`.
    pub kind: &'static str,
    /// The driver, and its version.
    pub driver: String,
    /// Whether the driver is Mesa's lavapipe, a CPU that acts as a GPU.
    pub is_lavapipe: bool,
    /// The version of Vulkan, such as `1.4.305`.
    pub vulkan: String,
    /// The features that the manager needs and the device lacks. With any, it is refused.
    pub lacks: Vec<String>,
    /// The queue families, by their index.
    pub queue_families: Vec<QueueFamily>,
    /// The family that the manager uses; none if none binds memory and computes.
    pub queue_family: Option<u32>,
    /// Another family, whose queue binds memory while the first copies; none if there is none.
    pub bind_family: Option<u32>,
    /// The unit in which memory is bound to a sparse buffer, in bytes. 0 if sparse buffers cannot be made.
    pub granule_bytes: u64,
    /// Whether accesses to addresses that are not bound read zero and write nothing, by `residencyNonResidentStrict`.
    pub is_non_resident_strict: bool,
    /// The memory types, by their index.
    pub memory_types: Vec<MemoryType>,
    /// The memory heaps, by their index.
    pub heaps: Vec<Heap>,
    /// The type of local memory segments; none if there is none.
    pub local_type: Option<u32>,
    /// The type of system memory; none if there is none.
    pub system_type: Option<u32>,
    /// Whether system memory can be mapped into an address space, or only memory segments can.
    pub mode: Mode,
    /// Limits that the manager meets.
    pub limits: Limits,
    #[serde(skip)]
    pub(crate) missing: Vec<Feature>,
}

/// Where memory must be to be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// In any memory: sparse buffers can be bound to system memory too.
    BindsAll,
    /// In memory of the device's own. System memory is reached by copies, and at addresses of its own.
    BindsLocalOnly,
}

/// The mappings that a device can bind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Where memory must be.
    pub mode: Mode,
    /// The unit in which memory is bound, a power of two; at least 4 KiB.
    pub granule_bytes: u64,
    /// The moment at which what is unmapped is unbound.
    pub unbinding: Unbinding,
}

/// The moment at which addresses that are unmapped lose their memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unbinding {
    /// At once, as WDDM has it: what a stray access finds is the device's answer for addresses without memory.
    #[default]
    Strict,
    /// When other memory is bound there, or the addresses are given back. A change of residency then costs one binding in place of
    /// two, or none where memory comes back to its place. A stray access finds what is in that memory now: only for programs
    /// whose processes trust each other.
    Lazy,
}

impl Rules {
    /// Pages of the unit.
    #[cfg(feature = "lockstep")]
    pub(crate) fn granule_pages(self) -> u64 {
        self.granule_bytes.max(PAGE_SIZE) / PAGE_SIZE
    }

    /// Whether memory of `segment` can be bound.
    pub(crate) fn binds(self, segment: SegmentId) -> bool {
        self.mode == Mode::BindsAll || !segment.is_system()
    }

    /// Whether every page of such memory can be bound, wherever it is mapped.
    #[cfg(feature = "lockstep")]
    pub(crate) fn binds_every_page(self) -> bool {
        self.granule_pages() == 1
    }
}

/// A queue family.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct QueueFamily {
    /// How many queues it has.
    pub queues: u32,
    /// Its queues draw.
    pub graphics: bool,
    /// Its queues compute.
    pub compute: bool,
    /// Its queues copy.
    pub transfer: bool,
    /// Its queues bind memory.
    pub sparse_binding: bool,
}

/// A type of memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MemoryType {
    /// The heap that it takes memory from.
    pub heap: u32,
    /// Whether it is the device's own.
    pub device_local: bool,
    /// Whether the CPU sees it.
    pub host_visible: bool,
    /// Whether the CPU's caches need no flush.
    pub host_coherent: bool,
    /// Whether a sparse buffer can be bound to it.
    pub bindable: bool,
}

/// A heap.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Heap {
    /// Its bytes.
    pub bytes: u64,
    /// Whether it is the device's own.
    pub device_local: bool,
    /// The bytes that this process may have of it now, by `VK_EXT_memory_budget`; none without that extension.
    pub budget_bytes: Option<u64>,
}

/// Limits of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Limits {
    /// The most bytes of addresses of all sparse buffers together.
    pub sparse_address_space_bytes: u64,
    /// The most bytes of one buffer.
    pub max_buffer_bytes: u64,
    /// The most allocations of memory at a time.
    pub max_memory_allocations: u32,
}

/// The most ranges that lavapipe maps: each is a mapping of the process, of which Linux allows 65,530, and one that fails is lost
/// without a word.
const LAVAPIPE_RANGES: usize = 60_000;

impl DeviceReport {
    /// Refuses a device that lacks what the manager needs.
    ///
    /// # Errors
    ///
    /// Names the first feature that the device lacks.
    pub fn check(&self) -> Result<(), VulkanError> {
        match self.missing.first() {
            None => Ok(()),
            Some(&feature) => Err(VulkanError::Lacks { device: self.name.clone(), feature }),
        }
    }

    /// The mappings that it can bind; what is unmapped is unbound at once.
    pub fn rules(&self) -> Rules {
        Rules { mode: self.mode, granule_bytes: self.granule_bytes.max(PAGE_SIZE), unbinding: Unbinding::Strict }
    }

    /// The bytes of memory that a run may take on this device: four fifths of what the smallest heap in use has for this process.
    pub fn usable_bytes(&self) -> u64 {
        let usable = [self.usable_in_heap_of(self.local_type), self.usable_in_heap_of(self.system_type)];
        usable.into_iter().flatten().min().unwrap_or(0)
    }

    /// The same for the heap of a memory type.
    pub(crate) fn usable_in_heap_of(&self, memory_type: Option<u32>) -> Option<u64> {
        let heap = self.heaps.get(self.heap_of(memory_type)? as usize)?;
        Some(heap.budget_bytes.unwrap_or(heap.bytes) / 5 * 4)
    }

    /// Whether local and system memory come from one heap.
    pub(crate) fn has_one_heap(&self) -> bool {
        self.heap_of(self.local_type) == self.heap_of(self.system_type)
    }

    /// Whether the device says how much of local memory is left for this process.
    pub(crate) fn says_budgets(&self) -> bool {
        let heap = self.heap_of(self.local_type).and_then(|heap| self.heaps.get(heap as usize));
        heap.is_some_and(|heap| heap.budget_bytes.is_some())
    }

    pub(crate) fn heap_of(&self, memory_type: Option<u32>) -> Option<u32> {
        self.memory_types.get(memory_type? as usize).map(|found| found.heap)
    }

    /// The most ranges that may be mapped at a time.
    pub fn max_mapped_ranges(&self) -> usize {
        if self.is_lavapipe { LAVAPIPE_RANGES } else { usize::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceReport, Heap, Limits, MemoryType, Mode};
    use crate::error::Feature;

    fn report() -> DeviceReport {
        let memory = |heap, device_local, bindable| MemoryType {
            heap,
            device_local,
            host_visible: !device_local,
            host_coherent: !device_local,
            bindable,
        };
        let heap = |bytes, budget_bytes| Heap { bytes, device_local: true, budget_bytes };
        DeviceReport {
            name: "a device".to_owned(),
            kind: "discrete",
            driver: String::new(),
            is_lavapipe: false,
            vulkan: "1.3.0".to_owned(),
            lacks: Vec::new(),
            queue_families: Vec::new(),
            queue_family: Some(0),
            bind_family: None,
            granule_bytes: 65_536,
            is_non_resident_strict: true,
            memory_types: vec![memory(0, true, true), memory(1, false, false)],
            heaps: vec![heap(1000, Some(500)), heap(2000, None)],
            local_type: Some(0),
            system_type: Some(1),
            mode: Mode::BindsLocalOnly,
            limits: Limits { sparse_address_space_bytes: 0, max_buffer_bytes: 0, max_memory_allocations: 0 },
            missing: Vec::new(),
        }
    }

    #[test]
    fn a_device_that_lacks_a_feature_is_refused_by_the_name_of_the_feature() {
        assert_eq!(report().check(), Ok(()));
        for feature in [Feature::SparseBinding, Feature::BufferDeviceAddress, Feature::TimelineSemaphore] {
            let refused = DeviceReport { missing: vec![feature], ..report() };
            let error = refused.check().expect_err("it is refused").to_string();
            let name = feature.to_string();
            assert_eq!(error, format!("a device lacks {name}"));
        }
        assert!(Feature::SparseBinding.to_string().contains("sparseBinding"));
    }

    #[test]
    fn a_run_takes_a_part_of_the_smallest_heap_in_use() {
        assert_eq!(report().usable_bytes(), 400);
        let mut roomy = report();
        roomy.heaps[0].budget_bytes = None;
        assert_eq!(roomy.usable_bytes(), 800);
        roomy.heaps[0].bytes = 10_000;
        assert_eq!(roomy.usable_bytes(), 1600);
    }
}
