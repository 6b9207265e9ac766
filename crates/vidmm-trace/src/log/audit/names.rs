//! Names: every call and every event names what lives (I27, I28).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use vidmm::event::{PrefetchReason, WantedBy};
use vidmm::{AllocationId, ContextId, DeviceId, Event, MonitoredFenceId, PagingQueueId, ProcessId, TrimNotificationId};

use super::Audit;
use super::finding::{Findings, Invariant};

macro_rules! names {
    ($($kind:ident($id:ident)),* $(,)?) => {
        /// The name of an object of any kind.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(super) enum Name {
            $($kind($id)),*
        }

        $(impl From<$id> for Name {
            fn from(id: $id) -> Self {
                Self::$kind(id)
            }
        })*

        impl fmt::Display for Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$kind(id) => id.fmt(f)),*
                }
            }
        }
    };
}

names! {
    Process(ProcessId),
    Device(DeviceId),
    Context(ContextId),
    PagingQueue(PagingQueueId),
    MonitoredFence(MonitoredFenceId),
    Allocation(AllocationId),
    TrimNotification(TrimNotificationId),
}

/// All objects that lived.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Those that live, and whose they are.
    alive: BTreeMap<Name, Option<Name>>,
    gone: BTreeSet<Name>,
}

impl Names {
    /// An object is created: a part of `owner`, which must outlive it.
    pub fn create(&mut self, name: Name, owner: Option<Name>, findings: &mut Findings) {
        let known = self.alive.insert(name, owner).is_some() || self.gone.contains(&name);
        findings.check(!known, Invariant::Log, || format!("{name} is created twice"));
    }

    /// An object becomes a part of another.
    pub fn give(&mut self, name: Name, owner: Name) {
        if let Some(of) = self.alive.get_mut(&name) {
            *of = Some(owner);
        }
    }

    /// An object is gone, and nothing of it may be left.
    pub fn remove(&mut self, name: Name, findings: &mut Findings) {
        self.check(name, findings);
        if self.alive.remove(&name).is_some() {
            self.gone.insert(name);
        }
        // Only these two have parts, and they are few.
        if matches!(name, Name::Process(_) | Name::Device(_))
            && let Some((part, _)) = self.alive.iter().find(|(_, owner)| **owner == Some(name))
        {
            findings.report(Invariant::I28, format!("{name} is gone, but {part} of it is not"));
        }
    }

    /// An event names an object.
    pub fn check(&self, name: Name, findings: &mut Findings) {
        self.check_by(Invariant::I28, name, findings);
    }

    /// An event names an object, and by a rule that must be alive.
    fn check_by(&self, rule: Invariant, name: Name, findings: &mut Findings) {
        if self.alive.contains_key(&name) {
            return;
        }
        match self.gone.contains(&name) {
            true => findings.report(rule, format!("{name} is named, but is gone")),
            false => findings.report(Invariant::Log, format!("{name} does not exist")),
        }
    }
}

impl Audit {
    /// The objects that an event names live; and no call names an allocation that its caller destroyed.
    pub(super) fn check_names(&mut self, event: &Event) {
        let is_call = matches!(
            event,
            Event::MakeResident { .. }
                | Event::MakeResidentRefused { .. }
                | Event::Evict { .. }
                | Event::Announced { .. }
                | Event::Offered { .. }
                | Event::Reclaimed { .. }
                | Event::Locked { .. }
                | Event::AllocationOpened { .. }
                | Event::AllocationPriorityChanged { .. }
                | Event::AllocationPropertyUpdated { .. }
                | Event::GpuVirtualAddressMapped { .. }
                | Event::AllocationDestroyed { .. }
                | Event::Rendered { .. }
        );
        let Self { names, allocations, findings, .. } = self;
        each_name(event, &mut |name| {
            names.check_by(if is_call { Invariant::I27 } else { Invariant::I28 }, name, findings);
            if let Name::Allocation(id) = name {
                let destroyed = is_call && allocations.get(&id).is_some_and(|allocation| allocation.destroyed);
                findings.check(!destroyed, Invariant::I27, || format!("a call names {id}, which was destroyed"));
            }
        });
    }
}

