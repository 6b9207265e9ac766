//! The user-mode half: the driver's private data, and kernels of ours.

use std::rc::Rc;
use std::sync::Arc;

use vidmm::contract::{AllocationFlags, Kmd};
use vidmm_runtime::{AllocationDesc, AllocationSegments, CommandStep, CpuAccess, KernelCommand, Umd, UserCommands};
use vidmm_soft::CommandBuffer;

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL, Wanted};
use crate::kmd::DdiKmd;
use crate::loaded::Loaded;
use crate::progress::Entry;
use crate::reports::report;
use crate::standard::{PRIVATE_DATA_BYTES, StandardAllocations};
use crate::user_work::{self, UserCommandsInC};

/// The user-mode half of a driver in C.
pub(crate) struct DdiUmd {
    adapter: Rc<Adapter>,
    source: DataSource,
    standard: StandardAllocations,
}

impl DdiUmd {
    pub fn new(adapter: Rc<Adapter>, source: DataSource) -> Self {
        Self { adapter, source, standard: StandardAllocations::default() }
    }
}

/// The source of the private data of allocations.
#[derive(Clone)]
pub(crate) enum DataSource {
    /// It was recorded.
    Recorded(Arc<[Recorded]>),
    /// The driver's function for tests writes it.
    TestFunction(GetAllocationPrivateData),
    /// The driver describes standard allocations.
    Standard,
}

impl DataSource {
    /// Recorded data comes first, then the driver's function for tests, and then standard allocations. None if the driver
    /// describes none.
    pub fn of(driver: &Loaded, recorded: Arc<[Recorded]>) -> Option<Self> {
        let function = driver.test().and_then(|test| test.GetAllocationPrivateData);
        match function {
            _ if !recorded.is_empty() => Some(Self::Recorded(recorded)),
            Some(function) => Some(Self::TestFunction(function)),
            None => driver.ddi.DxgkDdiGetStandardAllocationDriverData.map(|_| Self::Standard),
        }
    }

    /// Whether the driver is told which segments a program asks for.
    pub fn names_segments(&self) -> bool {
        matches!(self, Self::TestFunction(_))
    }

    /// Whether allocations are created from what was recorded.
    pub fn is_recorded(&self) -> bool {
        matches!(self, Self::Recorded(_))
    }

    /// The bytes of the largest allocation that can be asked for; none if there is no limit.
    pub fn largest_allocation(&self) -> Option<u64> {
        match self {
            Self::Recorded(recorded) => recorded.iter().map(|recorded| recorded.size).max(),
            Self::TestFunction(_) | Self::Standard => None,
        }
    }
}

/// Private data that the driver's own user-mode half has written.
pub(crate) struct Recorded {
    data: Vec<u8>,
    /// Bytes of the allocation that the driver creates from it.
    size: u64,
}

impl Recorded {
    /// Asks the driver how large the allocation is.
    ///
    /// # Errors
    ///
    /// If the driver does not create it.
    pub fn new(kmd: &mut DdiKmd, data: Vec<u8>) -> Result<Self, String> {
        let created = kmd.create_allocation(&data);
        let info =
            created.map_err(|error| format!("the driver creates nothing from recorded private data: {error}"))?;
        kmd.destroy_allocation(info.allocation);
        Ok(Self { data, size: info.size })
    }
}

impl Umd for DdiUmd {
    fn encode_kernel(&self, kernel: &KernelCommand) -> Vec<u8> {
        let commands = user_work::encode(kernel);
        user_work::expect(&self.adapter, &commands);
        commands
    }

    fn encode_command_buffer(&self, steps: &[CommandStep]) -> UserCommands {
        let commands = steps.iter().fold(CommandBuffer::with_encoding(UserCommandsInC), CommandBuffer::step).finish();
        user_work::expect(&self.adapter, &commands.commands);
        commands
    }

