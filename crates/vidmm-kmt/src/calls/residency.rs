//! The list of a device: MakeResident, Evict, Reclaim, and the rules for trimming.

use vidmm::{EvictError, EvictFlags, MakeResidentError, MakeResidentFlags, MemoryRoom, Residency};
use vidmm_soft::LOCAL_SEGMENT;

use super::{invalid, invalid_unless_lost};
use crate::call::{Memory, Reply};
use crate::faults::FaultKind;
use crate::objects::{Allocation, Device, MadeResident, Object, PagingQueue, Refused};
use crate::rules::Rule;
use crate::session::{Answer, PATIENCE, Session};
use crate::status::Status;

/// A trim is ignored if so many calls later nothing was given back.
const CALLS_TO_TRIM: u64 = 32;

impl Session {
    /// The device has given memory back.
    pub(super) fn gave_back(&mut self, device: u32) {
        if let Ok(Object::Device(device)) = self.handles.get_mut(device) {
            device.has_trimmed |= device.refused.take().is_some();
            device.asked_to_trim = None;
        }
    }

    pub(super) fn make_resident(&mut self, paging_queue: u32, handles: &[u32], flags: u32) -> Answer {
        let &mut PagingQueue { device, id: queue, .. } = self.object(paging_queue)?;
        let ids = self.allocation_ids(device, handles)?;
        let flags = MakeResidentFlags::from_bits(flags).ok_or_else(|| invalid("there are no such flags"))?;
        let is_final = flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER);
        if flags == MakeResidentFlags::MUST_SUCCEED {
            let first = handles.first().copied().unwrap_or(0);
            let text = format!("MustSucceed for {first:#x} is legal only together with CantTrimFurther");
            self.find(Rule::MustSucceedAlone, text, None);
        }
        if is_final {
            self.judge_trimming(device);
        }
        let fault = if is_final { FaultKind::RefuseFinal } else { FaultKind::Refuse };
        let is_refused = !flags.contains(MakeResidentFlags::MUST_SUCCEED) && self.strikes(fault);
        let (num_bytes_to_trim, reason) = if is_refused {
            let sizes = handles.iter().map(|&handle| self.object::<Allocation>(handle).map_or(0, |of| of.size));
            (sizes.sum(), "a fault of the settings".to_owned())
        } else {
            match self.runtime.vidmm().make_resident(queue, &ids, flags) {
                Ok(residency) => return self.made_resident(device, paging_queue, handles, residency),
                Err(MakeResidentError::NoMemory { num_bytes_to_trim, reason, .. }) => {
                    (num_bytes_to_trim, reason.to_string())
                }
                Err(error) => return Err(invalid_unless_lost(error)),
            }
        };
        let idle = self.idle_beside(device, handles)?;
        let value = |&queue: &u32| match self.handles.get(queue) {
            Ok(Object::PagingQueue(of)) => Some((queue, self.values[of.slot])),
            _ => None,
        };
        let reached = self.queues.values().filter_map(value).collect();
        let refused = Refused { call: self.call, num_bytes_to_trim, idle, reached };
        self.object::<Device>(device)?.refused = Some(refused);
        Err(Reply { num_bytes_to_trim, ..Reply::refused(Status::NO_MEMORY, reason) })
    }

    /// The answer of a MakeResident, without the call.
    pub(super) fn query_room(&mut self, device: u32, handles: &[u32]) -> Answer {
        let id = self.object::<Device>(device)?.id;
        let ids = self.allocation_ids(device, handles)?;
        let room = self.runtime.vidmm().query_room(id, &ids).map_err(invalid_unless_lost)?;
        let own = self.process;
        let bytes = |is_local: bool| {
            let of_group = room.memory.iter().filter(move |of| (of.account.segment == LOCAL_SEGMENT) == is_local);
            let others =
                |of: &MemoryRoom| of.holders.iter().filter(|of| of.process != own).map(|of| of.bytes).sum::<u64>();
            of_group.fold([0; 3], |sum: [u64; 3], of| {
                [sum[0] + of.bytes_now, sum[1] + of.bytes_after_trims, sum[2] + others(of)]
            })
        };
        let (num_bytes_to_trim, refused) = match &room.refusal {
            Some(refusal) => (refusal.num_bytes_to_trim, Reply::refused(Status::NO_MEMORY, refusal.reason)),
            None => (0, Reply::default()),
        };
        Ok(Reply { num_bytes_to_trim, values: [bytes(true), bytes(false)].concat(), ..refused })
    }

    /// The manager has accepted a MakeResident.
    fn made_resident(&mut self, device: u32, paging_queue: u32, handles: &[u32], residency: Residency) -> Answer {
        let value = match residency {
            Residency::Resident => 0,
            Residency::Pending { paging_fence_value } => self.paged_at_once(paging_queue, paging_fence_value)?,
        };
        let value = self.issue(paging_queue, "MakeResident", handles, value)?;
        let submitted = self.object::<Device>(device)?.submitted;
        let made = MadeResident { call: self.call, submitted, queue: paging_queue, value };
        for &handle in handles {
            let allocation = self.object::<Allocation>(handle)?;
            if allocation.count == 0 {
                allocation.made_resident = made;
            }
            allocation.count += 1;
        }
        self.clear_taken_back(handles);
        Ok(Reply::paging(value))
    }

    /// The last value of a MakeResident on the manager's fence: 0 if a fault makes the call wait.
    fn paged_at_once(&mut self, paging_queue: u32, value: u64) -> Result<u64, Reply> {
        let is_at_once = self.strikes(FaultKind::AtOnce) && self.await_paging(paging_queue, value)?;
        Ok(if is_at_once { 0 } else { value })
    }

    /// Lets time pass until the manager's fence of a paging queue has a value. Returns whether the fence has.
    pub(super) fn await_paging(&mut self, paging_queue: u32, value: u64) -> Result<bool, Reply> {
        let until = self.now() + PATIENCE;
        while self.object::<PagingQueue>(paging_queue)?.reached < value && self.now() < until {
            self.pass_time();
        }
        Ok(self.object::<PagingQueue>(paging_queue)?.reached >= value)
    }

    /// The allocations of the device's list that could make room for the named ones, if no work of the device is in flight.
    fn idle_beside(&mut self, device: u32, named: &[u32]) -> Result<Vec<u32>, Reply> {
        let submitted = self.object::<Device>(device)?.submitted;
        if self.progress(device)? < submitted {
            return Ok(Vec::new());
        }
        let kinds = |&handle: &u32| match self.handles.get(handle) {
            Ok(Object::Allocation(of)) => Some(of.kinds),
            _ => None,
        };
        let wanted = Vec::from_iter(named.iter().filter_map(kinds));
        let makes_room = |of: &Allocation| {
            let is_either = |kinds: Memory| kinds == Memory::LocalOrSystem;
            of.locks == 0
                && of.offered.is_none()
                && wanted.iter().any(|&kinds| kinds == of.kinds || is_either(kinds) || is_either(of.kinds))
        };
        let idle = self.listed(device).filter(|(handle, of)| makes_room(of) && !named.contains(handle));
        Ok(idle.map(|(handle, _)| handle).collect())
    }

    /// A device claims to have nothing left to trim.
    fn judge_trimming(&mut self, device: u32) {
        let Ok(Object::Device(record)) = self.handles.get_mut(device) else { return };
        // A device with an earlier trim keeps the needs of the next work. Without bytes to trim no trim would have made room.
        let has_trimmed = record.has_trimmed;
        let would_help = |refused: &Refused| !has_trimmed && refused.num_bytes_to_trim > 0 && !refused.idle.is_empty();
        if let Some(Refused { call, num_bytes_to_trim, idle, .. }) = record.refused.take().filter(would_help) {
            let refusal = format!("a refusal with NumBytesToTrim {num_bytes_to_trim}");
            let text = format!("CantTrimFurther, and nothing was given back after {refusal}");
            self.suspect(Rule::NothingTrimmed, text, call, idle);
        }
    }

    pub(super) fn evict(&mut self, device: u32, handles: &[u32], flags: u32) -> Answer {
        let id = self.object::<Device>(device)?.id;
        let ids = self.allocation_ids(device, handles)?;
        let flags = EvictFlags::from_bits(flags).ok_or_else(|| invalid("there are no such flags"))?;
        match self.runtime.vidmm().evict(id, &ids, flags) {
            Ok(num_bytes_to_trim) => {
                let &mut Device { submitted, ref refused, .. } = self.object(device)?;
                let refused = refused.clone();
                for &handle in handles {
                    let made = self.object::<Allocation>(handle)?.made_resident;
                    let is_unused = made.submitted == submitted;
                    self.judge_given_back(handle);
                    if let Some(refused) = refused.as_ref().filter(|of| is_unused && of.is_after_the_end_of(made)) {
                        let text = format!(
                            "{handle:#x} is evicted after call {} was refused, and no work has used it since it was made resident",
                            refused.call
                        );
                        self.suspect(Rule::TakenBack, text, made.call, vec![handle]);
                    }
                    let call = self.call;
                    let allocation = self.object::<Allocation>(handle)?;
                    (allocation.count, allocation.last_submission) = (allocation.count - 1, submitted);
                    allocation.evicted_by = Some(call);
                }
                self.gave_back(device);
                Ok(Reply { num_bytes_to_trim, ..Reply::default() })
            }
            Err(EvictError::NotResident { position }) => {
                let handle = handles[position];
                let text = format!("{handle:#x} is evicted more often than it was made resident");
                let evicted = self.object::<Allocation>(handle)?.evicted_by;
                self.find(Rule::EvictedTooOften, text.clone(), evicted.or(self.handles.added_by(handle)));
                Err(invalid(text))
            }
            Err(error) => Err(invalid_unless_lost(error)),
        }
    }

    pub(super) fn reclaim(&mut self, paging_queue: u32, handles: &[u32]) -> Answer {
        let &mut PagingQueue { device, id: queue, .. } = self.object(paging_queue)?;
        let ids = self.allocation_ids(device, handles)?;
        let (vidmm, _, host) = self.runtime.borrow();
        let reclaimed = vidmm.reclaim_allocations(host, queue, &ids).map_err(invalid_unless_lost)?;
        self.note_offered(handles, false)?;
        let value = self.issue(paging_queue, "ReclaimAllocations2", handles, reclaimed.paging_fence_value)?;
        let mut reply = Reply::paging(value);
        reply.values.extend(reclaimed.results.into_iter().map(|result| result as u64));
        Ok(reply)
    }

    /// Allocations are offered, or not any more.
    pub(super) fn note_offered(&mut self, handles: &[u32], are_offered: bool) -> Result<(), Reply> {
        let call = self.call;
        for &handle in handles {
            self.object::<Allocation>(handle)?.offered = are_offered.then_some(call);
            if are_offered {
                self.judge_given_back(handle);
            }
        }
        Ok(())
    }

    /// A notification to trim must have an effect (RES-40).
    pub(super) fn judge_trim(&mut self, device: u32) {
        let now = self.call;
        let Ok(Object::Device(record)) = self.handles.get_mut(device) else { return };
        if let Some(asked) = record.asked_to_trim.filter(|asked| now > asked.call + CALLS_TO_TRIM) {
            record.asked_to_trim = None;
            let bytes = asked.num_bytes_to_trim;
            let text = format!("{device:#x} was asked to trim {bytes} bytes, and has given nothing back");
            self.find(Rule::TrimIgnored, text, Some(asked.call));
        }
    }
}
