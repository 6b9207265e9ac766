//! Handles that nobody was given, by the names that steps give them.

use vidmm::contract::Direction;
use vidmm::{AllocationId, ContextId, DeviceId, MonitoredFenceId, PagingQueueId, ProcessId};
use vidmm_trace::SplitMix64;

use super::objects::{Allocation, Device, EngineQueue};
use super::session::Session;
use crate::scenario::steps::{DEFAULT_DEVICE, ForgeHandle, HandleKind, See, Undone};

/// Handles with this in their upper half name nothing: no scenario destroys so many objects in one place.
const NEVER_GIVEN: u64 = 1 << 47;

/// Half of the drawn handles point at a place below this, where there may be an object.
const NEAR: u64 = 16;

impl See<Session<'_>> for ForgeHandle {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        let mut random = SplitMix64::stream(session.seed, session.objects.num_forged);
        session.objects.num_forged += 1;
        let mut drawn = || {
            let place = if random.below(2) == 0 { random.below(NEAR) } else { random.below(1 << 32) };
            NEVER_GIVEN | random.below(1 << 15) << 32 | place
        };
        let mut bits = || self.value.map_or_else(&mut drawn, u64::from);
        let name = self.name.clone();
        match self.of {
            HandleKind::Process => drop(session.objects.processes.insert(name, ProcessId::from_bits(bits()))),
            HandleKind::Fence => {
                session.objects.forged_fences.insert(name.clone());
                session.objects.fences.insert(name, MonitoredFenceId::from_bits(bits()));
            }
            HandleKind::Device => {
                let mut engine = || EngineQueue {
                    context: ContextId::from_bits(bits()),
                    fence: MonitoredFenceId::from_bits(bits()),
                    submitted: 0,
                };
                let engines = [engine(), engine()];
                let device = Device {
                    process: ProcessId::from_bits(bits()),
                    device: DeviceId::from_bits(bits()),
                    queue: Some(PagingQueueId::from_bits(bits())),
                    priority: 0,
                    engines,
                    trim_notifications: Vec::new(),
                    second_queue: None,
                    self_scheduled: None,
                };
                session.objects.devices.insert(name, device);
            }
            HandleKind::Allocation => {
                let id = AllocationId::from_bits(bits());
                session.device(DEFAULT_DEVICE)?;
                session.ledger.create(&name, 1);
                let allocation = Allocation {
                    id,
                    device: DEFAULT_DEVICE.to_owned(),
                    openers: Vec::new(),
                    pages: 1,
                    alignment: 0,
                    banks: Vec::new(),
                    bank_direction: Direction::default(),
                    is_one_range: false,
                    surface: None,
                    keeps_copy: false,
                    written_copy: None,
                    lock: None,
                    existing: None,
                };
                session.objects.allocations.insert(name, allocation);
            }
        }
        Ok(())
    }
}
