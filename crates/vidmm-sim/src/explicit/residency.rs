//! Making calls: residency lists, offers, and where allocations may be.

use vidmm::contract::{SegmentPreference, SegmentSet};
use vidmm::{
    EvictFlags, MakeResidentError, MakeResidentFlags, MemoryRoom, NoMemoryReason, OfferFlags, OfferPriority,
    ReclaimError, Reclaimed, Residency, Room, RoomRefusal, Shortage, UpdateAllocationProperty,
};
use vidmm_runtime::{AllocationSegments, MemoryKind};
use vidmm_trace::ByteSize;

use super::session::Session;
use crate::exact::exact;
use crate::scenario::steps::{
    Announce, Answer, Answered, Evict, EvictFlag, Group, Make, MakeResident, MakeResidentFlag, Offer, OfferFlag,
    OfferPriority as Priority, QueryRoom, Reclaim, ReclaimResult, See, SetPriority, Undone, UpdateProperty,
};

impl Session<'_> {
    /// Compares bytes with those that a step expects; `said` says of what the bytes are.
    pub(super) fn judge_bytes(&mut self, expected: Option<ByteSize>, found: u64, said: impl FnOnce(&str) -> String) {
        if let Some(expected) = expected.filter(|expected| expected.bytes() != found) {
            let [expected, found] = [expected.bytes(), found].map(exact);
            self.found(format!("{}, but {expected} was expected", said(&found)));
        }
    }

    /// A refusal for want of memory in words: its reason, and the memory that it asks to trim.
    fn no_memory(&self, reason: NoMemoryReason, shortages: &[Shortage]) -> Undone {
        let names = &self.narrator.names.segments;
        let trims = shortages.iter().map(|shortage| {
            let why = if shortage.reason == reason { String::new() } else { format!(" ({})", shortage.reason) };
            format!("{} of {}{why}", exact(shortage.num_bytes_to_trim), names.name(shortage.account.segment))
        });
        let trims = trims.collect::<Vec<_>>().join(", ");
        let remedy = if trims.is_empty() { "nothing to trim".to_owned() } else { format!("trim {trims}") };
        Undone::refused(Answer::NoMemory, format!("{reason}; {remedy}"))
    }

    /// The bytes of an allocation in system memory are kept: those of compressed pages mean nothing to anybody, and the ledger does
    /// not know how old a copy is.
    pub(super) fn content_left(&mut self, name: &str) {
        if self.objects.allocations.get(name).is_some_and(|known| known.surface.is_some() || known.keeps_copy) {
            self.ledger.forget(name);
        }
    }

    /// The content of an allocation is gone: its bytes are zero (U-36).
    pub(super) fn content_lost(&mut self, name: &str) {
        let known = self.objects.allocations.get(name);
        // The caller's own memory is not reset: it holds what was copied there last. And what the driver's marks of
        // compressed pages make of zeros is undefined (RES-66): nobody tells it of the loss.
        match known.is_some_and(|known| known.existing.is_some() || known.surface.is_some()) {
            true => self.ledger.forget(name),
            false => self.ledger.discard(name),
        }
    }
}

impl Make<Session<'_>> for MakeResident {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let allocations = session.objects.ids(&self.allocations)?;
        let device = session.objects.device_of(self.device.as_deref(), &self.allocations)?;
        let (queue, device) = (device.queue_at(session.num_machine_steps)?, device.device);
        let flags = self.flags.iter().map(|flag| match flag {
            MakeResidentFlag::CantTrimFurther => MakeResidentFlags::CANT_TRIM_FURTHER,
            MakeResidentFlag::MustSucceed => MakeResidentFlags::MUST_SUCCEED,
        });
        // The question names no queue: a dead queue is the call's own mistake.
        let is_asked = self.flags.is_empty() && session.runtime.vidmm().paging_fence_value(queue).is_ok();
        let room = is_asked.then(|| session.runtime.vidmm().query_room(device, &allocations));
        let answer = session.runtime.vidmm().make_resident(queue, &allocations, flags.collect());
        if let Some(room) = room.filter(|room| !is_foretold(room, &answer)) {
            session.broke("D30", format!("the room was said to be {room:?}, and the answer is {answer:?}"));
        }
        let (trim, shortages) = match &answer {
            Err(MakeResidentError::NoMemory { num_bytes_to_trim, shortages, .. }) => {
                (*num_bytes_to_trim, &shortages[..])
            }
            _ => (0, &[][..]),
        };
        session.judge_bytes(self.num_bytes_to_trim, trim, |found| format!("the answer asks to trim {found}"));
        for (expected, group) in [(self.trim_local, Group::Local), (self.trim_non_local, Group::NonLocal)] {
            let of_group = shortages.iter().filter(|shortage| shortage.account.group == Some(group.into()));
            let trim = of_group.map(|shortage| shortage.num_bytes_to_trim).fold(0, u64::saturating_add);
            session
                .judge_bytes(expected, trim, |found| format!("the answer asks to trim {found} of the {group} group"));
        }
        let paging_fence_value = match answer {
            Ok(Residency::Resident) => 0,
            Ok(Residency::Pending { paging_fence_value }) => paging_fence_value,
            Err(MakeResidentError::NoMemory { reason, shortages, .. }) => {
                if self.flags.contains(&MakeResidentFlag::MustSucceed) {
                    session.failed.insert(device);
                }
                return Err(session.no_memory(reason, &shortages));
            }
            Err(error) => return Err(error.into()),
        };
        session.book_list(device, &self.allocations, true);
        Ok(Answered::pending(paging_fence_value))
    }
}

