//! Answers that contradict what was answered before: a call refused for a state that nothing is in, or done although a state forbids it.
//!
//! A program may be refused anything, but not for a reason that does not hold: "not resident" of what is on the list, "locked" of what
//! is not locked. The session knows all these states by the answers alone.

use vidmm::{DeviceId, PAGE_SIZE_64K};

use crate::explicit::Session;
use crate::explicit::objects::{Allocation, Device};
use crate::scenario::steps::{
    Announce, Answer, Call, CloseAllocation, DestroyAllocation, Lock, MakeResident, Map, OpenAllocation, SetPriority,
    Unlock, UpdateProperty, Whereabouts,
};

impl Session<'_> {
    /// Judges the answer of a call by the states that follow from all answers before it.
    pub(super) fn judge_by_answers(&mut self, call: &Call, answer: Answer) {
        let broken = match answer {
            Answer::DeviceInError => self.undue_error(),
            answer if answer.is_done() => self.undue_success(call),
            answer => self.undue_refusal(call, answer),
        };
        if let Some(rule) = broken {
            self.broke(rule, format!("the answer is {answer}, which contradicts what was answered before"));
        }
    }

    /// A call that is refused changes nothing, and no event follows: there were so many before it. A refusal for want of memory is an
    /// event itself; of what is locked elsewhere, the reason why it moves; and steps that make several calls may have made some.
    pub(super) fn judge_refused(&mut self, call: &Call, answer: Answer, before: u64) {
        let is_atomic = match call {
            Call::MakeResident(_) => answer != Answer::NoMemory,
            Call::Lock(_) if answer == Answer::Busy => false,
            Call::Lock(Lock { allocations, .. })
            | Call::Unlock(Unlock { allocations })
            | Call::Map(Map { allocations, .. })
            | Call::OpenAllocation(OpenAllocation { allocations, .. })
            | Call::CloseAllocation(CloseAllocation { allocations, .. })
            | Call::DestroyAllocation(DestroyAllocation { allocations, .. })
            | Call::UpdateProperty(UpdateProperty { allocations, .. })
            | Call::SetPriority(SetPriority { allocations, .. }) => allocations.len() == 1,
            Call::Evict(_)
            | Call::Announce(_)
            | Call::Offer(_)
            | Call::Reclaim(_)
            | Call::FreeVa(_)
            | Call::ReserveVa(_)
            | Call::ReserveVideoMemory(_)
            | Call::BeginUse(_)
            | Call::EndUse(_)
            | Call::SetContextPriority(_)
            | Call::DestroyDevice(_) => true,
            _ => false,
        };
        if is_atomic && !answer.is_done() && self.num_events > before {
            self.broke("REFUSED", format!("the answer is {answer}, but event {} follows", before + 1));
        }
    }

    /// No device and no adapter is in error.
    fn undue_error(&self) -> Option<&'static str> {
        (self.errors.is_empty() && self.adapter_error.is_none() && self.doomed.is_empty()).then_some("I12")
    }

    /// Work that names an allocation which is not on its device's list, or is offered, is refused (FLT-02, RES-04).
    fn undue_success(&self, call: &Call) -> Option<&'static str> {
        let Call::Kernel(kernel) = call else { return None };
        let device = self.objects.device(kernel.device.as_deref()?).ok()?;
        let is_wrong = |name: &String| self.times_listed(device.device, name) == 0 || self.is_offered(name);
        kernel.allocations.iter().any(is_wrong).then_some("FLT-02")
    }

    /// The reason of a refusal holds for none of the allocations that the call names.
    fn undue_refusal(&self, call: &Call, answer: Answer) -> Option<&'static str> {
        let all = |names: &[String], holds: &dyn Fn(&String, &Allocation) -> bool| {
            names.iter().all(|name| self.objects.allocations.get(name).is_some_and(|known| holds(name, known)))
        };
        let of = |device: &Option<String>, names: &[String]| {
            self.objects.device_of(device.as_deref(), names).ok().map(|known: &Device| known.device)
        };
        let is_undue = match (call, answer) {
            (Call::Evict(evict), Answer::NotResident) => {
                let device = of(&evict.device, &evict.allocations)?;
                let named = |name: &String| evict.allocations.iter().filter(|&other| other == name).count() as u32;
                let is_committed = |known: &Allocation| !self.truth.is_uncommitted(known.id);
                all(&evict.allocations, &|name, known| {
                    self.times_listed(device, name) >= named(name) && is_committed(known)
                })
            }
            (Call::Kernel(kernel), Answer::NotResident) => {
                let device = of(&kernel.device, &[])?;
                all(&kernel.allocations, &|name, _| self.times_listed(device, name) > 0 && !self.is_offered(name))
            }
            (Call::MakeResident(step), Answer::Offered) => all(&step.allocations, &|name, _| !self.is_offered(name)),
            (
                Call::MakeResident(MakeResident { device, allocations, .. })
                | Call::Announce(Announce { device, allocations }),
                Answer::WrongDevice,
            ) => {
                let device = device.as_ref()?;
                // A shared allocation that its creator destroys is another's from then on (U-34).
                all(allocations, &|_, known| {
                    known.openers.contains(device) || known.device == *device && known.openers.is_empty()
                })
            }
            (Call::Offer(step), Answer::Offered) => all(&step.allocations, &|name, _| !self.is_offered(name)),
            (Call::Offer(step), Answer::Locked) => all(&step.allocations, &|_, known| known.lock.is_none()),
            (Call::Offer(step), Answer::Shared) => all(&step.allocations, &|_, known| known.openers.is_empty()),
            (Call::Reclaim(step), Answer::NotOffered) => all(&step.allocations, &|name, _| self.can_be_reclaimed(name)),
            (Call::Lock(step), Answer::Offered) => all(&step.allocations, &|name, _| !self.is_offered(name)),
            // The CPU sees all system memory (RES-82), and no list is to wait for an unlock (D30).
            (Call::Lock(step), Answer::NotLockable) => all(&step.allocations, &|name, known| {
                self.truth.whereabouts(known.id) != Whereabouts::Local && !self.is_wanted(name, known)
            }),
            (Call::Unlock(step), Answer::NotLocked) => all(&step.allocations, &|_, known| known.lock.is_some()),
            (Call::CloseAllocation(step), Answer::NotOpen) => {
                all(&step.allocations, &|_, known| known.openers.contains(&step.device))
            }
            (Call::MakeResident(step), Answer::NotCommitted) => {
                all(&step.allocations, &|_, known| !self.truth.is_uncommitted(known.id))
            }
            (Call::Lock(step), Answer::NotCommitted) => {
                all(&step.allocations, &|_, known| !self.truth.is_uncommitted(known.id))
            }
            (Call::CreateAllocation(step), Answer::NotSupported) => {
                step.alignment.is_none_or(|alignment| alignment.bytes() <= PAGE_SIZE_64K)
            }
            // The driver and the system are right, and have memory.
            (_, Answer::Kmd | Answer::Allocation | Answer::BackingStore | Answer::Engine | Answer::Violation) => {
                self.rules.as_ref().is_some_and(|rules| !rules.may_fail)
            }
            _ => false,
        };
        is_undue.then_some("ANSWERS")
    }

    fn times_listed(&self, device: DeviceId, name: &str) -> u32 {
        let lists = self.rules.as_ref().map(|rules| &rules.lists);
        lists.and_then(|lists| lists.get(&(device, name.to_owned()))).copied().unwrap_or(0)
    }

    /// Whether the list of any device names an allocation, or may have named the allocation for work that has not ended.
    fn is_wanted(&self, name: &str, known: &Allocation) -> bool {
        let lists = || self.rules.iter().flat_map(|rules| &rules.lists).filter(|((_, listed), _)| listed == name);
        let is_listed = lists().any(|(_, &count)| count > 0);
        let had_it = |id: DeviceId| lists().any(|((device, _), _)| *device == id);
        let has_work = |id: DeviceId| {
            let mut kernels = self.objects.waiting.values().flatten().map(|&kernel| &self.objects.kernels[kernel]);
            kernels.any(|kernel| kernel.device == id)
        };
        let has_it = |(name, device): &(&String, &Device)| {
            known.device == **name || known.openers.contains(name) || had_it(device.device)
        };
        let mut devices = self.objects.devices.iter().filter(has_it);
        is_listed || !self.objects.uses.is_empty() || devices.any(|(_, device)| has_work(device.device))
    }

    fn is_offered(&self, name: &str) -> bool {
        self.objects.allocations.get(name).is_some_and(|known| self.truth.may_lose_content(known.id))
    }

    fn can_be_reclaimed(&self, name: &str) -> bool {
        let known = self.objects.allocations.get(name);
        self.is_offered(name) && known.is_some_and(|known| !self.truth.is_uncommitted(known.id))
    }
}