/// The objects that an event names, without those that it creates or removes. Checks of a run may name objects that are gone.
fn each_name(event: &Event, look: &mut impl FnMut(Name)) {
    macro_rules! look {
        ($($name:ident),*) => {{ $(look((*$name).into());)* }};
    }
    match event {
        Event::DeviceCreated { process, .. }
        | Event::GpuVirtualAddressReserved { process, .. }
        | Event::GpuVirtualAddressFreed { process, .. }
        | Event::GpuVirtualAddressReclaimed { process, .. }
        | Event::ProcessPriorityChanged { process, .. }
        | Event::ReservationChanged { process, .. }
        | Event::BudgetChanged { process, .. }
        | Event::ProcessTerminated { process }
        | Event::ProcessSuspended { process, .. }
        | Event::ProcessBlocked { process }
        | Event::ProcessResumed { process, .. }
        | Event::PageTablePlaced { process, .. }
        | Event::PageTableFreed { process, .. } => look!(process),
        Event::ContextCreated { device, .. }
        | Event::PagingQueueCreated { device, .. }
        | Event::Dispatched { device, .. }
        | Event::DeviceYielded { device, .. }
        | Event::DeviceSuspended { device }
        | Event::DeviceTerminated { device }
        | Event::DeviceResumed { device, .. }
        | Event::TrimNotificationRegistered { device, .. }
        | Event::DeviceInError { device, .. } => look!(device),
        Event::DeviceHeldUp { device, behind, .. } => look!(device, behind),
        Event::AllocationCreated { device, process, .. } => look!(device, process),
        Event::TrimNotified { notification, device, .. } => look!(notification, device),
        Event::AllocationOpened { allocation, device, process }
        | Event::AllocationOwnershipTransferred { allocation, device, process } => look!(allocation, device, process),
        Event::AllocationClosed { allocation, device }
        | Event::Prefetched { allocation, reason: PrefetchReason::Announced { device }, .. }
        | Event::Locked { allocation, device, .. } => {
            look!(allocation, device)
        }
        Event::Evicted { allocation, wanted_by, .. } => {
            look!(allocation);
            if let Some(WantedBy { device, request, allocation }) = *wanted_by {
                look(device.into());
                request.inspect(|request| look(request.queue.into()));
                allocation.inspect(|&allocation| look(allocation.into()));
            }
        }
        Event::AllocationPropertyUpdated { allocation, queue, .. } => look!(allocation, queue),
        Event::AllocationDestroyed { allocation, .. }
        | Event::AllocationPriorityChanged { allocation, .. }
        | Event::AllocationCounted { allocation, .. }
        | Event::ContentDiscarded { allocation, .. }
        | Event::Decommitted { allocation }
        | Event::Rotated { allocation, .. }
        | Event::Unlocked { allocation, .. }
        | Event::Placed { allocation, .. }
        | Event::Cleaned { allocation, .. }
        | Event::Prefetched { allocation, reason: PrefetchReason::Policy, .. }
        | Event::Refreshed { allocation, .. }
        | Event::IoMmuMapped { allocation, .. }
        | Event::PurgeOperation { allocation, .. }
        | Event::ContentLost { allocation, .. }
        | Event::PageFault { allocation: Some(allocation), .. } => look!(allocation),
        Event::GpuVirtualAddressMapped { process, allocation, queue, .. } => look!(process, allocation, queue),
        Event::MakeResident { device, queue, allocations, .. }
        | Event::Reclaimed { device, queue, allocations, .. } => {
            look!(device, queue);
            allocations.iter().for_each(|&allocation| look(allocation.into()));
        }
        Event::MakeResidentRefused { device, allocations, .. }
        | Event::Evict { device, allocations, .. }
        | Event::Announced { device, allocations }
        | Event::Offered { device, allocations, .. } => {
            look!(device);
            allocations.iter().for_each(|&allocation| look(allocation.into()));
        }
        Event::Submitted { device, context, waits, signals, .. } => {
            look!(device, context);
            waits.iter().chain(signals).for_each(|&(fence, _)| look(fence.into()));
        }
        Event::Rendered { device, context, allocations, waits, signals, .. } => {
            look!(device, context);
            allocations.iter().flatten().for_each(|&allocation| look(allocation.into()));
            waits.iter().chain(signals).for_each(|&(fence, _)| look(fence.into()));
        }
        Event::Portion { device, bindings, .. } => {
            look!(device);
            bindings.iter().filter_map(|binding| binding.allocation).for_each(|allocation| look(allocation.into()));
        }
        Event::MonitoredFenceCreated { device: Some(device), .. } => look!(device),
        Event::PreparationFailed { device, .. } => look!(device),
        Event::Granted { device, queue, .. } => look!(device, queue),
        Event::RootPageTableSet { context, .. } | Event::ContextPriorityChanged { context, .. } => look!(context),
        Event::PlanDecided { waits, .. } => waits.iter().for_each(|&(device, _)| look(device.into())),
        Event::PagingFenceSignaled { queue, .. } => look!(queue),
        Event::MonitoredFenceSignaled { fence, .. } => look!(fence),
        _ => {}
    }
}