/// Whether the answer to the question for room is the answer of the call that follows.
fn is_foretold(room: &Result<Room, MakeResidentError>, answer: &Result<Residency, MakeResidentError>) -> bool {
    match (room, answer) {
        (Ok(room), Ok(_)) => room.refusal.is_none(),
        (Ok(room), Err(MakeResidentError::NoMemory { num_bytes_to_trim, reason, shortages })) => {
            let answered = |refusal: &RoomRefusal| {
                refusal.num_bytes_to_trim == *num_bytes_to_trim
                    && refusal.reason == *reason
                    && refusal.shortages == *shortages
            };
            room.refusal.as_ref().is_some_and(answered)
        }
        // The step may name the queue of one device and the handle of another.
        (Err(MakeResidentError::InvalidHandle(_)), _) => true,
        (room, answer) => room.as_ref().err() == answer.as_ref().err(),
    }
}

/// Asks whether allocations would fit, and compares the answer with what is expected.
impl See<Session<'_>> for QueryRoom {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        let allocations = session.objects.ids(&self.allocations)?;
        let device = session.objects.device_of(self.device.as_deref(), &self.allocations)?.device;
        let Room { refusal, memory } = session.runtime.vidmm().query_room(device, &allocations)?;
        let names = &session.narrator.names;
        let mut text = match &refusal {
            None => "all fits now".to_owned(),
            Some(refusal) => {
                let trims = refusal.shortages.iter().map(|shortage| {
                    let segment = names.segments.name(shortage.account.segment);
                    format!("{} of {segment}", exact(shortage.num_bytes_to_trim))
                });
                let trims = Vec::from_iter(trims).join(", ");
                let remedy = if trims.is_empty() { "no trim is enough".to_owned() } else { format!("trim {trims}") };
                format!("no room now ({}): {remedy}", refusal.reason)
            }
        };
        for MemoryRoom { account, bytes_now, bytes_after_trims, holders } in &memory {
            let [now, later] = [*bytes_now, *bytes_after_trims].map(exact);
            text += &format!("; {} has room for {now}, after trims for {later}", names.segments.name(account.segment));
            let held = holders.iter().map(|holder| {
                format!("{} holds {} beyond its reservation", names.process(holder.process), exact(holder.bytes))
            });
            text.extend(held.map(|held| format!(", {held}")));
        }
        session.narrator.checked(text);
        if self.fits.is_some_and(|fits| fits != refusal.is_none()) {
            let said = if refusal.is_none() { "it fits" } else { "it does not fit" };
            session.found(format!("{said}, but the other answer was expected"));
        }
        let trim = refusal.map_or(0, |refusal| refusal.num_bytes_to_trim);
        session.judge_bytes(self.num_bytes_to_trim, trim, |found| format!("the answer asks to trim {found}"));
        Ok(())
    }
}

impl Make<Session<'_>> for Announce {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let allocations = session.objects.ids(&self.allocations)?;
        let device = session.objects.device_of(self.device.as_deref(), &self.allocations)?.device;
        session.runtime.vidmm().announce(device, &allocations)?;
        Ok(Answered::ok())
    }
}

impl Make<Session<'_>> for Evict {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let allocations = session.objects.ids(&self.allocations)?;
        let device = session.objects.device_of(self.device.as_deref(), &self.allocations)?.device;
        let flags = self.flags.iter().map(|flag| match flag {
            EvictFlag::OnlyIfNecessary => EvictFlags::EVICT_ONLY_IF_NECESSARY,
            EvictFlag::NotWrittenTo => EvictFlags::NOT_WRITTEN_TO,
        });
        let evicted = session.runtime.vidmm().evict(device, &allocations, flags.collect());
        let asked = *evicted.as_ref().unwrap_or(&0);
        session.judge_bytes(self.num_bytes_to_trim, asked, |found| format!("the answer asks to trim {found}"));
        let trim = evicted?;
        session.book_list(device, &self.allocations, false);
        let more = if trim > 0 { format!("trim {}", exact(trim)) } else { String::new() };
        Ok(Answered::ok().and(&more))
    }
}

