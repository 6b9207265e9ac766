//! Making calls: residency lists, offers, and where allocations may be.

use vidmm::contract::{SegmentPreference, SegmentSet};
use vidmm::{
    EvictFlags, MakeResidentError, MakeResidentFlags, OfferFlags, OfferPriority, Reclaimed, Residency,
    UpdateAllocationProperty,
};
use vidmm_runtime::AllocationSegments;

use super::answered::{Absent, Answered};
use super::session::Session;
use crate::exact::exact;
use crate::scenario::steps::{
    Evict, EvictFlag, MakeResident, MakeResidentFlag, Offer, OfferFlag, OfferPriority as Priority, Reclaim,
    ReclaimResult, SetPriority, UpdateProperty,
};

impl Session<'_> {
    pub fn make_resident(&mut self, step: &MakeResident) -> Result<Answered, Absent> {
        let allocations = self.objects.ids(&step.allocations)?;
        let Some(device) = self.objects.device_of(step.device.as_deref(), &step.allocations)? else {
            return Ok(Answered::empty());
        };
        let (Some(queue), device) = (device.queue, device.device) else { return Ok(Answered::no_paging_queue()) };
        let flags = step.flags.iter().map(|flag| match flag {
            MakeResidentFlag::CantTrimFurther => MakeResidentFlags::CANT_TRIM_FURTHER,
            MakeResidentFlag::MustSucceed => MakeResidentFlags::MUST_SUCCEED,
        });
        let answer = self.runtime.vidmm().make_resident(queue, &allocations, flags.collect());
        let trim = match &answer {
            Err(MakeResidentError::NoMemory { num_bytes_to_trim, .. }) => *num_bytes_to_trim,
            _ => 0,
        };
        self.judge_trim(step.num_bytes_to_trim.map(|size| size.bytes()), trim);
        Ok(match answer {
            Ok(Residency::Resident) => Answered::ok(),
            Ok(Residency::Pending { paging_fence_value }) => Answered::pending(paging_fence_value),
            Err(MakeResidentError::NoMemory { num_bytes_to_trim, reason }) => {
                if step.flags.contains(&MakeResidentFlag::MustSucceed) {
                    self.failed.insert(device);
                }
                let error = MakeResidentError::NoMemory { num_bytes_to_trim, reason };
                let mut refused = Answered::refused(&error);
                refused.detail = format!("{reason}; trim {}", exact(num_bytes_to_trim));
                refused
            }
            Err(error) => Answered::refused(&error),
        })
    }

    pub fn evict(&mut self, step: &Evict) -> Result<Answered, Absent> {
        let allocations = self.objects.ids(&step.allocations)?;
        let Some(device) = self.objects.device_of(step.device.as_deref(), &step.allocations)? else {
            return Ok(Answered::empty());
        };
        let device = device.device;
        let flags = step.flags.iter().map(|flag| match flag {
            EvictFlag::OnlyIfNecessary => EvictFlags::EVICT_ONLY_IF_NECESSARY,
            EvictFlag::NotWrittenTo => EvictFlags::NOT_WRITTEN_TO,
        });
        let evicted = self.runtime.vidmm().evict(device, &allocations, flags.collect());
        let trim = *evicted.as_ref().unwrap_or(&0);
        self.judge_trim(step.num_bytes_to_trim.map(|size| size.bytes()), trim);
        let more = if trim > 0 { format!("trim {}", exact(trim)) } else { String::new() };
        Ok(Answered::of(evicted).and(&more))
    }

    /// Compares what an answer asks to trim with what it must.
    fn judge_trim(&mut self, expected: Option<u64>, found: u64) {
        if let Some(expected) = expected.filter(|&expected| expected != found) {
            let [expected, found] = [expected, found].map(exact);
            self.found(format!("the answer asks to trim {found}, but {expected} was expected"));
        }
    }

    pub fn offer(&mut self, step: &Offer) -> Result<Answered, Absent> {
        let allocations = self.objects.ids(&step.allocations)?;
        let Some(device) = self.objects.device_of(None, &step.allocations)? else { return Ok(Answered::empty()) };
        let device = device.device;
        let priority = match step.priority {
            Priority::Low => OfferPriority::Low,
            Priority::Normal => OfferPriority::Normal,
            Priority::High => OfferPriority::High,
            Priority::Auto => OfferPriority::Auto,
        };
        let flags = step.flags.iter().map(|flag| match flag {
            OfferFlag::Immediately => OfferFlags::OFFER_IMMEDIATELY,
            OfferFlag::AllowDecommit => OfferFlags::ALLOW_DECOMMIT,
        });
        Ok(Answered::of(self.runtime.vidmm().offer_allocations(device, &allocations, priority, flags.collect())))
    }

    /// Takes offered allocations back. What was discarded must read as zero from now on (U-36).
    pub fn reclaim(&mut self, step: &Reclaim) -> Result<Answered, Absent> {
        let allocations = self.objects.ids(&step.allocations)?;
        let Some(device) = self.objects.device_of(None, &step.allocations)? else { return Ok(Answered::empty()) };
        let Some(queue) = device.queue else { return Ok(Answered::no_paging_queue()) };
        let (vidmm, _, host) = self.runtime.borrow();
        let Reclaimed { results, paging_fence_value } = match vidmm.reclaim_allocations(host, queue, &allocations) {
            Ok(reclaimed) => reclaimed,
            Err(error) => return Ok(Answered::refused(&error)),
        };
        let mut in_words = Vec::new();
        for (number, (name, result)) in step.allocations.iter().zip(&results).enumerate() {
            let result = match result {
                vidmm::ReclaimResult::Ok => ReclaimResult::Ok,
                vidmm::ReclaimResult::Discarded => ReclaimResult::Discarded,
                vidmm::ReclaimResult::NotCommitted => ReclaimResult::NotCommitted,
            };
            if result != ReclaimResult::Ok {
                self.content_lost(name);
                self.content_discarded(name);
            }
            let expected = step.results.get(number).or(step.results.first().filter(|_| step.results.len() == 1));
            if let Some(expected) = expected.filter(|&&expected| expected != result) {
                self.found(format!("{name} is {result}, but `{expected}` was expected"));
            }
            in_words.push(format!("{name}: {result}"));
        }
        Ok(Answered::pending(paging_fence_value).and(&in_words.join(", ")))
    }

    /// What an allocation held is gone: its bytes are zero (U-36).
    pub(super) fn content_lost(&mut self, name: &str) {
        let known = self.objects.allocations.get(name);
        // The caller's own memory is not reset: it holds what was copied there last. And what the driver's marks of compressed pages
        // make of zeros is undefined (RES-66): nobody tells it of the loss.
        match known.is_some_and(|known| known.existing.is_some() || known.surface.is_some()) {
            true => self.ledger.forget(name),
            false => self.ledger.discard(name),
        }
    }

    pub fn set_priority(&mut self, step: &SetPriority) -> Result<Answered, Absent> {
        for allocation in self.objects.ids(&step.allocations)? {
            let set = self.runtime.vidmm().set_allocation_priority(allocation, step.priority.value());
            if let Err(error) = set {
                return Ok(Answered::refused(&error));
            }
        }
        Ok(Answered::ok())
    }

    pub fn update_property(&mut self, step: &UpdateProperty) -> Result<Answered, Absent> {
        let Some(device) = self.objects.device_of(None, &step.allocations)? else { return Ok(Answered::empty()) };
        let Some(queue) = device.queue else { return Ok(Answered::no_paging_queue()) };
        let names = &self.narrator.names;
        let (local, system) = (names.memory, names.aperture);
        let segments = |choice| match choice {
            AllocationSegments::Local => vec![local.or(system)],
            AllocationSegments::System => vec![system],
            AllocationSegments::LocalOrSystem => vec![local, system],
        };
        let segments: Option<Vec<_>> = step.segments.map(|choice| segments(choice).into_iter().flatten().collect());
        let update = UpdateAllocationProperty {
            supported_segment_set: segments
                .as_ref()
                .map(|segments| SegmentSet(segments.iter().map(|&segment| SegmentSet::of(segment).0).sum())),
            preferred_segment: segments.as_ref().map(|segments| {
                let mut preferred = SegmentPreference::default();
                preferred.segment_ids[..segments.len()].copy_from_slice(segments);
                preferred
            }),
        };
        let mut answered = Answered::ok();
        for allocation in self.objects.ids(&step.allocations)? {
            let (vidmm, kmd, _) = self.runtime.borrow();
            match vidmm.update_allocation_property(kmd, queue, allocation, &update) {
                Ok(paging_fence_value) => answered = Answered::pending(paging_fence_value),
                Err(error) => return Ok(Answered::refused(&error)),
            }
        }
        Ok(answered)
    }
}