    fn allocation_private_data(&self, desc: &AllocationDesc) -> Vec<u8> {
        let alone = |data| (data, Wanted { size: desc.size, ..Wanted::default() });
        let described = match &self.source {
            DataSource::Recorded(recorded) => {
                let large_enough = recorded.iter().filter(|recorded| recorded.size >= desc.size);
                large_enough.min_by_key(|recorded| recorded.size).map(|recorded| alone(recorded.data.clone()))
            }
            DataSource::TestFunction(function) => {
                let (mut data, mut resource) = self.asked_of_test_function(*function, desc);
                if data.is_empty() {
                    // The driver chooses the segments of such allocations.
                    let anywhere = AllocationDesc { segments: AllocationSegments::LocalOrSystem, ..*desc };
                    (data, resource) = self.asked_of_test_function(*function, &anywhere);
                }
                let flags = match desc.cpu {
                    CpuAccess::None => AllocationFlags::empty(),
                    CpuAccess::Visible => AllocationFlags::CPU_VISIBLE,
                    CpuAccess::PermanentSysMem => AllocationFlags::CPU_VISIBLE | AllocationFlags::PERMANENT_SYS_MEM,
                    CpuAccess::ExistingSysMem => AllocationFlags::CPU_VISIBLE | AllocationFlags::EXISTING_SYS_MEM,
                };
                Some((data, Wanted { size: desc.size, resource, surface: surface(desc), flags, pixels: None }))
            }
            DataSource::Standard => self.standard.describe(&self.adapter, desc.size, desc.cpu != CpuAccess::None),
        };
        let Some((data, wanted)) = described else { return Vec::new() };
        self.adapter.wanted.borrow_mut().insert(data.clone(), wanted);
        data
    }
}

/// The surface of an allocation as the driver numbers it: from 1, since 0 is none.
fn surface(desc: &AllocationDesc) -> u32 {
    desc.surface.map_or(0, |number| number + 1)
}

impl DdiUmd {
    /// The private data of an allocation's resource; empty without a resource.
    fn resource_of(&self, wanted: &VIDMM_ALLOCATION) -> Vec<u8> {
        let Some(function) = self.adapter.driver().test().and_then(|test| test.GetResourcePrivateData) else {
            return Vec::new();
        };
        self.asked(function, wanted)
    }

    /// Whether the driver has such allocations in the very segments.
    pub fn has(&self, desc: &AllocationDesc) -> bool {
        match &self.source {
            DataSource::TestFunction(function) => !self.asked_of_test_function(*function, desc).0.is_empty(),
            DataSource::Recorded(_) | DataSource::Standard => true,
        }
    }

    fn asked(&self, function: GetAllocationPrivateData, wanted: &VIDMM_ALLOCATION) -> Vec<u8> {
        let mut data = vec![0; PRIVATE_DATA_BYTES as usize];
        // SAFETY: the struct and the buffer live for the call.
        let size = self.adapter.call(Entry::GetAllocationPrivateData, PASSIVE_LEVEL, || unsafe {
            function(wanted, data.as_mut_ptr(), PRIVATE_DATA_BYTES)
        });
        if size > PRIVATE_DATA_BYTES {
            report("DDI-PRIVATE-DATA", format!("GetAllocationPrivateData has returned {size}: there is room for 4096"));
        }
        data.truncate(size.min(PRIVATE_DATA_BYTES) as usize);
        data
    }

    /// The private data of an allocation, and of the resource.
    fn asked_of_test_function(&self, function: GetAllocationPrivateData, desc: &AllocationDesc) -> (Vec<u8>, Vec<u8>) {
        let (local, system) = match desc.segments {
            AllocationSegments::Local => (true, false),
            AllocationSegments::System => (false, true),
            AllocationSegments::LocalOrSystem | AllocationSegments::Ordered(_) => (true, true),
        };
        let (is_visible, is_permanent, is_existing) = match desc.cpu {
            CpuAccess::None => (false, false, false),
            CpuAccess::Visible => (true, false, false),
            CpuAccess::PermanentSysMem => (true, true, false),
            CpuAccess::ExistingSysMem => (true, false, true),
        };
        let wanted = VIDMM_ALLOCATION {
            Size: desc.size,
            MayBeLocal: local.into(),
            MayBeSystem: system.into(),
            CpuVisible: is_visible.into(),
            PermanentSysMem: is_permanent.into(),
            ExistingSysMem: is_existing.into(),
            NotifyEviction: desc.notify_eviction.into(),
            Priority: desc.priority,
            Surface: surface(desc),
        };
        (self.asked(function, &wanted), self.resource_of(&wanted))
    }
}