impl Make<Session<'_>> for Offer {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let allocations = session.objects.ids(&self.allocations)?;
        let device = session.objects.device_of(None, &self.allocations)?.device;
        let priority = match self.priority {
            Priority::Low => OfferPriority::Low,
            Priority::Normal => OfferPriority::Normal,
            Priority::High => OfferPriority::High,
            Priority::Auto => OfferPriority::Auto,
        };
        let flags = self.flags.iter().map(|flag| match flag {
            OfferFlag::Immediately => OfferFlags::OFFER_IMMEDIATELY,
            OfferFlag::AllowDecommit => OfferFlags::ALLOW_DECOMMIT,
        });
        Answered::of(session.runtime.vidmm().offer_allocations(device, &allocations, priority, flags.collect()))
    }
}

/// Takes offered allocations back. Discarded allocations must read as zero from now on (U-36).
impl Make<Session<'_>> for Reclaim {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let allocations = session.objects.ids(&self.allocations)?;
        let device = session.objects.device_of(None, &self.allocations)?;
        let queue = device.queue_at(session.num_machine_steps)?;
        let (vidmm, _, host) = session.runtime.borrow();
        let reclaimed = vidmm.reclaim_allocations(host, queue, &allocations);
        let trim = match &reclaimed {
            Err(ReclaimError::NoMemory { num_bytes_to_trim, .. }) => *num_bytes_to_trim,
            _ => 0,
        };
        session.judge_bytes(self.num_bytes_to_trim, trim, |found| format!("the answer asks to trim {found}"));
        let Reclaimed { results, paging_fence_value } = match reclaimed {
            Err(ReclaimError::NoMemory { shortages, .. }) => {
                let reason = shortages.first().map_or(NoMemoryReason::DoesNotFit, |shortage| shortage.reason);
                return Err(session.no_memory(reason, &shortages));
            }
            reclaimed => reclaimed?,
        };
        let mut in_words = Vec::new();
        for (number, (name, result)) in self.allocations.iter().zip(&results).enumerate() {
            let result = match result {
                vidmm::ReclaimResult::Ok => ReclaimResult::Ok,
                vidmm::ReclaimResult::Discarded => ReclaimResult::Discarded,
                vidmm::ReclaimResult::NotCommitted => ReclaimResult::NotCommitted,
            };
            if result != ReclaimResult::Ok {
                session.content_lost(name);
                session.content_discarded(name);
            }
            let expected = self.results.get(number).or(self.results.first().filter(|_| self.results.len() == 1));
            if let Some(expected) = expected.filter(|&&expected| expected != result) {
                session.found(format!("{name} is {result}, but `{expected}` was expected"));
            }
            in_words.push(format!("{name}: {result}"));
        }
        Ok(Answered::pending(paging_fence_value).and(&in_words.join(", ")))
    }
}

impl Make<Session<'_>> for SetPriority {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        for allocation in session.objects.ids(&self.allocations)? {
            session.runtime.vidmm().set_allocation_priority(allocation, self.priority.value())?;
        }
        Ok(Answered::ok())
    }
}

impl Make<Session<'_>> for UpdateProperty {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let device = session.objects.device_of(None, &self.allocations)?;
        let queue = device.queue_at(session.num_machine_steps)?;
        let names = &session.narrator.names;
        let memory = |number: u8| {
            let at = usize::from(number).checked_sub(1)?;
            names.segments.memory().get(at).map(|memory| memory.segment)
        };
        let (local, system) = (memory(1), names.segments.apertures().next());
        let segments = |choice| match choice {
            AllocationSegments::Local => vec![local.or(system)],
            AllocationSegments::System => vec![system],
            AllocationSegments::LocalOrSystem => vec![local, system],
            AllocationSegments::Ordered(order) => order
                .kinds()
                .map(|kind| match kind {
                    MemoryKind::Memory(number) => memory(number),
                    MemoryKind::System => system,
                    MemoryKind::Aperture(number) => names.segments.apertures().nth(usize::from(number) - 1),
                })
                .collect(),
        };
        let segments: Option<Vec<_>> = self.segments.map(|choice| segments(choice).into_iter().flatten().collect());
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
        for allocation in session.objects.ids(&self.allocations)? {
            let (vidmm, kmd, _) = session.runtime.borrow();
            answered = Answered::pending(vidmm.update_allocation_property(kmd, queue, allocation, &update)?);
        }
        Ok(answered)
    }
}
