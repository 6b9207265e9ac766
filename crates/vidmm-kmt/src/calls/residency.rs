//! The list of a device: MakeResident, Evict, Reclaim, and the rules for trimming.

use vidmm::{EvictError, EvictFlags, MakeResidentError, MakeResidentFlags, Residency};

use super::invalid;
use crate::call::Reply;
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
            (device.refused, device.asked_to_trim) = (None, None);
        }
    }

    /// A call on a paging queue ends with a value of the queue's fence; 0 is none. `of_manager` is the value of the manager's own.
    pub(super) fn owe(&mut self, paging_queue: u32, function: &'static str, of_manager: u64) -> Result<u64, Reply> {
        let value = self.issue(paging_queue, of_manager)?;
        if value > 0 {
            let call = self.call;
            self.object::<PagingQueue>(paging_queue)?.owed.insert(function, (value, call));
        }
        Ok(value)
    }

    pub(super) fn make_resident(&mut self, paging_queue: u32, handles: &[u32], flags: u32) -> Answer {
        let &mut PagingQueue { device, id: queue, .. } = self.object(paging_queue)?;
        let ids = self.allocation_ids(handles)?;
        let flags = MakeResidentFlags::from_bits(flags).ok_or_else(|| invalid("there are no such flags"))?;
        let is_final = flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER);
        if flags == MakeResidentFlags::MUST_SUCCEED {
            self.find(Rule::MustSucceedAlone, "MustSucceed is legal only together with CantTrimFurther", None);
        }
        if is_final {
            self.judge_trimming(device);
        }
        let fault = if is_final { FaultKind::RefuseFinal } else { FaultKind::Refuse };
        let is_refused = !flags.contains(MakeResidentFlags::MUST_SUCCEED) && self.strikes(fault);
        let made = if is_refused {
            let sizes = handles.iter().map(|&handle| self.object::<Allocation>(handle).map_or(0, |of| of.size));
            Err((sizes.sum(), "a fault of the settings".to_owned()))
        } else {
            self.runtime.vidmm().make_resident(queue, &ids, flags).map_err(|error| match error {
                MakeResidentError::NoMemory { num_bytes_to_trim, .. } => (num_bytes_to_trim, error.to_string()),
                _ => (u64::MAX, error.to_string()),
            })
        };
        match made {
            Ok(residency) => {
                let value = match residency {
                    Residency::Resident => 0,
                    Residency::Pending { paging_fence_value } => {
                        self.paged_at_once(paging_queue, paging_fence_value)?
                    }
                };
                let value = self.owe(paging_queue, "MakeResident", value)?;
                let submitted = self.object::<Device>(device)?.submitted;
                let made = MadeResident { call: self.call, submitted, queue: paging_queue, value };
                for &handle in handles {
                    let allocation = self.object::<Allocation>(handle)?;
                    if allocation.count == 0 {
                        allocation.made_resident = made;
                    }
                    allocation.count += 1;
                }
                Ok(Reply::paging(value))
            }
            Err((u64::MAX, reason)) => Err(invalid(reason)),
            Err((num_bytes_to_trim, reason)) => {
                let idle_bytes = self.idle_bytes(device, handles)?;
                let value = |&queue: &u32| match self.handles.get(queue) {
                    Ok(Object::PagingQueue(of)) => Some((queue, self.values[of.slot])),
                    _ => None,
                };
                let reached = self.queues.values().filter_map(value).collect();
                let refused = Refused { call: self.call, num_bytes_to_trim, idle_bytes, reached };
                self.object::<Device>(device)?.refused = Some(refused);
                Err(Reply { num_bytes_to_trim, ..Reply::refused(Status::NO_MEMORY, reason) })
            }
        }
    }

    /// The value of the manager's fence that a MakeResident ends with: 0 if a fault lets the call last so long.
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

    /// The bytes of the device's list beside the named allocations, if no work of the device is in flight.
    fn idle_bytes(&mut self, device: u32, named: &[u32]) -> Result<u64, Reply> {
        let submitted = self.object::<Device>(device)?.submitted;
        if self.progress(device)? < submitted {
            return Ok(0);
        }
        let idle = self.handles.iter().filter_map(|(handle, object)| match object {
            Object::Allocation(of) if of.device == device && of.count > 0 && of.locks == 0 => Some((handle, of.size)),
            _ => None,
        });
        Ok(idle.filter(|(handle, _)| !named.contains(handle)).map(|(_, size)| size).sum())
    }

    /// A device says that it can trim no further.
    fn judge_trimming(&mut self, device: u32) {
        let Ok(Object::Device(record)) = self.handles.get_mut(device) else { return };
        // Where nothing was to be trimmed, no trim would have made room.
        let would_help = |refused: &Refused| refused.num_bytes_to_trim > 0 && refused.idle_bytes > 0;
        let Some(refused) = record.refused.take().filter(would_help) else { return };
        let text = format!(
            "CantTrimFurther, and nothing was given back after a refusal with NumBytesToTrim {}, though {} bytes of idle allocations are on the list",
            refused.num_bytes_to_trim, refused.idle_bytes
        );
        self.find(Rule::NothingTrimmed, text, Some(refused.call));
    }

    pub(super) fn evict(&mut self, device: u32, handles: &[u32], flags: u32) -> Answer {
        let id = self.object::<Device>(device)?.id;
        let ids = self.allocation_ids(handles)?;
        let flags = EvictFlags::from_bits(flags).ok_or_else(|| invalid("there are no such flags"))?;
        match self.runtime.vidmm().evict(id, &ids, flags) {
            Ok(num_bytes_to_trim) => {
                let &mut Device { submitted, ref refused, .. } = self.object(device)?;
                let refused = refused.clone();
                for &handle in handles {
                    let made = self.object::<Allocation>(handle)?.made_resident;
                    let is_unused = made.submitted == submitted;
                    if let Some(refused) = refused.as_ref().filter(|of| is_unused && of.is_after_the_end_of(made)) {
                        let text = format!(
                            "{handle:#x} is evicted after call {} was refused, and no work has used it since it was made resident",
                            refused.call
                        );
                        self.find(Rule::TakenBack, text, Some(made.call));
                    }
                    let allocation = self.object::<Allocation>(handle)?;
                    (allocation.count, allocation.last_submission) = (allocation.count - 1, submitted);
                }
                self.gave_back(device);
                Ok(Reply { num_bytes_to_trim, ..Reply::default() })
            }
            Err(EvictError::NotResident { position }) => {
                let text = format!("{:#x} was evicted more often than it was made resident", handles[position]);
                self.find(Rule::EvictedTooOften, text.clone(), None);
                Err(invalid(text))
            }
            Err(error) => Err(invalid(error)),
        }
    }

    pub(super) fn reclaim(&mut self, paging_queue: u32, handles: &[u32]) -> Answer {
        let queue = self.object::<PagingQueue>(paging_queue)?.id;
        let ids = self.allocation_ids(handles)?;
        let (vidmm, _, host) = self.runtime.borrow();
        let reclaimed = vidmm.reclaim_allocations(host, queue, &ids).map_err(invalid)?;
        self.note_offered(handles, false)?;
        let value = self.owe(paging_queue, "ReclaimAllocations2", reclaimed.paging_fence_value)?;
        let mut reply = Reply::paging(value);
        reply.values.extend(reclaimed.results.into_iter().map(|result| result as u64));
        Ok(reply)
    }

    /// Allocations are offered, or not any more.
    pub(super) fn note_offered(&mut self, handles: &[u32], are_offered: bool) -> Result<(), Reply> {
        let call = self.call;
        for &handle in handles {
            self.object::<Allocation>(handle)?.offered = are_offered.then_some(call);
        }
        Ok(())
    }

    /// A notification to trim must have an effect (RES-40).
    pub(super) fn judge_trim(&mut self, device: u32) {
        let now = self.call;
        let Ok(Object::Device(record)) = self.handles.get_mut(device) else { return };
        if let Some(asked) = record.asked_to_trim.filter(|asked| now > asked.call + CALLS_TO_TRIM) {
            record.asked_to_trim = None;
            let text = format!("{} bytes were to be trimmed, and nothing was given back", asked.num_bytes_to_trim);
            self.find(Rule::TrimIgnored, text, Some(asked.call));
        }
    }
}
