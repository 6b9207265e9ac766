//! Notices to the driver of an allocation: that it leaves, that it is unmapped from the IOMMU, and where it is.

use vidmm::contract::{BuildStatus, NotifyAlloc, NotifyAllocFlags, NotifyResidency, PagingOperation};
use vidmm::{Event, PlanNo};

use super::subject::Subject;
use super::tale::Tale;
use super::world::World;
use crate::ByteSize;

impl Subject {
    /// Tells the notifications about it, each when the driver has encoded it.
    pub fn of_notifications(&self, event: &Event, world: &World, tale: &mut Tale) {
        let &Event::PagingOperation { plan, operation, status: BuildStatus::Success, .. } = event else { return };
        match operation {
            PagingOperation::NotifyAlloc(notice) if notice.allocation == self.handle => {
                self.of_notice(plan, notice, tale);
            }
            PagingOperation::NotifyResidency(NotifyResidency { allocation, physical_address, resident })
                if allocation == self.handle =>
            {
                let said = match resident {
                    true => format!("that it is in {}", world.segments.name(physical_address.segment)),
                    false => "that it leaves its memory segment".to_owned(),
                };
                tale.tell(format!("The driver was told {said} (plan {plan})."));
            }
            _ => {}
        }
    }

    fn of_notice(&self, plan: PlanNo, notice: NotifyAlloc, tale: &mut Tale) {
        let NotifyAlloc { flags, offset_in_bytes, size_in_bytes, gpu_virtual_address_at_offset: address, .. } = notice;
        let what = if flags.contains(NotifyAllocFlags::EVICTION) {
            "that it is to be evicted"
        } else {
            "that it is to be unmapped from the IOMMU"
        };
        let part = match size_in_bytes < self.size {
            true => format!(", of {} from {} on", ByteSize(size_in_bytes), ByteSize(offset_in_bytes)),
            false => String::new(),
        };
        tale.tell(format!("The driver was told {what}{part} (at {address}, plan {plan})."));
    }
}
